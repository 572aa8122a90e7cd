#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::record {

/// Joins Chrome traces of several ranks (as Kineto writes them) into one on a common clock: the processes of rank 3 are
/// named "rank 3: ...". One trace at a time is in memory. Returns the number of events. DataError names a file that is
/// no trace; EnvironmentError when `output` cannot be written.
int64_t merge_traces(const std::vector<std::pair<int, std::filesystem::path>>& traces_by_rank,
                     const std::filesystem::path& output);

/// Kernels of one kind of collective and size in the trace of one rank.
struct DeviceCollective {
  std::string kind{};        ///< "all_reduce"; of kernels that are no known collective their name.
  std::string type{};        ///< As the trace tells it ("Float", "BFloat16"); empty: not known.
  int64_t num_elements = 0;  ///< Of the larger of both buffers; 0: not known.
  int group_size = 0;        ///< 0: not known.
  int64_t count = 0;
  double total_ms = 0;  ///< On the device. A kernel that waits for a slower rank counts its waiting, too.
};
/// How the device of a trace was used from the begin of its first kernel or copy to the end of its last.
struct DeviceUse {
  double span_ms = 0;
  double busy_ms = 0;    ///< With a kernel or copy on any stream.
  int64_t num_gaps = 0;  ///< Times between them in which there was none, of 1 us and more.
  double longest_gap_ms = 0;
};
struct DeviceTrace {
  /// Communication kernels by kind, type and size, the longest in total first.
  std::vector<DeviceCollective> collectives{};
  std::optional<DeviceUse> use{};
};
/// Both are empty where the trace holds no kernels: one of processors, or of a device whose kernels were not traced.
/// DataError when the file is no trace.
DeviceTrace read_device_trace(const std::filesystem::path& trace);

}  // namespace lockstep::record
