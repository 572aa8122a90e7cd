#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/held_checkpoint.h"
#include "remote/open_store.h"
#include "remote/run_files.h"
#include "remote/sync_state.h"

namespace lockstep::remote {

struct SyncConfig {
  std::filesystem::path run_folder;
  Address address;           ///< Of the run's copy.
  double frequency_s = 300;  ///< From the end of one pass to the beginning of the next.
  RetryPolicy retry = {};
  std::function<std::string()> reason_to_stop = {};  ///< Asked before each pass; not "": nothing is sent any more.
  int attempt = 0;  ///< Of the run's claim; once another claim at the copy is later nothing is sent any more. 0: none.
  checkpoint::HeldCheckpoint* held = nullptr;       ///< Told which checkpoint is on its way; outlives the sync.
  std::string flags_to_resume = "--resume latest";  ///< Of the command that goes on with the run.
};

/// What one pass, or the last, did.
struct SyncReport {
  int64_t num_sent = 0, sent_bytes = 0;
  int64_t num_missing = 0, missing_bytes = 0;  ///< Files that have not arrived as they are now.
  int64_t num_unread = 0;                      ///< Those of them that cannot be looked at here.
  std::vector<std::string> missing;            ///< The names of the first ten.

  void note_missing(const RunFile& file);
  void add(const SyncReport& more);
};

/// Copies a run's finished files to a store from a thread of its own. Whoever trains never waits for it: the only call
/// that waits is finish(), behind the last step. What has arrived is noted in the run folder (kSyncStateName), so that
/// the next process sends only the rest, and of a large file only the parts that are missing.
class RunSync {
 public:
  explicit RunSync(SyncConfig config);
  RunSync(const RunSync&) = delete;
  RunSync& operator=(const RunSync&) = delete;
  /// Ends the thread, in the middle of a file where it must.
  ~RunSync();

  /// A last pass, repeated until all has arrived, `deadline_s` are over or `is_told_to_end` says so, which is asked all
  /// the time. Logs what did not arrive, and why.
  SyncReport finish(double deadline_s, const std::function<bool()>& is_told_to_end = {});
  int64_t num_passes() const { return num_passes_; }

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void send_until_told();
  bool is_stopped() const;
  SyncReport pass(bool is_last);
  void check_arrived();
  void remove_leftovers();
  void remove_parts(const std::vector<StoredFile>& files);
  std::string why_superseded();
  void drop_unfinished(const std::vector<RunFileGroup>& groups);
  std::vector<RunFileGroup> list_files(SyncReport& report);
  std::string why_unfinished(bool was_told, double deadline_s) const;
  void send_group(const RunFileGroup& group, SyncReport& report, bool shows_progress);
  void send_checkpoints(SyncReport& report, bool shows_progress);
  int64_t send_file(const std::string& name);
  void note_failure(const std::string& name, const std::exception& error);
  void count_missing(SyncReport& report);
  std::string missing_text(const SyncReport& report) const;

  SyncConfig config_;
  std::unique_ptr<ObjectStore> store_;
  SyncState state_;  // of the thread
  bool is_checked_ = false;
  bool may_be_unfinished_ = true;  // there, of uploads that nobody goes on with
  std::string failure_;            // the last, of the thread; "" when all has arrived
  std::string failure_kind_;       // of which a warning was logged
  std::set<std::string> unread_;   // names that this pass has counted as missing
  std::atomic<int64_t> num_passes_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_, ended_;
  bool is_finishing_ = false;            // under mutex_
  bool has_ended_ = false;               // under mutex_: the thread has nothing more to do
  std::atomic<bool> is_ending_ = false;  // the thread gives up
  std::atomic<Clock::time_point> deadline_{Clock::time_point::max()};
  SyncReport last_;  // of the last pass; read when the thread has ended
  std::thread thread_;
};

}  // namespace lockstep::remote
