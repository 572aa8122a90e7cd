#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/json.h"

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

/// Something that a rank reads or writes: elements [offset, offset + count) in the memory of a tensor of these sizes
/// and strides, which has a place in the whole.
struct TensorPart {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0, count = 0;
  TensorPlace place;
};

/// The size of a part along the dimension in which ranks cut the tensor; 1 of a scalar.
int64_t cut_size(const TensorPart& part);
/// Both are of the same piece of the whole, laid out alike in memory: only offset and count may differ.
bool has_same_cut(const TensorPart& a, const TensorPart& b);

/// Elements [offset, offset + count) are some of a tensor of these sizes, whose number is no overflow.
bool is_within(int64_t offset, int64_t count, const std::vector<int64_t>& sizes);
/// Whether a description that may be damaged leads nowhere outside: the part lies in the whole, `numel` elements from
/// its offset on in the part.
bool is_sound(const TensorPart& part, int64_t numel);

/// As JSON, for files and manifests; `count` is not in it.
core::Json describe_part(const TensorPart& part);
/// The opposite; Json::exception where a key is missing, CheckpointError where a value is of another kind.
TensorPart part_from_json(const core::Json& said);
/// CheckpointError for all but integers of 64 bits.
int64_t whole_number(const core::Json& said);

}  // namespace lockstep::train
