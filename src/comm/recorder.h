#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace lockstep::comm {

/// Calls of one kind, axis and size, summed up.
struct RecorderEntry {
  std::string axis;
  std::string kind;
  int group_size = 1;  ///< Ranks of the group that called.
  int64_t bytes = 0;   ///< Of one call on one rank: of a gather the output, of a scatter the input.
  int64_t count = 0;
  int64_t num_waited = 0;   ///< Calls whose Work was waited for; the times below are theirs.
  double total_ms = 0.0;    ///< Host time from the call to the end of its wait. On CUDA this is queueing, not transfer.
  double blocked_ms = 0.0;  ///< Host time inside the call and its wait: communication that was not hidden.
};

/// Counts, bytes and times of a process's collectives. Thread safe. Groups of one are not recorded: nothing is sent.
class Recorder {
 public:
  void add_call(std::string_view axis, int group_size, std::string_view kind, int64_t bytes);
  void add_time(std::string_view axis, int group_size, std::string_view kind, int64_t bytes, double total_ms,
                double blocked_ms);
  std::vector<RecorderEntry> snapshot() const;  ///< Ordered by axis, kind, bytes, group size.
  double blocked_ms() const;                    ///< Of all entries since the last clear().
  void clear();

 private:
  using Key = std::tuple<std::string, std::string, int64_t, int>;
  RecorderEntry& entry(std::string_view axis, int group_size, std::string_view kind, int64_t bytes);  // mutex_ held

  mutable std::mutex mutex_;
  std::map<Key, RecorderEntry> entries_;
  double blocked_ms_ = 0;  // of all entries
};

}  // namespace lockstep::comm
