#include "remote/run_files.h"

#include <sys/stat.h>

#include <cerrno>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
namespace {

/// Notes what cannot be looked at, unless it has gone meanwhile.
void note_unread(RunFiles& files, const std::string& name, const std::error_code& failure) {
  if (failure && failure != std::errc::no_such_file_or_directory) files.unread.push_back({name, failure.message()});
}

/// Files below a folder but for checkpoints, whose parts are finished only together.
void add_files(const fs::path& run_folder, const fs::path& below, RunFiles& files) {
  std::error_code failure;
  for (const fs::path& path : core::list_folder(below, failure)) {
    const std::string name = path.lexically_relative(run_folder).generic_string();
    std::error_code ignored;  // describe_run_file tells it
    if (fs::is_directory(path, ignored)) {
      const bool is_of_checkpoints = below.filename() == "checkpoints";
      const bool is_passing = path.filename() == "imported_checkpoint" || name == kFetchedFolder;
      if (!is_of_checkpoints && !fs::is_symlink(path, ignored) && !is_passing) add_files(run_folder, path, files);
      continue;
    }
    if (name == kSyncStateName || is_unfinished(name)) continue;
    std::error_code unread;
    if (const auto file = describe_run_file(run_folder, name, unread))
      files.groups.push_back({.title = "", .files = {*file}});
    note_unread(files, name, unread);
  }
  note_unread(files, below == run_folder ? "." : below.lexically_relative(run_folder).generic_string(), failure);
}

void add_checkpoint(const fs::path& run_folder, const checkpoint::CheckpointEntry& entry, RunFiles& files) {
  const std::string checkpoint_name = entry.folder.filename().string(), folder = "checkpoints/" + checkpoint_name + "/";
  RunFileGroup group{.title = "checkpoint " + checkpoint_name, .checkpoint = checkpoint_name, .files = {}};
  std::vector<std::string> names;
  for (const auto& file : entry.manifest->files) names.push_back(file.name);
  names.emplace_back(checkpoint::kManifestName);
  for (const std::string& name : names) {
    std::error_code failure;
    const auto file = describe_run_file(run_folder, folder + name, failure);
    note_unread(files, folder + name, failure);
    if (!file) return;  // it is being deleted, or damaged
    group.files.push_back(*file);
  }
  files.groups.push_back(std::move(group));
}

void add_checkpoints(const fs::path& run_folder, RunFiles& files) {
  try {
    for (const auto& entry : checkpoint::list_checkpoints(run_folder)) {
      if (entry.state == checkpoint::CheckpointState::kUsable) add_checkpoint(run_folder, entry, files);
      if (entry.state == checkpoint::CheckpointState::kUnreadable)
        files.unread.push_back({"checkpoints/" + entry.folder.filename().string(), entry.problem});
    }
  } catch (const CheckpointError& error) {  // the folder, or a claim in it: which are void is not known
    files.unread.push_back({"checkpoints", error.what()});
  }
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

std::optional<RunFile> describe_run_file(const fs::path& run_folder, const std::string& name,
                                         std::error_code& failure) {
  struct stat info {};
  failure.clear();
  if (::stat((run_folder / name).c_str(), &info) != 0) {
    if (errno != ENOENT) failure.assign(errno, std::generic_category());
    return std::nullopt;
  }
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  return run_file(name, info);
}

bool is_gone(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) != 0 && errno == ENOENT;
}

RunFile describe_open_file(const core::Fd& file, const std::string& name) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) core::throw_errno("remote: cannot ask for the size of", name);
  return run_file(name, info);
}

RunFiles list_run_files(const fs::path& run_folder) {
  RunFiles files;
  add_files(run_folder, run_folder, files);
  add_checkpoints(run_folder, files);
  return files;
}

}  // namespace lockstep::remote
