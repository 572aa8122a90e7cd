#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <span>

#include "data/batch.h"
#include "models/two_towers.h"
#include "nn/captured_call.h"
#include "train/batch_mover.h"
#include "train/precision.h"

namespace lockstep::tasks {

/// Whether parameters stay as they are, and where they are, while an engine lives. Only then may it record calls.
enum class Weights { kChanging, kFixed };

/// Two towers that only embed: for infer, `bench latency` and evaluation.
///
/// While it lives the network is in evaluation mode; no call keeps what a gradient would need. With fixed weights the
/// products on the CPU read weights that were packed once for the precision. Texts are computed only as long as their
/// features need, in groups of like length; on an accelerator lengths are multiples of 16, so that few shapes occur.
/// With a recorder small batches of a shape that comes again are replayed; recording one waits for the device, no other
/// call does. One thread calls. All that is referred to outlives it.
class EmbeddingEngine {
 public:
  EmbeddingEngine(models::TwoTowers& network, const train::BatchMover& mover, const train::Precision& precision,
                  Weights weights, const nn::CallRecorder& recorder = {});
  ~EmbeddingEngine();
  EmbeddingEngine(const EmbeddingEngine&) = delete;
  EmbeddingEngine& operator=(const EmbeddingEngine&) = delete;

  /// L2-normalised fp32 features on the device.
  struct Features {
    at::Tensor other_BE;  ///< Of pictures or sounds; undefined where the batch has none.
    at::Tensor text_BE;   ///< Likewise.
    at::Tensor label_B;   ///< Passed through, on the device.
    /// 0-dim fp32, of captioned pairs: the mean cross entropy of the texts' next tokens, padding among them, as
    /// OpenCLIP's val_generative_loss; undefined of others.
    at::Tensor caption_loss;
  };
  /// Of a batch as a loader gives it. Its memory may be reused as soon as this returns.
  Features embed(const data::HostBatch& host) const;
  /// The same, of a captioning model with the loss of its captions. No call is recorded.
  Features embed_captioned(const data::HostBatch& host) const;
  /// Features [B, E] of the tower beside the text; inputs as models::Batch has them.
  at::Tensor pictures(const at::Tensor& image_BCYX) const;
  at::Tensor sounds(const at::Tensor& audio_BS) const;
  /// Of padded token ids, row by row: [rows, E]. At most `max_rows` of them at once.
  at::Tensor texts(std::span<const int32_t> text_BT, int64_t context_length, int64_t max_rows) const;
  /// Of ids on the device, all columns, as they are.
  at::Tensor texts(const at::Tensor& text_BT) const;

  models::TwoTowers& network() const { return network_; }
  const train::BatchMover& mover() const { return mover_; }
  /// Shapes of all towers that are replayed now.
  int64_t num_recorded() const;

 private:
  models::TwoTowers& network_;
  const train::BatchMover& mover_;
  const train::Precision& precision_;
  bool was_training_, is_prepared_;
  mutable nn::CapturedCall picture_call_, sound_call_, text_call_;  // they count
};

}  // namespace lockstep::tasks
