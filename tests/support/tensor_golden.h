#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "core/error.h"
#include "core/safetensors.h"

namespace lockstep::tests {

using TensorMap = std::map<std::string, at::Tensor>;

/// tests/golden/<name>; an absolute path stays as it is.
inline std::filesystem::path golden_path(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / name;
}

/// Copies of all fp32, bf16 and int64 tensors of a golden file.
inline TensorMap load_golden(const std::string& name) {
  static const std::map<std::string, at::ScalarType> kTypes{
      {"F32", at::kFloat}, {"BF16", at::kBFloat16}, {"I64", at::kLong}};
  const core::SafetensorsFile file(golden_path(name));
  TensorMap out;
  for (const auto& entry : file.entries()) {
    LOCKSTEP_CHECK(kTypes.contains(entry.dtype), "golden '{}': tensor '{}' is {}", name, entry.name, entry.dtype);
    auto tensor = at::empty(entry.shape, kTypes.at(entry.dtype));
    if (!entry.bytes.empty()) std::memcpy(tensor.data_ptr(), entry.bytes.data(), entry.bytes.size());
    out.emplace(entry.name, tensor);
  }
  return out;
}

/// One metadata string of a golden file.
inline std::string golden_metadata(const std::string& name, const std::string& key) {
  return core::SafetensorsFile(golden_path(name)).metadata().at(key);
}

/// Largest absolute difference over the largest absolute value of `want`, in float64.
inline double relative_difference(const at::Tensor& got, const at::Tensor& want) {
  const auto a = got.detach().to(at::kDouble).cpu(), b = want.detach().to(at::kDouble).cpu();
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

/// Largest difference relative to the largest absolute value of `want`. A reference that proves nothing (all zero; or
/// constant, if it has several elements) is a failure, and so is NaN.
inline void expect_close(const at::Tensor& got, const at::Tensor& want, double tolerance, const std::string& what) {
  ASSERT_TRUE(got.defined() && want.defined()) << what;
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const auto b = want.detach().to(at::kDouble).cpu();
  const double largest = b.abs().max().item<double>();
  ASSERT_GT(largest, 0.0) << what << ": the reference is zero";
  if (b.numel() > 1) {
    ASSERT_GT((b.max() - b.min()).item<double>(), 0.0) << what << ": the reference is constant";
  }
  const double difference = relative_difference(got, want);
  EXPECT_TRUE(difference <= tolerance) << what << ": relative difference " << difference << ", tolerance " << tolerance;
}

}  // namespace lockstep::tests
