#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/json.h"
#include "remote/run_files.h"

namespace lockstep::remote {

/// What of a run folder has arrived at its copy, and which uploads are unfinished; kept in kSyncStateName of the run
/// folder. A file counts as arrived as long as it has the size and the time it had then. Not thread safe.
class SyncState {
 public:
  /// Reads what an earlier process left, where it sent to the same place; else nothing has arrived yet.
  SyncState(const std::filesystem::path& run_folder, const std::string& address);

  bool is_empty() const { return files_.empty(); }
  bool has_arrived(const RunFile& file) const;
  void note_arrived(const RunFile& file);
  /// Forgets files that are not at the copy, by name and size.
  void keep_only(const std::set<std::pair<std::string, int64_t>>& there);
  /// UploadMemory::state of an upload of this file that was cut off; else an empty object.
  core::Json unfinished(const RunFile& file) const;
  void note_unfinished(const RunFile& file, const core::Json& parts);
  /// Folders ("checkpoints/NAME/") of checkpoints of which something was sent, but not the manifest.
  std::set<std::string> begun_checkpoints() const;
  void forget(const std::string& folder);  ///< All that was noted of it.
  void save() const;

 private:
  struct Note {
    int64_t bytes = 0, mtime_ns = 0;
    core::Json parts = core::Json::object();  // of uploads
    bool fits(const RunFile& file) const { return bytes == file.bytes && mtime_ns == file.mtime_ns; }
  };
  using Notes = std::map<std::string, Note>;  // by name
  void read(const core::Json& state);
  static Notes notes_from_json(const core::Json& noted);
  static core::Json to_json(const Notes& notes, bool has_parts);

  // In the file: {"address", "files": {name: {bytes, mtime_ns}}, "uploads": {name: {bytes, mtime_ns, parts}}}
  std::filesystem::path path_;
  std::string address_;
  Notes files_, uploads_;
};

}  // namespace lockstep::remote
