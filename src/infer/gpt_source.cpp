#include "infer/gpt_source.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

#include "config/hub_names.h"
#include "core/error.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "models/gpt/gpt_weights.h"
#include "models/weights_folder.h"
#include "models/weights_tensors.h"
#include "record/reader.h"
#include "tasks/gpt/front/gpt_recorded.h"
#include "train/checkpoint_files.h"
#include "train/weight_file.h"

namespace lockstep::infer {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConfigName = "config.json";

bool is_run(const fs::path& folder) { return fs::exists(folder / "run.json") || fs::exists(folder / "checkpoints"); }
bool is_checkpoint(const fs::path& folder) { return fs::exists(folder / checkpoint::kManifestName); }

/// The folder of the run that a checkpoint belongs to: <run>/checkpoints/step-*.
fs::path run_of(const fs::path& checkpoint) {
  return fs::absolute(checkpoint / "").parent_path().parent_path().parent_path();
}

/// A token id, or several, of a configuration of Hugging Face; none where it is null or absent.
std::vector<int32_t> read_ids(const core::Json& config, const char* key, const fs::path& path) {
  std::vector<int32_t> ids;
  const core::Json value = config.value(key, core::Json(nullptr));
  if (value.is_null()) return ids;
  for (const core::Json& id : value.is_array() ? value : core::Json::array({value})) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      throw DataError(fmt::format("infer: '{}': {} is {}, expected token ids", path.string(), key, value.dump()),
                      "null or nothing where there is no such token");
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

/// What config.json says of the shape and of special tokens; generation_config.json, which is about this very use, goes
/// before it.
void read_config(const fs::path& path, bool with_shape, GptSource& source) {
  if (with_shape) source.shape = config::resolve_gpt_shape(path.string());
  for (const fs::path& file : {path.parent_path() / "generation_config.json", path}) {
    if (!fs::exists(file)) continue;
    const core::Json config = core::read_json_file(file);
    if (!config.is_object())
      throw DataError(fmt::format("infer: '{}' is no JSON object", file.string()), "copy the file again");
    if (source.eod_ids.empty()) source.eod_ids = read_ids(config, "eos_token_id", file);
    const auto bos = read_ids(config, "bos_token_id", file);
    if (!source.bos_id && !bos.empty()) source.bos_id = bos.front();
  }
}

/// A model that is named beside a run must be the run's.
void check_named_model(const config::GptShape& named, const config::GptShape& recorded, const std::string& where) {
  const auto sizes = [](const config::GptShape& s) {
    return fmt::format("{} layers, width {}, {} tokens", s.layers, s.hidden, s.vocab);
  };
  if (sizes(named) != sizes(recorded))
    throw UsageError(
        fmt::format("infer: --model '{}' has {}, the run of '{}' {}", named.name, sizes(named), where, sizes(recorded)),
        "leave --model out: a run says which model it trained");
}

/// What the newest attempt of a run recorded.
void read_run_options(const fs::path& run, bool with_shape, GptSource& source) {
  const core::Json attempts = record::read_run(run).attempts;
  const std::string where = (run / "run.json").string();
  const core::Json task = attempts.empty() ? core::Json("nothing") : attempts.back().value("task", core::Json(nullptr));
  if (task != "gpt")
    throw CheckpointError(
        fmt::format("infer: '{}' is the record of the task {}, expected \"gpt\"", where, task.dump()),
        "`infer embed` and `infer classify` take CLIP and CLAP models, `ckpt export --names` CLAP's with --model");
  const tasks::GptOptions options =
      tasks::recorded_gpt_options(attempts.back().value("options", core::Json::object()), where);
  if (with_shape)
    source.shape = tasks::gpt_shape_of(options);
  else
    check_named_model(source.shape, tasks::gpt_shape_of(options), where);
  source.tokenizer = {
      .model = options.tokenizer_model, .vocab_file = options.vocab_file, .merge_file = options.merge_file};
  const bool is_null_tokenizer = options.mock_data || options.tokenizer_type == "NullTokenizer";
  if (is_null_tokenizer) source.eod_ids = {static_cast<int32_t>(source.shape.vocab - 1)};
}

data::TokenizerFiles tokenizer_beside(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (fs::exists(folder / name)) return {.model = (folder / name).string()};
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt"))
    return {.vocab_file = (folder / "vocab.json").string(), .merge_file = (folder / "merges.txt").string()};
  return {};
}

bool has_tokenizer(const data::TokenizerFiles& files) {
  return !files.model.empty() || !files.vocab_file.empty() || !files.merge_file.empty();
}

std::vector<fs::path> files_of(const fs::path& weights) {
  if (!is_checkpoint(weights))
    return fs::is_directory(weights) ? models::weight_files(weights) : std::vector<fs::path>{weights};
  std::vector<fs::path> files;
  for (const std::string& name : train::model_files(checkpoint::read_manifest(weights)))
    files.push_back(weights / name);
  return files;
}

std::vector<at::ScalarType> types_in(const fs::path& path) {
  std::vector<at::ScalarType> types;
  if (path.extension() == ".safetensors") {  // whose head is enough
    for (const auto& entry : core::SafetensorsFile(path).entries())
      if (const auto type = models::scalar_type_of(entry.dtype)) types.push_back(*type);
  } else {
    for (const auto& [name, tensor] : models::read_weights(path).tensors) types.push_back(tensor.scalar_type());
  }
  return types;
}

/// From the files of a checkpoint, whichever mesh wrote them.
void load_checkpoint(models::GptModel& model, const fs::path& folder) {
  train::CheckpointState state{.tensors = model.named_parameters()};
  for (const config::ParamSpec& parameter : model.param_specs()) {
    state.layout.places.emplace(parameter.name, train::TensorPlace{.whole = parameter.shape,
                                                                   .num_rows = config::is_vocab_table(parameter)
                                                                                   ? std::optional(model.shape().vocab)
                                                                                   : std::nullopt});
  }
  train::read_model_of(folder, state);
}

void load_file_or_folder(models::GptModel& model, const fs::path& path) {
  const models::WeightFile weights =
      fs::is_directory(path) ? models::read_weight_folder(path) : models::read_weights(path);
  const bool is_own = std::any_of(weights.tensors.begin(), weights.tensors.end(), [](const auto& entry) {
    return entry.first == config::kGptWordEmbedding;
  });  // under this name in checkpoints, under no other program's
  if (is_own)
    models::load_weights(model, weights);
  else
    models::load_gpt_weights(model, weights);
}

}  // namespace

GptSource find_gpt(const config::GenerateOptions& options) {
  const fs::path named = options.pretrained;
  if (!fs::exists(named))
    throw CheckpointError(
        fmt::format("infer: --pretrained '{}' does not exist", options.pretrained),
        config::hint_for_name(
            options.pretrained, "name the folder with --pretrained",
            "name a folder of Hugging Face, the folder of a run of `train gpt` (<logs>/<name>), or a file of weights"));
  const bool is_folder = fs::is_directory(named), is_of_run = is_folder && (is_checkpoint(named) || is_run(named));
  GptSource source;
  source.weights = is_of_run ? train::checkpoint_folder(named) : named;
  const fs::path folder = is_folder ? source.weights : source.weights.parent_path();
  const fs::path run = is_checkpoint(folder) ? run_of(folder) : fs::path();
  const bool with_shape = options.model.empty();
  if (!with_shape) source.shape = config::resolve_gpt_shape(options.model);
  if (!run.empty() && fs::exists(run / "run.json"))
    read_run_options(run, with_shape, source);
  else if (fs::exists(folder / kConfigName))
    read_config(folder / kConfigName, with_shape, source);
  else if (with_shape)
    throw UsageError(fmt::format("infer: the shape of the model in '{}' is not known: {} is not there",
                                 options.pretrained, run.empty() ? kConfigName : "the run's run.json"),
                     "give it with --model NAME or --model config.json");
  if (!has_tokenizer(source.tokenizer)) source.tokenizer = tokenizer_beside(folder);
  const data::TokenizerFiles given{
      .model = options.tokenizer_model, .vocab_file = options.vocab_file, .merge_file = options.merge_file};
  if (has_tokenizer(given)) source.tokenizer = given;
  source.tokenizer.eod_token = options.eod_token;
  return source;
}

std::unique_ptr<models::GptModel> load_gpt(const GptSource& source, const at::TensorOptions& tensors) {
  auto model = std::make_unique<models::GptModel>(source.shape, config::whole_gpt(source.shape), nn::ShardCtx{},
                                                  models::GptModelOptions{.tensors = tensors});
  if (is_checkpoint(source.weights))
    load_checkpoint(*model, source.weights);
  else
    load_file_or_folder(*model, source.weights);
  model->set_training(false);
  return model;
}

at::ScalarType stored_type(const GptSource& source) {
  std::optional<at::ScalarType> type;
  for (const fs::path& file : files_of(source.weights))
    for (const at::ScalarType each : types_in(file))
      if (at::isFloatingType(each)) type = type ? at::promoteTypes(*type, each) : each;
  if (!type) throw DataError(fmt::format("infer: '{}' holds no floating-point weights", source.weights.string()));
  return *type;
}

std::unique_ptr<data::TextTokenizer> open_tokenizer(GptSource& source) {
  if (!has_tokenizer(source.tokenizer)) return nullptr;
  auto tokenizer = data::open_text_tokenizer(source.tokenizer);
  if (tokenizer->vocab_size() > source.shape.vocab)
    throw UsageError(
        fmt::format("infer: the tokenizer has {} tokens, the model {}", tokenizer->vocab_size(), source.shape.vocab),
        "give the tokenizer that the model was trained with");
  if (const auto eod = tokenizer->eod(); eod && std::count(source.eod_ids.begin(), source.eod_ids.end(), *eod) == 0)
    source.eod_ids.insert(source.eod_ids.begin(), *eod);
  return tokenizer;
}

}  // namespace lockstep::infer
