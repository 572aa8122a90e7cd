// The folder of runs, the data, and storage elsewhere.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/units.h"
#include "doctor/checks.h"
#include "remote/open_store.h"
#include "remote/remote_reader.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

constexpr double kGibibyte = 1 << 30;

/// The folder itself, or the nearest one above it that exists: runs make what is missing.
fs::path existing_folder(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  std::error_code failure;
  while (!fs::exists(path, failure) && path != path.parent_path()) path = path.parent_path();
  return path;
}

/// A file that is gone with the object.
class ScratchFile {
 public:
  explicit ScratchFile(const fs::path& folder) : name_((folder / ".lockstep-doctor-XXXXXX").string()) {
    file_ = core::Fd(::mkostemp(name_.data(), O_CLOEXEC));
    error_ = file_.valid() ? 0 : errno;
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() {
    if (file_.valid()) ::unlink(name_.c_str());
  }
  const core::Fd& file() const { return file_; }
  const std::string& path() const { return name_; }
  int error() const { return error_; }

 private:
  std::string name_;
  core::Fd file_;
  int error_ = 0;
};

constexpr const char* kOtherFolder = "choose another folder for runs with --logs, on a shared file system with room";

/// MB/s of a file that is written and synced; 0 where it fails, and `reason` says why.
double write_rate(const core::Fd& file, std::string& reason) {
  constexpr size_t kBlock = 1 << 20, kBlocks = 32;
  const std::vector<char> block(kBlock, 'x');
  const auto begin = core::Clock::now();
  for (size_t i = 0; i < kBlocks; ++i)
    if (::write(file.get(), block.data(), kBlock) != static_cast<ssize_t>(kBlock)) {
      reason = std::strerror(errno == 0 ? ENOSPC : errno);
      return 0;
    }
  if (::fsync(file.get()) != 0) {
    reason = std::strerror(errno);
    return 0;
  }
  return static_cast<double>(kBlock * kBlocks) / core::ms_since(begin) / 1e3;
}

void check_room(const fs::path& folder, Report& report) {
  struct statvfs room {};
  if (::statvfs(folder.c_str(), &room) != 0)
    return report.error(fmt::format("'{}': {}", folder.string(), std::strerror(errno)), kOtherFolder);
  const double left = static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize);
  const std::string seen = fmt::format("'{}' has {} free", folder.string(), core::format_bytes(left));
  constexpr double kFull = 1 * kGibibyte, kTight = 20 * kGibibyte;
  if (left < kFull) return report.error(seen + ", expected 20 GiB or more: checkpoints cannot be saved", kOtherFolder);
  if (left < kTight)
    return report.warning(seen + ", expected 20 GiB or more: each checkpoint of CLIP ViT-B-32 takes 1.8 GB",
                          "keep fewer checkpoints (--keep), or choose another folder with --logs");
  report.ok(seen);
}

/// What is wrong with a file or folder of data; "" when it can be read.
std::string unreadable(const std::string& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) return failure && failure.value() != ENOENT ? failure.message() : "is not there";
  if (fs::is_directory(status)) {
    const bool is_empty = fs::is_empty(path, failure);
    if (failure) return failure.message();
    return is_empty ? "is an empty folder" : "";
  }
  const core::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return std::strerror(errno);
  char byte = 0;
  const ssize_t count = ::read(file.get(), &byte, 1);
  if (count < 0) return std::strerror(errno);
  return count == 0 ? "is empty" : "";
}

/// How long storage elsewhere may take: half of what the others wait, so that a rank still comes to the meeting.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds timeout) : whole_(timeout / 2), end_(core::Clock::now() + whole_) {}
  remote::ClientConfig config() const {
    remote::ClientConfig config;
    config.retry.max_attempts = 2;
    config.is_stopped = [end = end_] { return core::Clock::now() >= end; };
    return config;
  }
  double seconds() const { return std::chrono::duration<double>(whole_).count(); }

 private:
  std::chrono::milliseconds whole_;
  core::Clock::time_point end_;
};

/// What is wrong, and what to do about it, where `use` throws.
std::optional<std::pair<std::string, std::string>> problem_with_storage(const Patience& patience,
                                                                        const std::function<void()>& use) {
  constexpr const char* kAdvice = "look at the address, at AWS_ENDPOINT_URL, and at the network of this node";
  try {
    use();
    return std::nullopt;
  } catch (const remote::Interrupted&) {
    return std::pair(fmt::format("the storage did not answer within {:.0f} s", patience.seconds()), kAdvice);
  } catch (const Error& error) {
    return std::pair(std::string(error.what()), error.hint().empty() ? kAdvice : error.hint());
  }
}

}  // namespace

void check_folder(const Question& question, Report& report) {
  const fs::path folder = existing_folder(question.folder);
  const ScratchFile scratch(folder);
  if (scratch.error() != 0)
    return report.error(fmt::format("'{}' cannot be written: {}", folder.string(), std::strerror(scratch.error())),
                        kOtherFolder);
  check_room(folder, report);
  if (!question.measures) return;
  std::string reason;
  const double mbytes_per_s = write_rate(scratch.file(), reason);
  if (mbytes_per_s == 0)
    return report.error(fmt::format("writing to '{}' failed: {}", folder.string(), reason), kOtherFolder);
  const std::string seen = fmt::format("'{}' takes {:.0f} MB/s (32 MiB with fsync)", folder.string(), mbytes_per_s);
  constexpr double kSlow = 30;
  if (mbytes_per_s < kSlow)
    return report.warning(seen + ", expected 30 MB/s or more: saving checkpoints takes minutes",
                          "choose a parallel file system for --logs");
  report.ok(seen);
}

void check_locks(const Question& question, Report& report) {
  const fs::path folder = existing_folder(question.folder);
  const ScratchFile scratch(folder);
  if (scratch.error() != 0) return report.note("not looked at: the folder of runs cannot be written");
  if (::flock(scratch.file().get(), LOCK_EX | LOCK_NB) != 0)
    return report.error(fmt::format("flock does not work on '{}': {}", folder.string(), std::strerror(errno)),
                        "mount it with locks (Lustre: -o flock; NFS: nolock away, lockd running), or choose another "
                        "folder with --logs and --index-dir");
  const core::Fd second(::open(scratch.path().c_str(), O_RDWR | O_CLOEXEC));
  if (second.valid() && ::flock(second.get(), LOCK_EX | LOCK_NB) == 0)
    return report.error(fmt::format("flock on '{}' gives one lock to two holders", folder.string()),
                        "choose another file system: two runs could write one folder");
  report.ok(fmt::format("flock works on '{}'", folder.string()));
}

void check_data(const Question& question, Report& report) {
  if (!question.data_commands.empty())
    report.note(fmt::format("not looked at: data of {} command{}, the first '{}'", question.data_commands.size(),
                            question.data_commands.size() == 1 ? "" : "s", question.data_commands.front()),
                "run it by hand on each node");
  if (question.data.empty()) {
    if (question.remote_data.empty() && question.data_commands.empty())
      report.note("no data named", "name it with --train-data, or a command behind --");
    return;
  }
  size_t num_bad = 0;
  std::string first;
  for (const std::string& path : question.data) {
    const std::string problem = unreadable(path);
    if (problem.empty()) continue;
    if (num_bad++ == 0) first = fmt::format("'{}' {}", path, problem);
  }
  const std::string looked_at = fmt::format("{} of {} files and folders", question.data.size(),
                                            question.data.size() + question.num_data_left_out);
  if (num_bad > 0)
    return report.error(
        fmt::format(
            "{}{}", first,
            num_bad == 1 ? "" : fmt::format(", and {} more of {} looked at", num_bad - 1, question.data.size())),
        "correct the path, stage the data to this node, or mount the file system that holds it here");
  report.ok(fmt::format("{} of the data can be read", looked_at));
}

void check_remote_data(const Question& question, Report& report) {
  if (question.remote_data.empty() || !question.measures) return;
  const Patience patience(question.timeout);
  size_t num_bad = 0;
  std::pair<std::string, std::string> first;  // what is wrong, what to do
  for (const std::string& shard : question.remote_data) {
    const auto problem = problem_with_storage(patience, [&] {
      std::byte one{};
      const remote::Address address = remote::parse_address(shard);
      if (remote::RemoteReader(address, patience.config()).read_at(0, std::span(&one, 1)) == 0)
        throw DataError(fmt::format("{} is empty", address.text()), "copy it again");
    });
    if (problem && num_bad++ == 0) first = *problem;
  }
  const size_t num_asked = question.remote_data.size();
  if (num_bad > 0)
    return report.error(
        first.first + (num_bad == 1 ? "" : fmt::format(", and {} more of {} asked for", num_bad - 1, num_asked)),
        first.second);
  report.ok(fmt::format("{} of {} shards elsewhere can be read by ranges", num_asked,
                        num_asked + question.num_remote_data_left_out));
}

void check_remote_sync(const Question& question, Report& report) {
  if (question.remote_sync.empty() || !question.copies) return;
  const remote::Address address = remote::parse_address(question.remote_sync);
  if (address.kind == remote::AddressKind::kFolder) {
    const fs::path folder = existing_folder(address.path);
    const ScratchFile scratch(folder);
    if (scratch.error() == 0) return report.ok(fmt::format("'{}' can be written", folder.string()));
    return report.error(fmt::format("'{}' cannot be written: {}", folder.string(), std::strerror(scratch.error())),
                        "choose another folder with --remote-sync");
  }
  const Patience patience(question.timeout);
  const auto problem =
      problem_with_storage(patience, [&] { remote::test_writing(*remote::open_store(address, patience.config())); });
  if (problem) return report.error(problem->first, problem->second);
  report.ok(fmt::format("{} takes a file and gives it back", address.text()));
}

}  // namespace lockstep::doctor
