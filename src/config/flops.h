#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/clap_shape.h"
#include "config/clip_shape.h"
#include "config/gpt_shape.h"

namespace lockstep::config {

/// Floating-point operations, 2 per multiply-add, and how they were counted, ready to be printed.
struct FlopCount {
  double flops = 0;
  std::string formula{};
};

/// Training costs three forward passes: backward is two.
inline constexpr double kTrainingPasses = 3;

// Contrastive models. One pair, forward; the logits are not in it.

/// Image at full size and text of the nominal context length, whatever is padding: as OpenCLIP's model profile counts.
FlopCount clip_forward(const ClipShape& shape);
/// A clip of full length, by what is computed (no DFT by convolution, no classification head), and a caption of the
/// nominal context length.
FlopCount clap_forward(const ClapShape& shape);
/// Patches of an image that go through the blocks in training with this share of them left out (0: all).
int64_t num_kept_patches(int64_t num_patches, double dropout);
/// What a training step computes: images without the dropped patches, texts of the whole context length.
FlopCount clip_forward_trained(const ClipShape& shape);

// GPT. Training FLOPs of one sequence.

struct GptDims {
  int64_t layers = 0, hidden = 0, sequence = 0, vocab = 0;
  int64_t heads = 1, query_groups = 1;  ///< Equal: multi-head attention.
  int64_t ffn = 0;                      ///< Width of the feed-forward layer; 0: 4 x hidden.
  int64_t head_width = 0;               ///< 0: hidden / heads.
  bool is_gated = false;                ///< Three matrices in the feed-forward layer instead of two.
};
enum class AttentionCount {
  kFull,    ///< Every token with every token.
  kCausal,  ///< Half of that: what a causal kernel computes.
};

/// The letters of a model with the vocabulary as `tp` tensor ranks pad it.
GptDims gpt_dims(const GptShape& shape, int64_t tp = 1);

/// What the model needs, with its query groups and feed-forward width.
FlopCount gpt_model(const GptDims& dims, AttentionCount attention);
/// A forward pass of it.
FlopCount gpt_forward(const GptDims& dims, AttentionCount attention);

/// One forward pass of ResNet-50 at 224 pixels.
FlopCount resnet50_forward();

// Nominal figures by name, so that published MFU columns can be repeated exactly.

/// One model in a set of nominal figures.
struct NominalFlops {
  std::string set{}, model{};
  std::string sample{};       ///< What one sample is: "pair", "image", "sequence".
  double forward_gflops = 0;  ///< Of one sample; training is kTrainingPasses of them.
  std::string formula{};      ///< Where it is from, and what to beware of.
};

/// "lockstep" (computed), "openclip-profile", "seed-000" (CLAP benchmark on JUPITER), "seed-004" (Nemotron-4 340B
/// recipe).
std::vector<std::string> nominal_sets();
std::vector<std::string> nominal_models(std::string_view set);
/// UsageError for a set or model that is not known, with the nearest name.
NominalFlops find_nominal(std::string_view set, std::string_view model);

}  // namespace lockstep::config
