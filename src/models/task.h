#pragma once
#include <ATen/core/TensorBody.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/forward_context.h"
#include "nn/module.h"

namespace lockstep::models {

/// One micro-batch on the device. Absent parts are undefined tensors.
struct Batch {
  at::Tensor image_BCYX;      ///< float or the compute type, normalised; channels_last memory.
  at::Tensor audio_BS;        ///< float samples at the model's rate, in [-1, 1].
  at::Tensor text_BT;         ///< int64 token ids; of towers that pack texts (RoBERTa) in memory of the host.
  at::Tensor label_B;         ///< int64 class index.
  at::Tensor target_BT;       ///< int64: the token that follows each one.
  at::Tensor loss_weight_BT;  ///< float loss mask; undefined: ones.
  at::Tensor position_BT;     ///< int64 positions; undefined: 0, 1, ...
  at::Tensor document_BT;  ///< int64 number of each token's document, which alone it may see; undefined: all before it.
  /// Of contents of image_BCYX and text_BT, where features of locked towers are kept (FeatureCache).
  std::vector<std::string> image_keys_B = {}, text_keys_B = {};
  int64_t num_samples = 0;
  ForwardContext context;  ///< Set by the StepRunner.
};

/// What the network computes for a micro-batch. Contrastive: L2-normalised features and the two scalars of the loss.
/// Language models and classifiers: the loss itself; logits of the former exist only in pieces.
struct Outputs {
  at::Tensor image_BE;  ///< Of the tower beside the text: images or audio.
  at::Tensor text_BE;
  at::Tensor logit_scale;                        ///< exp of the parameter, 0-dim.
  at::Tensor logit_bias;                         ///< undefined unless the model has one.
  at::Tensor teacher_image_BE, teacher_text_BE;  ///< Normalised features of the teacher, where there is one.
  at::Tensor boundary_TBD;                       ///< Between two chunks of a StagedTask.
  at::Tensor loss_sum;                           ///< 0-dim: weight x loss, summed over the tokens (captions, GPT).
  at::Tensor weight_sum;                         ///< 0-dim: sum of the weights.
  at::Tensor token_loss_BT;                      ///< Detached, without weights.
  at::Tensor hits_2;  ///< Classifiers: samples whose class has the highest score, and one of the five highest.
};

/// A scalar to differentiate (already shaped so that averaging gradients over the data axis gives the gradient of the
/// global loss), and scalars to report. All stay on the device; the values to report are detached.
struct LossReport {
  at::Tensor loss;
  /// For example {"contrastive_loss", ...}; the total is "loss".
  std::vector<std::pair<std::string, at::Tensor>> parts;
  std::vector<std::pair<std::string, at::Tensor>> scalars = {};  ///< What else is reported: means over a step's losses.
};

/// Network + loss.
class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Module& network() = 0;
  virtual Outputs forward(const Batch& batch) = 0;
  /// Collective over the data axis. `outputs` may cover several micro-batches joined (feature cache).
  virtual LossReport loss(const Outputs& outputs) = 0;
};

}  // namespace lockstep::models
