#include <gtest/gtest.h>

#include "comm/c10d_internal.h"

namespace lockstep::comm {
namespace {

/// Work whose first waits run out of time; it is done just behind the last of them.
class LateWork final : public c10d::Work {
 public:
  LateWork(int num_timeouts, std::exception_ptr error) : num_timeouts_(num_timeouts), error_(std::move(error)) {}
  bool wait(std::chrono::milliseconds timeout) override {
    if (num_timeouts_ == 0 || timeout == kNoTimeout) {
      if (error_) std::rethrow_exception(error_);
      return true;
    }
    if (--num_timeouts_ == 0) is_done_ = true;
    throw std::runtime_error("Operation timed out!");
  }
  bool isCompleted() override { return is_done_; }

 private:
  int num_timeouts_;
  std::exception_ptr error_;
  bool is_done_ = false;
};

TEST(WaitAndLookAround, WorkThatIsDoneBehindATimeoutIsNoFailure) {
  for (const int num_timeouts : {1, 3}) {
    LateWork work(num_timeouts, nullptr);
    int num_looks = 0;
    EXPECT_NO_THROW(wait_and_look_around(work, [&] { ++num_looks; }));
    EXPECT_EQ(num_looks, num_timeouts - 1);
  }
}

TEST(WaitAndLookAround, ItsOwnErrorComesThrough) {
  LateWork work(1, std::make_exception_ptr(std::runtime_error("Connection closed by peer")));
  try {
    wait_and_look_around(work, [] {});
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "Connection closed by peer");
  }
}

TEST(WaitAndLookAround, AReasonToGiveUpEndsTheWait) {
  LateWork work(1000, nullptr);
  int num_looks = 0;
  EXPECT_THROW(wait_and_look_around(work,
                                    [&] {
                                      if (++num_looks == 2) throw std::logic_error("rank 3 has failed");
                                    }),
               std::logic_error);
}

}  // namespace
}  // namespace lockstep::comm
