#include "config/generate_options.h"

#include "config/inference_options.h"
#include "config/option_checks.h"
#include "core/error.h"

namespace lockstep::config {
namespace {

void declare_prompts(core::OptionSet& set, GenerateOptions& o) {
  set.group("Prompts and output");
  set.add("prompt", &o.prompts,
          {.help = "Texts to go on from; the flag may be repeated. An empty one begins with the end-of-document token. "
                   "For a model without a tokenizer: token ids with blanks between.",
           .metavar = "TEXT"});
  set.add("prompt-file", &o.prompt_file, {.help = "Further prompts, one per line.", .metavar = "FILE"});
  set.add("max-new-tokens", &o.max_new_tokens,
          {.help = "Tokens to add to each prompt at most; the model's positions are a limit, too.",
           .unit = "tokens",
           .min = 1,
           .max = 1 << 24});
  set.add("stop-at-eod", &o.stop_at_eod,
          {.help = "Stop where the model ends the document (the tokenizer's end-of-document token, or what the model's "
                   "configuration names)."});
  set.add(
      "output", &o.output,
      {.help = "File for the result.", .metavar = "FILE", .unset_text = "standard output", .aliases = {"o", "out"}});
  set.add("json", &o.as_json,
          {.help = "One JSON object per prompt: its text, the text added, the ids added, and why it ended. Without: "
                   "each prompt with what was added, blank lines between."});
}

void declare_model(core::OptionSet& set, GenerateOptions& o) {
  set.group("Model");
  set.add("pretrained", &o.pretrained,
          {.help = "Weights: a folder of Hugging Face (GPT-2, Llama, Nemotron), the folder of a run of `train gpt` or "
                   "one of its checkpoints, or a file of weights.",
           .metavar = "PATH"});
  set.add("model", &o.model,
          {.help = "Shape: a name (gpt2, llama3-8b, ...) or a config.json of Hugging Face.",
           .metavar = "NAME|FILE.json",
           .unset_text = "config.json beside the weights, or what the run recorded"});
  set.add("precision", &o.precision,
          {.help = "Numbers the model holds and computes with.", .choices = {"fp32", "bf16"}});
  set.group("Tokenizer");
  set.add("tokenizer-model", &o.tokenizer_model,
          {.help = "tokenizer.json, a folder with one (or with vocab.json and merges.txt), or a SentencePiece .model.",
           .metavar = "PATH",
           .unset_text = "that beside the weights, or of the run"});
  set.add("vocab-file", &o.vocab_file, {.help = "vocab.json of GPT-2, with --merge-file.", .metavar = "FILE"});
  set.add("merge-file", &o.merge_file, {.help = "merges.txt of GPT-2, with --vocab-file.", .metavar = "FILE"});
  set.add("eod-token", &o.eod_token,
          {.help = "The end-of-document token.",
           .metavar = "TOKEN",
           .unset_text = "<|endoftext|>, <|end_of_text|> or </s>, whichever the tokenizer has"});
  set.add("add-bos", &o.add_bos,
          {.help = "Begin every prompt with the token that the model's config.json calls bos_token_id, as Llama models "
                   "were trained."});
}

void declare_sampling(core::OptionSet& set, GenerateOptions& o) {
  set.group("Choice of tokens");
  set.add("greedy", &o.greedy,
          {.help = "The most probable token each time; so it is, too, where no flag of this group is given."});
  set.add("temperature", &o.temperature,
          {.help = "Draw tokens, from logits divided by this: below 1 likely ones become likelier. 0: no draw, as "
                   "with --greedy.",
           .unset_text = "1, with --top-k or --top-p",
           .min = 0});
  set.add("top-k", &o.top_k,
          {.help = "Draw among the most probable tokens.",
           .unit = "tokens",
           .unset_text = "all",
           .min = 1,
           .max = 1 << 24});
  set.add("top-p", &o.top_p,
          {.help = "Draw among the most probable tokens that together have at least this probability (behind "
                   "--temperature and --top-k).",
           .unset_text = "all",
           .min = 0,
           .max = 1,
           .is_min_excluded = true});
  set.add("seed", &o.seed,
          {.help = "Fixes all draws; those of a prompt depend on its number and nothing else.", .min = 0});
}

}  // namespace

core::OptionSet declare_generate_options(GenerateOptions& options) {
  core::OptionSet set("infer generate", "Continue texts with a GPT model.");
  set.group("Recipe");
  set.add_config_option();
  declare_prompts(set, options);
  declare_model(set, options);
  declare_sampling(set, options);
  set.group("Device and speed");
  set.add("batch-size", &options.prompts_per_batch,
          {.help = "Prompts that are continued together.", .unit = "prompts", .min = 1, .max = 65536});
  declare_device_option(set, &options.device);
  declare_gpu_math_options(set, options.gpu_math);
  declare_threads_option(set, &options.threads);
  return set;
}

void check_generate_options(const GenerateOptions& options, const core::OptionSet& set) {
  need_flag(set, options.pretrained.empty(), "--pretrained PATH",
            "without weights the result would be noise: name a folder of Hugging Face, or of a run of `train gpt` "
            "(<logs>/<name>)");
  need_flag(set, options.prompts.empty() && options.prompt_file.empty(), "--prompt TEXT or --prompt-file FILE",
            "--prompt '' begins a new document");
  if (options.greedy && options.is_sampled())
    throw UsageError(fmt::format("options: --greedy contradicts {}", options.temperature ? "--temperature"
                                                                     : options.top_k     ? "--top-k"
                                                                                         : "--top-p"),
                     "leave --greedy out to draw tokens, or the others to take the most probable one");
  if (set.is_given("seed") && !options.is_sampled() && !options.temperature)
    throw UsageError("options: --seed without --temperature, --top-k or --top-p",
                     "the most probable token needs no draw: add --temperature 1, or leave --seed out");
  if (!options.tokenizer_model.empty() && (!options.vocab_file.empty() || !options.merge_file.empty()))
    throw UsageError("options: --tokenizer-model contradicts --vocab-file and --merge-file",
                     "give the one or the others");
}

}  // namespace lockstep::config
