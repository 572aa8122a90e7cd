#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "core/files.h"

namespace lockstep::tests {

/// A named pipe that stands for a file on a stalled file system: once it is full, write() blocks until drain() is
/// called.
class StalledPipe {
 public:
  explicit StalledPipe(const std::filesystem::path& path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    reader_ = core::Fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    EXPECT_TRUE(reader_.valid());
  }
  int fd() const { return reader_.get(); }
  /// The file system comes back: what is written from now on is taken.
  void drain() {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      char block[1 << 16];
      for (;;) {
        const ssize_t got = ::read(reader_.get(), block, sizeof block);
        if (got > 0)
          written_.append(block, static_cast<size_t>(got));
        else if (stop.stop_requested())
          return;
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  /// All that was written; after the writers are done.
  std::string take() {
    thread_.request_stop();
    thread_.join();
    return std::move(written_);
  }

 private:
  core::Fd reader_;
  std::string written_;
  std::jthread thread_;
};

}  // namespace lockstep::tests
