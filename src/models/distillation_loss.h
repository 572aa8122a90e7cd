#pragma once
#include "models/contrastive_loss.h"

namespace lockstep::models {

/// Normalised features of own pairs and the scale of their logits, detached.
struct TeacherFeatures {
  at::Tensor image_BE, text_BE;
  at::Tensor logit_scale;  ///< s itself, 0-dim.
};

/// A tile of logits of distillation_loss: what the contrastive loss gives to one of its directions.
inline constexpr int64_t kDistillationLogitBytes = int64_t{32} << 20;

/// Cross entropy of the student's softmax over the pairs of all data ranks against the teacher's, mean of both
/// directions, in fp32: what OpenCLIP adds to the contrastive loss under --distill-model.
///
/// image_BE, text_BE: the student's L2-normalised features, equal B on all ranks. Three all-gathers forward (features
/// of student, of the teacher; losses) and one reduce-scatter backward. One direction after the other, logits come in
/// tiles of `logit_bytes` and are computed again in the backward pass: student's, teacher's and two of their
/// exponentials are held at a time.
ContrastiveLoss distillation_loss(const at::Tensor& image_BE, const at::Tensor& text_BE, const at::Tensor& logit_scale,
                                  const TeacherFeatures& teacher, comm::Comm& data_axis,
                                  int64_t logit_bytes = kDistillationLogitBytes);

}  // namespace lockstep::models
