#pragma once
#include <ATen/core/TensorBody.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/safetensors.h"

namespace lockstep::train {

/// Where a rank's tensor lies in the whole one of the model, where ranks hold parts of it.
struct TensorPlace {
  std::vector<int64_t> whole;  ///< Shape of all of it.
  int64_t dim = 0, begin = 0;  ///< The rank has [begin, begin + its own size) along this dimension.
  /// Rows of dimension 0 beyond these are padding, of which another layout may have more or less.
  std::optional<int64_t> num_rows = std::nullopt;
  bool writes_values = true;  ///< Among the ranks that hold the same one writes it.
  bool writes_state = true;   ///< The same of what the optimiser holds of it.
};

/// How ranks share the tensors of a model; by default every rank holds all.
struct TensorLayout {
  bool holds_part = false;                         ///< Ranks hold parts of the model.
  std::map<std::string, TensorPlace> places = {};  ///< Of tensors that are not simply whole.
  std::set<std::string> all_names = {};            ///< With holds_part: the tensors of all ranks.
};

/// Something that a rank reads or writes: elements [offset, offset + numel) in the memory of a tensor of these sizes
/// and strides, which has a place in the whole.
struct TensorPart {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  TensorPlace place;
};

/// A tensor's memory as one row.
at::Tensor flat_memory(const at::Tensor& tensor);
/// All of a tensor, in the order of its memory.
TensorPart part_of(const at::Tensor& tensor, const std::map<std::string, TensorPlace>& places, const std::string& name);

/// Goes into a file beside the tensors that are parts, by name; see StoredTensors.
inline constexpr const char* kPartsKey = "parts";
core::Json describe_part(const TensorPart& part);

/// The tensors of a checkpoint, whole or in parts in any number of files, whoever wrote them.
class StoredTensors {
 public:
  /// Maps the files. DataError for a damaged file, CheckpointError for one that does not say where its parts belong.
  StoredTensors(const std::filesystem::path& folder, const std::vector<std::string>& files);

  bool has(const std::string& name) const { return pieces_.contains(name); }
  /// CheckpointError, with names, unless `wanted` are all there with the shapes of their places, and nothing is there
  /// but `known`. Scales of FP8 layers may be missing, read() then leaves them, or be too much.
  void check(const std::map<std::string, TensorPart>& wanted, const std::set<std::string>& known) const;
  /// Fills `target`, one row, with the part `wanted` of `name`. CheckpointError where the stored parts do not make a
  /// whole.
  void read(const std::string& name, const TensorPart& wanted, const at::Tensor& target) const;

 private:
  struct Piece {
    at::Tensor flat;
    TensorPart part;
  };
  void add(const core::SafetensorsFile& file, const std::filesystem::path& path);
  bool fits(const TensorPart& wanted, const std::vector<int64_t>& stored) const;
  at::Tensor read_whole(const std::string& name, const at::TensorOptions& options) const;
  static int64_t copy_overlaps(const std::vector<const Piece*>& pieces, int64_t offset, const at::Tensor& target);
  [[noreturn]] void fail_incomplete(const std::string& name, int64_t num_found, int64_t num_wanted) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<core::SafetensorsFile>> files_;
  std::map<std::string, std::vector<Piece>> pieces_;
};

}  // namespace lockstep::train
