#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/gpu_math.h"
#include "core/options.h"

namespace lockstep::config {

enum class InferJob { kEmbed, kClassify, kCaption };

/// Options of `infer embed`, `infer classify` and `infer caption`.
struct InferOptions {
  InferJob job = InferJob::kEmbed;
  std::string model = "RN50";                     // --model NAME or FILE.json
  std::string pretrained;                         // --pretrained FILE
  std::string images;                             // --images DIR
  std::string sounds;                             // --sounds DIR, with a CLAP model instead of --images
  std::string texts;                              // --texts FILE, embed only
  std::string shards;                             // --shards SPEC, embed only
  std::string image_key, audio_ext, text_key;     // --image-key and so on, with --shards; "": as training has it
  std::string towers = "both";                    // --towers {both,image,text}, with --shards
  std::string format = "safetensors";             // --format {safetensors,npy}, with --shards
  std::string feature_type = "fp32";              // --feature-dtype {fp32,fp16}, with --shards
  std::string output;                             // --output FILE
  std::string classnames, templates;              // --classnames FILE, --templates FILE, classify only
  int64_t top_k = 5;                              // --top-k, classify only
  std::string caption_search = "beam";            // --search {beam,greedy,top-k,top-p}, caption only, as the next
  int64_t num_beams = 2, caption_top_k = 1;       // --num-beams, --top-k
  double caption_top_p = 0.1, temperature = 1.0;  // --top-p, --temperature
  static constexpr int64_t kLongestCaption = 30;
  std::optional<int64_t> longest_caption;          // --max-tokens; 30, or fewer where the model has fewer
  int64_t shortest_caption = 5;                    // --min-tokens
  int64_t seed = 0;                                // --seed
  int64_t samples_per_batch = 64;                  // --batch-size
  std::string device = "auto";                     // --device {auto,cuda,cpu}
  std::string cuda_graphs = "auto";                // --cuda-graphs {auto,off}, not of caption
  GpuMath gpu_math;                                // --tf32, --cudnn-tf32, --cudnn-benchmark
  std::string precision = "fp32";                  // --precision {fp32,amp,amp_bf16,bf16,pure_bf16}
  int64_t workers = 4;                             // --workers, decoding threads
  int64_t threads = 0;                             // --threads, 0 = auto
  std::string tokenizer_vocab;                     // --tokenizer-vocab FILE
  std::optional<std::string> image_interpolation;  // --image-interpolation {bicubic,bilinear}
  std::optional<std::string> image_resize_mode;    // --image-resize-mode {shortest,longest,squash}
  std::optional<int64_t> image_fill_color;         // --image-fill-color, 0 to 255
  std::string resize_order = "pillow13";           // --resize-order {pillow13,horizontal}
  std::optional<int64_t> force_context_length;
  std::vector<int64_t> force_image_size;
  bool force_quick_gelu = false;
  std::optional<int64_t> resize_pixels;       // --val-resize-size, of a classifier
  std::vector<double> image_mean, image_std;  // none, 1 or 3 values
  int64_t max_image_pixels = 25'000'000;
  std::string audio_fill = "repeatpad", audio_trunc = "trunc";  // --audio-fill, --audio-trunc; see ContrastiveOptions
  bool audio_int16_normalize = true;

  /// infer classify: --model was left out beside a file of weights, which may be a classifier's. Its tensors tell, once
  /// they are read; only then can the options be checked.
  bool asks_weights = false;

  bool has_classifier() const;  ///< --model names a network of `train imagenet`.
  const std::string& input() const { return sounds.empty() ? images : sounds; }  ///< Folder beside the texts.
};

core::OptionSet declare_infer_options(InferOptions& options);
/// What --model and --pretrained tell of each other and of the preparation of pictures. UsageError for a configuration
/// beside weights that cannot be read.
void fill_infer_defaults(InferOptions& options, core::OptionSet& set);
/// UsageError when a needed flag is missing or flags contradict each other.
void check_infer_options(const InferOptions& options, const core::OptionSet& set);
/// UsageError where `command` is one that every rank would do in full, and there are several.
void check_infer_ranks(const std::string& command, bool has_shards, int64_t num_ranks);

}  // namespace lockstep::config
