#pragma once
#include <ATen/core/TensorBody.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "data/loader.h"
#include "data/text/text_encoder.h"
#include "tasks/contrastive/engine/embedding_engine.h"
#include "tasks/contrastive/engine/retrieval.h"

namespace lockstep::tasks {

/// What embeds, and the ranks that share the work. Plain references: the owner outlives it.
struct EncoderContext {
  const EmbeddingEngine& engine;
  comm::Comm& data_axis;
  /// Where set: called after each batch with the samples of this rank so far.
  std::function<void(int64_t num_done)> on_progress = {};
};

/// L2-normalised fp32 features of the samples that all ranks read, in the order of their sample numbers.
/// Undefined where the batches have no such part.
struct EncodedSet {
  at::Tensor image_NE;  ///< Of the tower beside the text: images or sounds.
  at::Tensor text_NE;
  at::Tensor label_N;  ///< int64
  int64_t num_samples = 0;
  int64_t num_failed = 0;                ///< Samples that the loaders left out.
  std::optional<double> caption_loss{};  ///< Of a captioning model: the mean over samples of Features::caption_loss.
};

/// Encodes the rest of `loader` (an evaluation stream: rank r holds samples r, r + W, ...) without gradient;
/// collective. All ranks get all, on `place`.
EncodedSet encode_all(const EncoderContext& context, data::Loader& loader, at::Device place = at::kCPU);

/// Features [N, E] of texts in their order, fp32 on the CPU; each rank encodes its share, all get the whole.
/// Collective.
at::Tensor encode_texts(const EncoderContext& context, const data::TextEncoder& encoder, int64_t context_length,
                        const std::vector<std::string>& texts, int64_t samples_per_batch);

/// Class embeddings [K, E]: per class the mean of its normalised prompt embeddings, normalised again. "{}" in a
/// template is the class name. Collective.
at::Tensor zero_shot_classifier(const EncoderContext& context, const data::TextEncoder& encoder, int64_t context_length,
                                const std::vector<std::string>& class_names, const std::vector<std::string>& templates,
                                int64_t samples_per_batch);

/// Validation on pairs of texts and what `modality` says ("image", "audio"): retrieval, clip_val_loss or
/// clap_val_loss, num_samples, num_failed where samples were left out, of a captioning model val_generative_loss. Equal
/// on every rank.
train::Metrics validate_pairs(const EncoderContext& context, const std::string& modality, data::Loader& loader,
                              int64_t samples_per_batch);

/// Top-1 and top-5 of labelled pictures under `prefix` ("imagenet-zeroshot-val" gives imagenet-zeroshot-val-top1, ...).
/// DataError when a label is not a class. Equal on every rank.
train::Metrics zero_shot_accuracy(const std::string& prefix, const EncodedSet& pictures, const at::Tensor& class_KE);

}  // namespace lockstep::tasks
