#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "checkpoint/manifest.h"
#include "cli/engine/commands.h"
#include "config/clip_shape.h"
#include "config/contrastive_shape.h"
#include "config/hub_names.h"
#include "config/weights_config.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "infer/gpt_export.h"
#include "models/clap/clap_weights.h"
#include "models/openclip_order.h"
#include "models/weights.h"
#include "models/weights_pt.h"
#include "nn/init.h"
#include "optim/averaged.h"
#include "tasks/contrastive/front/recorded_model.h"
#include "tasks/tasks.h"
#include "train/checkpoint_files.h"
#include "train/openclip_checkpoint.h"
#include "train/stored_tensors.h"
#include "train/weight_file.h"

namespace lockstep::cli {
namespace fs = std::filesystem;

namespace {
models::ClapNaming naming_of(const std::string& names) {
  if (names == "openclip") return models::ClapNaming::kOpenClip;
  return names == "huggingface" ? models::ClapNaming::kHuggingFace : models::ClapNaming::kLaion;
}

/// A CLIP's weights, whatever prefix their text tower has, under the names of OpenCLIP's class of that model.
models::NamedValues openclip_values(const models::WeightFile& weights, const config::ClipShape& shape) {
  models::NamedValues targets;
  for (const auto& spec : config::clip_param_specs(shape))
    targets.emplace_back(spec.name, at::empty(spec.shape, at::TensorOptions().device(at::kMeta)));
  return models::in_openclip_order(models::names_of_model(targets, weights));
}

/// CLAP weights under other names, with the entries that those programs expect; what the file does not have is drawn.
models::NamedValues renamed(const models::WeightFile& weights, const config::CkptOptions& options) {
  if (!config::is_clap_model(options.model)) return openclip_values(weights, config::resolve_clip_shape(options.model));
  const config::ClapShape shape = config::resolve_clap_shape(options.model);
  models::ClapModel model(shape, {});
  nn::initialize(model, model.param_specs(), /*seed=*/0);
  models::load_clap_weights(model, weights);
  auto values = models::clap_values(model, naming_of(options.names));
  std::set<std::string> present;
  for (const auto& [name, tensor] : models::to_laion_names(weights, shape).tensors) present.insert(name);
  std::set<std::string> drawn;
  for (const auto& spec : model.param_specs())
    if (spec.is_carried && !present.contains(spec.name)) drawn.insert(spec.name.substr(0, spec.name.rfind('.')));
  if (!drawn.empty() && options.names != "openclip")
    core::log_warning("'{}' has no {}: what is written for them is made up", options.path, fmt::join(drawn, ", "));
  return values;
}
/// The weights that the user named; those of a checkpoint in parts are put together.
models::WeightFile read_input(const config::CkptOptions& options, checkpoint::CheckpointManifest& manifest) {
  const fs::path file = train::weight_file(options.path, manifest);
  if (fs::exists(file)) return models::read_weights(file);
  return {.path = file, .tensors = infer::own_gpt_values(options), .ignored = {}, .epoch = {}};
}

/// Replaces weights and running statistics by the averages that the checkpoint `folder` keeps of them.
void take_averages(models::NamedValues& weights, const fs::path& folder,
                   const checkpoint::CheckpointManifest& manifest) {
  const auto files = train::optimizer_files(manifest);
  train::StoredTensors stored(folder, files);
  int64_t num_taken = 0;
  for (auto& [name, tensor] : weights) {
    const std::string average = fmt::format("{}.{}", optim::kAverageState, name);
    if (files.empty() || !stored.has(average)) continue;
    const at::Tensor value = at::empty(tensor.sizes(), tensor.options());
    stored.read(average, train::part_of(value, {}, average), train::flat_memory(value));
    tensor = value;
    ++num_taken;
  }
  if (num_taken == 0)
    throw CheckpointError(fmt::format("ckpt: '{}' keeps no averages of its weights", folder.string()),
                          "leave out --model-ema; training keeps them with `train imagenet --model-ema`");
}

/// The state of the optimiser beside the weights that were read.
std::optional<models::PtOptimizer> optimizer_beside(const models::WeightFile& weights,
                                                    const config::CkptOptions& options) {
  if (!options.with_optimizer) return std::nullopt;
  const auto recorded = tasks::recorded_optimizer(weights.path.string());
  if (!recorded || recorded->name != "adamw")
    throw CheckpointError(fmt::format("ckpt: the record beside '{}' tells of no run of `train clip` with --opt adamw",
                                      weights.path.string()),
                          "name the run's folder; OpenCLIP continues AdamW alone");
  if (recorded->has_update_groups)
    throw CheckpointError(
        fmt::format("ckpt: the run of '{}' has layer decay, --wd-exclude or --split-opt: OpenCLIP 3.3.0 would go on "
                    "with one learning rate and its own rule of weight decay",
                    weights.path.string()),
        "export the weights alone, without --with-optimizer");
  auto optimizer = train::openclip_optimizer(weights.path.parent_path(), weights.tensors,
                                             {.parameters = {},
                                              .lr = recorded->lr,
                                              .beta1 = recorded->beta1,
                                              .beta2 = recorded->beta2,
                                              .epsilon = recorded->epsilon,
                                              .weight_decay = recorded->weight_decay});
  if (!optimizer)
    throw CheckpointError(fmt::format("ckpt: '{}' has no optimiser", weights.path.parent_path().string()),
                          "export the weights alone, without --with-optimizer");
  return optimizer;
}

/// What a task says of its weights; null where none does.
core::Json config_of(const std::string& weights) {
  for (const tasks::FrontTaskRow& task : tasks::front_tasks())
    if (task.weights_config != nullptr)
      if (core::Json json = task.weights_config(weights); !json.is_null()) return json;
  return nullptr;
}

std::string json_text(const core::Json& json, int indent) {
  return json.dump(indent, ' ', false, core::Json::error_handler_t::replace);
}

std::map<std::string, std::string> metadata_of(const core::Json& config) {
  if (config.is_null()) return {};
  return {{"format", "pt"}, {config::kWeightsConfigKey, json_text(config, -1)}};
}

/// Where that goes: PyTorch's files have no place for it, and timm reads a config.json beside model.safetensors. ""
/// where the metadata of the file suffice.
fs::path config_file_of(const config::CkptOptions& options) {
  const fs::path beside = config::config_beside(options.output);
  return config::writes_pt(options) || beside.filename() == "config.json" ? beside : fs::path();
}

void refuse_other_file(const fs::path& file, bool force) {
  if (file.empty() || force || !fs::exists(file)) return;
  throw UsageError(
      fmt::format("ckpt: how pictures are prepared would go into '{}', which is there already", file.string()),
      "name another output, or add --force");
}
}  // namespace

int cmd_ckpt_convert(const commands::ParsedCommand& command) {
  const auto& options = *command.ckpt;
  if (!fs::exists(options.path))
    throw CheckpointError(
        fmt::format("ckpt: '{}' does not exist", options.path),
        config::hint_for_name(options.path, "give its file of weights",
                              "give a checkpoint, the folder of a run (<logs>/<name>), or a file of weights"));
  checkpoint::CheckpointManifest manifest;
  if (config::is_gpt_export(options)) {
    infer::export_gpt(options);
    return 0;
  }
  const core::Json config = config_of(options.path);
  const fs::path config_file = config.is_null() ? fs::path() : config_file_of(options);
  refuse_other_file(config_file, options.force);
  models::WeightFile weights = read_input(options, manifest);
  if (options.model_ema) take_averages(weights.tensors, weights.path.parent_path(), manifest);
  weights.tensors = options.names == "as-is" ? models::names_of_file(weights) : renamed(weights, options);
  if (options.with_optimizer) weights.tensors = models::in_openclip_order(std::move(weights.tensors));
  const auto optimizer = optimizer_beside(weights, options);
  if (options.prefix == "module")
    for (auto& [name, tensor] : weights.tensors) name = "module." + name;
  if (!config::writes_pt(options))
    models::write_weights_safetensors(options.output, weights.tensors, metadata_of(config));
  else if (!config.is_null())
    models::write_weights_pt(options.output,
                             weights.tensors);  // of a classifier: what torchvision's load_state_dict takes
  else
    models::write_weights_pt(
        options.output, weights.tensors,
        models::CheckpointHead{.epoch = weights.epoch.value_or(manifest.epoch),
                               .name = fs::path(options.path).stem().string(),
                               .optimizer = optimizer,
                               .scaler = options.with_optimizer ? train::openclip_scaler(manifest) : std::nullopt});
  if (!config_file.empty()) core::write_file_atomic(config_file, json_text(config, 2) + "\n");
  const std::string step = manifest.files.empty() ? "" : fmt::format(" of step {}", manifest.step);
  core::log_info("{}{} -> {}", core::counted(weights.tensors.size(), "tensor"), step, options.output);
  if (!config_file.empty()) core::log_info("how pictures are prepared -> {}", config_file.string());
  return 0;
}

}  // namespace lockstep::cli
