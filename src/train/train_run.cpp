#include "train/train_run.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "comm/recorder.h"
#include "comm/world.h"
#include "core/env.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/host_name.h"
#include "core/log.h"
#include "core/strings.h"
#include "hw/counters.h"
#include "hw/device.h"
#include "hw/device_specs.h"
#include "hw/ranks.h"
#include "parallel/replica_check.h"
#include "plan/train_batch.h"
#include "record/checkpoint_manifest.h"
#include "record/run_record.h"
#include "record/trace.h"
#include "train/agree.h"
#include "train/attempt_facts.h"
#include "train/checkpointer.h"
#include "train/contrastive_kit.h"
#include "train/device.h"
#include "train/gpt_kit.h"
#include "train/interval_recorder.h"
#include "train/profile_summary.h"
#include "train/profiler.h"
#include "train/run_folder.h"
#include "train/startup_clock.h"
#include "train/trainer.h"

namespace lockstep::train {
namespace {

/// Every option as a key and a text, for params.txt.
std::vector<std::pair<std::string, std::string>> params_of(const core::OptionSet& set) {
  std::vector<std::pair<std::string, std::string>> params;
  for (const auto& option : set.options())
    params.emplace_back(core::replace_all(option.name, "-", "_"), option.value_text());
  return params;
}

/// --dist-url: "env://" (the default way), or tcp://HOST:PORT.
void apply_dist_url(const std::string& url, hw::RankFlags& flags) {
  if (url.empty() || url == "env://") return;
  const auto colon = url.rfind(':');
  const auto port = core::parse_int(url.substr(colon + 1));
  if (!core::starts_with(url, "tcp://") || colon <= 6 || !port || *port < 1 || *port > 65535)
    throw UsageError(fmt::format("train: --dist-url '{}' is not understood", url),
                     "expected tcp://HOST:PORT, or env://");
  flags.master_addr = url.substr(6, colon - 6);
  flags.master_port = static_cast<int>(*port);
}

/// Everything of one rank's run, built in the order of the members; the trainer works with references into it.
class TrainRun {
 public:
  TrainRun(const config::ParsedCommand& command, const SoftwareVersions& versions);
  ExitCode run();
  void note_failure(const Error& error);

 private:
  void join_ranks();
  /// UsageError on every rank unless all ranks say the same. Collective.
  void agree_on(const std::string& what, const std::string& hint);
  void open_record(const TrainerConfig& config);
  ExitCode finish(ExitCode code);
  void open_folder();
  TrainerConfig trainer_config() const;
  TrainerPosition restore();
  /// From a snapshot of another run, which may have had another global batch, or from nothing.
  TrainerPosition start();
  core::Json describe_attempt() const;
  std::optional<record::CheckpointManifest> starting_manifest() const;
  void check_model();
  core::Json resume_facts() const;
  /// UsageError for a fact that a checkpoint was written with another value of.
  static void require_same(const core::Json& facts, const core::Json& written, const std::string& hint);
  void save(const TrainerPosition& position);
  void finish_saving();
  void record_first_step(const PhaseTimes& first_step);
  /// Of rank 0 with --exit-duration-in-mins; else empty.
  std::function<bool()> time_limit() const;
  std::string model_name() const;
  core::Json describe_setup() const;
  void open_profiler();
  void finish_profile();
  void list_bad_samples() const;
  std::filesystem::path trace_of_rank(int64_t rank) const;
  void evaluate(int64_t epochs_done, int64_t steps_done);
  comm::World& world() { return *world_; }
  bool is_first_rank() const { return ranks_.rank == 0; }

  StartupClock startup_;  // first: it counts from here
  const config::ParsedCommand& command_;
  const config::TrainOptions options_;  // of `train gpt` those that all tasks have
  SoftwareVersions versions_;
  hw::RankInfo ranks_;
  std::vector<std::string> hosts_;  // per rank
  at::Device device_ = at::kCPU;
  std::optional<comm::World> world_;
  RunFolder folder_;
  plan::BatchPlan batch_;
  std::optional<PhaseClock> phases_;
  std::unique_ptr<TaskKit> kit_;
  Snapshot snapshot_;
  Training training_;
  TaskFacts facts_;
  data::EpochSize epoch_;  // 0 steps: nothing to train on
  std::unique_ptr<BatchSource> batches_;
  std::unique_ptr<Checkpointer> checkpointer_;
  std::unique_ptr<record::RunRecord> record_;  // rank 0
  std::optional<TrainLog> log_;                // rank 0
  std::optional<IntervalRecorder> intervals_;
  std::optional<StepProfiler> profiler_;
};

TrainRun::TrainRun(const config::ParsedCommand& command, const SoftwareVersions& versions)
    : command_(command), options_(command.gpt ? gpt_run_options(*command.gpt) : *command.train), versions_(versions) {
  leave_on_stop_signals();
  join_ranks();
  install_signal_handlers(is_first_rank());  // from here on ranks stop together, after a step
  open_folder();
  startup_.finish("communicator");
  startup_.split("communicator", "rendezvous", world().join_times().rendezvous_ms);
  phases_.emplace(device_, world().recorder());
  kit_ = command.gpt ? make_gpt_kit(*command.gpt, world(), device_)
                     : make_contrastive_kit(options_, world(), device_, batch_);
  kit_->open_data();  // bad data are told before memory of devices is taken
  startup_.finish("loader");
  if (!folder_.has_checkpoint) snapshot_ = kit_->find_snapshot();
  check_model();
  training_ = kit_->build_training({.phases = &*phases_,
                                    .fault = parse_fault(core::env("LOCKSTEP_FAULT").value_or("")),
                                    .is_restored = folder_.has_checkpoint,
                                    .snapshot = snapshot_});
  startup_.finish("weights");
  facts_ = kit_->facts();
  epoch_ = kit_->epoch_size();
  if (epoch_.num_batches > 0)
    agree_on(fmt::format("{} steps an epoch ({}, {})", epoch_.num_batches, epoch_.origin,
                         epoch_.each_once ? "indexed" : "not indexed"),
             "shards and --index-dir must be the same on every node");
}

void TrainRun::agree_on(const std::string& what, const std::string& hint) {
  const auto all = world().comm().gather_strings(what);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw UsageError(fmt::format("train: rank 0 has {}, rank {} has {}", all[0], rank, all[rank]), hint);
}

void TrainRun::join_ranks() {
  const auto as_int = [](const std::optional<int64_t>& value) {
    return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
  };
  hw::RankFlags flags{.rank = as_int(options_.dist_rank),
                      .world_size = as_int(options_.dist_world_size),
                      .local_rank = as_int(options_.dist_local_rank)};
  apply_dist_url(options_.dist_url, flags);
  ranks_ = hw::discover_ranks(flags, hw::process_env());
  core::configure_log({.level = options_.debug ? core::LogLevel::kDebug : core::LogLevel::kInfo,
                       .host = options_.log_local ? core::host_name() : "",
                       .rank = options_.log_local ? 0 : ranks_.rank});
  for (const auto& warning : ranks_.warnings) core::log_warning("{}", warning);
  device_ = pick_device(options_.device, ranks_.local_rank, ranks_.local_world_size);
  set_up_cpu(device_, options_.threads, ranks_.local_world_size);
  if (options_.deterministic) {
    at::globalContext().setDeterministicAlgorithms(true, false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  }
  const std::string backend =
      options_.dist_backend == "auto" ? (device_.is_cuda() ? "nccl" : "gloo") : options_.dist_backend;
  world_.emplace(comm::World::join(
      ranks_, {.backend = backend,
               .device = device_,
               .timeout = std::chrono::milliseconds(static_cast<int64_t>(options_.dist_timeout_s * 1000))}));
  auto options = command_.set->values_json();
  for (const char* own : {"dist_rank", "dist_local_rank", "dist_url", "log_local", "debug", "threads", "workers"})
    options.erase(own);
  agree_on(fmt::format("options {} of version {}", core::xxh3_hex(options.dump()), versions_.lockstep),
           "start every rank with the same command line");
  batch_ = plan::train_batch_plan(command_, ranks_.world_size);
  hosts_ = world().comm().gather_strings(core::host_name());
}

void TrainRun::open_folder() {
  folder_ = run_folder_from_text(decide_on_rank_zero(world().comm(), [&] {
    return to_text(choose_run_folder(options_, time_text_now(), ranks_.slurm_restart_count));
  }));
  if (folder_.is_resume && !folder_.has_checkpoint && command_.gpt && command_.gpt->exit_on_missing_checkpoint)
    throw CheckpointError(fmt::format("train: '{}' holds no checkpoint, and --exit-on-missing-checkpoint is given",
                                      folder_.checkpoints().string()),
                          "name the run to go on with, or drop the flag to begin it");
  if (is_first_rank() || options_.log_local)
    core::open_log_file(
        (folder_.path / (options_.log_local ? fmt::format("out-{}", ranks_.rank) : "out.log")).string());
  if (is_first_rank())
    for (const auto& warning : command_.warnings) core::log_warning("{}", warning);
}

TrainerConfig TrainRun::trainer_config() const {
  TrainerConfig config;
  config.steps_per_epoch = epoch_.num_batches;
  config.num_epochs = options_.epochs;
  config.max_steps = options_.max_steps;
  config.samples_per_step = batch_.global_batch;
  config.micro_batches_per_step = batch_.num_micro;
  config.lr = kit_->learning_rate(config.total_steps());
  config.grad_clip_norm = options_.grad_clip_norm.value_or(0);
  config.log_every_n_steps = options_.log_every_n_steps;
  config.save_frequency_epochs = options_.save_most_recent ? 1 : options_.save_frequency_epochs;
  config.save_every_n_steps = options_.save_every_n_steps;
  config.check_replicas_steps = options_.check_replicas_steps;
  config.seed = static_cast<uint64_t>(options_.seed);
  config.logs_params_norm = command_.gpt && command_.gpt->log_params_norm;
  config.logs_num_zeros = command_.gpt && command_.gpt->log_num_zeros_in_grad;
  return config;
}

core::Json TrainRun::describe_attempt() const {
  core::Json attempt;
  attempt["task"] = options_.task;
  attempt["options"] = command_.set->values_json();
  attempt["code_version"] = versions_.lockstep;
  attempt["world_size"] = ranks_.world_size;
  attempt["ranks_from"] = ranks_.source;
  attempt["device"] = device_.str();
  attempt["threads_per_rank"] = at::get_num_threads();
  attempt["host"] = core::host_name();
  attempt["slurm_job_id"] = ranks_.job_id;
  attempt["command"] = command_line();
  attempt["environment"] = environment_facts();
  attempt["software"] = {{"libtorch", versions_.libtorch}, {"cuda", versions_.cuda}, {"nccl", versions_.nccl}};
  attempt["model"] = {{"name", options_.model}, {"parameters", facts_.num_parameters}};
  attempt["model"].update(facts_.model);
  attempt["setup"] = describe_setup();
  attempt["plan"] = {{"samples_per_rank", batch_.samples_per_micro},
                     {"accum_freq", batch_.num_micro},
                     {"global_batch", batch_.global_batch},
                     {"steps_per_epoch", epoch_.num_batches},
                     {"gradient_buckets", training_.sync->num_buckets()}};
  return attempt;
}

/// Of a file of the user's own without folders and ending; of "demo/model.json", whose name says nothing, the folder's.
std::string TrainRun::model_name() const {
  const std::filesystem::path path = options_.model;
  if (path.extension() != ".json") return options_.model;
  const std::string stem = path.stem().string(),
                    folder = std::filesystem::absolute(path).parent_path().filename().string();
  return (stem == "model" || stem == "config") && !folder.empty() ? folder : stem;
}

/// What reports need to know (docs/record.md).
core::Json TrainRun::describe_setup() const {
  const auto gpus = hw::CounterReader().gpu_names();
  const std::string device = !device_.is_cuda() ? hw::cpu_name() : gpus.empty() ? "CUDA device" : gpus.front();
  core::Json setup{{"task", options_.task},
                   {"model", model_name()},
                   {"precision", options_.precision},
                   {"device", device},
                   {"layout", facts_.layout},
                   {"nodes", std::set(hosts_.begin(), hosts_.end()).size()},
                   {"devices", ranks_.world_size},
                   {"global_batch", batch_.global_batch},
                   {"samples_per_device", batch_.samples_per_rank()},
                   {"accum", batch_.num_micro},
                   {"sequence_length", facts_.sequence_length},
                   {"sample_unit", facts_.sample_unit},
                   {"forward_gflops_per_sample", facts_.forward.flops / 1e9},
                   {"flops_formula", facts_.forward.formula},
                   {"is_synthetic", facts_.is_synthetic},
                   {"is_profiled", options_.profile}};
  if (facts_.processed.flops > 0 && facts_.processed.flops < facts_.forward.flops) {
    setup["processed_gflops_per_sample"] = facts_.processed.flops / 1e9;
    setup["processed_formula"] = facts_.processed.formula;
  }
  const auto match = hw::find_device(device);
  const auto type = hw::compute_type_of_precision(options_.precision);
  if (const auto peak = match.spec != nullptr && type ? hw::peak_tflops(*match.spec, *type) : std::nullopt) {
    setup["peak_tflops_per_device"] = *peak;
    setup["peak_source"] =
        fmt::format("{}, dense {}: {}", match.spec->name, hw::compute_type_name(*type), match.spec->source);
  }
  return setup;
}

/// Of what the run will start from, as far as it can be told without reading files of tensors.
std::optional<record::CheckpointManifest> TrainRun::starting_manifest() const {
  if (!snapshot_.folder.empty()) return record::read_manifest(snapshot_.folder);
  if (!folder_.has_checkpoint) return std::nullopt;
  if (!folder_.resume_latest) {
    if (!std::filesystem::exists(folder_.resume_path / record::kManifestName))
      return std::nullopt;  // restore() says so
    return record::read_manifest(folder_.resume_path);
  }
  for (const auto& entry : record::list_checkpoints(folder_.path))
    if (entry.problem.empty()) return entry.manifest;
  return std::nullopt;
}

/// A checkpoint of another model is told before memory of devices is taken.
void TrainRun::check_model() {
  decide_on_rank_zero(world().comm(), [this] {
    core::Json facts = kit_->model_facts();
    if (folder_.has_checkpoint) facts["precision"] = options_.precision;
    if (const auto manifest = starting_manifest())
      require_same(facts, callers_extra(*manifest),
                   folder_.has_checkpoint ? "resume with the options of the run's params.txt"
                                          : "--load takes runs of the same model");
    return std::string();
  });
}

TrainerPosition TrainRun::restore() {
  CheckpointerConfig config;
  config.run_folder = folder_.path;
  config.num_kept = options_.keep.value_or(options_.delete_previous_checkpoint ? 1 : 0);
  config.code_version = versions_.lockstep;
  config.who = {{"host", core::host_name()}, {"job", ranks_.job_id}, {"pid", ::getpid()}};
  config.wait_for_rank_zero = [this] { world().wait_for_rank_zero("it tests the files of a checkpoint"); };
  checkpointer_ = std::make_unique<Checkpointer>(config, checkpoint_state(training_), world().comm());
  std::optional<RestoredCheckpoint> restored;
  if (folder_.has_checkpoint)
    restored = folder_.resume_latest ? checkpointer_->restore_latest() : checkpointer_->restore(folder_.resume_path);
  if (!restored) {
    if (folder_.is_resume && is_first_rank())
      core::log_info("no checkpoint in {} yet: starting from the beginning", folder_.path.string());
    return start();
  }
  if (is_first_rank())
    core::log_info("continuing after step {} from {}", restored->position.step, restored->folder.string());
  require_same(resume_facts(), restored->position.extra, "resume with the options of the run's params.txt");
  return {.step = restored->position.step,
          .samples_seen = restored->position.samples_seen,
          .data = restored->position.data};
}

void TrainRun::require_same(const core::Json& facts, const core::Json& written, const std::string& hint) {
  if (const auto key = differing_fact(facts, written))
    throw UsageError(fmt::format("train: the checkpoint was written with {}={}, this run has {}={}", *key,
                                 written.at(*key).dump(), *key, facts.at(*key).dump()),
                     hint);
}

TrainerPosition TrainRun::start() {
  if (snapshot_.folder.empty() || snapshot_.use == SnapshotUse::kWeights) return {};
  const auto restored = snapshot_.use == SnapshotUse::kAll ? checkpointer_->load(snapshot_.folder)
                                                           : checkpointer_->read_position(snapshot_.folder);
  if (is_first_rank())
    core::log_info("starting from {}, after step {} and {} samples", restored.folder.string(), restored.position.step,
                   restored.position.samples_seen);
  return {
      .step = restored.position.step, .samples_seen = restored.position.samples_seen, .data = restored.position.data};
}

/// What must not change when a run is resumed: it fixes the meaning of a step.
core::Json TrainRun::resume_facts() const {
  core::Json facts{{"precision", options_.precision}, {"seed", options_.seed}, {"global_batch", batch_.global_batch}};
  facts.update(kit_->model_facts());
  if (kit_->has_epochs()) facts["steps_per_epoch"] = epoch_.num_batches;
  return facts;
}

void TrainRun::save(const TrainerPosition& position) {
  std::vector<core::Json> data_positions;
  for (const auto& text : world().comm().gather_strings(position.data.dump()))
    data_positions.push_back(core::parse_json(text, "data position of a rank"));
  checkpointer_->save({.step = position.step,
                       .epoch = position.step / epoch_.num_batches,
                       .samples_seen = position.samples_seen,
                       .data = kit_->join_positions(data_positions),
                       .extra = resume_facts()});
}

/// Waiting for the first batch is loading still.
void TrainRun::record_first_step(const PhaseTimes& first_step) {
  startup_.add("loader", first_step[Phase::kDataWait]);
  startup_.add("first_step", first_step.sum() - first_step[Phase::kDataWait]);
  if (record_) record_->append_startup({.phases_ms = startup_.phases_ms()});
}

std::function<bool()> TrainRun::time_limit() const {
  if (!is_first_rank() || !command_.gpt || !command_.gpt->exit_duration_in_mins) return {};
  return [this, minutes = *command_.gpt->exit_duration_in_mins] { return startup_.age_minutes() >= minutes; };
}

void TrainRun::finish_saving() {
  succeed_together(world().comm(), [&] {
    if (!checkpointer_->wait())
      throw CheckpointError("train: the last checkpoint could not be written; the warning above says why",
                            "the older checkpoints are whole: make room and continue with --resume latest");
  });
}

void TrainRun::open_record(const TrainerConfig& config) {
  succeed_together(world().comm(), [&] {
    if (!is_first_rank()) return;
    record_ = std::make_unique<record::RunRecord>(folder_.path, describe_attempt());
    record_->write_params(params_of(*command_.set));
    if (const auto file = core::env("LOCKSTEP_RUN_FOLDER_FILE");
        file && !file->empty())  // of `launch`, which notes there who failed first
      core::write_file_atomic(*file, std::filesystem::absolute(folder_.path).string());
    log_.emplace(
        TrainLogConfig{.steps_per_epoch = config.steps_per_epoch,
                       .samples_per_step = config.samples_per_step,
                       .tokens_per_step = config.samples_per_step * facts_.sequence_length,
                       .total_steps = config.last_step(),
                       .world_size = ranks_.world_size,
                       .log_every_n_steps = config.log_every_n_steps,
                       .device = device_,
                       .to_tensorboard = options_.report_to == "tensorboard",
                       .is_megatron = command_.gpt != nullptr,
                       .train_flops_per_step = 3 * facts_.forward.flops * static_cast<double>(config.samples_per_step)},
        *record_);
  });
}

ExitCode TrainRun::run() {
  kit_->check_evaluation();
  if (epoch_.num_batches == 0) {
    if (folder_.is_resume) restore();
    open_record({});
    evaluate(options_.epochs, 0);
    return finish(ExitCode::kOk);
  }
  TrainerConfig config = trainer_config();
  const TrainerPosition start = restore();
  open_record(config);  // a start that is refused leaves no trace in a record
  if (command_.gpt && command_.gpt->exit_interval) {
    const int64_t interval = *command_.gpt->exit_interval;
    config.max_steps = std::min(config.last_step(), (start.step / interval + 1) * interval);
  }
  batches_ = kit_->open_train(start.data);
  intervals_.emplace(world(), hosts_, device_, record_.get());
  startup_.finish("loader");
  if (config.check_replicas_steps > 0)
    parallel::check_replicas(training_.task->network().named_parameters(), kit_->data_axis());
  TrainerParts parts{.world = world().comm(),
                     .data_axis = kit_->data_axis(),
                     .task = *training_.task,
                     .runner = *training_.runner,
                     .sync = *training_.sync,
                     .optimizer = *training_.optimizer,
                     .scaler = training_.scaler.get(),
                     .norm = training_.norm,
                     .batches = *batches_,
                     .device = device_,
                     .phases = *phases_,
                     .log = log_ ? &*log_ : nullptr,
                     .save = [this](const TrainerPosition& position) { save(position); },
                     .finish_saving = [this] { finish_saving(); },
                     .evaluate = [this](int64_t epochs, int64_t steps) { evaluate(epochs, steps); },
                     .record_interval = [this](const IntervalTimes& times) { intervals_->record(times); },
                     .record_first_step = [this](const PhaseTimes& times) { record_first_step(times); },
                     .before_step = {},
                     .is_time_up = time_limit()};
  if (options_.profile) {
    open_profiler();
    parts.before_step = [this](int64_t step) { profiler_->before_step(step); };
  }
  const int64_t buckets = training_.sync->num_buckets();
  core::log_info("{}: {:.1f} M parameters, {} on {} x {} ({}), {} {} a step{}", options_.model,
                 static_cast<double>(facts_.num_parameters) / 1e6, options_.precision, ranks_.world_size, device_.str(),
                 facts_.layout, config.samples_per_step, facts_.sample_unit,
                 buckets > 0 ? fmt::format(", {} gradient buckets", buckets) : "");
  return finish(Trainer(config, parts, start).run());
}

std::filesystem::path TrainRun::trace_of_rank(int64_t rank) const {
  return folder_.path / "profile" / fmt::format("trace.rank{}.json", rank);
}

void TrainRun::open_profiler() {
  const auto ranks = config::parse_profile_ranks(options_.profile_ranks);
  for (const int64_t rank : ranks)
    if (rank >= ranks_.world_size)
      throw UsageError(fmt::format("train: --profile-ranks names rank {}, there are {} ranks", rank, ranks_.world_size),
                       "ranks count from 0");
  profiler_.emplace(
      ProfilerConfig{.first_step = options_.profile_step_start,
                     .end_step = options_.profile_step_end,
                     .is_this_rank = ranks.empty() || std::find(ranks.begin(), ranks.end(), ranks_.rank) != ranks.end(),
                     .emits_nvtx = options_.profile_tool == "nsys",
                     .has_cuda = device_.is_cuda(),
                     .trace = trace_of_rank(ranks_.rank)},
      world().recorder());
}

/// Rank 0 joins the traces and prints the tables.
void TrainRun::finish_profile() {
  succeed_together(world().comm(), [&] { profiler_->finish(); });
  succeed_together(world().comm(), [&] {
    if (!is_first_rank()) return;
    record_->flush();
    std::vector<std::pair<int, std::filesystem::path>> traces;
    for (int rank = 0; rank < ranks_.world_size; ++rank)
      if (std::filesystem::exists(trace_of_rank(rank))) traces.emplace_back(rank, trace_of_rank(rank));
    ProfiledCollectives collectives{.on_host = profiler_->collectives(), .is_cuda = device_.is_cuda()};
    if (device_.is_cuda() && !traces.empty()) collectives.on_device = record::device_collectives(traces.front().second);
    fmt::print(
        "{}", write_profile_summary(folder_.path, options_.profile_step_start, options_.profile_step_end, collectives));
    if (options_.profile_tool != "kineto") return;
    if (traces.empty())
      throw UsageError("profile: the run ended before the first step of the profile",
                       "choose an earlier --profile-step-start");
    const auto merged = folder_.path / "profile" / "trace.json";
    const int64_t num_events = record::merge_traces(traces, merged);
    fmt::print("\n{} events of {} ranks: {}\n  open it at ui.perfetto.dev or chrome://tracing\n", num_events,
               traces.size(), merged.string());
  });
}

/// Each rank lists its own, also when there were too many of them.
void TrainRun::list_bad_samples() const {
  const data::Loader* loader = batches_ ? batches_->loader() : nullptr;
  if (loader == nullptr || loader->num_bad_samples() == 0) return;
  const auto file = folder_.path / fmt::format("bad_samples.rank{}.jsonl", ranks_.rank);
  core::log_warning("data: rank {} replaced {} bad samples, listed in {}; the first: {}", ranks_.rank,
                    loader->num_bad_samples(), file.string(), loader->bad_samples().front().reason);
  try {
    data::append_bad_samples(file, ranks_.rank, loader->bad_samples());
  } catch (const Error& error) {
    core::log_warning("data: the list of bad samples could not be written: {}", error.what());
  }
}

ExitCode TrainRun::finish(ExitCode code) {
  core::end_progress();
  if (profiler_) finish_profile();
  list_bad_samples();
  core::log_info("the record of this run lies in {}", folder_.path.string());
  world().comm().barrier();
  ignore_stop_signals();
  if (record_)
    record_->finish({.state = code == ExitCode::kOk ? record::RunState::kFinished : record::RunState::kStopped,
                     .exit_code = static_cast<int>(code)});
  return code;
}

void TrainRun::note_failure(const Error& error) {
  world().report_failure(error.what());
  list_bad_samples();
  if (!record_) return;
  record_->finish(
      {.state = record::RunState::kFailed, .exit_code = static_cast<int>(error.code()), .message = error.what()});
}

void TrainRun::evaluate(int64_t epochs_done, int64_t steps_done) {
  const auto began = std::chrono::steady_clock::now();
  for (const auto& [name, tensor] : training_.task->network().named_buffers())
    kit_->data_axis().broadcast(tensor->detach(), 0).wait();  // all copies evaluate the model of the first
  const Metrics metrics = kit_->evaluate(training_, epochs_done);
  if (log_ && !metrics.empty())
    log_->add_result(epochs_done, steps_done, "val", metrics,
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
}

}  // namespace

ExitCode train(const config::ParsedCommand& command, const SoftwareVersions& versions) {
  TrainRun run(command, versions);
  try {
    return run.run();
  } catch (const Error& error) {
    run.note_failure(error);
    throw;
  } catch (const std::exception& error) {
    run.note_failure(Error(ExitCode::kInternal, error.what()));
    throw;
  }
}

}  // namespace lockstep::train
