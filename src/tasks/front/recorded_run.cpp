#include "tasks/front/recorded_run.h"

#include <fmt/format.h>

#include <filesystem>

#include "config/weights_config.h"
#include "core/strings.h"
#include "record/reader.h"

namespace lockstep::tasks {
namespace fs = std::filesystem;
namespace {

/// epoch_K.pt or epoch_latest.pt, as --save-format openclip and OpenCLIP name them.
bool is_openclip_file(const std::string& name) {
  return core::starts_with(name, "epoch_") && core::ends_with(name, ".pt");
}

/// The folder of the run that <run>, <run>/checkpoints, a checkpoint in it, that one's model.safetensors or an
/// epoch_K.pt beside it belongs to; "" for anything else: other files below a run are not its weights.
fs::path run_of(const std::string& weights) {
  std::error_code ignored;
  fs::path path = fs::absolute(fs::path(weights).lexically_normal() / "").parent_path();
  if (path.filename() == "model.safetensors") path = path.parent_path();
  if (fs::exists(path / "run.json", ignored)) return path;
  const std::string name = path.filename().string();
  const bool is_checkpoint =
      core::starts_with(name, "step-") || (is_openclip_file(name) && path.parent_path().filename() == "checkpoints");
  if (is_checkpoint) path = path.parent_path();
  if (!is_checkpoint && name != "checkpoints") return {};
  path = path.parent_path();
  return fs::exists(path / "run.json", ignored) ? path : fs::path();
}

}  // namespace

const core::Json& last_training(const core::Json& attempts) {
  for (auto at = attempts.rbegin(); at != attempts.rend(); ++at) {
    const auto options = at->find("options");
    const bool evaluates = options != at->end() && options->is_object() && options->contains("evaluate") &&
                           options->at("evaluate") == true;
    if (!evaluates) return *at;
  }
  return attempts.back();
}

std::optional<RecordedAttempt> recorded_attempt(const std::string& weights) {
  const fs::path run = weights.empty() ? fs::path() : run_of(weights);
  if (run.empty()) return std::nullopt;
  const core::Json attempts = record::read_run(run).attempts;
  if (attempts.empty()) return std::nullopt;
  const core::Json& attempt = last_training(attempts);
  const core::Json task = attempt.value("task", core::Json(nullptr));
  const core::Json options = attempt.value("options", core::Json::object());
  if (!task.is_string() || !options.is_object()) return std::nullopt;
  return RecordedAttempt{.task = task,
                         .options = options,
                         .model = attempt.value("model", core::Json::object()),
                         .source = (run / "run.json").string()};
}

std::vector<std::string> recorded_class_names(const std::string& weights, int64_t num_classes) {
  const auto attempt = recorded_attempt(weights);
  const core::Json told = attempt ? attempt->model : config::read_weights_config(weights);
  if (!told.is_object()) return {};
  const auto recorded = told.find(attempt ? "class_names" : "label_names");  // the second: timm's
  if (recorded == told.end() || !recorded->is_array() || std::ssize(*recorded) != num_classes) return {};
  std::vector<std::string> names;
  for (const core::Json& name : *recorded) {
    if (!name.is_string()) return {};
    names.push_back(name);
  }
  return names;
}

void take_recorded_options(core::OptionSet& set, const RecordedAttempt& attempt,
                           const std::vector<std::pair<std::string, std::string>>& flags) {
  std::string recipe;  // JSON's texts, numbers and lists are TOML's
  for (const auto& [flag, recorded] : flags) {
    const auto value = attempt.options.find(core::replace_all(recorded, "-", "_"));
    if (set.find(flag) == nullptr || set.is_given(flag) || value == attempt.options.end() || value->is_null() ||
        value->empty())
      continue;
    if (value->is_string() && value->get<std::string>().empty()) continue;
    recipe += fmt::format("{} = {}\n", flag, value->dump());
  }
  set.apply_recipe(recipe, attempt.source);
}

}  // namespace lockstep::tasks
