#include "remote/run_sync.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "checkpoint/manifest.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/strings.h"
#include "core/units.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
namespace {

constexpr int kNiceness = 10;  // of the thread: hashing must not take time from training
constexpr size_t kMaxListed = 10;

std::string error_text(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known == nullptr || known->hint().empty() ? error.what()
                                                   : fmt::format("{} ({})", known->what(), known->hint());
}

}  // namespace

RunSync::RunSync(SyncConfig config) : config_(std::move(config)), state_(config_.run_folder, config_.address.text()) {
  store_ = open_store(config_.address, {.retry = config_.retry, .is_stopped = [this] { return is_stopped(); }});
  thread_ = std::thread([this] { run(); });
}

RunSync::~RunSync() {
  is_ending_ = true;
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool RunSync::is_stopped() const { return is_ending_ || Clock::now() >= deadline_.load(); }

void RunSync::run() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness);
  const auto pause = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(config_.frequency_s));
  for (;;) {
    bool is_last = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, Clock::now() + pause, [this] { return is_finishing_ || is_ending_.load(); });
      is_last = is_finishing_;
    }
    if (is_ending_) return;
    SyncReport report = pass(is_last);
    while (is_last && report.num_missing > 0 && !is_stopped()) {
      if (!real_clock([this] { return is_stopped(); }).sleep(config_.retry.first_s)) break;
      const int64_t num_before = report.num_sent, bytes_before = report.sent_bytes;
      report = pass(true);
      report.num_sent += num_before;
      report.sent_bytes += bytes_before;
    }
    ++num_passes_;
    last_ = std::move(report);
    if (is_last) return;
  }
}

/// One warning for each kind of failure, until everything has arrived again.
void RunSync::note_failure(const std::string& name, const std::exception& error) {
  if (dynamic_cast<const Interrupted*>(&error) != nullptr) return;
  failure_ = fmt::format("{}{}", name.empty() ? "" : name + ": ", error_text(error));
  const auto* known = dynamic_cast<const RemoteError*>(&error);
  const std::string kind = known != nullptr ? fmt::format("{} {}", known->status(), known->code()) : error.what();
  if (kind == failure_kind_) return;
  failure_kind_ = kind;
  core::log_warning("remote: not everything has arrived at {}, it is tried again: {}", config_.address.text(),
                    failure_);
}

/// Files that an earlier process sent and that are not there any more are sent again.
void RunSync::check_arrived() {
  if (is_checked_) return;
  std::set<std::pair<std::string, int64_t>> there;
  if (!state_.is_empty())
    for (const StoredFile& file : store_->list("")) there.emplace(file.name, file.bytes);
  state_.keep_only(there);
  is_checked_ = true;
}

void RunSync::send_file(const RunFile& file) {
  const fs::path path = config_.run_folder / file.name;
  OutgoingFile outgoing{.file = core::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), .bytes = file.bytes};
  if (!outgoing.file.valid()) core::throw_errno("remote: cannot open", path);
  UploadMemory memory{.state = state_.unfinished(file)};
  memory.save = [&] {
    may_be_unfinished_ = true;  // of this one, if the file changes or goes before it is sent
    state_.note_unfinished(file, memory.state);
    state_.save();
  };
  store_->upload(file.name, outgoing, memory);
  state_.note_arrived(file);
  state_.save();
}

/// Behind a file that failed the others of its group wait for the next pass: a manifest comes last.
void RunSync::send_group(const RunFileGroup& group, SyncReport& report, bool shows_progress) {
  SyncReport own;
  for (const RunFile& file : group.files) {
    if (state_.has_arrived(file)) continue;
    try {
      if (own.num_missing > 0 || is_stopped()) throw Interrupted();
      if (shows_progress)
        core::show_progress(fmt::format("sending {} ({}) to {}", file.name,
                                        core::format_bytes(static_cast<double>(file.bytes)), config_.address.text()));
      send_file(file);
      ++own.num_sent;
      own.sent_bytes += file.bytes;
    } catch (const std::exception& error) {
      std::error_code ignored;
      if (!fs::exists(config_.run_folder / file.name, ignored)) return;  // deleted meanwhile, and its group with it
      note_failure(file.name, error);
      ++own.num_missing;
      own.missing_bytes += file.bytes;
      if (report.missing.size() < kMaxListed) report.missing.push_back(file.name);
    }
  }
  report.num_sent += own.num_sent;
  report.sent_bytes += own.sent_bytes;
  report.num_missing += own.num_missing;
  report.missing_bytes += own.missing_bytes;
  if (own.num_sent > 0 && own.num_missing == 0 && !group.title.empty())
    core::log_info("remote: {} has arrived at {} ({})", group.title, config_.address.text(),
                   core::format_bytes(static_cast<double>(own.sent_bytes)));
}

/// A checkpoint that is removed here in mid-upload will never be whole there: what arrived of it goes, too.
void RunSync::remove_leftovers() {
  for (const std::string& folder : state_.begun_checkpoints()) {
    std::error_code ignored;
    if (fs::exists(config_.run_folder / folder, ignored)) continue;
    const std::vector<StoredFile> files = store_->list(folder);
    const bool is_whole = std::any_of(files.begin(), files.end(), [&](const StoredFile& file) {
      return file.name == folder + checkpoint::kManifestName;
    });
    if (!is_whole)
      for (const StoredFile& file : files) store_->remove(file.name);
    state_.forget(folder);
    state_.save();
  }
}

/// Parts of an upload that is never finished cost money for ever. It is aborted where nobody goes on with it: the
/// process was killed and the run folder is another one, the file has changed since, or it was removed.
void RunSync::drop_unfinished(const std::vector<RunFileGroup>& groups) {
  if (!may_be_unfinished_) return;
  std::vector<core::Json> kept;
  for (const RunFileGroup& group : groups)
    for (const RunFile& file : group.files)
      if (core::Json state = state_.unfinished(file); !state.empty()) kept.push_back(std::move(state));
  try {
    if (const int64_t num_dropped = store_->drop_unfinished(kept); num_dropped > 0)
      core::log_info("remote: unfinished uploads to {} removed: {}", config_.address.text(), num_dropped);
    may_be_unfinished_ = !kept.empty();
  } catch (const Interrupted&) {  // the next process does it
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const RemoteError*>(&error);
    if (known != nullptr && known->is_transient()) return;  // with the next pass
    may_be_unfinished_ = false;
    core::log_warning(
        "remote: unfinished uploads to {} may stay there, and cost: {}. A rule of the bucket "
        "(AbortIncompleteMultipartUpload) removes them",
        config_.address.text(), error_text(error));
  }
}

SyncReport RunSync::pass(bool is_last) {
  SyncReport report;
  try {
    if (const std::string reason = config_.reason_to_stop ? config_.reason_to_stop() : ""; !reason.empty()) {
      if (failure_ != reason) core::log_warning("remote: nothing more is sent: {}", reason);
      failure_ = reason;
      return report;
    }
    const auto groups = list_run_files(config_.run_folder);
    check_arrived();
    if (num_passes_ == 0) drop_unfinished(groups);
    for (const RunFileGroup& group : groups) send_group(group, report, is_last);
    if (report.num_missing == 0) {
      remove_leftovers();
      drop_unfinished(list_run_files(config_.run_folder));
    }
  } catch (const std::exception& error) {
    note_failure("", error);
    ++report.num_missing;
    report.missing.emplace_back("the list of files");
  }
  if (is_last) core::end_progress();
  if (report.num_missing == 0) failure_.clear(), failure_kind_.clear();
  return report;
}

std::string RunSync::missing_text(const SyncReport& report) const {
  return fmt::format("{} files ({}) have not arrived at {}: {}{}; {}", report.num_missing,
                     core::format_bytes(static_cast<double>(report.missing_bytes)), config_.address.text(),
                     core::join(report.missing, ", "), report.num_missing > std::ssize(report.missing) ? ", ..." : "",
                     failure_.empty() ? "the time was too short" : "the last failure: " + failure_);
}

SyncReport RunSync::finish(double deadline_s) {
  const auto began = Clock::now();
  deadline_ = began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(deadline_s));
  {
    const std::lock_guard lock(mutex_);
    is_finishing_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (last_.num_missing > 0)
    core::log_warning(
        "remote: {}. --remote-sync-deadline is {:g} s. The same command with --resume latest sends the "
        "rest, or copy it from {}",
        missing_text(last_), deadline_s, config_.run_folder.string());
  else if (failure_.empty())
    core::log_info("remote: the run has arrived at {} ({} files and {} at the end, in {:.1f} s)",
                   config_.address.text(), last_.num_sent, core::format_bytes(static_cast<double>(last_.sent_bytes)),
                   core::ms_since(began) / 1000);
  return last_;
}

}  // namespace lockstep::remote
