#include "remote/run_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "checkpoint/manifest.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
namespace {

/// Files below a folder but for checkpoints, whose parts are finished only together.
void add_files(const fs::path& run_folder, const fs::path& below, std::vector<RunFileGroup>& groups) {
  std::error_code failure;
  for (const fs::path& path : core::list_folder(below, failure)) {
    const std::string name = path.lexically_relative(run_folder).generic_string();
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      const bool is_of_checkpoints = below.filename() == "checkpoints";
      const bool is_passing = path.filename() == "imported_checkpoint" || name == kFetchedFolder;
      if (!is_of_checkpoints && !fs::is_symlink(path, ignored) && !is_passing) add_files(run_folder, path, groups);
      continue;
    }
    if (name == kSyncStateName || is_unfinished(name)) continue;
    if (const auto file = describe_run_file(run_folder, name)) groups.push_back({.title = "", .files = {*file}});
  }
}

std::optional<RunFileGroup> files_of_checkpoint(const fs::path& run_folder, const checkpoint::CheckpointEntry& entry) {
  const std::string folder = "checkpoints/" + entry.folder.filename().string() + "/";
  const std::string checkpoint_name = entry.folder.filename().string();
  RunFileGroup group{.title = "checkpoint " + checkpoint_name, .checkpoint = checkpoint_name, .files = {}};
  std::vector<std::string> names;
  for (const auto& file : entry.manifest->files) names.push_back(file.name);
  names.emplace_back(checkpoint::kManifestName);
  for (const std::string& name : names) {
    const auto file = describe_run_file(run_folder, folder + name);
    if (!file) return std::nullopt;  // it is being deleted, or damaged
    group.files.push_back(*file);
  }
  return group;
}

RunFile run_file(const std::string& name, const struct stat& info) {
  return {.name = name,
          .bytes = info.st_size,
          .mtime_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace

bool is_unfinished(const std::string& name) {
  const size_t at = name.rfind(".tmp");
  return (at != std::string::npos && name.find('-', at) != std::string::npos) || core::ends_with(name, ".part");
}

std::optional<RunFile> describe_run_file(const fs::path& run_folder, const std::string& name) {
  struct stat info {};
  if (::stat((run_folder / name).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return run_file(name, info);
}

RunFile describe_open_file(const core::Fd& file, const std::string& name) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) core::throw_errno("remote: cannot ask for the size of", name);
  return run_file(name, info);
}

std::vector<RunFileGroup> list_run_files(const fs::path& run_folder) {
  std::vector<RunFileGroup> groups;
  add_files(run_folder, run_folder, groups);
  for (const auto& entry : checkpoint::list_checkpoints(run_folder))
    if (entry.state == checkpoint::CheckpointState::kUsable)
      if (auto group = files_of_checkpoint(run_folder, entry)) groups.push_back(std::move(*group));
  return groups;
}

}  // namespace lockstep::remote
