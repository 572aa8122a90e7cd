#include "train/checkpointer.h"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "checkpoint/is_there.h"
#include "checkpoint/manifest.h"
#include "checkpoint/ranking.h"
#include "checkpoint/room.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "train/agree.h"
#include "train/checkpoint_files.h"
#include "train/checkpointer_writer.h"

namespace lockstep::train {
namespace fs = std::filesystem;

Checkpointer::Checkpointer(const CheckpointerConfig& config, const CheckpointState& state, comm::Comm& world)
    : config_(config), state_(state), world_(world), reader_(state, world, config.waits) {
  const auto claimed = decide_on_rank_zero(world_, [&] {
    fs::create_directories(config_.run_folder / "checkpoints");
    return fmt::format("{}",
                       checkpoint::claim_checkpoints(config_.run_folder, config_.who, config_.lowest_attempt).attempt);
  });
  attempt_ = first_attempt_ = static_cast<int>(core::parse_int(claimed).value());
  if (is_in_parts(state_)) check_shared_folder();
  std::vector<std::string> awaited;
  std::map<std::string, int> rank_of_file;
  if (is_in_parts(state_))
    for (const auto& [name, rank] : files_of_others()) {
      awaited.push_back(name);
      rank_of_file.emplace(name, rank);
    }
  std::function<bool(const std::string&, const std::string&)> is_being_written;
  if (config_.waits.is_at_work)
    is_being_written = [asks = config_.waits.is_at_work, rank_of_file](const std::string& file,
                                                                       const std::string& checkpoint) {
      return asks(rank_of_file.at(file), checkpoint);
    };
  if (world_.rank() == 0 || !files_to_write(state_, world_.rank(), world_.size()).empty())
    writer_ = std::make_unique<CheckpointWriter>(WriterConfig{.run_folder = config_.run_folder,
                                                              .num_kept = config_.num_kept,
                                                              .num_newest = config_.num_newest,
                                                              .is_rolling = config_.is_rolling,
                                                              .is_first = world_.rank() == 0,
                                                              .is_shared = is_in_parts(state_),
                                                              .awaited = awaited,
                                                              .on_saved = config_.on_saved,
                                                              .on_removal = config_.on_removal,
                                                              .is_held = config_.is_held,
                                                              .check_alive = [this] { world_.check_alive(); },
                                                              .is_being_written = is_being_written,
                                                              .on_writing = config_.waits.tell_work});
}

/// With their ranks, on rank 0. Collective.
std::vector<std::pair<std::string, int>> Checkpointer::files_of_others() const {
  core::Json own = core::Json::array();
  for (const auto& file : files_to_write(state_, world_.rank(), world_.size())) own.push_back(file.name);
  const auto of_ranks = world_.gather_strings(own.dump());
  std::vector<std::pair<std::string, int>> files;
  for (int rank = 1; rank < world_.size() && world_.rank() == 0; ++rank)
    for (const auto& name : core::parse_json(of_ranks[static_cast<size_t>(rank)], "files of a rank"))
      files.emplace_back(name.get<std::string>(), rank);
  return files;
}

void Checkpointer::check_shared_folder() const {
  succeed_together(world_, [&] {
    const auto claim = config_.run_folder / "checkpoints" / fmt::format("owner.{}", attempt_);
    for (int tries = 0; !fs::exists(claim); ++tries) {  // network file systems show new files late
      if (tries == 100)
        throw EnvironmentError(
            fmt::format("train: '{}', which rank 0 has just written, is not here", claim.string()),
            "every rank writes a part of the checkpoint: put --logs on a file system that all nodes share");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
}

void Checkpointer::warn_without_room() const {
  const int64_t own = bytes_of(files_to_write(state_, world_.rank(), world_.size()));
  int64_t all = 0;
  for (const auto& text : world_.gather_strings(std::to_string(own))) all += core::parse_int(text).value();
  if (world_.rank() != 0) return;
  const int64_t num_kept = config_.num_kept > 0 ? config_.num_kept + config_.num_best : 0;
  if (const auto warning = checkpoint::lacking_room(config_.run_folder, all, num_kept); !warning.empty())
    core::log_warning("{}", warning);
}

Checkpointer::~Checkpointer() = default;

bool Checkpointer::save(const CheckpointPosition& position) {
  if (writer_) writer_->wait();
  // Files of the save before may take minutes still: no rank goes on to collectives, which wait less long, before.
  if (config_.waits.for_rank_zero) config_.waits.for_rank_zero();
  if (is_in_parts(state_)) {
    const auto problem = decide_on_rank_zero(world_, [&] { return writer_->prepare(position.step, attempt_); });
    if (!problem.empty()) return false;  // rank 0 has warned
  }
  if (!writer_) return true;
  checkpoint::CheckpointManifest manifest;
  manifest.step = position.step;
  manifest.attempt = attempt_;
  manifest.world_size = world_.size();
  manifest.epoch = position.epoch;
  manifest.samples_seen = position.samples_seen;
  manifest.created_s = core::unix_seconds();
  manifest.code_version = config_.code_version;
  manifest.data_position = position.data;
  manifest.extra = {{kCallersExtraKey, position.extra}, {kFirstAttemptKey, first_attempt_}};
  if (state_.scaler != nullptr) {
    const auto scaler = state_.scaler->state();
    manifest.extra["loss_scaler"] = {{"scale", scaler.scale},
                                     {"growth_tracker", scaler.growth_tracker},
                                     {"hysteresis_tracker", scaler.hysteresis_tracker}};
  }
  writer_->start(files_to_write(state_, world_.rank(), world_.size()), std::move(manifest));
  return true;
}

bool Checkpointer::has_failed() const { return writer_ && writer_->has_failed(); }

bool Checkpointer::wait() { return !writer_ || writer_->wait(); }

void Checkpointer::remove_superfluous() {
  if (world_.rank() != 0) return;
  writer_->wait();
  try {
    writer_->remove_superfluous(attempt_, first_attempt_);
    if (!checkpoint::is_superseded(config_.run_folder, attempt_)) checkpoint::tidy_ranking(config_.run_folder);
  } catch (const std::exception& error) {
    core::log_warning("train: older checkpoints were not removed: {}", error.what());
  }
}

bool ends_epoch(const checkpoint::CheckpointManifest& manifest) {
  const core::Json facts = callers_extra(manifest);
  const auto steps = facts.find("steps_per_epoch");
  return steps != facts.end() && manifest.epoch > 0 && manifest.step == manifest.epoch * steps->get<int64_t>();
}

std::optional<RestoredCheckpoint> Checkpointer::restore_latest() {
  return continued(reader_.take([&](const checkpoint::VerifyFunction& verify) -> std::string {
    const auto choice = checkpoint::choose_latest(config_.run_folder, verify);
    for (const auto& reason : choice.skipped) core::log_warning("train: checkpoint passed over: {}", reason);
    if (!choice.chosen && !choice.skipped.empty())
      throw CheckpointError(
          fmt::format("train: none of the {} checkpoints in '{}' is whole", choice.skipped.size(),
                      (config_.run_folder / "checkpoints").string()),
          "the warnings above say what is wrong with each; start a run of another name to begin anew");
    if (choice.chosen && !choice.skipped.empty())
      core::log_warning("train: falling back to '{}'", choice.chosen->folder.string());
    return choice.chosen ? choice.chosen->folder.string() : "";
  }));
}

/// What to give instead of `folder`, which is no checkpoint; perhaps it is a run.
static std::string hint_of_no_checkpoint(const fs::path& folder) {
  const fs::path run = (folder / "").lexically_normal().parent_path();
  std::error_code ignored;
  if (!fs::exists(run / "run.json", ignored))
    return "name a folder <logs>/<name>/checkpoints/step-*, or go on with --name NAME --resume latest";
  return fmt::format("it is a run: give --logs '{}' --name '{}' --resume latest",
                     run.has_parent_path() ? run.parent_path().string() : ".", run.filename().string());
}

RestoredCheckpoint Checkpointer::restore(const fs::path& folder) {
  return restore_chosen([&](const checkpoint::VerifyFunction& verify) {
    if (!checkpoint::is_there(folder / checkpoint::kManifestName))
      throw CheckpointError(
          fmt::format("train: '{}' is no checkpoint: {}", folder.string(),
                      checkpoint::is_there(folder) ? fmt::format("it has no {}", checkpoint::kManifestName)
                                                   : "it does not exist"),
          hint_of_no_checkpoint(folder));
    require_whole(folder, verify);
    return folder.string();
  });
}

RestoredCheckpoint Checkpointer::restore_chosen(const ChooseFunction& choose) {
  const auto restored = continued(reader_.take(choose));
  LOCKSTEP_CHECK(restored.has_value(), "no checkpoint was chosen");
  return *restored;
}

RestoredCheckpoint Checkpointer::load(const fs::path& folder) { return *continued(reader_.load(folder)); }

/// What is saved from here on goes on without a break from a checkpoint of this run.
std::optional<RestoredCheckpoint> Checkpointer::continued(std::optional<RestoredCheckpoint> restored) {
  std::error_code failure;
  if (restored && fs::equivalent(restored->folder.parent_path(), config_.run_folder / "checkpoints", failure))
    first_attempt_ = restored->first_attempt;
  return restored;
}

}  // namespace lockstep::train
