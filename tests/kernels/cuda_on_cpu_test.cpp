// The machine that runs kernels on the processor: what it finds, and that its numbers are those of the formats.
#include "support/cuda_on_cpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "support/narrow_numbers.h"

namespace lockstep::tests::cuda {
namespace {

/// What the launch ends with; empty where it does not fail.
std::string failure_of(const Grid& grid, const std::function<void()>& kernel, uint64_t seed = 1) {
  try {
    launch(grid, seed, kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void expect_failure(const Grid& grid, const std::function<void()>& kernel, const std::vector<std::string>& texts) {
  for (uint64_t seed = 1; seed < 4; ++seed) {
    const std::string failure = failure_of(grid, kernel, seed);
    for (const std::string& text : texts)
      EXPECT_NE(failure.find(text), std::string::npos) << text << " in: " << failure;
  }
  EXPECT_EQ(failure_of(grid, [] { __syncthreads(); }), "") << "the next launch is as good as any";
}

TEST(CudaOnCpu, EachThreadOfTheGridRunsOnce) {
  std::vector<int> runs(3 * 2 * 64 * 2);
  launch({.blocks = {3, 2}, .threads = {64, 2}}, 1, [&] {
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x, thread = threadIdx.y * blockDim.x + threadIdx.x;
    ++runs[block * 128 + thread];
  });
  for (const int count : runs) EXPECT_EQ(count, 1);
}

TEST(CudaOnCpu, BlocksAndThreadsComeInAnyOrder) {
  std::set<std::pair<unsigned, unsigned>> firsts;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    int num_before = 0;
    launch({.blocks = {4}, .threads = {4}}, seed, [&] {
      if (num_before++ == 0) firsts.insert({blockIdx.x, threadIdx.x});
    });
  }
  EXPECT_GT(firsts.size(), 8u);
}

TEST(CudaOnCpu, ExchangesReachTheirLanes) {
  std::vector<float> got(96);
  launch({.blocks = {1}, .threads = {96}}, 1, [&] {
    const float first = __shfl_xor_sync(0xffffffffu, static_cast<float>(threadIdx.x), 16);
    got[threadIdx.x] = __shfl_xor_sync(0xffffffffu, first, 1);
  });
  for (unsigned i = 0; i < 96; ++i) EXPECT_EQ(got[i], static_cast<float>((i ^ 16) ^ 1));
}

TEST(CudaOnCpu, MissingBarrierShows) {
  int num_wrong = 0, num_wrong_with_barrier = 0;
  for (const bool has_barrier : {false, true}) {
    launch({.blocks = {2}, .threads = {64}}, 1, [&, has_barrier] {
      __shared__ unsigned values[64];
      values[threadIdx.x] = 100 * blockIdx.x + threadIdx.x + 1;
      if (has_barrier) __syncthreads();
      const unsigned other = 63 - threadIdx.x;
      if (values[other] != 100 * blockIdx.x + other + 1) ++(has_barrier ? num_wrong_with_barrier : num_wrong);
      if (has_barrier) __syncthreads();
    });
  }
  EXPECT_GT(num_wrong, 10);
  EXPECT_EQ(num_wrong_with_barrier, 0);
}

TEST(CudaOnCpu, BarrierThatSomeThreadsMissEndsTheLaunch) {
  expect_failure({.blocks = {2}, .threads = {64}},
                 [] {
                   if (threadIdx.x != 5) __syncthreads();
                 },
                 {"of 64 threads 1 have ended, 63 wait for others at the barrier of cuda_on_cpu_test.cpp:"});
  expect_failure({.blocks = {1}, .threads = {64}},
                 [] {
                   if (threadIdx.x < 32) {
                     __syncthreads();
                   } else {
                     __syncthreads();
                   }
                 },
                 {"others of its block at that of cuda_on_cpu_test.cpp:"});
}

TEST(CudaOnCpu, ExchangeThatSomeLanesMissEndsTheLaunch) {
  expect_failure({.blocks = {1}, .threads = {64}},
                 [] {
                   if (threadIdx.x != 40) __shfl_xor_sync(0xffffffffu, 1.0f, 4);
                 },
                 {"of 64 threads 33 have ended, 31 wait for lanes of their warp at cuda_on_cpu_test.cpp:"});
  expect_failure({.blocks = {1}, .threads = {32}}, [] { __shfl_xor_sync(0xffffffffu, 1.0f, threadIdx.x == 3 ? 2 : 1); },
                 {"mask 2", "mask 1"});
  expect_failure({.blocks = {1}, .threads = {40}}, [] { __shfl_xor_sync(0xffffffffu, 1.0f, 1); }, {"fewer than 32"});
  expect_failure({.blocks = {1}, .threads = {32}}, [] { __shfl_xor_sync(0xffffu, 1.0f, 1); }, {"lanes 0xffff only"});
}

TEST(CudaOnCpu, AccessOutsideABufferEndsTheLaunch) {
  const Grid one{.blocks = {1}, .threads = {1}};
  Buffer<float> buffer("some", 3), input("input", 5);
  buffer[2] = 4;
  volatile float* memory = buffer.data();
  volatile float read = 0;
  expect_failure(one, [&] { read = memory[3]; }, {"touches byte 12 of buffer `some`, which has 12"});
  expect_failure(one, [&] { memory[3] = 1; }, {"touches byte 12 of buffer `some`"});
  expect_failure(one, [&] { read = memory[-2000]; }, {"touches 8000 bytes before buffer `some`"});
  volatile float* sealed = const_cast<float*>(input.sealed());
  expect_failure(one, [&] { sealed[1] = 1; }, {"writes to byte 4 of buffer `input`, which it may only read"});
  EXPECT_EQ(failure_of(one, [&] { read = sealed[0] + memory[2]; }), "");
  EXPECT_TRUE(std::isnan(memory[-1]) && std::isnan(buffer[0])) << "what nobody wrote does not look like a result";
  EXPECT_NE(failure_of(one, [&] { memory[-1] = 1; }).find("wrote 4 bytes before buffer `some`"), std::string::npos);
}

TEST(CudaOnCpu, SharedNumbersBeyondTheLaunchEndIt) {
  std::vector<float> shared(64);
  const Grid grid{.blocks = {1}, .threads = {1}, .shared = shared, .num_shared = 16};
  expect_failure(grid, [&] { shared[20] = 1; }, {"wrote shared number 20, the launch gave it 16"});
  EXPECT_EQ(failure_of(grid, [&] { shared[15] = 1; }), "");
}

TEST(CudaOnCpu, GridsThatNoGpuStartsAreRefused) {
  EXPECT_THROW(launch({.blocks = {1}, .threads = {1025}}, 1, [] {}), std::invalid_argument);
  EXPECT_THROW(launch({.blocks = {0}, .threads = {32}}, 1, [] {}), std::invalid_argument);
}

TEST(NarrowNumbers, StandForWhatTheirFormatsSay) {
  EXPECT_EQ(widened_bits(0x38, kE4M3Type), 1);
  EXPECT_EQ(widened_bits(0x7e, kE4M3Type), 448);
  EXPECT_EQ(widened_bits(0x01, kE4M3Type), 0x1p-9);
  EXPECT_TRUE(std::isnan(widened_bits(0xff, kE4M3Type)));
  EXPECT_EQ(widened_bits(0xbc, kE5M2Type), -1);
  EXPECT_EQ(widened_bits(0x7b, kE5M2Type), 57344);
  EXPECT_EQ(widened_bits(0x01, kE5M2Type), 0x1p-16);
  EXPECT_EQ(widened_bits(0x7c, kE5M2Type), INFINITY);
  EXPECT_EQ(widened_bits(0x3555, kHalfType), 0.333251953125);
  EXPECT_EQ(widened_bits(0x7bff, kHalfType), 65504);
  EXPECT_EQ(widened_bits(0x0001, kHalfType), 0x1p-24);
  EXPECT_EQ(widened_bits(0xfc00, kHalfType), -INFINITY);
  EXPECT_EQ(widened_bits(0x3f81, kBFloat16Type), 1.0078125);
  EXPECT_TRUE(std::isnan(widened_bits(0x7fc0, kBFloat16Type)));
}

TEST(NarrowNumbers, RoundToTheNearestAndTiesToEven) {
  for (const NarrowType& type : {kE4M3Type, kE5M2Type, kHalfType, kBFloat16Type}) {
    for (uint32_t bits = 0; bits < type.most; ++bits) {
      const double here = widened_bits(bits, type), next = widened_bits(bits + 1, type), middle = (here + next) / 2;
      ASSERT_EQ(narrow_bits(here, type), bits);
      ASSERT_EQ(narrow_bits(std::nextafter(middle, 0), type), bits);
      ASSERT_EQ(narrow_bits(middle, type), bits + bits % 2);
      ASSERT_EQ(narrow_bits(std::nextafter(middle, 1e300), type), bits + 1);
    }
    const uint32_t sign = narrow_bits(-0.0, type);
    EXPECT_EQ(sign, 1u << (type.exponent_bits + type.mantissa_bits));
    EXPECT_EQ(narrow_bits(widened_bits(type.most, type), type), type.most);
    EXPECT_EQ(narrow_bits(-INFINITY, type), sign | type.beyond);
    EXPECT_EQ(narrow_bits(1e200, type), type.beyond);
    EXPECT_TRUE(std::isnan(widened_bits(narrow_bits(NAN, type), type)));
  }
  EXPECT_EQ(narrow_bits(65519, kHalfType), 0x7bffu);
  EXPECT_EQ(narrow_bits(65520, kHalfType), 0x7c00u);  // a tie between the largest and what would come next
}

}  // namespace
}  // namespace lockstep::tests::cuda
