// What the tests of all fuzz targets share.
#pragma once
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "core/files.h"
#include "fuzz/targets.h"

namespace lockstep::fuzz {

inline std::vector<Target> all_targets() {
  std::vector<Target> list;
  for (const auto& part : {targets_of_data(), targets_of_models(), targets_of_records(), targets_of_programs()})
    list.insert(list.end(), part.begin(), part.end());
  return list;
}

/// Of memory that an input may take: in all, and for each of its bytes.
inline constexpr int64_t kAllowedBytes = 64 << 20, kAllowedPerByte = 64;

/// What the target threw that an input must not be able to cause; "" where it stood.
inline std::string fault_of(const Target& target, const std::string& input) {
  try {
    run_target(target, std::as_bytes(std::span(input)));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

inline int64_t memory_kib(const std::string& name) {
  const std::string status = core::read_file("/proc/self/status");
  const size_t at = status.find(name + ":");
  return at == std::string::npos ? 0 : std::atoll(status.c_str() + at + name.size() + 1);
}

/// How many bytes more than before the target had at its most; 0 where the system does not tell.
inline int64_t peak_bytes(const Target& target, const std::string& input, std::string& fault) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak is from now on
  const int64_t before = memory_kib("VmRSS");
  fault = fault_of(target, input);
  return std::max<int64_t>(memory_kib("VmHWM") - before, 0) * 1024;
}

/// As the cases of a parametrised test may be called.
inline std::string case_name(const Target& target) {
  std::string name = target.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

}  // namespace lockstep::fuzz
