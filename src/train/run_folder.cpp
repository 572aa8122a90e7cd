#include "train/run_folder.h"

#include <algorithm>
#include <ctime>

#include "checkpoint/is_there.h"
#include "checkpoint/manifest.h"
#include "checkpoint/openclip_files.h"
#include "core/error.h"
#include "core/files.h"
#include "core/host_name.h"
#include "core/is_there.h"
#include "core/json.h"
#include "core/local_time.h"
#include "core/log.h"
#include "core/strings.h"
#include "remote/address.h"
#include "train/agree.h"
#include "train/run_remote.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

/// Known to be void, or never completed.
bool is_none(const checkpoint::CheckpointEntry& entry) {
  return entry.state == checkpoint::CheckpointState::kIncomplete ||
         entry.state == checkpoint::CheckpointState::kSuperseded;
}

bool has_own_checkpoint(const fs::path& run_folder) {
  const auto entries = checkpoint::list_checkpoints(run_folder);
  return !std::all_of(entries.begin(), entries.end(), is_none);
}

bool has_checkpoint(const RunFolder& folder) {
  return folder.is_resume && (!folder.resume_latest || !checkpoint::list_checkpoints(folder.path).empty());
}

/// A job that SLURM started again and that has saved a checkpoint goes on from there, whatever --resume named at its
/// first start. What cannot be read may be the newest good one, so that nothing older may take its place.
bool has_this_job_saved(const fs::path& run_folder, const SlurmStart& start) {
  if (start.restart_count == 0) return false;
  for (const checkpoint::CheckpointEntry& entry : checkpoint::list_checkpoints(run_folder)) {
    if (is_none(entry)) continue;
    const auto who = checkpoint::who_claimed(run_folder, entry.attempt);
    if (!who || !who->contains("job") || who->at("job") != start.job_id) return false;
    if (entry.state != checkpoint::CheckpointState::kDamaged) return true;
  }
  return false;
}

/// By what lies in the run's folder at this moment.
void choose_start(RunFolder& folder, const config::RunOptions& options, const SlurmStart& start) {
  folder.is_resume = options.resume.has_value() || start.restart_count > 0;
  if (folder.is_resume) {
    const std::string from = options.resume.value_or("latest");
    folder.resume_latest = from == "latest" || has_this_job_saved(folder.path, start);
    folder.resume_path = folder.resume_latest ? "" : from;
    if (folder.resume_latest && options.takes_openclip_checkpoints && !has_own_checkpoint(folder.path)) {
      folder.resume_path = checkpoint::newest_openclip_file(folder.path);  // also of a run that began with it and died
      folder.resume_latest = folder.resume_path.empty();
    }
  }
  folder.has_checkpoint = has_checkpoint(folder);
}

/// How somebody goes on whose --name is taken.
std::string hint_of_taken_name(const RunFolder& folder, const config::RunOptions& options, bool has_their_checkpoint) {
  using checkpoint::Presence;
  const std::string flags = config::flags_to_resume(options, folder.name);
  const char* name_flag = options.save.empty() ? "--name" : "--save";
  const Presence found = has_their_checkpoint ? Presence::kPresent : checkpoint::find_usable_checkpoint(folder.path);
  if (found == Presence::kUnknown)
    return fmt::format(
        "whether it has saved a checkpoint is not known, not all of '{}' can be read: choose another {}, or see to the "
        "storage or the permissions and continue it with {}",
        folder.checkpoints().string(), name_flag, flags);
  return found == Presence::kPresent
             ? fmt::format("continue it with {}, or choose another {}", flags, name_flag)
             : fmt::format("it has saved no checkpoint: choose another {}, or begin it again with {}", name_flag,
                           flags);
}

/// Refuses to write into the folder of a run that this start does not continue. Of OpenCLIP's runs also one that ended
/// before its first checkpoint: params.txt without our record is OpenCLIP's, which a new run would write over.
void refuse_other_run(const RunFolder& folder, const config::RunOptions& options) {
  const bool is_ours = checkpoint::is_there(folder.path / "run.json");
  const bool has_their_checkpoint =
      !is_ours && options.takes_openclip_checkpoints && !checkpoint::newest_openclip_file(folder.path).empty();
  const bool is_theirs = has_their_checkpoint || (!is_ours && options.takes_openclip_checkpoints &&
                                                  checkpoint::is_there(folder.path / "params.txt"));
  if (!is_ours && !is_theirs) return;
  throw UsageError(fmt::format("train: run '{}'{} already exists in '{}'", folder.name, is_theirs ? " of OpenCLIP" : "",
                               options.logs),
                   hint_of_taken_name(folder, options, has_their_checkpoint));
}

}  // namespace

RunFolder choose_run_folder(const config::RunOptions& options, const config::RunFacts& facts,
                            const std::string& time_text, const SlurmStart& start) {
  RunFolder folder;
  folder.name = options.name.empty() ? config::auto_run_name(facts, time_text) : options.name;
  if (folder.name.find('/') != std::string::npos || folder.name == "." || folder.name == "..")
    throw UsageError(fmt::format("train: --name '{}' is not a folder name", folder.name),
                     "use --logs for the folder above it");
  folder.path = fs::path(options.logs) / folder.name;
  const fs::path absolute = fs::absolute(folder.path).lexically_normal();
  for (fs::path path = absolute; path.has_relative_path(); path = path.parent_path())
    if (std::error_code failure; fs::is_regular_file(path, failure))
      throw EnvironmentError(
          fmt::format("train: cannot create the run folder '{}': '{}' is a file", folder.path.string(), path.string()),
          "name a folder with --logs, or move the file away");
  choose_start(folder, options, start);
  if (!folder.is_resume) refuse_other_run(folder, options);
  for (fs::path path = absolute; !path.empty() && !core::is_there(path); path = path.parent_path())
    folder.first_made = path;
  std::error_code error;
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
                    {"highest_attempt_of_copy", folder.highest_attempt_of_copy},
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
          .highest_attempt_of_copy = json.at("highest_attempt_of_copy"),
          .first_made = json.at("first_made").get<std::string>()};
}

namespace {

/// The folder of a run with all that it needs from elsewhere; where that fails, as if it had never been made.
RunFolder prepare_run_folder(const TrainRequest& request, const SlurmStart& start) {
  RunFolder folder = choose_run_folder(request.options, request.facts, time_text_now(), start);
  try {
    folder.highest_attempt_of_copy =
        bring_run_here(request.options, {.folder = folder.path, .name = folder.name, .is_resume = folder.is_resume});
    choose_start(folder, request.options, start);
    if (!folder.resume_latest && remote::is_url(folder.resume_path.string()))
      folder.resume_path = bring_checkpoint_here(folder.resume_path.string(), folder.path);
    if (folder.resume_latest && request.options.resume && *request.options.resume != "latest")
      core::log_info("this job was started again: it goes on from its newest checkpoint, not from {}",
                     *request.options.resume);
    return folder;
  } catch (...) {
    remove_new_folders(folder);
    throw;
  }
}

void open_log(const RunFolder& folder, const config::RunOptions& options, const hw::RankInfo& place) {
  const fs::path file = log_file_of(folder, options, place);
  if (file.empty()) return;
  std::error_code error;
  fs::create_directories(folder.path, error);
  if (error)
    throw EnvironmentError(fmt::format("train: rank {} on {} cannot create '{}' for its log: {}", place.rank,
                                       core::host_name(), folder.path.string(), error.message()),
                           "choose a folder that every node can write to with --logs, or leave out --log-local");
  core::open_log_file(file.string());
}

}  // namespace

fs::path log_file_of(const RunFolder& folder, const config::RunOptions& options, const hw::RankInfo& place) {
  if (options.log_local ? place.local_rank != 0 : place.rank != 0) return {};
  return folder.path / (options.log_local ? fmt::format("out-{}", place.rank) : "out.log");
}

void throw_needed_checkpoint(const RunFolder& folder) {
  throw CheckpointError(fmt::format("train: '{}' holds no checkpoint, without which this command is not to begin "
                                    "(evaluation alone, --exit-on-missing-checkpoint)",
                                    folder.checkpoints().string()),
                        "name the run that has one (--logs, --name), or drop the flag that asks for it");
}

RunFolder open_run_folder(const TrainRequest& request, JoinedRanks& ranks) {
  const config::RunOptions& options = request.options;
  const SlurmStart start{.restart_count = ranks.info.slurm_restart_count, .job_id = ranks.info.job_id};
  const RunFolder folder = run_folder_from_text(decide_on_rank_zero(
      ranks.world.comm(), [&] { return to_text(prepare_run_folder(request, start)); },
      [&] { ranks.world.wait_for_rank_zero("it fetches the run's files"); }));
  if (folder.is_resume && !folder.has_checkpoint && request.facts.needs_checkpoint) {
    if (ranks.is_first()) remove_new_folders(folder);  // a mistyped --name leaves nothing behind
    throw_needed_checkpoint(folder);
  }
  succeed_together(ranks.world.comm(), [&] { open_log(folder, options, ranks.info); });
  if (ranks.is_first())
    for (const auto& warning : request.warnings) core::log_warning("{}", warning);
  return folder;
}

namespace {

/// Is there more below it than a start leaves that saved nothing? Two starts may have one name: what the other one
/// saved, or is about to save, stays. So does what cannot be looked at.
bool may_hold_work(const fs::path& checkpoints) {
  std::error_code failure;
  int num_claims = 0;
  for (const fs::path& path : core::list_folder(checkpoints, failure)) {
    const std::string name = path.filename().string();
    if (core::starts_with(name, "owner.")) ++num_claims;
    if (checkpoint::parse_checkpoint_name(name)) return true;
  }
  return num_claims > 1 || (failure && failure != std::errc::no_such_file_or_directory);
}

}  // namespace

void remove_new_folders(const RunFolder& folder) {
  if (folder.first_made.empty() || may_hold_work(folder.checkpoints())) return;
  core::open_log_file("");
  std::error_code ignored;
  fs::path path = fs::absolute(folder.path).lexically_normal();
  fs::remove_all(path, ignored);
  while (path != folder.first_made && path.has_relative_path()) {
    path = path.parent_path();
    if (!fs::remove(path, ignored)) return;  // another run has come into it
  }
}

std::string time_text_now() { return core::local_time_text(std::time(nullptr), "%Y_%m_%d-%H_%M_%S"); }

}  // namespace lockstep::train
