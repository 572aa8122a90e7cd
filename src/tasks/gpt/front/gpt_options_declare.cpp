#include "tasks/gpt/front/gpt_options.h"

#include "tasks/front/device_memory.h"
#include "tasks/gpt/front/gpt_options_groups.h"

namespace lockstep::tasks {
using core::OptionRole;
namespace {

void declare_run(core::OptionSet& set, GptOptions& o) {
  set.group("Recipe and dry run");
  set.add_config_option();
  config::declare_run_flags(set, o, {"dry-run", "world-size", "json"});
  declare_device_memory_option(set, &o.device_memory, "target-device");
}

void declare_model(core::OptionSet& set, GptOptions& o) {
  set.group("Model");
  set.add("model", &o.model,
          {.role = OptionRole::kSetup,
           .help = "Name of a model (gpt2, gpt3-175b, nemotron4-340b, llama3-8b, ...), or a config.json of Hugging "
                   "Face. The flags below change it, or "
                   "describe all of it.",
           .metavar = "NAME|FILE.json",
           .unset_text = "by --num-layers, --hidden-size, --num-attention-heads"});
  const auto size = [&](const char* name, std::optional<int64_t>& field, const char* help, const char* unset,
                        double max = 1 << 24, OptionRole role = OptionRole::kConfiguration) {
    set.add(name, &field, {.role = role, .help = help, .unset_text = unset, .min = 1, .max = max});
  };
  size("num-layers", o.num_layers, "Transformer layers.", "by the model", 10000);
  size("hidden-size", o.hidden_size, "Width of the hidden state.", "by the model", 1 << 20);
  size("num-attention-heads", o.num_attention_heads, "Query heads.", "by the model", 65536);
  size("ffn-hidden-size", o.ffn_hidden_size, "Width inside the feed-forward layer.",
       "by the model, else 4 x hidden, with --swiglu 8/3 x hidden down to a multiple of 64", 1 << 22);
  size("kv-channels", o.kv_channels, "Width of a head.", "hidden / heads", 65536);
  set.add("group-query-attention", &o.group_query_attention,
          {.role = OptionRole::kConfiguration,
           .help = "Several query heads share keys and values; see --num-query-groups."});
  size("num-query-groups", o.num_query_groups, "Key and value heads, with --group-query-attention.",
       "by the model where it has groups, else 1", 65536);
  size("seq-length", o.seq_length, "Tokens of a training sequence.", "by the model", 1 << 24, OptionRole::kSetup);
  size("max-position-embeddings", o.max_position_embeddings, "Longest sequence that has positions.", "by the model");
}

void declare_positions_and_norms(core::OptionSet& set, GptOptions& o) {
  set.add("position-embedding-type", &o.position_embedding_type,
          {.role = OptionRole::kConfiguration,
           .help = "A learned table, rotary positions, or none.",
           .unset_text = "by the model, else learned_absolute",
           .choices = {"learned_absolute", "rope", "none"},
           .refused_choices = {{"yarn", "use rope"}, {"mrope", "use rope"}, {"relative", "use rope"}}});
  set.add("rotary-base", &o.rotary_base,
          {.role = OptionRole::kConfiguration,
           .help = "Base of the rotary wave lengths.",
           .unset_text = "by the model, else 10000",
           .min = 1,
           .is_min_excluded = true});
  set.add("rotary-percent", &o.rotary_percent,
          {.role = OptionRole::kConfiguration,
           .help = "Part of each head that is turned.",
           .unset_text = "by the model, else 1",
           .min = 0,
           .max = 1,
           .is_min_excluded = true});
  set.add("use-rope-scaling", &o.use_rope_scaling,
          {.role = OptionRole::kConfiguration, .help = "Stretch rotary wave lengths as Llama 3.1 does."});
  set.add("rope-scaling-factor", &o.rope_scaling_factor,
          {.role = OptionRole::kConfiguration, .help = "How far --use-rope-scaling stretches.", .min = 1});
  set.add("normalization", &o.normalization,
          {.role = OptionRole::kConfiguration,
           .help = "Kind of norm.",
           .unset_text = "by the model, else LayerNorm",
           .choices = {"LayerNorm", "RMSNorm"}});
  set.add("norm-epsilon", &o.norm_epsilon,
          {.role = OptionRole::kConfiguration,
           .help = "Added to the variance.",
           .unset_text = "by the model, else 1e-5",
           .min = 0,
           .is_min_excluded = true,
           .aliases = {"layernorm-epsilon"}});
  set.add("apply-layernorm-1p", &o.apply_layernorm_1p,
          {.role = OptionRole::kConfiguration, .help = "Store gains of LayerNorm minus 1."});
}

void declare_model_parts(core::OptionSet& set, GptOptions& o) {
  set.add("swiglu", &o.swiglu, {.role = OptionRole::kConfiguration, .help = "Gated feed-forward layer with SiLU."});
  set.add("squared-relu", &o.squared_relu,
          {.role = OptionRole::kConfiguration, .help = "Squared ReLU instead of GELU."});
  set.add("no-bias-gelu-fusion", &o.no_bias_gelu_fusion,
          {.role = OptionRole::kConfiguration, .help = "The exact GELU, as that flag has it; without, its tanh form."});
  set.add("disable-bias-linear", &o.disable_bias_linear,
          {.role = OptionRole::kConfiguration, .help = "Linear layers without biases."});
  set.add("add-qkv-bias", &o.add_qkv_bias,
          {.role = OptionRole::kConfiguration, .help = "Biases of queries, keys and values all the same."});
  set.add("untie-embeddings-and-output-weights", &o.untie_embeddings_and_output_weights,
          {.role = OptionRole::kConfiguration, .help = "A head of its own instead of the word embedding."});
  for (const auto& [name, field] :
       {std::pair("hidden-dropout", &o.hidden_dropout), std::pair("attention-dropout", &o.attention_dropout)})
    set.add(name, field,
            {.role = OptionRole::kConfiguration,
             .help = "Share of elements set to zero while training.",
             .unset_text = "by the model, else 0.1",
             .min = 0,
             .max = 1,
             .is_max_excluded = true});
  set.add("init-method-std", &o.init_method_std,
          {.role = OptionRole::kConfiguration,
           .help = "Standard deviation of initial weights; output projections have it divided by sqrt(2 layers).",
           .unset_text = "by the model, else 0.02",
           .min = 0,
           .is_min_excluded = true});
  set.add("embedding-init-method-std", &o.embedding_init_method_std,
          {.role = OptionRole::kConfiguration,
           .help = "The same of embeddings, which then have no weight decay; a head of its own is none of them.",
           .unset_text = "--init-method-std",
           .min = 0,
           .is_min_excluded = true});
}

void declare_vocabulary_and_attention(core::OptionSet& set, GptOptions& o) {
  set.add(
      "vocab-size", &o.vocab_size,
      {.role = OptionRole::kConfiguration,
       .help = "Token ids there are; with --tokenizer-type NullTokenizer one more, which ends documents.",
       .unset_text = "by --model, else as many as the tokenizer of --tokenizer-model or --vocab-file has, else 50257",
       .min = 2,
       .max = 1 << 24});
  set.add("make-vocab-size-divisible-by", &o.make_vocab_size_divisible_by,
          {.role = OptionRole::kConfiguration,
           .help = "The embedding has a multiple of this x --tensor-model-parallel-size rows.",
           .unset_text = "by the model, else 128",
           .min = 1,
           .max = 1 << 20});
  set.add("padded-vocab-size", &o.padded_vocab_size,
          {.role = OptionRole::kConfiguration,
           .help = "Rows of the embedding at any tensor-parallel size, so that all of them train the same model.",
           .unset_text = "by the flag above",
           .min = 2,
           .max = 1 << 24});
  set.add("attention-backend", &o.attention_backend,
          {.role = OptionRole::kConfiguration,
           .help = "auto: the fastest exact kernel for device and length. flash: the same, refused where "
                   "--attention-dropout has no such kernel, on the CPU. unfused: with --attention-dropout the same "
                   "probabilities are dropped at any number of tensor ranks, for which they are kept; on the CPU that "
                   "is always so.",
           .choices = {"auto", "flash", "unfused"},
           .choice_aliases = {{"fused", "flash"}, {"local", "unfused"}}});
  set.add(
      "use-flash-attn", &o.use_flash_attn,
      {.role = OptionRole::kNoInfluence,
       .help = "Changes nothing: auto takes such a kernel. Beside --attention-dropout on the CPU a warning says that "
               "it cannot."});
}

void declare_batch(core::OptionSet& set, GptOptions& o) {
  set.group("Batch and length");
  set.add("micro-batch-size", &o.micro_batch_size,
          {.role = OptionRole::kConfiguration,
           .help = "Sequences of one forward pass.",
           .unit = "sequences per data rank",
           .min = 1,
           .max = 1e6});
  set.add("global-batch-size", &o.global_batch_size,
          {.role = OptionRole::kSetup,
           .help = "Sequences of one step over all ranks.",
           .unit = "sequences",
           .unset_text = "--micro-batch-size x data ranks",
           .min = 1,
           .max = 1e9});
  set.add("decrease-batch-size-if-needed", &o.decrease_batch_size_if_needed,
          {.role = OptionRole::kConfiguration,
           .help = "A global batch that does not divide becomes the next smaller that does."});
  set.add("train-iters", &o.train_iters,
          {.role = OptionRole::kIdentity,
           .help = "Steps to train.",
           .unit = "steps",
           .unset_text = "by --train-samples",
           .min = 1,
           .max = 1e9});
  set.add("train-samples", &o.train_samples,
          {.role = OptionRole::kIdentity,
           .help = "Sequences to train on.",
           .unit = "sequences",
           .unset_text = "by --train-iters",
           .min = 1,
           .max = 1e15});
  set.add("exit-interval", &o.exit_interval,
          {.role = OptionRole::kIdentity,
           .help = "Save and exit, with code 0, after a step that this divides.",
           .unit = "steps",
           .min = 1});
  set.add("exit-duration-in-mins", &o.exit_duration_in_mins,
          {.role = OptionRole::kIdentity,
           .help = "Save and exit, with code 0, two steps after this time since the start of the process of rank 0 is "
                   "over; nothing is evaluated then.",
           .unit = "minutes",
           .min = 0,
           .is_min_excluded = true});
  config::declare_run_flags(set, o, {"seed"});
}

void declare_optimiser(core::OptionSet& set, GptOptions& o) {
  set.group("Optimiser");
  set.add(
      "lr", &o.lr,
      {.role = OptionRole::kSchedule, .help = "Peak learning rate.", .unset_text = "must be given to train", .min = 0});
  set.add("min-lr", &o.min_lr,
          {.role = OptionRole::kSchedule, .help = "Learning rate at the end of the decay.", .min = 0});
  set.add("lr-decay-style", &o.lr_decay_style,
          {.role = OptionRole::kSchedule,
           .help = "Learning rate after the warm-up. WSD: constant, then a tail.",
           .choices = {"constant", "linear", "cosine", "inverse-square-root", "WSD"}});
  set.add("lr-decay-iters", &o.lr_decay_iters,
          {.role = OptionRole::kSchedule,
           .help = "Length of the decay, warm-up included.",
           .unit = "steps",
           .unset_text = "the whole run",
           .min = 1});
  set.add("lr-decay-samples", &o.lr_decay_samples,
          {.role = OptionRole::kSchedule,
           .help = "The same with --train-samples.",
           .unit = "sequences",
           .unset_text = "the whole run",
           .min = 1});
  set.add("lr-warmup-iters", &o.lr_warmup_iters,
          {.role = OptionRole::kSchedule, .help = "Linear warm-up.", .unit = "steps", .min = 0});
  set.add("lr-warmup-samples", &o.lr_warmup_samples,
          {.role = OptionRole::kSchedule, .help = "The same with --train-samples.", .unit = "sequences", .min = 0});
  set.add("lr-warmup-fraction", &o.lr_warmup_fraction,
          {.role = OptionRole::kSchedule,
           .help = "Warm-up as part of the decay's length.",
           .unset_text = "by the flags above",
           .min = 0,
           .max = 1});
  set.add("lr-warmup-init", &o.lr_warmup_init,
          {.role = OptionRole::kSchedule, .help = "Learning rate at which the warm-up begins.", .min = 0});
  set.add("lr-wsd-decay-style", &o.lr_wsd_decay_style,
          {.role = OptionRole::kSchedule,
           .help = "Form of WSD's tail.",
           .choices = {"exponential", "linear", "cosine", "minus_sqrt"}});
  set.add("lr-wsd-decay-iters", &o.lr_wsd_decay_iters,
          {.role = OptionRole::kSchedule, .help = "Length of WSD's tail.", .unit = "steps", .min = 1});
}

void declare_adam_and_loss(core::OptionSet& set, GptOptions& o) {
  set.add("weight-decay", &o.weight_decay,
          {.role = OptionRole::kSchedule, .help = "AdamW: weight decay of matrices.", .min = 0});
  for (const auto& [name, field, help] :
       {std::tuple("adam-beta1", &o.adam_beta1, "AdamW: decay of the first moment."),
        std::tuple("adam-beta2", &o.adam_beta2, "AdamW: decay of the second moment.")})
    set.add(name, field, {.role = OptionRole::kSchedule, .help = help, .min = 0, .max = 1, .is_max_excluded = true});
  set.add("adam-eps", &o.adam_eps,
          {.role = OptionRole::kSchedule,
           .help = "AdamW: added to the root of the second moment.",
           .min = 0,
           .is_min_excluded = true});
  set.add("clip-grad", &o.clip_grad,
          {.role = OptionRole::kConfiguration,
           .help = "Largest global L2 norm of the gradient; 0: no clipping.",
           .min = 0});
  set.add("calculate-per-token-loss", &o.calculate_per_token_loss,
          {.role = OptionRole::kConfiguration,
           .help = "The loss is the mean over all tokens of a step that count, not over micro-batches and data ranks "
                   "of their means: under a loss mask, too, the same at every layout and micro-batch size."});
}

void declare_parallelism(core::OptionSet& set, GptOptions& o) {
  set.group("Parallelism");
  set.add("tensor-model-parallel-size", &o.tensor_model_parallel_size,
          {.role = OptionRole::kSetup,
           .help = "Ranks that share each layer.",
           .unit = "ranks",
           .min = 1,
           .max = 1 << 16,
           .aliases = {"tp"}});
  set.add("pipeline-model-parallel-size", &o.pipeline_model_parallel_size,
          {.role = OptionRole::kSetup,
           .help = "Stages that share the layers.",
           .unit = "ranks",
           .min = 1,
           .max = 1 << 16,
           .aliases = {"pp"}});
  set.add("sequence-parallel", &o.sequence_parallel,
          {.role = OptionRole::kConfiguration,
           .help = "Tensor ranks share the tokens between their layers: less memory, no more traffic."});
}

void declare_pipeline(core::OptionSet& set, GptOptions& o) {
  set.add("num-layers-per-virtual-pipeline-stage", &o.num_layers_per_virtual_pipeline_stage,
          {.role = OptionRole::kConfiguration,
           .help = "Interleaved schedule with chunks of this many layers.",
           .unit = "layers",
           .unset_text = "one chunk per stage",
           .min = 1});
  set.add("num-virtual-stages-per-pipeline-rank", &o.num_virtual_stages_per_pipeline_rank,
          {.role = OptionRole::kConfiguration,
           .help = "The same as a number of chunks per stage.",
           .unset_text = "1",
           .min = 1,
           .max = 10000});
  set.add("microbatch-group-size-per-virtual-pipeline-stage", &o.microbatch_group_size,
          {.role = OptionRole::kConfiguration,
           .help = "Micro-batches that a chunk takes in a row.",
           .unit = "micro-batches",
           .unset_text = "--pipeline-model-parallel-size",
           .min = 1});
  set.add("pipeline-model-parallel-layout", &o.pipeline_model_parallel_layout,
          {.role = OptionRole::kConfiguration,
           .help = "Who holds what, stage by stage: E embedding, t layer, L head, | border, (...)*N repetition, as in "
                   "'Et|(tt|)*3L'.",
           .metavar = "LAYOUT"});
  set.add("decoder-first-pipeline-num-layers", &o.decoder_first_pipeline_num_layers,
          {.role = OptionRole::kConfiguration,
           .help = "Layers of the first stage.",
           .unit = "layers",
           .unset_text = "an even share",
           .min = 0});
  set.add("decoder-last-pipeline-num-layers", &o.decoder_last_pipeline_num_layers,
          {.role = OptionRole::kConfiguration,
           .help = "Layers of the last stage.",
           .unit = "layers",
           .unset_text = "an even share",
           .min = 0});
  set.add("account-for-embedding-in-pipeline-split", &o.account_for_embedding_in_pipeline_split,
          {.role = OptionRole::kConfiguration, .help = "The embedding takes the place of a layer."});
  set.add("account-for-loss-in-pipeline-split", &o.account_for_loss_in_pipeline_split,
          {.role = OptionRole::kConfiguration, .help = "The head takes the place of a layer."});
  set.add("pipeline-schedule", &o.pipeline_schedule,
          {.role = OptionRole::kConfiguration,
           .help = "1f1b: forward and backward passes take turns (interleaved with virtual stages). gpipe: all forward "
                   "passes first.",
           .choices = {"1f1b", "gpipe"}});
}

void declare_data_parallelism(core::OptionSet& set, GptOptions& o) {
  set.add("use-distributed-optimizer", &o.use_distributed_optimizer,
          {.role = OptionRole::kConfiguration, .help = "Data ranks share the state of the optimiser (ZeRO-1)."});
  set.add("overlap-grad-reduce", &o.overlap_grad_reduce,
          {.role = OptionRole::kNoInfluence,
           .help = "Reduce gradients during the backward pass of the last micro-batch. Always so here."});
  set.add("overlap-param-gather", &o.overlap_param_gather,
          {.role = OptionRole::kNoInfluence,
           .help = "Gather updated parameters while the next forward pass comes to them, block by block. Always so "
                   "here with --use-distributed-optimizer."});
  set.add("ddp-bucket-size", &o.ddp_bucket_size,
          {.role = OptionRole::kConfiguration,
           .help = "Elements of a gradient bucket.",
           .unit = "elements",
           .unset_text = "40 million, or 1 million x data ranks where that is more",
           .min = 1,
           .max = 1e12});
  set.add("use-tp-pp-dp-mapping", &o.use_tp_pp_dp_mapping,
          {.role = OptionRole::kConfiguration, .help = "Number ranks along tp, pp, dp instead of tp, dp, pp."});
}

void declare_precision(core::OptionSet& set, GptOptions& o) {
  set.group("Precision and memory");
  set.add("precision", &o.precision,
          {.role = OptionRole::kSetup,
           .help = "Type of weights and activations; under bf16 and fp16 the optimiser keeps fp32 masters.",
           .choices = {"fp32", "bf16", "fp16"},
           .refused_choices = {{"fp8", "use --bf16 --fp8-format hybrid"}}});
  set.add("bf16", &o.bf16, {.role = OptionRole::kSetup, .help = "The same as --precision bf16."});
  set.add("fp16", &o.fp16, {.role = OptionRole::kSetup, .help = "The same as --precision fp16."});
  set.add("loss-scale", &o.loss_scale,
          {.role = OptionRole::kConfiguration,
           .help = "fp16: constant loss scale.",
           .unset_text = "adapted",
           .min = 0,
           .is_min_excluded = true});
  set.add("initial-loss-scale", &o.initial_loss_scale,
          {.role = OptionRole::kConfiguration,
           .help = "fp16: loss scale at the start.",
           .min = 0,
           .is_min_excluded = true});
  set.add(
      "min-loss-scale", &o.min_loss_scale,
      {.role = OptionRole::kConfiguration, .help = "fp16: smallest loss scale.", .min = 0, .is_min_excluded = true});
  set.add("loss-scale-window", &o.loss_scale_window,
          {.role = OptionRole::kConfiguration,
           .help = "fp16: clean steps before the scale doubles.",
           .unit = "steps",
           .min = 1});
  set.add("hysteresis", &o.hysteresis,
          {.role = OptionRole::kConfiguration, .help = "fp16: overflows before the scale is halved.", .min = 1});
  set.add("accumulate-allreduce-grads-in-fp32", &o.accumulate_allreduce_grads_in_fp32,
          {.role = OptionRole::kConfiguration,
           .help = "Add up and reduce gradients in fp32. So with bf16 unless --grad-reduce-in-bf16."});
  set.add("grad-reduce-in-bf16", &o.grad_reduce_in_bf16,
          {.role = OptionRole::kConfiguration, .help = "bf16: add up and reduce gradients in bf16."});
}

void declare_fp8(core::OptionSet& set, GptOptions& o) {
  set.add("fp8-format", &o.fp8_format,
          {.role = OptionRole::kConfiguration,
           .help = "Matrix products in FP8: e4m3, or hybrid with e5m2 for gradients.",
           .unset_text = "no FP8",
           .choices = {"e4m3", "hybrid"}});
  set.add("fp8-recipe", &o.fp8_recipe,
          {.role = OptionRole::kConfiguration,
           .help = "Scales from past steps (delayed) or from the tensor at hand.",
           .choices = {"delayed", "tensorwise"},
           .refused_choices = {{"blockwise", "use delayed or tensorwise"}, {"mxfp8", "use delayed or tensorwise"}}});
  set.add("fp8-margin", &o.fp8_margin,
          {.role = OptionRole::kConfiguration,
           .help = "FP8: powers of two that scales stay away from the largest value.",
           .min = 0,
           .max = 16});
  set.add("fp8-amax-history-len", &o.fp8_amax_history_len,
          {.role = OptionRole::kConfiguration,
           .help = "FP8, delayed: steps whose largest values count.",
           .unit = "steps",
           .min = 1,
           .max = 1 << 20});
  set.add("fp8-amax-compute-algo", &o.fp8_amax_compute_algo,
          {.role = OptionRole::kConfiguration,
           .help = "FP8, delayed: which of them counts.",
           .choices = {"most_recent", "max"}});
  set.add("first-last-layers-bf16", &o.first_last_layers_bf16,
          {.role = OptionRole::kConfiguration, .help = "FP8: the first and the last layer stay in bf16."});
}

void declare_recomputation(core::OptionSet& set, GptOptions& o) {
  set.add("recompute-activations", &o.recompute_activations,
          {.role = OptionRole::kNoInfluence, .help = "The same as --recompute-granularity selective."});
  set.add("recompute-granularity", &o.recompute_granularity,
          {.role = OptionRole::kConfiguration,
           .help = "Compute again in the backward pass: selective the core of the attention, full whole layers.",
           .unset_text = "nothing",
           .choices = {"selective", "full"}});
  set.add("recompute-method", &o.recompute_method,
          {.role = OptionRole::kConfiguration,
           .help = "With full: uniform units of --recompute-num-layers layers, or the first --recompute-num-layers "
                   "layers of each chunk.",
           .choices = {"uniform", "block"}});
  set.add("recompute-num-layers", &o.recompute_num_layers,
          {.role = OptionRole::kConfiguration, .help = "See --recompute-method.", .unit = "layers", .min = 1});
  set.add("loss-chunk-tokens", &o.loss_chunk_tokens,
          {.role = OptionRole::kConfiguration,
           .help = "Tokens whose logits exist at a time; 0: as many as give 2^26 logits on a rank.",
           .unit = "tokens",
           .min = 0,
           .max = 1e9});
}

}  // namespace

core::OptionSet declare_gpt_options(GptOptions& options) {
  options.seed = 1234;
  core::OptionSet set("train gpt", "Train a GPT model. Flags are Megatron-LM's where it has them.");
  set.require_roles();
  declare_run(set, options);
  declare_model(set, options);
  declare_positions_and_norms(set, options);
  declare_model_parts(set, options);
  declare_vocabulary_and_attention(set, options);
  declare_batch(set, options);
  declare_optimiser(set, options);
  declare_adam_and_loss(set, options);
  declare_parallelism(set, options);
  declare_pipeline(set, options);
  declare_data_parallelism(set, options);
  declare_precision(set, options);
  declare_fp8(set, options);
  declare_recomputation(set, options);
  declare_gpt_data(set, options);
  declare_gpt_logging(set, options);
  declare_gpt_checkpoints(set, options);
  declare_megatron_foreign_flags(set);
  return set;
}

}  // namespace lockstep::tasks
