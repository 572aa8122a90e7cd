#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "train/part_description.h"

namespace lockstep::train {

/// Which parts of which tensors the files of a checkpoint hold, by the names that the tensors have in the files.
using FileParts = std::map<std::string, TensorPart>;

/// Kept in the manifest of a checkpoint in parts, so that each rank opens only those files that hold something of what
/// it reads: without it N ranks would open N x N files.
class PartsIndex {
 public:
  /// Knows no file.
  PartsIndex() = default;
  /// From CheckpointManifest::extra; knows no file where nothing is kept there. CheckpointError where it is damaged.
  static PartsIndex of_manifest(const core::Json& extra);
  void add_to_manifest(core::Json& extra) const;

  void add(const std::string& file, const FileParts& parts);
  /// Those of `files` that hold something of what is wanted, and those that are not known here.
  std::vector<std::string> files_with(const FileParts& wanted, const std::vector<std::string>& files) const;
  /// Which share of the elements of a file is wanted, for those of files_with() that are known here.
  std::map<std::string, double> shares_of(const FileParts& wanted, const std::vector<std::string>& files) const;
  /// The tensors in these files.
  std::vector<std::string> names_in(const std::vector<std::string>& files) const;

 private:
  /// Many parts differ in their range only: names and cuts are kept once.
  struct Range {
    size_t name, cut;
    int64_t offset, count;
  };
  /// What is wanted of tensors, by their number here.
  struct Wanted {
    std::vector<const TensorPart*> parts;  // nullptr: nothing
    std::vector<bool> is_cut_alike;        // somewhere; then only from there
  };
  Wanted look_up(const FileParts& wanted) const;
  bool has_some(const Range& range, const Wanted& wanted) const;

  std::map<std::string, std::vector<Range>> files_;
  std::vector<std::string> names_;
  std::vector<TensorPart> cuts_;
  std::map<std::string, size_t> name_numbers_, cut_numbers_;  // the latter by their description
};

/// The description of a file beside it, which its writer leaves for rank 0.
core::Json describe_parts(const FileParts& parts);
FileParts parts_from_json(const core::Json& said);

}  // namespace lockstep::train
