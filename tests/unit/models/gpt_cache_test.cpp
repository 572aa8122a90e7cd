// Logits with keys and values kept against those of whole sequences.
#include "models/gpt/gpt_cache.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "models/gpt/gpt_model.h"
#include "nn/init.h"
#include "support/tensor_golden.h"

namespace lockstep::models {
namespace {

using ::lockstep::tests::expect_close;

constexpr double kTolerance = 1e-5;  // fp32, sums in the order of other kernels through three layers

std::unique_ptr<GptModel> drawn_model(const config::GptShape& shape, at::ScalarType type = at::kFloat) {
  at::set_num_threads(1);  // threads that wait for each other at every small operator are slow where others work, too
  auto model = std::make_unique<GptModel>(shape, config::whole_gpt(shape), nn::ShardCtx{},
                                          GptModelOptions{.tensors = at::TensorOptions(type)});
  nn::initialize(*model, model->param_specs(), 5);
  model->set_training(false);
  return model;
}

config::GptShape shape_of(const std::string& name) {
  config::GptShape shape{
      .name = name, .layers = 3, .hidden = 24, .heads = 4, .query_groups = 4, .head_width = 6, .ffn = 40, .vocab = 61};
  shape.vocab_multiple = 4;
  shape.sequence = shape.max_positions = 400;
  shape.init_std = 0.3;
  if (name == "no_positions") shape.positions = config::GptPositions::kNone;
  if (name == "llama" || name == "nemotron") {
    shape.positions = config::GptPositions::kRotary;
    shape.query_groups = name == "llama" ? 1 : 2;
    shape.has_bias = shape.is_head_tied = false;
    shape.activation = name == "llama" ? config::GptActivation::kSwiglu : config::GptActivation::kSquaredRelu;
    shape.norm = name == "llama" ? config::GptNorm::kRmsNorm : config::GptNorm::kLayerNorm1p;
    if (name == "nemotron") shape.rotary_fraction = 0.34;
    if (name == "llama")
      shape.rotary_scaling =
          config::RotaryScaling{.factor = 4, .low_factor = 1, .high_factor = 4, .original_positions = 64};
  }
  return shape;
}

at::Tensor drawn_row(const config::GptShape& shape, int64_t length, int64_t row) {
  return at::arange(length).mul(37).add(11 * (row + 1)).mul(13 + row).remainder(shape.vocab);
}

/// Logits of a sequence alone: [T, V].
at::Tensor whole_logits(GptModel& model, const at::Tensor& ids) {
  Batch batch;
  batch.text_BT = ids.unsqueeze(0);
  return model.logits(model.forward({}, batch)).squeeze(1);
}

/// Row `row` of logits [L, B, V] are those of the last L tokens before `end` of the sequence alone.
void expect_tail(const at::Tensor& got_LBV, int64_t row, const at::Tensor& want_TV, int64_t end, double tolerance,
                 const std::string& what) {
  const int64_t count = std::min(got_LBV.size(0), end);
  expect_close(got_LBV.select(1, row).narrow(0, got_LBV.size(0) - count, count), want_TV.narrow(0, end - count, count),
               tolerance, what + " row " + std::to_string(row) + " before token " + std::to_string(end));
}

/// Sequences of these lengths together, then `blocks` of further tokens.
void expect_same_logits(GptModel& model, const std::vector<int64_t>& lengths, const std::vector<int64_t>& blocks,
                        double tolerance) {
  const config::GptShape& shape = model.shape();
  int64_t longest = *std::max_element(lengths.begin(), lengths.end()), more = 0;
  for (const int64_t block : blocks) more += block;
  std::vector<at::Tensor> ids, want;
  std::vector<int64_t> first_slots;
  at::Tensor text = at::zeros({std::ssize(lengths), longest}, at::kLong);
  for (size_t row = 0; row < lengths.size(); ++row) {
    ids.push_back(drawn_row(shape, lengths[row] + more, static_cast<int64_t>(row)));
    want.push_back(whole_logits(model, ids.back()));
    first_slots.push_back(longest - lengths[row]);
    text[static_cast<int64_t>(row)]
        .narrow(0, first_slots.back(), lengths[row])
        .copy_(ids.back().narrow(0, 0, lengths[row]));
  }
  GptCache cache(shape, {}, first_slots,
                 {.capacity = longest + more, .tensors = want[0].options().requires_grad(false)});
  at::Tensor got = model.logits(model.forward_next(text, cache));
  for (size_t row = 0; row < lengths.size(); ++row)
    expect_tail(got, static_cast<int64_t>(row), want[row], lengths[row], tolerance, shape.name);
  int64_t done = 0;
  for (const int64_t block : blocks) {
    std::vector<at::Tensor> next;
    for (size_t row = 0; row < lengths.size(); ++row) next.push_back(ids[row].narrow(0, lengths[row] + done, block));
    got = model.logits(model.forward_next(at::stack(next), cache));
    done += block;
    ASSERT_EQ(got.size(0), block);
    for (size_t row = 0; row < lengths.size(); ++row)
      expect_tail(got, static_cast<int64_t>(row), want[row], lengths[row] + done, tolerance, shape.name);
  }
  EXPECT_EQ(cache.length(), cache.capacity());
}

class GptCached : public ::testing::TestWithParam<const char*> {};

TEST_P(GptCached, LogitsAreThoseOfWholeSequences) {
  auto model = drawn_model(shape_of(GetParam()));
  expect_same_logits(*model, {9}, {1, 1, 3, 1}, kTolerance);
  expect_same_logits(*model, {7, 12, 1}, {1, 1, 1, 4, 1}, kTolerance);
  expect_same_logits(*model, {1}, {1, 1}, kTolerance);
}

TEST_P(GptCached, LongSequencesAsWell) {  // other attention kernels
  auto model = drawn_model(shape_of(GetParam()));
  expect_same_logits(*model, {300}, {1, 20, 1}, kTolerance);
  expect_same_logits(*model, {300, 257, 20}, {1, 20, 1}, kTolerance);
}

TEST_P(GptCached, Bfloat16) {
  auto model = drawn_model(shape_of(GetParam()), at::kBFloat16);
  expect_same_logits(*model, {7, 12, 1}, {1, 1, 4}, 0.06);  // 8 bits of mantissa, rounded between other sums
}

INSTANTIATE_TEST_SUITE_P(Shapes, GptCached, ::testing::Values("gpt2", "no_positions", "llama", "nemotron"));

TEST(GptCache, RowsThatAreKeptGoOnAlone) {
  auto model = drawn_model(shape_of("llama"));
  const int64_t longest = 8;
  const std::vector<int64_t> lengths = {3, 8, 5}, kept = {2, 0};
  std::vector<at::Tensor> ids;
  at::Tensor text = at::zeros({3, longest}, at::kLong);
  std::vector<int64_t> first_slots;
  for (int64_t row = 0; row < 3; ++row) {
    const int64_t length = lengths[static_cast<size_t>(row)];
    ids.push_back(drawn_row(model->shape(), length + 1, row));
    first_slots.push_back(longest - length);
    text[row].narrow(0, longest - length, length).copy_(ids.back().narrow(0, 0, length));
  }
  GptCache cache(model->shape(), {}, first_slots, {.capacity = longest + 1, .tensors = at::TensorOptions(at::kFloat)});
  model->forward_next(text, cache);
  cache.keep(kept);
  const at::Tensor next = at::stack({ids[2].narrow(0, 5, 1), ids[0].narrow(0, 3, 1)});
  const at::Tensor got = model->logits(model->forward_next(next, cache));
  expect_tail(got, 0, whole_logits(*model, ids[2]), 6, kTolerance, "third");
  expect_tail(got, 1, whole_logits(*model, ids[0]), 4, kTolerance, "first");
  EXPECT_ANY_THROW(model->forward_next(next, cache)) << "no slot is left";
}

TEST(GptCache, PositionsAndMaskOfSequencesThatBeginLater) {
  GptCache cache(shape_of("gpt2"), {}, {2, 0}, {.capacity = 5, .tensors = at::TensorOptions(at::kFloat)});
  EXPECT_TRUE(at::equal(cache.positions(3), at::tensor({0, 0, 0, 0, 1, 2}, at::kLong).view({2, 3})));
  const at::Tensor sees = cache.mask(3, at::kFloat).eq(0).to(at::kLong);
  EXPECT_TRUE(at::equal(sees.select(0, 0).squeeze(0), at::tensor({1, 0, 0, 0, 1, 0, 0, 0, 1}, at::kLong).view({3, 3})));
  EXPECT_TRUE(at::equal(sees.select(0, 1).squeeze(0), at::tensor({1, 0, 0, 1, 1, 0, 1, 1, 1}, at::kLong).view({3, 3})));
  cache.advance(3);
  EXPECT_TRUE(at::equal(cache.positions(1), at::tensor({1, 3}, at::kLong).view({2, 1})));
  EXPECT_TRUE(at::equal(cache.mask(1, at::kFloat).eq(0).to(at::kLong).view({2, 4}),
                        at::tensor({0, 0, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 4})));
  const GptCache even(shape_of("gpt2"), {}, {0, 0}, {.capacity = 5, .tensors = at::TensorOptions(at::kFloat)});
  EXPECT_FALSE(even.mask(3, at::kFloat).defined()) << "the causal rule says all";
}

}  // namespace
}  // namespace lockstep::models
