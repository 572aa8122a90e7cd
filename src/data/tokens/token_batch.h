#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

/// What the end of a document changes besides the tokens; the names are Megatron's flags.
struct DocumentRules {
  int32_t eod = -1;
  bool reset_position_ids = false;    ///< Positions start at 0 again behind an EOD.
  bool reset_attention_mask = false;  ///< Tokens behind an EOD do not see it nor what lies before it.
  bool eod_mask_loss = false;         ///< No loss where the input is EOD.
  /// Tokens see their own piece only, and positions count within it: pieces as the corpus has them, whatever their
  /// tokens.
  bool inter_document_masking = false;
};

/// One micro-batch of one rank on the host. B samples of T tokens.
struct TokenBatch {
  int64_t num_samples = 0;      ///< B; 0: the data is at its end.
  int64_t sequence_length = 0;  ///< T.
  std::vector<int32_t> tokens_BT, labels_BT;
  std::vector<uint8_t> loss_mask_BT;  ///< 1: counts, 0: does not.
  std::vector<int32_t> position_ids_BT;
  /// Where attention begins anew in the B * T tokens laid end to end, with B * T as last: the cumulative lengths that
  /// attention over pieces takes. Every sample begins a piece.
  std::vector<int32_t> piece_bounds;
  std::vector<int64_t> sample_ids;  ///< Number of each sample in the run.

  void clear(int64_t length);
  /// Adds a sample of T + 1 tokens (kPaddingToken where there is none); `piece_begins` as GptDataset::read gives them.
  void add(std::span<const int32_t> tokens, std::span<const int32_t> piece_begins, const DocumentRules& rules,
           int64_t sample_id);

 private:
  void add_positions(std::span<const int32_t> inputs, std::span<const int32_t> piece_begins,
                     const DocumentRules& rules);
};

}  // namespace lockstep::data
