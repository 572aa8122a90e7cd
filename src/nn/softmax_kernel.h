#pragma once
#include <cstdint>

namespace lockstep::nn {

/// Rows of `width` logits, one after the other: fp32 or, with is_bf16, bf16. Only the first `used` of a row count.
struct LogitRows {
  int64_t width = 0, used = 0;
  bool is_bf16 = false;
};

/// Rows [begin, end): the largest logit (-inf where none counts), the sum of exp(logit - that), 0 where there is none
/// but -inf, and the logit of column target[row], 0 where that does not count.
void softmax_stats_rows(const LogitRows& shape, int64_t begin, int64_t end, const void* logits, const int64_t* target,
                        float* top, float* sum, float* of_target);

/// Rows [begin, end): logits become exp(logit - top) factor, less `weight` in the target's column; 0 where they do not
/// count.
void softmax_gradient_rows(const LogitRows& shape, int64_t begin, int64_t end, void* logits, const int64_t* target,
                           const float* top, const float* factor, const float* weight);

/// Rows of scores of causal attention, one after the other: row r is one of query first_query + r % queries, for which
/// the keys up to that query count. `width`, at least first_query + queries: keys of a row.
struct ScoreRows {
  int64_t width = 0, first_query = 0, queries = 0;
  bool is_bf16 = false;
  float scale = 1;
};

/// Rows [begin, end): scores become the softmax of scale x scores; 0 where a key does not count.
void causal_softmax_rows(const ScoreRows& shape, int64_t begin, int64_t end, void* scores);

/// Rows [begin, end): dy, the gradient of what causal_softmax_rows gave (y), becomes that of the scores.
void causal_softmax_rows_backward(const ScoreRows& shape, int64_t begin, int64_t end, const void* y, void* dy);

}  // namespace lockstep::nn
