#include "models/clap/text_packing.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "core/error.h"

namespace lockstep::models {
namespace {

/// All lists in one copy, from pinned memory.
std::vector<at::Tensor> to_device(const std::vector<const std::vector<int64_t>*>& lists, const at::Device& device) {
  std::vector<int64_t> sizes;
  for (const auto* list : lists) sizes.push_back(std::ssize(*list));
  const at::Tensor host = at::empty({std::accumulate(sizes.begin(), sizes.end(), int64_t{0})},
                                    at::TensorOptions(at::kLong).pinned_memory(!device.is_cpu()));
  auto* next = host.mutable_data_ptr<int64_t>();
  for (const auto* list : lists) next = std::copy(list->begin(), list->end(), next);
  return host.to(device, /*non_blocking=*/true).split_with_sizes(sizes);
}

std::vector<int64_t> lengths_of(std::span<const int64_t> ids, int64_t num_texts, int64_t pad_id, int64_t longest_text) {
  std::vector<int64_t> lengths;
  const auto columns = num_texts > 0 ? std::ssize(ids) / num_texts : 0;
  for (int64_t b = 0; b < num_texts; ++b) {
    const auto row = ids.subspan(static_cast<size_t>(b * columns), static_cast<size_t>(columns));
    lengths.push_back(columns - std::count(row.begin(), row.end(), pad_id));
    if (lengths.back() == 0 || lengths.back() > longest_text)
      throw DataError(
          fmt::format("models: text {} of the batch has {} tokens, expected 1 to {}", b, lengths.back(), longest_text),
          "every text holds at least a start and an end token; longer ones must be cut by the tokenizer");
  }
  return lengths;
}

}  // namespace

TextAttention text_attention_on(const at::Device& device) {
  return device.is_cpu() ? TextAttention::kByLength : TextAttention::kPadded;
}

std::vector<int64_t> TextPacking::block_rows() const {
  std::vector<int64_t> rows;
  for (const Block& block : blocks) rows.push_back(block.rows());
  return rows;
}

at::Tensor TextPacking::padded(const at::Tensor& x_ND, double padding) const {
  return at::full({num_texts() * longest(), x_ND.size(1)}, padding, x_ND.options())
      .index_copy(0, slot_N, x_ND)
      .view({num_texts(), longest(), x_ND.size(1)});
}

at::Tensor TextPacking::tokens_alone(const at::Tensor& x_ND, double padding) const {
  return padded(is_padding_N.defined() ? x_ND.masked_fill(is_padding_N.unsqueeze(1), padding) : x_ND, padding);
}

TextPacking whole_texts(const at::Tensor& text_BT, int64_t pad_id) {
  const int64_t num_texts = text_BT.size(0), columns = text_BT.size(1);
  const at::Tensor is_token_BT = text_BT.ne(pad_id), counted_BT = is_token_BT.to(at::kLong);
  TextPacking packing;
  packing.blocks = {{num_texts, columns}};
  packing.id_N = text_BT.flatten();
  packing.position_N = counted_BT.cumsum(1).mul(counted_BT).add(pad_id).flatten();
  packing.place_B = at::arange(num_texts, text_BT.options());
  packing.first_B = packing.place_B.mul(columns);
  packing.slot_N = at::arange(num_texts * columns, text_BT.options());
  packing.length_B = counted_BT.sum(1);
  packing.is_padding_N = is_token_BT.logical_not().flatten();
  packing.mask_B11T = at::zeros({num_texts, 1, 1, columns}, text_BT.options().dtype(at::kFloat))
                          .masked_fill_(is_token_BT.logical_not().view({num_texts, 1, 1, columns}),
                                        -std::numeric_limits<double>::infinity());
  return packing;
}

TextPacking pack_texts(const at::Tensor& text_BT, int64_t pad_id, int64_t longest_text, const at::Device& device,
                       TextAttention attention) {
  const at::Tensor host_BT = text_BT.cpu().contiguous();  // sync: where the ids lie on a device
  const int64_t num_texts = host_BT.size(0);
  const auto columns = static_cast<size_t>(host_BT.size(1));
  const std::span<const int64_t> ids(host_BT.const_data_ptr<int64_t>(), static_cast<size_t>(host_BT.numel()));
  const std::vector<int64_t> lengths = lengths_of(ids, num_texts, pad_id, longest_text);
  std::vector<int64_t> order(static_cast<size_t>(num_texts)), place(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)];
  });
  const int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  TextPacking packing;
  std::vector<int64_t> packed_ids, positions, first, slots, packed_lengths;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const auto text = static_cast<size_t>(order[rank]);
    place[text] = static_cast<int64_t>(rank);
    first.push_back(std::ssize(packed_ids));
    packed_lengths.push_back(lengths[text]);
    int64_t token = 0;
    for (const int64_t id : ids.subspan(text * columns, columns)) {
      if (id == pad_id) continue;
      packed_ids.push_back(id);
      slots.push_back(static_cast<int64_t>(rank) * longest + token);
      positions.push_back(pad_id + ++token);
    }
    if (packing.blocks.empty() || packing.blocks.back().tokens != lengths[text])
      packing.blocks.push_back({0, lengths[text]});
    ++packing.blocks.back().num_texts;
  }
  const auto parts = to_device({&packed_ids, &positions, &first, &place, &slots, &packed_lengths}, device);
  packing.id_N = parts[0];
  packing.position_N = parts[1];
  packing.first_B = parts[2];
  packing.place_B = parts[3];
  if (attention == TextAttention::kByLength) return packing;
  packing.slot_N = parts[4];
  packing.length_B = parts[5];
  const at::Tensor is_padding_BT = at::arange(longest, parts[5].options()).unsqueeze(0).ge(parts[5].unsqueeze(1));
  packing.mask_B11T =
      at::zeros({num_texts, 1, 1, longest}, at::TensorOptions(at::kFloat).device(device))
          .masked_fill_(is_padding_BT.view({num_texts, 1, 1, longest}), -std::numeric_limits<double>::infinity());
  return packing;
}

}  // namespace lockstep::models
