#include "models/sigmoid_loss.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "models/distillation_loss.h"
#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"

namespace lockstep::models {
namespace {

using comm::Comm;
using tests::expect_close;
using tests::run_ranks;

constexpr double kFp32Bound = 1e-5;  // sums of a few hundred terms, relative to the largest gradient

struct PairProblem {
  at::Tensor image_NE, text_NE, scale, bias;
};

at::Tensor unit_rows(const at::Tensor& x) { return x / x.norm(2, {1}, true); }

/// Pairs more alike than chance; the bias is near the middle of the logits, so that every slope counts.
PairProblem pair_problem(int64_t num_pairs, int64_t dim) {
  const auto index = at::arange(num_pairs * dim, at::kFloat);
  const auto image = at::cos(at::sin(index * 1.7) * 3.1).reshape({num_pairs, dim});
  const auto text = image + 0.8 * at::cos(index * 2.3).reshape({num_pairs, dim});
  return {unit_rows(image), unit_rows(text), at::full({}, 8.0), at::full({1}, -5.0)};
}

at::Tensor leaf_of(const at::Tensor& value) { return value.detach().clone().set_requires_grad(true); }

struct PairGradients {
  double loss;
  at::Tensor image_NE, text_NE, scale, bias;
};

/// The whole matrix, plain autograd in fp64.
PairGradients plain_sigmoid(const PairProblem& problem) {
  const auto image = leaf_of(problem.image_NE.to(at::kDouble)), text = leaf_of(problem.text_NE.to(at::kDouble));
  const auto scale = leaf_of(problem.scale.to(at::kDouble)), bias = leaf_of(problem.bias.to(at::kDouble));
  const auto signs = 2 * at::eye(image.size(0), at::kDouble) - 1;
  const auto loss =
      -at::log_sigmoid(signs * (scale * image.matmul(text.t()) + bias)).sum() / static_cast<double>(image.size(0));
  loss.backward();
  return {loss.item<double>(), image.grad(), text.grad(), scale.grad(), bias.grad()};
}

at::Tensor averaged(Comm& comm, const at::Tensor& gradient) {
  auto sum = gradient.clone();
  comm.all_reduce(sum).wait();
  return sum / comm.size();
}

void check_sigmoid(Comm& comm, const PairProblem& problem, const PairGradients& want, int64_t logit_bytes,
                   double tolerance = kFp32Bound, at::ScalarType type = at::kFloat) {
  const int64_t B = problem.image_NE.size(0) / comm.size(), first = comm.rank() * B;
  const auto image = leaf_of(problem.image_NE.narrow(0, first, B).to(type));
  const auto text = leaf_of(problem.text_NE.narrow(0, first, B).to(type));
  const auto scale = leaf_of(problem.scale), bias = leaf_of(problem.bias);
  const auto got = sigmoid_loss(image, text, scale, bias, comm, logit_bytes);
  got.loss.backward();
  EXPECT_NEAR(got.global_loss.item<double>(), want.loss, tolerance * want.loss);
  // Averaging over ranks divides by their number: that much larger must the gradient of the own features be.
  expect_close(image.grad() / comm.size(), want.image_NE.narrow(0, first, B), tolerance, "image");
  expect_close(text.grad() / comm.size(), want.text_NE.narrow(0, first, B), tolerance, "text");
  expect_close(averaged(comm, scale.grad()), want.scale, 5 * tolerance, "scale");
  expect_close(averaged(comm, bias.grad()), want.bias, 5 * tolerance, "bias");
}

TEST(SigmoidLoss, AnyRanksAndTilesEqualTheWholeMatrix) {
  const auto problem = pair_problem(264, 8);
  const auto want = plain_sigmoid(problem);
  for (const int num_ranks : {1, 2, 3, 4})
    for (const int64_t columns : {1, 65, 131, 264, 1000})
      run_ranks(num_ranks, [&](Comm& comm) {
        ASSERT_EQ(comm.size(), num_ranks);
        check_sigmoid(comm, problem, want, columns * 264 / num_ranks * 4);
      });
}

TEST(SigmoidLoss, HalfPrecisionFeaturesKeepFp32Logits) {
  auto problem = pair_problem(24, 8);
  problem.image_NE = problem.image_NE.to(at::kBFloat16).to(at::kFloat);
  problem.text_NE = problem.text_NE.to(at::kBFloat16).to(at::kFloat);
  const auto want = plain_sigmoid(problem);
  run_ranks(2, [&](Comm& comm) { check_sigmoid(comm, problem, want, 1 << 20, 1e-2, at::kBFloat16); });
}

TEST(SigmoidLoss, LargeLogitsStayFinite) {
  auto problem = pair_problem(24, 8);
  problem.scale.fill_(100.0);
  problem.bias.fill_(40.0);
  run_ranks(2, [&](Comm& comm) { check_sigmoid(comm, problem, plain_sigmoid(problem), 1 << 20); });
}

TEST(SigmoidLoss, OneTowerAloneMayBeTrained) {
  const auto problem = pair_problem(24, 8);
  const auto want = plain_sigmoid(problem);
  for (const int num_ranks : {1, 2})
    run_ranks(num_ranks, [&](Comm& comm) {
      const int64_t B = 24 / comm.size(), first = comm.rank() * B;
      const auto image = problem.image_NE.narrow(0, first, B);
      const auto text = leaf_of(problem.text_NE.narrow(0, first, B));
      sigmoid_loss(image, text, problem.scale, problem.bias, comm, 1 << 20).loss.backward();
      EXPECT_FALSE(image.grad().defined());
      expect_close(text.grad() / comm.size(), want.text_NE.narrow(0, first, B), kFp32Bound, "text");
    });
}

TEST(SigmoidLoss, TwoGathersForwardAndNothingBackward) {
  const auto problem = pair_problem(24, 8);
  run_ranks(3, [&](Comm& comm) {
    const auto image = leaf_of(problem.image_NE.narrow(0, comm.rank() * 8, 8));
    const auto got =
        sigmoid_loss(image, problem.text_NE.narrow(0, comm.rank() * 8, 8), problem.scale, problem.bias, comm, 1 << 20);
    got.loss.backward();
    EXPECT_EQ(comm.count("all_gather"), 2);
    for (const char* kind : {"all_reduce", "reduce_scatter", "broadcast"}) EXPECT_EQ(comm.count(kind), 0) << kind;
  });
}

TEST(DistillationLoss, AnyNumberOfRanksEqualsTheWholeMatrix) {
  const auto problem = pair_problem(24, 8);
  const auto taught_image = unit_rows(at::sin(problem.image_NE * 9)), taught_text = unit_rows(problem.text_NE + 0.3);
  const double teacher_scale = 5.0;
  const auto image = leaf_of(problem.image_NE.to(at::kDouble)), text = leaf_of(problem.text_NE.to(at::kDouble));
  const auto scale = leaf_of(problem.scale.to(at::kDouble));
  const auto logits = scale * image.matmul(text.t());
  const auto taught = teacher_scale * taught_image.to(at::kDouble).matmul(taught_text.to(at::kDouble).t());
  const auto cross = [](const at::Tensor& student, const at::Tensor& teacher) {
    return -(teacher.softmax(1) * student.log_softmax(1)).sum(1).mean();
  };
  const auto want = 0.5 * (cross(logits, taught) + cross(logits.t(), taught.t()));
  want.backward();
  for (const int num_ranks : {1, 2, 3, 4})
    run_ranks(num_ranks, [&](Comm& comm) {
      const int64_t B = 24 / comm.size(), first = comm.rank() * B;
      const auto own = [&](const at::Tensor& all) { return all.narrow(0, first, B); };
      const auto my_image = leaf_of(own(problem.image_NE)), my_text = leaf_of(own(problem.text_NE));
      const auto my_scale = leaf_of(problem.scale);
      const auto got = distillation_loss(
          my_image, my_text, my_scale,
          {.image_BE = own(taught_image), .text_BE = own(taught_text), .logit_scale = at::full({}, teacher_scale)},
          comm);
      got.loss.backward();
      EXPECT_NEAR(got.global_loss.item<double>(), want.item<double>(), kFp32Bound * want.item<double>());
      expect_close(my_image.grad() / comm.size(), own(image.grad()), kFp32Bound, "image");
      expect_close(my_text.grad() / comm.size(), own(text.grad()), kFp32Bound, "text");
      expect_close(averaged(comm, my_scale.grad()), scale.grad(), 5 * kFp32Bound, "scale");
    });
}

/// 160 columns are tiles of 64, 64 and 32. Logits reach 60, so that a column's maximum is far from the next tile's.
TEST(DistillationLoss, TilesEqualTheWholeMatrix) {
  const auto problem = pair_problem(160, 8);
  const TeacherFeatures teacher{.image_BE = unit_rows(at::sin(problem.image_NE * 9)),
                                .text_BE = unit_rows(problem.text_NE + 0.3),
                                .logit_scale = at::full({}, 60.0)};
  struct Found {
    at::Tensor loss, image, text, scale;
  };
  const auto found = [&](Comm& comm, int64_t logit_bytes) {
    const auto image = leaf_of(problem.image_NE), text = leaf_of(problem.text_NE);
    const auto scale = leaf_of(at::full({}, 60.0));
    const auto got = distillation_loss(image, text, scale, teacher, comm, logit_bytes);
    (3 * got.loss).backward();
    return Found{got.loss.detach(), image.grad(), text.grad(), scale.grad()};
  };
  run_ranks(1, [&](Comm& comm) {
    const Found whole = found(comm, int64_t{1} << 30), tiles = found(comm, 1);
    EXPECT_GT(whole.loss.item<double>(), 0.1);
    expect_close(tiles.loss, whole.loss, kFp32Bound, "loss");
    expect_close(tiles.image, whole.image, kFp32Bound, "image");
    expect_close(tiles.text, whole.text, kFp32Bound, "text");
    expect_close(tiles.scale, whole.scale, 5 * kFp32Bound, "scale");
  });
}

/// The most bytes of tensors that lived at once on this thread.
class PeakBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    live_ += bytes;  // negative where memory is freed
    peak_ = std::max(peak_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t bytes() const { return peak_; }

 private:
  int64_t live_ = 0, peak_ = 0;
};

/// Bytes that live at once: tiles, not matrices of B x N.
TEST(DistillationLoss, HoldsNoMatrixOfAllPairs) {
  constexpr int64_t kPairs = 1536;
  constexpr int64_t kTileBytes = 64 * kPairs * 4, kMatrixBytes = kPairs * kPairs * 4;
  const auto problem = pair_problem(kPairs, 8);
  const auto image = leaf_of(problem.image_NE), text = leaf_of(problem.text_NE), scale = leaf_of(problem.scale);
  run_ranks(1, [&](Comm& comm) {
    const auto peak = std::make_shared<PeakBytes>();
    const c10::DebugInfoGuard watch(c10::DebugInfoKind::PROFILER_STATE, peak);
    const auto got = distillation_loss(
        image, text, scale,
        {.image_BE = problem.image_NE, .text_BE = problem.text_NE, .logit_scale = at::full({}, 5.0)}, comm, kTileBytes);
    got.loss.backward();
    EXPECT_GT(peak->bytes(), kTileBytes);
    EXPECT_LT(peak->bytes(), kMatrixBytes);
  });
}

}  // namespace
}  // namespace lockstep::models
