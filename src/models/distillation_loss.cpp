#include "models/distillation_loss.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"
#include "models/pair_logits.h"

namespace lockstep::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows of all ranks; each rank's gradient is the sum of what all ranks computed for its rows.
class GatherRows : public torch::autograd::Function<GatherRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& mine_BE, comm::Comm* data_axis) {
    context->saved_data["comm"] = reinterpret_cast<int64_t>(data_axis);
    auto all_NE = at::empty({mine_BE.size(0) * data_axis->size(), mine_BE.size(1)}, mine_BE.options());
    data_axis->all_gather_into(all_NE, mine_BE.contiguous()).wait();
    return all_NE;
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    auto* data_axis = reinterpret_cast<comm::Comm*>(context->saved_data["comm"].toInt());
    const at::Tensor all_NE = upstream[0].contiguous();
    auto mine_BE = at::empty({all_NE.size(0) / data_axis->size(), all_NE.size(1)}, all_NE.options());
    data_axis->reduce_scatter_into(mine_BE, all_NE).wait();
    return {mine_BE, at::Tensor()};
  }
};

/// Mean over the rows of the cross entropy of softmax(student) against softmax(teacher).
at::Tensor cross_entropy_of_rows(const at::Tensor& student_RN, const at::Tensor& teacher_RN) {
  return -(teacher_RN.softmax(1) * student_RN.log_softmax(1)).sum(1).mean();
}

}  // namespace

ContrastiveLoss distillation_loss(const at::Tensor& image_BE, const at::Tensor& text_BE, const at::Tensor& logit_scale,
                                  const TeacherFeatures& teacher, comm::Comm& data_axis) {
  LOCKSTEP_CHECK(image_BE.sizes() == text_BE.sizes() && teacher.image_BE.sizes() == teacher.text_BE.sizes() &&
                     teacher.image_BE.size(0) == image_BE.size(0),
                 "student rows={}, teacher rows={}", image_BE.size(0), teacher.image_BE.size(0));
  // Autocast would round the logits to half precision.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const int64_t E = image_BE.size(1), T = teacher.image_BE.size(1);
  const auto wide = [](const at::Tensor& features) { return features.to(at::kFloat); };
  const at::Tensor image_RE = wide(image_BE), text_RE = wide(text_BE);
  const at::Tensor teacher_image_RT = wide(teacher.image_BE), teacher_text_RT = wide(teacher.text_BE);
  at::Tensor all_NE = at::cat({image_RE, text_RE}, 1);
  if (data_axis.size() > 1) all_NE = GatherRows::apply(all_NE, &data_axis);
  const at::Tensor teacher_NT = gather_features(teacher_image_RT, teacher_text_RT, data_axis);
  const auto scale = logit_scale.reshape({}).to(at::kFloat);
  const auto teacher_scale = teacher.logit_scale.reshape({}).to(at::kFloat);
  const auto by_image = cross_entropy_of_rows(scale * image_RE.matmul(all_NE.narrow(1, E, E).t()),
                                              teacher_scale * teacher_image_RT.matmul(teacher_NT.narrow(1, T, T).t()));
  const auto by_text = cross_entropy_of_rows(scale * text_RE.matmul(all_NE.narrow(1, 0, E).t()),
                                             teacher_scale * teacher_text_RT.matmul(teacher_NT.narrow(1, 0, T).t()));
  const auto loss = 0.5 * (by_image + by_text);
  return {.loss = loss, .global_loss = mean_over_ranks(loss, data_axis)};
}

}  // namespace lockstep::models
