#include "infer/token_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace lockstep::infer {
namespace {

/// The most probable token.
size_t find_best(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY)
      throw DataError(fmt::format("infer: the model gives token {} the logit {}", i, logits[i]),
                      "the weights are damaged, or the training run diverged");
    if (logits[i] > logits[best]) best = i;
  }
  return best;
}

double sum_of(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// A place among `weights`, each as likely as its share of their sum.
size_t draw(std::span<const double> weights, double total, double uniform) {
  double left = uniform * total;
  size_t last_possible = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last_possible = i;
    left -= weights[i];
    if (left < 0) return i;
  }
  return last_possible;  // sums were rounded
}

/// Tokens from the most probable one down, as many as a choice with top_k or top_p leaves; their weights go to `kept`.
std::vector<size_t> most_probable(std::span<const double> weights, const TokenChoice& choice,
                                  std::vector<double>& kept) {
  std::vector<size_t> heap(weights.size()), taken;
  std::iota(heap.begin(), heap.end(), size_t{0});
  const auto is_less = [&](size_t a, size_t b) { return weights[a] != weights[b] ? weights[a] < weights[b] : a > b; };
  std::make_heap(heap.begin(), heap.end(), is_less);  // a heap, since mostly few are taken of many
  const size_t limit = choice.top_k > 0 ? std::min(static_cast<size_t>(choice.top_k), weights.size()) : weights.size();
  const auto take = [&] {
    std::pop_heap(heap.begin(), heap.end(), is_less);
    taken.push_back(heap.back());
    kept.push_back(weights[heap.back()]);
    heap.pop_back();
  };
  if (choice.top_k > 0)
    while (taken.size() < limit) take();
  if (choice.top_p >= 1.0) return taken;
  const double total = choice.top_k > 0 ? sum_of(kept) : sum_of(weights);
  size_t count = 0;
  for (double sum = 0; sum < choice.top_p * total && count < limit; sum += kept[count++])
    if (count == taken.size()) take();
  taken.resize(count);
  kept.resize(count);
  return taken;
}

}  // namespace

int32_t choose_token(std::span<const float> logits, const TokenChoice& choice, core::CounterRng& rng) {
  LOCKSTEP_CHECK(!logits.empty(), "no logits");
  const size_t best = find_best(logits);
  if (choice.is_greedy) return static_cast<int32_t>(best);
  std::vector<double> weights(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    weights[i] = std::exp((static_cast<double>(logits[i]) - static_cast<double>(logits[best])) / choice.temperature);
  if (choice.top_k == 0 && choice.top_p >= 1.0)
    return static_cast<int32_t>(draw(weights, sum_of(weights), rng.uniform()));
  std::vector<double> kept;
  const std::vector<size_t> tokens = most_probable(weights, choice, kept);
  return static_cast<int32_t>(tokens[draw(kept, sum_of(kept), rng.uniform())]);
}

}  // namespace lockstep::infer
