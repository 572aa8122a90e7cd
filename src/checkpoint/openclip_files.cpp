#include "checkpoint/openclip_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/files.h"
#include "core/strings.h"

namespace lockstep::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "epoch_", kSuffix = ".pt";

/// Names of the files that the run wrote, one a line.
fs::path notes_of(const fs::path& run_folder) { return run_folder / "checkpoints" / "openclip_files.txt"; }

std::vector<std::string> own_files(const fs::path& run_folder) {
  std::error_code ignored;
  const fs::path notes = notes_of(run_folder);
  if (!fs::exists(notes, ignored)) return {};
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
  std::error_code failure;
  if (fs::exists(checkpoints / kLatestOpenClipFile, failure)) return checkpoints / kLatestOpenClipFile;
  fs::path newest;
  int64_t highest = -1;
  for (const fs::path& path : core::list_folder(checkpoints, failure))
    if (const auto epoch = openclip_epoch(path.filename().string()); epoch && *epoch > highest)
      highest = *epoch, newest = path;
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
