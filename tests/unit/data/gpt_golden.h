#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "text_golden.h"

namespace lockstep::tests {

/// A file of ref/make_gpt_data_goldens.py.
inline std::string golden_gpt(const std::string& name) {
  return std::string(LOCKSTEP_GOLDEN_DIR) + "/gpt_data/" + name;
}

inline uint32_t crc_of(const std::vector<int64_t>& values) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(values.data()), values.size() * sizeof(int64_t)));
}

/// Compares an array with what the script kept of it: size, first values, check sum.
inline void expect_kept(const std::vector<int64_t>& got, const nlohmann::json& want, const std::string& name) {
  const auto values = want.at("values").get<std::vector<int64_t>>();
  ASSERT_EQ(got.size(), want.at("size").get<size_t>()) << name;
  EXPECT_EQ(std::vector<int64_t>(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(values.size())), values)
      << name;
  EXPECT_EQ(crc_of(got), want.at("crc").get<uint32_t>()) << name;
}

}  // namespace lockstep::tests
