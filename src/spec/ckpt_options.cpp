#include "spec/ckpt_options.h"

#include "core/error.h"

namespace lockstep::spec {
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
      return {"ckpt verify", "Check every checksum of checkpoints.", "Checkpoint, run folder or folder of checkpoints."};
    case CkptJob::kConvert:
      return {"ckpt convert", "Rewrite a file of weights in another format.", "Weights: .safetensors or OpenCLIP .pt."};
    case CkptJob::kExport:
      return {"ckpt export", "Write the weights of a checkpoint as one file for other programs.",
              "Checkpoint of `lockstep train`."};
  }
  return {};
}

bool writes_file(CkptJob job) { return job == CkptJob::kConvert || job == CkptJob::kExport; }
}  // namespace

core::OptionSet declare_ckpt_options(CkptOptions& options) {
  const JobText text = job_text(options.job);
  core::OptionSet set(text.command, text.summary);
  if (writes_file(options.job)) {
    set.add_positional("in", &options.path, {.help = text.path_help, .metavar = "IN"});
    set.add_positional("out", &options.output, {.help = "File to write.", .metavar = "OUT"});
    set.add("format", &options.format,
            {.help = "auto: by the ending of OUT (.pt, .pth and .bin are openclip-pt). openclip-pt: a PyTorch file as OpenCLIP writes it, readable by "
                     "torch.load(weights_only=True).",
             .choices = {"auto", "safetensors", "openclip-pt"}});
    set.add("prefix", &options.prefix,
            {.help = "module: put 'module.' before every name, as OpenCLIP 3 does when it saves from several ranks.",
             .choices = {"none", "module"}});
    set.add("names", &options.names,
            {.help = "Of CLAP weights, whatever names they have: under those of LAION's CLAP, OpenCLIP's development version or Hugging Face's ClapModel; "
                     "needs --model.",
             .choices = {"as-is", "laion", "openclip", "huggingface"}});
    set.add("model", &options.model, {.help = "CLAP model that the weights belong to, with --names.", .metavar = "NAME|FILE.json"});
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
  if ((options.names != "as-is") != !options.model.empty())
    throw UsageError(fmt::format("options: '{}' needs --names and --model together", set.command()),
                     "for example --names huggingface --model HTSAT-tiny-Roberta-base");
}

}  // namespace lockstep::spec
