#include "models/clap/token_order.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "nn/parallel_for.h"

namespace lockstep::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor to_tensor(const std::vector<int64_t>& values) {
  at::Tensor tensor = at::empty({std::ssize(values)}, at::TensorOptions(at::kLong));
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

/// Whole rows of C numbers move: a memory copy each, where index_select would run a kernel per token.
at::Tensor take_tokens(const at::Tensor& x, const at::Tensor& source) {
  if (!x.is_cpu()) return x.index_select(1, source);
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  const int64_t tokens = in.size(1), row_bytes = in.size(2) * static_cast<int64_t>(in.element_size());
  const auto* from = static_cast<const std::byte*>(in.const_data_ptr());
  auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
  const int64_t* places = source.const_data_ptr<int64_t>();
  nn::parallel_for(0, in.size(0) * tokens, 2048, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t start = row / tokens * tokens;
      std::memcpy(to + row * row_bytes, from + (start + places[row - start]) * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  });
  return out;
}

struct PermuteTokens : torch::autograd::Function<PermuteTokens> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& source,
                            const at::Tensor& back) {
    context->saved_data["back"] = back;
    return take_tokens(x, source);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {take_tokens(gradients[0], context->saved_data["back"].toTensor()), {}, {}};
  }
};

}  // namespace

TokenOrder window_order(int64_t side, int64_t window, int64_t shift) {
  TokenOrder order;
  for (int64_t top = 0; top < side; top += window)
    for (int64_t left = 0; left < side; left += window)
      for (int64_t y = top; y < top + window; ++y)
        for (int64_t x = left; x < left + window; ++x) order.push_back((y + shift) % side * side + (x + shift) % side);
  return order;
}

TokenOrder merging_order(int64_t side, const TokenOrder& half_order) {
  TokenOrder order;
  for (const int64_t token : half_order) {
    const int64_t y = token / (side / 2) * 2, x = token % (side / 2) * 2;
    order.insert(order.end(), {y * side + x, (y + 1) * side + x, y * side + x + 1, (y + 1) * side + x + 1});
  }
  return order;
}

TokenPermutation::TokenPermutation(const TokenOrder& from, const TokenOrder& to, const at::Device& device)
    : is_identity(from == to) {
  LOCKSTEP_CHECK(from.size() == to.size(), "from={} to={}", from.size(), to.size());
  std::vector<int64_t> place_of(from.size()), sources, inverse(from.size());
  for (size_t place = 0; place < from.size(); ++place)
    place_of[static_cast<size_t>(from[place])] = static_cast<int64_t>(place);
  for (const int64_t token : to) sources.push_back(place_of[static_cast<size_t>(token)]);
  for (size_t place = 0; place < sources.size(); ++place)
    inverse[static_cast<size_t>(sources[place])] = static_cast<int64_t>(place);
  source = to_tensor(sources).to(device);
  back = to_tensor(inverse).to(device);
}

at::Tensor permute_tokens(const at::Tensor& x_BTC, const TokenPermutation& permutation) {
  return permutation.is_identity ? x_BTC : PermuteTokens::apply(x_BTC, permutation.source, permutation.back);
}

at::Tensor relative_position_index(int64_t window) {
  std::vector<int64_t> rows;
  const int64_t span = 2 * window - 1, tokens = window * window;
  for (int64_t query = 0; query < tokens; ++query)
    for (int64_t key = 0; key < tokens; ++key)
      rows.push_back((query / window - key / window + window - 1) * span + query % window - key % window + window - 1);
  return to_tensor(rows).view({tokens, tokens});
}

at::Tensor shift_mask(int64_t side, int64_t window, int64_t shift) {
  if (shift == 0) return {};
  const int64_t tokens = window * window, windows = side / window * (side / window);
  // Rolling joins the far ends; along each side the regions end at side - window and side - shift.
  const auto region = [&](int64_t at) { return at < side - window ? 0 : at < side - shift ? 1 : 2; };
  std::vector<int64_t> regions;  // in window order
  for (const int64_t token : window_order(side, window, 0))
    regions.push_back(3 * region(token / side) + region(token % side));
  at::Tensor mask = at::empty({windows, tokens, tokens}, at::TensorOptions(at::kFloat));
  float* out = mask.mutable_data_ptr<float>();
  for (int64_t first = 0; first < std::ssize(regions); first += tokens)
    for (int64_t query = first; query < first + tokens; ++query)
      for (int64_t key = first; key < first + tokens; ++key)
        *out++ = regions[static_cast<size_t>(query)] == regions[static_cast<size_t>(key)] ? 0.0F : -100.0F;
  return mask;
}

}  // namespace lockstep::models
