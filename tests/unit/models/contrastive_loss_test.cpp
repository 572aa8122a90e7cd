#include "models/contrastive_loss.h"

#include <gtest/gtest.h>

#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"

namespace lockstep::models {
namespace {

using comm::Comm;
using tests::expect_close;
using tests::run_ranks;

// Logits of about 14 carry fp32 errors of 1e-6, and so do their exponentials; sums of a few hundred terms, relative to
// the largest gradient.
constexpr double kFp32 = 1e-5;
constexpr double kScale = 5;    // times that for logit_scale: its gradient is a sum of terms that mostly cancel
constexpr double kBf16 = 1e-2;  // features and their gradients carry 8 bits of mantissa

struct Problem {
  at::Tensor image_NE, text_NE, log_scale;
};

/// Unit rows from a fixed generator; every pair is more alike than chance, so that neither softmax is flat.
Problem make_problem(int64_t num_pairs, int64_t dim, double log_scale = 2.6593) {
  const auto unit = [](const at::Tensor& x) { return x / x.norm(2, {1}, true); };
  const auto image = at::sin(at::arange(num_pairs * dim, at::kFloat) * 1.7).mul(3.1).cos().reshape({num_pairs, dim});
  const auto text = image + 0.8 * at::cos(at::arange(num_pairs * dim, at::kFloat) * 2.3).reshape({num_pairs, dim});
  return {unit(image), unit(text), at::full({}, log_scale)};
}

/// The oracle: the whole matrix, plain autograd in fp64.
struct Reference {
  double loss;
  at::Tensor image_NE, text_NE, log_scale;  // gradients
};

at::Tensor leaf(const at::Tensor& value) { return value.detach().clone().set_requires_grad(true); }

Reference plain_global(const Problem& problem) {
  const auto image = leaf(problem.image_NE.to(at::kDouble)), text = leaf(problem.text_NE.to(at::kDouble));
  const auto log_scale = leaf(problem.log_scale.to(at::kDouble));
  const auto logits = log_scale.exp() * image.matmul(text.t());
  const auto target = at::arange(image.size(0), at::kLong);
  const auto loss = 0.5 * (at::cross_entropy_loss(logits, target) + at::cross_entropy_loss(logits.t(), target));
  loss.backward();
  return {loss.item<double>(), image.grad(), text.grad(), log_scale.grad()};
}

/// OpenCLIP's --local-loss alone, as written: own rows live, all keys detached; what one rank differentiates.
Reference plain_local_only(const Problem& problem, int rank, int num_ranks) {
  const int64_t B = problem.image_NE.size(0) / num_ranks;
  const auto all_image = problem.image_NE.to(at::kDouble), all_text = problem.text_NE.to(at::kDouble);
  const auto image = leaf(all_image.narrow(0, rank * B, B)), text = leaf(all_text.narrow(0, rank * B, B));
  const auto log_scale = leaf(problem.log_scale.to(at::kDouble));
  const auto target = at::arange(rank * B, (rank + 1) * B, at::kLong);
  const auto loss = 0.5 * (at::cross_entropy_loss(log_scale.exp() * image.matmul(all_text.t()), target) +
                           at::cross_entropy_loss(log_scale.exp() * text.matmul(all_image.t()), target));
  loss.backward();
  return {loss.item<double>(), image.grad(), text.grad(), log_scale.grad()};
}

struct Mode {
  bool local_loss, gather_with_grad;
};
constexpr Mode kExactModes[] = {{false, false}, {false, true}, {true, true}};

/// Loss and gradients of one rank through the real function; averages the scale's gradient as GradSync does.
void check_rank(Comm& comm, const Problem& problem, const Reference& want, const ContrastiveLossOptions& options,
                double tolerance, at::ScalarType type = at::kFloat) {
  const int64_t B = problem.image_NE.size(0) / comm.size();
  const auto image = leaf(problem.image_NE.narrow(0, comm.rank() * B, B).to(type));
  const auto text = leaf(problem.text_NE.narrow(0, comm.rank() * B, B).to(type));
  const auto log_scale = leaf(problem.log_scale);
  const auto got = contrastive_loss(image, text, log_scale.exp(), {}, comm, options);
  got.loss.backward();
  EXPECT_NEAR(got.global_loss.item<double>(), want.loss, tolerance * std::max(1.0, want.loss));
  // Averaging over ranks divides by their number: that much larger must the gradient of the own features be.
  expect_close(image.grad() / comm.size(), want.image_NE.narrow(0, comm.rank() * B, B), tolerance, "image");
  expect_close(text.grad() / comm.size(), want.text_NE.narrow(0, comm.rank() * B, B), tolerance, "text");
  auto scale_gradient = log_scale.grad().clone();
  comm.all_reduce(scale_gradient).wait();
  expect_close(scale_gradient / comm.size(), want.log_scale, kScale * tolerance, "logit_scale");
}

TEST(ContrastiveLoss, ExactModesEqualTheGlobalBatchOnAnyNumberOfRanks) {
  const auto problem = make_problem(24, 8);
  const auto want = plain_global(problem);
  for (const int num_ranks : {1, 2, 3, 4})
    for (const Mode mode : kExactModes)
      run_ranks(num_ranks, [&](Comm& comm) {
        ASSERT_EQ(comm.size(), num_ranks);
        check_rank(comm, problem, want, {.local_loss = mode.local_loss, .gather_with_grad = mode.gather_with_grad},
                   kFp32);
      });
}

TEST(ContrastiveLoss, AnyTileSizeGivesTheSame) {
  const auto problem = make_problem(264, 8);
  const auto want = plain_global(problem);
  for (const int num_ranks : {1, 2})
    for (const int64_t columns :
         {1, 64, 65, 131, 200, 263, 264, 1000})  // below the smallest tile, uneven, exact, more than there are
      run_ranks(num_ranks, [&](Comm& comm) {
        const int64_t row_bytes = 264 / num_ranks * 4 * (num_ranks == 1 ? 1 : 2);
        check_rank(comm, problem, want, {.gather_with_grad = true, .logit_bytes = columns * row_bytes}, kFp32);
      });
}

TEST(ContrastiveLoss, LargeScaleStaysFinite) {
  auto problem = make_problem(24, 8, std::log(100.0));
  run_ranks(2, [&](Comm& comm) {
    check_rank(comm, problem, plain_global(problem), {.logit_bytes = 1}, 2e-5);
  });  // logits up to 100: 1e-7 x 100
}

TEST(ContrastiveLoss, LocalLossAloneIsTheWrittenDefinition) {
  const auto problem = make_problem(24, 8);
  for (const int num_ranks : {2, 3, 4})
    for (const int64_t logit_bytes : {1, 1 << 20})
      run_ranks(num_ranks, [&](Comm& comm) {
        const auto want = plain_local_only(problem, comm.rank(), comm.size());
        const int64_t B = 24 / comm.size();
        const auto image = leaf(problem.image_NE.narrow(0, comm.rank() * B, B));
        const auto text = leaf(problem.text_NE.narrow(0, comm.rank() * B, B));
        const auto log_scale = leaf(problem.log_scale);
        const auto got =
            contrastive_loss(image, text, log_scale.exp(), {}, comm, {.local_loss = true, .logit_bytes = logit_bytes});
        got.loss.backward();
        EXPECT_NEAR(got.loss.item<double>(), want.loss, kFp32 * 3);
        EXPECT_NEAR(got.global_loss.item<double>(), plain_global(problem).loss, kFp32 * 3);
        expect_close(image.grad(), want.image_NE, kFp32, "image");
        expect_close(text.grad(), want.text_NE, kFp32, "text");
        expect_close(log_scale.grad(), want.log_scale, kScale * kFp32, "logit_scale");
        // And it is another gradient than the exact one.
        const auto exact = plain_global(problem).image_NE.narrow(0, comm.rank() * B, B) * comm.size();
        EXPECT_GT((image.grad() - exact).abs().max().item<double>(), 0.01 * exact.abs().max().item<double>());
      });
}

TEST(ContrastiveLoss, LocalLossAloneOnOneRankIsExact) {
  const auto problem = make_problem(24, 8);
  Comm alone;
  check_rank(alone, problem, plain_global(problem), {.local_loss = true}, kFp32);
}

TEST(ContrastiveLoss, HalfPrecisionFeaturesKeepAnFp32Softmax) {
  auto problem = make_problem(24, 8);
  problem.image_NE = problem.image_NE.to(at::kBFloat16).to(at::kFloat);
  problem.text_NE = problem.text_NE.to(at::kBFloat16).to(at::kFloat);
  const auto want = plain_global(problem);
  for (const int num_ranks : {1, 2})
    run_ranks(num_ranks, [&](Comm& comm) {
      check_rank(comm, problem, want, {.gather_with_grad = true}, kBf16, at::kBFloat16);
      const int64_t B = 24 / comm.size();
      const auto got = contrastive_loss(problem.image_NE.narrow(0, comm.rank() * B, B).to(at::kBFloat16),
                                        problem.text_NE.narrow(0, comm.rank() * B, B).to(at::kBFloat16),
                                        problem.log_scale.exp(), {}, comm, {});
      EXPECT_EQ(got.loss.scalar_type(), at::kFloat);
      EXPECT_NEAR(got.global_loss.item<double>(), want.loss,
                  1e-5);  // the features are exact in bf16: only the sums round
    });
}

TEST(ContrastiveLoss, EqualsOpenClip) {
  const auto golden = tests::load_golden("loss/clip_loss.safetensors");
  const auto image = leaf(golden.at("image")), text = leaf(golden.at("text")), log_scale = leaf(golden.at("log_scale"));
  Comm alone;
  const auto got = contrastive_loss(image, text, log_scale.exp(), {}, alone, {});
  got.loss.backward();
  expect_close(got.loss, golden.at("loss"), kFp32, "loss");
  expect_close(image.grad(), golden.at("image_grad"), kFp32, "image");
  expect_close(text.grad(), golden.at("text_grad"), kFp32, "text");
  expect_close(log_scale.grad(), golden.at("log_scale_grad"), kScale * kFp32, "logit_scale");
}

TEST(ContrastiveLoss, OneTowerAloneMayBeTrained) {
  const auto problem = make_problem(24, 8);
  const auto want = plain_global(problem);
  run_ranks(2, [&](Comm& comm) {
    const auto image = problem.image_NE.narrow(0, comm.rank() * 12, 12);
    const auto text = leaf(problem.text_NE.narrow(0, comm.rank() * 12, 12));
    contrastive_loss(image, text, problem.log_scale.exp(), {}, comm, {}).loss.backward();
    EXPECT_FALSE(image.grad().defined());
    expect_close(text.grad() / 2, want.text_NE.narrow(0, comm.rank() * 12, 12), kFp32, "text");
  });
}

TEST(ContrastiveLoss, ABiasCancelsAndItsGradientIsZero) {
  const auto problem = make_problem(24, 8);
  Comm alone;
  const auto bias = leaf(at::full({1}, -10.0));
  const auto got = contrastive_loss(leaf(problem.image_NE), problem.text_NE, problem.log_scale.exp(), bias, alone, {});
  got.loss.backward();
  EXPECT_NEAR(got.loss.item<double>(), plain_global(problem).loss, 1e-5);
  EXPECT_EQ(bias.grad().item<float>(), 0.0f);
}

TEST(ContrastiveLoss, TwoGathersForwardAndNothingBackward) {
  const auto problem = make_problem(24, 8);
  run_ranks(3, [&](Comm& comm) {
    const auto image = leaf(problem.image_NE.narrow(0, comm.rank() * 8, 8)),
               text = leaf(problem.text_NE.narrow(0, comm.rank() * 8, 8));
    const auto got = contrastive_loss(image, text, problem.log_scale.exp(), {}, comm, {});
    EXPECT_EQ(comm.count("all_gather"), 2);
    got.loss.backward();
    EXPECT_EQ(comm.count("all_gather"), 2);
    for (const char* kind : {"all_reduce", "reduce_scatter", "broadcast"}) EXPECT_EQ(comm.count(kind), 0) << kind;
  });
}

TEST(ContrastiveLoss, ReportedLossHasTheSameBitsOnAllRanks) {
  const auto problem = make_problem(24, 8);
  std::vector<double> losses(3);
  run_ranks(3, [&](Comm& comm) {
    const auto got =
        contrastive_loss(problem.image_NE.narrow(0, comm.rank() * 8, 8), problem.text_NE.narrow(0, comm.rank() * 8, 8),
                         problem.log_scale.exp(), {}, comm, {});
    losses[static_cast<size_t>(comm.rank())] = got.global_loss.item<double>();
  });
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

TEST(ContrastiveLoss, OneMoreTimeOverGloo) {
  const auto problem = make_problem(24, 8);
  const auto want = plain_global(problem);
  run_ranks(
      2, [&](Comm& comm) { check_rank(comm, problem, want, {.local_loss = true, .gather_with_grad = true}, kFp32); },
      tests::ThreadBackend::kGloo);
}

}  // namespace
}  // namespace lockstep::models
