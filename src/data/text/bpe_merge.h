#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

namespace lockstep::data {

/// What two neighbouring symbols become, and when: the smallest rank goes first.
struct BpeMerge {
  int32_t rank = 0, id = 0;
};

inline uint64_t bpe_pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

/// Merges neighbours until no pair of them has a merge: the smallest rank first, equal ranks from the left.
/// `merge_of(left, right)` gives std::optional<BpeMerge>. Time grows as n log n.
template <typename MergeOf> void merge_symbols(std::vector<int32_t>& symbols, const MergeOf& merge_of) {
  constexpr int32_t kGone = -1;
  const size_t size = symbols.size();
  std::vector<size_t> next(size), previous(size);
  for (size_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // of the first: wraps, never read
  }
  struct Candidate {
    int32_t rank, id;
    size_t at;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto propose = [&](size_t at) {
    if (next[at] >= size) return;
    if (const std::optional<BpeMerge> merge = merge_of(symbols[at], symbols[next[at]]))
      queue.push({merge->rank, merge->id, at});
  };
  for (size_t i = 0; i < size; ++i) propose(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const size_t at = best.at;
    if (symbols[at] == kGone || next[at] >= size) continue;
    const std::optional<BpeMerge> merge = merge_of(symbols[at], symbols[next[at]]);
    if (!merge || merge->id != best.id) continue;  // out of date
    const size_t taken = next[at];
    symbols[at] = best.id;
    symbols[taken] = kGone;
    next[at] = next[taken];
    if (next[at] < size) previous[next[at]] = at;
    propose(at);
    if (at != 0) propose(previous[at]);
  }
  size_t kept = 0;
  for (size_t i = 0; i < size; i = next[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace lockstep::data
