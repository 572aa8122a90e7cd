// Letters: B micro-batch, H heads, G heads of keys, P = B G products, R = H / G heads that share keys, L queries, T
// keys, K head width.
#include "nn/cpu_attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "config/attention_kernel.h"
#include "core/error.h"
#include "nn/compute_type.h"
#include "nn/cpu_kernels.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Queries [begin, end) of each head, which are multiplied with the first num_keys keys.
struct Block {
  int64_t begin = 0, end = 0, num_keys = 0;
  int64_t first_query = 0;  ///< Of causal_softmax_on_cpu(): the last key for a block whose queries see all keys.
};

std::vector<Block> blocks_of(const at::Tensor& q_PRLK, int64_t num_keys, bool is_causal) {
  const int64_t length = q_PRLK.size(2);
  if (!is_causal) return {{.begin = 0, .end = length, .num_keys = num_keys, .first_query = num_keys - 1}};
  const int64_t rows = config::causal_block_rows(length, q_PRLK.scalar_type() != at::kFloat);
  std::vector<Block> blocks;
  for (int64_t begin = 0; begin < length; begin += rows) {
    const int64_t end = std::min(begin + rows, length);
    blocks.push_back({.begin = begin, .end = end, .num_keys = end, .first_query = begin});
  }
  return blocks;
}

/// Rows of a block, those of heads that share keys side by side: [P, R (end - begin), ...] of x [P, R, L, ...].
at::Tensor rows_of(const at::Tensor& x_PRLK, const Block& block) {
  const int64_t rows = block.end - block.begin;
  return x_PRLK.narrow(2, block.begin, rows).reshape({x_PRLK.size(0), x_PRLK.size(1) * rows, x_PRLK.size(3)});
}

/// Into x, which becomes a tensor of these sizes [P, R, L, ...] with the first block.
void put_rows(at::Tensor& x_PRLK, at::IntArrayRef sizes, const Block& block, const at::Tensor& rows) {
  if (block.end - block.begin == sizes[2]) {
    x_PRLK = rows.view(sizes);
    return;
  }
  if (!x_PRLK.defined()) x_PRLK = at::empty(sizes, rows.options());
  at::Tensor part = x_PRLK.narrow(2, block.begin, block.end - block.begin);
  part.copy_(rows.view(part.sizes()));
}

/// The draws that these rows have in the tensor of all.
Dropout dropout_of(const Dropout& dropout, const at::Tensor& q_PRLK, const Block& block) {
  if (dropout.probability <= 0.0) return dropout;
  const int64_t products = q_PRLK.size(0), shared = q_PRLK.size(1), length = q_PRLK.size(2);
  const at::Tensor numbers =
      dropout.rows.defined() ? dropout.rows : at::arange(products * shared * length, q_PRLK.options().dtype(at::kLong));
  return {.probability = dropout.probability,
          .key = dropout.key,
          .rows = rows_of(numbers.reshape({products, shared, length, 1}), block).flatten()};
}

double scale_of(const at::Tensor& q_PRLK) { return 1.0 / std::sqrt(static_cast<double>(q_PRLK.size(3))); }

at::Tensor probabilities_of(const at::Tensor& q_PRLK, const at::Tensor& k_PTK, const Block& block) {
  at::Tensor scores = at::bmm(rows_of(q_PRLK, block), k_PTK.narrow(1, 0, block.num_keys).transpose(1, 2));
  causal_softmax_on_cpu(scores, scale_of(q_PRLK), block.first_query);
  return scores;
}

/// Appends to `kept`, where it is given, each block's probabilities and, where some are dropped, what is left of them.
at::Tensor attend(const at::Tensor& q_PRLK, const at::Tensor& k_PTK, const at::Tensor& v_PTK, bool is_causal,
                  const Dropout& dropped, variable_list* kept) {
  at::Tensor y;
  for (const Block& block : blocks_of(q_PRLK, k_PTK.size(1), is_causal)) {
    const at::Tensor all = probabilities_of(q_PRLK, k_PTK, block),
                     left = dropout(all, dropout_of(dropped, q_PRLK, block));
    put_rows(y, q_PRLK.sizes(), block, at::bmm(left, v_PTK.narrow(1, 0, block.num_keys)));
    if (!kept) continue;
    kept->push_back(all);
    if (dropped.probability > 0.0) kept->push_back(left);
  }
  return y;
}

/// The first part has all rows.
void add_to_first_rows(at::Tensor& sum_PTK, const at::Tensor& part) {
  if (sum_PTK.defined())
    sum_PTK.narrow(1, 0, part.size(1)).add_(part);
  else
    sum_PTK = part;
}

struct CpuAttention : torch::autograd::Function<CpuAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_PRLK, const at::Tensor& k_PTK,
                            const at::Tensor& v_PTK, bool is_causal, double probability, int64_t key,
                            const std::optional<at::Tensor>& numbers) {
    const Dropout dropped{
        .probability = probability, .key = static_cast<uint64_t>(key), .rows = numbers.value_or(at::Tensor())};
    variable_list kept = {q_PRLK, k_PTK, v_PTK, dropped.rows};
    at::Tensor y = attend(q_PRLK, k_PTK, v_PTK, is_causal, dropped, &kept);
    context->save_for_backward(kept);
    context->saved_data["is_causal"] = is_causal;
    context->saved_data["probability"] = probability;
    context->saved_data["key"] = key;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list kept = context->get_saved_variables();
    const at::Tensor &q_PRLK = kept[0], &k_PTK = kept[1], &v_PTK = kept[2];
    const Dropout dropped{.probability = context->saved_data["probability"].toDouble(),
                          .key = static_cast<uint64_t>(context->saved_data["key"].toInt()),
                          .rows = kept[3]};
    const std::vector<Block> blocks = blocks_of(q_PRLK, k_PTK.size(1), context->saved_data["is_causal"].toBool());
    const size_t kept_of_block = dropped.probability > 0.0 ? 2 : 1;
    at::Tensor dq, dk, dv;
    // The last block first: it sees all keys.
    for (size_t i = blocks.size(); i-- > 0;) {
      const Block& block = blocks[i];
      const at::Tensor &all = kept[4 + i * kept_of_block], &left = kept[4 + (i + 1) * kept_of_block - 1];
      const at::Tensor dy = rows_of(gradients[0], block), k = k_PTK.narrow(1, 0, block.num_keys);
      add_to_first_rows(dv, at::bmm(left.transpose(1, 2), dy));
      at::Tensor dscores =
          dropout(at::bmm(dy, v_PTK.narrow(1, 0, block.num_keys).transpose(1, 2)), dropout_of(dropped, q_PRLK, block));
      causal_softmax_backward_on_cpu(all, dscores, scale_of(q_PRLK), block.first_query);
      put_rows(dq, q_PRLK.sizes(), block, at::bmm(dscores, k));
      add_to_first_rows(dk, at::bmm(dscores.transpose(1, 2), rows_of(q_PRLK, block)));
    }
    return {dq, dk, dv, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool has_cpu_attention(const at::Device& device, at::ScalarType type) {
  return device.is_cpu() && (type == at::kFloat || type == at::kBFloat16);
}

at::Tensor attention_on_cpu(const at::Tensor& q_BHLK, const at::Tensor& k_BGTK, const at::Tensor& v_BGTK,
                            bool is_causal, const Dropout& dropout) {
  const int64_t batch = q_BHLK.size(0), heads = q_BHLK.size(1), length = q_BHLK.size(2), width = q_BHLK.size(3);
  const int64_t products = batch * k_BGTK.size(1), num_keys = k_BGTK.size(2);
  LOCKSTEP_CHECK(num_keys > 0 && heads % k_BGTK.size(1) == 0 && (!is_causal || num_keys == length),
                 "queries={} keys={} heads={} and {}", length, num_keys, heads, k_BGTK.size(1));
  const auto keys_of = [&](const at::Tensor& x) { return in_compute_type(x).reshape({products, num_keys, width}); };
  const at::Tensor q = in_compute_type(q_BHLK).reshape({products, heads / k_BGTK.size(1), length, width}),
                   k = keys_of(k_BGTK), v = keys_of(v_BGTK);
  if (!c10::GradMode::is_enabled())
    return attend(q, k, v, is_causal, dropout, nullptr).view({batch, heads, length, width});
  const auto numbers = dropout.rows.defined() ? std::optional<at::Tensor>(dropout.rows) : std::nullopt;
  return CpuAttention::apply(q, k, v, is_causal, dropout.probability, static_cast<int64_t>(dropout.key), numbers)
      .view({batch, heads, length, width});
}

}  // namespace lockstep::nn
