#include "train/staging_area.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/error.h"
#include "models/weights_tensors.h"

namespace lockstep::train {
namespace {

constexpr int64_t kSmallestBlockBytes = int64_t{1} << 20;
constexpr int64_t kAlignment = 64;  // of tensors in a block, for views of any type

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

std::vector<int64_t> staging_blocks(int64_t num_bytes, int64_t largest_block_bytes) {
  std::vector<int64_t> blocks;
  for (int64_t block = largest_block_bytes; num_bytes > 0; num_bytes -= block) {
    while (block > num_bytes && block > kSmallestBlockBytes) block /= 2;
    blocks.push_back(block);
  }
  return blocks;
}

bool StagingArea::Staged::fits(const std::string& other_name, const at::Tensor& tensor) const {
  return name == other_name && tensor.sizes() == shape && tensor.scalar_type() == type;
}

bool StagingArea::fits(std::span<const NamedHandles* const> files) const {
  return std::equal(
      files.begin(), files.end(), files_.begin(), files_.end(), [](const auto* tensors, const auto& known) {
        return std::equal(
            tensors->begin(), tensors->end(), known.begin(), known.end(),
            [](const auto& named, const Staged& staged) { return staged.fits(named.first, named.second); });
      });
}

void StagingArea::allocate(int64_t num_bytes, bool is_pinned) {
  const auto wanted = staging_blocks(num_bytes, largest_block_bytes_);
  const bool is_there = is_pinned == is_pinned_ &&
                        std::equal(wanted.begin(), wanted.end(), blocks_.begin(), blocks_.end(),
                                   [](int64_t bytes, const at::Tensor& block) { return bytes == block.numel(); });
  if (is_there) return;
  blocks_.clear();
  is_pinned_ = is_pinned;
  for (const int64_t bytes : wanted)
    blocks_.push_back(at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(is_pinned)));
}

void StagingArea::lay_out(std::span<const NamedHandles* const> files) {
  files_.clear();
  int64_t num_bytes = 0;
  bool is_pinned = false;
  for (const auto* tensors : files)
    for (const auto& [name, tensor] : *tensors) {
      num_bytes += aligned(static_cast<int64_t>(tensor.nbytes()));
      is_pinned = is_pinned || !tensor.is_cpu();
    }
  allocate(num_bytes, is_pinned);
  size_t block = 0;
  int64_t used = 0;
  for (const auto* tensors : files) {
    auto& staged_file = files_.emplace_back();
    for (const auto& [name, tensor] : *tensors) {
      Staged staged{.name = name, .shape = tensor.sizes().vec(), .type = tensor.scalar_type()};
      for (int64_t left = static_cast<int64_t>(tensor.nbytes()); left > 0;) {
        if (used == blocks_.at(block).numel()) ++block, used = 0;
        const int64_t bytes = std::min(left, blocks_.at(block).numel() - used);
        staged.pieces.push_back(blocks_[block].narrow(0, used, bytes).view(staged.type));
        left -= bytes;
        used += aligned(bytes);
      }
      staged_file.push_back(std::move(staged));
    }
  }
}

void StagingArea::copy_aside(std::span<const NamedHandles* const> files) {
  const c10::NoGradGuard no_grad;
  if (!fits(files)) lay_out(files);
  for (size_t file = 0; file < files.size(); ++file)
    for (size_t i = 0; i < files[file]->size(); ++i) {
      const at::Tensor from = (*files[file])[i].second.detach();
      const Staged& staged = files_[file][i];
      const bool is_async = !from.is_cpu();
      if (staged.pieces.size() == 1) {
        staged.pieces[0].view(from.sizes()).copy_(from, is_async);
        continue;
      }
      const at::Tensor flat = staged.pieces.empty() ? at::Tensor() : from.contiguous().view(-1);
      int64_t at = 0;
      for (const at::Tensor& piece : staged.pieces) {
        piece.copy_(flat.narrow(0, at, piece.numel()), is_async);
        at += piece.numel();
      }
    }
}

std::vector<core::ScatteredEntry> StagingArea::entries(size_t file) const {
  std::vector<core::ScatteredEntry> entries;
  for (const Staged& staged : files_.at(file)) {
    core::ScatteredEntry entry{
        .name = staged.name, .dtype = models::safetensors_type_name(staged.type), .shape = staged.shape};
    for (const at::Tensor& piece : staged.pieces)
      entry.pieces.emplace_back(static_cast<const std::byte*>(piece.const_data_ptr()), piece.nbytes());
    entries.push_back(std::move(entry));
  }
  return entries;
}

int64_t StagingArea::num_bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& block : blocks_) bytes += block.numel();
  return bytes;
}

}  // namespace lockstep::train
