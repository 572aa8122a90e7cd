#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.h"
#include "data/loader.h"
#include "data/tokenizer.h"
#include "data/train_stream.h"
#include "data/transform.h"
#include "plan/batch_plan.h"
#include "spec/clip_shape.h"
#include "spec/train_options.h"

namespace lockstep::train {

/// The streams of a CLIP run: training, validation pairs, labelled pictures. They share the tokenizer and the picture preparation.
class ClipData {
 public:
  /// Makes missing indices where that is allowed (rank 0). Collective.
  ClipData(const spec::TrainOptions& options, const spec::ClipShape& shape, comm::World& world, const plan::BatchPlan& batch);

  /// The training stream from `position` on (of an earlier loader; null: from the start). There must be training data.
  std::unique_ptr<data::Loader> open_train(const core::Json& position = {});
  data::EpochSize epoch_size() const;
  /// Pairs of --val-data; each once over all ranks.
  std::unique_ptr<data::Loader> open_validation();
  /// Labelled pictures of a folder of class folders or of shards with .cls members.
  std::unique_ptr<data::Loader> open_labelled(const std::string& spec);

  bool has_train() const { return !options_.train_data.empty() || options_.dataset_type == "synthetic"; }
  const data::ClipTokenizer& tokenizer() const { return *tokenizer_; }
  const data::TransformConfig& transform() const { return eval_transform_; }

 private:
  data::SourceConfig train_source() const;
  data::SourceConfig eval_source(const std::string& spec) const;
  std::unique_ptr<data::Loader> make_loader(std::unique_ptr<data::SampleSource> source, const data::TransformConfig& transform, bool with_text,
                                            bool is_train) const;

  const spec::TrainOptions& options_;
  spec::ClipShape shape_;
  int64_t rank_, world_size_;
  plan::BatchPlan batch_;
  data::TransformConfig train_transform_, eval_transform_;
  std::shared_ptr<const data::ClipTokenizer> tokenizer_;
};

/// The options of picture preparation that training and inference share. `transform` starts with OpenCLIP's defaults.
struct PreparationOptions {
  const std::optional<std::string>& interpolation;
  const std::optional<std::string>& resize_mode;
  const std::string& resize_order;
  const std::vector<double>& mean;
  const std::vector<double>& std;
  int64_t max_image_pixels;
};
void apply_preparation(const PreparationOptions& options, data::TransformConfig& transform);

/// Picture preparation from options; `is_train` false gives the evaluation form.
data::TransformConfig make_transform(const spec::TrainOptions& options, const spec::ClipShape& shape, bool is_train);
/// The tokenizer of a vocabulary file, or of the installed one when `path` is empty.
std::shared_ptr<const data::ClipTokenizer> load_tokenizer(const std::string& path);

}  // namespace lockstep::train
