#include "nn/captured_call.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"

namespace lockstep::nn {
namespace {

/// Stands in for CUDA graphs: a recording computes the call and counts.
struct FakeGraphs {
  CallRecorder recorder() {
    return [this](const TensorCall& call, const std::vector<at::Tensor>& inputs) -> TensorCall {
      ++num_recorded;
      call(inputs);  // as a warm-up
      return [this, call](const std::vector<at::Tensor>& others) {
        ++num_replayed;
        return call(others);
      };
    };
  }
  int64_t num_recorded = 0, num_replayed = 0;
};

at::Tensor doubled(const std::vector<at::Tensor>& inputs) { return inputs.front().mul(2); }

at::Tensor rows(int64_t count) { return at::ones({count, 3}); }

TEST(CapturedCall, TheThirdCallOfAFormRecordsIt) {
  FakeGraphs graphs;
  CapturedCall call(doubled, graphs.recorder());
  for (int64_t i = 1; i <= 5; ++i) {
    EXPECT_TRUE(call({rows(2).mul(i)}).equal(rows(2).mul(2 * i))) << i;
    EXPECT_EQ(graphs.num_recorded, i >= 3 ? 1 : 0);
    EXPECT_EQ(graphs.num_replayed, std::max<int64_t>(0, i - 2));
  }
  EXPECT_EQ(call.num_recorded(), 1);
}

TEST(CapturedCall, SizesTypesStridesAndFurtherInputsMakeForms) {
  FakeGraphs graphs;
  CapturedCall call([](const std::vector<at::Tensor>& inputs) { return inputs.back().clone(); }, graphs.recorder(),
                    {.least_calls = 2});
  const at::Tensor square = at::ones({3, 3});
  const std::vector<std::vector<at::Tensor>> forms = {{rows(1)},
                                                      {rows(2)},
                                                      {rows(2).to(at::kDouble)},
                                                      {at::ones({2, 3, 1})},
                                                      {square},
                                                      {square.t()},
                                                      {square, square},
                                                      {square, rows(1)},
                                                      {rows(32)},
                                                      {rows(4).t()},
                                                      {at::ones({2, 3}, at::kLong)},
                                                      {at::ones({6})}};
  for (int64_t round = 1; round <= 3; ++round)
    for (const auto& inputs : forms) EXPECT_TRUE(call(inputs).equal(inputs.back()));
  EXPECT_EQ(call.num_recorded(), std::ssize(forms));
  EXPECT_EQ(graphs.num_recorded, std::ssize(forms));
  EXPECT_EQ(graphs.num_replayed, 2 * std::ssize(forms));
}

TEST(CapturedCall, WhatCannotGainIsNeverRecorded) {
  FakeGraphs graphs;
  CapturedCall call(doubled, graphs.recorder(), {.most_samples = 4, .least_calls = 1});
  for (const at::Tensor& input : {rows(5), rows(0), at::ones({}), at::ones({1, 3}).expand({2, 3}),
                                  rows(4).slice(1, 0, 3, 2)})  // too many, none, no rows, shared and sparse memory
    EXPECT_TRUE(call({input}).equal(input.mul(2)));
  EXPECT_EQ(graphs.num_recorded, 0);
  call({rows(4)});
  EXPECT_EQ(graphs.num_recorded, 1);
  EXPECT_TRUE(call.plain({rows(4)}).equal(rows(4).mul(2)));
  EXPECT_EQ(graphs.num_replayed, 1);
}

TEST(CapturedCall, TheLeastRecentlyUsedRecordingLeavesWhenItIsIdle) {
  FakeGraphs graphs;
  CapturedCall call(doubled, graphs.recorder(), {.least_calls = 1, .most_forms = 2, .idle_calls = 3});
  const auto is_replayed = [&](int64_t count) {
    const int64_t before = graphs.num_recorded + graphs.num_replayed;
    call({rows(count)});
    return graphs.num_recorded + graphs.num_replayed != before;
  };
  EXPECT_TRUE(is_replayed(1));   // call 1
  EXPECT_TRUE(is_replayed(2));   // call 2
  EXPECT_FALSE(is_replayed(3));  // 2 calls ago the first was used: both stay
  EXPECT_TRUE(is_replayed(1));   // call 4: now the second is the oldest
  EXPECT_FALSE(is_replayed(3));
  EXPECT_EQ(graphs.num_recorded, 2);
  EXPECT_TRUE(is_replayed(3));  // call 6: the second was last used 4 calls ago
  EXPECT_EQ(graphs.num_recorded, 3);
  EXPECT_EQ(call.num_recorded(), 2);
  EXPECT_TRUE(is_replayed(1));
  EXPECT_FALSE(is_replayed(2)) << "it left";
  EXPECT_EQ(graphs.num_recorded, 3);
}

/// The list of forms that came has an end, too, and what leaves it first is what is not recorded.
TEST(CapturedCall, ManyFormsDriveOutNoRecording) {
  FakeGraphs graphs;
  CapturedCall call(doubled, graphs.recorder(), {.least_calls = 2, .most_forms = 1});
  call({rows(1)});
  call({rows(1)});
  ASSERT_EQ(call.num_recorded(), 1);
  for (int64_t width = 1; width <= 600; ++width) call({at::ones({2, width})});
  EXPECT_EQ(call.num_recorded(), 1);
  call({rows(1)});
  EXPECT_EQ(graphs.num_replayed, 2);
  EXPECT_EQ(graphs.num_recorded, 1);
}

TEST(CapturedCall, AfterAFailureAllCallsArePlain) {
  const core::TempDir folder;
  const std::string path = (folder.path() / "out.log").string();
  core::LogConfig quiet;
  quiet.to_stderr = false;
  core::configure_log(quiet);
  core::open_log_file(path);
  FakeGraphs graphs;
  int64_t num_tried = 0;
  const CallRecorder recorder = [&](const TensorCall& call, const std::vector<at::Tensor>& inputs) {
    ++num_tried;
    if (inputs.front().size(0) == 7) throw std::runtime_error("operation not permitted\nand a stack");
    return graphs.recorder()(call, inputs);
  };
  CapturedCall call(doubled, recorder, {.least_calls = 1});
  call({rows(1)});
  ASSERT_EQ(call.num_recorded(), 1);
  for (int64_t i = 1; i <= 3; ++i) EXPECT_TRUE(call({rows(7).mul(i)}).equal(rows(7).mul(2 * i)));
  EXPECT_TRUE(call({rows(1)}).equal(rows(1).mul(2)));
  core::open_log_file("");
  core::configure_log({});
  EXPECT_EQ(num_tried, 2);
  EXPECT_EQ(graphs.num_replayed, 1);
  EXPECT_EQ(call.num_recorded(), 0);
  const std::string written = core::read_file(path);
  EXPECT_NE(written.find("WARNING"), std::string::npos) << written;
  EXPECT_NE(written.find("(operation not permitted);"), std::string::npos) << written;
  EXPECT_EQ(written.find("WARNING"), written.rfind("WARNING")) << written;
}

TEST(CapturedCall, AMistakeOfTheCallItselfIsItsOwn) {
  FakeGraphs graphs;
  CapturedCall call([](const std::vector<at::Tensor>&) -> at::Tensor { throw DataError("models: no such text"); },
                    graphs.recorder(), {.least_calls = 1});
  EXPECT_THROW(call({rows(1)}), DataError);
  EXPECT_THROW(call({rows(1)}), DataError);
}

TEST(CapturedCall, OnTheCpuNothingIsRecorded) {
  EXPECT_FALSE(call_recorder("auto", at::kCPU));
  EXPECT_FALSE(call_recorder("off", at::Device(at::kCUDA, 0)));
  CapturedCall call(doubled, call_recorder("auto", at::kCPU), {.least_calls = 1});
  for (int64_t i = 1; i <= 3; ++i) EXPECT_TRUE(call({rows(2).mul(i)}).equal(rows(2).mul(2 * i)));
  EXPECT_EQ(call.num_recorded(), 0);
}

}  // namespace
}  // namespace lockstep::nn
