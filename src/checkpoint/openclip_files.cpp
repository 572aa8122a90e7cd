#include "checkpoint/openclip_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <vector>

#include "checkpoint/is_there.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "epoch_", kSuffix = ".pt";

/// Names of the files that the run wrote, one a line.
fs::path notes_of(const fs::path& run_folder) { return run_folder / "checkpoints" / "openclip_files.txt"; }

/// EnvironmentError where the notes are there and cannot be read: without them foreign files would pass for own ones.
std::vector<std::string> own_files(const fs::path& run_folder) {
  std::error_code failure;
  const fs::path notes = notes_of(run_folder);
  if (fs::symlink_status(notes, failure).type() == fs::file_type::not_found) return {};
  std::vector<std::string> names = core::split(core::read_file(notes), "\n");
  std::erase(names, "");
  return names;
}

}  // namespace

std::optional<int64_t> openclip_epoch(const std::string& name) {
  if (!core::starts_with(name, kPrefix) || !core::ends_with(name, kSuffix)) return std::nullopt;
  if (name.size() < kPrefix.size() + kSuffix.size()) return std::nullopt;
  const auto epoch =
      core::parse_int(std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
  return epoch && *epoch >= 0 ? epoch : std::nullopt;
}

fs::path newest_openclip_file(const fs::path& run_folder) {
  const fs::path checkpoints = run_folder / "checkpoints";
  if (is_there(checkpoints / kLatestOpenClipFile)) return checkpoints / kLatestOpenClipFile;
  fs::path newest;
  int64_t highest = -1;
  std::error_code failure;
  for (const fs::path& path : core::list_folder(checkpoints, failure))
    if (const auto epoch = openclip_epoch(path.filename().string()); epoch && *epoch > highest && is_there(path))
      highest = *epoch, newest = path;
  if (failure && failure != std::errc::no_such_file_or_directory)
    throw CheckpointError(fmt::format("checkpoint: cannot list '{}': {}", checkpoints.string(), failure.message()),
                          "whether there is a checkpoint of OpenCLIP is not known: see to the storage or the "
                          "permissions and start again, or move it away");
  return newest;
}

bool is_own_openclip_file(const fs::path& run_folder, const std::string& name) {
  const std::vector<std::string> own = own_files(run_folder);
  return std::find(own.begin(), own.end(), name) != own.end();
}

bool claim_openclip_file(const fs::path& run_folder, const std::string& name) {
  if (is_own_openclip_file(run_folder, name)) return true;
  std::error_code failure;
  if (fs::symlink_status(run_folder / "checkpoints" / name, failure).type() != fs::file_type::not_found) return false;
  std::vector<std::string> own = own_files(run_folder);
  own.push_back(name);
  core::write_file_atomic(notes_of(run_folder), core::join(own, "\n") + "\n");
  return true;
}

}  // namespace lockstep::checkpoint
