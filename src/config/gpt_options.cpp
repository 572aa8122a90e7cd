#include "config/gpt_options.h"

#include "config/borrowed_flags.h"

namespace lockstep::config {
namespace {

void declare_run(core::OptionSet& set, GptOptions& o) {
  set.group("Recipe and dry run");
  set.add_config_option();
  borrow_train_flags(set, o.run, {"dry-run", "world-size", "json"});
  set.add("target-device", &o.target_device,
          {.help = "With --dry-run: say whether the run fits the memory of this device, or of the devices of this "
                   "system ('H100 80GB', LUMI-G).",
           .metavar = "NAME",
           .unset_text = "which sizes of devices it fits"});
}

void declare_model(core::OptionSet& set, GptOptions& o) {
  set.group("Model");
  set.add("model", &o.model,
          {.help = "Name of a model (gpt2, gpt3-175b, nemotron4-340b, llama3-8b, ...), or a config.json of Hugging "
                   "Face. The flags below change it, or "
                   "describe all of it.",
           .metavar = "NAME|FILE.json",
           .unset_text = "by --num-layers, --hidden-size, --num-attention-heads"});
  const auto size = [&](const char* name, std::optional<int64_t>& field, const char* help, const char* unset,
                        double max = 1 << 24) {
    set.add(name, &field, {.help = help, .unset_text = unset, .min = 1, .max = max});
  };
  size("num-layers", o.num_layers, "Transformer layers.", "by the model", 10000);
  size("hidden-size", o.hidden_size, "Width of the hidden state.", "by the model", 1 << 20);
  size("num-attention-heads", o.num_attention_heads, "Query heads.", "by the model", 65536);
  size("ffn-hidden-size", o.ffn_hidden_size, "Width inside the feed-forward layer.",
       "4 x hidden, with --swiglu 8/3 x hidden down to a multiple of 64", 1 << 22);
  size("kv-channels", o.kv_channels, "Width of a head.", "hidden / heads", 65536);
  set.add("group-query-attention", &o.group_query_attention,
          {.help = "Several query heads share keys and values; see --num-query-groups."});
  size("num-query-groups", o.num_query_groups, "Key and value heads, with --group-query-attention.", "1", 65536);
  size("seq-length", o.seq_length, "Tokens of a training sequence.", "by the model");
  size("max-position-embeddings", o.max_position_embeddings, "Longest sequence that has positions.", "by the model");
  set.add("position-embedding-type", &o.position_embedding_type,
          {.help = "A learned table, rotary positions, or none.",
           .unset_text = "by the model, else learned_absolute",
           .choices = {"learned_absolute", "rope", "none"},
           .refused_choices = {{"yarn", "use rope"}, {"mrope", "use rope"}, {"relative", "use rope"}}});
  set.add("rotary-base", &o.rotary_base,
          {.help = "Base of the rotary wave lengths.",
           .unset_text = "by the model, else 10000",
           .min = 1,
           .is_min_excluded = true});
  set.add("rotary-percent", &o.rotary_percent,
          {.help = "Part of each head that is turned.",
           .unset_text = "by the model, else 1",
           .min = 0,
           .max = 1,
           .is_min_excluded = true});
  set.add("use-rope-scaling", &o.use_rope_scaling, {.help = "Stretch rotary wave lengths as Llama 3.1 does."});
  set.add("rope-scaling-factor", &o.rope_scaling_factor, {.help = "How far --use-rope-scaling stretches.", .min = 1});
  set.add("normalization", &o.normalization,
          {.help = "Kind of norm.", .unset_text = "by the model, else LayerNorm", .choices = {"LayerNorm", "RMSNorm"}});
  set.add("norm-epsilon", &o.norm_epsilon,
          {.help = "Added to the variance.",
           .unset_text = "by the model, else 1e-5",
           .min = 0,
           .is_min_excluded = true,
           .aliases = {"layernorm-epsilon"}});
  set.add("apply-layernorm-1p", &o.apply_layernorm_1p, {.help = "Store gains of LayerNorm minus 1."});
}

void declare_model_parts(core::OptionSet& set, GptOptions& o) {
  set.add("swiglu", &o.swiglu, {.help = "Gated feed-forward layer with SiLU."});
  set.add("squared-relu", &o.squared_relu, {.help = "Squared ReLU instead of GELU."});
  set.add("no-bias-gelu-fusion", &o.no_bias_gelu_fusion,
          {.help = "The exact GELU, as that flag has it; without, its tanh form."});
  set.add("disable-bias-linear", &o.disable_bias_linear, {.help = "Linear layers without biases."});
  set.add("add-qkv-bias", &o.add_qkv_bias, {.help = "Biases of queries, keys and values all the same."});
  set.add("untie-embeddings-and-output-weights", &o.untie_embeddings_and_output_weights,
          {.help = "A head of its own instead of the word embedding."});
  for (const auto& [name, field] :
       {std::pair("hidden-dropout", &o.hidden_dropout), std::pair("attention-dropout", &o.attention_dropout)})
    set.add(name, field,
            {.help = "Share of elements set to zero while training.",
             .unset_text = "by the model, else 0.1",
             .min = 0,
             .max = 1,
             .is_max_excluded = true});
  set.add("init-method-std", &o.init_method_std,
          {.help = "Standard deviation of initial weights; output projections have it divided by sqrt(2 layers).",
           .unset_text = "by the model, else 0.02",
           .min = 0,
           .is_min_excluded = true});
  set.add("embedding-init-method-std", &o.embedding_init_method_std,
          {.help = "The same of embeddings, which then have no weight decay.",
           .unset_text = "--init-method-std",
           .min = 0,
           .is_min_excluded = true});
  set.add(
      "vocab-size", &o.vocab_size,
      {.help = "Token ids there are.",
       .unset_text = "by --model, else as many as the tokenizer of --tokenizer-model or --vocab-file has, else 50257",
       .min = 2,
       .max = 1 << 24});
  set.add("make-vocab-size-divisible-by", &o.make_vocab_size_divisible_by,
          {.help = "The embedding has a multiple of this x --tensor-model-parallel-size rows.",
           .unset_text = "by the model, else 128",
           .min = 1,
           .max = 1 << 20});
  set.add("padded-vocab-size", &o.padded_vocab_size,
          {.help = "Rows of the embedding at any tensor-parallel size, so that all of them train the same model.",
           .unset_text = "by the flag above",
           .min = 2,
           .max = 1 << 24});
  set.add("attention-backend", &o.attention_backend,
          {.help = "auto: the fastest exact kernel for device and length; with --attention-dropout one that keeps "
                   "probabilities. flash: the same, refused with --attention-dropout.",
           .choices = {"auto", "flash"},
           .choice_aliases = {{"fused", "flash"}},
           .refused_choices = {{"unfused", "use auto: no kernel is chosen by name in this version"},
                               {"local", "use auto: no kernel is chosen by name in this version"}}});
}

void declare_batch(core::OptionSet& set, GptOptions& o) {
  set.group("Batch and length");
  set.add("micro-batch-size", &o.micro_batch_size,
          {.help = "Sequences of one forward pass.", .unit = "sequences per data rank", .min = 1, .max = 1e6});
  set.add("global-batch-size", &o.global_batch_size,
          {.help = "Sequences of one step over all ranks.",
           .unit = "sequences",
           .unset_text = "--micro-batch-size x data ranks",
           .min = 1,
           .max = 1e9});
  set.add("decrease-batch-size-if-needed", &o.decrease_batch_size_if_needed,
          {.help = "A global batch that does not divide becomes the next smaller that does."});
  set.add("train-iters", &o.train_iters,
          {.help = "Steps to train.", .unit = "steps", .unset_text = "by --train-samples", .min = 1, .max = 1e9});
  set.add(
      "train-samples", &o.train_samples,
      {.help = "Sequences to train on.", .unit = "sequences", .unset_text = "by --train-iters", .min = 1, .max = 1e15});
  set.add("exit-interval", &o.exit_interval,
          {.help = "Save and exit, with code 0, after a step that this divides.", .unit = "steps", .min = 1});
  set.add("exit-duration-in-mins", &o.exit_duration_in_mins,
          {.help = "Save and exit, with code 0, two steps after this time since the start of the process of rank 0 is "
                   "over; nothing is evaluated then.",
           .unit = "minutes",
           .min = 0,
           .is_min_excluded = true});
  borrow_train_flags(set, o.run, {"seed"});
}

void declare_optimiser(core::OptionSet& set, GptOptions& o) {
  set.group("Optimiser");
  set.add("lr", &o.lr,
          {.help = "Peak learning rate.", .unset_text = "must be given to train", .min = 0, .is_min_excluded = true});
  set.add("min-lr", &o.min_lr, {.help = "Learning rate at the end of the decay.", .min = 0});
  set.add("lr-decay-style", &o.lr_decay_style,
          {.help = "Learning rate after the warm-up. WSD: constant, then a tail.",
           .choices = {"constant", "linear", "cosine", "inverse-square-root", "WSD"}});
  set.add("lr-decay-iters", &o.lr_decay_iters,
          {.help = "Length of the decay, warm-up included.", .unit = "steps", .unset_text = "the whole run", .min = 1});
  set.add("lr-decay-samples", &o.lr_decay_samples,
          {.help = "The same with --train-samples.", .unit = "sequences", .unset_text = "the whole run", .min = 1});
  set.add("lr-warmup-iters", &o.lr_warmup_iters, {.help = "Linear warm-up.", .unit = "steps", .min = 0});
  set.add("lr-warmup-samples", &o.lr_warmup_samples,
          {.help = "The same with --train-samples.", .unit = "sequences", .min = 0});
  set.add("lr-warmup-fraction", &o.lr_warmup_fraction,
          {.help = "Warm-up as part of the decay's length.", .unset_text = "by the flags above", .min = 0, .max = 1});
  set.add("lr-warmup-init", &o.lr_warmup_init, {.help = "Learning rate at which the warm-up begins.", .min = 0});
  set.add("lr-wsd-decay-style", &o.lr_wsd_decay_style,
          {.help = "Form of WSD's tail.", .choices = {"exponential", "linear", "cosine", "minus_sqrt"}});
  set.add("lr-wsd-decay-iters", &o.lr_wsd_decay_iters, {.help = "Length of WSD's tail.", .unit = "steps", .min = 1});
  set.add("weight-decay", &o.weight_decay, {.help = "AdamW: weight decay of matrices.", .min = 0});
  for (const auto& [name, field, help] :
       {std::tuple("adam-beta1", &o.adam_beta1, "AdamW: decay of the first moment."),
        std::tuple("adam-beta2", &o.adam_beta2, "AdamW: decay of the second moment.")})
    set.add(name, field, {.help = help, .min = 0, .max = 1, .is_max_excluded = true});
  set.add("adam-eps", &o.adam_eps,
          {.help = "AdamW: added to the root of the second moment.", .min = 0, .is_min_excluded = true});
  set.add("clip-grad", &o.clip_grad, {.help = "Largest global L2 norm of the gradient; 0: no clipping.", .min = 0});
  set.add("calculate-per-token-loss", &o.calculate_per_token_loss,
          {.help = "The loss is the mean over all tokens of a step that count, not over micro-batches and data ranks "
                   "of their means: under a loss mask, too, the same at every layout and micro-batch size."});
}

void declare_parallelism(core::OptionSet& set, GptOptions& o) {
  set.group("Parallelism");
  set.add("tensor-model-parallel-size", &o.tensor_model_parallel_size,
          {.help = "Ranks that share each layer.", .unit = "ranks", .min = 1, .max = 1 << 16, .aliases = {"tp"}});
  set.add("pipeline-model-parallel-size", &o.pipeline_model_parallel_size,
          {.help = "Stages that share the layers.", .unit = "ranks", .min = 1, .max = 1 << 16, .aliases = {"pp"}});
  set.add("sequence-parallel", &o.sequence_parallel,
          {.help = "Tensor ranks share the tokens between their layers: less memory, no more traffic."});
  set.add("num-layers-per-virtual-pipeline-stage", &o.num_layers_per_virtual_pipeline_stage,
          {.help = "Interleaved schedule with chunks of this many layers.",
           .unit = "layers",
           .unset_text = "one chunk per stage",
           .min = 1});
  set.add("num-virtual-stages-per-pipeline-rank", &o.num_virtual_stages_per_pipeline_rank,
          {.help = "The same as a number of chunks per stage.", .unset_text = "1", .min = 1, .max = 10000});
  set.add("microbatch-group-size-per-virtual-pipeline-stage", &o.microbatch_group_size,
          {.help = "Micro-batches that a chunk takes in a row.",
           .unit = "micro-batches",
           .unset_text = "--pipeline-model-parallel-size",
           .min = 1});
  set.add("pipeline-model-parallel-layout", &o.pipeline_model_parallel_layout,
          {.help = "Who holds what, stage by stage: E embedding, t layer, L head, | border, (...)*N repetition, as in "
                   "'Et|(tt|)*3L'.",
           .metavar = "LAYOUT"});
  set.add("decoder-first-pipeline-num-layers", &o.decoder_first_pipeline_num_layers,
          {.help = "Layers of the first stage.", .unit = "layers", .unset_text = "an even share", .min = 0});
  set.add("decoder-last-pipeline-num-layers", &o.decoder_last_pipeline_num_layers,
          {.help = "Layers of the last stage.", .unit = "layers", .unset_text = "an even share", .min = 0});
  set.add("account-for-embedding-in-pipeline-split", &o.account_for_embedding_in_pipeline_split,
          {.help = "The embedding takes the place of a layer."});
  set.add("account-for-loss-in-pipeline-split", &o.account_for_loss_in_pipeline_split,
          {.help = "The head takes the place of a layer."});
  set.add("pipeline-schedule", &o.pipeline_schedule,
          {.help = "1f1b: forward and backward passes take turns (interleaved with virtual stages). gpipe: all forward "
                   "passes first.",
           .choices = {"1f1b", "gpipe"}});
  set.add("use-distributed-optimizer", &o.use_distributed_optimizer,
          {.help = "Data ranks share the state of the optimiser (ZeRO-1)."});
  set.add("overlap-grad-reduce", &o.overlap_grad_reduce,
          {.help = "Reduce gradients during the backward pass of the last micro-batch. Always so here."});
  set.add("overlap-param-gather", &o.overlap_param_gather,
          {.help = "Gather updated parameters while the next forward pass comes to them, block by block. Always so "
                   "here with --use-distributed-optimizer."});
  set.add("ddp-bucket-size", &o.ddp_bucket_size,
          {.help = "Elements of a gradient bucket.",
           .unit = "elements",
           .unset_text = "40 million, or 1 million x data ranks where that is more",
           .min = 1,
           .max = 1e12});
  set.add("use-tp-pp-dp-mapping", &o.use_tp_pp_dp_mapping,
          {.help = "Number ranks along tp, pp, dp instead of tp, dp, pp."});
}

void declare_precision(core::OptionSet& set, GptOptions& o) {
  set.group("Precision and memory");
  set.add("precision", &o.precision,
          {.help = "Type of weights and activations; under bf16 and fp16 the optimiser keeps fp32 masters.",
           .choices = {"fp32", "bf16", "fp16"},
           .refused_choices = {{"fp8", "use --bf16 --fp8-format hybrid"}}});
  set.add("bf16", &o.bf16, {.help = "The same as --precision bf16."});
  set.add("fp16", &o.fp16, {.help = "The same as --precision fp16."});
  set.add("loss-scale", &o.loss_scale,
          {.help = "fp16: constant loss scale.", .unset_text = "adapted", .min = 0, .is_min_excluded = true});
  set.add("initial-loss-scale", &o.initial_loss_scale,
          {.help = "fp16: loss scale at the start.", .min = 0, .is_min_excluded = true});
  set.add("min-loss-scale", &o.min_loss_scale,
          {.help = "fp16: smallest loss scale.", .min = 0, .is_min_excluded = true});
  set.add("loss-scale-window", &o.loss_scale_window,
          {.help = "fp16: clean steps before the scale doubles.", .unit = "steps", .min = 1});
  set.add("hysteresis", &o.hysteresis, {.help = "fp16: overflows before the scale is halved.", .min = 1});
  set.add("accumulate-allreduce-grads-in-fp32", &o.accumulate_allreduce_grads_in_fp32,
          {.help = "Add up and reduce gradients in fp32. So with bf16 unless --grad-reduce-in-bf16."});
  set.add("grad-reduce-in-bf16", &o.grad_reduce_in_bf16, {.help = "bf16: add up and reduce gradients in bf16."});
  set.add("fp8-format", &o.fp8_format,
          {.help = "Matrix products in FP8: e4m3, or hybrid with e5m2 for gradients.",
           .unset_text = "no FP8",
           .choices = {"e4m3", "hybrid"}});
  set.add("fp8-recipe", &o.fp8_recipe,
          {.help = "Scales from past steps (delayed) or from the tensor at hand.",
           .choices = {"delayed", "tensorwise"},
           .refused_choices = {{"blockwise", "use delayed or tensorwise"}, {"mxfp8", "use delayed or tensorwise"}}});
  set.add("fp8-margin", &o.fp8_margin,
          {.help = "FP8: powers of two that scales stay away from the largest value.", .min = 0, .max = 16});
  set.add("fp8-amax-history-len", &o.fp8_amax_history_len,
          {.help = "FP8, delayed: steps whose largest values count.", .unit = "steps", .min = 1, .max = 1 << 20});
  set.add("fp8-amax-compute-algo", &o.fp8_amax_compute_algo,
          {.help = "FP8, delayed: which of them counts.", .choices = {"most_recent", "max"}});
  set.add("first-last-layers-bf16", &o.first_last_layers_bf16,
          {.help = "FP8: the first and the last layer stay in bf16."});
  set.add("recompute-activations", &o.recompute_activations,
          {.help = "The same as --recompute-granularity selective."});
  set.add("recompute-granularity", &o.recompute_granularity,
          {.help = "Compute again in the backward pass: selective the core of the attention, full whole layers.",
           .unset_text = "nothing",
           .choices = {"selective", "full"}});
  set.add("recompute-method", &o.recompute_method,
          {.help = "With full: uniform units of --recompute-num-layers layers, or the first --recompute-num-layers "
                   "layers of each chunk.",
           .choices = {"uniform", "block"}});
  set.add("recompute-num-layers", &o.recompute_num_layers,
          {.help = "See --recompute-method.", .unit = "layers", .min = 1});
  set.add("loss-chunk-tokens", &o.loss_chunk_tokens,
          {.help = "Tokens whose logits exist at a time; 0: as many as give 2^26 logits on a rank.",
           .unit = "tokens",
           .min = 0,
           .max = 1e9});
}

void declare_data(core::OptionSet& set, GptOptions& o) {
  set.group("Data");
  set.add(
      "data-path", &o.data_path,
      {.help =
           "Prefixes of .bin and .idx files: one, several, or weights and prefixes in turn. --split shares them out.",
       .metavar = "[WEIGHT] PREFIX"});
  for (const auto& [name, field] :
       {std::pair("train-data-path", &o.train_data_path), std::pair("valid-data-path", &o.valid_data_path)})
    set.add(name, field, {.help = "The same for this split alone.", .metavar = "[WEIGHT] PREFIX"});
  set.add("split", &o.split,
          {.help = "Parts of the documents for training, validation and test.",
           .metavar = "N,N,N",
           .unset_text = "969,30,1"});
  set.add("data-cache-path", &o.data_cache_path,
          {.help = "Folder of the orders of samples, made once and mapped by all ranks.",
           .metavar = "DIR",
           .unset_text =
               "cache/lockstep beside the first prefix where that can be written, else in the memory of each rank"});
  set.add("mock-data", &o.mock_data, {.help = "Made-up documents, the same on every layout."});
  set.add("tokenizer-type", &o.tokenizer_type,
          {.help = "Tokenizer that made the data, which tells where documents end: GPT2BPETokenizer, "
                   "HuggingFaceTokenizer, SentencePieceTokenizer or NullTokenizer.",
           .metavar = "TYPE",
           .unset_text = "by --vocab-file or --tokenizer-model",
           .choices = {"", "GPT2BPETokenizer", "HuggingFaceTokenizer", "SentencePieceTokenizer", "NullTokenizer"},
           .choice_aliases = {{"GPTSentencePieceTokenizer", "SentencePieceTokenizer"},
                              {"Llama2Tokenizer", "SentencePieceTokenizer"}},
           .refused_choices = {{"TikTokenizer", "convert it to a tokenizer.json and use HuggingFaceTokenizer"}}});
  set.add("tokenizer-model", &o.tokenizer_model, {.help = "SentencePiece model or tokenizer.json.", .metavar = "FILE"});
  set.add("vocab-file", &o.vocab_file, {.help = "vocab.json of GPT-2.", .metavar = "FILE"});
  set.add("merge-file", &o.merge_file, {.help = "merges.txt of GPT-2.", .metavar = "FILE"});
  set.add("dataloader-type", &o.dataloader_type,
          {.help = "In the order of the shuffle index.",
           .choices = {"single"},
           .refused_choices = {{"cyclic", "use single: samples are shuffled once for the whole run"},
                               {"external", "use single"}}});
  set.add("reset-position-ids", &o.reset_position_ids, {.help = "Positions begin again behind the end of a document."});
  set.add("reset-attention-mask", &o.reset_attention_mask,
          {.help = "Tokens do not see what stands before the end of a document."});
  set.add("eod-mask-loss", &o.eod_mask_loss,
          {.help = "No loss where the input is the end of a document. Gradients and the printed loss are then a mean "
                   "over micro-batches of their means over tokens that count; see --calculate-per-token-loss."});
}

void declare_logging(core::OptionSet& set, GptOptions& o) {
  set.group("Device and ranks");
  borrow_train_flags(set, o.run,
                     {"device",
                      {"dist-backend", {"distributed-backend"}},
                      "dist-url",
                      "dist-rank",
                      "dist-world-size",
                      "dist-local-rank",
                      "dist-timeout",
                      "threads",
                      {"deterministic", {"deterministic-mode"}},
                      {"check-replicas", {"check-weight-hash-across-dp-replicas-interval"}}});
  set.group("Logging and evaluation");
  borrow_train_flags(set, o.run,
                     {"logs", "name", "log-local", {"log-every-n-steps", {"log-interval"}}, "report-to", "debug"});
  set.add(
      "log-params-norm", &o.log_params_norm,
      {.help =
           "Log the norm of all parameters, too, as it is after the update; padding of the vocabulary is left out."});
  set.add(
      "log-num-zeros-in-grad", &o.log_num_zeros_in_grad,
      {.help = "Log the number of elements of the gradient that are 0, too; padding of the vocabulary is left out."});
  set.add("eval-iters", &o.eval_iters, {.help = "Global batches of one evaluation.", .unit = "steps", .min = 0});
  set.add("eval-interval", &o.eval_interval,
          {.help = "Evaluate every N steps.", .unit = "steps", .unset_text = "never", .min = 1});
  set.group("Profile");
  borrow_train_flags(set, o.run,
                     {"profile", "profile-step-start", "profile-step-end", "profile-ranks", "profile-tool"});
}

void declare_checkpoints(core::OptionSet& set, GptOptions& o) {
  set.group("Checkpoints");
  set.add("save", &o.save,
          {.help = "Folder of this run, with its checkpoints: short for --logs and --name. --load of the same folder "
                   "goes on with it, or begins it.",
           .metavar = "DIR"});
  set.add("load", &o.load,
          {.help = "A run, or one of its checkpoints, whose weights, optimiser and data position this run begins with; "
                   "also of another layout or global batch. Or weights of Hugging Face or Megatron.",
           .metavar = "DIR"});
  borrow_train_flags(set, o.run, {{"save-every-n-steps", {"save-interval"}}, "keep", "resume"});
  set.add("ckpt-step", &o.ckpt_step, {.help = "Step of --load to start from.", .unset_text = "the newest", .min = 0});
  set.add("finetune", &o.finetune, {.help = "Take weights alone from --load, and begin at step 0."});
  for (const auto& [name, field, help] :
       {std::tuple("no-load-optim", &o.no_load_optim,
                   "Take weights and position from --load, and begin with moments and loss scale of a new run."),
        std::tuple("async-save", &o.async_save, "Save while training goes on."),
        std::tuple("exit-on-missing-checkpoint", &o.exit_on_missing_checkpoint,
                   "End with exit code 5 where --resume latest, or --load of the folder of --save, would begin the run "
                   "because there is no checkpoint. --load of another folder always ends so.")})
    set.add(name, field, {.help = help});
}

/// Flags of common scripts that ask for what is the case here anyway, or for what has no counterpart.
void declare_without_effect(core::OptionSet& set, GptOptions& o) {
  set.group("Accepted without effect");
  constexpr const char
      *kNothing = "Changes nothing.",
      *kRandom = "Changes nothing: random numbers are functions of --seed and step, there is no state of them.";
  constexpr std::array<std::pair<const char*, const char*>, std::tuple_size_v<decltype(o.without_effect)>> kFlags{
      {{"use-mcore-models", kNothing},
       {"attention-softmax-in-fp32", kNothing},
       {"log-throughput", kNothing},
       {"exit-signal-handler", kNothing},
       {"use-flash-attn", kNothing},
       {"log-timers-to-tensorboard", kNothing},
       {"log-progress", kNothing},
       {"cross-entropy-loss-fusion", kNothing},
       {"distribute-saved-activations", kNothing},
       {"no-create-attention-mask-in-dataloader", kNothing},
       {"overlap-p2p-communication-warmup-flush", kNothing},
       {"manual-gc", kNothing},
       {"no-load-rng", kRandom},
       {"no-save-rng", kRandom},
       {"override-opt-param-scheduler", "Changes nothing: the schedule is always that of the flags."}}};
  for (size_t i = 0; i < kFlags.size(); ++i) set.add(kFlags[i].first, &o.without_effect[i], {.help = kFlags[i].second});
  set.add("num-workers", &o.num_workers,
          {.help = "Changes nothing: each rank's training thread reads its tokens itself, from mapped files.",
           .unit = "threads per rank",
           .min = 0,
           .max = 1024});
}

}  // namespace

core::OptionSet declare_gpt_options(GptOptions& options) {
  options.run.seed = 1234;
  core::OptionSet set("train gpt", "Train a GPT model. Flags are Megatron-LM's where it has them.");
  declare_run(set, options);
  declare_model(set, options);
  declare_model_parts(set, options);
  declare_batch(set, options);
  declare_optimiser(set, options);
  declare_parallelism(set, options);
  declare_precision(set, options);
  declare_data(set, options);
  declare_logging(set, options);
  declare_checkpoints(set, options);
  declare_without_effect(set, options);
  refuse_megatron_flags(set);
  return set;
}

}  // namespace lockstep::config
