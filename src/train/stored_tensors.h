#pragma once
#include <ATen/core/TensorBody.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/safetensors.h"
#include "train/held_files.h"
#include "train/tensor_part.h"

namespace lockstep::train {

/// Goes into a file beside the tensors that are parts, by name; see StoredTensors.
inline constexpr const char* kPartsKey = "parts";

/// The tensors of a checkpoint, whole or in parts in any number of files, whoever wrote them. Files that hold nothing
/// of what is read (PartsIndex) may be left out.
class StoredTensors {
 public:
  /// Maps the files but those that are held, where given, and live as long as this. DataError for a damaged file,
  /// CheckpointError for one that does not say where its parts belong.
  StoredTensors(const std::filesystem::path& folder, const std::vector<std::string>& files,
                const HeldFiles* held = nullptr);

  /// Files that were mapped, and what was read of them by now.
  const ReadCounts& counts() const { return counts_; }
  bool has(const std::string& name) const { return pieces_.contains(name); }
  /// CheckpointError, with names, unless `wanted` are all there with the shapes of their places, and nothing is there,
  /// or in the files of `others` that were not opened, but `known`. Scales of FP8 layers may be missing, read() then
  /// leaves them, or be too much.
  void check(const std::map<std::string, TensorPart>& wanted, const std::set<std::string>& known,
             const std::vector<std::string>& others = {}) const;
  /// Fills `target`, one row, with the part `wanted` of `name`. CheckpointError where the stored parts do not make a
  /// whole.
  void read(const std::string& name, const TensorPart& wanted, const at::Tensor& target);

 private:
  struct Piece {
    at::Tensor flat;
    TensorPart part;
    bool is_mapped = false;
  };
  void add(const core::SafetensorsFile& file, const std::filesystem::path& path, bool is_mapped);
  bool fits(const TensorPart& wanted, const std::vector<int64_t>& stored) const;
  at::Tensor read_whole(const std::string& name, const TensorPart& wanted, const at::TensorOptions& options);
  int64_t copy_overlaps(const std::vector<const Piece*>& pieces, int64_t offset, const at::Tensor& target);
  [[noreturn]] void fail_incomplete(const std::string& name, int64_t num_found, int64_t num_wanted) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<core::SafetensorsFile>> files_;
  std::map<std::string, std::vector<Piece>> pieces_;
  ReadCounts counts_;
};

}  // namespace lockstep::train
