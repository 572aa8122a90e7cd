#pragma once
#include <ATen/core/TensorBody.h>

#include "comm/comm.h"
#include "models/forward_context.h"
#include "nn/module.h"

namespace lockstep::models {

struct ClipModelOptions {
  at::TensorOptions tensors = {};   ///< Device and type of the parameters at first; the default is fp32 on the CPU.
  bool grad_checkpointing = false;  ///< Transformer blocks keep only their inputs for the backward pass.
  /// False: compute what cannot reach the result as well, as OpenCLIP does (for comparisons).
  bool exact_shortcuts = true;
  bool freezes_batch_norm = false;         ///< --lock-image-freeze-bn-stats.
  comm::Comm* batch_norm_ranks = nullptr;  ///< --use-bn-sync: statistics over these ranks. Must outlive the model.
};

/// What an image tower gives to a captioning model.
struct ImageFeatures {
  at::Tensor pooled_BE;   ///< Not normalised.
  at::Tensor tokens_BTD;  ///< What the decoder reads.
};

/// The image half of CLIP: pixels to features in the shared space.
class ImageTower : public nn::Module {
 public:
  /// [B, 3, Y, X] -> [B, E], not normalised. Y and X must be those of the shape.
  virtual at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) = 0;
  /// The same with the tokens of the picture. A tower that no captioning model has refuses (an invariant).
  virtual ImageFeatures forward_with_tokens(const at::Tensor& image_BCYX, const ForwardContext& context);
  /// Recompute blocks in the backward pass. A tower without blocks to recompute ignores it, as OpenCLIP's
  /// ModifiedResNet does.
  virtual void set_checkpointing(bool) {}
  /// Batch norm over all ranks of `comm`. A tower without batch norm ignores it.
  virtual void synchronize_batch_norm(comm::Comm*) {}
  /// Batch norm by its running statistics, which stay as they are. A tower without batch norm ignores it.
  virtual void freeze_batch_norm() {}
};

}  // namespace lockstep::models
