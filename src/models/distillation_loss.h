#pragma once
#include "models/contrastive_loss.h"

namespace lockstep::models {

/// Normalised features of own pairs and the scale of their logits, detached.
struct TeacherFeatures {
  at::Tensor image_BE, text_BE;
  at::Tensor logit_scale;  ///< s itself, 0-dim.
};

/// Cross entropy of the student's softmax over the pairs of all data ranks against the teacher's, mean of both
/// directions, in fp32: what OpenCLIP adds to the contrastive loss under --distill-model.
///
/// image_BE, text_BE: the student's L2-normalised features, equal B on all ranks. Three all-gathers forward (features
/// of student, of the teacher; losses) and one reduce-scatter backward. Logits of B x N pairs exist at once, four
/// times.
ContrastiveLoss distillation_loss(const at::Tensor& image_BE, const at::Tensor& text_BE, const at::Tensor& logit_scale,
                                  const TeacherFeatures& teacher, comm::Comm& data_axis);

}  // namespace lockstep::models
