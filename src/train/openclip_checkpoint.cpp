#include "train/openclip_checkpoint.h"

#include <ATen/ATen.h>

#include <array>
#include <map>
#include <set>

#include "checkpoint/manifest.h"
#include "config/param_list.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "data/train_stream.h"
#include "models/weights.h"
#include "train/checkpoint_files.h"
#include "train/checkpointer.h"
#include "train/stored_tensors.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

constexpr std::array kMoments{"exp_avg", "exp_avg_sq"};
constexpr const char* kStep = "step";

/// Names of parameters by OpenCLIP's numbers: those that do not decay come first.
std::vector<std::string> numbered(const models::NamedValues& state_dict, const std::set<std::string>& trained) {
  std::vector<std::string> plain, decaying;
  for (const auto& [name, tensor] : state_dict)
    if (trained.contains(name))
      (config::decays_in_openclip(name, tensor.sizes().vec()) ? decaying : plain).push_back(name);
  plain.insert(plain.end(), decaying.begin(), decaying.end());
  return plain;
}

std::set<std::string> trained_names(const CheckpointState& state) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : state.tensors)
    if (tensor->requires_grad()) names.insert(name);
  return names;
}

[[noreturn]] void refuse(const fs::path& file, const std::string& what, const std::string& hint) {
  throw CheckpointError(fmt::format("train: '{}' cannot be continued: {}", file.string(), what), hint);
}

void require_plain_adamw(const fs::path& file, const CheckpointState& state) {
  const auto names = state.optimizer->state_names();
  if (std::set<std::string>(names.begin(), names.end()) != std::set<std::string>{kMoments[0], kMoments[1], kStep})
    refuse(file, "this run's optimiser does not keep what AdamW keeps", "use --opt adamw");
  std::map<std::string, at::ScalarType> types;
  for (const auto& [name, tensor] : state.tensors) types.emplace(name, tensor->scalar_type());
  for (const auto& segment : state.optimizer->segments())
    if (segment.parameter.scalar_type() != types.at(segment.name))
      refuse(file, "it has no fp32 copies of 16-bit weights", "use a --precision of OpenCLIP: amp, amp_bf16, fp32");
}

/// What `read` makes of the file. CheckpointError where it cannot be read: whether it is good is not known.
template <typename Read> auto read_checkpoint_file(const fs::path& file, const Read& read) {
  const auto refuse_unread = [&](const EnvironmentError& error) {
    throw CheckpointError(fmt::format("train: checkpoint '{}' cannot be read: {}", file.string(), error.what()),
                          error.hint());
  };
  try {
    return read(file);
  } catch (const EnvironmentError& error) {
    refuse_unread(error);
    throw;
  } catch (const fs::filesystem_error& error) {
    refuse_unread(core::as_environment_error(error));
    throw;
  }
}

/// The optimiser's tensors under our names, of the shapes of the parameters.
models::NamedValues optimizer_values(const fs::path& file, const models::PtOptimizer& saved,
                                     const std::vector<std::string>& names,
                                     const std::map<std::string, at::Tensor>& parameters) {
  size_t num_saved = 0;
  for (const auto& group : saved.groups) num_saved += group.parameters.size();
  if (saved.groups.size() != 2 || num_saved != names.size())
    refuse(file,
           fmt::format("its optimizer has parameters={} in groups={}, this run trains {} in 2", num_saved,
                       saved.groups.size(), names.size()),
           "resume with the --lock-* flags the run was started with; only --opt adamw can be continued");
  std::vector<int64_t> numbers;
  for (const auto& group : saved.groups)
    numbers.insert(numbers.end(), group.parameters.begin(), group.parameters.end());
  models::NamedValues out;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto entry = saved.state.find(numbers[i]);
    if (entry == saved.state.end())
      refuse(file, fmt::format("its optimizer has no state of parameter {} ('{}')", numbers[i], names[i]),
             "start from its weights alone with --pretrained");
    for (const char* kind : kMoments) {
      const auto value = entry->second.find(kind);
      const at::Tensor& parameter = parameters.at(names[i]);
      if (value == entry->second.end() || value->second.numel() != parameter.numel())
        refuse(file, fmt::format("its {} of '{}' is missing or of another size", kind, names[i]),
               "start from its weights alone with --pretrained");
      out.emplace_back(fmt::format("{}.{}", kind, names[i]), value->second.reshape(parameter.sizes()));
    }
    const auto step = entry->second.find(kStep);
    if (step == entry->second.end() || step->second.numel() != 1)
      refuse(file, fmt::format("its step of '{}' is missing", names[i]), "start from its weights with --pretrained");
    out.emplace_back(fmt::format("{}.{}", kStep, names[i]), step->second.reshape({}).to(at::kFloat));
  }
  return out;
}

}  // namespace

bool is_openclip_checkpoint(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path, failure) && path.extension() == ".pt";
}

void import_openclip_checkpoint(const fs::path& file, const fs::path& folder, const CheckpointState& state,
                                const EpochLength& epoch) {
  require_plain_adamw(file, state);
  const models::PtCheckpoint saved = read_checkpoint_file(file, models::read_pt_checkpoint);
  if (!saved.optimizer || !saved.model.epoch)
    refuse(file, "it holds weights alone, no epoch and no optimizer", "start from them with --pretrained");
  const models::WeightFile weights = models::normalised_weights(file, saved.model);
  std::map<std::string, at::Tensor> own;
  models::NamedValues targets;
  for (const auto& [name, tensor] : state.tensors) {
    own.emplace(name, tensor->detach());
    targets.emplace_back(name, tensor->detach());
  }
  const models::NamedValues state_dict = models::names_of_model(targets, weights);

  models::NamedValues model;
  for (const auto& [name, value] : state_dict) model.emplace_back(name, value.reshape(own.at(name).sizes()));
  std::set<std::string> present;
  for (const auto& [name, value] : model) present.insert(name);
  for (const auto& [name, value] : targets)  // what OpenCLIP's older files do not have: counters, a bias of 0
    if (!present.contains(name)) model.emplace_back(name, at::zeros_like(value, at::kCPU));
  const auto optimizer = optimizer_values(file, *saved.optimizer, numbered(state_dict, trained_names(state)), own);

  fs::create_directories(folder);
  models::write_weights_safetensors(folder / "model.safetensors", model);
  models::write_weights_safetensors(folder / "optimizer.safetensors", optimizer);
  checkpoint::CheckpointManifest manifest;
  manifest.epoch = *saved.model.epoch;
  manifest.step = manifest.epoch * epoch.steps;
  manifest.samples_seen = manifest.epoch * epoch.samples;
  manifest.data_position = data::position_after_epochs(manifest.epoch, manifest.samples_seen);
  manifest.created_s = core::unix_seconds();
  manifest.extra = core::Json::object();
  if (saved.scaler)
    manifest.extra["loss_scaler"] = {{"scale", saved.scaler->scale}, {"growth_tracker", saved.scaler->growth_tracker}};
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    manifest.files.push_back(checkpoint::describe_file(folder, name));
  checkpoint::write_manifest(folder, manifest);
}

std::optional<optim::AdamWConfig> openclip_adamw(const fs::path& file) {
  const auto tuning = read_checkpoint_file(file, models::read_pt_tuning);
  if (!tuning) return std::nullopt;
  return optim::AdamWConfig{
      .beta1 = tuning->beta1, .beta2 = tuning->beta2, .epsilon = tuning->epsilon, .weight_decay = tuning->weight_decay};
}

std::optional<optim::AdamWConfig> adamw_of(const checkpoint::CheckpointManifest& manifest) {
  const core::Json facts = callers_extra(manifest);
  if (!facts.contains(kAdamWKey)) return std::nullopt;
  return adamw_from_json(facts.at(kAdamWKey));
}

core::Json to_json(const optim::AdamWConfig& adamw) {
  return {{"beta1", adamw.beta1}, {"beta2", adamw.beta2}, {"eps", adamw.epsilon}, {"weight_decay", adamw.weight_decay}};
}

optim::AdamWConfig adamw_from_json(const core::Json& json) {
  try {
    return {.beta1 = json.at("beta1"),
            .beta2 = json.at("beta2"),
            .epsilon = json.at("eps"),
            .weight_decay = json.at("weight_decay")};
  } catch (const core::Json::exception& error) {
    throw CheckpointError(fmt::format("train: a checkpoint does not say the numbers of AdamW: {}", error.what()));
  }
}

std::optional<models::PtScaler> openclip_scaler(const checkpoint::CheckpointManifest& manifest) {
  if (!manifest.extra.contains("loss_scaler")) return std::nullopt;
  const core::Json& scaler = manifest.extra.at("loss_scaler");
  return models::PtScaler{.scale = scaler.at("scale"), .growth_tracker = scaler.at("growth_tracker")};
}

std::optional<models::PtOptimizer> openclip_optimizer(const fs::path& folder, const models::NamedValues& state_dict,
                                                      models::PtParamGroup tuning) {
  const auto manifest = checkpoint::read_manifest(folder);
  if (const auto taken = adamw_of(manifest)) {
    tuning.beta1 = taken->beta1;
    tuning.beta2 = taken->beta2;
    tuning.epsilon = taken->epsilon;
    tuning.weight_decay = taken->weight_decay;
  }
  const auto files = optimizer_files(manifest);
  if (files.empty()) return std::nullopt;
  StoredTensors stored(folder, files);
  std::set<std::string> trained;
  for (const auto& [name, tensor] : state_dict)
    if (stored.has(fmt::format("{}.{}", kMoments[0], name))) trained.insert(name);
  models::PtOptimizer out;
  out.groups.resize(2, tuning);
  out.groups[0].weight_decay = 0;
  const auto names = numbered(state_dict, trained);
  std::map<std::string, at::Tensor> shapes;
  for (const auto& [name, tensor] : state_dict) shapes.emplace(name, tensor);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    const at::Tensor& parameter = shapes.at(names[i]);
    const bool decays = config::decays_in_openclip(names[i], parameter.sizes().vec());
    out.groups[decays ? 1 : 0].parameters.push_back(number);
    for (const char* kind : kMoments) {
      const std::string name = fmt::format("{}.{}", kind, names[i]);
      if (!stored.has(name))
        throw CheckpointError(fmt::format("ckpt: '{}' has no {}: its optimiser is not AdamW", folder.string(), name),
                              "export the weights alone: --format openclip-pt without --with-optimizer");
      const at::Tensor value = at::empty(parameter.sizes(), at::kFloat);
      stored.read(name, part_of(value, {}, name), flat_memory(value));
      out.state[number][kind] = value;
    }
    const at::Tensor step = at::empty({}, at::kFloat);
    stored.read(fmt::format("{}.{}", kStep, names[i]), part_of(step, {}, kStep), flat_memory(step));
    out.state[number][kStep] = step;
  }
  return out;
}

}  // namespace lockstep::train
