#include "train/recorded_step.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/task.h"

namespace lockstep::train {
namespace {

/// A device whose work can be recorded: launch() does it at once or, while a recorder listens, keeps it for replays.
class RecordingDevice final : public nn::WorkRecorder {
 public:
  using Part = std::vector<std::function<void()>>;

  void launch(std::function<void()> work) {
    if (tape_ != nullptr)
      tape_->push_back(std::move(work));
    else
      work();
  }
  void rehearse(const std::function<void()>& work) override {
    if (is_broken) throw EnvironmentError("no private memory");
    ++num_rehearsed;
    work();
  }
  std::unique_ptr<nn::RecordedWork> record(const std::function<void(const EndPart&)>& work) override {
    ++num_recorded;
    const nn::RecordingScope recording;
    auto recorded = std::make_unique<Recorded>();
    Part part;
    tape_ = &part;
    try {
      work([&] { recorded->parts.push_back(std::exchange(part, {})); });
    } catch (...) {
      tape_ = nullptr;
      throw;
    }
    tape_ = nullptr;
    return recorded;
  }
  bool is_broken = false;
  int num_rehearsed = 0, num_recorded = 0;

 private:
  struct Recorded final : nn::RecordedWork {
    size_t num_parts() const override { return parts.size(); }
    void replay(size_t part) override {
      for (const auto& work : parts.at(part)) work();
    }
    std::vector<Part> parts;
  };
  Part* tape_ = nullptr;
};

/// loss = weight x sum of the pictures; the gradient of the weight is that sum, in new memory in every step.
class ToyStep final : public StepRunner {
 public:
  ToyStep(const StepRunnerParts& parts, RecordingDevice& device, at::Tensor weight, const std::string& fault)
      : parts_(parts), device_(device), weight_(std::move(weight)), fault_(fault) {}

  int num_runs() const { return num_runs_; }
  StepOutcome run(std::span<models::Batch> batches, uint64_t) override {
    ++num_runs_;
    parts_.sync.begin_step();
    const at::Tensor loss = at::zeros({}), gradient = at::zeros_like(weight_);
    device_.launch([loss, gradient] { loss.zero_(), gradient.zero_(); });
    StepOutcome outcome;
    for (models::Batch& batch : batches) {
      const at::Tensor pictures = batch.image_BCYX;
      device_.launch([=, weight = weight_] { loss.add_(pictures.sum().mul(weight.detach().sum())); });
      outcome.num_samples += batch.num_samples;
    }
    parts_.mark(Phase::kForward);
    if (fault_ == "draws") nn::refuse_recording("a draw");
    if (fault_ == "breaks" && num_runs_ == 3) throw DataError("the step's own");
    if (fault_ == "refuses 5" && batches.front().num_samples == 5) nn::refuse_recording("a draw");
    for (models::Batch& batch : batches) {
      const at::Tensor pictures = batch.image_BCYX;
      device_.launch([=] { gradient.add_(pictures.sum()); });
    }
    weight_.mutable_grad() = gradient;
    parts_.mark(Phase::kBackward);
    outcome.scalars.emplace_back("loss", loss);
    return outcome;
  }

 private:
  StepRunnerParts parts_;
  RecordingDevice& device_;
  at::Tensor weight_;
  std::string fault_;
  int num_runs_ = 0;
};

/// Never asked for anything.
struct NoTask final : models::Task {
  nn::Module& network() override { LOCKSTEP_CHECK(false, "no network"); }
  models::Outputs forward(const models::Batch&) override { LOCKSTEP_CHECK(false, "no network"); }
  models::LossReport loss(const models::Outputs&) override { LOCKSTEP_CHECK(false, "no network"); }
};

class RecordedSteps : public testing::Test {
 protected:
  void make(const std::string& fault = "") {
    weight_ = at::full({1}, 2.0).set_requires_grad(true);
    sync_ = parallel::make_grad_sync_none({{"weight", &weight_}});
    runner_ = make_recorded_step({.task = task_,
                                  .sync = *sync_,
                                  .precision = precision_,
                                  .on_phase_end = [this](Phase phase) { phases_.push_back(phase); },
                                  .recorder = &device_,
                                  .on_recording = [this](const std::string& what) { told_.push_back(what); }},
                                 [&](const StepRunnerParts& parts) {
                                   EXPECT_EQ(parts.recorder, nullptr);
                                   auto toy = std::make_unique<ToyStep>(parts, device_, weight_, fault);
                                   toy_ = toy.get();
                                   return toy;
                                 });
  }
  static models::Batch batch_of(int64_t samples, double value) {
    models::Batch batch;
    batch.image_BCYX = at::full({samples, 1, 1, 1}, value);
    batch.num_samples = samples;
    return batch;
  }
  StepOutcome step(std::vector<models::Batch> batches) { return runner_->run(batches, 7); }
  /// One step of one batch, with the loss, gradient and phases of the plain way.
  StepOutcome expect_step(int64_t samples, double value) {
    phases_.clear();
    const StepOutcome outcome = step({batch_of(samples, value)});
    const double sum = static_cast<double>(samples) * value, weight = weight_.item<float>();
    EXPECT_FLOAT_EQ(outcome.scalars.at(0).second.item<float>(), static_cast<float>(weight * sum));
    EXPECT_TRUE(weight_.grad().defined());
    EXPECT_FLOAT_EQ(weight_.grad().item<float>(), static_cast<float>(sum));
    EXPECT_EQ(outcome.num_samples, samples);
    EXPECT_EQ(phases_, (std::vector<Phase>{Phase::kForward, Phase::kBackward}));
    return outcome;
  }

  NoTask task_;
  Precision precision_{"fp32", c10::DeviceType::CPU};
  RecordingDevice device_;
  at::Tensor weight_;
  std::unique_ptr<parallel::GradSync> sync_;
  std::unique_ptr<StepRunner> runner_;
  ToyStep* toy_ = nullptr;  // of the runner
  std::vector<Phase> phases_;
  std::vector<std::string> told_;  // of what became of recording
};

TEST_F(RecordedSteps, ReplaysReadTheBatchAndTheWeightsOfTheirStep) {
  make();
  std::vector<std::pair<at::Tensor, float>> losses;
  for (int i = 1; i <= 8; ++i) {
    const StepOutcome outcome = expect_step(3, i);
    losses.emplace_back(outcome.scalars.at(0).second, outcome.scalars.at(0).second.item<float>());
    const c10::NoGradGuard no_grad;
    weight_.add_(0.5);  // an update
    EXPECT_EQ(device_.num_rehearsed, i >= 3 ? 1 : 0);
    EXPECT_EQ(device_.num_recorded, i >= 4 ? 1 : 0);
  }
  for (const auto& [tensor, value] : losses) EXPECT_EQ(tensor.item<float>(), value) << "no later step writes there";
}

TEST_F(RecordedSteps, FormsTakeTurnsAndEachHasItsGradient) {
  make();
  for (int round = 0; round < 8; ++round)
    for (const int64_t samples : {2, 5}) expect_step(samples, 1.0 + round);
  EXPECT_EQ(device_.num_recorded, 2);
  expect_step(2, 3.0);
  expect_step(9, 3.0);  // a plain step drops the gradients of the recorded ones
  expect_step(2, 4.0);
  for (int round = 0; round < 8; ++round)
    for (const int64_t samples : {9, 10, 11, 12}) expect_step(samples, 1.0);
  EXPECT_EQ(device_.num_recorded, 4) << "of 2, 5, 9 and 10 samples";
}

TEST_F(RecordedSteps, TypesStridesAndTheNumberOfBatchesMakeForms) {
  make();
  const auto pictures = [](const at::Tensor& tensor) {
    models::Batch batch;
    batch.image_BCYX = tensor;
    batch.num_samples = tensor.size(0);
    return batch;
  };
  const at::Tensor plain = at::ones({2, 3, 4, 4});
  for (int round = 0; round < 5; ++round) {
    for (const at::Tensor& tensor : {plain, plain.to(at::kDouble), plain.to(at::MemoryFormat::ChannelsLast)})
      EXPECT_EQ(step({pictures(tensor)}).scalars.at(0).second.item<float>(), 192.0f);
    EXPECT_EQ(step({pictures(plain), pictures(plain)}).scalars.at(0).second.item<float>(), 384.0f);
  }
  EXPECT_EQ(device_.num_recorded, 4);
}

TEST_F(RecordedSteps, WhatCannotBeRecordedGoesOnPlain) {
  make("draws");
  for (int i = 1; i <= 6; ++i) expect_step(3, i);
  EXPECT_EQ(device_.num_recorded, 1) << "tried once";
  EXPECT_EQ(told_, std::vector<std::string>{"refused: a draw differs from step to step"});
}

TEST_F(RecordedSteps, AFormThatCannotBeRecordedLeavesTheOthers) {
  make("refuses 5");
  for (int i = 1; i <= 6; ++i) expect_step(2, i);
  for (int i = 1; i <= 6; ++i) expect_step(5, i);
  EXPECT_EQ(device_.num_recorded, 2);
  const int num_plain = toy_->num_runs();
  expect_step(2, 7.0);
  EXPECT_EQ(toy_->num_runs(), num_plain) << "still replayed";
  expect_step(5, 7.0);
  EXPECT_EQ(toy_->num_runs(), num_plain + 1);
  EXPECT_EQ(told_, std::vector<std::string>{"used"}) << "whatever became of the other form";
}

TEST_F(RecordedSteps, AFormThatIsReplayedIsToldAfterOneThatIsNot) {
  make("refuses 5");
  for (int i = 1; i <= 6; ++i) expect_step(5, i);
  for (int i = 1; i <= 6; ++i) expect_step(2, i);
  EXPECT_EQ(told_, (std::vector<std::string>{"refused: a draw differs from step to step", "used"}));
}

TEST(RecordingAtStart, SaysWhyThereWillBeNone) {
  EXPECT_EQ(recording_at_start("auto", /*is_cuda=*/false, 1), "");
  EXPECT_EQ(recording_at_start("off", true, 8), "off");
  EXPECT_EQ(recording_at_start("auto", true, 8), "not with several ranks");
  EXPECT_EQ(recording_at_start("auto", true, 1), "no step was recorded");
}

TEST_F(RecordedSteps, KeptFeaturesAndBatchesOfTheHostAreRefused) {
  make();
  models::Batch kept = batch_of(1, 1.0);
  kept.image_keys_B = {"key"};
  for (int i = 0; i < 5; ++i) step({kept});
  EXPECT_EQ(device_.num_rehearsed + device_.num_recorded, 0);
  make();
  models::Batch apart = batch_of(1, 1.0);
  apart.text_BT = at::empty({1, 4}, at::TensorOptions(at::kMeta).dtype(at::kLong));
  for (int i = 0; i < 5; ++i) step({apart});
  EXPECT_EQ(device_.num_rehearsed + device_.num_recorded, 0);
  make();
  for (int i = 0; i < 5; ++i) step(std::vector<models::Batch>(17, batch_of(1, 1.0)));
  EXPECT_EQ(device_.num_rehearsed + device_.num_recorded, 0);
}

TEST_F(RecordedSteps, ErrorsOfTheStepItselfAreNotTakenForOnesOfTheRecorder) {
  make("breaks");
  expect_step(1, 1.0);
  expect_step(1, 2.0);
  EXPECT_THROW(step({batch_of(1, 3.0)}), DataError);
  device_.is_broken = true;
  make();
  for (int i = 1; i <= 6; ++i) expect_step(1, i);
  EXPECT_EQ(device_.num_recorded, 0);
}

}  // namespace
}  // namespace lockstep::train
