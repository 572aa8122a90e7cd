#include "fuzz/targets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"
#include "support/fuzz.h"
#include "support/sanitizers.h"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

/// Of memory that an input may take: in all, and for each of its bytes.
constexpr int64_t kAllowedBytes = 64 << 20, kAllowedPerByte = 64;

/// What the target threw that an input must not be able to cause; "" where it stood.
std::string fault_of(const Target& target, const std::string& input) {
  try {
    run_target(target, std::as_bytes(std::span(input)));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

int64_t memory_kib(const std::string& name) {
  const std::string status = core::read_file("/proc/self/status");
  const size_t at = status.find(name + ":");
  return at == std::string::npos ? 0 : std::atoll(status.c_str() + at + name.size() + 1);
}

/// How many bytes more than before the target had at its most; 0 where the system does not tell.
int64_t peak_bytes(const Target& target, const std::string& input, std::string& fault) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak is from now on
  const int64_t before = memory_kib("VmRSS");
  fault = fault_of(target, input);
  return std::max<int64_t>(memory_kib("VmHWM") - before, 0) * 1024;
}

class FuzzTargets : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzTargets, StandWithEveryInputAndDamagedOnes) {
  const Target& target = GetParam();
  std::vector<std::string> inputs = {""};
  for (const fs::path& file : input_files(target, LOCKSTEP_SOURCE_DIR)) {
    inputs.push_back(core::read_file(file));
    std::string fault;
    const int64_t peak = peak_bytes(target, inputs.back(), fault);
    EXPECT_EQ(fault, "") << file;
    const int64_t allowed = kAllowedBytes + kAllowedPerByte * std::ssize(inputs.back());
    if (!tests::kHasAddressSanitizer) {
      EXPECT_LE(peak, allowed) << file;
    }
  }
  ASSERT_GE(inputs.size(), 2u) << "no seed: put one into fuzz/seeds/" << target.name;
  constexpr size_t kMostBytes = 64 << 10;  // larger ones cost too much here
  std::erase_if(inputs, [](const std::string& input) { return input.size() > kMostBytes; });
  core::CounterRng rng(2026, 15);
  for (uint64_t round = 0; round < tests::fuzz_rounds(300); ++round) {
    const std::string input = tests::damage(inputs[rng.below(inputs.size())], rng);
    const std::string fault = fault_of(target, input);
    if (fault.empty()) continue;
    const fs::path kept = fs::path(LOCKSTEP_BUILD_DIR) / ("fuzz-" + target.name + ".input");
    core::write_file_atomic(kept, input);
    FAIL() << "round " << round << ": " << fault << "; the input is kept as " << kept;
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, FuzzTargets, ::testing::ValuesIn(targets()), [](const auto& param) {
  std::string name = param.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace lockstep::fuzz
