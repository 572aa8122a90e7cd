#pragma once
#include <cstdint>
#include <string>

#include "core/options.h"

namespace lockstep::config {

enum class CkptJob { kList, kVerify, kConvert, kExport };

/// Options of `ckpt list`, `ckpt verify`, `ckpt convert` and `ckpt export`.
struct CkptOptions {
  CkptJob job = CkptJob::kList;
  std::string path;             // first argument: folder of checkpoints, run folder or file
  std::string output;           // second argument of convert and export
  std::string format = "auto";  // --format {auto,safetensors,openclip-pt}
  std::string prefix = "none";  // --prefix {none,module}: "module." before every name, as OpenCLIP 3 writes it
  std::string names =
      "as-is";        // --names {as-is,laion,openclip,huggingface,megatron}: weights under the names of that program
  std::string model;  // --model NAME or FILE.json, with --names
  std::string tokenizer_model;  // --tokenizer-model PATH, with --names huggingface of a GPT
  bool with_optimizer = false;  // --with-optimizer, export of a CLIP: AdamW's state, too
  bool model_ema = false;       // --model-ema, export: the averages that training kept, not the weights
  bool force = false;           // --force, convert and export: replace a file
  bool json = false;            // --json, list and verify
};

core::OptionSet declare_ckpt_options(CkptOptions& options);
/// Whether weights of a GPT are to have other names: Megatron's, or Hugging Face's with no CLAP model named.
bool is_gpt_export(const CkptOptions& options);
/// Whether the output is a PyTorch file: by --format, or by its ending (.pt, .pth, .bin).
bool writes_pt(const CkptOptions& options);
/// UsageError when the arguments contradict each other.
void check_ckpt_options(const CkptOptions& options, const core::OptionSet& set);

}  // namespace lockstep::config
