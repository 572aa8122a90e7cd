// Calls of a group that is aborted when another rank fails: on a device they end at once, with whatever lies in their
// tensors, and the transport does not say so.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/backend.h"
#include "comm/comm.h"
#include "comm/progress.h"
#include "core/error.h"

namespace lockstep::comm {
namespace {

class KnownFailure final : public Progress {
 public:
  void begin(const CallMark&) override {}
  void end(const CallMark&) override {}
  std::string failure_elsewhere() const override { return failure; }
  std::string diagnose(const CallMark&, const std::vector<int>&) override { return ""; }

  std::string failure;
};

/// Rank 0 of two that have the same. The other fails while call `aborted` (from 1) is waited for, which leaves zeros.
class AbortedGroup final : public Backend {
 public:
  AbortedGroup(int aborted, std::shared_ptr<KnownFailure> progress)
      : Backend(0, 2, at::Device(at::kCPU)), aborted_(aborted), progress_(std::move(progress)) {}

  std::function<void()> start(Call call) override {
    return [this, call = std::move(call), number = ++num_calls] {
      if (number == aborted_) {
        progress_->failure = "rank 1 failed: out of patience";
        call.tensor.zero_();
        return;
      }
      if (call.kind == OpKind::kAllReduce) call.tensor.mul_(2);
      if (call.kind == OpKind::kAllGather) call.tensor.copy_(at::cat({call.input, call.input}));
    };
  }

  int num_calls = 0;

 private:
  int aborted_;
  std::shared_ptr<KnownFailure> progress_;
};

struct Group {
  explicit Group(int aborted) : backend(std::make_shared<AbortedGroup>(aborted, progress)) {}

  std::shared_ptr<KnownFailure> progress = std::make_shared<KnownFailure>();
  std::shared_ptr<AbortedGroup> backend;
  Comm comm{backend, nullptr, "world", progress};
};

constexpr int kNever = 0;

/// What `call` throws; "": nothing.
template <typename Body> std::string refusal(const Body& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

TEST(AbortedCalls, WhatTheyLeaveIsNeverTakenForAnAnswer) {
  EXPECT_EQ(Group(kNever).comm.gather_strings("abc"), (std::vector<std::string>{"abc", "abc"}));
  EXPECT_EQ(Group(kNever).comm.broadcast_string("abc", 0), "abc");
  Group(kNever).comm.barrier();
  constexpr const char* kGivesUp = "comm: this rank gives up: rank 1 failed: out of patience";
  EXPECT_EQ(refusal([] { Group(1).comm.barrier(); }), kGivesUp);
  for (const int aborted : {1, 2}) {  // the lengths, the texts
    EXPECT_EQ(refusal([&] { Group(aborted).comm.gather_strings("abc"); }), kGivesUp) << aborted;
    EXPECT_EQ(refusal([&] { Group(aborted).comm.broadcast_string("abc", 0); }), kGivesUp) << aborted;
  }
}

TEST(AbortedCalls, NoneIsStartedBehindAFailure) {
  const at::Tensor x = at::ones({4});
  Group group(kNever);
  group.comm.all_reduce(x).wait();
  EXPECT_EQ(group.comm.exchange({{.is_send = true, .tensor = x, .peer = 1}}).size(), 1u);
  EXPECT_EQ(group.backend->num_calls, 2);
  group.progress->failure = "rank 1 failed: out of patience";
  for (const std::string& text : {refusal([&] { group.comm.all_reduce(x); }),
                                  refusal([&] { group.comm.exchange({{.is_send = true, .tensor = x, .peer = 1}}); })})
    EXPECT_NE(text.find("rank 1 failed: out of patience"), std::string::npos) << text;
  EXPECT_EQ(group.backend->num_calls, 2);
}

}  // namespace
}  // namespace lockstep::comm
