#include "tasks/contrastive/front/recorded_model.h"

#include "tasks/front/recorded_run.h"

namespace lockstep::tasks {
namespace {

constexpr const char* kModelFlags[] = {
    "model",      "force-context-length", "force-image-size",      "force-quick-gelu", "image-mean",
    "image-std",  "image-interpolation",  "image-resize-mode",     "image-fill-color", "resize-order",
    "audio-fill", "audio-trunc",          "audio-int16-normalize", "tokenizer-vocab"};

}  // namespace

bool take_recorded_model(core::OptionSet& set, const std::string& weights, std::string_view task) {
  const auto attempt = recorded_attempt(weights);
  if (!attempt || (attempt->task != "clip" && attempt->task != "clap")) return false;
  if (!task.empty() && attempt->task != task) return false;
  std::vector<std::pair<std::string, std::string>> flags;
  for (const char* flag : kModelFlags) flags.emplace_back(flag, flag);
  take_recorded_options(set, *attempt, flags);
  return true;
}

void take_recorded_precision(core::OptionSet& set, const std::string& weights, std::string_view task) {
  const auto attempt = recorded_attempt(weights);
  if (attempt && attempt->task == task) take_recorded_options(set, *attempt, {{"precision", "precision"}});
}

std::optional<RecordedOptimizer> recorded_optimizer(const std::string& weights) {
  const auto attempt = recorded_attempt(weights);
  if (!attempt || attempt->task != "clip") return std::nullopt;
  const core::Json& options = attempt->options;
  for (const char* name : {"lr", "beta1", "beta2", "eps", "wd"})
    if (!options.contains(name) || !options.at(name).is_number()) return std::nullopt;
  bool has_update_groups = options.value("split_opt", false);
  for (const char* name : {"image_layer_decay", "text_layer_decay", "wd_exclude"})
    has_update_groups = has_update_groups || (options.contains(name) && !options.at(name).empty());
  return RecordedOptimizer{.name = options.value("opt", ""),
                           .lr = options.at("lr"),
                           .beta1 = options.at("beta1"),
                           .beta2 = options.at("beta2"),
                           .epsilon = options.at("eps"),
                           .weight_decay = options.at("wd"),
                           .has_update_groups = has_update_groups};
}

}  // namespace lockstep::tasks
