// Structures are taken apart member by member, so that a new member does not compile until it is named here.
#include "config/shape_facts.h"

namespace lockstep::config {
namespace {

template <typename Enum> int number_of(Enum value) { return static_cast<int>(value); }

core::Json facts_of(const ProjectionShape& shape) {
  const auto& [kind, hidden, has_bias, is_relu] = shape;
  return {{"kind", number_of(kind)}, {"hidden", hidden}, {"has_bias", has_bias}, {"is_relu", is_relu}};
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
          {"pooler", number_of(pooler)}};
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
          {"pooler", number_of(pooler)}};
}

core::Json facts_of(const M2m100Shape& shape) {
  const auto& [vocab_size, width, heads, layers, mlp_width, pad_id, dropout, attention_dropout, pooler] = shape;
  return {{"vocab_size", vocab_size},   {"width", width},         {"heads", heads},
          {"layers", layers},           {"mlp_width", mlp_width}, {"pad_id", pad_id},
          {"pooler", number_of(pooler)}};
}

core::Json facts_of(const TimmVitShape& shape) {
  const auto& [qkv_bias, norms_follow, has_class_position, has_positions, has_gated_mlp, has_own_head, begins_as_eva,
               pool, rotary, position_mlp_width, position_dropout, stem_widths, stem_depths, pool_heads,
               pool_mlp_ratio] = shape;
  core::Json facts = {{"qkv_bias", number_of(qkv_bias)},
                      {"norms_follow", norms_follow},
                      {"has_class_position", has_class_position},
                      {"has_positions", has_positions},
                      {"has_gated_mlp", has_gated_mlp},
                      {"has_own_head", has_own_head},
                      {"pool", number_of(pool)},
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
          {"pool", number_of(pool)},
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
                      {"pool", number_of(pool)},
                      {"projection", number_of(projection)},
                      {"tokens", number_of(tokens)},
                      {"cleaning", number_of(shape.used_cleaning())},
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

}  // namespace lockstep::config
