#include "tasks/gpt/front/gpt_plan.h"

#include <algorithm>

#include "config/attention_kernel.h"
#include "core/error.h"
#include "core/units.h"

namespace lockstep::tasks {
namespace {

plan::StateBytes bytes_of(const GptOptions& o) {
  return plan::state_bytes(o.precision != "fp32", o.accumulate_allreduce_grads_in_fp32);
}

config::GptRecompute recompute_of(const GptOptions& o) {
  if (!o.recompute_granularity) return config::GptRecompute::kNone;
  if (*o.recompute_granularity == "selective") return config::GptRecompute::kSelective;
  return o.recompute_method == "block" ? config::GptRecompute::kBlock : config::GptRecompute::kUniform;
}

plan::Fp8Scaling fp8_of(const GptOptions& o) {
  if (!o.fp8_format) return plan::Fp8Scaling::kNone;
  return o.fp8_recipe == "tensorwise" ? plan::Fp8Scaling::kTensorwise : plan::Fp8Scaling::kDelayed;
}

/// Under fp16 gradients are scaled before they are rounded, under GPipe many heads are in flight: the logits are made
/// twice.
bool has_early_loss_gradients(const GptOptions& o) { return o.precision != "fp16" && o.pipeline_schedule != "gpipe"; }

/// Of a head and sequence, where attention is products and a softmax: nn::attention's choice.
int64_t kept_scores(const GptOptions& o) {
  const config::GptShape shape = gpt_shape_of(o);
  const bool is_16_bit = o.precision != "fp32", is_causal = !o.reset_attention_mask, is_on_cpu = o.device == "cpu";
  const bool is_plain = shape.attention_dropout > 0
                            ? is_on_cpu || o.attention_backend == "unfused"
                            : is_on_cpu && shape.sequence <= config::plain_attention_limit(is_16_bit, is_causal);
  if (!is_plain) return 0;
  return is_on_cpu && is_causal && o.precision != "fp16" ? config::kept_causal_scores(shape.sequence, is_16_bit)
                                                         : shape.sequence * shape.sequence;
}

}  // namespace

std::string gpt_precision(const GptOptions& options) {
  return options.precision == "fp32" ? options.precision : options.precision + "_master";
}

int64_t gpt_steps_per_epoch(const GptOptions& options, int64_t num_steps) {
  return options.eval_iters > 0 ? std::min(options.eval_interval.value_or(num_steps), num_steps) : num_steps;
}

config::RunFacts gpt_run_facts(const GptOptions& options) {
  if (options.train_samples && (!options.global_batch_size || options.decrease_batch_size_if_needed))
    throw UsageError("train: --train-samples needs --global-batch-size as it will be",
                     "give it without --decrease-batch-size-if-needed, or the length in --train-iters");
  const int64_t steps = gpt_train_steps(options, options.global_batch_size.value_or(1)),
                epoch = gpt_steps_per_epoch(options, steps);
  return {.model = options.model.empty() ? gpt_shape_of(options).name : options.model,
          .precision = gpt_precision(options),
          .lr = options.lr,
          .micro_batch_size = options.micro_batch_size,
          .workers = options.num_workers,
          .epochs = (steps + epoch - 1) / epoch,
          .max_steps = steps,
          .grad_clip_norm = options.clip_grad,
          .num_kept_checkpoints = config::num_kept_checkpoints(options),
          .needs_checkpoint = options.exit_on_missing_checkpoint,
          .exit_interval = options.exit_interval,
          .exit_after_minutes = options.exit_duration_in_mins,
          .logs_params_norm = options.log_params_norm,
          .logs_num_zeros = options.log_num_zeros_in_grad};
}

int64_t gpt_train_steps(const GptOptions& options, int64_t global_batch) {
  return options.train_iters ? *options.train_iters
                             : std::max<int64_t>(1, options.train_samples.value_or(0) / global_batch);
}

plan::GptLayout train_gpt_layout(const GptOptions& o, int64_t world_size) {
  return plan::make_gpt_layout(gpt_shape_of(o),
                               {.world_size = world_size,
                                .tp = o.tensor_model_parallel_size,
                                .pp = o.pipeline_model_parallel_size,
                                .order = o.use_tp_pp_dp_mapping ? plan::MeshOrder::kDpPpTp : plan::MeshOrder::kPpDpTp,
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
                                .micro_batch_size = o.micro_batch_size,
                                .global_batch = o.global_batch_size,
                                .lowers_batch = o.decrease_batch_size_if_needed});
}

plan::GptMemoryInput train_gpt_memory(const GptOptions& o) {
  return {.bytes = bytes_of(o),
          .recompute = recompute_of(o),
          .recompute_layers = o.recompute_num_layers.value_or(1),
          .kept_scores = kept_scores(o),
          .loss_chunk_tokens = o.loss_chunk_tokens,
          .early_loss_gradients = has_early_loss_gradients(o),
          .has_fp8 = o.fp8_format.has_value(),
          .fp8_spares_ends = o.first_last_layers_bf16};
}

plan::GptTrafficInput train_gpt_traffic(const GptOptions& o) {
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

}  // namespace lockstep::tasks
