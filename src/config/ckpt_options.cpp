#include "config/ckpt_options.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "config/contrastive_shape.h"
#include "config/option_checks.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {
struct JobText {
  const char* command;
  const char* summary;
  const char* path_help;
};

JobText job_text(CkptJob job) {
  switch (job) {
    case CkptJob::kList: return {"ckpt list", "List the checkpoints of a run.", "Run folder or folder of checkpoints."};
    case CkptJob::kVerify:
      return {"ckpt verify", "Check every checksum of checkpoints.",
              "Checkpoint, run folder, folder of checkpoints, or a .pt file, whose records have checksums."};
    case CkptJob::kConvert:
      return {"ckpt convert", "Rewrite weights in another format.",
              "Weights: .safetensors, OpenCLIP .pt, or of a GPT a folder of Hugging Face."};
    case CkptJob::kExport:
      return {
          "ckpt export",
          "Write the weights of a checkpoint for other programs: as one file, or a GPT as a folder of Hugging Face.",
          "Run of `lockstep train` (its newest checkpoint) or one of its checkpoints."};
  }
  return {};
}

/// Endings of OUT that say what is written.
constexpr auto kPtEndings = std::to_array<std::string_view>({".pt", ".pth", ".bin"});
constexpr std::string_view kSafetensorsEnding = ".safetensors";

std::string ending_of(const CkptOptions& options) {
  return core::to_lower_ascii(std::filesystem::path(options.output).extension().string());
}

bool is_pt_ending(const std::string& ending) { return std::ranges::count(kPtEndings, std::string_view(ending)) > 0; }

/// A file that is named as what it does not hold misleads whoever reads it.
void check_ending(const CkptOptions& options) {
  const std::string ending = ending_of(options);
  if (options.format != "auto" || ending.empty() || ending == kSafetensorsEnding || is_pt_ending(ending)) return;
  throw UsageError(
      fmt::format("options: '{}' ends in {}, which is no format that can be written", options.output, ending),
      fmt::format("name a file that ends in {} (safetensors) or in {} (PyTorch), or choose with --format "
                  "safetensors or openclip-pt",
                  kSafetensorsEnding, core::join_or(std::vector<std::string>(kPtEndings.begin(), kPtEndings.end()))));
}

bool writes_file(CkptJob job) { return job == CkptJob::kConvert || job == CkptJob::kExport; }

void check_gpt_export(const CkptOptions& options) {
  const auto refuse = [&](const std::string& flag, const std::string& hint) {
    throw UsageError(fmt::format("options: --names {} of a GPT contradicts {}", options.names, flag), hint);
  };
  if (options.format == "openclip-pt")
    refuse("--format openclip-pt", "leave --format out: the weights go into safetensors");
  if (options.prefix != "none") refuse("--prefix " + options.prefix, "leave --prefix out: it is for OpenCLIP's files");
  const std::string ending = ending_of(options);
  const bool is_file = ending == kSafetensorsEnding || is_pt_ending(ending) || ending == ".json";
  if (options.names == "huggingface" && is_file)
    refuse(fmt::format("the file name '{}'", options.output),
           "name a folder, which gets weights, config.json and tokenizer; a CLIP's weights have OpenCLIP's names: "
           "--names openclip");
  if (options.names == "megatron" && ending != kSafetensorsEnding)
    refuse(fmt::format("the file name '{}'", options.output), "name a file that ends in .safetensors");
}
}  // namespace

bool is_gpt_export(const CkptOptions& options) {
  return options.names == "megatron" ||
         (options.names == "huggingface" && (options.model.empty() || !is_clap_model(options.model)));
}

bool writes_pt(const CkptOptions& options) {
  if (options.format != "auto") return options.format == "openclip-pt";
  return is_pt_ending(ending_of(options));
}

core::OptionSet declare_ckpt_options(CkptOptions& options) {
  const JobText text = job_text(options.job);
  core::OptionSet set(text.command, text.summary);
  if (writes_file(options.job)) {
    set.add_positional("in", &options.path, {.help = text.path_help, .metavar = "IN"});
    set.add_positional("out", &options.output,
                       {.help = "File to write; with --names huggingface of a GPT the folder.",
                        .metavar = "OUT",
                        .aliases = {"o", "output"}});
    set.add("format", &options.format,
            {.help = "auto: by the ending of OUT (.pt, .pth and .bin are openclip-pt). openclip-pt: a PyTorch file as "
                     "OpenCLIP writes it, readable by "
                     "torch.load(weights_only=True).",
             .choices = {"auto", "safetensors", "openclip-pt"}});
    set.add("prefix", &options.prefix,
            {.help = "module: put 'module.' before every name, as OpenCLIP 3 does when it saves from several ranks.",
             .choices = {"none", "module"}});
    set.add("names", &options.names,
            {.help = "Whose names the weights get, whatever they have. A CLIP's, with --model: openclip, those of "
                     "OpenCLIP's class of that model. CLAP's, with --model: those of LAION's CLAP, "
                     "OpenCLIP's development version or Hugging Face's ClapModel. "
                     "A GPT's: Hugging Face's (GPT-2, Llama or Nemotron, as a folder with config.json and tokenizer) "
                     "or Megatron's (one .safetensors).",
             .choices = {"as-is", "laion", "openclip", "huggingface", "megatron"}});
    set.add("model", &options.model,
            {.help = "Model that the weights belong to, with --names, where neither the run that they are of nor (of a "
                     "GPT) a config.json beside them says it.",
             .metavar = "NAME|FILE.json"});
    set.add("tokenizer-model", &options.tokenizer_model,
            {.help = "Tokenizer of a GPT's folder: tokenizer.json, a folder with one (or with vocab.json and "
                     "merges.txt), or a SentencePiece .model.",
             .metavar = "PATH",
             .unset_text = "that of the run, or beside the weights"});
    set.add("force", &options.force, {.help = "Replace OUT where it is a file that is there already."});
    if (options.job == CkptJob::kExport)
      set.add("model-ema", &options.model_ema,
              {.help = "Of a run of `train imagenet` with --model-ema: the averages of the weights instead of these."});
    if (options.job == CkptJob::kExport)
      set.add(
          "with-optimizer", &options.with_optimizer,
          {.help = "Of a CLIP, as openclip-pt: AdamW's state as well, so that OpenCLIP's --resume continues from the "
                   "file."});
  } else {
    set.add_positional("dir", &options.path, {.help = text.path_help, .metavar = "DIR"});
    set.add("json", &options.json, {.help = "Machine-readable output."});
  }
  return set;
}

void check_ckpt_options(const CkptOptions& options, const core::OptionSet& set) {
  if (writes_file(options.job) && options.path == options.output)
    throw UsageError(fmt::format("options: '{}' would overwrite its input '{}'", set.command(), options.path),
                     "name another output");
  std::error_code ignored;
  if (writes_file(options.job) && !options.force && std::filesystem::is_regular_file(options.output, ignored))
    throw UsageError(
        fmt::format("options: '{}' would replace the file '{}', which is there already", set.command(), options.output),
        "name another output, or add --force");
  if (writes_file(options.job) && options.names != "huggingface") need_folder_of(options.output);
  const bool has_model = !options.model.empty(), needs_model = options.names == "laion" || options.names == "openclip";
  if ((needs_model && !has_model) || (options.names == "as-is" && has_model))
    throw UsageError(fmt::format("options: '{}' needs --names and --model together", set.command()),
                     "for example --names laion --model HTSAT-tiny-Roberta-base");
  if (options.names == "laion" && !is_clap_model(options.model))
    throw UsageError(fmt::format("options: --names laion: '{}' is no CLAP", options.model),
                     "OpenCLIP's names of a CLIP are those of --names openclip");
  if (options.with_optimizer && (options.names != "as-is" || !writes_pt(options)))
    throw UsageError(
        fmt::format("options: --with-optimizer writes a training checkpoint of OpenCLIP, '{}' is none", options.output),
        "name a file that ends in .pt, without --names");
  const bool is_gpt = is_gpt_export(options);
  if (!options.tokenizer_model.empty() && !(is_gpt && options.names == "huggingface"))
    throw UsageError("options: --tokenizer-model is for a GPT with --names huggingface", "leave it out");
  if (is_gpt)
    check_gpt_export(options);
  else if (writes_file(options.job))
    check_ending(options);
}

}  // namespace lockstep::config
