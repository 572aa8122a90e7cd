#include "fuzz/targets.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/files.h"
#include "core/rng.h"
#include "fuzz/target_runs.h"
#include "support/fuzz.h"
#include "support/sanitizers.h"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

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

INSTANTIATE_TEST_SUITE_P(Fuzz, FuzzTargets, ::testing::ValuesIn(all_targets()),
                         [](const auto& param) { return case_name(param.param); });

}  // namespace
}  // namespace lockstep::fuzz
