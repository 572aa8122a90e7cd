#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_case.h"
#include "config/flops.h"
#include "models/task.h"
#include "plan/batch_plan.h"
#include "train/training.h"

namespace lockstep::bench {

/// A model whose training steps are measured; every rank holds all of it.
class StepSubject {
 public:
  virtual ~StepSubject() = default;
  virtual double num_parameters() const = 0;
  /// Of one sample and forward pass.
  virtual config::FlopCount forward() const = 0;
  /// What else a row tells of a step: "sequence_length", ...
  virtual core::Json facts() const { return core::Json::object(); }
  /// Bytes that a rank must hold by the plan of the training command, by part.
  virtual std::vector<std::pair<std::string, double>> memory_parts(const plan::BatchPlan& plan) const = 0;
  /// The batches of --batches, on the device; none where the flag is not given.
  virtual std::vector<models::Batch> given_batches() const { return {}; }
  /// Made-up samples on the device.
  virtual models::Batch make_batch(int64_t num_samples, uint64_t seed) const = 0;
  /// Model, gradients, optimiser and steps as the training command makes them. Collective; called once.
  virtual train::Training& build(const plan::BatchPlan& plan, nn::WorkRecorder* recorder) = 0;
};

/// CLIP, CLAP: `train clip`, `train clap`.
std::unique_ptr<StepSubject> make_contrastive_steps(const BenchContext& context);
/// `train imagenet`.
std::unique_ptr<StepSubject> make_classifier_steps(const BenchContext& context);
/// `train gpt` without tensor and pipeline ranks.
std::unique_ptr<StepSubject> make_gpt_steps(const BenchContext& context);

}  // namespace lockstep::bench
