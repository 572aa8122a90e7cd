#include "train/train_run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "checkpoint/is_there.h"
#include "core/counted.h"
#include "core/env.h"
#include "core/files.h"
#include "core/host_name.h"
#include "core/log.h"
#include "core/log_file.h"
#include "core/strings.h"
#include "core/units.h"
#include "core/wrapped_message.h"
#include "nn/work_recorder.h"
#include "parallel/replica_check.h"
#include "record/reader.h"
#include "record/run_record.h"
#include "train/agree.h"
#include "train/interval_recorder.h"
#include "train/out_of_memory.h"
#include "train/recorded_step.h"
#include "train/run_checkpoints.h"
#include "train/run_context.h"
#include "train/run_description.h"
#include "train/run_profile.h"
#include "train/run_remote.h"
#include "train/same_start.h"
#include "train/startup_clock.h"
#include "train/trainer.h"

namespace lockstep::train {
namespace {

constexpr double kSyncOfFailedRun_s = 15;   // whoever started the ranks may end them soon
constexpr double kSyncOfStoppedRun_s = 60;  // so does SLURM, and the next attempt sends the rest

/// Every option as a key and a text, for params.txt.
std::vector<std::pair<std::string, std::string>> params_of(const core::OptionSet& set) {
  std::vector<std::pair<std::string, std::string>> params;
  for (const auto& option : set.options())
    params.emplace_back(core::replace_all(option.name, "-", "_"), option.value_text());
  return params;
}

/// What a failed start is told of and takes back.
struct StartedRun {
  std::optional<RunFolder> folder;  ///< That rank 0 made, until there was a step.
  int64_t num_ranks = 1;
  std::filesystem::path log_file{};  ///< That this process writes; empty: none.

  /// Once, what the main prints on standard error alone.
  void log_failure(const Error& error) {
    const auto path = std::exchange(log_file, {});
    const std::string hint = error.hint().empty() ? "" : fmt::format(" (hint: {})", error.hint());
    if (!path.empty()) core::append_error_to_log(path, error.what() + hint);
  }
};

/// Joins the ranks, which must have been started alike, and opens the folder of the run. Collective.
RunContext join_run(const TrainRequest& request, const SoftwareVersions& versions, StartedRun& started) {
  leave_on_stop_signals();
  RunContext run{.request = request, .versions = versions, .ranks = join_ranks(request.options), .batch = {}};
  started.num_ranks = run.ranks.info.world_size;
  require_same_start(run.world(), request.set, versions);
  run.batch = request.plan_batch(run.ranks.info.world_size);
  run.hosts = run.world().gather_strings(core::host_name());
  note_stop_signals(run.ranks.is_first(), run.ranks.info.world_size);  // from here on ranks stop together, after a step
  run.folder = open_run_folder(request, run.ranks);
  if (run.ranks.is_first()) started.folder = run.folder;
  started.log_file = log_file_of(run.folder, request.options, run.ranks.info);
  return run;
}

/// Everything of one rank's run, built in the order of the members; the trainer works with references into it.
class TrainRun final : private TrainerCallbacks {
 public:
  TrainRun(const TrainRequest& request, const SoftwareVersions& versions, StartedRun& started);
  ExitCode run();
  void note_failure(const Error& error);

 private:
  TrainerConfig trainer_config() const;
  void open_record(const TrainerConfig& config, bool trains);
  std::string graphs_at_start() const;
  void log_start(const TrainerConfig& config) const;
  void list_bad_samples() const;
  ExitCode finish(ExitCode code);
  void finish_sync(ExitCode code);

  void before_step(int64_t step) override;
  void record_first_step(const PhaseTimes& first_step) override;
  void record_interval(const IntervalTimes& times) override { intervals_->record(times); }
  bool save(const TrainerPosition& position) override;
  void finish_saving() override { checkpoints_.finish_saving(); }
  bool evaluate(const EvaluationTime& when) override;
  bool lacks_evaluation(const TrainerPosition& start);
  bool is_time_up() override;

  StartupClock startup_;  // first: it counts from here
  StartedRun& started_;
  RunContext run_;
  PhaseClock phases_;
  std::unique_ptr<nn::WorkRecorder> recorder_;  // of the task's steps
  std::unique_ptr<TrainingTask> task_;
  RunCheckpoints checkpoints_{run_};
  Snapshot snapshot_;
  Training* training_ = nullptr;  // the task's
  data::EpochSize epoch_;         // 0 steps: nothing to train on
  int64_t first_step_ = 0;        // of this attempt
  std::unique_ptr<BatchSource> batches_;
  std::unique_ptr<record::RunRecord> record_;  // rank 0
  std::optional<TrainLog> log_;                // rank 0
  std::optional<IntervalRecorder> intervals_;
  std::optional<RunProfile> profile_;
  std::unique_ptr<remote::RunSync> sync_;  // rank 0, with --remote-sync
};

TrainRun::TrainRun(const TrainRequest& request, const SoftwareVersions& versions, StartedRun& started)
    : started_(started), run_(join_run(request, versions, started)),
      phases_(run_.ranks.device, run_.ranks.world.recorder()) {
  startup_.finish("communicator");
  startup_.split("communicator", "rendezvous", run_.ranks.world.join_times().rendezvous_ms);
  task_ = request.make_task(run_.ranks.world, run_.ranks.device, run_.batch);
  run_.task = task_->facts();
  epoch_ = task_->open_data();  // bad data are refused before memory of devices is taken
  startup_.finish("loader");
  if (!run_.folder.has_checkpoint) snapshot_ = task_->find_snapshot();
  checkpoints_.check_model(snapshot_);
  if (run_.ranks.is_first()) core::show_progress(fmt::format("building {}", run_.facts().model));
  if (run_.world().size() == 1) recorder_ = nn::make_work_recorder(run_.options().cuda_graphs, run_.ranks.device);
  training_ = &task_->build_training({.phases = &phases_,
                                      .fault = parse_fault(core::env("LOCKSTEP_FAULT").value_or("")),
                                      .is_restored = run_.folder.has_checkpoint,
                                      .adamw = checkpoints_.find_adamw(snapshot_),
                                      .waits = run_.long_waits(),
                                      .snapshot = snapshot_,
                                      .recorder = recorder_.get(),
                                      .on_recording = [this](const std::string& what) {
                                        if (record_) record_->note_cuda_graphs(what);
                                      }});
  core::end_progress();
  startup_.finish("weights");
  if (epoch_.num_batches > 0)
    agree_on(run_.world(),
             fmt::format("{} an epoch ({}, {})", core::counted(epoch_.num_batches, "step"), epoch_.origin,
                         epoch_.each_once ? "indexed" : "not indexed"),
             "shards and --index-dir must be the same on every node");
}

TrainerConfig TrainRun::trainer_config() const {
  const config::RunOptions& options = run_.options();
  const config::RunFacts& facts = run_.facts();
  TrainerConfig config;
  config.steps_per_epoch = epoch_.num_batches;
  config.num_epochs = facts.epochs;
  config.max_steps = facts.max_steps;
  config.samples_per_step = run_.batch.global_batch;
  config.micro_batches_per_step = run_.batch.num_micro_batches;
  config.grad_clip_norm = facts.grad_clip_norm.value_or(0);
  config.log_every_n_steps = options.log_every_n_steps;
  config.save_frequency_epochs = facts.save_frequency_epochs;
  config.save_every_n_steps = options.save_every_n_steps;
  config.check_replicas_steps = options.check_replicas_steps;
  config.seed = static_cast<uint64_t>(options.seed);
  config.flags_to_resume = config::flags_to_resume(options, run_.folder.name);
  config.logs_params_norm = facts.logs_params_norm;
  config.logs_num_zeros = facts.logs_num_zeros;
  return config;
}

void TrainRun::before_step(int64_t step) {
  if (step > first_step_) started_.folder.reset();
  if (profile_) profile_->before_step(step);
}

/// Waiting for the first batch is loading still.
void TrainRun::record_first_step(const PhaseTimes& first_step) {
  startup_.add("loader", first_step[Phase::kDataWait]);
  startup_.add("first_step", first_step.sum() - first_step[Phase::kDataWait]);
  if (record_) record_->append_startup({.phases_ms = startup_.phases_ms()});
}

bool TrainRun::save(const TrainerPosition& position) {
  started_.folder.reset();  // it holds something now
  std::vector<core::Json> of_ranks;
  for (const auto& text : run_.world().gather_strings(position.data.dump()))
    of_ranks.push_back(core::parse_json(text, "data position of a rank"));
  intervals_->finish();
  if (record_) record_->flush();  // a run that is killed and goes on from here lacks no line before it
  return checkpoints_.save(position, batches_->join_positions(of_ranks));
}

bool TrainRun::is_time_up() {
  const auto& minutes = run_.facts().exit_after_minutes;
  return minutes && run_.ranks.is_first() && startup_.age_minutes() >= *minutes;
}

void TrainRun::open_record(const TrainerConfig& config, bool trains) {
  succeed_together(run_.world(), [&] {
    if (!run_.ranks.is_first()) return;
    record_ = std::make_unique<record::RunRecord>(
        run_.folder.path, describe_attempt(run_, epoch_.num_batches, training_->sync->num_buckets()));
    if (trains || !checkpoint::is_there(run_.folder.path / "params.txt"))  // else it tells how the run was trained
      record_->write_params(params_of(run_.request.set));
    record_->note_cuda_graphs(graphs_at_start());
    if (const auto file = core::env("LOCKSTEP_RUN_FOLDER_FILE");
        file && !file->empty())  // of `launch`, which notes there who failed first
      core::write_file_atomic(*file, std::filesystem::absolute(run_.folder.path).string());
    const auto samples = static_cast<double>(config.samples_per_step);
    const std::string& report_to = run_.options().report_to;
    std::optional<record::WandbRun> wandb;
    if (report_to == "wandb" || report_to == "all")
      wandb = {.id = record::wandb_id(run_.folder.path.filename().string()),
               .project = run_.options().wandb_project,
               .notes = run_.options().wandb_notes,
               .config = run_.request.set.values_json(),
               .is_resumed = run_.folder.is_resume};
    log_.emplace(TrainLogConfig{.steps_per_epoch = config.steps_per_epoch,
                                .samples_per_step = config.samples_per_step,
                                .tokens_per_step = config.samples_per_step * run_.task.sequence_length,
                                .total_steps = config.last_step(),
                                .world_size = run_.ranks.info.world_size,
                                .log_every_n_steps = config.log_every_n_steps,
                                .device = run_.ranks.device,
                                .to_tensorboard = report_to == "tensorboard" || report_to == "all",
                                .train_flops_per_step = 3 * run_.task.forward.flops * samples},
                 task_->log_format(), *record_, wandb);
    sync_ = start_sync(run_.options(), {.folder = run_.folder.path, .name = run_.folder.name}, checkpoints_.attempt(),
                       checkpoints_.held());
  });
}

std::string TrainRun::graphs_at_start() const {
  return recording_at_start(run_.options().cuda_graphs, run_.ranks.device.is_cuda(), run_.ranks.info.world_size);
}

void TrainRun::log_start(const TrainerConfig& config) const {
  const int64_t buckets = training_->sync->num_buckets();
  int64_t num_here = 0, num_trained_here = 0;
  for (const auto& [name, tensor] : training_->task->network().named_parameters()) {
    num_here += tensor->numel();
    if (tensor->requires_grad()) num_trained_here += tensor->numel();
  }
  const std::string of_trained =  // locked parameters are not split over ranks
      num_trained_here == num_here
          ? ""
          : fmt::format("{} of ", core::format_count(
                                      static_cast<double>(run_.task.num_parameters - (num_here - num_trained_here))));
  core::log_info("{}: {}{} parameters{}, {} on {} x {} ({}), {} {} a step{}", run_.facts().model, of_trained,
                 core::format_count(static_cast<double>(run_.task.num_parameters)),
                 of_trained.empty() ? "" : " trained", run_.facts().precision, run_.ranks.info.world_size,
                 run_.ranks.device.str(), run_.task.layout, config.samples_per_step, run_.task.sample_unit,
                 buckets > 0 ? fmt::format(", {} gradient buckets", buckets) : "");
  if (run_.ranks.info.world_size > 1 && run_.options().cuda_graphs != "off" && run_.ranks.device.is_cuda())
    core::log_info("steps are launched kernel by kernel: CUDA graphs are for runs of one rank");
}

ExitCode TrainRun::run() {
  if (epoch_.num_batches == 0) {
    TrainerPosition start;
    if (run_.folder.is_resume) start = checkpoints_.restore(*training_, snapshot_, epoch_.num_batches);
    open_record({}, /*trains=*/false);
    evaluate({.epochs_done = checkpoints_.epochs_done(), .steps_done = start.step, .is_last = true});
    return finish(ExitCode::kOk);
  }
  TrainerConfig config = trainer_config();
  const TrainerPosition start = checkpoints_.restore(*training_, snapshot_, epoch_.num_batches);
  first_step_ = start.step;
  open_record(config, start.step < config.last_step());  // a start that is refused leaves no trace in a record
  if (const auto& interval = run_.facts().exit_interval) {
    const int64_t planned = config.last_step(), end = (start.step / *interval + 1) * *interval;
    if (end < planned) {
      config.max_steps = end;
      config.early_end = {.flag = fmt::format("--exit-interval {}", *interval), .planned_steps = planned};
    }
  }
  batches_ = task_->open_train(start.data);
  intervals_.emplace(run_.world(), run_.hosts, run_.ranks.device, record_.get());
  startup_.finish("loader");
  if (config.check_replicas_steps > 0)
    parallel::check_replicas(training_->task->network().named_parameters(), *training_->data_axis);
  if (run_.options().profile) profile_.emplace(run_);
  log_start(config);
  if (lacks_evaluation(start))
    evaluate({.epochs_done = start.step / config.steps_per_epoch,
              .steps_done = start.step,
              .is_last = start.step >= config.last_step()});
  const TrainerParts parts{.training = *training_,
                           .batches = *batches_,
                           .world = run_.world(),
                           .device = run_.ranks.device,
                           .phases = phases_,
                           .log = log_ ? &*log_ : nullptr,
                           .callbacks = *this};
  return finish(Trainer(config, parts, start).run());
}

/// Each rank lists its own, also when there were too many of them.
void TrainRun::list_bad_samples() const {
  const data::Loader* loader = batches_ ? batches_->loader() : nullptr;
  if (loader == nullptr || loader->num_bad_samples() == 0) return;
  started_.folder.reset();  // the list stays
  const auto file = run_.folder.path / fmt::format("bad_samples.rank{}.jsonl", run_.ranks.info.rank);
  core::log_warning("data: rank {} replaced {} bad samples, listed in {}; the first: {}", run_.ranks.info.rank,
                    loader->num_bad_samples(), file.string(), loader->bad_samples().front().reason);
  try {
    data::append_bad_samples(file, run_.ranks.info.rank, loader->bad_samples());
  } catch (const Error& error) {
    core::log_warning("{}", core::wrapped_message("data: the list of bad samples could not be written", error));
  }
}

ExitCode TrainRun::finish(ExitCode code) {
  core::end_progress();
  if (intervals_) intervals_->finish();
  if (profile_) profile_->finish(record_.get());
  if (epoch_.num_batches > 0) checkpoints_.remove_superfluous();
  list_bad_samples();
  core::log_info("the record of this run lies in {}", run_.folder.path.string());
  run_.world().barrier();
  note_stop_signals_at_end();
  if (log_) log_->finish(static_cast<int>(code));
  if (record_)
    record_->finish({.state = code == ExitCode::kOk ? record::RunState::kFinished : record::RunState::kStopped,
                     .exit_code = static_cast<int>(code)});
  finish_sync(code);
  ignore_stop_signals();
  return code;
}

/// The last copy. A signal ends it: the run is over, and what is missing at the copy lies here.
void TrainRun::finish_sync(ExitCode code) {
  const double deadline_s = run_.options().remote_sync_deadline_s;
  if (sync_)
    sync_->finish(code == ExitCode::kRequeue ? std::min(kSyncOfStoppedRun_s, deadline_s) : deadline_s, was_told_to_end);
  if (run_.options().remote_sync.empty()) return;
  const std::string waited_for = "the last files reach --remote-sync";  // srun ends a job soon after its first rank
  if (epoch_.num_batches > 0)
    checkpoints_.remove_superfluous(waited_for);  // of which one may have been on its way
  else
    run_.ranks.world.wait_for_rank_zero(waited_for);
}

void TrainRun::note_failure(const Error& error) {
  run_.ranks.world.limit_time_to_leave(error.code());
  started_.log_failure(error);  // first: a launcher may end this process while it waits for the others
  run_.ranks.world.report_failure(error.what(), error.code());
  list_bad_samples();
  if (!record_) {
    if (!core::env("LOCKSTEP_RUN_FOLDER_FILE"))  // `launch` knows how rank 0 ended
      record::note_lost_writer(run_.folder.path, run_.ranks.info.rank, error);
    return;
  }
  const bool is_of_another = error.code() == ExitCode::kCommunication;  // else many may have failed in one moment
  record_->finish({.state = record::RunState::kFailed,
                   .exit_code = static_cast<int>(error.code()),
                   .message = error.what(),
                   .first_failing_rank = is_of_another ? run_.ranks.world.first_failing_rank() : std::nullopt});
  if (sync_) sync_->finish(std::min(kSyncOfFailedRun_s, run_.options().remote_sync_deadline_s));
}

/// A run that was stopped at the end of an epoch owes its evaluation. Collective.
bool TrainRun::lacks_evaluation(const TrainerPosition& start) {
  if (!run_.folder.has_checkpoint || start.step == 0 || start.step % epoch_.num_batches != 0) return false;
  return decide_on_rank_zero(run_.world(), [&] {
           record_->flush();
           const auto results = run_.folder.path / "results.jsonl";
           if (!std::filesystem::exists(results)) return std::string("owed");
           for (const core::Json& line : record::read_json_lines(results).lines)
             if (line.value("step", int64_t{-1}) == start.step) return std::string();
           return std::string("owed");
         }) == "owed";
}

bool TrainRun::evaluate(const EvaluationTime& when) {
  const auto began = std::chrono::steady_clock::now();
  for (const auto& [name, tensor] : training_->task->network().named_buffers())
    training_->data_axis->broadcast(tensor->detach(), 0).wait();  // all copies evaluate the model of the first
  Metrics metrics;
  while_ranks_live(run_.world(), [&] { metrics = task_->evaluate(when); });
  if (log_ && !metrics.empty())
    log_->add_result(when.epochs_done, when.steps_done, "val", metrics,
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return epoch_.num_batches > 0 && checkpoints_.rank(when, metrics);
}

}  // namespace

namespace {

ExitCode train_in(StartedRun& started, const TrainRequest& request, const SoftwareVersions& versions) {
  TrainRun run = explaining_limits(request, started.num_ranks, [&] { return TrainRun(request, versions, started); });
  try {
    return explaining_limits(request, started.num_ranks, [&] { return run.run(); });
  } catch (const Error& error) {
    run.note_failure(error);
    throw;
  } catch (const std::exception& error) {
    run.note_failure(Error(ExitCode::kInternal, error.what()));
    throw;
  }
}

/// Known not to be there, which is more than not to be seen.
bool is_absent(const std::filesystem::path& path) {
  std::error_code failure;
  return std::filesystem::status(path, failure).type() == std::filesystem::file_type::not_found;
}

}  // namespace

ExitCode train(const TrainRequest& request, const SoftwareVersions& versions) {
  StartedRun started;
  try {
    return train_in(started, request, versions);
  } catch (const Error& error) {
    started.log_failure(error);
    // What the user can correct and start again under the same name leaves nothing in its way.
    // So does what this machine cannot do (a model beyond its memory) and a checkpoint that is none, unless there is
    // a record that tells of it.
    const bool is_refusal = error.code() == ExitCode::kUsage || error.code() == ExitCode::kData;
    const bool is_unfit = (error.code() == ExitCode::kEnvironment || error.code() == ExitCode::kCheckpoint) &&
                          started.folder && is_absent(started.folder->path / "run.json");
    if ((is_refusal || is_unfit) && started.folder) remove_new_folders(*started.folder);
    throw;
  }
}

}  // namespace lockstep::train
