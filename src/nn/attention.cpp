// Letters: B micro-batch, H heads, K head width, L queries, T keys, D = H K.
#include "nn/attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "config/attention_kernel.h"
#include "core/error.h"
#include "nn/compute_type.h"
#include "nn/cpu_attention.h"
#include "nn/gpu_kernels.h"
#include "nn/product.h"

namespace lockstep::nn {
namespace {

int64_t plain_limit(at::ScalarType type, bool is_causal) {
  return config::plain_attention_limit(type == at::kBFloat16 || type == at::kHalf, is_causal);
}

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& given_mask,
                           bool is_causal, const Dropout& dropped) {
  const int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), keys = k.size(2), width = q.size(3);
  const int64_t products = batch * k.size(1),
                rows = heads / k.size(1) * queries;  // queries that share keys lie in one product
  const double scale = 1.0 / std::sqrt(static_cast<double>(width));
  const at::Tensor q3 = q.reshape({products, rows, width}), k3 = k.reshape({products, keys, width});
  const at::Tensor mask = is_causal ? causal_mask(keys, q.options()) : given_mask;
  // One product scales and masks as well; with beta 0 the first argument is not read.
  at::Tensor start = mask;
  if (mask.defined()) start = mask.expand({batch, heads, queries, keys}).reshape({products, rows, keys});
  const at::Tensor scores = mask.defined()
                                ? at::baddbmm(start, q3, k3.transpose(1, 2), 1.0, scale)
                                : at::baddbmm(at::empty({1, 1, 1}, q3.options()), q3, k3.transpose(1, 2), 0.0, scale);
  return at::bmm(dropout(at::softmax(scores, -1), dropped), v.reshape({products, keys, width}))
      .view({batch, heads, queries, width});
}

struct SplitFunction : torch::autograd::Function<SplitFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                                                int64_t dim, const std::vector<int64_t>& sizes) {
    context->saved_data["dim"] = dim;
    context->saved_data["shape"] = x.sizes().vec();
    context->saved_data["sizes"] = sizes;
    context->set_materialize_grads(false);
    return at::split_with_sizes(x, sizes, dim);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const int64_t dim = context->saved_data["dim"].toInt();
    at::Tensor found;
    for (const at::Tensor& gradient : gradients)
      if (gradient.defined() && !found.defined())
        found = at::empty(context->saved_data["shape"].toIntVector(), gradient.options());
    LOCKSTEP_CHECK(found.defined(), "a backward pass without a gradient");
    const std::vector<int64_t> sizes = context->saved_data["sizes"].toIntVector();
    int64_t begin = 0;
    for (size_t i = 0; i < sizes.size(); begin += sizes[i++]) {
      at::Tensor part = found.narrow(dim, begin, sizes[i]);
      if (gradients[i].defined())
        copy_strided(part, gradients[i]);
      else
        part.zero_();
    }
    return {found, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> split_apart(const at::Tensor& x, int64_t dim, at::IntArrayRef sizes) {
  return c10::GradMode::is_enabled() ? SplitFunction::apply(x, dim, sizes.vec()) : x.split_with_sizes(sizes, dim);
}

std::vector<at::Tensor> split_heads(const at::Tensor& x, int64_t parts, int64_t heads) {
  const at::Tensor x_BTPHK = x.view({x.size(0), x.size(1), parts, heads, x.size(2) / parts / heads});
  std::vector<at::Tensor> found = split_apart(x_BTPHK, 2, std::vector<int64_t>(static_cast<size_t>(parts), 1));
  for (at::Tensor& part : found) part = part.squeeze(2).transpose(1, 2);
  return found;
}

at::Tensor causal_mask(int64_t length, const at::TensorOptions& options) {
  return at::full({length, length}, -std::numeric_limits<double>::infinity(), options).triu_(1);
}

at::Tensor attention(const at::Tensor& q_BHLK, const at::Tensor& k_BHTK, const at::Tensor& v_BHTK,
                     const at::Tensor& mask, bool is_causal, const Dropout& dropout) {
  LOCKSTEP_CHECK(!is_causal || (!mask.defined() && q_BHLK.size(2) == k_BHTK.size(2)), "queries={} keys={}",
                 q_BHLK.size(2), k_BHTK.size(2));
  // tasks::train_gpt_memory counts by the same rule.
  const bool is_fused =
      q_BHLK.is_cpu() ? dropout.probability <= 0.0 && k_BHTK.size(2) > plain_limit(q_BHLK.scalar_type(), is_causal)
                      : dropout.probability <= 0.0 || !dropout.rows.defined();
  if (is_fused) {
    if (dropout.probability > 0.0) seed_device_generator(q_BHLK.device(), dropout.key);
    const auto optional_mask = mask.defined() ? std::optional<at::Tensor>(mask) : std::nullopt;
    const bool is_grouped = q_BHLK.size(1) != k_BHTK.size(1);
    return at::scaled_dot_product_attention(q_BHLK, k_BHTK, v_BHTK, optional_mask, std::max(dropout.probability, 0.0),
                                            is_causal, std::nullopt, is_grouped);
  }
  if (!mask.defined() && has_cpu_attention(q_BHLK.device(), compute_type_of(q_BHLK)))
    return attention_on_cpu(q_BHLK, k_BHTK, v_BHTK, is_causal, dropout);
  return plain_attention(q_BHLK, k_BHTK, v_BHTK, mask, is_causal, dropout);
}

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads, const at::TensorOptions& options)
    : in_proj_weight_(make_parameter({3 * width, width}, options)), in_proj_bias_(make_parameter({3 * width}, options)),
      out_proj_(width, width, options), heads_(heads) {
  register_parameter("in_proj_weight", in_proj_weight_);
  register_parameter("in_proj_bias", in_proj_bias_);
  register_child("out_proj", out_proj_);
}

void MultiHeadAttention::prepare_inference(std::optional<at::ScalarType> type) {
  packed_in_ = pack_where_possible(in_proj_weight_, in_proj_bias_, type);
  packed_query_ = packed_key_value_ = {};
  out_proj_.prepare_inference(type);
}

at::Tensor MultiHeadAttention::forward(const at::Tensor& x_BTD, bool is_causal, const at::Tensor& mask) const {
  const int64_t batch = x_BTD.size(0), length = x_BTD.size(1), width = x_BTD.size(2);
  const at::Tensor qkv =
      is_usable(packed_in_) ? packed_in_.forward(x_BTD) : linear_layer(x_BTD, in_proj_weight_, in_proj_bias_);
  const std::vector<at::Tensor> parts = split_heads(qkv, 3, heads_);
  const at::Tensor typed_mask = mask.defined() ? mask.to(parts[0].scalar_type()) : mask;
  const at::Tensor y_BHTK = attention(parts[0], parts[1], parts[2], typed_mask, is_causal && !mask.defined());
  return out_proj_.forward(y_BHTK.transpose(1, 2).reshape({batch, length, width}));
}

at::Tensor MultiHeadAttention::forward_one_query(const at::Tensor& query_x_B1D, const at::Tensor& x_BTD,
                                                 const at::Tensor& position_B, bool is_causal) const {
  const int64_t batch = x_BTD.size(0), length = x_BTD.size(1), width = x_BTD.size(2);
  const at::Tensor q_weight = in_proj_weight_.narrow(0, 0, width), q_bias = in_proj_bias_.narrow(0, 0, width);
  const at::Tensor kv_weight = in_proj_weight_.narrow(0, width, 2 * width),
                   kv_bias = in_proj_bias_.narrow(0, width, 2 * width);
  if (is_usable(packed_in_) && !packed_query_.is_ready()) {
    packed_query_ = PackedLinear(q_weight, q_bias, packed_in_.type());
    packed_key_value_ = PackedLinear(kv_weight, kv_bias, packed_in_.type());
  }
  const bool is_packed = is_usable(packed_query_);
  const at::Tensor q = is_packed ? packed_query_.forward(query_x_B1D) : linear_layer(query_x_B1D, q_weight, q_bias);
  const at::Tensor kv = is_packed ? packed_key_value_.forward(x_BTD) : linear_layer(x_BTD, kv_weight, kv_bias);
  const std::vector<at::Tensor> parts = split_heads(kv, 2, heads_);
  at::Tensor mask;
  if (is_causal) {
    const at::Tensor is_later = at::arange(length, position_B.options()).unsqueeze(0).gt(position_B.unsqueeze(1));
    mask = at::zeros({batch, 1, 1, length}, q.options())
               .masked_fill_(is_later.view({batch, 1, 1, length}), -std::numeric_limits<double>::infinity());
  }
  const at::Tensor y_BH1K =
      attention(q.view({batch, 1, heads_, width / heads_}).transpose(1, 2), parts[0], parts[1], mask, false);
  return out_proj_.forward(y_BH1K.transpose(1, 2).reshape({batch, 1, width}));
}

CrossAttention::CrossAttention(int64_t width, int64_t heads, int64_t context_width, const at::TensorOptions& options)
    : in_proj_bias_(make_parameter({3 * width}, options)), out_proj_(width, width, options), heads_(heads) {
  if (context_width == width) {
    in_proj_weight_ = make_parameter({3 * width, width}, options);
    register_parameter("in_proj_weight", in_proj_weight_);
  } else {
    q_proj_weight_ = make_parameter({width, width}, options);
    k_proj_weight_ = make_parameter({width, context_width}, options);
    v_proj_weight_ = make_parameter({width, context_width}, options);
    register_parameter("q_proj_weight", q_proj_weight_);
    register_parameter("k_proj_weight", k_proj_weight_);
    register_parameter("v_proj_weight", v_proj_weight_);
  }
  register_parameter("in_proj_bias", in_proj_bias_);
  register_child("out_proj", out_proj_);
}

at::Tensor CrossAttention::forward(const at::Tensor& query_BLD, const at::Tensor& context_BTC) const {
  const int64_t batch = query_BLD.size(0), queries = query_BLD.size(1), width = query_BLD.size(2);
  const auto weights = in_proj_weight_.defined()
                           ? in_proj_weight_.chunk(3)
                           : std::vector<at::Tensor>{q_proj_weight_, k_proj_weight_, v_proj_weight_};
  const auto biases = in_proj_bias_.chunk(3);
  const auto heads_first = [&](const at::Tensor& input, size_t part) {
    const at::Tensor projected = linear_layer(input, weights[part], biases[part]);
    return projected.view({batch, input.size(1), heads_, width / heads_}).transpose(1, 2);
  };
  const at::Tensor y_BHLK = attention(heads_first(query_BLD, 0), heads_first(context_BTC, 1),
                                      heads_first(context_BTC, 2), {}, /*is_causal=*/false);
  return out_proj_.forward(y_BHLK.transpose(1, 2).reshape({batch, queries, width}));
}

AttentionalPooler::AttentionalPooler(int64_t num_queries, int64_t width, int64_t heads, int64_t context_width,
                                     double norm_epsilon, const at::TensorOptions& options)
    : query_(make_parameter({num_queries, width}, options)), attn_(width, heads, context_width, options),
      ln_q_(width, options, norm_epsilon), ln_k_(context_width, options, norm_epsilon) {
  register_parameter("query", query_);
  register_child("attn", attn_);
  register_child("ln_q", ln_q_);
  register_child("ln_k", ln_k_);
}

at::Tensor AttentionalPooler::forward(const at::Tensor& x_BTC, int64_t num_queries) const {
  const at::Tensor context_BTC = ln_k_.forward(x_BTC);
  const at::Tensor query_QD = ln_q_.forward(query_.narrow(0, 0, num_queries)).to(context_BTC.scalar_type());
  return attn_.forward(query_QD.unsqueeze(0).expand({x_BTC.size(0), num_queries, query_QD.size(1)}), context_BTC);
}

}  // namespace lockstep::nn
