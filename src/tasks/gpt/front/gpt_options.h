#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/gpt_shape.h"
#include "config/run_options.h"
#include "core/options.h"

namespace lockstep::tasks {

/// Every option of `train gpt`, one field per flag beside those of RunOptions. Flag names and defaults are those of
/// Megatron-LM where it has the flag; what runs, where and what it leaves behind has the flags of RunOptions. What an
/// empty field means stands in the help of its flag.
struct GptOptions : config::RunOptions {
  GptOptions() {
    task = "gpt";
    precision = "fp32";  // --precision {fp32,bf16,fp16}; --bf16, --fp16
  }

  // Model
  // --model NAME or config.json; "": by the flags below
  std::optional<int64_t> num_layers, hidden_size, num_attention_heads;  // --num-layers, ...
  std::optional<int64_t> ffn_hidden_size, kv_channels;
  bool group_query_attention = false;       // --group-query-attention
  std::optional<int64_t> num_query_groups;  // --num-query-groups
  std::optional<int64_t> seq_length, max_position_embeddings;
  std::optional<std::string> position_embedding_type;  // {learned_absolute,rope,none}
  std::optional<double> rotary_base, rotary_percent;
  bool use_rope_scaling = false;  // --use-rope-scaling, Llama 3.1's
  double rope_scaling_factor = 8.0;
  std::optional<std::string> normalization;  // {LayerNorm,RMSNorm}
  std::optional<double> norm_epsilon;
  bool apply_layernorm_1p = false;
  bool swiglu = false, squared_relu = false;
  bool disable_bias_linear = false, add_qkv_bias = false;
  bool untie_embeddings_and_output_weights = false;
  std::optional<double> hidden_dropout, attention_dropout;
  std::optional<double> init_method_std, embedding_init_method_std;
  std::optional<int64_t> vocab_size, padded_vocab_size, make_vocab_size_divisible_by;
  bool no_bias_gelu_fusion = false;        // exact GELU
  std::string attention_backend = "auto";  // {auto,flash,unfused}

  // Batch and length
  int64_t micro_batch_size = 1;              // sequences per rank
  std::optional<int64_t> global_batch_size;  // default: micro-batch x data ranks
  bool decrease_batch_size_if_needed = false;
  std::optional<int64_t> train_iters, train_samples;  // one of them
  std::optional<int64_t> exit_interval;
  std::optional<double> exit_duration_in_mins;

  // Optimiser
  double min_lr = 0.0;
  std::string lr_decay_style = "linear";
  std::optional<int64_t> lr_decay_iters, lr_decay_samples;
  int64_t lr_warmup_iters = 0, lr_warmup_samples = 0;
  std::optional<double> lr_warmup_fraction;
  double lr_warmup_init = 0.0;
  std::string lr_wsd_decay_style = "exponential";
  std::optional<int64_t> lr_wsd_decay_iters;
  double weight_decay = 0.01, adam_beta1 = 0.9, adam_beta2 = 0.999, adam_eps = 1e-8, clip_grad = 1.0;
  bool calculate_per_token_loss = false;

  // Parallelism
  int64_t tensor_model_parallel_size = 1, pipeline_model_parallel_size = 1;
  bool sequence_parallel = false;
  std::optional<int64_t> num_layers_per_virtual_pipeline_stage, num_virtual_stages_per_pipeline_rank;
  std::string pipeline_model_parallel_layout;
  std::optional<int64_t> microbatch_group_size;  // --microbatch-group-size-per-virtual-pipeline-stage
  std::optional<int64_t> decoder_first_pipeline_num_layers, decoder_last_pipeline_num_layers;
  bool account_for_embedding_in_pipeline_split = false, account_for_loss_in_pipeline_split = false;
  std::string pipeline_schedule = "1f1b";  // {1f1b,gpipe}
  bool use_distributed_optimizer = false;  // ZeRO-1
  bool overlap_grad_reduce = false, overlap_param_gather = false;
  std::optional<int64_t> ddp_bucket_size;  // elements
  bool use_tp_pp_dp_mapping = false;

  // Precision and memory
  bool bf16 = false, fp16 = false;
  std::optional<double> loss_scale;
  double initial_loss_scale = 4294967296.0, min_loss_scale = 1.0;
  int64_t loss_scale_window = 1000, hysteresis = 2;
  bool accumulate_allreduce_grads_in_fp32 = false;  // set with bf16 unless --grad-reduce-in-bf16
  bool grad_reduce_in_bf16 = false;
  std::optional<std::string> fp8_format;  // {e4m3,hybrid}
  std::string fp8_recipe = "delayed";     // {delayed,tensorwise}
  int64_t fp8_margin = 0, fp8_amax_history_len = 1;
  std::string fp8_amax_compute_algo = "most_recent";  // {most_recent,max}
  bool first_last_layers_bf16 = false;
  bool recompute_activations = false;                                  // = --recompute-granularity selective
  std::optional<std::string> recompute_granularity, recompute_method;  // {selective,full}, {uniform,block}
  std::optional<int64_t> recompute_num_layers;
  int64_t loss_chunk_tokens = 0;  // --loss-chunk-tokens, 0: by size

  // Data
  std::vector<std::string> data_path, train_data_path, valid_data_path;
  std::optional<std::string> split;
  std::string data_cache_path;  // folder of sample indices
  bool mock_data = false;
  std::string tokenizer_type, tokenizer_model, vocab_file, merge_file;
  std::string dataloader_type = "single";  // {single}
  bool reset_position_ids = false, reset_attention_mask = false, eod_mask_loss = false;

  // Evaluation
  int64_t eval_iters = 100;
  std::optional<int64_t> eval_interval;

  // Logs
  bool log_params_norm = false, log_num_zeros_in_grad = false;

  // Checkpoints
  std::string load;  // --load: a run, a checkpoint or weights; --save is of RunOptions
  std::optional<int64_t> ckpt_step;
  bool finetune = false, no_load_optim = false;
  bool async_save = false, exit_on_missing_checkpoint = false;

  // Dry run
  std::string device_memory;  // --device-memory SIZE|NAME, only with --dry-run

  // Flags of Megatron-LM that mean something of ours, or nothing
  bool use_flash_attn = false;
  int64_t num_workers = 2;
  std::optional<double> distributed_timeout_minutes;  // --dist-timeout in minutes
  std::string tensorboard_dir;                        // asks for --report-to tensorboard
};

/// Declares every flag of `train gpt` for the fields of `options`, and by name the Megatron flags that are refused or
/// have no effect here.
core::OptionSet declare_gpt_options(GptOptions& options);

/// What a run cannot do without, and is not given.
struct NeededFlag {
  const char* message;
  const char* hint;
};
std::vector<NeededFlag> missing_flags(const GptOptions& options);

/// Is it said how long to train?
inline bool has_length(const GptOptions& options) { return options.train_iters || options.train_samples; }

/// What follows from other flags: --precision from --bf16 or --fp16, gradients in fp32 with bf16, selective
/// recomputation.
void fill_gpt_defaults(GptOptions& options, core::OptionSet& set);

/// Refuses options that contradict each other (UsageError names both flags). Returns warnings: legal, but rarely what
/// is meant.
std::vector<std::string> check_gpt_options(const GptOptions& options, const core::OptionSet& set);

/// The model that the options describe: --model with the flags that change it, or all of it from flags. UsageError
/// where it is not complete.
config::GptShape gpt_shape_of(const GptOptions& options);

/// Does a flag say how many tokens there are? Else the tokenizer does, and until it is read a default stands in.
bool has_known_vocabulary(const GptOptions& options);

/// Name of the training precision: 16-bit weights have fp32 masters.
std::string gpt_precision(const GptOptions& options);

/// Optimiser steps of the whole run.
int64_t gpt_train_steps(const GptOptions& options, int64_t global_batch);

/// Steps between two evaluations; without evaluation the whole run.
int64_t gpt_steps_per_epoch(const GptOptions& options, int64_t num_steps);

/// What a run must know of the options. UsageError where --train-samples does not tell its steps.
config::RunFacts gpt_run_facts(const GptOptions& options);

}  // namespace lockstep::tasks
