#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "config/best_checkpoints.h"
#include "config/borrowed_flags.h"
#include "config/gpu_math.h"
#include "core/options.h"

namespace lockstep::config {

/// What every run of every task has; the options of a task derive from it. Flags are declared by declare_run_flags, but
/// for --model, --precision, --lr and the length of the run, which each task declares in its own words.
struct RunOptions {
  virtual ~RunOptions() = default;

  std::string task;          // "clip", "clap", "gpt": the command
  std::string model;         // --model
  std::string precision;     // --precision
  std::optional<double> lr;  // --lr, peak learning rate
  int64_t seed = 0;          // --seed

  // Device and ranks
  std::string device = "auto";        // --device {auto,cuda,cpu}
  std::string dist_backend = "auto";  // --dist-backend {auto,nccl,gloo}
  std::string dist_url;               // --dist-url
  std::optional<int64_t> dist_rank, dist_world_size, dist_local_rank;
  double dist_timeout_s = 600.0;       // --dist-timeout
  double join_timeout_s = 900.0;       // --join-timeout
  int64_t threads = 0;                 // --threads, compute threads per rank, 0 = auto
  bool deterministic = false;          // --deterministic
  GpuMath gpu_math;                    // --tf32, --cudnn-tf32, --cudnn-benchmark
  std::string cuda_graphs = "auto";    // --cuda-graphs {auto,off}
  int64_t check_replicas_steps = 500;  // --check-replicas, 0 = never

  // Logging
  std::string logs = "./logs/";                         // --logs
  std::string name;                                     // --name; "" = auto_run_name
  std::string save;                                     // --save, of a task with Megatron's flags: --logs and --name
  bool log_local = false;                               // --log-local
  int64_t log_every_n_steps = 100;                      // --log-every-n-steps
  std::string report_to = "none";                       // --report-to {none,tensorboard,wandb,all}
  std::string wandb_project = "lockstep", wandb_notes;  // --wandb-project-name, --wandb-notes
  bool debug = false;                                   // --debug

  // Checkpoints
  int64_t save_every_n_steps = 0;           // --save-every-n-steps, 0 = off
  std::optional<int64_t> keep;              // --keep, newest checkpoints
  BestCheckpointOptions best;               // --save-top-performance, --top-k-checkpoint-select-*
  std::optional<std::string> resume;        // --resume latest|PATH
  std::string remote_sync;                  // --remote-sync, s3://BUCKET/FOLDER or a path; "" = off
  double remote_sync_frequency_s = 300;     // --remote-sync-frequency
  double remote_sync_deadline_s = 600;      // --remote-sync-deadline
  bool takes_openclip_checkpoints = false;  // of the task: --resume may name OpenCLIP's epoch_K.pt

  // Profile
  bool profile = false;                                    // --profile, set by `lockstep profile train`
  int64_t profile_step_start = 20, profile_step_end = 30;  // --profile-step-start, --profile-step-end (not included)
  std::string profile_ranks = "0";                         // --profile-ranks; see parse_profile_ranks
  std::string profile_tool = "kineto";                     // --profile-tool {kineto,nsys}

  // Dry run
  bool dry_run = false;               // --dry-run
  std::optional<int64_t> world_size;  // --world-size, only with --dry-run
  bool json = false;                  // --json, only with --dry-run
};

/// Declares flags of RunOptions by name, in this order and under the set's present heading, with the names that the
/// task's dialect has beside them.
void declare_run_flags(core::OptionSet& set, RunOptions& options, std::initializer_list<BorrowedFlag> flags);

/// Refuses, by name, names that other programs have for flags of RunOptions.
void refuse_guessed_flags(core::OptionSet& set);

/// Where a task's flag ends a run.
struct StepLimit {
  const char* flag = "";  ///< "--max-steps"
  std::optional<int64_t> steps;
};

/// UsageError for options of ranks and devices, name, profile and dry run that contradict each other.
void check_run_options(const RunOptions& options, const StepLimit& limit, const core::OptionSet& set);

/// --profile-ranks as numbers: "0,1,4-7"; "all" is empty. UsageError names what is no rank.
std::vector<int64_t> parse_profile_ranks(const std::string& text);

/// What a run must know that each task says with flags of its own.
struct RunFacts {
  std::string model;      ///< As names of runs and log lines show it.
  std::string precision;  ///< Of train::Precision.
  std::optional<double> lr;
  int64_t micro_batch_size = 1, workers = 0;
  int64_t epochs = 1;
  std::optional<int64_t> max_steps;
  std::optional<double> grad_clip_norm;
  int64_t save_frequency_epochs = 0;  ///< 0: only at the end.
  int64_t num_kept_checkpoints = 0;   ///< The newest; 0: all.
  /// Above 0: of checkpoints at an epoch's end that this does not divide, and that nothing else asks for, only the
  /// newest stays.
  int64_t kept_epochs = 0;
  BestCheckpoints best_checkpoints{};                       ///< Kept beside those.
  bool needs_checkpoint = false;                            ///< With --resume: a run without one is an error.
  std::optional<int64_t> exit_interval = std::nullopt;      ///< Ends at the next step that this divides.
  std::optional<double> exit_after_minutes = std::nullopt;  ///< Since the start of the process.
  bool logs_params_norm = false, logs_num_zeros = false;    ///< Of the steps that are logged.
};

/// The fewest of the newest checkpoints that a run leaves. With --remote-sync two: the newest may replace the one
/// before while that is still on its way to the copy.
int64_t num_newest_checkpoints(const RunOptions& options);
/// Checkpoints that --keep leaves, else `by_default`, but no fewer than those; 0: all.
int64_t num_kept_checkpoints(const RunOptions& options, int64_t by_default = 0);

/// What makes the command that started a run continue it: "--resume latest", and before it the name where the command
/// did not give one (`given_name` is empty) and would start another run. Of a run of --save: --load of its folder.
std::string flags_to_resume(const std::string& given_name, const std::string& given_save, const std::string& run_name);
std::string flags_to_resume(const RunOptions& options, const std::string& run_name);

/// OpenCLIP's name for a run without --name, from the time as "2026_01_31-12_00_00".
std::string auto_run_name(const RunFacts& facts, const std::string& time_text);

}  // namespace lockstep::config
