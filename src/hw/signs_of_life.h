#pragma once
#include <algorithm>
#include <chrono>

/// When ranks tell each other that they live, and how long it takes to find out which one no longer does. comm waits by
/// these numbers, and `launch` leaves the ranks time by them.
namespace lockstep::hw {

/// Between two reports of a rank; longer in big jobs.
inline constexpr std::chrono::milliseconds kReportInterval{500};
/// Big jobs publish less often, so that the store sees no more than about this many reports a second.
inline constexpr int kMaxReportsPerSecond = 2000;
/// A rank that publishes nothing for so many intervals, while it is looked at, is taken for dead; shorter pauses happen
/// on busy machines.
inline constexpr int kSilentReports = 6;

constexpr std::chrono::milliseconds report_interval(int world_size,
                                                    std::chrono::milliseconds shortest = kReportInterval) {
  return std::max(shortest, std::chrono::milliseconds(1000 * world_size / kMaxReportsPerSecond));
}

/// From the loss of a rank until the others know which it was, where the store answers.
constexpr std::chrono::milliseconds time_to_name_lost_rank(int world_size) {
  return kSilentReports * report_interval(world_size);
}

/// The same, with the time to write it down.
constexpr std::chrono::milliseconds time_to_tell_of_lost_rank(int world_size) {
  return time_to_name_lost_rank(world_size) + std::chrono::seconds(2);
}

}  // namespace lockstep::hw
