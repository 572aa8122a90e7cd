#include "infer/gpt_export.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorOptions.h>

#include <filesystem>
#include <random>
#include <system_error>

#include "config/gpt_config.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/strings.h"
#include "infer/gpt_source.h"
#include "models/gpt/gpt_weights.h"
#include "models/weights_folder.h"

namespace lockstep::infer {
namespace fs = std::filesystem;
namespace {

void require_done(const std::error_code& failure, std::string_view what, const fs::path& path) {
  if (failure)
    throw EnvironmentError(fmt::format("infer: cannot {} '{}': {}", what, path.string(), failure.message()),
                           "is the disk full, or the folder not yours to write in?");
}

/// A folder under construction beside the one that commit() makes of it; removed without.
class StagedFolder {
 public:
  explicit StagedFolder(const fs::path& folder) : folder_(folder) {
    std::error_code failure;
    if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), failure);
    require_done(failure, "make the folder", folder.parent_path());
    std::random_device random;
    do staged_ = folder.string() + fmt::format(".partial-{:08x}", random());
    while (!fs::create_directory(staged_, failure) && !failure);  // what is there may be a link that others put there
    require_done(failure, "make the folder", staged_);
  }
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder() {
    std::error_code ignored;
    fs::remove_all(staged_, ignored);
  }
  const fs::path& path() const { return staged_; }
  void commit() const {
    std::error_code failure;
    fs::rename(staged_, folder_, failure);
    require_done(failure, "move the finished files to", folder_);
  }

 private:
  fs::path folder_, staged_;
};

GptSource find_source(const config::CkptOptions& options) {
  config::GenerateOptions wanted;
  wanted.pretrained = options.path;
  wanted.model = options.model;
  wanted.tokenizer_model = options.tokenizer_model;
  return find_gpt(wanted);
}

std::unique_ptr<models::GptModel> load_as_stored(const GptSource& source) {
  return load_gpt(source, at::TensorOptions().dtype(stored_type(source)));
}

/// As PyTorch calls it.
std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return "float32";
    case at::kBFloat16: return "bfloat16";
    case at::kHalf: return "float16";
    case at::kDouble: return "float64";
    default:
      throw DataError(fmt::format("infer: weights of type {} have no class at Hugging Face", c10::toString(type)),
                      "expected floating-point numbers of 16, 32 or 64 bits");
  }
}

constexpr const char* kJsonClass = "PreTrainedTokenizerFast";  // of tokenizer.json

/// A tokenizer as files that transformers' AutoTokenizer finds in a model's folder.
struct TokenizerFolder {
  std::vector<std::pair<fs::path, std::string>> files;  // where each lies, and its name there
  std::string class_name;
};

TokenizerFolder tokenizer_folder(const data::TokenizerFiles& files) {
  const fs::path model = files.model;
  if (core::ends_with(files.model, ".model")) return {{{model, "tokenizer.model"}}, "LlamaTokenizer"};
  const bool is_folder = fs::is_directory(model);
  if (!files.model.empty() && !is_folder) return {{{model, "tokenizer.json"}}, kJsonClass};
  if (is_folder && fs::exists(model / "tokenizer.json"))
    return {{{model / "tokenizer.json", "tokenizer.json"}}, kJsonClass};
  const fs::path vocab = is_folder ? model / "vocab.json" : fs::path(files.vocab_file),
                 merges = is_folder ? model / "merges.txt" : fs::path(files.merge_file);
  return {{{vocab, "vocab.json"}, {merges, "merges.txt"}}, "GPT2Tokenizer"};
}

void copy_whole(const fs::path& from, const fs::path& to) { core::write_file_atomic(to, core::read_file(from)); }

/// Copies the tokenizer's files, and says how transformers is to read them where nobody has said so yet.
void write_tokenizer(const GptSource& source, const data::TextTokenizer& tokenizer, const fs::path& folder) {
  constexpr const char* kConfig = "tokenizer_config.json";
  const TokenizerFolder tokens = tokenizer_folder(source.tokenizer);
  for (const auto& [from, name] : tokens.files) copy_whole(from, folder / name);
  const fs::path origin = tokens.files.front().first.parent_path();
  for (const char* name : {kConfig, "special_tokens_map.json"})
    if (fs::exists(origin / name)) copy_whole(origin / name, folder / name);
  if (tokens.class_name != kJsonClass && config::hugging_face_dialect(source.shape) == config::GptDialect::kHfNemotron)
    core::log_warning(
        "AutoTokenizer of transformers 5 knows tokenizer.json alone beside Nemotron models: open {} with "
        "{}.from_pretrained",
        tokens.files.front().second, tokens.class_name);
  if (fs::exists(folder / kConfig)) return;
  const auto eod = tokenizer.eod();
  const std::string eod_text = eod ? tokenizer.decode(std::vector<int32_t>{*eod}) : "";
  core::Json config = {{"tokenizer_class", tokens.class_name},
                       {"model_max_length", source.shape.max_positions},
                       {"clean_up_tokenization_spaces", false}};
  if (tokens.class_name == "LlamaTokenizer") {
    // as the texts were encoded for training
    config["add_bos_token"] = config["add_eos_token"] = config["legacy"] = false;
  } else {
    for (const char* key : {"bos_token", "eos_token", "unk_token"})
      config[key] = eod_text.empty() ? core::Json(nullptr) : core::Json(eod_text);
  }
  core::write_file_atomic(folder / kConfig, config.dump(2) + "\n");
}

void require_new(const fs::path& folder) {
  if (fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder)))
    throw UsageError(fmt::format("infer: '{}' is there already", folder.string()),
                     "name a folder that is not there, or an empty one");
}

/// Returns the number of tensors.
size_t write_hugging_face(GptSource& source, const fs::path& output) {
  const config::GptDialect dialect = config::hugging_face_dialect(source.shape);
  const auto tokenizer = open_tokenizer(source);
  if (!tokenizer) core::log_warning("no tokenizer is known: '{}' will have none", output.string());
  const std::string dtype = dtype_name(stored_type(source));
  const models::NamedValues values = models::take_gpt_values(load_as_stored(source), dialect);
  const StagedFolder staged(output.has_filename() ? output : output.parent_path());
  models::write_weights_safetensors(staged.path() / models::kWeightsName, values, {{"format", "pt"}});
  const std::optional<int32_t> bos = source.bos_id || source.eod_ids.empty()
                                         ? source.bos_id
                                         : std::optional(source.eod_ids.front());  // what texts began behind
  const core::Json config =
      config::hugging_face_config(source.shape, {.eos_ids = source.eod_ids, .bos_id = bos, .dtype = dtype});
  core::write_file_atomic(staged.path() / "config.json", config.dump(2) + "\n");
  if (tokenizer) write_tokenizer(source, *tokenizer, staged.path());
  staged.commit();
  return values.size();
}

size_t write_megatron(const GptSource& source, const fs::path& output) {
  const models::NamedValues values = models::take_gpt_values(load_as_stored(source), config::GptDialect::kMegatron);
  models::write_weights_safetensors(output, values);
  return values.size();
}

}  // namespace

void export_gpt(const config::CkptOptions& options) {
  const bool is_megatron = options.names == "megatron";
  if (!is_megatron) require_new(options.output);  // before checkpoints are read
  GptSource source = find_source(options);
  const size_t num_tensors =
      is_megatron ? write_megatron(source, options.output) : write_hugging_face(source, options.output);
  core::log_info("{} of '{}' -> {}", core::counted(num_tensors, "tensor"), source.weights.string(), options.output);
}

models::NamedValues own_gpt_values(const config::CkptOptions& options) {
  const auto model = load_as_stored(find_source(options));
  return models::named_values(*model);  // handles, which keep the tensors
}

}  // namespace lockstep::infer
