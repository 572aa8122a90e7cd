#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::models {

/// Features of a tower that is not trained, by the content of its input: what comes again is not computed again. They
/// lie in host memory; when it is full, no more are kept.
class FeatureCache {
 public:
  /// Features are given on `device`, where `compute` of features() makes them.
  FeatureCache(int64_t capacity_bytes, at::Device device) : capacity_bytes_(capacity_bytes), device_(device) {}

  /// Features [B, E] (fp32) of the rows of `input`, on the device or the host, whose contents are told apart by
  /// `keys_B`. `compute` gets those rows that are not known yet, all of them in their order where none is. The host
  /// waits for the device only for these. `is_counted`: in num_asked() and num_found().
  at::Tensor features(const std::vector<std::string>& keys_B, const at::Tensor& input,
                      const std::function<at::Tensor(const at::Tensor& rows)>& compute, bool is_counted = true);

  int64_t num_asked() const { return num_asked_; }  ///< Rows so far that counted.
  int64_t num_found() const { return num_found_; }  ///< Of them, not computed.

 private:
  void keep(const std::string& key, const float* row);

  int64_t capacity_bytes_, num_features_ = 0;
  at::Device device_;
  int64_t num_asked_ = 0, num_found_ = 0;
  std::unordered_map<std::string, std::vector<float>> rows_;
};

}  // namespace lockstep::models
