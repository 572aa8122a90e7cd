#include "tasks/contrastive/front/recorded_model.h"

#include <array>
#include <filesystem>
#include <string_view>

#include "core/json.h"
#include "core/strings.h"
#include "record/reader.h"

namespace lockstep::tasks {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 13> kModelFlags = {
    "model",       "force-context-length",  "force-image-size",  "force-quick-gelu", "image-mean",
    "image-std",   "image-interpolation",   "image-resize-mode", "resize-order",     "audio-fill",
    "audio-trunc", "audio-int16-normalize", "tokenizer-vocab"};

/// The folder of the run that <run>, <run>/checkpoints, a checkpoint in it or that one's model.safetensors belongs to;
/// "" for anything else: other files below a run are not its weights.
fs::path run_of(const std::string& weights) {
  std::error_code ignored;
  fs::path path = fs::absolute(fs::path(weights).lexically_normal() / "").parent_path();
  if (path.filename() == "model.safetensors") path = path.parent_path();
  if (fs::exists(path / "run.json", ignored)) return path;
  const std::string name = path.filename().string();
  const bool is_checkpoint = core::starts_with(name, "step-");
  if (is_checkpoint) path = path.parent_path();
  if (!is_checkpoint && name != "checkpoints") return {};
  path = path.parent_path();
  return fs::exists(path / "run.json", ignored) ? path : fs::path();
}

/// Options of the last attempt of a run of CLIP or CLAP; null where there is none.
core::Json recorded_options(const fs::path& run) {
  if (run.empty()) return nullptr;
  const core::Json attempts = record::read_run(run).attempts;
  if (attempts.empty()) return nullptr;
  const core::Json task = attempts.back().value("task", core::Json(nullptr));
  const core::Json options = attempts.back().value("options", core::Json::object());
  return (task == "clip" || task == "clap") && options.is_object() ? options : core::Json(nullptr);
}

}  // namespace

bool take_recorded_model(core::OptionSet& set, const std::string& weights) {
  const fs::path run = weights.empty() ? fs::path() : run_of(weights);
  const core::Json options = recorded_options(run);
  if (options.is_null()) return false;
  std::string recipe;  // JSON's texts, numbers and lists are TOML's
  for (const std::string_view flag : kModelFlags) {
    const auto value = options.find(core::replace_all(std::string(flag), "-", "_"));
    if (set.find(flag) == nullptr || value == options.end() || value->is_null() || value->empty()) continue;
    if (value->is_string() && value->get<std::string>().empty()) continue;
    recipe += fmt::format("{} = {}\n", flag, value->dump());
  }
  set.apply_recipe(recipe, (run / "run.json").string());
  return true;
}

std::optional<RecordedOptimizer> recorded_optimizer(const std::string& weights) {
  const core::Json options = recorded_options(weights.empty() ? fs::path() : run_of(weights));
  for (const char* name : {"lr", "beta1", "beta2", "eps", "wd"})
    if (!options.is_object() || !options.contains(name) || !options.at(name).is_number()) return std::nullopt;
  return RecordedOptimizer{.name = options.value("opt", ""),
                           .lr = options.at("lr"),
                           .beta1 = options.at("beta1"),
                           .beta2 = options.at("beta2"),
                           .epsilon = options.at("eps"),
                           .weight_decay = options.at("wd")};
}

}  // namespace lockstep::tasks
