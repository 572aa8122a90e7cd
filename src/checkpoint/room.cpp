#include "checkpoint/room.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "checkpoint/manifest.h"
#include "core/units.h"

namespace lockstep::checkpoint {

std::string lacking_room(const RoomNeeded& needed, int64_t free_bytes, const std::string& folder) {
  const int64_t most = std::max<int64_t>(needed.num_kept, 0) + 1;
  const int64_t num_new = std::max<int64_t>(most - needed.num_there, 1);
  const double bytes = static_cast<double>(num_new) * static_cast<double>(needed.checkpoint_bytes);
  if (bytes <= static_cast<double>(free_bytes)) return "";
  const std::string of = num_new == 1
                             ? "one checkpoint takes"
                             : fmt::format("{} checkpoints of {} (kept ones and the one being written) take", num_new,
                                           core::format_bytes(static_cast<double>(needed.checkpoint_bytes)));
  return fmt::format(
      "train: {} {}, but {} are free in '{}': saving will fail; make room, choose another --logs, or keep "
      "fewer",
      of, core::format_bytes(bytes), core::format_bytes(static_cast<double>(free_bytes)), folder);
}

std::string lacking_room(const std::filesystem::path& run_folder, int64_t checkpoint_bytes, int64_t num_kept) {
  std::error_code failure;
  const auto space = std::filesystem::space(run_folder, failure);
  if (failure) return "";
  const auto entries = list_checkpoints(run_folder);
  const auto num_there = std::count_if(entries.begin(), entries.end(), [](const CheckpointEntry& entry) {
    return entry.state == CheckpointState::kUsable;
  });
  constexpr auto kMost = static_cast<std::uintmax_t>(std::numeric_limits<int64_t>::max());
  return lacking_room({.checkpoint_bytes = checkpoint_bytes, .num_kept = num_kept, .num_there = num_there},
                      static_cast<int64_t>(std::min(space.available, kMost)), (run_folder / "checkpoints").string());
}

}  // namespace lockstep::checkpoint
