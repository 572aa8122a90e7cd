#pragma once
#include <cstdint>
#include <string_view>

#include "config/roberta_shape.h"

namespace lockstep::config {

/// The encoder of M2M100 (Fan et al. 2021), as NLLB-200 has it.
struct M2m100Shape {
  int64_t vocab_size = 256206;
  int64_t width = 1024, heads = 16, layers = 12, mlp_width = 4096;
  int64_t pad_id = 1;
  double dropout = 0.1;  ///< While training; of embeddings and of the blocks' two branches.
  double attention_dropout = 0.1;
  TextPooler pooler = TextPooler::kClassHidden;
};

/// Sets the sizes of "facebook/nllb-200-distilled-600M" or "facebook/nllb-200-distilled-1.3B"; false for another name.
bool set_m2m100(M2m100Shape& text, std::string_view name);
/// The one of those names that has just these sizes; "" for others.
std::string_view m2m100_name(const M2m100Shape& text);

/// Parameters of the encoder under Hugging Face's names behind `prefix`, in its order.
void add_m2m100(ParamList& list, const std::string& prefix, const M2m100Shape& text);

}  // namespace lockstep::config
