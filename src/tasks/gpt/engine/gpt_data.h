#pragma once
#include <memory>

#include "data/tokens/gpt_stream.h"
#include "plan/gpt_layout.h"
#include "tasks/gpt/front/gpt_options.h"
#include "train/batch_source.h"
#include "train/copy_stream.h"

namespace lockstep::tasks {

/// Training and validation samples of `train gpt`: .bin/.idx pairs and their blends, or Megatron's mock data.
class GptData {
 public:
  /// `place`: of this rank. DataError where files are missing, damaged or too small, or hold ids outside the
  /// vocabulary.
  GptData(const GptOptions& options, const plan::GptLayout& layout, const plan::MeshPoint& place, at::Device device);

  /// From `position` on (null: from the start).
  std::unique_ptr<train::BatchSource> open_train(const core::Json& position) const;
  /// nullptr where nothing is evaluated. `num_done`: evaluations before this one.
  std::unique_ptr<train::BatchSource> open_validation(int64_t num_done) const;
  /// Equal on two ranks when their samples are.
  std::string hash() const { return train_->hash(); }

 private:
  data::GptStream stream(std::shared_ptr<const data::GptSamples> samples) const;

  data::GptStreamConfig config_;
  train::CopyStream copies_;
  int64_t samples_per_evaluation_ = 0;
  std::shared_ptr<const data::GptSamples> train_, valid_;
};

}  // namespace lockstep::tasks
