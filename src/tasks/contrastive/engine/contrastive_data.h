#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.h"
#include "config/contrastive_shape.h"
#include "data/loader.h"
#include "data/pictures/transform.h"
#include "data/sounds/waveform.h"
#include "data/text/json_caption.h"
#include "data/text/text_encoder.h"
#include "data/train_stream.h"
#include "plan/batch_plan.h"
#include "tasks/contrastive/front/contrastive_options.h"
#include "train/batch_mover.h"

namespace lockstep::tasks {

/// The streams of a contrastive run: training, validation pairs, labelled pictures or sounds. They share the tokenizer
/// and the preparation.
class ContrastiveData {
 public:
  /// Makes missing indices where that is allowed (rank 0). Collective.
  ContrastiveData(const ContrastiveOptions& options, const config::ContrastiveShape& shape, comm::World& world,
                  const plan::BatchPlan& batch);

  /// The training stream from `position` on (of an earlier loader; null: from the start). There must be training data.
  std::unique_ptr<data::Loader> open_train(const core::Json& position = {});
  data::EpochSize epoch_size() const;
  /// DataError where shards of evaluation data do not exist.
  void refuse_missing(const std::string& spec) const;
  /// Pairs of --val-data; each once over all ranks.
  std::unique_ptr<data::Loader> open_validation();
  /// Labelled pictures or sounds of a folder of class folders (see data::SourceConfig::numbered_classes) or of shards
  /// with .cls members.
  std::unique_ptr<data::Loader> open_labelled(const std::string& spec, bool numbered_classes);

  bool has_train() const { return !options_.train_data.empty() || options_.has_made_up_data(); }
  const data::TextEncoder& text_encoder() const { return text_encoder_; }

 private:
  /// That of the model, or of made-up data, which need no tokenizer.
  data::TextEncoder open_text_encoder() const;
  data::SourceConfig train_source() const;
  data::SourceConfig eval_source(const std::string& spec) const;
  data::SampleDecoder make_decoder(bool is_train) const;
  data::JsonCaptionKeys json_caption_keys(bool is_train) const;
  std::unique_ptr<data::Loader> make_loader(std::unique_ptr<data::SampleSource> source, bool with_text,
                                            bool is_train) const;

  const ContrastiveOptions& options_;
  config::ContrastiveShape shape_;
  int64_t rank_, world_size_;
  plan::BatchPlan batch_;
  data::TextEncoder text_encoder_;
};

/// The options of picture preparation that training and inference share. `transform` starts with OpenCLIP's defaults.
struct PreparationOptions {
  const std::optional<std::string>& interpolation;
  const std::optional<std::string>& resize_mode;
  const std::optional<int64_t>& fill_color;
  const std::string& resize_order;
  const std::vector<double>& mean;
  const std::vector<double>& std;
  int64_t max_image_pixels;
};
void apply_preparation(const PreparationOptions& options, data::TransformConfig& transform);

/// Picture preparation from options; `is_train` false gives the evaluation form.
data::TransformConfig make_transform(const ContrastiveOptions& options, const config::ClipShape& shape, bool is_train);
/// The options of sound preparation that training and inference share.
struct SoundOptions {
  const std::string& fill;
  const std::string& trunc;
  bool int16_normalize;
};
/// Sound preparation from options; the evaluation form crops nothing at random.
data::WaveformConfig make_waveform(const SoundOptions& options, const config::AudioShape& shape, bool is_train);
/// The prompt of zero-shot classification of sounds (LAION's CLAP) where no other is given.
inline constexpr const char* kSoundTemplate = "This is a sound of {}.";
/// Where the model's text tower takes its ids from.
train::BatchMover::TextPlace text_place(const config::ContrastiveShape& shape);
/// Batches of a task's pictures or sounds to the device.
train::BatchMover make_batch_mover(const ContrastiveOptions& options, const config::ContrastiveShape& shape,
                                   at::Device device, at::ScalarType input_type);

/// The tokenizer of a model's text tower. CLIP's: a vocabulary file, or the installed one when `path` is empty.
/// RoBERTa's: its padding must be the tower's and its ids must fit. Others: a SentencePiece file. An empty path gives,
/// for CLAP models, the same ids for every text, none of them padding, so that a step costs what the nominal context
/// length costs; for CLIP models an encoder that refuses the first text (UsageError): their image tower needs none.
data::TextEncoder load_text_encoder(const std::string& path, const config::ContrastiveShape& shape);

}  // namespace lockstep::tasks
