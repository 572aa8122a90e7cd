#include "nn/winograd_conv.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "nn/conv.h"
#include "nn/winograd_kernel.h"
#include "support/tensor_golden.h"

namespace lockstep::nn {
namespace {

using tests::relative_difference;

constexpr auto kChannelsInner = at::MemoryFormat::ChannelsLast;

struct ConvSizes {
  int64_t pictures, inputs, outputs, rows, columns;
};

at::Tensor pictures(const ConvSizes& sizes, int64_t channels) {
  return at::randn({sizes.pictures, channels, sizes.rows, sizes.columns}).contiguous(kChannelsInner);
}

/// Result, gradient of the pictures and of the filters.
struct ConvResults {
  at::Tensor y, dx, dweight;
};
template <typename Convolve>
ConvResults results_of(const at::Tensor& pictures, const at::Tensor& filters, const at::Tensor& dout,
                       const Convolve& convolve) {
  const at::Tensor x = pictures.detach().requires_grad_(), weight = filters.detach().requires_grad_();
  const at::Tensor y = convolve(x, weight);
  y.backward(dout);
  return {y.detach(), x.grad(), weight.grad()};
}

class WinogradConv : public testing::TestWithParam<ConvSizes> {
 protected:
  void SetUp() override {
    if (winograd_lanes() == 0) GTEST_SKIP() << "this processor has no AVX2";
    at::manual_seed(7);
  }
};

TEST_P(WinogradConv, EqualsThePlainSumAndItsGradients) {
  const ConvSizes sizes = GetParam();
  const at::Tensor x = pictures(sizes, sizes.inputs), dout = pictures(sizes, sizes.outputs);
  const at::Tensor weight = at::randn({sizes.outputs, sizes.inputs, 3, 3});
  ASSERT_TRUE(has_winograd_conv(x, weight));
  const ConvResults seen = results_of(x, weight, dout, winograd_conv);
  const ConvResults expected = results_of(x.to(at::kDouble), weight.to(at::kDouble), dout.to(at::kDouble),
                                          [](const at::Tensor& a, const at::Tensor& b) {
                                            return at::conv2d(a, b, {}, {1, 1}, {1, 1});
                                          });
  EXPECT_TRUE(seen.y.is_contiguous(kChannelsInner));
  EXPECT_LT(relative_difference(seen.y, expected.y), 2e-6);
  EXPECT_LT(relative_difference(seen.dx, expected.dx), 2e-6);
  EXPECT_LT(relative_difference(seen.dweight, expected.dweight), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Sizes, WinogradConv,
                         testing::Values(ConvSizes{2, 32, 64, 16, 16},   // as many tiles as it takes
                                         ConvSizes{3, 64, 32, 15, 13},   // half tiles at the edges
                                         ConvSizes{131, 32, 32, 2, 1},   // a tile a picture
                                         ConvSizes{1, 32, 32, 41, 37},   // chunks and blocks that end within rows
                                         ConvSizes{8, 96, 160, 7, 7}));  // panels that are no power of two

TEST_F(WinogradConv, GivesTheSameBitsOnAnyNumberOfThreads) {
  const ConvSizes sizes{4, 64, 64, 21, 20};
  const at::Tensor x = pictures(sizes, 64), dout = pictures(sizes, 64), weight = at::randn({64, 64, 3, 3});
  const int before = at::get_num_threads();
  std::vector<ConvResults> all;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    all.push_back(results_of(x, weight, dout, winograd_conv));
  }
  at::set_num_threads(before);
  for (const ConvResults& one : all) {
    EXPECT_TRUE(at::equal(one.y, all[0].y));
    EXPECT_TRUE(at::equal(one.dx, all[0].dx));
    EXPECT_TRUE(at::equal(one.dweight, all[0].dweight));
  }
}

TEST_F(WinogradConv, IsTakenOnlyWhereItHoldsAndPays) {
  const ConvSizes sizes{2, 64, 64, 16, 16};
  const at::Tensor x = pictures(sizes, 64), weight = at::randn({64, 64, 3, 3});
  EXPECT_TRUE(has_winograd_conv(x, weight));
  EXPECT_FALSE(has_winograd_conv(x.contiguous(), weight)) << "channels first";
  EXPECT_FALSE(has_winograd_conv(x.to(at::kBFloat16), weight.to(at::kBFloat16)));
  EXPECT_FALSE(has_winograd_conv(x, at::randn({64, 64, 1, 1})));
  EXPECT_FALSE(has_winograd_conv(x, at::randn({40, 64, 3, 3}))) << "no whole panels";
  EXPECT_FALSE(has_winograd_conv(x.narrow(0, 0, 1), weight)) << "64 tiles";
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_FALSE(has_winograd_conv(x, weight)) << "autocast multiplies in bf16";
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

TEST_F(WinogradConv, LayersWithStridesOrOtherPaddingStayPlain) {
  const ConvSizes sizes{2, 64, 64, 16, 16};
  const at::Tensor x = pictures(sizes, 64);
  for (const auto& [stride, padding] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 1}, {1, 0}}) {
    Conv2d layer(64, 64, 3, at::kFloat, stride, padding);
    const at::Tensor weight = *layer.named_parameters().at(0).tensor;
    at::NoGradGuard no_grad;
    weight.normal_();
    const at::Tensor expected =
        at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), {}, {stride, stride}, {padding, padding});
    EXPECT_LT(relative_difference(layer.forward(x), expected), 2e-6) << stride << " " << padding;
  }
}

/// Both widths of panels run on any of these processors, one of them slowly.
TEST_F(WinogradConv, PanelsOfBothWidthsAgree) {
  const WinogradShape narrow{.pictures = 2, .rows = 5, .columns = 6, .inputs = 32, .outputs = 64, .lanes = 16};
  const at::Tensor x = at::randn({2, 5, 6, 32}), dout = at::randn({2, 5, 6, 64}), weight = at::randn({64, 32, 3, 3});
  std::vector<at::Tensor> ys, gradients;
  for (const int64_t lanes : {16, 32}) {
    WinogradShape shape = narrow;
    shape.lanes = lanes;
    const int64_t tiles = shape.num_tiles();
    const at::Tensor packed = at::empty({16 * 32 * 64}), scratch = at::empty({winograd_scratch(shape, tiles)});
    const at::Tensor y = at::empty({2, 5, 6, 64}), gradient = at::empty({64, 32, 3, 3});
    winograd_filters(shape, weight.const_data_ptr<float>(), false, 0, 64 / lanes, packed.mutable_data_ptr<float>());
    winograd_tiles(shape, x.const_data_ptr<float>(), packed.const_data_ptr<float>(), 0, tiles,
                   scratch.mutable_data_ptr<float>(), y.mutable_data_ptr<float>());
    const at::Tensor inputs = at::empty({16 * 32 * tiles}), gradients_of_outputs = at::empty({16 * 64 * tiles});
    const at::Tensor sums = at::zeros({16 * 32 * 64});
    const WinogradChunk chunk{0, tiles};
    winograd_transform(shape, x.const_data_ptr<float>(), false, chunk, 0, tiles, inputs.mutable_data_ptr<float>());
    winograd_transform(shape, dout.const_data_ptr<float>(), true, chunk, 0, tiles,
                       gradients_of_outputs.mutable_data_ptr<float>());
    for (int64_t frequency = 0; frequency < kWinogradFrequencies; ++frequency)
      for (int64_t panel = 0; panel < 32 / lanes; ++panel)
        winograd_add_products(shape, inputs.const_data_ptr<float>(), gradients_of_outputs.const_data_ptr<float>(),
                              tiles, frequency, panel, sums.mutable_data_ptr<float>());
    winograd_filter_gradient(shape, sums.const_data_ptr<float>(), 0, 64 / lanes, gradient.mutable_data_ptr<float>());
    ys.push_back(y);
    gradients.push_back(gradient);
  }
  EXPECT_TRUE(at::allclose(ys[0], ys[1], 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(gradients[0], gradients[1], 1e-5, 1e-5));
}

}  // namespace
}  // namespace lockstep::nn
