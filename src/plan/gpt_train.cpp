#include "plan/gpt_train.h"

#include "config/attention_kernel.h"
#include "core/error.h"
#include "core/units.h"

namespace lockstep::plan {
namespace {

StateBytes bytes_of(const config::GptOptions& o) {
  return state_bytes(o.precision != "fp32", o.accumulate_allreduce_grads_in_fp32);
}

config::GptRecompute recompute_of(const config::GptOptions& o) {
  if (!o.recompute_granularity) return config::GptRecompute::kNone;
  if (*o.recompute_granularity == "selective") return config::GptRecompute::kSelective;
  return o.recompute_method == "block" ? config::GptRecompute::kBlock : config::GptRecompute::kUniform;
}

Fp8Scaling fp8_of(const config::GptOptions& o) {
  if (!o.fp8_format) return Fp8Scaling::kNone;
  return o.fp8_recipe == "tensorwise" ? Fp8Scaling::kTensorwise : Fp8Scaling::kDelayed;
}

/// Under fp16 gradients are scaled before they are rounded, under GPipe many heads are in flight: the logits are made
/// twice.
bool has_early_loss_gradients(const config::GptOptions& o) {
  return o.precision != "fp16" && o.pipeline_schedule != "gpipe";
}

/// Whether attention is products and a softmax, whose results backward needs: nn::attention's choice.
bool keeps_scores(const config::GptOptions& o) {
  const config::GptShape shape = config::gpt_shape_of(o);
  if (shape.attention_dropout > 0) return true;
  return o.run.device == "cpu" &&
         shape.sequence <= config::plain_attention_limit(o.precision != "fp32", !o.reset_attention_mask);
}

}  // namespace

GptLayout train_gpt_layout(const config::GptOptions& o, int64_t world_size) {
  return make_gpt_layout(config::gpt_shape_of(o),
                         {.world_size = world_size,
                          .tp = o.tensor_model_parallel_size,
                          .pp = o.pipeline_model_parallel_size,
                          .order = o.use_tp_pp_dp_mapping ? MeshOrder::kDpPpTp : MeshOrder::kPpDpTp,
                          .is_sequence_parallel = o.sequence_parallel,
                          .is_optimizer_sharded = o.use_distributed_optimizer,
                          .is_gpipe = o.pipeline_schedule == "gpipe",
                          .split = {.layers_per_chunk = o.num_layers_per_virtual_pipeline_stage,
                                    .num_chunks = o.num_virtual_stages_per_pipeline_rank,
                                    .first_layers = o.decoder_first_pipeline_num_layers,
                                    .last_layers = o.decoder_last_pipeline_num_layers,
                                    .counts_embedding = o.account_for_embedding_in_pipeline_split,
                                    .counts_head = o.account_for_loss_in_pipeline_split,
                                    .text = o.pipeline_model_parallel_layout},
                          .group = o.microbatch_group_size.value_or(0),
                          .samples_per_micro = o.micro_batch_size,
                          .global_batch = o.global_batch_size,
                          .lowers_batch = o.decrease_batch_size_if_needed});
}

GptMemoryInput train_gpt_memory(const config::GptOptions& o) {
  return {.bytes = bytes_of(o),
          .recompute = recompute_of(o),
          .recompute_layers = o.recompute_num_layers.value_or(1),
          .keeps_scores = keeps_scores(o),
          .loss_chunk_tokens = o.loss_chunk_tokens,
          .early_loss_gradients = has_early_loss_gradients(o),
          .has_fp8 = o.fp8_format.has_value(),
          .fp8_spares_ends = o.first_last_layers_bf16};
}

GptTrafficInput train_gpt_traffic(const config::GptOptions& o) {
  return {.bytes = bytes_of(o),
          .recompute = recompute_of(o),
          .recompute_layers = o.recompute_num_layers.value_or(1),
          .loss_chunk_tokens = o.loss_chunk_tokens,
          .early_loss_gradients = has_early_loss_gradients(o),
          .bucket_elements = o.ddp_bucket_size.value_or(0),
          .fp8 = fp8_of(o),
          .counts_tokens = o.calculate_per_token_loss,
          .fp8_spares_ends = o.first_last_layers_bf16};
}

void refuse_beyond_memory(const config::GptShape& shape, double planned_bytes, double bytes,
                          const std::string& device) {
  if (planned_bytes <= kPlanMargin * bytes) return;
  throw EnvironmentError(
      fmt::format("plan: model '{}' laid out so takes {} of memory, {} has {}", shape.name,
                  core::format_bytes(planned_bytes), device, core::format_bytes(bytes)),
      "share it among more ranks (--tensor-model-parallel-size, --pipeline-model-parallel-size, "
      "--use-distributed-optimizer), keep less "
      "(--recompute-activations, --micro-batch-size), or use --bf16; --dry-run shows what takes how much");
}

}  // namespace lockstep::plan
