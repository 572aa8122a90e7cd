#include "sweep/stop_request.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace lockstep::sweep {
namespace {

TEST(StopRequest, ASignalInterruptsNoFileOperation) {
  const StopRequest request;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ssize_t num_read = -1;
  std::thread reader([&] {
    char byte = 0;
    num_read = ::read(ends[0], &byte, 1);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that the signal finds it waiting
  ASSERT_EQ(::pthread_kill(reader.native_handle(), SIGINT), 0);
  for (int i = 0; i < 2000 && request.count() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(request.count(), 1);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  reader.join();
  EXPECT_EQ(num_read, 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace lockstep::sweep
