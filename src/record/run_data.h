#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record/latency_point.h"
#include "record/steps.h"

namespace lockstep::record {

/// A number that no source tells.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// What was run where. Empty or absent: the source does not tell.
struct RunSetup {
  std::string task{};       ///< "clip", "clap", "resnet", "gpt"
  std::string model{};      ///< "ViT-B-32"
  std::string precision{};  ///< Name of --precision, or the other program's.
  std::string system{};     ///< "JUPITER"
  std::string device{};     ///< "NVIDIA GH200", "cpu"
  std::string layout{};     ///< Parallel layout, "dp=8 tp=2 pp=4".
  std::optional<int64_t> nodes{}, devices{};
  std::optional<int64_t> global_batch{};  ///< Samples per optimiser step over all ranks.
  /// Local batch: samples per step and data-parallel replica, accumulation included.
  std::optional<int64_t> samples_per_device{};
  std::optional<int64_t> accum{};
  std::optional<int64_t> sequence_length{};  ///< Tokens per sample.
  std::string sample_unit = "samples";  ///< Plural noun of what `samples` counts: "samples", "images", "sequences".
  std::optional<double> forward_gflops_per_sample{};  ///< One forward pass of one sample; training is three of them.
  std::string flops_formula{};                        ///< Where that number is from.
  /// Likewise, of what was computed, where that is less (patch dropout).
  std::optional<double> processed_gflops_per_sample{};
  std::string processed_formula{};
  std::optional<double> peak_tflops_per_device{};  ///< Dense, of the compute type.
  std::string peak_source{};
  std::optional<bool> is_synthetic{};           ///< Made-up input data.
  std::optional<bool> is_on_cpu{};              ///< Ranks computed on processor cores, not on accelerators.
  std::optional<int64_t> threads_per_device{};  ///< Compute threads of a rank on processor cores.
  bool is_profiled = false;                     ///< A profiler ran: no measurement.
  /// Anything else that tells points apart (sweep axes, named groups of --meta).
  std::map<std::string, std::string> tags{};

  /// Samples are sequences of tokens. Logs without a unit of their own may still name the task.
  bool counts_sequences() const { return sample_unit == "sequences" || sample_unit == "tokens" || task == "gpt"; }
};

/// Steps in columns of equal length. NaN where the source does not tell.
struct StepColumns {
  std::vector<int64_t> step{};       ///< Optimiser step, from 0; of an interval its last.
  std::vector<int32_t> num_steps{};  ///< Steps that the row stands for: 1, or the log interval whose mean step_ms is.
  /// Of these, steps that left the parameters alone because gradients were not finite.
  std::vector<int32_t> num_skipped{};
  std::vector<int32_t> epoch{};    ///< -1: unknown.
  std::vector<int32_t> attempt{};  ///< From 1.
  std::vector<double> step_ms{};   ///< Largest over the ranks; mean over the interval.
  std::vector<double> data_wait_ms{};
  std::vector<double> samples{};  ///< Of one step, over all ranks.
  std::vector<double> tokens{};   ///< Likewise.
  std::vector<double> loss{};
  std::vector<double> samples_seen{};                     ///< Since the start of the run, this step included.
  std::vector<double> time_s{};                           ///< Unix time at the end of the step.
  std::vector<double> logged_samples_per_s{};             ///< Over all ranks, as the program itself printed it.
  std::vector<double> logged_tflops_per_device{};         ///< Likewise.
  std::map<std::string, std::vector<float>> phases_ms{};  ///< By phase (docs/record.md); mean over the interval.

  size_t size() const { return step.size(); }
};

/// Largest memory that rank 0 had, as its steps tell.
struct MemoryPeaks {
  std::optional<double> device_bytes{};  ///< Tensors on its device.
  std::optional<double> host_bytes{};    ///< Resident size of its process.
};

/// Collectives of one kind, axis and size: the last totals of the measured attempt.
struct CollectiveTotal {
  std::string kind{}, axis{};
  int group_size = 1;
  double bytes = 0;  ///< Of one call.
  int64_t count = 0;
  int64_t num_steps = 0;  ///< Optimiser steps in which they were counted; 0: unknown.
  double time_ms = 0;     ///< From the call to the end of its wait: what ran meanwhile hides in it.
  double blocked_ms = 0;  ///< Of that, what the host was blocked for; NaN: unknown.
};

/// One measured size of a collective benchmark (nccl-tests, `bench collective`).
struct CollectivePoint {
  std::string kind{};               ///< "all_reduce"; empty: the source does not tell.
  std::string type{}, operation{};  ///< "float", "sum"; empty where there is none.
  int64_t root = -1;                ///< -1: every rank, or none.
  int num_ranks = 0;                ///< 0: unknown.
  double bytes = 0;                 ///< As the tool counts them (S of docs/metrics.md).
  int64_t count = 0;                ///< Elements.
  bool is_in_place = false;
  double time_us = 0;
  double algbw_gbytes_per_s = 0, busbw_gbytes_per_s = 0;  ///< From bytes and time, not from the printed two digits.
  std::optional<int64_t> num_wrong{};                     ///< Absent: not checked.
};

/// The steps of one whole epoch, where a source adds them up itself.
struct EpochSum {
  double seconds = 0;
  int64_t num_steps = 0;
};

/// One run as reports, sweeps and calibrations see it, whatever program wrote it.
struct RunData {
  std::string name{};  ///< Folder or file name, made unique by the caller where needed.
  std::string part{};  ///< Which of several runs in one file: "nodes=2, run=b". Empty: the only one.
  std::filesystem::path source{};
  std::string format{};  ///< "lockstep", "openclip", "megatron", ...
  RunSetup setup{};
  /// Resolved options of the program by name ("grad_checkpointing"); empty: the source does not tell.
  std::map<std::string, std::string> options{};
  std::string allocation{};  ///< The job it ran in ("slurm 4711"); runs with the same one shared nodes. Empty: unknown.
  std::string state{};       ///< "finished", "running", "stopped", "failed", "died"; empty: unknown.
  std::string message{};     ///< Of a failed run.
  std::optional<double> started_s{}, ended_s{};  ///< Unix time.
  int num_attempts = 1;
  bool only_evaluated = false;  ///< It was started to evaluate, without training, and has no steps.
  int measured_attempt = 0;     ///< The longest, from 1: setup, options, job, software, ranks, counters and collectives
                                ///< are of this one. 0: unknown.
  bool is_unit_guessed = false;  ///< The source does not tell the unit of its step times.
  /// Above 0: its step times are differences of totals that are known up to this share only. Where one is too long the
  /// next is too short, so nothing can be told of launch pacing.
  double rounding_of_sums = 0;
  /// Lines with a time of day that are no rows, as (step, Unix time): they tell where in a row's steps a pause lies.
  std::vector<std::pair<int64_t, double>> line_times{};
  StepColumns steps{};
  std::map<int32_t, EpochSum> epoch_sums{};  ///< By epoch; of sources that tell no times of day.
  std::vector<RankTimesRecord> rank_times{};
  std::vector<CollectiveTotal> collectives{};
  std::vector<CollectivePoint> collective_points{};  ///< Of a benchmark of collectives instead of steps.
  std::vector<LatencyPoint> latency_points{};        ///< Likewise of latencies, or of a table of them.
  std::vector<SystemInterval> system{};
  std::map<int, MemoryPeaks> memory_peaks{};  ///< By attempt.
  std::vector<StartupTimes> startup{};
  std::vector<ResultRecord> results{};
  /// "lockstep", "libtorch", "cuda", "nccl", "host", environment variables that matter.
  std::map<std::string, std::string> software{};
  std::string command{};                ///< Command line, where known.
  int64_t num_rejected_lines = 0;       ///< Lines that could not be read; `problems` says which.
  std::vector<std::string> problems{};  ///< In words: half-written files, mixed units, steps that went back, ...
};

/// Reads the record of a lockstep run (a folder with run.json). What is damaged is skipped, counted and listed in
/// `problems`; EnvironmentError only when there is no record at all.
RunData load_run(const std::filesystem::path& folder);

}  // namespace lockstep::record
