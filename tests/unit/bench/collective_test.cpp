// Every collective over ranks as threads: right values pass, wrong ones are counted one by one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "bench/collective_case.h"
#include "bench/collective_kinds.h"
#include "core/error.h"
#include "support/ranks/run_ranks.h"

namespace lockstep::bench {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kInt, at::kLong, at::kByte};

std::vector<CollectiveKind> all_kinds() {
  std::vector<CollectiveKind> kinds;
  for (const auto& name : commands::bench_collective_names()) kinds.push_back(parse_collective(name));
  return kinds;
}

int64_t wrong_after(const CollectiveCall& call, comm::Comm& comm, bool is_in_place,
                    const std::function<void(at::Tensor&)>& damage) {
  auto buffers = make_buffers(call, comm, at::kCPU, is_in_place);
  fill_buffers(call, comm, buffers, 5);
  run_collective(call, comm, buffers);
  damage(buffers.receive);
  return count_wrong(buffers.receive, expected_runs(call, comm), call.op, 5);
}

class CollectiveValues : public ::testing::TestWithParam<int> {};

TEST_P(CollectiveValues, RightResultsOfEveryCollectiveInEveryTypePass) {
  std::atomic<int> num_checked = 0;
  tests::run_ranks(GetParam(), [&](comm::Comm& comm) {
    for (const auto kind : all_kinds())
      for (const auto type : kTypes)
        for (const auto op :
             {comm::ReduceOp::kSum, comm::ReduceOp::kMax, comm::ReduceOp::kMin, comm::ReduceOp::kAverage})
          for (const bool is_in_place : {false, true}) {
            if (!(is_in_place ? has_in_place(kind) : has_out_of_place(kind))) continue;
            if (op != comm::ReduceOp::kSum && !has_reduction(kind)) continue;
            if (op == comm::ReduceOp::kAverage && !at::isFloatingType(type)) continue;
            const int64_t wrong =
                wrong_after({.kind = kind, .op = op, .root = comm.size() - 1, .count = 1001, .type = type}, comm,
                            is_in_place, [](at::Tensor&) {});
            if (wrong != 0)
              throw std::runtime_error(fmt::format("kind {} type {} op {}: {} wrong", static_cast<int>(kind),
                                                   c10::toString(type), static_cast<int>(op), wrong));
            ++num_checked;
          }
  });
  EXPECT_GT(num_checked, 60 * GetParam());
}

TEST_P(CollectiveValues, EachWrongElementIsCounted) {
  tests::run_ranks(GetParam(), [&](comm::Comm& comm) {
    for (const auto kind : all_kinds())
      for (const auto type : {at::kFloat, at::kBFloat16, at::kInt}) {
        const int64_t wrong =
            wrong_after({.kind = kind, .count = 500, .type = type}, comm, has_in_place(kind), [](at::Tensor& received) {
              received[0].add_(1);
              received.slice(0, 10, 12).sub_(1);
              received[-1].add_(1);
            });
        if (wrong != 4)
          throw std::runtime_error(fmt::format("kind {}: {} wrong values, expected 4", static_cast<int>(kind), wrong));
      }
    const int64_t not_a_number = wrong_after({.count = 64}, comm, true, [](at::Tensor& received) {
      received[3].fill_(std::numeric_limits<float>::quiet_NaN());
    });
    if (not_a_number != 1) throw std::runtime_error("NaN was not counted");
  });
}

TEST_P(CollectiveValues, ACollectiveThatDoesNothingIsNoticed) {
  tests::run_ranks(GetParam(), [&](comm::Comm& comm) {
    for (const auto kind : all_kinds()) {
      const CollectiveCall call{.kind = kind, .count = 300};
      const auto buffers = make_buffers(call, comm, at::kCPU, false);
      fill_buffers(call, comm, buffers, 1);
      if (count_wrong(buffers.receive, expected_runs(call, comm), call.op, 1) != buffers.receive.numel())
        throw std::runtime_error("memory that was never written passes as received");
      run_collective(call, comm, buffers);
      fill_buffers(call, comm, make_buffers(call, comm, at::kCPU, false), 2);
      if (has_out_of_place(kind) && count_wrong(buffers.receive, expected_runs(call, comm), call.op, 2) < 100)
        throw std::runtime_error("the result of an earlier call passes as that of this one");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveValues, ::testing::Values(2, 3));

TEST(Collective, SizesAndBusFactorsFollowTheConvention) {
  using enum CollectiveKind;
  EXPECT_EQ(count_of_size(kAllReduce, 1024, 4, 3), 256);
  EXPECT_EQ(count_of_size(kAllGather, 1024, 4, 3), 85);  // whole elements of each rank
  EXPECT_EQ(size_in_elements({.kind = kAllGather, .count = 85}, 3), 255);
  EXPECT_EQ(size_in_elements({.kind = kSendReceive, .count = 85}, 3), 85);
  EXPECT_EQ(count_of_size(kAllToAll, 1, 8, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(kAllGather, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(kAllToAll, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(kBroadcast, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(kSendReceive, 8), 1);
}

TEST(Collective, RowsHoldEverySampleAndTheBandwidthOfTheMedian) {
  commands::BenchOptions options;
  options.collectives = {"all-gather", "all-reduce"};
  options.min_bytes = "64";
  options.max_bytes = "256";
  options.num_iterations = 9;
  std::atomic<int> num_rows = 0;
  tests::run_ranks(2, [&](comm::Comm& comm) {
    const auto bench_case = make_collective_case({.options = options, .world = comm, .device = at::kCPU});
    std::vector<core::Json> rows;
    for (auto row : bench_case->points()) {
      if (bench_case->verify(row) != 0) throw std::runtime_error("wrong values");
      bench_case->time(row);
      const bool is_gather = row["part"] == "all-gather";
      if (row.contains("time_us") != is_gather || !row.contains("in_place_time_us"))
        throw std::runtime_error("wrong places: " + row.dump());
      if (row["in_place_samples_us"].size() != 9) throw std::runtime_error("samples are missing");
      const double us = row["in_place_time_us"], algbw = row["in_place_algbw_gbytes_per_s"],
                   busbw = row["in_place_busbw_gbytes_per_s"];
      if (std::abs(algbw - row["bytes"].get<double>() / us / 1e3) > 1e-12) throw std::runtime_error("algbw");
      if (std::abs(busbw - algbw * (is_gather ? 0.5 : 1.0)) > 1e-12) throw std::runtime_error("busbw");
      rows.push_back(row);
      ++num_rows;
    }
    const auto summary = bench_case->summary(rows);
    if (summary.size() != 2 || !(summary[0].value.get<double>() > 0)) throw std::runtime_error("summary");
  });
  EXPECT_EQ(num_rows, 2 * 2 * 3);
}

TEST(Collective, OneRankAloneAndAForeignRootAreRefused) {
  commands::BenchOptions options;
  comm::Comm alone;
  EXPECT_THROW(make_collective_case({.options = options, .world = alone, .device = at::kCPU}), UsageError);
  options.root = 2;
  tests::run_ranks(2, [&](comm::Comm& comm) {
    EXPECT_THROW(make_collective_case({.options = options, .world = comm, .device = at::kCPU}), UsageError);
  });
}

}  // namespace
}  // namespace lockstep::bench
