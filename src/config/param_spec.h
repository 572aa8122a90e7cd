#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::config {

/// How a parameter is drawn at the start. Element i of a parameter depends on (seed, parameter name, i) alone, so a
/// rank can draw its slice.
struct InitLaw {
  enum class Kind { kZeros, kOnes, kConstant, kNormal, kUniform, kSinCos2d } kind = Kind::kZeros;
  double mean = 0.0;       ///< kConstant: the value; kNormal: the mean; kSinCos2d: cells per side.
  double deviation = 0.0;  ///< kNormal: standard deviation; kUniform: half width around 0; kSinCos2d: width of a row.
};

/// Everything anyone must know of a parameter or a buffer. Models list theirs in forward-execution order.
struct ParamSpec {
  std::string name;            ///< As in weight files (OpenCLIP's names for CLIP).
  std::vector<int64_t> shape;  ///< Full shape; {} is a scalar.
  InitLaw init;
  bool weight_decay = false;   ///< Decay group by OpenCLIP's rule (facts openclip_clap, 3.6).
  double lr_scale = 1.0;       ///< Times the run's learning rate (layer decay).
  bool is_pretrained = false;  ///< Begins with weights of its tower, and is updated by the numbers for those.
  /// Stays fp32 under --precision bf16 (norms, logit scale, embeddings as OpenCLIP keeps them).
  bool keeps_fp32 = false;
  bool is_buffer = false;  ///< Saved, never trained: running statistics, and what is carried.
  /// A buffer that is a parameter in the reference's files but reaches no result (a head, say).
  bool is_carried = false;
  std::optional<int> split_dim = std::nullopt;  ///< Dimension that tensor parallelism splits.
  /// Under sequence parallelism each tensor rank has its tokens' part of the gradient: sum them.
  bool is_partial_over_tokens = false;
  bool is_tied_copy = false;  ///< A second copy of a parameter that another pipeline stage owns under the same name.
  std::optional<std::pair<double, double>> bounds = std::nullopt;  ///< Clamped to [first, second] after each update.
  int64_t numel() const {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return count;
  }
};

}  // namespace lockstep::config
