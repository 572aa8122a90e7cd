#include "tasks/contrastive/engine/retrieval.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace lockstep::tasks {

namespace {

constexpr int64_t kChunkBytes = int64_t{256} << 20;
constexpr int64_t kBytesOfPair = 10;  // score, comparisons, their combination

/// Of rows [first, first + count): int64 [count], where the features lie.
at::Tensor ranks_of_rows(const at::Tensor& rows_NE, const at::Tensor& columns_NE, int64_t first, int64_t count) {
  const auto index_N = at::arange(columns_NE.size(0), rows_NE.options().dtype(at::kLong));
  const auto score_CN = rows_NE.narrow(0, first, count).matmul(columns_NE.t());
  const auto own_C = index_N.narrow(0, first, count).unsqueeze(1);
  const auto own_score_C = score_CN.gather(1, own_C);
  return score_CN.gt(own_score_C)
      .logical_or(score_CN.eq(own_score_C).logical_and(index_N.unsqueeze(0).lt(own_C)))
      .sum(1);
}

}  // namespace

std::vector<int64_t> matching_ranks(const at::Tensor& rows_NE, const at::Tensor& columns_NE, comm::Comm& sharers,
                                    int64_t most_rows) {
  const int64_t N = rows_NE.size(0);
  LOCKSTEP_CHECK(columns_NE.size(0) == N && N > 0 && most_rows > 0, "rows={} columns={} most_rows={}", N,
                 columns_NE.size(0), most_rows);
  const int64_t chunk_rows = std::clamp<int64_t>(kChunkBytes / (kBytesOfPair * N), 1, most_rows);
  const at::NoTF32Guard in_fp32;  // 10 bits would exchange places
  const auto rows = rows_NE.to(at::kFloat), columns = columns_NE.to(at::kFloat);
  const int64_t share = (N + sharers.size() - 1) / sharers.size(), begin = std::min(N, share * sharers.rank()),
                end = std::min(N, begin + share);
  const auto integers = rows.options().dtype(at::kLong);
  const at::Tensor own_S = at::zeros({share}, integers);
  for (int64_t first = begin; first < end; first += chunk_rows) {
    const int64_t count = std::min(chunk_rows, end - first);
    own_S.narrow(0, first - begin, count).copy_(ranks_of_rows(rows, columns, first, count));
  }
  at::Tensor all = own_S;
  if (sharers.size() > 1) {
    all = at::empty({share * sharers.size()}, integers);
    sharers.all_gather_into(all, own_S).wait();
  }
  const at::Tensor host_N = all.narrow(0, 0, N).to(at::kCPU);  // sync: evaluation needs the values
  return {host_N.const_data_ptr<int64_t>(), host_N.const_data_ptr<int64_t>() + N};
}

train::Metrics rank_metrics(const std::string& prefix, const std::vector<int64_t>& ranks) {
  LOCKSTEP_CHECK(!ranks.empty(), "no pairs");
  auto sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  const size_t N = sorted.size();
  const double median =
      N % 2 == 1 ? static_cast<double>(sorted[N / 2]) : 0.5 * static_cast<double>(sorted[N / 2 - 1] + sorted[N / 2]);
  const double mean =
      static_cast<double>(std::accumulate(sorted.begin(), sorted.end(), int64_t{0})) / static_cast<double>(N);
  train::Metrics metrics{{prefix + "_mean_rank", mean + 1}, {prefix + "_median_rank", std::floor(median) + 1}};
  for (const int64_t k : {1, 5, 10}) {
    const auto within = std::lower_bound(sorted.begin(), sorted.end(), k) - sorted.begin();
    metrics.emplace_back(fmt::format("{}_R@{}", prefix, k), static_cast<double>(within) / static_cast<double>(N));
  }
  return metrics;
}

double mean_average_precision_at_10(const std::vector<int64_t>& ranks) {
  LOCKSTEP_CHECK(!ranks.empty(), "no pairs");
  double sum = 0;
  for (const int64_t rank : ranks) sum += rank < 10 ? 1.0 / static_cast<double>(rank + 1) : 0.0;
  return sum / static_cast<double>(ranks.size());
}

train::Metrics retrieval_metrics(const std::string& modality, const at::Tensor& other_NE, const at::Tensor& text_NE,
                                 comm::Comm& sharers) {
  train::Metrics metrics;
  const auto add = [&](const std::string& prefix, const std::vector<int64_t>& ranks) {
    for (auto& metric : rank_metrics(prefix, ranks)) metrics.push_back(std::move(metric));
    if (modality == "audio") metrics.emplace_back(prefix + "_mAP@10", mean_average_precision_at_10(ranks));
  };
  add(modality + "_to_text", matching_ranks(other_NE, text_NE, sharers));
  add("text_to_" + modality, matching_ranks(text_NE, other_NE, sharers));
  return metrics;
}

double batched_contrastive_loss(const at::Tensor& image_NE, const at::Tensor& text_NE, double logit_scale,
                                int64_t batch, comm::Comm& sharers) {
  const at::NoTF32Guard in_fp32;
  const int64_t N = image_NE.size(0);
  const at::Tensor sum = at::zeros({}, image_NE.options().dtype(at::kDouble));
  for (int64_t first = batch * sharers.rank(); first < N; first += batch * sharers.size()) {
    const int64_t count = std::min(batch, N - first);
    const auto logits =
        logit_scale *
        image_NE.narrow(0, first, count).to(at::kFloat).matmul(text_NE.narrow(0, first, count).to(at::kFloat).t());
    const auto target = at::arange(count, logits.options().dtype(at::kLong));
    const auto loss = (at::cross_entropy_loss(logits, target) + at::cross_entropy_loss(logits.t(), target)) / 2;
    sum.add_(loss.to(at::kDouble), static_cast<double>(count));
  }
  sharers.all_reduce(sum).wait();
  return sum.item<double>() / static_cast<double>(N);  // sync: evaluation needs the value
}

}  // namespace lockstep::tasks
