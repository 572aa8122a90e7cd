#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/files.h"
#include "core/json.h"
#include "remote/remote_error.h"

namespace lockstep::remote {

struct StoredFile {
  std::string name;  ///< Relative to the store's root, parts joined by '/'.
  int64_t bytes = 0;
};

/// Whether a name that a server gave stays below the folder that it is joined to: relative, no empty part, no ".".
/// Anybody who may write into a bucket chooses names.
bool is_safe_name(std::string_view name);

/// A file that is sent as it is now: as long as it was when it was opened, though it may grow.
struct OutgoingFile {
  core::Fd file;
  int64_t bytes = 0;
};

/// What an upload in parts leaves behind when it is cut off, so that the next process goes on with it.
struct UploadMemory {
  core::Json state = core::Json::object();
  std::function<void()> save = [] {};  ///< Called when `state` has changed.
};

/// A place for files under names. A file appears there whole or not at all, and has been compared with what was sent.
/// All throw RemoteError (Interrupted where the config says stop).
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  virtual std::string text() const = 0;  ///< Where it is, as users write it.
  /// Whose names begin with `prefix`, sorted; all are safe, see is_safe_name.
  virtual std::vector<StoredFile> list(const std::string& prefix) = 0;
  virtual void put(const std::string& name, std::string_view content) = 0;
  virtual void upload(const std::string& name, const OutgoingFile& file, UploadMemory& memory) = 0;
  virtual std::string read(const std::string& name) = 0;  ///< Of a small file.
  virtual void download(const std::string& name, const std::filesystem::path& to) = 0;
  virtual void remove(const std::string& name) = 0;
  /// Removes what uploads that were cut off have left below the root, unseen and paid for, but for those whose
  /// UploadMemory::state is among `kept`. How many there were.
  virtual int64_t drop_unfinished(const std::vector<core::Json>& kept) = 0;
};

/// Writes a small file, reads it back and removes it: the store can be used. Else the RemoteError that says why not;
/// where only removing fails, as with keys that may add but not delete, a warning.
void test_writing(ObjectStore& store);

}  // namespace lockstep::remote
