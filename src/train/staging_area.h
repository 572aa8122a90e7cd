#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/safetensors.h"

namespace lockstep::train {

using NamedHandles = std::vector<std::pair<std::string, at::Tensor>>;

/// Sizes of the blocks in which `num_bytes` are staged: powers of two, less than 1 MiB more than asked for. LibTorch's
/// allocator of pinned memory rounds each allocation up to a power of two, and gives nothing back.
std::vector<int64_t> staging_blocks(int64_t num_bytes, int64_t largest_block_bytes);

/// Host memory for copies of tensors, kept from one use to the next; pinned where the tensors are a device's. Tensors
/// lie one behind the other, cut where a block ends.
class StagingArea {
 public:
  static constexpr int64_t kLargestBlockBytes = int64_t{256} << 20;

  explicit StagingArea(int64_t largest_block_bytes = kLargestBlockBytes) : largest_block_bytes_(largest_block_bytes) {}

  /// Queues the copies behind the work on the current stream of the tensors' device: the host reads them once it has
  /// waited for that stream.
  void copy_aside(std::span<const NamedHandles* const> files);
  /// What is to be written of the tensors of file i of the last copy_aside; borrows this memory until the next.
  std::vector<core::ScatteredEntry> entries(size_t file) const;
  /// Of all blocks.
  int64_t num_bytes() const;

 private:
  struct Staged {
    std::string name;
    std::vector<int64_t> shape;
    at::ScalarType type = at::kFloat;
    std::vector<at::Tensor> pieces = {};  ///< Flat, in order.

    bool fits(const std::string& other_name, const at::Tensor& tensor) const;
  };
  bool fits(std::span<const NamedHandles* const> files) const;
  void lay_out(std::span<const NamedHandles* const> files);
  void allocate(int64_t num_bytes, bool is_pinned);

  int64_t largest_block_bytes_;
  bool is_pinned_ = false;
  std::vector<at::Tensor> blocks_;
  std::vector<std::vector<Staged>> files_;
};

}  // namespace lockstep::train
