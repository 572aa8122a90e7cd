#include "data/tokens/token_batch.h"

#include "core/error.h"
#include "data/tokens/gpt_dataset.h"

namespace lockstep::data {

void TokenBatch::clear(int64_t length) {
  num_samples = 0;
  sequence_length = length;
  tokens_BT.clear();
  labels_BT.clear();
  loss_mask_BT.clear();
  position_ids_BT.clear();
  piece_bounds.assign(1, 0);
  sample_ids.clear();
}

void TokenBatch::add(std::span<const int32_t> tokens, std::span<const int32_t> piece_begins, const DocumentRules& rules,
                     int64_t sample_id) {
  LOCKSTEP_CHECK(static_cast<int64_t>(tokens.size()) == sequence_length + 1, "{} tokens for T={}", tokens.size(),
                 sequence_length);
  const auto inputs = tokens.first(tokens.size() - 1), labels = tokens.subspan(1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_padding = labels[i] == kPaddingToken;
    loss_mask_BT.push_back(is_padding || (rules.eod_mask_loss && inputs[i] == rules.eod) ? 0 : 1);
    tokens_BT.push_back(inputs[i] == kPaddingToken ? 0 : inputs[i]);
    labels_BT.push_back(is_padding ? 0 : labels[i]);
  }
  add_positions(inputs, piece_begins, rules);
  sample_ids.push_back(sample_id);
  ++num_samples;
}

void TokenBatch::add_positions(std::span<const int32_t> inputs, std::span<const int32_t> piece_begins,
                               const DocumentRules& rules) {
  const auto sample_begin = static_cast<int32_t>(num_samples * sequence_length);
  int32_t position = 0;
  size_t next_piece = 1;  // the sample itself begins the first
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool after_eod = i > 0 && inputs[i - 1] == rules.eod;
    const bool at_piece = next_piece < piece_begins.size() && piece_begins[next_piece] == static_cast<int32_t>(i);
    if (at_piece) ++next_piece;
    const bool cuts_attention = rules.inter_document_masking ? at_piece : rules.reset_attention_mask && after_eod;
    if (cuts_attention) piece_bounds.push_back(sample_begin + static_cast<int32_t>(i));
    if (rules.inter_document_masking ? at_piece : rules.reset_position_ids && after_eod) position = 0;
    position_ids_BT.push_back(position++);
  }
  piece_bounds.push_back(sample_begin + static_cast<int32_t>(inputs.size()));
}

}  // namespace lockstep::data
