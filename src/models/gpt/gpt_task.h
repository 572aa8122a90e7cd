#pragma once
#include <memory>
#include <vector>

#include "models/gpt/gpt_model.h"
#include "models/staged_task.h"

namespace lockstep::models {

/// Next-token prediction. This rank's parts of the model are the chunks of the StagedTask.
class GptTask final : public StagedTask {
 public:
  /// At least one part, in the order of the model. `data_axis`: ranks that see other samples (nullptr: none); outlives
  /// the task.
  explicit GptTask(std::vector<std::unique_ptr<GptModel>> chunks, comm::Comm* data_axis = nullptr);

  nn::Module& network() override { return network_; }
  GptModel& chunk(int64_t index) { return *chunks_.at(static_cast<size_t>(index)); }
  int64_t num_chunks() const { return std::ssize(chunks_); }

  /// DataError without tokens, or, for the part with the head, without targets.
  Outputs forward(const Batch& batch) override;
  /// Sum of weight x loss over the sum of the weights of the micro-batch (at least 1). One part, "lm_loss", equal to
  /// it.
  LossReport loss(const Outputs& outputs) override;

  Outputs forward_chunk(int64_t chunk, const at::Tensor& input_TBD, const Batch& batch) override;
  std::vector<int64_t> boundary_shape(int64_t num_samples) const override;
  /// Under FP8 with delayed scaling: new scales.
  void finish_step() override;

 private:
  struct Chunks : nn::Module {
    void add(GptModel& chunk) { register_child("", chunk); }
  };
  std::vector<std::unique_ptr<GptModel>> chunks_;
  comm::Comm* data_axis_;
  Chunks network_;
};

}  // namespace lockstep::models
