#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/manifest.h"
#include "core/hashed_file.h"

namespace lockstep::train {

/// What reading took.
struct ReadCounts {
  int64_t num_files = 0;  ///< Opened.
  int64_t num_bytes = 0;  ///< Read from them.
  void add(const ReadCounts& more) {
    num_files += more.num_files;
    num_bytes += more.num_bytes;
  }
};

/// Files of a checkpoint that this rank has hashed, in memory, until their tensors were taken. So nothing is read a
/// second time, and what fills the model is what was tested.
class HeldFiles {
 public:
  /// As checkpoint::describe_file. The content is held from then on where that is asked for and there is memory.
  checkpoint::CheckpointFile describe(const std::filesystem::path& folder, const std::string& name,
                                      core::FileContent content);
  /// nullptr where the content is not held.
  const core::HashedFile* find(const std::filesystem::path& path) const;
  const ReadCounts& counts() const { return counts_; }  ///< What was hashed, held or not.
  void clear();

 private:
  std::map<std::filesystem::path, core::HashedFile> files_;
  ReadCounts counts_;
};

}  // namespace lockstep::train
