#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "record/append_queue.h"
#include "record/steps.h"

namespace lockstep::record {

/// How a run stands, as status.json says it.
enum class RunState { kRunning, kFinished, kStopped, kFailed };
std::string to_text(RunState state);  ///< "running", "finished", "stopped" (on request), "failed"

/// How a run ended.
struct RunEnd {
  RunState state = RunState::kFinished;
  int exit_code = 0;
  std::string message{};
  std::optional<int> first_failing_rank{};
};

/// What a launcher knows of a group of ranks that failed.
struct FirstFailure {
  int rank = 0;
  int exit_code = 1;
  std::string text{};  ///< "exit code 4, data error", "signal 9"; "": how it ended is not known.
};

/// Adds to status.json which rank failed first; a run that still says it is running (its rank 0 died without a word)
/// becomes a failed one, and one whose rank 0 only lost its peer (code 3) gets the code and message of the cause, where
/// that is known. Only after all ranks have ended. Nothing happens where there is no status.json that can be read.
void note_first_failure(const std::filesystem::path& folder, const FirstFailure& failure);

/// What another rank does where there is no launcher: a run that says it is running, but whose rank 0 is gone from this
/// machine, becomes one that failed with this rank's code and error. Else nothing happens.
void note_lost_writer(const std::filesystem::path& folder, int rank, const Error& error);

struct RunRecordConfig {
  /// Number of this attempt; default: one more than the highest in the folder (the first is 1).
  std::optional<int> attempt{};
  std::chrono::milliseconds flush_every{1000};
  std::chrono::milliseconds heartbeat_every{10000};
  size_t max_queued_bytes = size_t{32} << 20;
};

/// Writes the record of one run into its folder (docs/record.md). One process of the run (rank 0) holds it.
///
/// append_*() queue one line each and return; a background thread writes, flushes and keeps the heartbeat of
/// status.json. Lines that had to be dropped (full queue, full disk) are counted in status.json. Thread safe.
class RunRecord {
 public:
  /// Creates the folder where needed, adds `attempt` (resolved options, model shape, plan, hardware, versions, ...) to
  /// run.json and writes the first status.json. A damaged run.json is kept as run.json.damaged. CheckpointError when it
  /// cannot be read, EnvironmentError when the folder cannot be written.
  RunRecord(const std::filesystem::path& folder, const core::Json& attempt, const RunRecordConfig& config = {});
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;
  /// Without finish() the run is recorded as failed.
  ~RunRecord();

  int attempt() const { return attempt_; }
  const std::filesystem::path& folder() const { return folder_; }

  void append_step(StepRecord record);
  void append_rank_times(RankTimesRecord record);
  void append_comm(CommRecord record);
  void append_result(ResultRecord record);
  void append_system(SystemInterval record);
  void append_startup(StartupTimes record);

  /// What status.json says of CUDA graphs from now on; "": nothing.
  void note_cuda_graphs(const std::string& text);
  /// params.txt: "key: value" lines, sorted by key.
  void write_params(std::vector<std::pair<std::string, std::string>> params);
  /// Blocks until all that was appended so far is written.
  void flush();
  /// Writes what is queued and the final status.json; what cannot be written is logged. Only the first call counts.
  void finish(const RunEnd& end);
  AppendQueue::Health health() const { return queue_->health(); }
  /// For other files of the run (TensorBoard events) that ride on the same thread. Lives as long as this object.
  AppendQueue& queue() { return *queue_; }

 private:
  void add_attempt(const core::Json& attempt);
  void append(int file, const core::Json& line);
  template <typename Record> void append_numbered(int file, Record record);
  void write_status();
  void heartbeat();

  std::filesystem::path folder_;
  int attempt_ = 1;
  RunRecordConfig config_;
  std::mutex status_file_mutex_, status_mutex_;  // taken in this order
  core::Json status_;
  bool has_ended_ = false;
  std::chrono::steady_clock::time_point last_heartbeat_;
  int steps_file_ = -1, ranks_file_ = -1, comm_file_ = -1, results_file_ = -1, system_file_ = -1, startup_file_ = -1;
  std::unique_ptr<AppendQueue> queue_;  // last: its thread uses the rest
};

}  // namespace lockstep::record
