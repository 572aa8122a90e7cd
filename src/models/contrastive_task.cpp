#include "models/contrastive_task.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/error.h"
#include "models/distillation_loss.h"
#include "models/sigmoid_loss.h"

namespace lockstep::models {

at::Tensor normalise_rows(const at::Tensor& features_BE) {
  const auto wide_BE = at::isReducedFloatingType(features_BE.scalar_type()) ? features_BE.to(at::kFloat) : features_BE;
  return wide_BE / at::linalg_vector_norm(wide_BE, 2, at::OptionalIntArrayRef({1}), /*keepdim=*/true).clamp_min(1e-12);
}

ContrastiveTask::ContrastiveTask(std::unique_ptr<TwoTowers> towers, comm::Comm& data_axis,
                                 ContrastiveTaskOptions options)
    : towers_(std::move(towers)), data_axis_(data_axis), options_(std::move(options)) {
  if (options_.teacher) options_.teacher->set_training(false);
}

Outputs ContrastiveTask::forward(const Batch& batch) {
  const bool has_audio = batch.audio_BS.defined(), has_other = has_audio || batch.image_BCYX.defined();
  if (!has_other || !batch.text_BT.defined())
    throw DataError(fmt::format("models: a contrastive task needs pairs: images or audio {}, texts {}",
                                has_other ? "given" : "missing", batch.text_BT.defined() ? "given" : "missing"),
                    "check that the data source has both images (or sounds) and captions");
  towers_->set_context(batch.context);
  Outputs out;
  if (towers_->has_captions() && options_.caption_weight != 0.0) {
    const CaptionedPairs pairs = towers_->encode_pairs(batch.image_BCYX, batch.text_BT, CountedTokens::kWords);
    out.image_BE = normalise_rows(pairs.image_BE);
    out.text_BE = normalise_rows(pairs.text_BE);
    out.loss_sum = pairs.loss_sum;
    out.weight_sum = pairs.num_tokens;
  } else {
    out.image_BE = image_features(batch);
    out.text_BE = text_features(batch);
  }
  out.logit_scale = towers_->logit_scale().reshape({}).to(at::kFloat).exp();
  if (at::Tensor* bias = towers_->logit_bias()) out.logit_bias = bias->reshape({});
  if (options_.teacher && !batch.context.is_rerun) add_teacher(batch, out);
  return out;
}

at::Tensor ContrastiveTask::image_features(const Batch& batch) {
  if (batch.audio_BS.defined()) return normalise_rows(towers_->encode_audio(batch.audio_BS));
  const auto compute = [&](const at::Tensor& rows) { return normalise_rows(towers_->encode_image(rows)); };
  if (!options_.image_cache) return compute(batch.image_BCYX);
  return options_.image_cache->features(batch.image_keys_B, batch.image_BCYX, compute, !batch.context.is_rerun);
}

at::Tensor ContrastiveTask::text_features(const Batch& batch) {
  const auto compute = [&](const at::Tensor& rows) { return normalise_rows(towers_->encode_text(rows)); };
  if (!options_.text_cache) return compute(batch.text_BT);
  return options_.text_cache->features(batch.text_keys_B, batch.text_BT, compute, !batch.context.is_rerun);
}

std::optional<double> ContrastiveTask::cached_share() {
  int64_t num_asked = 0, num_found = 0;
  for (const auto* cache : {options_.image_cache.get(), options_.text_cache.get()})
    if (cache != nullptr) num_asked += cache->num_asked(), num_found += cache->num_found();
  const int64_t asked = num_asked - std::exchange(num_asked_, num_asked);
  const int64_t found = num_found - std::exchange(num_found_, num_found);
  if (asked == 0) return std::nullopt;
  return static_cast<double>(found) / static_cast<double>(asked);
}

void ContrastiveTask::add_teacher(const Batch& batch, Outputs& outputs) {
  const c10::NoGradGuard no_grad;
  options_.teacher->set_context(batch.context);
  outputs.teacher_image_BE = normalise_rows(options_.teacher->encode_image(batch.image_BCYX));
  const at::Tensor text_BT = options_.teacher_packs_texts ? batch.text_BT : batch.text_BT.to(batch.image_BCYX.device());
  outputs.teacher_text_BE = normalise_rows(options_.teacher->encode_text(text_BT));
}

std::pair<at::Tensor, at::Tensor> ContrastiveTask::caption_loss(const Outputs& outputs) const {
  const at::Tensor sums_2 = at::stack({outputs.loss_sum.detach().to(at::kFloat), outputs.weight_sum});
  data_axis_.all_reduce(sums_2).wait();
  const at::Tensor num_tokens = sums_2.select(0, 1).clamp_min(1.0);
  const double num_ranks = data_axis_.size(), weight = options_.caption_weight;
  return {outputs.loss_sum.mul(weight * num_ranks).div(num_tokens), sums_2.select(0, 0).mul(weight).div(num_tokens)};
}

LossReport ContrastiveTask::loss(const Outputs& outputs) {
  const auto result = options_.has_sigmoid_loss
                          ? sigmoid_loss(outputs.image_BE, outputs.text_BE, outputs.logit_scale, outputs.logit_bias,
                                         data_axis_, options_.loss.logit_bytes)
                          : contrastive_loss(outputs.image_BE, outputs.text_BE, outputs.logit_scale, outputs.logit_bias,
                                             data_axis_, options_.loss);
  LossReport report{.loss = result.loss, .parts = {{"contrastive_loss", result.global_loss.detach()}}};
  if (towers_->has_captions()) {
    report.loss = report.loss * options_.contrastive_weight;
    report.parts.front().second = report.parts.front().second * options_.contrastive_weight;
  }
  if (outputs.loss_sum.defined()) {
    const auto [part, whole] = caption_loss(outputs);
    report.loss = report.loss + part;
    report.parts.emplace_back("caption_loss", whole);
  }
  if (options_.teacher) {
    const TeacherFeatures teacher{.image_BE = outputs.teacher_image_BE,
                                  .text_BE = outputs.teacher_text_BE,
                                  .logit_scale = options_.teacher->logit_scale().detach().to(at::kFloat).exp()};
    const auto taught = distillation_loss(outputs.image_BE, outputs.text_BE, outputs.logit_scale, teacher, data_axis_);
    report.loss = report.loss + taught.loss;
    report.parts.emplace_back("distill_loss", taught.global_loss.detach());
  }
  if (outputs.logit_scale.defined()) report.scalars.emplace_back("logit_scale", outputs.logit_scale.detach());
  if (const auto share = cached_share())
    report.scalars.emplace_back("cached_share", at::full({}, *share, report.loss.options().requires_grad(false)));
  return report;
}

}  // namespace lockstep::models
