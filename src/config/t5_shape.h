#pragma once
#include <cstdint>
#include <string_view>

#include "config/roberta_shape.h"

namespace lockstep::config {

/// The encoder of mT5 (Xue et al. 2021): T5 with gated feed-forward layers.
struct T5Shape {
  int64_t vocab_size = 250112;
  int64_t width = 768, heads = 12, head_width = 64, layers = 12, mlp_width = 2048;
  int64_t pad_id = 0;
  /// Distances of tokens by sign: one bucket each up to a quarter of the buckets, then wider ones up to the farthest.
  int64_t position_buckets = 32, farthest_position = 128;
  double norm_epsilon = 1e-6;
  double dropout = 0.1;  ///< While training; of attention, too.
  TextPooler pooler = TextPooler::kMean;

  int64_t inner_width() const { return heads * head_width; }  ///< Of queries, keys and values.
};

/// Sets the sizes of "google/mt5-small", "-base", "-large", "-xl" or "-xxl"; false for another name.
bool set_t5(T5Shape& text, std::string_view name);
/// The one of those names that has just these sizes; "" for others.
std::string_view t5_name(const T5Shape& text);

/// Parameters of the encoder under Hugging Face's names behind `prefix`, in its order.
void add_t5(ParamList& list, const std::string& prefix, const T5Shape& text);
/// Forward work of one text of `tokens` real tokens.
double t5_forward_flops(const T5Shape& text, int64_t tokens);

}  // namespace lockstep::config
