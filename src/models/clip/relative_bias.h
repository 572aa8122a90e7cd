#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/dropout.h"
#include "nn/layers.h"

namespace lockstep::models {

/// Where patches lie to each other. Letters: R different distances, P patches.
struct RelativePlaces {
  at::Tensor distance_R2;  ///< Rows and columns between two patches, by sign(x) log(1 + |x|); fp32.
  at::Tensor index_Q;      ///< Which distance query and key have, of all P P pairs (Q).
};

RelativePlaces make_relative_places(int64_t cells, const at::TensorOptions& options);

/// timm's RelPosMlp: fc1, ReLU, dropout and fc2 make one number a head of each distance, which is added to the scores
/// of attention. Tokens that are no patches get 0.
class RelativeBias final : public nn::Module {
 public:
  RelativeBias(int64_t mlp_width, int64_t heads, const at::TensorOptions& options);
  /// [1, H, T, T] with T = P + num_others, the others first.
  at::Tensor forward(const RelativePlaces& places, int64_t num_others, const nn::Dropout& dropout) const;

 private:
  nn::Linear fc1_, fc2_;
  int64_t heads_;
};

}  // namespace lockstep::models
