#include "tasks/gpt/front/gpt_options_groups.h"

#include <tuple>

namespace lockstep::tasks {
using core::OptionRole;

namespace {

void declare_token_files(core::OptionSet& set, GptOptions& o) {
  set.group("Data");
  set.add(
      "data-path", &o.data_path,
      {.role = OptionRole::kConfiguration,
       .help =
           "Prefixes of .bin and .idx files: one, several, or weights and prefixes in turn. --split shares them out.",
       .metavar = "[WEIGHT] PREFIX"});
  const auto add_split = [&](const char* name, std::vector<std::string>* field, OptionRole role) {
    set.add(name, field, {.role = role, .help = "The same for this split alone.", .metavar = "[WEIGHT] PREFIX"});
  };
  add_split("train-data-path", &o.train_data_path, OptionRole::kConfiguration);
  add_split("valid-data-path", &o.valid_data_path, OptionRole::kNoInfluence);
  set.add("split", &o.split,
          {.role = OptionRole::kConfiguration,
           .help = "Parts of the documents for training, validation and test.",
           .metavar = "N,N,N",
           .unset_text = "969,30,1"});
  set.add("data-cache-path", &o.data_cache_path,
          {.role = OptionRole::kIdentity,
           .help = "Folder of the orders of samples, made once and mapped by all ranks.",
           .metavar = "DIR",
           .unset_text =
               "cache/lockstep beside the first prefix where that can be written, else in the memory of each rank"});
  set.add("mock-data", &o.mock_data,
          {.role = OptionRole::kConfiguration, .help = "Made-up documents, the same on every layout."});
}

void declare_tokenizer(core::OptionSet& set, GptOptions& o) {
  set.add("tokenizer-type", &o.tokenizer_type,
          {.role = OptionRole::kConfiguration,
           .help = "Tokenizer that made the data, which tells where documents end: GPT2BPETokenizer, "
                   "HuggingFaceTokenizer, SentencePieceTokenizer or NullTokenizer.",
           .metavar = "TYPE",
           .unset_text = "by --vocab-file or --tokenizer-model",
           .choices = {"", "GPT2BPETokenizer", "HuggingFaceTokenizer", "SentencePieceTokenizer", "NullTokenizer"},
           .choice_aliases = {{"GPTSentencePieceTokenizer", "SentencePieceTokenizer"},
                              {"Llama2Tokenizer", "SentencePieceTokenizer"}},
           .refused_choices = {{"TikTokenizer", "convert it to a tokenizer.json and use HuggingFaceTokenizer"}}});
  set.add("tokenizer-model", &o.tokenizer_model,
          {.role = OptionRole::kConfiguration, .help = "SentencePiece model or tokenizer.json.", .metavar = "FILE"});
  set.add("vocab-file", &o.vocab_file,
          {.role = OptionRole::kConfiguration, .help = "vocab.json of GPT-2.", .metavar = "FILE"});
  set.add("merge-file", &o.merge_file,
          {.role = OptionRole::kConfiguration, .help = "merges.txt of GPT-2.", .metavar = "FILE"});
}

void declare_samples(core::OptionSet& set, GptOptions& o) {
  set.add("dataloader-type", &o.dataloader_type,
          {.role = OptionRole::kConfiguration,
           .help = "In the order of the shuffle index.",
           .choices = {"single"},
           .refused_choices = {{"cyclic", "use single: samples are shuffled once for the whole run"},
                               {"external", "use single"}}});
  set.add("num-workers", &o.num_workers,
          {.role = OptionRole::kConfiguration,
           .help = "Changes nothing: each rank's training thread reads its tokens itself, from mapped files.",
           .unit = "threads per rank",
           .min = 0,
           .max = 1024});
  set.add("reset-position-ids", &o.reset_position_ids,
          {.role = OptionRole::kConfiguration, .help = "Positions begin again behind the end of a document."});
  set.add("reset-attention-mask", &o.reset_attention_mask,
          {.role = OptionRole::kConfiguration, .help = "Tokens do not see what stands before the end of a document."});
  set.add("eod-mask-loss", &o.eod_mask_loss,
          {.role = OptionRole::kConfiguration,
           .help = "No loss where the input is the end of a document. Gradients and the printed loss are then a mean "
                   "over micro-batches of their means over tokens that count; see --calculate-per-token-loss."});
}

}  // namespace

void declare_gpt_data(core::OptionSet& set, GptOptions& o) {
  declare_token_files(set, o);
  declare_tokenizer(set, o);
  declare_samples(set, o);
}

void declare_gpt_logging(core::OptionSet& set, GptOptions& o) {
  set.group("Device and ranks");
  config::declare_run_flags(set, o,
                            {"device",
                             {"dist-backend", {"distributed-backend"}},
                             "dist-url",
                             "dist-rank",
                             "dist-world-size",
                             "dist-local-rank",
                             "dist-timeout",
                             "join-timeout",
                             "threads",
                             {"deterministic", {"deterministic-mode"}},
                             "tf32",
                             "cudnn-tf32",
                             "cudnn-benchmark",
                             "cuda-graphs",
                             {"check-replicas", {"check-weight-hash-across-dp-replicas-interval"}}});
  set.add("distributed-timeout-minutes", &o.distributed_timeout_minutes,
          {.role = OptionRole::kIdentity,
           .help = "--dist-timeout in minutes.",
           .unit = "minutes",
           .unset_text = "--dist-timeout",
           .min = 0,
           .max = 1e4,
           .is_min_excluded = true});
  set.group("Logging and evaluation");
  config::declare_run_flags(set, o,
                            {"logs",
                             "name",
                             "log-local",
                             {"log-every-n-steps", {"log-interval"}},
                             "report-to",
                             "wandb-project-name",
                             "wandb-notes",
                             "debug"});
  set.add("tensorboard-dir", &o.tensorboard_dir,
          {.role = OptionRole::kNoInfluence,
           .help = "Short for --report-to tensorboard. Event files go into the run's folder, not into this one.",
           .metavar = "DIR"});
  set.add(
      "log-params-norm", &o.log_params_norm,
      {.role = OptionRole::kConfiguration,
       .help =
           "Log the norm of all parameters, too, as it is after the update; padding of the vocabulary is left out."});
  set.add(
      "log-num-zeros-in-grad", &o.log_num_zeros_in_grad,
      {.role = OptionRole::kConfiguration,
       .help = "Log the number of elements of the gradient that are 0, too; padding of the vocabulary is left out."});
  set.add("eval-iters", &o.eval_iters,
          {.role = OptionRole::kNoInfluence, .help = "Global batches of one evaluation.", .unit = "steps", .min = 0});
  set.add("eval-interval", &o.eval_interval,
          {.role = OptionRole::kNoInfluence,
           .help = "Evaluate every N steps.",
           .unit = "steps",
           .unset_text = "never",
           .min = 1});
  set.group("Profile");
  config::declare_run_flags(set, o,
                            {"profile", "profile-step-start", "profile-step-end", "profile-ranks", "profile-tool"});
}

void declare_gpt_checkpoints(core::OptionSet& set, GptOptions& o) {
  set.group("Checkpoints");
  set.add("save", &o.save,
          {.role = OptionRole::kIdentity,
           .help = "Folder of this run, with its checkpoints: short for --logs and --name. --load of the same folder "
                   "goes on with it, or begins it.",
           .metavar = "DIR"});
  set.add("load", &o.load,
          {.role = OptionRole::kIdentity,
           .help = "A run, or one of its checkpoints, whose weights, optimiser and data position this run begins with; "
                   "also of another layout or global batch. Or weights of Hugging Face or Megatron.",
           .metavar = "DIR"});
  config::declare_run_flags(set, o,
                            {{"save-every-n-steps", {"save-interval", "persistent-save-interval"}},
                             "keep",
                             "resume",
                             "remote-sync",
                             "remote-sync-frequency",
                             "remote-sync-deadline"});
  set.add(
      "ckpt-step", &o.ckpt_step,
      {.role = OptionRole::kIdentity, .help = "Step of --load to start from.", .unset_text = "the newest", .min = 0});
  set.add("finetune", &o.finetune,
          {.role = OptionRole::kIdentity, .help = "Take weights alone from --load, and begin at step 0."});
  for (const auto& [name, field, help] :
       {std::tuple("no-load-optim", &o.no_load_optim,
                   "Take weights and position from --load, and begin with moments and loss scale of a new run."),
        std::tuple("async-save", &o.async_save, "Save while training goes on."),
        std::tuple("exit-on-missing-checkpoint", &o.exit_on_missing_checkpoint,
                   "End with exit code 5 where --resume latest, or --load of the folder of --save, would begin the run "
                   "because there is no checkpoint. --load of another folder always ends so.")})
    set.add(name, field, {.role = OptionRole::kIdentity, .help = help});
}

}  // namespace lockstep::tasks
