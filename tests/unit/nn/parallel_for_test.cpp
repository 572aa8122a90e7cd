#include "nn/parallel_for.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lockstep::nn {
namespace {

class ParallelFor : public ::testing::Test {
 protected:
  ParallelFor() { at::set_num_threads(3); }
  ~ParallelFor() override { at::set_num_threads(num_before_); }

  const int num_before_ = at::get_num_threads();
};

TEST_F(ParallelFor, PartsAreDoneByAsManyThreadsAsTheTensorLibraryHas) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::vector<int> num_seen(1000);
  parallel_for(0, 1000, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) ++num_seen[static_cast<size_t>(i)];
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_EQ(num_seen, std::vector<int>(1000, 1));
}

TEST_F(ParallelFor, FewNumbersAndPartsOfPartsStayInTheirThread) {
  const auto caller = std::this_thread::get_id();
  parallel_for(0, 64, 64, [&](int64_t first, int64_t last) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(last - first, 64);
  });
  parallel_for(0, 3, 1, [](int64_t, int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(0, 100, 1, [&](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), outer); });
  });
}

TEST_F(ParallelFor, WhatAPartThrowsReachesTheCaller) {
  const auto throws_in_last = [](int64_t, int64_t last) {
    if (last == 30) throw std::runtime_error("the last part");
  };
  EXPECT_THROW(parallel_for(0, 30, 1, throws_in_last), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::nn
