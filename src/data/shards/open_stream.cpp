#include "data/shards/open_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "data/shards/remote_stream.h"
#include "data/shards/shard_list.h"

namespace lockstep::data {
namespace {

constexpr int kPollMs = 50;  // how soon a waiting read notices `stop`

[[noreturn]] void throw_stopped(const std::string& shard) {
  throw DataError(fmt::format("data: reading of shard '{}' was interrupted", shard));
}

class FileStream : public ByteStream {
 public:
  FileStream(const std::string& path, uint64_t offset, const std::atomic<bool>* stop)
      : path_(path), offset_(offset), stop_(stop) {
    file_ = core::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file_.valid())
      throw DataError(
          fmt::format("data: cannot open shard '{}': {}", path, std::strerror(errno)),
          errno == ENOENT && !core::scheme_of(path).empty()
              ? "addresses are read of s3://BUCKET/KEY and https://HOST/FILE; for others take what fetches them: "
                "'pipe:gsutil cat gs://BUCKET/FILE'"
          : errno == ENOENT ? "it is missing: " + missing_shard_hint(path)
                            : "check the permissions of the file and of the folders above it");
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0 || S_ISDIR(info.st_mode))
      throw DataError(fmt::format("data: shard '{}' is not a file", path),
                      "name the .tar files, for example 'folder/{000..099}.tar'");
    if (S_ISREG(info.st_mode)) size_ = static_cast<uint64_t>(info.st_size);
    if (!size_ && offset > 0)
      throw DataError(fmt::format("data: shard '{}' is no regular file and has no random access", path));
  }

  size_t read(std::span<std::byte> buffer) override {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) throw_stopped(path_);
    for (;;) {
      const ssize_t got = size_ ? ::pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset_))
                                : ::read(file_.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        throw DataError(
            fmt::format("data: cannot read shard '{}' at offset {}: {}", path_, offset_, std::strerror(errno)));
      offset_ += static_cast<uint64_t>(got);
      if (size_ && got > 0)
        ::posix_fadvise(file_.get(), static_cast<off_t>(offset_), static_cast<off_t>(buffer.size()),
                        POSIX_FADV_WILLNEED);  // the next block travels while this one is used
      return static_cast<size_t>(got);
    }
  }

  bool skip(uint64_t count) override {
    if (!size_) return false;
    offset_ += count;
    return true;
  }
  std::optional<uint64_t> size() const override { return size_; }
  void finish() override {}

 private:
  std::string path_;
  core::Fd file_;
  uint64_t offset_;
  std::optional<uint64_t> size_;
  const std::atomic<bool>* stop_;
};

/// Standard output of a shell command in a process group of its own.
class PipeStream : public ByteStream {
 public:
  PipeStream(const std::string& shard, const std::atomic<bool>* stop) : shard_(shard), stop_(stop) {
    const std::string command = shard.substr(std::strlen("pipe:"));
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    output_ = core::Fd(ends[0]);
    const core::Fd write_end(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    sigset_t none;
    sigemptyset(&none);
    sigset_t defaults;
    sigemptyset(&defaults);
    for (const int signal : {SIGPIPE, SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXFSZ}) sigaddset(&defaults, signal);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::string shell = "sh", option = "-c", text = command;
    std::array<char*, 4> arguments{shell.data(), option.data(), text.data(), nullptr};
    const int code = ::posix_spawn(&child_, "/bin/sh", &actions, &attributes, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (code != 0) {
      child_ = -1;
      fail(fmt::format("cannot start it: {}", std::strerror(code)));
    }
  }

  ~PipeStream() override {
    output_.reset();  // the command sees SIGPIPE at its next write
    if (child_ <= 0) return;
    ::kill(-child_, SIGTERM);
    for (int waited_ms = 0; waited_ms < 500; waited_ms += 5) {
      if (reap(WNOHANG)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::kill(-child_, SIGKILL);
    reap(0);
  }

  size_t read(std::span<std::byte> buffer) override {
    for (;;) {
      if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) throw_stopped(shard_);
      pollfd entry{output_.get(), POLLIN, 0};
      const int ready = ::poll(&entry, 1, kPollMs);
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
      if (ready < 0) fail(fmt::format("poll: {}", std::strerror(errno)));
      const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(fmt::format("cannot read its output: {}", std::strerror(errno)));
      return static_cast<size_t>(got);
    }
  }

  bool skip(uint64_t) override { return false; }
  std::optional<uint64_t> size() const override { return std::nullopt; }

  void finish() override {
    while (child_ > 0 && !reap(WNOHANG)) {  // its output is closed; the process itself may take a moment
      if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) throw_stopped(shard_);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (WIFEXITED(status_) && WEXITSTATUS(status_) != 0) fail(fmt::format("exit status {}", WEXITSTATUS(status_)));
    if (WIFSIGNALED(status_)) fail(fmt::format("ended by signal {}", WTERMSIG(status_)));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("data: command of shard '{}' failed: {}", shard_, what),
                    "run the command alone and look at its error output");
  }
  bool reap(int options) {
    pid_t got;
    do got = ::waitpid(child_, &status_, options);
    while (got < 0 && errno == EINTR);
    if (got == 0) return false;
    child_ = -1;
    return true;
  }

  std::string shard_;
  core::Fd output_;
  pid_t child_ = -1;
  int status_ = 0;
  const std::atomic<bool>* stop_;
};

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(const std::string& shard, uint64_t offset, const std::atomic<bool>* stop) {
  if (!is_streamed(shard)) return std::make_unique<FileStream>(shard, offset, stop);
  if (!is_pipe(shard)) return open_remote_stream(shard, offset, stop);
  auto stream = std::make_unique<PipeStream>(shard, stop);
  std::vector<std::byte> scratch(1 << 16);
  while (offset > 0) {
    const size_t got = stream->read(std::span(scratch).first(std::min<uint64_t>(scratch.size(), offset)));
    if (got == 0) {
      stream->finish();
      throw DataError(fmt::format(
          "data: shard '{}' is shorter than before: {} bytes are missing up to the place to continue", shard, offset));
    }
    offset -= got;
  }
  return stream;
}

}  // namespace lockstep::data
