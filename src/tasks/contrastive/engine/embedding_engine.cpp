// Letters: B samples, T token ids, E shared embedding.
#include "tasks/contrastive/engine/embedding_engine.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/error.h"
#include "models/contrastive_task.h"
#include "tasks/contrastive/engine/text_groups.h"

namespace lockstep::tasks {
namespace {

constexpr int64_t kDeviceLengthStep = 16;

/// The type in which layers multiply.
at::ScalarType product_type(const train::Precision& precision) {
  return precision.autocast_type().value_or(precision.input_type());
}

}  // namespace

EmbeddingEngine::EmbeddingEngine(models::TwoTowers& network, const train::BatchMover& mover,
                                 const train::Precision& precision, Weights weights, const nn::CallRecorder& recorder)
    : network_(network), mover_(mover), precision_(precision), was_training_(network.is_training()),
      is_prepared_(weights == Weights::kFixed) {
  LOCKSTEP_CHECK(!recorder || is_prepared_, "calls are recorded over weights that change");
  network_.set_training(false);
  if (is_prepared_) network_.prepare_inference(product_type(precision));
  const auto features = [&](at::Tensor (models::TwoTowers::*encode)(const at::Tensor&)) {
    return nn::CapturedCall(
        [this, encode](const std::vector<at::Tensor>& inputs) {
          const auto autocast = precision_.autocast();
          return models::normalise_rows((network_.*encode)(inputs.front()));
        },
        recorder);
  };
  picture_call_ = features(&models::TwoTowers::encode_image);
  sound_call_ = features(&models::TwoTowers::encode_audio);
  text_call_ = features(&models::TwoTowers::encode_text);
}

EmbeddingEngine::~EmbeddingEngine() {
  if (is_prepared_) network_.prepare_inference(std::nullopt);
  network_.set_training(was_training_);
}

int64_t EmbeddingEngine::num_recorded() const {
  return picture_call_.num_recorded() + sound_call_.num_recorded() + text_call_.num_recorded();
}

EmbeddingEngine::Features EmbeddingEngine::embed(const data::HostBatch& host) const {
  const c10::NoGradGuard no_grad;
  const models::Batch batch = mover_.to_device(host, train::BatchMover::Texts::kLeave);
  Features features;
  if (batch.image_BCYX.defined()) features.other_BE = pictures(batch.image_BCYX);
  if (batch.audio_BS.defined()) features.other_BE = sounds(batch.audio_BS);
  if (host.context_length > 0)
    features.text_BE = texts(std::span(host.text_BT).first(static_cast<size_t>(host.num_samples * host.context_length)),
                             host.context_length, host.num_samples);
  features.label_B = batch.label_B;
  return features;
}

EmbeddingEngine::Features EmbeddingEngine::embed_captioned(const data::HostBatch& host) const {
  const c10::NoGradGuard no_grad;
  if (!network_.has_captions() || host.context_length == 0 || host.image_pixels == 0) return embed(host);
  const models::Batch batch = mover_.to_device(host);
  const auto autocast = precision_.autocast();
  const models::CaptionedPairs pairs =
      network_.encode_pairs(batch.image_BCYX, batch.text_BT, models::CountedTokens::kAll);
  return {.other_BE = models::normalise_rows(pairs.image_BE),
          .text_BE = models::normalise_rows(pairs.text_BE),
          .label_B = batch.label_B,
          .caption_loss = pairs.loss_sum.to(at::kFloat).div(pairs.num_tokens.clamp_min(1.0))};
}

at::Tensor EmbeddingEngine::pictures(const at::Tensor& image_BCYX) const {
  const c10::NoGradGuard no_grad;
  return picture_call_({image_BCYX});
}

at::Tensor EmbeddingEngine::sounds(const at::Tensor& audio_BS) const {
  const c10::NoGradGuard no_grad;
  return sound_call_({audio_BS});
}

at::Tensor EmbeddingEngine::texts(const at::Tensor& text_BT) const {
  const c10::NoGradGuard no_grad;
  const bool is_on_host = text_BT.is_cpu() && !mover_.device().is_cpu();  // of towers that pack texts there
  return is_on_host ? text_call_.plain({text_BT}) : text_call_({text_BT});
}

at::Tensor EmbeddingEngine::texts(std::span<const int32_t> text_BT, int64_t context_length, int64_t max_rows) const {
  LOCKSTEP_CHECK(context_length > 0 && std::ssize(text_BT) % context_length == 0, "{} ids of {} columns",
                 text_BT.size(), context_length);
  const c10::NoGradGuard no_grad;
  const auto row = [&](int64_t number) {
    return text_BT.subspan(static_cast<size_t>(number * context_length), static_cast<size_t>(context_length));
  };
  std::vector<int64_t> num_ids;
  for (int64_t b = 0; b * context_length < std::ssize(text_BT); ++b) num_ids.push_back(network_.num_used_ids(row(b)));
  const auto groups = group_texts(
      num_ids, context_length,
      {.max_rows = std::max<int64_t>(1, max_rows), .length_step = mover_.device().is_cpu() ? 1 : kDeviceLengthStep});
  std::vector<at::Tensor> parts;
  std::vector<int64_t> place(num_ids.size());  // of each row among the results
  int64_t num_done = 0;
  for (const TextGroup& group : groups) {
    data::HostBatch host;
    host.num_samples = std::ssize(group.rows);
    host.context_length = group.num_ids;
    for (const int64_t number : group.rows) {
      const auto ids = row(number).first(static_cast<size_t>(group.num_ids));
      host.text_BT.insert(host.text_BT.end(), ids.begin(), ids.end());
      place[static_cast<size_t>(number)] = num_done++;
    }
    parts.push_back(texts(mover_.to_device(host).text_BT));
  }
  if (parts.empty()) return texts(at::empty({0, 1}, at::TensorOptions(at::kLong).device(mover_.device())));
  if (parts.size() == 1 && std::is_sorted(place.begin(), place.end())) return parts.front();
  const auto index = at::tensor(place, at::kLong);
  const bool is_on_host = mover_.device().is_cpu();
  return at::cat(parts).index_select(
      0, is_on_host ? index : index.pin_memory().to(mover_.device(), /*non_blocking=*/true));
}

}  // namespace lockstep::tasks
