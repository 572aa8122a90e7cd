#pragma once
#include "config/text_tower.h"

namespace lockstep::config {

/// OpenCLIP's HFTextEncoder around M2M100's encoder (NLLB), and the projection. What each function is for stands at
/// TextTower.
struct M2m100TextTower {
  static constexpr std::string_view kName = "m2m_100";
  static constexpr bool kPacksTexts = true;
  static void check(const ClipShape& shape);
  static int64_t vocab_size(const TextShape& text);
  static int64_t feature_width(const TextShape& text);
  static bool has_dropout(const TextShape& text);
  static void add_params(ParamList& list, const TextShape& text, int64_t embed_dim, const std::string& prefix);
  static double forward_flops(const TextShape& text, int64_t embed_dim, int64_t tokens);
  static BlockDims blocks(const TextShape& text);
  static std::vector<NameGroup> lock_groups(const TextShape& text, const std::string& prefix);
  static std::unique_ptr<models::TextTower> build(const ClipShape& shape, const models::ClipModelOptions& options);
};

}  // namespace lockstep::config
