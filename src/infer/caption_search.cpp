#include "infer/caption_search.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "core/error.h"

namespace lockstep::infer {
namespace {

using Ids = std::vector<int32_t>;

constexpr float kUnbegun = -1e9f;  // score of beams behind the first, which alone begins

/// A row of a search: which picture's, and its tokens so far.
struct CaptionRow {
  int64_t picture = 0;
  Ids ids;
};

/// Logits [N, V] of the rows, all of one length; the end is impossible where captions would become too short.
at::Tensor logits_of(const std::vector<CaptionRow>& rows, const NextLogits& next_logits, const CaptionSearch& search) {
  const int64_t num_rows = std::ssize(rows), length = std::ssize(rows.front().ids);
  const at::Tensor picture_N = at::empty({num_rows}, at::TensorOptions(at::kLong)),
                   ids_NT = at::empty({num_rows, length}, at::TensorOptions(at::kLong));
  auto* picture = picture_N.mutable_data_ptr<int64_t>();
  auto* ids = ids_NT.mutable_data_ptr<int64_t>();
  for (const CaptionRow& row : rows) {
    *picture++ = row.picture;
    ids = std::copy(row.ids.begin(), row.ids.end(), ids);
  }
  at::Tensor logits_NV = next_logits(picture_N, ids_NT).contiguous();
  LOCKSTEP_CHECK(logits_NV.size(0) == num_rows && search.end_id < logits_NV.size(1), "rows={} vocab={}",
                 logits_NV.size(0), logits_NV.size(1));
  if (length < search.shortest) logits_NV.select(1, search.end_id).fill_(-std::numeric_limits<float>::infinity());
  return logits_NV;
}

std::span<const float> row_of(const at::Tensor& logits_NV, size_t row) {
  const auto vocab = static_cast<size_t>(logits_NV.size(1));
  return {logits_NV.const_data_ptr<float>() + row * vocab, vocab};
}

/// The finished captions of a picture, the best `capacity` of them.
class Finished {
 public:
  explicit Finished(size_t capacity) : capacity_(capacity) {}

  void add(Ids ids, double sum, size_t length) {
    const double score = sum / static_cast<double>(length);
    if (captions_.size() == capacity_ && score <= worst()->score) return;
    captions_.push_back({score, std::move(ids)});
    if (captions_.size() > capacity_) captions_.erase(worst());
  }
  /// Whether no caption that is still open can be expected to become better.
  bool is_settled(double best_sum, size_t length) {
    return captions_.size() == capacity_ && worst()->score >= best_sum / static_cast<double>(length);
  }
  const Ids& best() const {
    return std::max_element(captions_.begin(), captions_.end(),
                            [](const auto& a, const auto& b) { return a.score < b.score; })
        ->ids;
  }

 private:
  struct Caption {
    double score;
    Ids ids;
  };
  std::vector<Caption>::iterator worst() {
    return std::min_element(captions_.begin(), captions_.end(),
                            [](const auto& a, const auto& b) { return a.score < b.score; });
  }

  size_t capacity_;
  std::vector<Caption> captions_;
};

/// The search of one picture: its open captions and those that ended.
class BeamSearch {
 public:
  BeamSearch(int64_t picture, const CaptionSearch& search)
      : search_(search), num_beams_(static_cast<size_t>(search.num_beams)), finished_(num_beams_),
        rows_(num_beams_, CaptionRow{picture, {search.start_id}}), scores_(num_beams_, kUnbegun) {
    scores_.front() = 0.0f;
  }

  bool is_done() const { return is_done_; }
  const std::vector<CaptionRow>& rows() const { return rows_; }

  /// Takes the logits of rows(), which begin at `first`.
  void step(const at::Tensor& logits_NV, size_t first) {
    const auto vocab = static_cast<size_t>(logits_NV.size(1));
    std::vector<float> sums;
    for (size_t beam = 0; beam < num_beams_; ++beam)
      for (const float logit : row_of(logits_NV, first + beam)) sums.push_back(logit + scores_[beam]);
    std::vector<size_t> order(sums.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto num_candidates = static_cast<std::ptrdiff_t>(std::min(2 * num_beams_, order.size()));
    std::partial_sort(order.begin(), order.begin() + num_candidates, order.end(),
                      [&](size_t a, size_t b) { return sums[a] > sums[b] || (sums[a] == sums[b] && a < b); });
    order.resize(static_cast<size_t>(num_candidates));
    const size_t length = rows_.front().ids.size() + 1;
    const double best_sum = sums[order.front()];
    advance(order, sums, vocab, length);
    is_done_ = finished_.is_settled(best_sum, length);
  }

  Ids caption() {
    if (!is_done_)
      for (size_t beam = 0; beam < num_beams_; ++beam)
        finished_.add(rows_[beam].ids, scores_[beam], rows_[beam].ids.size());
    Ids ids = finished_.best();
    if (std::ssize(ids) < search_.longest) ids.push_back(search_.end_id);
    return ids;
  }

 private:
  void advance(const std::vector<size_t>& order, const std::vector<float>& sums, size_t vocab, size_t length) {
    std::vector<CaptionRow> next;
    std::vector<float> scores;
    for (size_t rank = 0; rank < order.size() && next.size() < num_beams_; ++rank) {
      const size_t beam = order[rank] / vocab;
      const auto token = static_cast<int32_t>(order[rank] % vocab);
      if (token == search_.end_id) {
        if (rank < num_beams_) finished_.add(rows_[beam].ids, sums[order[rank]], length);
        continue;
      }
      next.push_back(rows_[beam]);
      next.back().ids.push_back(token);
      scores.push_back(sums[order[rank]]);
    }
    LOCKSTEP_CHECK(next.size() == num_beams_, "beams={}", next.size());
    rows_ = std::move(next);
    scores_ = std::move(scores);
  }

  const CaptionSearch& search_;
  size_t num_beams_;
  Finished finished_;
  std::vector<CaptionRow> rows_;
  std::vector<float> scores_;
  bool is_done_ = false;
};

std::vector<Ids> search_by_beams(const NextLogits& next_logits, int64_t num_pictures, const CaptionSearch& search) {
  std::vector<BeamSearch> searches;
  for (int64_t picture = 0; picture < num_pictures; ++picture) searches.emplace_back(picture, search);
  for (int64_t length = 1; length < search.longest; ++length) {
    std::vector<CaptionRow> rows;
    for (const BeamSearch& one : searches)
      if (!one.is_done()) rows.insert(rows.end(), one.rows().begin(), one.rows().end());
    if (rows.empty()) break;
    const at::Tensor logits_NV = logits_of(rows, next_logits, search);
    size_t first = 0;
    for (BeamSearch& one : searches) {
      if (one.is_done()) continue;
      one.step(logits_NV, first);
      first += static_cast<size_t>(search.num_beams);
    }
  }
  std::vector<Ids> captions;
  for (BeamSearch& one : searches) captions.push_back(one.caption());
  return captions;
}

std::vector<Ids> search_by_choice(const NextLogits& next_logits, int64_t num_pictures, const CaptionSearch& search) {
  std::vector<Ids> captions(static_cast<size_t>(num_pictures), Ids{search.start_id});
  std::vector<core::CounterRng> draws;
  for (int64_t picture = 0; picture < num_pictures; ++picture)
    draws.emplace_back(core::stream_key({search.seed, static_cast<uint64_t>(picture)}));
  const auto is_open = [&](const Ids& ids) {
    return ids.size() == 1 || (ids.back() != search.end_id && ids.back() != search.pad_id);
  };
  for (int64_t length = 1; length < search.longest; ++length) {
    std::vector<CaptionRow> rows;
    for (size_t picture = 0; picture < captions.size(); ++picture)
      if (is_open(captions[picture])) rows.push_back({static_cast<int64_t>(picture), captions[picture]});
    if (rows.empty()) break;
    if (length + 1 == search.longest) {  // the last place is the end's
      for (const CaptionRow& row : rows) captions[static_cast<size_t>(row.picture)].push_back(search.end_id);
      break;
    }
    const at::Tensor logits_NV = logits_of(rows, next_logits, search);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto picture = static_cast<size_t>(rows[i].picture);
      captions[picture].push_back(choose_token(row_of(logits_NV, i), search.choice, draws[picture]));
    }
  }
  return captions;
}

}  // namespace

std::vector<std::vector<int32_t>> search_captions(const NextLogits& next_logits, int64_t num_pictures,
                                                  const CaptionSearch& search) {
  LOCKSTEP_CHECK(search.num_beams >= 1 && search.shortest < search.longest, "beams={} shortest={} longest={}",
                 search.num_beams, search.shortest, search.longest);
  return search.is_beam_search ? search_by_beams(next_logits, num_pictures, search)
                               : search_by_choice(next_logits, num_pictures, search);
}

}  // namespace lockstep::infer
