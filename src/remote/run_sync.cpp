#include "remote/run_sync.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "checkpoint/manifest.h"
#include "core/clock.h"
#include "core/error_lines.h"
#include "core/log.h"
#include "core/strings.h"
#include "core/units.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
namespace {

constexpr int kNiceness = 10;  // of the thread: hashing must not take time from training
constexpr size_t kMaxListed = 10;
constexpr int kMostLooks = 5;  // at the end of a run, at what cannot be read: it has no server to come back

std::string error_text(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known == nullptr ? error.what() : one_line_text(*known);
}

}  // namespace

void SyncReport::note_missing(const RunFile& file) {
  ++num_missing;
  missing_bytes += file.bytes;
  if (missing.size() < kMaxListed) missing.push_back(file.name);
}

void SyncReport::add(const SyncReport& more) {
  num_sent += more.num_sent;
  sent_bytes += more.sent_bytes;
  num_missing += more.num_missing;
  missing_bytes += more.missing_bytes;
  for (const std::string& name : more.missing)
    if (missing.size() < kMaxListed) missing.push_back(name);
}

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
  try {
    send_until_told();
  } catch (const std::exception& error) {  // no memory for what a pass must note: the run goes on without its copy
    last_ = {.num_missing = 1, .missing = {}};
    try {
      failure_ = error_text(error);
      core::log_warning("remote: nothing more is sent to {}: {}", config_.address.text(), failure_);
    } catch (const std::exception&) {  // finish() says that something is missing
    }
  }
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_all();
}

void RunSync::send_until_told() {
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
    int num_looks = 0;
    while (is_last && report.num_missing > 0 && !is_stopped()) {
      num_looks = report.num_missing == report.num_unread ? num_looks + 1 : 0;
      if (num_looks == kMostLooks) break;
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

/// As the file is when it is opened: it may be another one than when it was listed. Its bytes.
int64_t RunSync::send_file(const std::string& name) {
  const fs::path path = config_.run_folder / name;
  OutgoingFile outgoing{.file = core::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))};
  if (!outgoing.file.valid()) core::throw_errno("remote: cannot open", path);
  const RunFile file = describe_open_file(outgoing.file, name);
  outgoing.bytes = file.bytes;
  UploadMemory memory{.state = state_.unfinished(file)};
  memory.save = [&] {
    may_be_unfinished_ = true;  // of this one, if the file changes or goes before it is sent
    state_.note_unfinished(file, memory.state);
    state_.save();
  };
  store_->upload(file.name, outgoing, memory);
  state_.note_arrived(file);
  state_.save();
  return file.bytes;
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
      own.sent_bytes += send_file(file.name);
      ++own.num_sent;
    } catch (const std::exception& error) {
      if (is_gone(config_.run_folder / file.name)) return;  // deleted meanwhile, and its group with it
      note_failure(file.name, error);
      own.note_missing(file);
    }
  }
  report.add(own);
  if (own.num_sent > 0 && own.num_missing == 0 && !group.title.empty())
    core::log_info("remote: {} has arrived at {} ({})", group.title, config_.address.text(),
                   core::format_bytes(static_cast<double>(own.sent_bytes)));
}

/// What is there to be sent. What cannot be looked at counts as missing, once in a pass.
std::vector<RunFileGroup> RunSync::list_files(SyncReport& report) {
  RunFiles files = list_run_files(config_.run_folder);
  for (const UnreadFile& file : files.unread) {
    if (!unread_.insert(file.name).second) continue;
    if (unread_.size() == 1)
      note_failure("", EnvironmentError(fmt::format("cannot read '{}': {}", file.name, file.reason)));
    report.note_missing({.name = file.name});
    ++report.num_unread;
  }
  return std::move(files.groups);
}

/// Newest first, and the folder is looked at again behind each: older ones may be gone by then, and there may be newer
/// ones. The one on its way is held, so that it arrives even where saving is faster than the storage.
void RunSync::send_checkpoints(SyncReport& report, bool shows_progress) {
  std::set<std::string> tried;
  size_t num_left = 0;
  do {
    const auto groups = list_files(report);
    std::vector<const RunFileGroup*> left;
    for (const RunFileGroup& group : groups)
      if (!group.checkpoint.empty() && !tried.contains(group.checkpoint)) left.push_back(&group);
    if (left.empty()) return;
    if (tried.empty()) num_left = left.size();  // those that come meanwhile may need another pass
    tried.insert(left.front()->checkpoint);
    if (config_.held != nullptr) config_.held->hold(left.front()->checkpoint);
    send_group(*left.front(), report, shows_progress);
    if (config_.held != nullptr) config_.held->release();
  } while (--num_left > 0);
}

/// What cannot be removed stays: without a manifest it is never taken for a checkpoint.
void RunSync::remove_parts(const std::vector<StoredFile>& files) {
  try {
    for (const StoredFile& file : files) store_->remove(file.name);
  } catch (const RemoteError& error) {
    if (error.is_transient() || dynamic_cast<const Interrupted*>(&error) != nullptr) throw;
    core::log_warning("remote: parts of a checkpoint stay at {}: {}", config_.address.text(), error_text(error));
  }
}

/// A checkpoint that is removed here in mid-upload will never be whole there: what arrived of it goes, too.
void RunSync::remove_leftovers() {
  for (const std::string& folder : state_.begun_checkpoints()) {
    if (!is_gone(config_.run_folder / folder)) continue;
    const std::vector<StoredFile> files = store_->list(folder);
    const bool is_whole = std::any_of(files.begin(), files.end(), [&](const StoredFile& file) {
      return file.name == folder + checkpoint::kManifestName;
    });
    if (!is_whole) remove_parts(files);
    state_.forget(folder);
    state_.save();
  }
}

/// By the claims at the copy: the other attempt may run on a machine that shares no files with this one, and may even
/// have the same number, if both went on from the same state.
std::string RunSync::why_superseded() {
  constexpr std::string_view kClaim = "checkpoints/owner.";
  if (config_.attempt <= 0) return "";
  const fs::path own = config_.run_folder / fmt::format("{}{}", kClaim, config_.attempt);
  for (const StoredFile& file : store_->list(std::string(kClaim))) {
    const auto attempt = core::parse_int(std::string_view(file.name).substr(kClaim.size()));
    if (!attempt || *attempt < config_.attempt) continue;
    if (*attempt > config_.attempt || store_->read(file.name) != core::read_file(own))
      return fmt::format("another process has taken over the copy at {} as attempt {}, this one is attempt {}",
                         config_.address.text(), *attempt, config_.attempt);
  }
  return "";
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

/// Of a pass that failed before it came to all files.
void RunSync::count_missing(SyncReport& report) {
  report = {.num_sent = report.num_sent, .sent_bytes = report.sent_bytes, .missing = {}};
  unread_.clear();
  for (const RunFileGroup& group : list_files(report))
    for (const RunFile& file : group.files)
      if (!state_.has_arrived(file)) report.note_missing(file);
  if (report.num_missing == 0) report.note_missing({.name = "the list of files"});
}

SyncReport RunSync::pass(bool is_last) {
  SyncReport report;
  try {
    std::string reason = config_.reason_to_stop ? config_.reason_to_stop() : "";
    if (reason.empty()) reason = why_superseded();
    if (!reason.empty()) {
      if (failure_ != reason) core::log_warning("remote: nothing more is sent: {}", reason);
      failure_ = reason;
      return report;
    }
    unread_.clear();
    const auto groups = list_files(report);
    check_arrived();
    if (num_passes_ == 0 && unread_.empty()) drop_unfinished(groups);
    for (const RunFileGroup& group : groups)
      if (group.checkpoint.empty()) send_group(group, report, is_last);
    send_checkpoints(report, is_last);
    if (report.num_missing == 0) {
      remove_leftovers();
      if (const auto files = list_run_files(config_.run_folder); files.unread.empty()) drop_unfinished(files.groups);
    }
  } catch (const std::exception& error) {
    count_missing(report);
    note_failure("", error);
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

std::string RunSync::why_unfinished(bool was_told, double deadline_s) const {
  if (was_told) return "The run was told not to wait for it";
  if (last_.num_unread == last_.num_missing) return "It cannot be read in the run folder";
  return fmt::format("The deadline was {:g} s", deadline_s);
}

SyncReport RunSync::finish(double deadline_s, const std::function<bool()>& is_told_to_end) {
  const auto began = Clock::now();
  deadline_ = began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(deadline_s));
  {
    const std::lock_guard lock(mutex_);
    is_finishing_ = true;
  }
  wake_.notify_all();
  bool was_told = false;
  {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, std::chrono::milliseconds(50), [this] { return has_ended_; })) {
      if (was_told || !is_told_to_end || !is_told_to_end()) continue;
      was_told = true;
      deadline_ = Clock::now();
    }
  }
  if (thread_.joinable()) thread_.join();
  if (last_.num_missing > 0)
    core::log_warning("remote: {}. {}. The same command with {} sends the rest, or copy it from {}",
                      missing_text(last_), why_unfinished(was_told, deadline_s), config_.flags_to_resume,
                      config_.run_folder.string());
  else if (failure_.empty())
    core::log_info("remote: the run has arrived at {} ({} files and {} at the end, in {:.1f} s)",
                   config_.address.text(), last_.num_sent, core::format_bytes(static_cast<double>(last_.sent_bytes)),
                   core::ms_since(began) / 1000);
  return last_;
}

}  // namespace lockstep::remote
