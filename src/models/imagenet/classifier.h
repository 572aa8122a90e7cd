#pragma once
#include <ATen/core/TensorBody.h>

#include "comm/comm.h"
#include "nn/module.h"

namespace lockstep::models {

struct ClassifierOptions {
  at::TensorOptions tensors = {};          ///< Device and type of the parameters at first; the default: fp32, CPU.
  comm::Comm* batch_norm_ranks = nullptr;  ///< Batch-norm statistics over these ranks; outlives the model.
  bool freezes_statistics = false;         ///< Batch norm uses its running statistics in training, too.
};

/// A network from pictures to a score per class, with torchvision's names of parameters.
class Classifier : public nn::Module {
 public:
  /// [B, 3, Y, X] -> [B, K]. The memory format of the pictures is that of all feature maps.
  virtual at::Tensor forward(const at::Tensor& image_BCYX) = 0;
};

}  // namespace lockstep::models
