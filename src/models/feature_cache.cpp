#include "models/feature_cache.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/error.h"

namespace lockstep::models {
namespace {

/// What the map takes for a row beside its features and its key, about.
constexpr int64_t kBytesAround = 96;

/// By way of pinned memory, so that the host does not wait.
at::Tensor sent_to(at::Device device, const at::Tensor& host) {
  return device.is_cpu() ? host : host.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace

void FeatureCache::keep(const std::string& key, const float* row) {
  const int64_t row_bytes =
      num_features_ * static_cast<int64_t>(sizeof(float)) + static_cast<int64_t>(key.size()) + kBytesAround;
  if ((std::ssize(rows_) + 1) * row_bytes > capacity_bytes_) return;
  rows_.try_emplace(key, row, row + num_features_);
}

at::Tensor FeatureCache::features(const std::vector<std::string>& keys_B, const at::Tensor& input,
                                  const std::function<at::Tensor(const at::Tensor& rows)>& compute, bool is_counted) {
  const c10::NoGradGuard no_grad;
  const int64_t B = input.size(0);
  LOCKSTEP_CHECK(std::ssize(keys_B) == B, "keys={} rows={}", keys_B.size(), B);
  std::vector<int64_t> unknown;
  for (int64_t b = 0; b < B; ++b)
    if (!rows_.contains(keys_B[static_cast<size_t>(b)])) unknown.push_back(b);
  if (is_counted) num_asked_ += B, num_found_ += B - std::ssize(unknown);
  at::Tensor computed, computed_KE;
  if (!unknown.empty()) {
    const bool is_all = std::ssize(unknown) == B;
    const auto index_K = is_all ? at::Tensor() : sent_to(input.device(), at::tensor(unknown, at::kLong));
    computed = compute(is_all ? input : input.index_select(0, index_K));
    computed_KE = computed.to(at::kCPU, at::kFloat).contiguous();  // sync: once a row, the first time it comes
    num_features_ = computed_KE.size(1);
    for (int64_t k = 0; k < computed_KE.size(0); ++k)
      keep(keys_B[static_cast<size_t>(unknown[static_cast<size_t>(k)])],
           computed_KE.const_data_ptr<float>() + k * num_features_);
    if (is_all) return computed;
  }
  at::Tensor out_BE = at::empty({B, num_features_}, at::kFloat);
  const auto put = [&](int64_t b, const float* row) {
    std::copy_n(row, num_features_, out_BE.mutable_data_ptr<float>() + b * num_features_);
  };
  size_t next_unknown = 0;
  for (int64_t b = 0; b < B; ++b) {
    if (next_unknown < unknown.size() && unknown[next_unknown] == b)
      put(b, computed_KE.const_data_ptr<float>() + static_cast<int64_t>(next_unknown++) * num_features_);
    else
      put(b, rows_.at(keys_B[static_cast<size_t>(b)]).data());
  }
  return sent_to(device_, out_BE);
}

}  // namespace lockstep::models
