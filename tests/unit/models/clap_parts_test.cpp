// The parts of the CLAP towers one by one.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numbers>
#include <set>

#include "clap_golden.h"
#include "core/error.h"
#include "models/clap/frame_stretch.h"
#include "models/clap/spec_augment.h"
#include "support/guarded_products.h"

namespace lockstep::models {
namespace {

using tests::expect_close;
using tests::load_golden;
using tests::TensorMap;

TEST(TextPacking, TextsOfEqualLengthAreOneBlock) {
  const at::Tensor text = at::tensor({0, 5, 2, 1, 1, 0, 2, 1, 1, 1, 0, 8, 2, 1, 1}, at::kLong).view({3, 5});
  const TextPacking packing = pack_texts(text, 1, 4, at::kCPU, TextAttention::kByLength);
  ASSERT_EQ(packing.blocks.size(), 2u);
  EXPECT_EQ(packing.block_rows(), (std::vector<int64_t>{2, 6}));
  EXPECT_TRUE(packing.id_N.equal(at::tensor({0, 2, 0, 5, 2, 0, 8, 2}, at::kLong)));
  EXPECT_TRUE(packing.position_N.equal(at::tensor({2, 3, 2, 3, 4, 2, 3, 4}, at::kLong)));
  EXPECT_TRUE(packing.first_B.equal(at::tensor({0, 2, 5}, at::kLong)));
  EXPECT_TRUE(packing.place_B.equal(at::tensor({1, 0, 2}, at::kLong)));
}

/// On a device: where each token stands when the texts are padded to the longest.
TEST(TextPacking, PaddedTextsKeepTheirTokensInPlace) {
  const at::Tensor text = at::tensor({0, 5, 2, 1, 1, 0, 2, 1, 1, 1, 0, 8, 2, 1, 1}, at::kLong).view({3, 5});
  const TextPacking packing = pack_texts(text, 1, 4, at::kCPU, TextAttention::kPadded);
  EXPECT_TRUE(packing.slot_N.equal(at::tensor({0, 1, 3, 4, 5, 6, 7, 8}, at::kLong)));
  EXPECT_TRUE(packing.length_B.equal(at::tensor({2, 3, 3}, at::kLong)));
  EXPECT_TRUE(
      packing.mask_B11T.view({3, 3}).exp().equal(at::tensor({1, 1, 0, 1, 1, 1, 1, 1, 1}, at::kFloat).view({3, 3})));
  const at::Tensor rows = packing.id_N.to(at::kFloat).unsqueeze(1);
  EXPECT_TRUE(
      packing.padded(rows, -1).view({3, 3}).equal(at::tensor({0, 2, -1, 0, 5, 2, 0, 8, 2}, at::kFloat).view({3, 3})));
}

at::Tensor made_up_texts(const std::vector<int64_t>& lengths) {
  std::vector<at::Tensor> rows;
  for (const int64_t length : lengths)
    rows.push_back(
        at::constant_pad_nd(at::arange(length).mul(5).add(length).remainder(20).add(2), {0, 12 - length}, 1));
  return at::stack(rows);
}

/// Devices attend to all texts at once, the CPU to those of one length: one layer's results and all its gradients.
TEST(RobertaLayer, PaddedAttentionIsThatByLength) {
  const config::RobertaShape shape{.vocab_size = 30,
                                   .max_positions = 20,
                                   .width = 12,
                                   .heads = 3,
                                   .layers = 1,
                                   .mlp_width = 20,
                                   .context_length = 12};
  const at::Tensor text = made_up_texts({7, 2, 12, 7, 3, 1});
  for (const bool only_first : {false, true}) {
    const auto run = [&](TextAttention attention, at::ScalarType type) {
      RobertaLayer layer(shape, 0, at::TensorOptions(type));
      int64_t number = 0;
      for (auto& [name, parameter] : layer.named_parameters())
        parameter->detach().copy_(
            at::arange(parameter->numel()).add(++number).mul(0.7).sin().mul(0.3).view(parameter->sizes()));
      const TextPacking packing = pack_texts(text, 1, 12, at::kCPU, attention);
      const at::Tensor x =
          packing.id_N.unsqueeze(1).mul(at::arange(1, 13)).to(at::kFloat).sin().to(type).requires_grad_(true);
      const at::Tensor y = only_first ? layer.forward_first(x, packing, {}) : layer.forward(x, packing, {});
      std::vector<at::Tensor> inputs{x};
      for (auto& [name, parameter] : layer.named_parameters()) inputs.push_back(*parameter);
      auto results = torch::autograd::grad({y.mul(at::arange(y.numel()).view(y.sizes()).cos()).sum()}, inputs);
      results.insert(results.begin(), y.detach());
      return results;
    };
    const auto want = run(TextAttention::kPadded, at::kDouble);
    for (const TextAttention attention : {TextAttention::kByLength, TextAttention::kPadded}) {
      const auto got = run(attention, at::kFloat);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        if (want[i].abs().max().item<double>() < 1e-6) {  // the keys' bias, which no softmax sees
          EXPECT_LT(got[i].abs().max().item<double>(), 1e-6) << i;
          continue;
        }
        expect_close(got[i].to(at::kDouble), want[i], 5e-6,
                     fmt::format("first {} tensor {} padded {}", only_first, i, attention == TextAttention::kPadded));
      }
    }
  }
}

class RobertaPooler : public ::testing::TestWithParam<std::pair<const char*, config::TextPooler>> {};

/// The tower with the weights of the golden RobertaModel.
std::unique_ptr<RobertaTower> golden_roberta(const TensorMap& golden, config::TextPooler pooler, bool exact_shortcuts) {
  const core::Json sizes = clap_sizes("roberta");
  config::RobertaShape shape = golden_text_shape(sizes["text"], sizes["columns"]);
  shape.pooler = pooler;
  auto tower = std::make_unique<RobertaTower>(shape, exact_shortcuts, at::TensorOptions());
  for (auto& [name, parameter] : tower->named_parameters()) parameter->detach().copy_(golden.at("param/" + name));
  return tower;
}

TEST_P(RobertaPooler, EqualsThePaddedRobertaModel) {
  const TensorMap golden = load_golden(clap_file("roberta"));
  const auto& [name, pooler] = GetParam();
  for (const bool exact_shortcuts : {false, true}) {
    auto tower = golden_roberta(golden, pooler, exact_shortcuts);
    tower->set_training(false);
    const at::Tensor want = golden.at(std::string("output/") + name), text = golden.at("input/text");
    expect_close(tower->forward(text, {}), want, 2e-6, name);
    // More padding, and texts one by one, change nothing.
    expect_close(tower->forward(at::constant_pad_nd(text, {0, 40}, 1), {}), want, 2e-6, "padded");
    for (int64_t b = 0; b < text.size(0); ++b)
      expect_close(tower->forward(text.narrow(0, b, 1), {}), want.narrow(0, b, 1), 4e-6, "alone");
  }
}

INSTANTIATE_TEST_SUITE_P(Poolers, RobertaPooler,
                         ::testing::Values(std::pair{"cls_pooler", config::TextPooler::kClass},
                                           std::pair{"mean_pooler", config::TextPooler::kMean},
                                           std::pair{"max_pooler", config::TextPooler::kMax},
                                           std::pair{"cls_last_hidden_state_pooler", config::TextPooler::kClassHidden}),
                         [](const auto& entry) { return std::string(entry.param.first); });

/// The reference form: two convolutions with Hann-weighted DFT kernels (torchlibrosa), in fp32.
at::Tensor convolved_log_mel(const config::AudioShape& shape, const at::Tensor& wave_BS) {
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor angle = at::arange(shape.fft_size / 2 + 1, options).unsqueeze(1) *
                           at::arange(shape.fft_size, options) *
                           (2 * std::numbers::pi / static_cast<double>(shape.fft_size));
  const at::Tensor window = at::hann_window(shape.fft_size, true, options);
  const at::Tensor padded = at::reflection_pad1d(wave_BS.unsqueeze(1), {shape.fft_size / 2, shape.fft_size / 2});
  const auto convolve = [&](const at::Tensor& wave) {
    return at::conv1d(padded, (wave * window).to(at::kFloat).unsqueeze(1), {}, shape.hop_samples);
  };
  const at::Tensor power = convolve(at::cos(angle)).square() + convolve(-at::sin(angle)).square();
  return 10 * at::matmul(slaney_mel_filters(shape).t(), power).clamp_min(1e-10).log10();
}

TEST(LogMel, FftEqualsTheConvolutionForm) {
  const config::AudioShape shape;  // full size
  const at::Tensor time = at::arange(48000, at::kFloat) / 48000;
  at::manual_seed(1);  // some noise: bins without power would compare the rounding of the two forms
  const at::Tensor wave = at::stack({0.5 * at::sin(2 * std::numbers::pi * (300 * time + 4000 * time.square())),
                                     0.1 * at::sin(9000 * time)}) +
                          0.01 * at::randn({2, 48000});
  const LogMel log_mel(shape, at::kCPU);
  expect_close(log_mel(wave), convolved_log_mel(shape, wave), 1e-4, "log mel");
  EXPECT_EQ(log_mel(wave).size(2), 101);
  EXPECT_TRUE(log_mel(at::zeros({1, 48000})).equal(at::full({1, 64, 101}, -100.0F)));
  const auto products = tests::counted_products([&] { log_mel(wave); });
  EXPECT_GT(products.num_all, 0);
  EXPECT_EQ(products.num_in_fp32, products.num_all) << "quiet bins would drown in the rounding of TF32";
}

/// Values and gradients, for several numbers of frames in turn, in fp32 and rounded once in bf16.
TEST(FrameStretch, IsBicubicInterpolation) {
  FrameStretch stretch(64, at::kCPU);
  for (const int64_t frames : {41, 63, 41, 2, 64}) {
    const at::Tensor x =
        at::arange(3 * 5 * frames).mul(0.37).sin().view({3, 5, frames}).to(at::kFloat).requires_grad_(true);
    const at::Tensor weight = at::arange(3 * 5 * 64).mul(0.11).cos().view({3, 5, 64}).to(at::kFloat);
    const at::Tensor y = stretch(x);
    const at::Tensor expected = at::upsample_bicubic2d(x.unsqueeze(1), {5, 64}, /*align_corners=*/true).squeeze(1);
    EXPECT_TRUE(y.allclose(expected, 0, 2e-6)) << frames;
    const at::Tensor dx = torch::autograd::grad({y.mul(weight).sum()}, {x})[0];
    EXPECT_TRUE(dx.allclose(torch::autograd::grad({expected.mul(weight).sum()}, {x})[0], 1e-5, 4e-6)) << frames;
    const at::Tensor half = x.detach().to(at::kBFloat16);
    EXPECT_TRUE(stretch(half).equal(stretch(half.to(at::kFloat)).to(at::kBFloat16))) << frames;
  }
}

TEST(SpecAugment, BlanksAtMostTwoStripesEachWay) {
  const auto kept = [](uint64_t key) { return spec_augment_blanks(300, 64, 1001, key, at::kCPU).logical_not(); };
  const at::Tensor mask = kept(17);
  EXPECT_TRUE(mask.equal(kept(17)));
  EXPECT_FALSE(mask.equal(kept(18)));
  // A clip's stripes are whole columns and rows, each width uniform from 0: 2 x 31.5 frames and 2 x 3.5 bins on
  // average.
  const at::Tensor frames = mask.amax(1).eq(0).sum(1).to(at::kDouble), bins = mask.amax(2).eq(0).sum(1).to(at::kDouble);
  EXPECT_LE(frames.max().item<double>(), 126);
  EXPECT_LE(bins.max().item<double>(), 14);
  EXPECT_NEAR(frames.mean().item<double>(), 61.5, 6);  // overlaps take some; deviation of the mean 1.5
  EXPECT_NEAR(bins.mean().item<double>(), 6.7, 0.8);
  EXPECT_TRUE(mask.equal(mask.amax(1, true).logical_and(mask.amax(2, true))));
}

/// Swin's own recipe: roll, cut into windows.
at::Tensor rolled_windows(const at::Tensor& square, int64_t window, int64_t shift) {
  const int64_t side = square.size(0), count = side / window;
  return at::roll(square, {-shift, -shift}, {0, 1})
      .view({count, window, count, window})
      .transpose(1, 2)
      .reshape({count * count, window * window});
}

TEST(TokenOrder, WindowsAreThoseOfTheRolledSquare) {
  for (const int64_t shift : {0, 2}) {
    const at::Tensor expected = rolled_windows(at::arange(64).view({8, 8}), 4, shift);
    const TokenOrder order = window_order(8, 4, shift);
    EXPECT_TRUE(at::tensor(order, at::kLong).view({4, 16}).equal(expected));
  }
}

TEST(TokenOrder, PermutationsLeadBackAndCarryGradients) {
  const TokenOrder a = window_order(8, 4, 0), b = window_order(8, 4, 2);
  const at::Tensor by_number = at::randn({3, 64, 5}).set_requires_grad(true);
  const TokenOrder rows = window_order(8, 8, 0);
  const at::Tensor in_a = permute_tokens(by_number, TokenPermutation(rows, a, at::kCPU));
  const at::Tensor in_b = permute_tokens(in_a, TokenPermutation(a, b, at::kCPU));
  EXPECT_TRUE(in_b.equal(by_number.index_select(1, at::tensor(b, at::kLong))));
  const at::Tensor weight = at::randn({3, 64, 5});
  (in_b * weight).sum().backward();
  EXPECT_TRUE(by_number.grad().index_select(1, at::tensor(b, at::kLong)).equal(weight));
}

TEST(TokenOrder, MergingJoinsNeighbours) {
  const TokenOrder order = merging_order(4, window_order(2, 2, 0));
  EXPECT_EQ(order, (TokenOrder{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}));
}

TEST(TokenOrder, ShiftMaskSeparatesWhatRollingJoined) {
  EXPECT_FALSE(shift_mask(8, 4, 0).defined());
  const at::Tensor mask = shift_mask(8, 4, 2);
  const at::Tensor rows = rolled_windows(at::arange(64).view({8, 8}), 4, 2);
  for (int64_t w = 0; w < 4; ++w)
    for (int64_t i = 0; i < 16; ++i)
      for (int64_t j = 0; j < 16; ++j) {
        const int64_t a = rows[w][i].item<int64_t>(), b = rows[w][j].item<int64_t>();
        const bool near = std::abs(a / 8 - b / 8) < 4 && std::abs(a % 8 - b % 8) < 4;
        ASSERT_EQ(mask[w][i][j].item<float>(), near ? 0.0F : -100.0F) << w << ' ' << i << ' ' << j;
      }
}

struct AttentionCase {
  int64_t batch, windows, window, heads, head_width;
  bool has_mask;
};

/// Result and gradients of the fused kernel in `type` against single operators in float64, on the numbers that `type`
/// holds.
void expect_kernel_equals_operators(const AttentionCase& c, at::ScalarType type, double tolerance) {
  const int64_t tokens = c.window * c.window;
  at::manual_seed(5);
  const at::Tensor qkv = (2 * at::randn({c.batch, c.windows * tokens, 3 * c.heads * c.head_width})).to(type);
  const at::Tensor bias = at::randn({c.heads, tokens, tokens}),
                   weight = at::randn({c.batch, c.windows * tokens, c.heads * c.head_width}).to(type);
  const at::Tensor mask =
      c.has_mask ? at::randn({c.windows, tokens, tokens}).gt(1.0).to(at::kFloat) * -100 : at::Tensor();
  const auto run = [&](at::ScalarType run_type, at::ScalarType bias_type) {
    const at::Tensor x = qkv.to(run_type).detach().clone().set_requires_grad(true),
                     b = bias.to(bias_type).detach().clone().set_requires_grad(true);
    const at::Tensor y = window_attention(x, b, mask.defined() ? mask.to(bias_type) : mask);
    (y * weight.to(run_type)).sum().backward();
    return std::vector<at::Tensor>{y, x.grad(), b.grad()};
  };
  const auto got = run(type, at::kFloat), want = run(at::kDouble, at::kDouble);
  const char* names[] = {"result", "gradient of qkv", "gradient of the bias"};
  for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], want[i], tolerance, names[i]);
}

TEST(WindowAttention, KernelEqualsSingleOperators) {
  for (const AttentionCase& c :
       {AttentionCase{3, 4, 8, 4, 24, true}, AttentionCase{2, 1, 8, 2, 32, false}, AttentionCase{1, 4, 7, 1, 5, true},
        AttentionCase{20, 1, 2, 3, 40, false}, AttentionCase{1, 9, 3, 2, 16, true}}) {
    SCOPED_TRACE(fmt::format("window {} heads {} x {}", c.window, c.heads, c.head_width));
    expect_kernel_equals_operators(c, at::kFloat, 3e-6);
    expect_kernel_equals_operators(c, at::kBFloat16, 6e-3);  // results rounded to 8 bits
  }
}

TEST(WindowAttention, SumsDoNotDependOnTheNumberOfThreads) {
  const at::Tensor qkv = at::randn({5, 4 * 16, 3 * 8}), bias = at::randn({2, 16, 16});
  std::vector<at::Tensor> gradients;
  const int before = at::get_num_threads();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    const at::Tensor b = bias.clone().set_requires_grad(true);
    window_attention(qkv, b, {}).square().sum().backward();
    gradients.push_back(b.grad());
  }
  at::set_num_threads(before);
  EXPECT_TRUE(gradients[0].equal(gradients[1]));
}

TEST(ClapWeights, EveryNamingComesBack) {
  const TensorMap golden = load_golden(clap_file("clap_full"));
  auto model = golden_clap_model(golden_clap_shape("clap_full"), golden);
  for (const ClapNaming naming : {ClapNaming::kLaion, ClapNaming::kOpenClip, ClapNaming::kHuggingFace}) {
    WeightFile file{.path = "written", .tensors = clap_values(*model, naming), .ignored = {}, .epoch = {}};
    EXPECT_EQ(clap_naming(file), naming);
    ClapModel copy(model->shape(), {});
    nn::initialize(copy, copy.param_specs(), 8);
    load_clap_weights(copy, file);
    const auto before = named_values(*model), after = named_values(copy);
    for (size_t i = 0; i < before.size(); ++i) {
      const bool is_trained = before[i].second.requires_grad() || before[i].first.find("bn0") != std::string::npos;
      if (!is_trained && naming != ClapNaming::kLaion) continue;
      EXPECT_TRUE(before[i].second.equal(after[i].second)) << before[i].first;
    }
  }
}

TEST(ClapWeights, HuggingFaceNamesAreThoseOfTheGoldenFile) {
  const TensorMap golden = load_golden(clap_file("clap_full"));
  auto model = golden_clap_model(golden_clap_shape("clap_full"), golden);
  std::set<std::string> written, expected;
  for (const auto& [name, value] : clap_values(*model, ClapNaming::kHuggingFace)) {
    written.insert(name);
    ASSERT_TRUE(golden.contains("param/" + name)) << name;
    const at::Tensor& want = golden.at("param/" + name);
    EXPECT_TRUE(value.detach().to(want.scalar_type()).equal(want)) << name;
  }
  for (const auto& [name, value] : golden_weights(golden, "param/").tensors)
    if (!name.ends_with("token_type_ids")) expected.insert(name);
  EXPECT_EQ(written, expected);
}

TEST(ClapWeights, LaionFilesHaveWhatTheirLoaderExpects) {
  config::ClapShape shape = golden_clap_shape("clap_full");
  ClapModel model(shape, {});
  nn::initialize(model, model.param_specs(), 1);
  std::map<std::string, at::Tensor> values;
  for (const auto& [name, value] : clap_values(model, ClapNaming::kLaion)) values.emplace(name, value);
  EXPECT_EQ(values.at("audio_branch.spectrogram_extractor.stft.conv_real.weight").sizes(),
            at::IntArrayRef({129, 1, 256}));
  EXPECT_EQ(values.at("audio_branch.logmel_extractor.melW").sizes(), at::IntArrayRef({129, 16}));
  EXPECT_EQ(values.at("audio_branch.layers.0.blocks.1.attn_mask").sizes(), at::IntArrayRef({16, 16, 16}));
  EXPECT_TRUE(values.contains("audio_branch.layers.0.blocks.0.attn.relative_position_index"));
  EXPECT_FALSE(values.contains("audio_branch.layers.0.blocks.0.attn_mask"));
  EXPECT_FALSE(values.contains("audio_branch.layers.2.blocks.1.attn_mask"));  // one window
}

TEST(ClapWeights, AnotherFrontEndIsRefused) {
  ClapModel model(golden_clap_shape("clap_full"), {});
  nn::initialize(model, model.param_specs(), 1);
  for (const char* name : {"audio_branch.logmel_extractor.melW", "audio_branch.layers.0.blocks.1.attn_mask",
                           "audio_branch.spectrogram_extractor.stft.conv_imag.weight"}) {
    WeightFile file{.path = "other.pt", .tensors = clap_values(model, ClapNaming::kLaion), .ignored = {}, .epoch = {}};
    for (auto& [entry, value] : file.tensors)
      if (entry == name) value = value * 1.01;
    EXPECT_THROW(load_clap_weights(model, file), DataError) << name;
  }
  EXPECT_THROW(
      clap_naming({.path = "clip.pt", .tensors = {{"visual.proj", at::ones({1})}}, .ignored = {}, .epoch = {}}),
      DataError);
}

}  // namespace
}  // namespace lockstep::models
