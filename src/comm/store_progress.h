#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/progress.h"
#include "comm/store.h"
#include "hw/signs_of_life.h"

namespace lockstep::comm {

/// What a rank tells the others of itself, now and then.
struct RankReport {
  struct Place {
    std::string axis;
    std::string kind;
    int64_t sequence = 0;  ///< Of the last collective begun on the axis.
    bool is_finished = true;
  };
  int64_t beat = 0;  ///< Grows while the process lives.
  std::string host;
  int64_t pid = 0;
  std::string state = "running";  ///< "running", "left" or "failed"
  std::string failure;            ///< Its own error, where it has one.
  std::string gave_up_in;         ///< The call in which it noticed that others are missing.
  std::string work;               ///< What it is at beside its collectives, as it said itself.
  std::vector<Place> places;      ///< One per axis on which it has communicated.

  std::string describe_failure(int rank) const;  ///< "rank 3 (pid 123 on node7) failed: ..."
  std::string to_json() const;
  static RankReport from_json(const std::string& text);
};

/// Why a rank gave up, or the job ends.
struct Blame {
  std::string text{};         ///< In words.
  std::optional<int> rank{};  ///< Who failed before all others, where it is known.

  std::string to_json() const;
  static Blame from_json(const std::string& text);
};

/// Says who is to blame when `mark` does not get done: ranks that failed, do not answer (their beat stands still
/// between the two reports), have left, or are behind. `own_rank` is left out. No words when all others are where they
/// should be; no rank unless just one failed or does not answer.
Blame name_missing_ranks(const CallMark& mark, int own_rank, const std::vector<int>& global_ranks,
                         const std::vector<RankReport>& earlier, const std::vector<RankReport>& later);

/// Progress of this process, published to the job's store by a thread of its own. A store that is gone, or does not
/// answer `num_missed_reports` times, counts as a failure elsewhere: nobody would hear of another one.
class StoreProgress final : public Progress {
 public:
  struct Config {
    int rank = 0;
    std::string host{};
    std::string store_name{};  ///< "host:port, served by rank 0": for messages.
    std::chrono::milliseconds interval = hw::kReportInterval;
    /// This rank's reports are read, too: when `num_missed_reports` of them, counted by the own ones, stay out, it
    /// counts as failed. Nothing else notices a process that stands still, and under NCCL one that is gone.
    /// -1: nobody's.
    int watched_rank = -1;
    int num_missed_reports = 20;
    bool serves_store = false;  ///< This process: while it stands still, the others cannot tell anything.
    /// Called once, by a thread of this object, when a rank has failed or the store is lost.
    std::function<void()> on_failure = {};
    /// What goes wrong in a group of this rank while its host waits for a device, or not at all.
    struct Trouble {
      std::string axis, what;
      std::vector<int> global_ranks;  ///< Of the group.
    };
    /// Asked between two reports, by a thread of this object; what it finds counts as a failure of this rank.
    std::function<std::optional<Trouble>()> find_trouble = {};
  };
  StoreProgress(Store store, Config config);
  ~StoreProgress() override;  ///< Never blocks for long, whatever the store does.

  void begin(const CallMark& mark) override;
  void end(const CallMark& mark) override;
  std::string failure_elsewhere() const override;
  std::string diagnose(const CallMark& mark, const std::vector<int>& global_ranks) override;

  /// What this rank is at beside its collectives, for its next reports; "" nothing.
  void tell_work(const std::string& work);
  /// What another rank is at, by its last report; "" where there is none, or where the store does not answer.
  std::string work_of(int rank);

  /// The name in the store under which a rank publishes its reports.
  static std::string report_name(int rank);

  /// Which rank failed first, where this one has noticed that another did: by the store, which close() asks, else by
  /// what this rank found out itself.
  std::optional<int> first_failing_rank() const;
  /// Publishes at once how this process ends ("left" or "failed" with its error) and stops publishing. False when the
  /// store does not answer.
  bool close(const std::string& state, const std::string& failure);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::comm
