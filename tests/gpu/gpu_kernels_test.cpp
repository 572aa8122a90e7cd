// Own kernels of GPUs compute what the tensor library's operators compute in fp64. Skipped without a GPU.
#include "nn/gpu_kernels.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "hw/gpus.h"
#include "nn/attention.h"
#include "nn/bias_activation.h"
#include "nn/dropout.h"
#include "nn/fp8.h"
#include "nn/fused_norm.h"
#include "nn/gpt_activation.h"
#include "nn/parallel_linear.h"
#include "nn/product.h"
#include "nn/rotary.h"
#include "nn/vocab_cross_entropy.h"
#include "parallel/grad_sync.h"
#include "train/precision.h"

namespace lockstep::nn {
namespace {

using Gradients = std::vector<at::Tensor>;

class GpuKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!hw::find_gpus().any()) GTEST_SKIP() << "no GPU of NVIDIA is here: never run on this machine";
    ASSERT_TRUE(has_gpu_kernels(at::Device("cuda:0")));
    at::manual_seed(5);
  }

  static at::Tensor random(at::IntArrayRef shape, at::ScalarType type) {
    return at::randn(shape, at::TensorOptions(at::kFloat).device("cuda:0")).to(type);
  }
  static double error_bound(at::ScalarType type) {
    return type == at::kFloat ? 2e-5 : type == at::kHalf ? 2e-3 : 1.6e-2;
  }
  /// Within `bound` of the largest number.
  static void expect_close(const at::Tensor& found, const at::Tensor& wanted, double bound, const std::string& what) {
    ASSERT_EQ(found.sizes(), wanted.sizes()) << what;
    const at::Tensor a = found.to(at::kDouble), b = wanted.to(at::kDouble);
    const double scale = b.abs().max().item<double>();
    EXPECT_LE((a - b).abs().max().item<double>(), bound * std::max(scale, 1e-3)) << what;
    EXPECT_TRUE(a.isfinite().all().item<bool>()) << what;
  }
};

struct NormCase {
  at::ScalarType x, residual, gain, out;
};

TEST_F(GpuKernels, LayerNormsAreThoseOfDoubles) {
  const std::vector<NormCase> cases = {{at::kFloat, at::kFloat, at::kFloat, at::kFloat},
                                       {at::kBFloat16, at::kBFloat16, at::kFloat, at::kBFloat16},
                                       {at::kBFloat16, at::kBFloat16, at::kBFloat16, at::kBFloat16},
                                       {at::kFloat, at::kBFloat16, at::kFloat, at::kBFloat16},
                                       {at::kHalf, at::kHalf, at::kFloat, at::kHalf},
                                       {at::kFloat, at::kHalf, at::kFloat, at::kHalf}};
  for (const NormCase& types : cases)
    for (const int64_t width : {8, 96, 512, 768, 1280, 2048, 5120})
      for (const int64_t rows : {1, 77, 1030}) {
        const std::string what = fmt::format("{} + {} -> {}, [{}, {}]", c10::toString(types.x),
                                             c10::toString(types.residual), c10::toString(types.out), rows, width);
        std::vector<at::Tensor> own = {random({rows, width}, types.x).add(3), random({rows, width}, types.residual),
                                       random({width}, types.gain), random({width}, types.gain)};
        ASSERT_TRUE(suits_gpu_layer_norm(own[0], own[1], own[2], own[3])) << what;
        std::vector<at::Tensor> plain;
        for (at::Tensor& input : own) {
          plain.push_back(input.to(at::kDouble).requires_grad_(true));
          input.requires_grad_(true);
        }
        const at::Tensor to_sum = random({rows, width}, types.x), to_out = random({rows, width}, types.out);
        const auto [sum, out] = add_layer_norm(own[0], own[1], own[2], own[3], 1e-5, types.out);
        EXPECT_EQ(out.scalar_type(), types.out);
        EXPECT_EQ(sum.scalar_type(), types.x);
        const Gradients found = torch::autograd::grad({sum, out}, own, {to_sum, to_out});
        // What is normalised is the sum after it was rounded.
        const at::Tensor rounded = (plain[0] + plain[1]).detach().to(types.x).to(at::kDouble);
        const at::Tensor plain_sum = (plain[0] + plain[1]) + (rounded - (plain[0] + plain[1])).detach();
        const at::Tensor plain_out = at::layer_norm(plain_sum, {width}, plain[2], plain[3], 1e-5);
        const Gradients wanted =
            torch::autograd::grad({plain_sum, plain_out}, plain, {to_sum.to(at::kDouble), to_out.to(at::kDouble)});
        expect_close(out, plain_out.detach(), error_bound(types.out), what + ": out");
        expect_close(sum, plain_sum.detach(), error_bound(types.x), what + ": sum");
        for (size_t i = 0; i < own.size(); ++i) {
          EXPECT_EQ(found[i].scalar_type(), own[i].scalar_type()) << what << " gradient " << i;
          expect_close(found[i], wanted[i], error_bound(own[i].scalar_type()) * 2,
                       fmt::format("{}: gradient {}", what, i));
        }
        const auto [x, normed] = layer_norm_beside(own[0], own[2], own[3], 1e-5, types.out);
        const Gradients beside = torch::autograd::grad({x, normed}, {own[0], own[2], own[3]}, {to_sum, to_out});
        const at::Tensor plain_normed = at::layer_norm(plain[0], {width}, plain[2], plain[3], 1e-5);
        const Gradients plain_beside =
            torch::autograd::grad({plain[0].mul(1), plain_normed}, {plain[0], plain[2], plain[3]},
                                  {to_sum.to(at::kDouble), to_out.to(at::kDouble)});
        for (size_t i = 0; i < beside.size(); ++i)
          expect_close(beside[i], plain_beside[i], error_bound(beside[i].scalar_type()) * 2,
                       fmt::format("{}: beside, gradient {}", what, i));
      }
}

TEST_F(GpuKernels, SumsOfColumnsAreThoseOfDoubles) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t rows : {1, 63, 65, 30000})
      for (const int64_t width : {8, 264, 768, 4096}) {
        const at::Tensor x = random({rows, width}, type);
        for (const at::ScalarType to : {type, at::kFloat})
          expect_close(column_sums(x, to), x.to(at::kDouble).sum(0), error_bound(to),
                       fmt::format("[{}, {}]", rows, width));
      }
}

TEST_F(GpuKernels, BiasedActivationsAreThoseOfDoubles) {
  for (const auto& [type, of_bias] :
       std::vector<std::pair<at::ScalarType, at::ScalarType>>{{at::kFloat, at::kFloat},
                                                              {at::kBFloat16, at::kFloat},
                                                              {at::kBFloat16, at::kBFloat16},
                                                              {at::kHalf, at::kFloat}})
    for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu})
      for (const int64_t rows : {1, 70, 4100}) {
        const int64_t width = 3072;
        const std::string what = fmt::format("{} {} {}", c10::toString(type), static_cast<int>(activation), rows);
        at::Tensor x = random({rows, width}, type).mul(2).requires_grad_(true),
                   bias = random({width}, of_bias).requires_grad_(true);
        ASSERT_TRUE(suits_gpu_bias_activation(x, bias));
        at::Tensor plain_x = x.detach().to(at::kDouble).requires_grad_(true),
                   plain_bias = bias.detach().to(type).to(at::kDouble).requires_grad_(true);
        const at::Tensor dy = random({rows, width}, type);
        const at::Tensor y = activate_biased(x, bias, activation);
        const at::Tensor plain_y = activate(plain_x.add(plain_bias), activation);
        expect_close(y, plain_y.detach(), error_bound(type), what);
        const Gradients found = torch::autograd::grad({y}, {x, bias}, {dy});
        const Gradients wanted = torch::autograd::grad({plain_y}, {plain_x, plain_bias}, {dy.to(at::kDouble)});
        expect_close(found[0], wanted[0], error_bound(type), what + ": x");
        expect_close(found[1], wanted[1], error_bound(type), what + ": bias");
        EXPECT_EQ(found[1].scalar_type(), of_bias);
      }
}

/// Draws are those of the CPU, and so are the bits: a run that goes on elsewhere drops the same.
TEST_F(GpuKernels, DropoutHasTheBitsOfTheCpu) {
  struct Case {
    std::vector<int64_t> shape;
    int64_t offset = 0;  // of the first number from 16 bytes
  };
  const std::vector<Case> cases = {{{1, 8}},          {{3, 5}},     {{7, 1}},         {{1024, 4, 768}},
                                   {{513, 2, 12288}}, {{70, 3073}}, {{9, 64}, 1},     {{4, 1, 1, 1}},
                                   {{2, 2056}},       {{300, 20}},  {{1, 1, 1 << 20}}};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const Case& one : cases)
      for (const bool has_rows : {false, true}) {
        const std::string what = fmt::format("{} [{}] {}", c10::toString(type), fmt::join(one.shape, ", "), has_rows);
        int64_t count = 1;
        for (const int64_t size : one.shape) count *= size;
        const auto at_offset = [&](const at::Tensor& all) { return all.narrow(0, one.offset, count).view(one.shape); };
        const at::Tensor x_of_gpu = at_offset(random({count + one.offset}, type)).requires_grad_(true),
                         x_of_cpu = x_of_gpu.detach().cpu().requires_grad_(true), dy = random(one.shape, type);
        ASSERT_TRUE(suits_gpu_dropout(x_of_gpu)) << what;
        Dropout dropped{.probability = 0.1, .key = ~uint64_t{0} - 9};
        if (has_rows) dropped.rows = at::arange(count / one.shape.back()).mul((int64_t{1} << 35) + 1).sub(7);
        const at::Tensor y_of_cpu = dropout(x_of_cpu, dropped);
        if (has_rows) dropped.rows = dropped.rows.to(x_of_gpu.device());
        const at::Tensor y_of_gpu = dropout(x_of_gpu, dropped);
        EXPECT_TRUE(at::equal(y_of_gpu.cpu(), y_of_cpu)) << what;
        const Gradients of_gpu = torch::autograd::grad({y_of_gpu}, {x_of_gpu}, {dy}),
                        of_cpu = torch::autograd::grad({y_of_cpu}, {x_of_cpu}, {dy.cpu()});
        EXPECT_TRUE(at::equal(of_gpu[0].cpu(), of_cpu[0])) << what << ": gradient";
        if (count < 1000) continue;
        EXPECT_NEAR(y_of_cpu.detach().ne(0).to(at::kDouble).mean().item<double>(), 0.9,
                    4 * std::sqrt(0.09 / static_cast<double>(count)) + 1e-3)
            << what;
      }
}

TEST_F(GpuKernels, DropoutTakesAnyStridesAndOtherTypesByOperators) {
  const Dropout dropped{.probability = 0.5, .key = 3};
  const at::Tensor turned = random({64, 40}, at::kBFloat16).t();
  EXPECT_TRUE(at::equal(dropout(turned, dropped), dropout(turned.contiguous(), dropped)));
  const at::Tensor wide = random({40, 64}, at::kFloat).to(at::kDouble);
  EXPECT_FALSE(suits_gpu_dropout(wide));
  EXPECT_TRUE(at::equal(dropout(wide, dropped).ne(0), dropout(wide.to(at::kFloat), dropped).ne(0)));
}

TEST_F(GpuKernels, EightBitsAreThoseOfTheOperators) {
  const at::Device device("cuda:0");
  if (fp8_engine_of(device) != Fp8Engine::kScaledMm) GTEST_SKIP() << "this GPU has no products of 8 bits";
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const at::ScalarType narrow : {at::kFloat8_e4m3fn, at::kFloat8_e5m2})
      for (const auto& [rows, width] : std::vector<std::pair<int64_t, int64_t>>{{8, 8}, {72, 200}, {1024, 3072}}) {
        at::Tensor x = random({rows, width}, type).mul(100);
        x[0][1] = std::numeric_limits<double>::infinity();
        x[0][2] = 0;
        ASSERT_TRUE(suits_gpu_fp8(x));
        const at::Tensor scale = at::full({}, 3.7, at::TensorOptions(at::kFloat).device(device)),
                         amax = at::zeros({}, scale.options());
        const GpuFp8 found = fp8_quantize_on_gpu(x, narrow, scale, /*is_transposed=*/true, amax);
        const double max = fp8_max(narrow);
        const at::Tensor wanted = x.to(at::kFloat).mul(scale).clamp_(-max, max).to(narrow);
        EXPECT_TRUE(at::equal(found.bits_NW.view(at::kByte), wanted.view(at::kByte)));
        EXPECT_TRUE(at::equal(found.transposed_WN.view(at::kByte), wanted.view(at::kByte).t()));
        EXPECT_EQ(amax.item<double>(), std::numeric_limits<double>::infinity());
        x[0][1] = std::nan("");
        amax.zero_();
        EXPECT_TRUE(
            fp8_quantize_on_gpu(x, narrow, scale, false, amax).bits_NW.to(at::kFloat)[0][1].isnan().item<bool>());
        EXPECT_TRUE(amax.isnan().item<bool>());
        x[0][1] = 1;
        amax.zero_();
        fp8_quantize_on_gpu(x, narrow, scale, false, amax);
        EXPECT_EQ(amax.item<float>(), fp8_amax(x).item<float>());
      }
}

/// A layer in 8 bits on the GPU beside the emulated one: value and every gradient, with a bias.
TEST_F(GpuKernels, LayersOfEightBitsAreThoseOfTheCpu) {
  if (fp8_engine_of(at::Device("cuda:0")) != Fp8Engine::kScaledMm) GTEST_SKIP() << "no products of 8 bits here";
  const at::Tensor x = random({4, 16, 64}, at::kBFloat16), dy = random({4, 16, 96}, at::kBFloat16),
                   weight = random({96, 64}, at::kBFloat16), bias = random({96}, at::kBFloat16);
  for (const Fp8Recipe recipe : {Fp8Recipe::kDelayed, Fp8Recipe::kTensorwise}) {
    std::vector<Gradients> results;
    for (const char* name : {"cuda:0", "cpu"}) {
      const at::Device device(name);
      Fp8State state({.recipe = recipe}, 1, device);
      ColumnParallelLinear layer(64, 96, {}, at::TensorOptions(at::kBFloat16).device(device), true, 1, &state);
      const auto parameters = layer.named_parameters();
      {
        const c10::NoGradGuard no_grad;
        parameters[0].tensor->copy_(weight);
        parameters[1].tensor->copy_(bias);
      }
      at::Tensor input = x.to(device).detach().requires_grad_(true);
      const at::Tensor y = layer.forward(input);
      Gradients found =
          torch::autograd::grad({y}, {input, *parameters[0].tensor, *parameters[1].tensor}, {dy.to(device)});
      found.push_back(y.detach());
      results.push_back(found);
    }
    for (size_t i = 0; i < results[0].size(); ++i)
      expect_close(results[0][i].cpu(), results[1][i], error_bound(at::kBFloat16), fmt::format("tensor {}", i));
  }
}

TEST_F(GpuKernels, RmsNormsAreThoseOfDoubles) {
  for (const auto& [type, of_gain] : std::vector<std::pair<at::ScalarType, at::ScalarType>>{
           {at::kFloat, at::kFloat}, {at::kBFloat16, at::kBFloat16}, {at::kBFloat16, at::kFloat}})
    for (const int64_t width : {64, 2048, 4096}) {
      std::vector<at::Tensor> own = {random({300, width}, type).add(1), random({300, width}, type),
                                     random({width}, of_gain)},
                              plain;
      ASSERT_TRUE(suits_gpu_layer_norm(own[0], own[1], own[2], {}));
      for (at::Tensor& input : own) {
        plain.push_back(input.to(at::kDouble).requires_grad_(true));
        input.requires_grad_(true);
      }
      const at::Tensor to_sum = random({300, width}, type), to_out = random({300, width}, type);
      const auto [sum, out] = add_layer_norm(own[0], own[1], own[2], {}, 1e-5, type);
      const at::Tensor rounded = (plain[0] + plain[1]).detach().to(type).to(at::kDouble);
      const at::Tensor plain_sum = (plain[0] + plain[1]) + (rounded - (plain[0] + plain[1])).detach();
      const at::Tensor plain_out = plain_sum * (plain_sum.square().mean(1, true) + 1e-5).rsqrt() * plain[2];
      expect_close(out, plain_out.detach(), error_bound(type), "out");
      const Gradients found = torch::autograd::grad({sum, out}, own, {to_sum, to_out});
      const Gradients wanted =
          torch::autograd::grad({plain_sum, plain_out}, plain, {to_sum.to(at::kDouble), to_out.to(at::kDouble)});
      for (size_t i = 0; i < own.size(); ++i)
        expect_close(found[i], wanted[i], error_bound(own[i].scalar_type()) * 2,
                     fmt::format("{} gradient {}", width, i));
    }
}

TEST_F(GpuKernels, SwigluIsThatOfDoubles) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t rows : {1, 2111}) {
      at::Tensor x = random({rows, 2 * 1368}, type).requires_grad_(true),
                 plain = x.detach().to(at::kDouble).requires_grad_(true);
      ASSERT_TRUE(suits_gpu_swiglu(x));
      const at::Tensor dy = random({rows, 1368}, type);
      const at::Tensor y = activate(x, config::GptActivation::kSwiglu);
      const at::Tensor plain_y = at::silu(plain.narrow(1, 0, 1368)) * plain.narrow(1, 1368, 1368);
      expect_close(y, plain_y.detach(), error_bound(type), "y");
      expect_close(torch::autograd::grad({y}, {x}, {dy})[0],
                   torch::autograd::grad({plain_y}, {plain}, {dy.to(at::kDouble)})[0], error_bound(type), "gradient");
    }
}

/// Queries and keys as GPT has them: parts of one tensor, with groups, and a part of each head that is not turned.
TEST_F(GpuKernels, RotationsAndPartsAreThoseOfDoubles) {
  const at::Device device("cuda:0");
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const int64_t turned : {32, 64})
      for (const int64_t table_samples : {1, 3}) {
        const int64_t tokens = 70, samples = 3, groups = 2, heads = 4, width = 64;
        at::Tensor x = random({tokens, samples, groups, heads + 2, width}, type).requires_grad_(true),
                   plain = x.detach().to(at::kDouble).requires_grad_(true);
        const at::Tensor positions = at::arange(tokens * table_samples, at::TensorOptions(at::kLong).device(device))
                                         .view({tokens, table_samples});
        const RotaryTable table = make_rotary_table(rotary_frequencies(turned, 1e4, std::nullopt), positions);
        const auto compute = [&](const at::Tensor& all, bool is_own) {
          const std::vector<at::Tensor> parts =
              is_own ? split_apart(all, 3, {heads, 1, 1}) : all.split_with_sizes({heads, 1, 1}, 3);
          const at::Tensor q = rotate(parts[0], table), k = rotate(parts[1], table);
          EXPECT_EQ(suits_gpu_rotation(parts[0], table.cosine.to(type), table.sine.to(type)), is_own);
          // The order that attention wants.
          return at::cat({q.reshape({tokens, samples, groups * heads, width}).permute({1, 2, 0, 3}),
                          k.squeeze(3).permute({1, 2, 0, 3}), parts[2].squeeze(3).permute({1, 2, 0, 3})},
                         1);
        };
        const at::Tensor y = compute(x, true), plain_y = compute(plain, false);
        const double bound = error_bound(type) * (type == at::kFloat ? 1 : 2);  // the table is rounded, too
        expect_close(y, plain_y.detach(), bound, "y");
        const at::Tensor dy = random(y.sizes(), type);
        expect_close(torch::autograd::grad({y}, {x}, {dy})[0],
                     torch::autograd::grad({plain_y}, {plain}, {dy.to(at::kDouble)})[0], bound, "gradient");
      }
}

TEST_F(GpuKernels, StridedCopiesAreThoseOfTheLibrary) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t width : {8, 64, 80, 7, 3000}) {
      const at::Tensor from = random({3, 5, 4, width}, type).permute({1, 0, 2, 3});
      at::Tensor whole = at::zeros({5, 3, 7, width}, from.options()), wanted = whole.clone();
      const at::Tensor part = whole.narrow(2, 2, 4);
      EXPECT_EQ(suits_gpu_copy(part, from), type != at::kFloat && width % 8 == 0) << width;
      copy_strided(part, from);
      wanted.narrow(2, 2, 4).copy_(from);
      EXPECT_TRUE(at::equal(whole, wanted)) << width;
    }
  const at::Tensor from = random({3, 5, 4, 6, 8}, at::kBFloat16).permute({1, 3, 0, 2, 4});  // four dims around rows
  at::Tensor to = at::zeros({5, 6, 3, 7, 8}, from.options());
  EXPECT_FALSE(suits_gpu_copy(to.narrow(3, 2, 4), from));
  copy_strided(to.narrow(3, 2, 4), from);
  EXPECT_TRUE(at::equal(to.narrow(3, 2, 4), from));
}

TEST_F(GpuKernels, VocabularyLossIsThatOfDoubles) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const bool early : {true, false})
      for (const int64_t vocab : {1000, 4099}) {
        const int64_t rows = (vocab + 127) / 128 * 128, tokens = 90, width = 64;
        at::Tensor x = random({tokens, width}, type).requires_grad_(true),
                   table = random({rows, width}, type).mul(0.3).requires_grad_(true);
        const at::Tensor target = at::randint(vocab, {tokens}, at::TensorOptions(at::kLong).device(x.device())),
                         weight = at::rand({tokens}, at::TensorOptions(at::kFloat).device(x.device()));
        at::Tensor plain_x = x.detach().to(at::kDouble).requires_grad_(true),
                   plain_table = table.detach().to(at::kDouble).requires_grad_(true);
        ASSERT_TRUE(suits_gpu_softmax(at::empty({tokens, rows}, x.options())));
        const VocabLoss found = vocab_cross_entropy(x, table, target, weight,
                                                    {.vocab = vocab, .chunk_tokens = 40, .early_gradients = early}, {});
        const at::Tensor logits = plain_x.mm(plain_table.t()).narrow(1, 0, vocab);
        const at::Tensor losses = at::cross_entropy_loss(logits, target, {}, at::Reduction::None);
        const at::Tensor loss = losses.mul(weight).sum();
        const double bound = type == at::kFloat ? 5e-3 : 3e-2;  // TF32 may be on
        expect_close(found.per_token, losses.detach(), bound, "losses");
        const Gradients own = torch::autograd::grad({found.sum}, {x, table});
        const Gradients wanted = torch::autograd::grad({loss}, {plain_x, plain_table});
        expect_close(own[0], wanted[0], bound, "x");
        expect_close(own[1], wanted[1], bound, "table");
      }
}

/// A linear layer's gradients with own kernels, of one type throughout.
TEST_F(GpuKernels, LinearLayersWithActivationAreThoseOfDoubles) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::Tensor x = random({50, 96}, type).requires_grad_(true), weight = random({64, 96}, type).requires_grad_(true),
               bias = random({64}, type).requires_grad_(true);
    std::vector<at::Tensor> plain;
    for (const at::Tensor& one : {x, weight, bias}) plain.push_back(one.detach().to(at::kDouble).requires_grad_(true));
    const at::Tensor dy = random({50, 64}, type);
    const at::Tensor y = linear_activation_layer(x, weight, bias, Activation::kGelu);
    const at::Tensor plain_y = at::gelu(at::linear(plain[0], plain[1], plain[2]));
    const double bound = type == at::kFloat ? 5e-3 : 5e-2;  // TF32 may be on
    expect_close(y, plain_y.detach(), bound, "y");
    const Gradients found = torch::autograd::grad({y}, {x, weight, bias}, {dy});
    const Gradients wanted = torch::autograd::grad({plain_y}, plain, {dy.to(at::kDouble)});
    for (size_t i = 0; i < found.size(); ++i) expect_close(found[i], wanted[i], bound, fmt::format("gradient {}", i));
  }
}

/// Gradients of fp32 weights come out of a product of 16-bit numbers in fp32: no rounding to 16 bits on the way.
TEST_F(GpuKernels, GradientsOfWeightsAreRoundedToFp32Alone) {
  at::Tensor weight = random({64, 96}, at::kFloat).requires_grad_(true),
             bias = random({64}, at::kFloat).requires_grad_(true);
  const auto sync = parallel::make_grad_sync_none({{"weight", &weight}, {"bias", &bias}});
  const at::Tensor x = random({50, 96}, at::kBFloat16), dy = random({50, 64}, at::kBFloat16);
  sync->begin_step();
  for (const double passes : {1.0, 2.0}) {
    at::Tensor y;
    {
      const train::AutocastGuard guard(c10::DeviceType::CUDA, at::kBFloat16, nullptr);
      y = linear_layer(x, weight, bias);
    }
    torch::autograd::backward({y}, {dy});
    const at::Tensor wide = dy.to(at::kDouble);
    constexpr double kFp32Sums = 1e-5;  // a rounding to bf16 would be 4e-3
    expect_close(weight.grad(), wide.t().mm(x.to(at::kDouble)).mul(passes), kFp32Sums, "weight");
    expect_close(bias.grad(), wide.sum(0).mul(passes), kFp32Sums, "bias");
  }
}

/// Sums have one order: a run repeats bit for bit.
TEST_F(GpuKernels, ResultsDoNotVary) {
  const at::Tensor x = random({3000, 768}, at::kBFloat16).requires_grad_(true),
                   gain = random({768}, at::kFloat).requires_grad_(true),
                   bias = random({768}, at::kFloat).requires_grad_(true), dy = random({3000, 768}, at::kBFloat16);
  const auto once = [&] {
    const at::Tensor y = activate_biased(layer_norm(x, gain, bias, 1e-5, at::kBFloat16), bias, Activation::kGelu);
    return torch::autograd::grad({y}, {x, gain, bias}, {dy});
  };
  const Gradients first = once();
  for (int i = 0; i < 5; ++i) {
    const Gradients again = once();
    for (size_t k = 0; k < first.size(); ++k) EXPECT_TRUE(at::equal(first[k], again[k])) << k;
  }
}

}  // namespace
}  // namespace lockstep::nn
