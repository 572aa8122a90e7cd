#include "bench/op_kernels.h"
#include "config/image_towers.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/fused_norm.h"
#include "nn/product.h"

namespace lockstep::bench {
namespace {

/// Normal numbers; drawn on the host so that every device gets the same.
at::Tensor random(at::IntArrayRef sizes, at::ScalarType type, at::Device device, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions().dtype(at::kFloat))
      .to(device, type);
}

/// At most `count` indices spread over [0, size).
at::Tensor spread(int64_t size, int64_t count, at::Device device) {
  const int64_t taken = std::min(size, count);
  return at::arange(taken, at::TensorOptions().dtype(at::kLong)).mul_(size).floor_divide_(taken).to(device);
}

/// Elements further from the truth than rounding of the type (times the largest value) explains.
int64_t count_off(const at::Tensor& got, const at::Tensor& truth, at::ScalarType type) {
  const double relative = type == at::kDouble ? 1e-12 : type == at::kFloat ? 2e-5 : type == at::kHalf ? 4e-3 : 3e-2;
  const double largest = truth.abs().max().item<double>();
  LOCKSTEP_CHECK(largest > 0, "bench: the reference is zero everywhere");
  return got.to(at::kDouble).sub(truth).abs().le(relative * largest).logical_not().sum().item<int64_t>();
}

class Gemm final : public OpKernel {
 public:
  Gemm(const OpShape& shape, at::ScalarType type, at::Device device)
      : a_(random({shape.sizes[0], shape.sizes[2]}, type, device, 1)),
        b_(random({shape.sizes[2], shape.sizes[1]}, type, device, 2)),
        out_(at::empty({shape.sizes[0], shape.sizes[1]}, a_.options())) {}
  /// As the layers multiply: in fp32 on the CPU oneDNN may be the faster one.
  void run() override {
    if (out_.is_cpu() && out_.scalar_type() == at::kFloat)
      out_ = nn::product(a_, b_);
    else
      at::mm_out(out_, a_, b_);
  }
  int64_t count_wrong() override {
    run();
    const at::Tensor rows = spread(a_.size(0), 8, a_.device()), columns = spread(b_.size(1), 64, a_.device());
    const at::Tensor truth =
        at::mm(a_.index_select(0, rows).to(at::kDouble), b_.index_select(1, columns).to(at::kDouble));
    return count_off(out_.index_select(0, rows).index_select(1, columns), truth, out_.scalar_type());
  }

 private:
  at::Tensor a_, b_, out_;
};

/// out = a, or out = a + 3 b.
class Stream final : public OpKernel {
 public:
  Stream(const OpShape& shape, at::ScalarType type, at::Device device)
      : a_(random({shape.sizes[0]}, type, device, 3)), out_(at::empty_like(a_)) {
    if (shape.kind == OpKind::kTriad) b_ = random({shape.sizes[0]}, type, device, 4);
  }
  void run() override {
    if (b_.defined())
      at::add_out(out_, a_, b_, 3);
    else
      out_.copy_(a_);
  }
  int64_t count_wrong() override {
    run();
    const at::Tensor at = spread(a_.numel(), 1 << 16, a_.device());
    at::Tensor truth = a_.index_select(0, at).to(at::kDouble);
    if (b_.defined()) truth = truth + 3 * b_.index_select(0, at).to(at::kDouble);
    return count_off(out_.index_select(0, at), truth, out_.scalar_type());
  }

 private:
  at::Tensor a_, b_, out_;
};

class Attention final : public OpKernel {
 public:
  Attention(const OpShape& shape, at::ScalarType type, at::Device device)
      : q_BHTK_(random(shape.sizes, type, device, 5)), k_BHTK_(random(shape.sizes, type, device, 6)),
        v_BHTK_(random(shape.sizes, type, device, 7)) {}
  void run() override { out_BHTK_ = at::scaled_dot_product_attention(q_BHTK_, k_BHTK_, v_BHTK_); }
  int64_t count_wrong() override {
    run();
    const auto last = [](const at::Tensor& x_BHTK) { return x_BHTK.select(0, -1).select(0, -1).to(at::kDouble); };
    const at::Tensor rows = spread(q_BHTK_.size(2), 16, q_BHTK_.device());
    const at::Tensor scores = at::mm(last(q_BHTK_).index_select(0, rows), last(k_BHTK_).t()) /
                              std::sqrt(static_cast<double>(q_BHTK_.size(3)));
    return count_off(last(out_BHTK_).index_select(0, rows), at::mm(scores.softmax(1), last(v_BHTK_)),
                     q_BHTK_.scalar_type());
  }

 private:
  at::Tensor q_BHTK_, k_BHTK_, v_BHTK_, out_BHTK_;
};

class LayerNorm final : public OpKernel {
 public:
  LayerNorm(const OpShape& shape, at::ScalarType type, at::Device device)
      : x_BD_(random(shape.sizes, type, device, 8)), gain_D_(random({shape.sizes[1]}, type, device, 9)),
        bias_D_(random({shape.sizes[1]}, type, device, 10)) {}
  void run() override { out_BD_ = nn::layer_norm(x_BD_, gain_D_, bias_D_, kEpsilon, x_BD_.scalar_type()); }
  int64_t count_wrong() override {
    run();
    const at::Tensor rows = spread(x_BD_.size(0), 64, x_BD_.device());
    const at::Tensor x = x_BD_.index_select(0, rows).to(at::kDouble);
    const at::Tensor centred = x - x.mean(1, true);
    const at::Tensor scaled = centred / (centred.square().mean(1, true) + kEpsilon).sqrt();
    return count_off(out_BD_.index_select(0, rows), scaled * gain_D_.to(at::kDouble) + bias_D_.to(at::kDouble),
                     x_BD_.scalar_type());
  }

 private:
  static constexpr double kEpsilon = 1e-5;
  at::Tensor x_BD_, gain_D_, bias_D_, out_BD_;
};

/// x + y and its layer norm, or the gradient of a layer norm with those of gain and bias.
class FusedNorm final : public OpKernel {
 public:
  FusedNorm(const OpShape& shape, at::ScalarType type, at::Device device)
      : is_backward_(shape.kind == OpKind::kNormBackward), x_BD_(random(shape.sizes, type, device, 8)),
        other_BD_(random(shape.sizes, type, device, 11)), gain_D_(random({shape.sizes[1]}, type, device, 9)),
        bias_D_(random({shape.sizes[1]}, type, device, 10)) {
    if (!is_backward_) return;
    const at::AutoGradMode with_gradients(true);
    for (at::Tensor* tensor : {&x_BD_, &gain_D_, &bias_D_}) tensor->requires_grad_(true);
    out_BD_ = nn::layer_norm(x_BD_, gain_D_, bias_D_, kEpsilon, x_BD_.scalar_type());
  }
  void run() override {
    if (!is_backward_) {
      out_BD_ = nn::add_layer_norm(x_BD_, other_BD_, gain_D_, bias_D_, kEpsilon, x_BD_.scalar_type()).second;
      return;
    }
    for (at::Tensor* tensor : {&x_BD_, &gain_D_, &bias_D_}) tensor->mutable_grad() = at::Tensor();
    out_BD_.backward(other_BD_, /*retain_graph=*/true);
  }
  int64_t count_wrong() override {
    run();
    const at::Tensor x = x_BD_.detach().to(at::kDouble), other = other_BD_.to(at::kDouble);
    const at::Tensor gain = gain_D_.detach().to(at::kDouble), sum = is_backward_ ? x : x + other;
    const at::Tensor centred = sum - sum.mean(1, true);
    const at::Tensor rstd = (centred.square().mean(1, true) + kEpsilon).rsqrt(), normed = centred * rstd;
    if (!is_backward_) return count_off(out_BD_, normed * gain + bias_D_.to(at::kDouble), out_BD_.scalar_type());
    const at::Tensor weighted = other * gain;
    const at::Tensor dx = (weighted - weighted.mean(1, true) - normed * (weighted * normed).mean(1, true)) * rstd;
    const int64_t num_wrong = count_off(x_BD_.grad(), dx, x_BD_.scalar_type());
    // LibTorch adds up 16-bit gradients of gain and bias in their own type: thousands of rows leave no digit to check.
    if (at::elementSize(x_BD_.scalar_type()) < sizeof(float)) return num_wrong;
    return num_wrong + count_off(gain_D_.grad(), (other * normed).sum(0), x_BD_.scalar_type()) +
           count_off(bias_D_.grad(), other.sum(0), x_BD_.scalar_type());
  }

 private:
  static constexpr double kEpsilon = 1e-5;
  bool is_backward_;
  at::Tensor x_BD_, other_BD_, gain_D_, bias_D_, out_BD_;
};

void add_tower(std::vector<OpShape>& ops, const std::string& tower, int64_t batch, int64_t tokens, int64_t width,
               int64_t heads, int64_t mlp_width) {
  const int64_t rows = batch * tokens;
  for (const OpShape& op :
       {OpShape{OpKind::kGemm, tower + " qkv", {rows, 3 * width, width}},
        OpShape{OpKind::kGemm, tower + " attention out", {rows, width, width}},
        OpShape{OpKind::kGemm, tower + " mlp up", {rows, mlp_width, width}},
        OpShape{OpKind::kGemm, tower + " mlp down", {rows, width, mlp_width}},
        OpShape{OpKind::kAttention, tower, {batch, heads, tokens, width / heads}},
        OpShape{OpKind::kLayerNorm, tower, {rows, width}}, OpShape{OpKind::kSumNorm, tower, {rows, width}},
        OpShape{OpKind::kNormBackward, tower, {rows, width}}}) {
    const auto is_same = [&](const OpShape& other) { return other.kind == op.kind && other.sizes == op.sizes; };
    if (std::none_of(ops.begin(), ops.end(), is_same)) ops.push_back(op);
  }
}

}  // namespace

std::string op_name(OpKind kind) {
  constexpr const char* kNames[] = {"gemm", "copy", "triad", "attention", "layer-norm", "sum-norm", "norm-backward"};
  return kNames[static_cast<size_t>(kind)];
}

std::string OpShape::text() const { return fmt::format("{}", fmt::join(sizes, "x")); }

double OpShape::flops() const {
  const auto size = [&](size_t i) { return static_cast<double>(sizes[i]); };
  if (kind == OpKind::kGemm) return 2 * size(0) * size(1) * size(2);
  return kind == OpKind::kAttention ? 4 * size(0) * size(1) * size(2) * size(2) * size(3) : 0;
}

double OpShape::bytes(int64_t element_bytes) const {
  double elements = 0;
  if (kind == OpKind::kCopy) elements = 2 * static_cast<double>(sizes[0]);
  if (kind == OpKind::kTriad) elements = 3 * static_cast<double>(sizes[0]);
  const double arrays = kind == OpKind::kLayerNorm ? 2 : kind == OpKind::kSumNorm ? 4 : 3;
  if (kind >= OpKind::kLayerNorm) elements = arrays * static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]);
  return elements * static_cast<double>(element_bytes);
}

std::vector<OpShape> square_gemms(int64_t min_dim, int64_t max_dim, double factor) {
  std::vector<OpShape> ops;
  for (auto dim = static_cast<double>(min_dim); dim <= static_cast<double>(max_dim); dim *= factor) {
    const auto whole = static_cast<int64_t>(dim);
    ops.push_back({OpKind::kGemm, "square", {whole, whole, whole}});
  }
  return ops;
}

std::vector<OpShape> model_ops(const config::ClipShape& shape, int64_t batch) {
  std::vector<OpShape> ops;
  const auto image = config::with_tower(shape.vision, [&](auto tower) { return tower.blocks(shape.vision); });
  if (image) add_tower(ops, "image", batch, image->tokens, image->width, image->heads, image->mlp_width);
  const auto& text = shape.text;
  add_tower(ops, "text", batch, text.context_length, text.width, text.heads, text.mlp_width());
  return ops;
}

std::unique_ptr<OpKernel> make_op_kernel(const OpShape& shape, at::ScalarType type, at::Device device) {
  switch (shape.kind) {
    case OpKind::kGemm: return std::make_unique<Gemm>(shape, type, device);
    case OpKind::kCopy:
    case OpKind::kTriad: return std::make_unique<Stream>(shape, type, device);
    case OpKind::kAttention: return std::make_unique<Attention>(shape, type, device);
    case OpKind::kLayerNorm: return std::make_unique<LayerNorm>(shape, type, device);
    case OpKind::kSumNorm:
    case OpKind::kNormBackward: return std::make_unique<FusedNorm>(shape, type, device);
  }
  LOCKSTEP_CHECK(false, "op {}", static_cast<int>(shape.kind));
}

}  // namespace lockstep::bench
