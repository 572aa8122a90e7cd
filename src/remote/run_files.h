#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "core/files.h"

namespace lockstep::remote {

/// Local notes of what has arrived where; never sent.
inline constexpr const char* kSyncStateName = "remote_sync.json";
/// Folder of a run for a file of OpenCLIP that it begins with; never sent.
inline constexpr const char* kFetchedFolder = "fetched";

/// Names that core::AtomicFile and copies give to what is not finished.
bool is_unfinished(const std::string& name);

struct RunFile {
  std::string name;  ///< Relative to the run folder, parts joined by '/'.
  int64_t bytes = 0;
  int64_t mtime_ns = 0;
};

/// Files that belong together: they are sent in this order, and none behind one that failed.
struct RunFileGroup {
  std::string title;            ///< "checkpoint step-00000012.a1"; "" of a single file.
  std::string checkpoint = {};  ///< Its name; "" of a single file.
  std::vector<RunFile> files;
};

/// A file or folder that is there and could not be looked at.
struct UnreadFile {
  std::string name;  ///< As in RunFile; "." of the run folder itself.
  std::string reason;
};

struct RunFiles {
  std::vector<RunFileGroup> groups;
  std::vector<UnreadFile> unread;  ///< What may be missing among the groups.
};

/// A file as it is now; nothing where there is none, and where it cannot be looked at: `failure` tells, and is cleared
/// else. Throws nothing.
std::optional<RunFile> describe_run_file(const std::filesystem::path& run_folder, const std::string& name,
                                         std::error_code& failure);
/// Whether nothing has that name: a file that cannot be looked at is not gone.
bool is_gone(const std::filesystem::path& path);

/// The same of one that is open.
RunFile describe_open_file(const core::Fd& file, const std::string& name);

/// What of a run folder is finished: every file of the record as it is now, then each checkpoint that has its manifest,
/// newest first, the manifest as the last of its files. Neither temporary files nor what is being written or deleted.
RunFiles list_run_files(const std::filesystem::path& run_folder);

}  // namespace lockstep::remote
