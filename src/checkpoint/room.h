#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::checkpoint {

/// How much a run's checkpoints take at most at one time, beside those that are there already.
struct RoomNeeded {
  int64_t checkpoint_bytes = 0;  ///< Of one.
  int64_t num_kept = 0;          ///< Newest ones that stay; 0: all, of which one at least is saved.
  int64_t num_there = 0;         ///< Usable ones of the run.
};

/// "" where `free_bytes` hold what a run will save; else a sentence for the log. Before an old one is removed the new
/// one is written.
std::string lacking_room(const RoomNeeded& needed, int64_t free_bytes, const std::string& folder);
/// The same of the file system under a run's folder.
std::string lacking_room(const std::filesystem::path& run_folder, int64_t checkpoint_bytes, int64_t num_kept);

}  // namespace lockstep::checkpoint
