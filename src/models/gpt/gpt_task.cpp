#include "models/gpt/gpt_task.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include "core/error.h"

namespace lockstep::models {

GptTask::GptTask(std::vector<std::unique_ptr<GptModel>> chunks, comm::Comm* data_axis)
    : chunks_(std::move(chunks)), data_axis_(data_axis) {
  LOCKSTEP_CHECK(!chunks_.empty(), "no chunks");
  for (const auto& chunk : chunks_) network_.add(*chunk);
}

Outputs GptTask::forward(const Batch& batch) {
  Outputs out;
  for (int64_t i = 0; i < num_chunks(); ++i) out = forward_chunk(i, out.boundary_TBD, batch);
  return out;
}

Outputs GptTask::forward_chunk(int64_t index, const at::Tensor& input_TBD, const Batch& batch) {
  GptModel& model = chunk(index);
  if (model.part().has_embedding && !batch.text_BT.defined()) throw DataError("models: a language model needs tokens");
  if (model.part().has_head && !batch.target_BT.defined())
    throw DataError("models: a language model needs the token that follows each one");
  const at::Tensor hidden_TBD = model.forward(input_TBD, batch);
  Outputs out;
  if (!model.part().has_head) {
    out.boundary_TBD = hidden_TBD;
    return out;
  }
  const nn::VocabLoss loss = model.loss(hidden_TBD, batch);
  const int64_t samples = batch.target_BT.size(0), tokens = batch.target_BT.size(1);
  out.loss_sum = loss.sum;
  out.token_loss_BT = loss.per_token.view({tokens, samples}).t();
  out.weight_sum = batch.loss_weight_BT.defined()
                       ? batch.loss_weight_BT.sum(loss.sum.scalar_type())
                       : at::full({}, static_cast<double>(samples * tokens), loss.sum.options().requires_grad(false));
  return out;
}

LossReport GptTask::loss(const Outputs& outputs) {
  const at::Tensor mean = outputs.loss_sum.div(outputs.weight_sum.clamp_min(1));
  return {.loss = mean, .parts = {{"lm_loss", mean.detach()}}};
}

void GptTask::finish_step() {
  std::vector<nn::Fp8State*> states;
  for (const auto& chunk : chunks_)
    if (chunk->fp8() != nullptr) states.push_back(chunk->fp8());
  std::vector<comm::Comm*> axes;
  for (comm::Comm* axis : {chunks_.front()->shard().tp, data_axis_})
    if (axis != nullptr) axes.push_back(axis);
  nn::finish_fp8_step(states, axes);
}

std::vector<int64_t> GptTask::boundary_shape(int64_t num_samples) const {
  const GptModel& model = *chunks_.front();
  const int64_t ranks = model.shard().splits_tokens() ? model.shard().size() : 1;
  return {model.shape().sequence / ranks, num_samples, model.shape().hidden};
}

}  // namespace lockstep::models
