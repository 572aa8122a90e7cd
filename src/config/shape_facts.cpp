// Structures are taken apart member by member, so that a new member does not compile until it is named here.
#include "config/shape_facts.h"

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace lockstep::config {
namespace {

/// Values of an enumeration by name, in the order of the numbers that were noted before there were names. New ones go
/// behind the others; the order of the enumeration itself means nothing here.
template <typename Enum, size_t N> using Names = std::array<std::pair<Enum, const char*>, N>;

constexpr Names<ImagePool, 3> kImagePools = {
    {{ImagePool::kClassToken, "class_token"}, {ImagePool::kMean, "mean"}, {ImagePool::kAttention, "attention"}}};
constexpr Names<TimmVitShape::QkvBias, 3> kQkvBiases = {{{TimmVitShape::QkvBias::kAll, "all"},
                                                         {TimmVitShape::QkvBias::kNotKeys, "not_keys"},
                                                         {TimmVitShape::QkvBias::kNone, "none"}}};
constexpr Names<TextPool, 4> kTextPools = {{{TextPool::kLargestId, "largest_id"},
                                            {TextPool::kEndId, "end_id"},
                                            {TextPool::kFirst, "first"},
                                            {TextPool::kLast, "last"}}};
constexpr Names<TextProjection, 3> kTextProjections = {
    {{TextProjection::kMatrix, "matrix"}, {TextProjection::kLinear, "linear"}, {TextProjection::kNone, "none"}}};
constexpr Names<TextTokens, 8> kTextTokens = {{{TextTokens::kClip, "clip"},
                                               {TextTokens::kRoberta, "roberta"},
                                               {TextTokens::kXlmRoberta, "xlm_roberta"},
                                               {TextTokens::kSentencePiece, "sentence_piece"},
                                               {TextTokens::kMt5, "mt5"},
                                               {TextTokens::kGemma, "gemma"},
                                               {TextTokens::kNllb, "nllb"},
                                               {TextTokens::kWordPiece, "word_piece"}}};
constexpr Names<TextCleaning, 3> kTextCleanings = {{{TextCleaning::kLower, "lower"},
                                                    {TextCleaning::kWhiteSpace, "whitespace"},
                                                    {TextCleaning::kCanonical, "canonicalize"}}};
constexpr Names<TextPooler, 4> kTextPoolers = {{{TextPooler::kClass, "class"},
                                                {TextPooler::kMean, "mean"},
                                                {TextPooler::kMax, "max"},
                                                {TextPooler::kClassHidden, "class_hidden"}}};
constexpr Names<ProjectionShape::Kind, 3> kProjections = {{{ProjectionShape::Kind::kNone, "none"},
                                                           {ProjectionShape::Kind::kLinear, "linear"},
                                                           {ProjectionShape::Kind::kMlp, "mlp"}}};

template <typename Enum, size_t N> const char* name_of(Enum value, const Names<Enum, N>& names) {
  for (const auto& [known, name] : names)
    if (known == value) return name;
  LOCKSTEP_CHECK(false, "value {} has no name", static_cast<int>(value));
}

template <typename Enum, size_t N> std::vector<std::string> in_order(const Names<Enum, N>& names) {
  std::vector<std::string> list;
  for (const auto& [value, name] : names) list.emplace_back(name);
  return list;
}

core::Json facts_of(const ProjectionShape& shape) {
  const auto& [kind, hidden, has_bias, is_relu] = shape;
  return {{"kind", name_of(kind, kProjections)}, {"hidden", hidden}, {"has_bias", has_bias}, {"is_relu", is_relu}};
}

core::Json facts_of(const RobertaShape& shape) {
  const auto& [vocab_size, max_positions, token_types, pad_id, width, heads, layers, mlp_width, context_length, dropout,
               attention_dropout, pooler] = shape;
  return {{"vocab_size", vocab_size},
          {"max_positions", max_positions},
          {"token_types", token_types},
          {"pad_id", pad_id},
          {"width", width},
          {"heads", heads},
          {"layers", layers},
          {"mlp_width", mlp_width},
          {"context_length", context_length},
          {"pooler", name_of(pooler, kTextPoolers)}};
}

core::Json facts_of(const T5Shape& shape) {
  const auto& [vocab_size, width, heads, head_width, layers, mlp_width, pad_id, position_buckets, farthest_position,
               norm_epsilon, dropout, pooler] = shape;
  return {{"vocab_size", vocab_size},
          {"width", width},
          {"heads", heads},
          {"head_width", head_width},
          {"layers", layers},
          {"mlp_width", mlp_width},
          {"pad_id", pad_id},
          {"position_buckets", position_buckets},
          {"farthest_position", farthest_position},
          {"norm_epsilon", norm_epsilon},
          {"pooler", name_of(pooler, kTextPoolers)}};
}

core::Json facts_of(const M2m100Shape& shape) {
  const auto& [vocab_size, width, heads, layers, mlp_width, pad_id, dropout, attention_dropout, pooler] = shape;
  return {{"vocab_size", vocab_size},
          {"width", width},
          {"heads", heads},
          {"layers", layers},
          {"mlp_width", mlp_width},
          {"pad_id", pad_id},
          {"pooler", name_of(pooler, kTextPoolers)}};
}

core::Json facts_of(const TimmVitShape& shape) {
  const auto& [qkv_bias, norms_follow, has_class_position, has_positions, has_gated_mlp, has_own_head, begins_as_eva,
               pool, rotary, position_mlp_width, position_dropout, stem_widths, stem_depths, pool_heads,
               pool_mlp_ratio] = shape;
  core::Json facts = {{"qkv_bias", name_of(qkv_bias, kQkvBiases)},
                      {"norms_follow", norms_follow},
                      {"has_class_position", has_class_position},
                      {"has_positions", has_positions},
                      {"has_gated_mlp", has_gated_mlp},
                      {"has_own_head", has_own_head},
                      {"pool", name_of(pool, kImagePools)},
                      {"position_mlp_width", position_mlp_width},
                      {"stem_widths", stem_widths},
                      {"stem_depths", stem_depths},
                      {"pool_heads", pool_heads},
                      {"pool_mlp_ratio", pool_mlp_ratio}};
  if (rotary) {
    const auto& [reference_cells, offset, columns_first] = *rotary;
    facts["rotary"] = {{"reference_cells", reference_cells}, {"offset", offset}, {"columns_first", columns_first}};
  }
  return facts;
}

core::Json facts_of(const VisionShape& shape) {
  const auto& [tower, image_size, stages, layers, width, head_width, patch_size, window, mlp_ratio, patch_dropout,
               layer_scale, norm_epsilon, has_tanh_gelu, has_ln_pre, has_class_token, has_fixed_positions,
               norms_after_pool, pool, has_attentional_pool, pooler_queries, pooler_heads, drop_path, timm, head,
               timm_weights] = shape;
  return {{"tower", tower},
          {"image_size", image_size},
          {"stages", stages},
          {"layers", layers},
          {"width", width},
          {"head_width", head_width},
          {"patch_size", patch_size},
          {"window", window},
          {"mlp_ratio", mlp_ratio},
          {"has_layer_scale", layer_scale.has_value()},
          {"norm_epsilon", norm_epsilon},
          {"has_tanh_gelu", has_tanh_gelu},
          {"has_ln_pre", has_ln_pre},
          {"has_class_token", has_class_token},
          {"has_fixed_positions", has_fixed_positions},
          {"norms_after_pool", norms_after_pool},
          {"pool", name_of(pool, kImagePools)},
          {"has_attentional_pool", has_attentional_pool},
          {"pooler_queries", pooler_queries},
          {"pooler_heads", pooler_heads},
          {"timm", facts_of(timm)},
          {"head", facts_of(head)}};
}

core::Json facts_of(const TextShape& shape) {
  const auto& [tower, context_length, vocab_size, width, heads, layers, mlp_ratio, layer_scale, norm_epsilon,
               has_tanh_gelu, is_causal, has_class_token, pad_id, eos_id, pool, projection, tokens, cleaning, roberta,
               t5, m2m100, language, encoder_projection] = shape;
  core::Json facts = {{"tower", tower},
                      {"context_length", context_length},
                      {"vocab_size", vocab_size},
                      {"width", width},
                      {"heads", heads},
                      {"layers", layers},
                      {"mlp_ratio", mlp_ratio},
                      {"has_layer_scale", layer_scale.has_value()},
                      {"norm_epsilon", norm_epsilon},
                      {"has_tanh_gelu", has_tanh_gelu},
                      {"is_causal", is_causal},
                      {"has_class_token", has_class_token},
                      {"pad_id", pad_id},
                      {"eos_id", eos_id},
                      {"pool", name_of(pool, kTextPools)},
                      {"projection", name_of(projection, kTextProjections)},
                      {"tokens", name_of(tokens, kTextTokens)},
                      {"cleaning", name_of(shape.used_cleaning(), kTextCleanings)},
                      {"language", language}};
  if (shape.is_encoder()) {
    facts["roberta"] = facts_of(roberta);
    facts["t5"] = facts_of(t5);
    facts["m2m100"] = facts_of(m2m100);
    facts["encoder_projection"] = facts_of(encoder_projection);
  }
  return facts;
}

core::Json facts_of(const AudioShape& shape) {
  const auto& [sample_rate, clip_samples, fft_size, hop_samples, mel_bins, low_hz, high_hz, image_size, patch_size,
               width, depths, heads, window, mlp_ratio, drop_path, spec_augment, num_classes] = shape;
  return {{"sample_rate", sample_rate}, {"clip_samples", clip_samples},
          {"fft_size", fft_size},       {"hop_samples", hop_samples},
          {"mel_bins", mel_bins},       {"low_hz", low_hz},
          {"high_hz", high_hz},         {"image_size", image_size},
          {"patch_size", patch_size},   {"width", width},
          {"depths", depths},           {"heads", heads},
          {"window", window},           {"mlp_ratio", mlp_ratio}};
}

}  // namespace

core::Json shape_facts(const ContrastiveShape& shape) {
  if (const ClipShape* clip = shape.clip()) {
    const auto& [name, embed_dim, vision, text, captions, has_custom_text, quick_gelu, init_logit_scale,
                 init_logit_bias, nonscalar_logit_scale] = *clip;
    return {
        {"embed_dim", embed_dim}, {"quick_gelu", quick_gelu}, {"vision", facts_of(vision)}, {"text", facts_of(text)}};
  }
  const auto& [name, embed_dim, audio, text, audio_projection, text_projection, has_transforms, init_logit_scale] =
      *shape.clap();
  return {{"embed_dim", embed_dim},
          {"audio", facts_of(audio)},
          {"text", facts_of(text)},
          {"audio_projection", facts_of(audio_projection)},
          {"text_projection", facts_of(text_projection)}};
}

core::Json named_shape_facts(core::Json facts) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> places = {
      {"/vision/pool", in_order(kImagePools)},
      {"/vision/timm/qkv_bias", in_order(kQkvBiases)},
      {"/vision/timm/pool", in_order(kImagePools)},
      {"/vision/head/kind", in_order(kProjections)},
      {"/text/pool", in_order(kTextPools)},
      {"/text/projection", in_order(kTextProjections)},
      {"/text/tokens", in_order(kTextTokens)},
      {"/text/cleaning", in_order(kTextCleanings)},
      {"/text/roberta/pooler", in_order(kTextPoolers)},
      {"/text/t5/pooler", in_order(kTextPoolers)},
      {"/text/m2m100/pooler", in_order(kTextPoolers)},
      {"/text/encoder_projection/kind", in_order(kProjections)},
      {"/text/pooler", in_order(kTextPoolers)},
      {"/audio_projection/kind", in_order(kProjections)},
      {"/text_projection/kind", in_order(kProjections)}};
  for (const auto& [path, names] : places) {
    const core::Json::json_pointer place(path);
    if (!facts.contains(place) || !facts.at(place).is_number_integer()) continue;
    const auto number = facts.at(place).get<int64_t>();
    if (number >= 0 && number < std::ssize(names)) facts.at(place) = names[static_cast<size_t>(number)];
  }
  return facts;
}

}  // namespace lockstep::config
