#include "models/distillation_loss.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

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

/// Cross entropy of one row's softmax against the teacher's, column blocks coming one by one:
///   L_i = log sum_j exp(l_ij) - sum_j Q_ij l_ij,   Q the teacher's softmax.
class OnlineCrossEntropy {
 public:
  OnlineCrossEntropy(int64_t num_rows, const at::TensorOptions& options)
      : student_max_R_(at::full({num_rows}, -std::numeric_limits<float>::infinity(), options)),
        student_sum_R_(at::zeros({num_rows}, options)), teacher_max_R_(student_max_R_.clone()),
        teacher_sum_R_(at::zeros({num_rows}, options)), taught_R_(at::zeros({num_rows}, options)) {}

  void add(const at::Tensor& student_RK, const at::Tensor& teacher_RK) {
    const auto student_max_R = at::maximum(student_max_R_, student_RK.amax(1));
    student_sum_R_.mul_((student_max_R_ - student_max_R).exp_())
        .add_((student_RK - student_max_R.unsqueeze(1)).exp_().sum(1));
    student_max_R_ = student_max_R;
    const auto teacher_max_R = at::maximum(teacher_max_R_, teacher_RK.amax(1));
    const auto shrunk_R = (teacher_max_R_ - teacher_max_R).exp_();
    auto weights_RK = (teacher_RK - teacher_max_R.unsqueeze(1)).exp_();
    teacher_sum_R_.mul_(shrunk_R).add_(weights_RK.sum(1));
    taught_R_.mul_(shrunk_R).add_(weights_RK.mul_(student_RK).sum(1));
    teacher_max_R_ = teacher_max_R;
  }
  at::Tensor student_log_sum_exp_R() const { return student_max_R_ + student_sum_R_.log(); }
  at::Tensor teacher_log_sum_exp_R() const { return teacher_max_R_ + teacher_sum_R_.log(); }
  at::Tensor loss_R() const { return student_log_sum_exp_R() - taught_R_ / teacher_sum_R_; }

 private:
  at::Tensor student_max_R_, student_sum_R_, teacher_max_R_, teacher_sum_R_;
  at::Tensor taught_R_;  ///< Student's logits, weighted by the teacher's exponentials.
};

/// What one direction compares: own rows with the keys of all ranks, of student (width E) and teacher (width T).
struct Taught {
  at::Tensor rows_RE, keys_NE, scale;
  at::Tensor teacher_rows_RT, teacher_keys_NT, teacher_scale;
  int64_t tile_columns = 0;

  int64_t num_columns() const { return keys_NE.size(0); }
  at::Tensor student_RK(int64_t begin, int64_t end) const {
    return feature_products(rows_RE, keys_NE.narrow(0, begin, end - begin)).mul_(scale);
  }
  at::Tensor teacher_RK(int64_t begin, int64_t end) const {
    return feature_products(teacher_rows_RT, teacher_keys_NT.narrow(0, begin, end - begin)).mul_(teacher_scale);
  }
  template <typename Body> void for_each_tile(Body&& body) const {
    for (int64_t begin = 0; begin < num_columns(); begin += tile_columns)
      body(begin, std::min(begin + tile_columns, num_columns()));
  }
};

/// Mean over the rows of the cross entropy of softmax(student) against softmax(teacher). With P the student's softmax,
/// dL/dl_ij = (P_ij - Q_ij) / R; logits are computed again for it, tile by tile.
class RowsAgainstTeacher : public torch::autograd::Function<RowsAgainstTeacher> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows_RE, const at::Tensor& keys_NE,
                            const at::Tensor& scale, const at::Tensor& teacher_rows_RT,
                            const at::Tensor& teacher_keys_NT, const at::Tensor& teacher_scale, int64_t logit_bytes) {
    const Taught in{.rows_RE = rows_RE,
                    .keys_NE = keys_NE,
                    .scale = scale,
                    .teacher_rows_RT = teacher_rows_RT,
                    .teacher_keys_NT = teacher_keys_NT,
                    .teacher_scale = teacher_scale,
                    .tile_columns = tile_columns(rows_RE.size(0), keys_NE.size(0), logit_bytes)};
    OnlineCrossEntropy online(rows_RE.size(0), rows_RE.options());
    in.for_each_tile(
        [&](int64_t begin, int64_t end) { online.add(in.student_RK(begin, end), in.teacher_RK(begin, end)); });
    context->save_for_backward({rows_RE, keys_NE, scale, teacher_rows_RT, teacher_keys_NT, teacher_scale,
                                online.student_log_sum_exp_R(), online.teacher_log_sum_exp_R()});
    context->saved_data["tile_columns"] = in.tile_columns;
    return online.loss_R().mean();
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const c10::NoGradGuard no_grad;
    const auto saved = context->get_saved_variables();
    const Taught in{.rows_RE = saved[0],
                    .keys_NE = saved[1],
                    .scale = saved[2],
                    .teacher_rows_RT = saved[3],
                    .teacher_keys_NT = saved[4],
                    .teacher_scale = saved[5],
                    .tile_columns = context->saved_data["tile_columns"].toInt()};
    auto rows_gradient_RE = at::zeros_like(in.rows_RE), keys_gradient_NE = at::zeros_like(in.keys_NE);  // of l / s
    in.for_each_tile([&](int64_t begin, int64_t end) {
      auto slope_RK = in.student_RK(begin, end).sub_(saved[6].unsqueeze(1)).exp_();
      slope_RK.sub_(in.teacher_RK(begin, end).sub_(saved[7].unsqueeze(1)).exp_());
      add_weighted_features(rows_gradient_RE, slope_RK, in.keys_NE.narrow(0, begin, end - begin));
      auto keys_gradient_KE = keys_gradient_NE.narrow(0, begin, end - begin);
      add_weighted_features(keys_gradient_KE, slope_RK.t(), in.rows_RE);
    });
    const auto factor = upstream[0] / static_cast<double>(in.rows_RE.size(0));
    const auto scale_gradient = (rows_gradient_RE * in.rows_RE).sum() * factor;
    rows_gradient_RE.mul_(in.scale * factor);
    keys_gradient_NE.mul_(in.scale * factor);
    return {rows_gradient_RE, keys_gradient_NE, scale_gradient, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

ContrastiveLoss distillation_loss(const at::Tensor& image_BE, const at::Tensor& text_BE, const at::Tensor& logit_scale,
                                  const TeacherFeatures& teacher, comm::Comm& data_axis, int64_t logit_bytes) {
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
  const auto by_image = RowsAgainstTeacher::apply(image_RE, all_NE.narrow(1, E, E), scale, teacher_image_RT,
                                                  teacher_NT.narrow(1, T, T), teacher_scale, logit_bytes);
  const auto by_text = RowsAgainstTeacher::apply(text_RE, all_NE.narrow(1, 0, E), scale, teacher_text_RT,
                                                 teacher_NT.narrow(1, 0, T), teacher_scale, logit_bytes);
  const auto loss = 0.5 * (by_image + by_text);
  return {.loss = loss, .global_loss = mean_over_ranks(loss, data_axis)};
}

}  // namespace lockstep::models
