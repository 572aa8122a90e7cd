#pragma once
#include <memory>
#include <string>

#include "comm/world.h"
#include "data/loader.h"
#include "data/pictures/augment.h"
#include "data/pictures/transform.h"
#include "data/train_stream.h"
#include "plan/batch_plan.h"
#include "tasks/imagenet/front/imagenet_options.h"

namespace lockstep::tasks {

/// Whether a loader names bad pictures in the log. Whoever reads the same ones again does not.
enum class TellBadSamples { kNo, kYes };

/// The streams of labelled pictures of a run: training and validation.
class ImagenetData {
 public:
  /// Makes missing indices where that is allowed (rank 0), and reads the first validation pictures. Collective.
  ImagenetData(const ImagenetOptions& options, comm::World& world, const plan::BatchPlan& batch);

  /// The training stream from `position` on (of an earlier loader; null: from the start). There must be training data.
  std::unique_ptr<data::Loader> open_train(const core::Json& position);
  /// Each picture of the validation data once over all ranks.
  std::unique_ptr<data::Loader> open_validation(TellBadSamples tells) const;
  data::EpochSize epoch_size() const;
  bool has_train() const {
    return !options_.is_evaluate && (!options_.train_data.empty() || options_.has_made_up_data());
  }
  bool has_validation() const;

 private:
  void stage(comm::World& world);
  data::SourceConfig train_source() const;
  data::SourceConfig validation_source() const;
  std::unique_ptr<data::Loader> make_loader(std::unique_ptr<data::SampleSource> source, bool is_train,
                                            TellBadSamples tells) const;

  const ImagenetOptions& options_;
  int64_t rank_, world_size_;
  plan::BatchPlan batch_;
  std::string train_spec_;  // --train-data, or its copy by --stage-to
};

/// Preparation of pictures from options: crops of so many pixels, random ones or centres.
data::TransformConfig make_imagenet_transform(const ImagenetOptions& options, bool is_train, int64_t crop_pixels);

/// What happens to training pictures behind that. Erased boxes have the colour that becomes zero, as in torchvision, to
/// half of one of 255 levels.
data::AugmentConfig make_imagenet_augment(const ImagenetOptions& options);

}  // namespace lockstep::tasks
