// Letters: see window_attention.h. G groups of samples whose bias gradients are summed before they are joined.
#include "models/clap/window_attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "models/clap/token_order.h"
#include "models/clap/window_kernel.h"
#include "nn/attention.h"
#include "nn/parallel_for.h"

namespace lockstep::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMaxGroups =
    16;  // a function of the batch alone, so that sums do not depend on the number of threads

bool has_kernel(const at::Tensor& qkv) {
  return qkv.is_cpu() && (qkv.scalar_type() == at::kFloat || qkv.scalar_type() == at::kBFloat16);
}

/// Addresses of one head in one window.
class WindowGrid {
 public:
  WindowGrid(const at::Tensor& qkv_BN3C, const at::Tensor& bias_HTT, const at::Tensor& mask_WTT)
      : heads_(bias_HTT.size(0)), shape_{.tokens = bias_HTT.size(1),
                                         .head_width = qkv_BN3C.size(2) / 3 / bias_HTT.size(0)},
        windows_(qkv_BN3C.size(1) / shape_.tokens), width_(heads_ * shape_.head_width),
        number_bytes_(static_cast<int64_t>(qkv_BN3C.element_size())),
        qkv_(static_cast<const std::byte*>(qkv_BN3C.const_data_ptr())), bias_(bias_HTT.const_data_ptr<float>()),
        mask_(mask_WTT.defined() ? mask_WTT.const_data_ptr<float>() : nullptr),
        type_(qkv_BN3C.scalar_type() == at::kFloat ? WindowType::kFloat : WindowType::kBFloat16) {}

  WindowInput input(int64_t sample, int64_t window, int64_t head) const {
    const int64_t square = shape_.tokens * shape_.tokens;
    return {.q = qkv_ + qkv_offset(sample, window, head),
            .k_offset = width_,
            .v_offset = 2 * width_,
            .stride = 3 * width_,
            .bias = bias_ + head * square,
            .mask = mask_ == nullptr ? nullptr : mask_ + window * square};
  }
  int64_t qkv_offset(int64_t sample, int64_t window, int64_t head) const {
    return 3 * row(sample, window) + column(head);
  }
  int64_t out_offset(int64_t sample, int64_t window, int64_t head) const { return row(sample, window) + column(head); }
  int64_t heads() const { return heads_; }
  int64_t windows() const { return windows_; }
  int64_t width() const { return width_; }
  const WindowShape& shape() const { return shape_; }
  WindowType type() const { return type_; }

 private:
  int64_t row(int64_t sample, int64_t window) const {
    return (sample * windows_ + window) * shape_.tokens * width_ * number_bytes_;
  }
  int64_t column(int64_t head) const { return head * shape_.head_width * number_bytes_; }

  int64_t heads_;
  WindowShape shape_;
  int64_t windows_, width_, number_bytes_;
  const std::byte* qkv_;
  const float *bias_, *mask_;
  WindowType type_;
};

struct KernelAttention : torch::autograd::Function<KernelAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& bias,
                            const std::optional<at::Tensor>& optional_mask) {
    const at::Tensor mask = optional_mask.value_or(at::Tensor());
    context->save_for_backward({qkv, bias, mask});
    const WindowGrid grid(qkv, bias, mask);
    at::Tensor out = at::empty({qkv.size(0), qkv.size(1), grid.width()}, qkv.options());
    auto* out_bytes = static_cast<std::byte*>(out.mutable_data_ptr());
    nn::parallel_for(0, qkv.size(0) * grid.windows(), 1, [&](int64_t begin, int64_t end) {
      std::vector<float> scratch(static_cast<size_t>(window_scratch_floats(grid.shape())));
      for (int64_t place = begin; place < end; ++place)
        for (int64_t head = 0; head < grid.heads(); ++head) {
          const int64_t sample = place / grid.windows(), window = place % grid.windows();
          window_forward(grid.shape(), grid.type(), grid.input(sample, window, head),
                         out_bytes + grid.out_offset(sample, window, head), grid.width(), scratch.data());
        }
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &bias = saved[1];
    const WindowGrid grid(qkv, bias, saved[2]);
    const at::Tensor out_gradient = gradients[0].to(qkv.scalar_type()).contiguous();
    at::Tensor qkv_gradient = at::empty_like(qkv);
    const int64_t batch = qkv.size(0), groups = std::min(batch, kMaxGroups), square = bias.size(1) * bias.size(2);
    at::Tensor bias_GHTT = at::zeros({groups, bias.size(0), bias.size(1), bias.size(2)}, bias.options());
    const auto* out_bytes = static_cast<const std::byte*>(out_gradient.const_data_ptr());
    auto* qkv_bytes = static_cast<std::byte*>(qkv_gradient.mutable_data_ptr());
    float* bias_sums = bias_GHTT.mutable_data_ptr<float>();
    nn::parallel_for(0, groups * grid.heads(), 1, [&](int64_t begin, int64_t end) {
      std::vector<float> scratch(static_cast<size_t>(window_scratch_floats(grid.shape())));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / grid.heads(), head = task % grid.heads();
        for (int64_t sample = group * batch / groups; sample < (group + 1) * batch / groups; ++sample)
          for (int64_t window = 0; window < grid.windows(); ++window)
            window_backward(grid.shape(), grid.type(), grid.input(sample, window, head),
                            out_bytes + grid.out_offset(sample, window, head), grid.width(),
                            qkv_bytes + grid.qkv_offset(sample, window, head), bias_sums + task * square,
                            scratch.data());
      }
    });
    return {qkv_gradient, bias_GHTT.sum(0), {}};
  }
};

/// The same out of single operators.
at::Tensor plain_attention(const at::Tensor& qkv_BN3C, const at::Tensor& bias_HTT, const at::Tensor& mask_WTT) {
  const int64_t batch = qkv_BN3C.size(0), heads = bias_HTT.size(0), tokens = bias_HTT.size(1);
  const int64_t windows = qkv_BN3C.size(1) / tokens, width = qkv_BN3C.size(2) / 3, head_width = width / heads;
  const auto parts = nn::split_heads(qkv_BN3C.view({batch * windows, tokens, 3 * heads * head_width}), 3, heads);
  at::Tensor start = bias_HTT.unsqueeze(0);
  if (mask_WTT.defined()) start = start.add(mask_WTT.unsqueeze(1));
  const at::Tensor scores =
      at::matmul(parts[0].mul(1.0 / std::sqrt(static_cast<double>(head_width))), parts[1].transpose(2, 3));
  const at::Tensor shifted =
      scores.view({-1, mask_WTT.defined() ? windows : 1, heads, tokens, tokens}).add(start.to(scores.scalar_type()));
  const at::Tensor probabilities = at::softmax(shifted, -1).view({batch * windows, heads, tokens, tokens});
  return at::matmul(probabilities, parts[2]).transpose(1, 2).reshape({batch, windows * tokens, width});
}

}  // namespace

at::Tensor window_attention(const at::Tensor& qkv_BN3C, const at::Tensor& bias_HTT, const at::Tensor& mask_WTT) {
  if (!has_kernel(qkv_BN3C)) return plain_attention(qkv_BN3C, bias_HTT, mask_WTT);
  const auto optional_mask = mask_WTT.defined() ? std::optional<at::Tensor>(mask_WTT) : std::nullopt;
  return KernelAttention::apply(qkv_BN3C.contiguous(), bias_HTT.to(at::kFloat).contiguous(), optional_mask);
}

WindowAttention::WindowAttention(int64_t width, int64_t heads, int64_t window, const at::TensorOptions& options)
    : relative_position_bias_table_(nn::make_parameter({(2 * window - 1) * (2 * window - 1), heads}, options)),
      qkv_(width, 3 * width, options), proj_(width, width, options), heads_(heads), tokens_(window * window),
      index_(relative_position_index(window).flatten().to(options.device())) {
  register_parameter("relative_position_bias_table", relative_position_bias_table_);
  register_child("qkv", qkv_);
  register_child("proj", proj_);
}

at::Tensor WindowAttention::forward(const at::Tensor& x_BNC, const at::Tensor& mask_WTT) const {
  const at::Tensor bias_HTT =
      relative_position_bias_table_.index_select(0, index_).view({tokens_, tokens_, heads_}).permute({2, 0, 1});
  return proj_.forward(window_attention(qkv_.forward(x_BNC), bias_HTT, mask_WTT));
}

}  // namespace lockstep::models
