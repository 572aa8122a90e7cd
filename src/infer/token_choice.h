#pragma once
#include <cstdint>
#include <span>

#include "core/rng.h"

namespace lockstep::infer {

/// How the next token is chosen from its logits.
struct TokenChoice {
  bool is_greedy = true;     ///< The most probable one, of equals the smallest id; the rest is not looked at.
  double temperature = 1.0;  ///< Divides the logits.
  int64_t top_k = 0;         ///< Draw among the k most probable, of equals the smaller ids; 0: all.
  double top_p = 1.0;  ///< Draw among as few as together have this probability, of those that top_k leaves; 1: all.
};

/// A token id; one draw of `rng` unless greedy. In fp64, so that the same logits and draws give the same token
/// everywhere. DataError for logits that are no numbers or plus infinity.
int32_t choose_token(std::span<const float> logits, const TokenChoice& choice, core::CounterRng& rng);

}  // namespace lockstep::infer
