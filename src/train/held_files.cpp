#include "train/held_files.h"

#include <utility>

namespace lockstep::train {
namespace fs = std::filesystem;

checkpoint::CheckpointFile HeldFiles::describe(const fs::path& folder, const std::string& name,
                                               core::FileContent content) {
  core::HashedFile file = core::hash_file(folder / name, content);
  counts_.add({.num_files = 1, .num_bytes = file.num_bytes});
  checkpoint::CheckpointFile description{.name = name, .bytes = file.num_bytes, .xxh3 = file.xxh3};
  if (file.content) files_.insert_or_assign(folder / name, std::move(file));
  return description;
}

const core::HashedFile* HeldFiles::find(const fs::path& path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? nullptr : &found->second;
}

void HeldFiles::clear() {
  files_.clear();
  counts_ = {};
}

}  // namespace lockstep::train
