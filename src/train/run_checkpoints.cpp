#include "train/run_checkpoints.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "checkpoint/is_there.h"
#include "config/changed_settings.h"
#include "core/host_name.h"
#include "core/join_first.h"
#include "core/log.h"
#include "core/strings.h"
#include "record/reader.h"
#include "remote/run_files.h"
#include "train/agree.h"
#include "train/openclip_checkpoint.h"

namespace lockstep::train {
namespace {

constexpr const char* kSameModel = "--load takes runs of the same model";

/// UsageError for a fact that a checkpoint was written with another value of.
void require_same(const core::Json& facts, const core::Json& written, const std::string& hint) {
  if (const auto key = differing_fact(facts, written)) {
    const std::string more =
        *key == "global_batch"
            ? fmt::format("; on another number of ranks, which must divide it, add --global-batch-size {}",
                          written.at(*key).dump())
        : *key == "steps_per_epoch"
            ? ": the length of an epoch follows from --train-num-samples or, without it, from the data"
            : "";
    throw UsageError(fmt::format("train: the checkpoint was written with {}={}, this run has {}={}", *key,
                                 written.at(*key).dump(), *key, facts.at(*key).dump()),
                     hint + more);
  }
}

/// A run goes on with the settings of the command, and with those of the attempt that wrote the checkpoint only where
/// they are the same. A record that cannot be read is no reason to end the run. `has_their_adamw`: those of AdamW are
/// of an OpenCLIP file, which the task tells.
void tell_changed_settings(const core::OptionSet& set, const std::filesystem::path& checkpoint, bool has_their_adamw) {
  constexpr size_t kMostTold = 8;
  const auto name = checkpoint::parse_checkpoint_name(checkpoint.filename().string());
  const std::filesystem::path run_folder = checkpoint.parent_path().parent_path();
  std::error_code ignored;
  if (!name || !std::filesystem::exists(run_folder / "run.json", ignored)) return;
  try {
    for (const core::Json& attempt : record::read_run(run_folder).attempts) {
      if (core::integer_at(attempt, "attempt") != name->second) continue;
      auto changed = config::changed_settings(set, attempt.value("options", core::Json::object()));
      if (has_their_adamw)
        std::erase_if(changed, [](const std::string& text) {
          const std::string flag = text.substr(0, text.find(' '));
          return flag == "--beta1" || flag == "--beta2" || flag == "--eps" || flag == "--wd";
        });
      if (!changed.empty())
        core::log_warning("train: the run goes on with other settings than those its checkpoint was trained with: {}",
                          core::join_first(changed, kMostTold));
    }
  } catch (const std::exception& error) {
    core::log_warning("train: whether the settings are those of the run before is not known: {}", error.what());
  }
}

/// Nothing where one of them was not measured, or is not finite.
std::optional<double> mean_of(const Metrics& metrics, const std::vector<std::string>& names) {
  double sum = 0;
  size_t num_found = 0;
  for (const auto& [name, value] : metrics)
    if (std::find(names.begin(), names.end(), name) != names.end()) sum += value, ++num_found;
  if (num_found != names.size() || !std::isfinite(sum)) return std::nullopt;
  return sum / static_cast<double>(num_found);
}

/// Of checkpoints at an epoch's end, those that neither `kept_epochs` nor `every_n_steps` asks for; nothing at 0.
std::function<bool(const checkpoint::CheckpointManifest&)> rolling_checkpoints(int64_t kept_epochs,
                                                                               int64_t every_n_steps) {
  if (kept_epochs <= 0) return {};
  return [=](const checkpoint::CheckpointManifest& manifest) {
    const bool is_asked_for = every_n_steps > 0 && manifest.step % every_n_steps == 0;
    return !is_asked_for && ends_epoch(manifest) && manifest.epoch % kept_epochs != 0;
  };
}

}  // namespace

/// Of what the run will start from, as far as it is known without reading files of tensors.
std::optional<checkpoint::CheckpointManifest> RunCheckpoints::starting_manifest(const Snapshot& snapshot) const {
  if (!snapshot.folder.empty()) return checkpoint::read_manifest(snapshot.folder);
  if (!run_.folder.has_checkpoint) return std::nullopt;
  if (!run_.folder.resume_latest) {
    if (!checkpoint::is_there(run_.folder.resume_path / checkpoint::kManifestName))
      return std::nullopt;  // restore() says so
    return checkpoint::read_manifest(run_.folder.resume_path);
  }
  for (const auto& entry : checkpoint::list_checkpoints(run_.folder.path))
    if (entry.problem.empty()) return entry.manifest;
  return std::nullopt;
}

/// A checkpoint of another model is refused before memory of devices is taken.
void RunCheckpoints::check_model(const Snapshot& snapshot) {
  decide_on_rank_zero(run_.world(), [&] {
    core::Json facts = run_.task.identity;
    if (run_.folder.has_checkpoint) facts["precision"] = run_.facts().precision;
    if (const auto manifest = starting_manifest(snapshot))
      require_same(facts, callers_extra(*manifest),
                   run_.folder.has_checkpoint ? "resume with the options of the run's params.txt" : kSameModel);
    return std::string();
  });
}

const std::optional<optim::AdamWConfig>& RunCheckpoints::find_adamw(const Snapshot& snapshot) {
  const auto text = decide_on_rank_zero(run_.world(), [&] {
    std::optional<optim::AdamWConfig> found;
    if (run_.folder.has_checkpoint && is_openclip_checkpoint(run_.folder.resume_path))
      found = openclip_adamw(run_.folder.resume_path);
    else if (const auto manifest = starting_manifest(snapshot))
      found = adamw_of(*manifest);
    return found ? to_json(*found).dump() : std::string();
  });
  if (!text.empty()) adamw_ = adamw_from_json(core::parse_json(text, "message between ranks"));
  return adamw_;
}

/// Without --name each start has a folder of its own, so that there is never anything to resume.
void RunCheckpoints::say_fresh_start() const {
  if (run_.options().name.empty())
    core::log_warning(
        "nothing is resumed: without --name a run is named by the time of its start, so that no start finds the "
        "checkpoints of another; training begins anew (--name NAME --resume latest continues a run)");
  else
    core::log_info("no checkpoint in {} yet: starting from the beginning", run_.folder.path.string());
}

TrainerPosition RunCheckpoints::restore(const Training& training, const Snapshot& snapshot, int64_t steps_per_epoch) {
  steps_per_epoch_ = steps_per_epoch;
  CheckpointerConfig config;
  config.run_folder = run_.folder.path;
  config.num_kept = run_.facts().num_kept_checkpoints;
  config.num_newest = config::num_newest_checkpoints(run_.options());
  config.is_rolling = rolling_checkpoints(run_.facts().kept_epochs, run_.options().save_every_n_steps);
  config.num_best = run_.facts().best_checkpoints.num_best;
  config.on_saved = run_.request.on_checkpoint;
  config.on_removal = run_.request.on_removal;
  config.lowest_attempt = run_.folder.highest_attempt_of_copy + 1;
  config.is_held = [this](const std::string& name) { return held_.is_held(name); };
  config.code_version = run_.versions.lockstep;
  config.who = {{"host", core::host_name()}, {"job", run_.ranks.info.job_id}, {"pid", ::getpid()}};
  config.waits = run_.long_waits();
  checkpointer_ = std::make_unique<Checkpointer>(config, checkpoint_state(training), run_.world());
  if (run_.ranks.is_first()) checkpoint::set_aside_damaged_ranking(run_.folder.path);
  if (steps_per_epoch > 0) checkpointer_->warn_without_room();
  std::optional<RestoredCheckpoint> restored;
  if (run_.folder.has_checkpoint) {
    if (run_.folder.resume_latest)
      restored = checkpointer_->restore_latest();
    else if (is_openclip_checkpoint(run_.folder.resume_path))
      restored = import_openclip(training);
    else
      restored = checkpointer_->restore(run_.folder.resume_path);
  }
  if (!restored) {
    if (run_.folder.is_resume && run_.facts().needs_checkpoint) throw_needed_checkpoint(run_.folder);
    if (run_.folder.is_resume && run_.ranks.is_first()) say_fresh_start();
    return start(training, snapshot);
  }
  if (run_.ranks.is_first() && steps_per_epoch > 0)
    core::log_info("continuing after step {} from {}", restored->position.step, restored->folder.string());
  else if (run_.ranks.is_first())
    core::log_info("evaluating {}, of epoch {}", restored->folder.string(), restored->position.epoch);
  require_same(steps_per_epoch > 0 ? resume_facts() : run_.task.identity, restored->position.extra,
               "resume with the options of the run's params.txt");
  if (run_.ranks.is_first() && steps_per_epoch > 0)
    tell_changed_settings(run_.request.set, restored->folder, adamw_.has_value());
  epochs_done_ = restored->position.epoch;
  std::error_code ignored;
  saved_step_ = restored->position.step;
  if (std::filesystem::equivalent(restored->folder.parent_path(), run_.folder.checkpoints(), ignored) &&
      checkpoint::parse_checkpoint_name(restored->folder.filename().string()))
    saved_name_ = restored->folder.filename().string();
  return {.step = restored->position.step,
          .samples_seen = restored->position.samples_seen,
          .data = restored->position.data};
}

RestoredCheckpoint RunCheckpoints::import_openclip(const Training& training) {
  const auto folder = run_.folder.path / "imported_checkpoint";
  const auto import = [&] {
    std::filesystem::remove_all(folder);  // of an earlier start
    import_openclip_checkpoint(run_.folder.resume_path, folder, checkpoint_state(training),
                               {.steps = steps_per_epoch_, .samples = steps_per_epoch_ * run_.batch.global_batch});
    return std::string();
  };
  decide_on_rank_zero(run_.world(), import, run_.long_waits().for_rank_zero);
  RestoredCheckpoint restored = checkpointer_->load(folder);
  decide_on_rank_zero(run_.world(), [&] {
    std::filesystem::remove_all(folder);  // the run's next own checkpoint holds all of it
    std::filesystem::remove_all(run_.folder.path / remote::kFetchedFolder);
    return std::string();
  });
  restored.folder = run_.folder.resume_path;
  return restored;
}

TrainerPosition RunCheckpoints::start(const Training& training, const Snapshot& snapshot) {
  if (snapshot.folder.empty()) return {};
  const auto restored =
      snapshot.use == SnapshotUse::kAll ? checkpointer_->restore_chosen(snapshot.choose) : training.weights_from;
  LOCKSTEP_CHECK(restored.has_value(), "weights of '{}' were not taken", snapshot.folder.string());
  require_same(run_.task.identity, restored->position.extra,
               kSameModel);  // perhaps it is not the one that was looked at
  if (snapshot.use == SnapshotUse::kWeights) return {};
  if (run_.ranks.is_first())
    core::log_info("starting from {}, after step {} and {} samples", restored->folder.string(), restored->position.step,
                   restored->position.samples_seen);
  return {.step = restored->position.step,
          .samples_seen = restored->position.samples_seen,
          .data = restored->position.data};
}

/// What must not change when a run is resumed: it fixes the meaning of a step.
core::Json RunCheckpoints::resume_facts() const {
  core::Json facts{
      {"precision", run_.facts().precision}, {"seed", run_.options().seed}, {"global_batch", run_.batch.global_batch}};
  facts.update(run_.task.identity);
  if (run_.task.has_epochs) facts["steps_per_epoch"] = steps_per_epoch_;
  return facts;
}

bool RunCheckpoints::save(const TrainerPosition& position, const core::Json& data) {
  core::Json extra = resume_facts();
  if (adamw_) extra[kAdamWKey] = to_json(*adamw_);
  const bool is_under_way = checkpointer_->save({.step = position.step,
                                                 .epoch = position.step / steps_per_epoch_,
                                                 .samples_seen = position.samples_seen,
                                                 .data = data,
                                                 .extra = std::move(extra)});
  if (!is_under_way) return false;
  has_saved_or_ranked_ = true;
  saved_step_ = position.step;
  saved_name_ = checkpoint::checkpoint_name(position.step, checkpointer_->attempt());
  return true;
}

bool RunCheckpoints::enter_ranking(const checkpoint::RankedCheckpoint& candidate) {
  if (checkpoint::is_superseded(run_.folder.path, attempt())) return false;
  const config::BestCheckpoints& best = run_.facts().best_checkpoints;
  checkpoint::Ranking ranking = checkpoint::read_ranking(run_.folder.path);
  std::vector<std::string> on_their_way;
  if (!checkpointer_->has_failed()) on_their_way.push_back(saved_name_);
  ranking.forget_absent(run_.folder.path, on_their_way);
  const int64_t place = ranking.enter(
      candidate, {.metrics = best.metrics, .is_smaller_better = best.is_smaller_better, .num_best = best.num_best});
  checkpoint::write_ranking(run_.folder.path, ranking);
  has_saved_or_ranked_ = true;
  if (place > 0)
    core::log_info("checkpoint {} is number {} of the best by {}: {:.6g}", candidate.name, place,
                   core::join(best.metrics, ", "), *candidate.value);
  return place > 0;
}

bool RunCheckpoints::rank(const EvaluationTime& when, const Metrics& metrics) {
  const std::vector<std::string>& names = run_.facts().best_checkpoints.metrics;
  if (names.empty()) return false;
  const bool is_saved = when.steps_done == saved_step_;
  return decide_on_rank_zero(run_.world(), [&] {
           const auto mean = mean_of(metrics, names);
           if (!mean || (is_saved && (saved_name_.empty() || checkpointer_->has_failed()))) return std::string();
           try {
             const bool is_best = enter_ranking(
                 {.name = is_saved ? saved_name_ : checkpoint::checkpoint_name(when.steps_done, attempt()),
                  .epoch = when.epochs_done,
                  .value = *mean,
                  .is_extra = !is_saved});
             return std::string(is_best && !is_saved ? "save" : "");
           } catch (const Error& error) {
             core::log_warning("train: this evaluation does not rank its checkpoint: {}", error.what());
             return std::string();
           }
         }) == "save";
}

void RunCheckpoints::remove_superfluous(const std::string& waited_for) {
  if (has_saved_or_ranked_) checkpointer_->remove_superfluous();
  run_.ranks.world.wait_for_rank_zero(waited_for);
}

void RunCheckpoints::finish_saving() {
  const bool is_saved = checkpointer_->wait();
  run_.ranks.world.wait_for_rank_zero("the last checkpoint");  // writing for minutes is no stuck collective
  succeed_together(run_.world(), [&] {
    if (is_saved) return;
    const std::string flags = config::flags_to_resume(run_.options(), run_.folder.name);
    using checkpoint::Presence;
    const Presence older = checkpoint::find_usable_checkpoint(run_.folder.path);
    throw CheckpointError(
        "train: the last checkpoint could not be written; the warning above says why",
        older == Presence::kUnknown ? checkpoint::how_to_continue(run_.folder.path, flags)
        : older == Presence::kPresent
            ? fmt::format("the older checkpoints are whole: make room, and the same command with {} continues the run",
                          flags)
            : fmt::format("there is no older one, so nothing can be continued: make room and begin again under another "
                          "name, or in this folder with {}",
                          flags));
  });
}

}  // namespace lockstep::train
