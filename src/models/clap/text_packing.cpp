#include "models/clap/text_packing.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "core/error.h"

namespace lockstep::models {
namespace {

at::Tensor to_device(const std::vector<int64_t>& values, const at::Device& device) {
  const at::Tensor host = at::empty({std::ssize(values)}, at::TensorOptions(at::kLong).pinned_memory(!device.is_cpu()));
  std::copy(values.begin(), values.end(), host.mutable_data_ptr<int64_t>());
  return host.to(device, /*non_blocking=*/true);
}

}  // namespace

std::vector<int64_t> TextPacking::block_rows() const {
  std::vector<int64_t> rows;
  for (const Block& block : blocks) rows.push_back(block.rows());
  return rows;
}

TextPacking pack_texts(const at::Tensor& text_BT, int64_t pad_id, int64_t longest_text) {
  const at::Tensor host_BT = text_BT.cpu().contiguous();  // sync: lengths decide which products there are
  const int64_t num_texts = host_BT.size(0), columns = host_BT.size(1);
  const std::span<const int64_t> ids(host_BT.const_data_ptr<int64_t>(), static_cast<size_t>(host_BT.numel()));
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < num_texts; ++b) {
    const auto row = ids.subspan(static_cast<size_t>(b * columns), static_cast<size_t>(columns));
    lengths.push_back(columns - std::count(row.begin(), row.end(), pad_id));
    if (lengths.back() == 0 || lengths.back() > longest_text)
      throw DataError(
          fmt::format("models: text {} of the batch has {} tokens, expected 1 to {}", b, lengths.back(), longest_text),
          "every text holds at least a start and an end token; longer ones must be cut by the tokenizer");
  }
  std::vector<int64_t> order(static_cast<size_t>(num_texts)), place(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)];
  });
  TextPacking packing;
  std::vector<int64_t> packed_ids, positions, first;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const auto text = static_cast<size_t>(order[rank]);
    place[text] = static_cast<int64_t>(rank);
    first.push_back(std::ssize(packed_ids));
    int64_t position = pad_id;
    for (const int64_t id : ids.subspan(text * static_cast<size_t>(columns), static_cast<size_t>(columns))) {
      if (id == pad_id) continue;
      packed_ids.push_back(id);
      positions.push_back(++position);
    }
    if (packing.blocks.empty() || packing.blocks.back().tokens != lengths[text])
      packing.blocks.push_back({0, lengths[text]});
    ++packing.blocks.back().num_texts;
  }
  packing.id_N = to_device(packed_ids, text_BT.device());
  packing.position_N = to_device(positions, text_BT.device());
  packing.first_B = to_device(first, text_BT.device());
  packing.place_B = to_device(place, text_BT.device());
  return packing;
}

}  // namespace lockstep::models
