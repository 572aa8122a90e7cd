// Inputs of up to a megabyte, each a seed in which a piece is repeated: neither memory nor work may grow faster than
// the input. Work is counted in bytes that operator new gives. What allocates nothing shows in processor time, which is
// judged only beyond a second, and then by its growth: quadratic work of a megabyte takes many. A quarter of the input
// tells in a quarter of the time which inputs are in doubt: only those are tried whole.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <new>
#include <vector>

#include "core/rng.h"
#include "fuzz/target_runs.h"

namespace {
std::atomic<int64_t> allocated_bytes = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;
#endif
}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocated_bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (void* memory = std::malloc(std::max<size_t>(bytes, 1))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLarge = size_t{1} << 20, kSmall = kLarge / 4;
constexpr int64_t kMostGrowth = 8;  // of what is linear: 4; of squares: 16
constexpr int64_t kFewBytes = 64 << 20;
constexpr double kFewSeconds = 1;

/// What is at most kMostGrowth from kSmall to kLarge for a mixture of linear and quadratic work is at most 5.3 from
/// kSmall / 4 to kSmall; squares of kSmall that reach the bounds of kLarge are a sixteenth of them.
constexpr int64_t kMostGrowthBelow = 5;
constexpr int64_t kFewBytesBelow = kFewBytes / 16;
constexpr double kFewSecondsBelow = kFewSeconds / 16;

struct Cost {
  int64_t allocated = 0, peak = 0;
  double cpu_s = 0;
  std::string fault{};
};

double processor_s() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Cost cost_of(const Target& target, const std::string& input) {
  Cost cost;
  const int64_t bytes_before = allocated_bytes;
  const double s_before = processor_s();
  cost.peak = peak_bytes(target, input, cost.fault);
  cost.cpu_s = processor_s() - s_before;
  cost.allocated = allocated_bytes - bytes_before;
  return cost;
}

/// A piece of a seed that is repeated, with a running number in it where `is_numbered`: names then differ.
struct Piece {
  size_t begin, end;
  bool is_numbered;
};

std::string repeated(const std::string& seed, const Piece& piece, size_t bytes) {
  const std::string text = seed.substr(piece.begin, piece.end - piece.begin);
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto letter = std::find_if(text.begin(), text.end(), is_letter);
  const size_t at = letter == text.end() ? text.size() : static_cast<size_t>(letter - text.begin()) + 1;
  std::string input = seed.substr(0, piece.begin);
  for (size_t number = 0; input.size() + text.size() + (seed.size() - piece.end) <= bytes; ++number)
    input += piece.is_numbered ? text.substr(0, at) + std::to_string(number) + text.substr(at) : text;
  return input + seed.substr(piece.end);
}

/// The whole, and some from one character to the next of its kind: from comma to comma, from line to line.
std::vector<Piece> pieces_of(const std::string& seed, core::CounterRng& rng) {
  constexpr int kPieces = 4;
  std::vector<Piece> pieces = {{0, seed.size(), false}};
  for (int i = 0; i < kPieces; ++i) {
    const size_t begin = rng.below(seed.size()), next = seed.find(seed[begin], begin + 1);
    for (const bool is_numbered : {false, true})
      pieces.push_back({begin, next == std::string::npos ? begin + 1 : next, is_numbered});
  }
  return pieces;
}

/// May the megabyte break a bound? Judged by a quarter of it and, where that is no little, a sixteenth.
bool is_in_doubt(const Target& target, const std::string& seed, const Piece& piece) {
  const Cost small = cost_of(target, repeated(seed, piece, kSmall));
  if (!small.fault.empty() || small.peak > (kAllowedBytes + kAllowedPerByte * static_cast<int64_t>(kLarge)) / 8)
    return true;
  if (small.allocated <= kFewBytesBelow && small.cpu_s <= kFewSecondsBelow) return false;
  const Cost tiny = cost_of(target, repeated(seed, piece, kSmall / 4));
  return small.allocated > std::max(kFewBytesBelow, kMostGrowthBelow * tiny.allocated) ||
         small.cpu_s > std::max(kFewSecondsBelow, kMostGrowthBelow * tiny.cpu_s);
}

class FuzzScaling : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzScaling, MemoryAndWorkGrowAsTheInputDoes) {
  if (!kCountsAllocations) GTEST_SKIP() << "a sanitizer has the allocations";
  constexpr size_t kMostSeeds = 3;
  const Target& target = GetParam();
  std::vector<std::string> seeds;
  for (const fs::path& file : input_files(target, LOCKSTEP_SOURCE_DIR))
    if (const auto bytes = fs::file_size(file); bytes > 0 && bytes <= kSmall / 4 && seeds.size() < kMostSeeds)
      seeds.push_back(core::read_file(file));
  ASSERT_FALSE(seeds.empty());
  core::CounterRng rng(2026, 18);
  for (size_t seed = 0; seed < seeds.size(); ++seed)
    for (const Piece& piece : pieces_of(seeds[seed], rng)) {
      SCOPED_TRACE(fmt::format("seed {}, bytes {} to {} repeated{}", seed, piece.begin, piece.end,
                               piece.is_numbered ? " with numbers" : ""));
      if (!is_in_doubt(target, seeds[seed], piece)) continue;
      const Cost large = cost_of(target, repeated(seeds[seed], piece, kLarge));
      EXPECT_EQ(large.fault, "");
      EXPECT_LE(large.peak, kAllowedBytes + kAllowedPerByte * static_cast<int64_t>(kLarge));
      if (large.allocated <= kFewBytes && large.cpu_s <= kFewSeconds) continue;
      const Cost small = cost_of(target, repeated(seeds[seed], piece, kSmall));
      EXPECT_LE(large.allocated, std::max(kFewBytes, kMostGrowth * small.allocated)) << small.allocated;
      EXPECT_LE(large.cpu_s, std::max(kFewSeconds, kMostGrowth * small.cpu_s)) << small.cpu_s;
    }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, FuzzScaling, ::testing::ValuesIn(all_targets()),
                         [](const auto& param) { return case_name(param.param); });

/// The test itself: it must see work that is quadratic, by what it allocates and by the time that it takes.
TEST(FuzzScalingItself, SeesQuadraticWork) {
  if (!kCountsAllocations) GTEST_SKIP() << "a sanitizer has the allocations";
  const Target copies{"copies", {}, [](std::span<const std::byte> bytes) {
                        for (size_t i = 0; i < bytes.size(); i += 4096)
                          std::vector<std::byte>(bytes.begin() + static_cast<std::ptrdiff_t>(i), bytes.end());
                      }};
  const int64_t large = cost_of(copies, std::string(kLarge, 'x')).allocated;
  const int64_t small = cost_of(copies, std::string(kSmall, 'x')).allocated;
  EXPECT_GT(large, kFewBytes);
  EXPECT_GT(large, kMostGrowth * small);
  EXPECT_TRUE(is_in_doubt(copies, "x", {0, 1, false}));
  const Target reads{"reads", {}, [](std::span<const std::byte> bytes) {  // allocates nothing
                       for (size_t i = 0; i < bytes.size(); i += 64)
                         if (std::count(bytes.begin(), bytes.end(), std::byte{0}) > 0) std::abort();
                     }};
  EXPECT_TRUE(is_in_doubt(reads, "x", {0, 1, false}));
  const Target linear{"linear", {}, [](std::span<const std::byte> bytes) {
                        for (int i = 0; i < 100; ++i) std::vector<std::byte>(bytes.begin(), bytes.end());
                      }};
  EXPECT_FALSE(is_in_doubt(linear, "x", {0, 1, false}));
  EXPECT_EQ(repeated("a,b1,c", {1, 4, true}, 16), "a,b01,b11,b21,c");
  EXPECT_EQ(repeated("a,b1,c", {1, 4, false}, 12), "a,b1,b1,b1,c");
}

}  // namespace
}  // namespace lockstep::fuzz
