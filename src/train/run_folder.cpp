#include "train/run_folder.h"

#include <ctime>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/strings.h"
#include "train/agree.h"
#include "train/run_remote.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

/// The checkpoint that OpenCLIP would go on from in a run folder of its own: epoch_latest.pt, else that of the highest
/// epoch; "" where there is none.
fs::path openclip_checkpoint(const fs::path& run_folder) {
  const fs::path checkpoints = run_folder / "checkpoints";
  std::error_code error;
  if (fs::exists(run_folder / "run.json", error)) return {};  // it is ours
  if (fs::exists(checkpoints / "epoch_latest.pt", error)) return checkpoints / "epoch_latest.pt";
  fs::path newest;
  int64_t highest = -1;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() != ".pt" || !core::starts_with(stem, "epoch_")) continue;
    const auto epoch = core::parse_int(std::string_view(stem).substr(std::string_view("epoch_").size()));
    if (epoch && *epoch > highest) highest = *epoch, newest = entry.path();
  }
  return newest;
}

bool has_checkpoint(const RunFolder& folder) {
  return folder.is_resume && (!folder.resume_latest || !checkpoint::list_checkpoints(folder.path).empty());
}

/// Refuses to write into the folder of a run that this start does not continue.
void refuse_other_run(const RunFolder& folder, const std::string& logs, const fs::path& openclip) {
  if (!fs::exists(folder.path / "run.json") && openclip.empty()) return;
  throw UsageError(fmt::format("train: run '{}'{} already exists in '{}'", folder.name,
                               openclip.empty() ? "" : " of OpenCLIP", logs),
                   !openclip.empty() || checkpoint::has_usable_checkpoint(folder.path)
                       ? "continue it with --resume latest, or choose another --name"
                       : "it has saved no checkpoint: choose another --name, or begin it again with --resume latest");
}

}  // namespace

RunFolder choose_run_folder(const config::RunOptions& options, const config::RunFacts& facts,
                            const std::string& time_text, int slurm_restart_count) {
  RunFolder folder;
  folder.name = options.name.empty() ? config::auto_run_name(facts, time_text) : options.name;
  if (folder.name.find('/') != std::string::npos || folder.name == "." || folder.name == "..")
    throw UsageError(fmt::format("train: --name '{}' is not a folder name", folder.name),
                     "use --logs for the folder above it");
  folder.path = fs::path(options.logs) / folder.name;
  const bool is_latest = options.resume ? *options.resume == "latest" : slurm_restart_count > 0;
  folder.is_resume = options.resume.has_value() || is_latest;
  folder.resume_latest = is_latest;
  if (options.resume && !is_latest) folder.resume_path = *options.resume;
  const fs::path openclip = options.task == "clip" ? openclip_checkpoint(folder.path) : fs::path();
  if (!folder.is_resume) refuse_other_run(folder, options.logs, openclip);
  if (is_latest && !openclip.empty() && checkpoint::list_checkpoints(folder.path).empty()) {
    folder.resume_latest = false;
    folder.resume_path = openclip;
  }
  folder.has_checkpoint = has_checkpoint(folder);
  std::error_code error;
  const fs::path absolute = fs::absolute(folder.path).lexically_normal();
  for (fs::path path = absolute; !path.empty() && !fs::exists(path, error); path = path.parent_path())
    folder.first_made = path;
  fs::create_directories(folder.checkpoints(), error);
  if (error)
    throw EnvironmentError(
        fmt::format("train: cannot create the run folder '{}': {}", folder.path.string(), error.message()),
        "choose a folder that every node can write to with --logs");
  return folder;
}

std::string to_text(const RunFolder& folder) {
  return core::Json{{"path", folder.path.string()},
                    {"name", folder.name},
                    {"is_resume", folder.is_resume},
                    {"resume_latest", folder.resume_latest},
                    {"resume_path", folder.resume_path.string()},
                    {"has_checkpoint", folder.has_checkpoint},
                    {"first_made", folder.first_made.string()}}
      .dump();
}

RunFolder run_folder_from_text(const std::string& text) {
  const auto json = core::parse_json(text, "message between ranks");
  return {.path = json.at("path").get<std::string>(),
          .name = json.at("name"),
          .is_resume = json.at("is_resume"),
          .resume_latest = json.at("resume_latest"),
          .resume_path = json.at("resume_path").get<std::string>(),
          .has_checkpoint = json.at("has_checkpoint"),
          .first_made = json.at("first_made").get<std::string>()};
}

namespace {

/// The folder of a run with all that it needs from elsewhere; where that fails, as if it had never been made.
RunFolder prepare_run_folder(const TrainRequest& request, int slurm_restart_count) {
  RunFolder folder = choose_run_folder(request.options, request.facts, time_text_now(), slurm_restart_count);
  try {
    const auto fetched =
        bring_run_here(request.options, {.folder = folder.path, .name = folder.name, .is_resume = folder.is_resume});
    if (fetched) folder.resume_path = *fetched;
    folder.has_checkpoint = has_checkpoint(folder);
    return folder;
  } catch (...) {
    remove_new_folders(folder);
    throw;
  }
}

}  // namespace

RunFolder open_run_folder(const TrainRequest& request, JoinedRanks& ranks) {
  const config::RunOptions& options = request.options;
  const RunFolder folder = run_folder_from_text(decide_on_rank_zero(
      ranks.world.comm(), [&] { return to_text(prepare_run_folder(request, ranks.info.slurm_restart_count)); },
      [&] { ranks.world.wait_for_rank_zero("it fetches the run's files"); }));
  if (folder.is_resume && !folder.has_checkpoint && request.facts.needs_checkpoint)
    throw CheckpointError(fmt::format("train: '{}' holds no checkpoint, and --exit-on-missing-checkpoint is given",
                                      folder.checkpoints().string()),
                          "name the run to go on with, or drop the flag to begin it");
  if (ranks.is_first() || options.log_local)
    core::open_log_file(
        (folder.path / (options.log_local ? fmt::format("out-{}", ranks.info.rank) : "out.log")).string());
  if (ranks.is_first())
    for (const auto& warning : request.warnings) core::log_warning("{}", warning);
  return folder;
}

void remove_new_folders(const RunFolder& folder) {
  if (folder.first_made.empty()) return;
  core::open_log_file("");
  std::error_code ignored;
  fs::path path = fs::absolute(folder.path).lexically_normal();
  fs::remove_all(path, ignored);
  while (path != folder.first_made && path.has_relative_path()) {
    path = path.parent_path();
    if (!fs::remove(path, ignored)) return;  // another run has come into it
  }
}

std::string time_text_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y_%m_%d-%H_%M_%S", &local);
  return text;
}

}  // namespace lockstep::train
