#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/gpu_math.h"
#include "core/options.h"

namespace lockstep::config {

/// Options of `infer generate`, one field per flag. What an empty field means stands in the help of its flag.
struct GenerateOptions {
  std::string pretrained;            // --pretrained PATH
  std::string model;                 // --model NAME or config.json
  std::string precision = "fp32";    // --precision {fp32,bf16}
  std::vector<std::string> prompts;  // --prompt TEXT
  std::string prompt_file;           // --prompt-file FILE
  std::string tokenizer_model, vocab_file, merge_file, eod_token;
  bool add_bos = false;  // --add-bos
  int64_t max_new_tokens = 128;
  bool stop_at_eod = true;  // --no-stop-at-eod
  bool greedy = false;
  std::optional<double> temperature, top_p;
  std::optional<int64_t> top_k;
  int64_t seed = 0;
  std::string output;             // --output FILE
  bool as_json = false;           // --json
  int64_t prompts_per_batch = 8;  // --batch-size
  std::string device = "auto";
  GpuMath gpu_math;
  int64_t threads = 0;

  /// Else the most probable token is taken, as a temperature of 0 means it.
  bool is_sampled() const { return temperature != 0.0 && (temperature || top_p || top_k); }
};

core::OptionSet declare_generate_options(GenerateOptions& options);
/// UsageError when a needed flag is missing or flags contradict each other.
void check_generate_options(const GenerateOptions& options, const core::OptionSet& set);

}  // namespace lockstep::config
