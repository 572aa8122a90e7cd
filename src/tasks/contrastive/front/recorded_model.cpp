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

}  // namespace

bool take_recorded_model(core::OptionSet& set, const std::string& weights) {
  const fs::path run = weights.empty() ? fs::path() : run_of(weights);
  if (run.empty()) return false;
  const core::Json attempts = record::read_run(run).attempts;
  if (attempts.empty()) return false;
  const core::Json task = attempts.back().value("task", core::Json(nullptr));
  const core::Json options = attempts.back().value("options", core::Json::object());
  if ((task != "clip" && task != "clap") || !options.is_object()) return false;
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

}  // namespace lockstep::tasks
