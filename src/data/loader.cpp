#include "data/loader.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <thread>

#include "core/clock.h"
#include "core/error_lines.h"
#include "core/log.h"
#include "core/print.h"
#include "data/bad_sample_hint.h"
#include "data/bounded_queue.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxListed = 1000;  // bad samples kept for the list
constexpr size_t kMaxRecycled = 8;   // spare batches kept

/// A batch under way. Slots are written by workers without a lock, each by one of them; the rest is guarded by the
/// loader's mutex.
struct PendingBatch {
  HostBatch host;
  core::Json position_after;
  std::vector<std::pair<int64_t, BadSample>> bad;  // slot first
  std::exception_ptr error;
  int64_t error_slot = 0;
  double sample_bytes = 0;
  int64_t num_open = 1;  // samples not decoded yet, plus one while the reader is still adding
  void fail(int64_t slot, std::exception_ptr failure) {
    if (error && error_slot <= slot) return;  // the earliest sample's error, whatever the order of decoding
    error = std::move(failure);
    error_slot = slot;
  }
};

struct Task {
  std::shared_ptr<PendingBatch> batch;
  int64_t slot = 0;
  RawSample sample;
};

/// Which bad samples are warned about as they come: the first three, then each time their number has doubled.
bool is_warned_of(int64_t num_bad) { return num_bad <= 3 || std::has_single_bit(static_cast<uint64_t>(num_bad)); }

void check_config(const LoaderConfig& config) {
  if (config.micro_batch_size < 1)
    throw UsageError(fmt::format("data: samples per rank is {}, expected at least 1", config.micro_batch_size));
  if (config.num_workers < 1 || config.num_workers > 4096)
    throw UsageError(fmt::format("data: workers is {}, expected 1 to 4096", config.num_workers),
                     "lockstep decodes in threads: use --workers 1 or more");
  if (config.prefetch_batches < 1)
    throw UsageError(fmt::format("data: prefetch batches is {}, expected at least 1", config.prefetch_batches));
}

}  // namespace

/// Threads and everything they share. The reader owns the source while it runs.
struct Loader::State {
  State(std::unique_ptr<SampleSource> source, SampleDecoder decoder, const LoaderConfig& config)
      : config_(config), source_(std::move(source)), decoder_(std::move(decoder)), last_position_(source_->position()) {
  }
  ~State() { stop(); }

  void start();
  void stop();
  std::optional<HostBatch> next();  ///< Nothing for a batch of which all samples were left out.
  void recycle(HostBatch&& host);

  const LoaderConfig config_;
  std::unique_ptr<SampleSource> source_;
  const SampleDecoder decoder_;

  // Caller's side.
  core::Json last_position_;
  int64_t num_bad_ = 0;
  std::vector<BadSample> bad_;
  std::exception_ptr failure_;  // sticky
  LoaderStats stats_;
  double depth_sum_ = 0;
  std::atomic<double> read_ms_{0}, decode_ms_{0};

 private:
  void read_loop();
  bool read_batch();
  std::shared_ptr<PendingBatch> begin_batch();
  void work_loop();
  void decode_task(Task& task);
  void decode_sample(HostBatch& host, int64_t slot, const RawSample& sample) const;
  void decode_substitute(Task& task, const DataError& reason);
  void leave_out(Task& task, const DataError& reason);
  void close_one(PendingBatch& batch);
  void account(PendingBatch& batch);
  HostBatch without_bad(HostBatch host, const PendingBatch& batch) const;
  HostBatch trim(HostBatch host) const;

  std::mutex mutex_;
  std::condition_variable ready_, room_;
  std::deque<std::shared_ptr<PendingBatch>> batches_;  // in stream order
  std::vector<HostBatch> spare_;
  int64_t next_place_ = 0;           // of the reader thread
  std::exception_ptr read_failure_;  // behind the last of the batches
  bool is_stopping_ = false, is_at_end_ = false;
  std::unique_ptr<BoundedQueue<Task>> tasks_;
  std::vector<std::jthread> threads_;
};

void Loader::State::start() {
  is_stopping_ = is_at_end_ = false;
  read_failure_ = nullptr;
  next_place_ = 0;
  tasks_ = std::make_unique<BoundedQueue<Task>>(static_cast<size_t>(std::max<int64_t>(16, 2 * config_.num_workers)));
  threads_.emplace_back([this] { read_loop(); });
  for (int64_t i = 0; i < config_.num_workers; ++i) threads_.emplace_back([this] { work_loop(); });
}

void Loader::State::stop() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
  }
  if (tasks_) tasks_->close();
  source_->interrupt();
  room_.notify_all();
  ready_.notify_all();
  threads_.clear();  // joins
  batches_.clear();
}

std::shared_ptr<PendingBatch> Loader::State::begin_batch() {
  auto batch = std::make_shared<PendingBatch>();
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock,
               [&] { return is_stopping_ || static_cast<int64_t>(batches_.size()) < config_.prefetch_batches + 1; });
    if (is_stopping_) return nullptr;
    if (!spare_.empty()) {
      batch->host = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  const int64_t num = config_.micro_batch_size, pixels = config_.image_pixels;
  HostBatch& host = batch->host;
  host.num_samples = 0;
  host.image_pixels = pixels;
  host.clip_samples = config_.clip_samples;
  host.context_length = config_.context_length;
  host.image_BYXC.resize(static_cast<size_t>(num * pixels * pixels * 3));
  host.audio_BS.resize(static_cast<size_t>(num * config_.clip_samples));
  host.audio_samples_B.assign(config_.clip_samples > 0 ? static_cast<size_t>(num) : 0, 0);
  host.text_BT.resize(static_cast<size_t>(num * config_.context_length));
  host.label_B.assign(static_cast<size_t>(num), -1);
  host.place_B.resize(static_cast<size_t>(num));
  std::iota(host.place_B.begin(), host.place_B.end(), next_place_);
  next_place_ += num;
  host.keys.assign(static_cast<size_t>(num), "");
  const std::scoped_lock lock(mutex_);
  batches_.push_back(batch);
  return batch;
}

/// Reads one batch and hands its samples to the workers; false when there is nothing more to read.
bool Loader::State::read_batch() {
  const std::shared_ptr<PendingBatch> batch = begin_batch();
  if (!batch) return false;
  int64_t num = 0;
  bool goes_on = true;
  try {
    for (; num < config_.micro_batch_size; ++num) {
      const auto start = std::chrono::steady_clock::now();
      std::optional<RawSample> sample = source_->next();
      read_ms_.fetch_add(core::ms_since(start));
      if (!sample) {
        goes_on = false;
        break;
      }
      {
        const std::scoped_lock lock(mutex_);
        ++batch->num_open;
      }
      if (!tasks_->push({batch, num, std::move(*sample)})) return false;
    }
    batch->position_after = source_->position();
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    batch->fail(num, std::current_exception());
    goes_on = false;
  }
  const std::scoped_lock lock(mutex_);
  batch->host.num_samples = num;
  if (num == 0 && !batch->error) batches_.pop_back();
  is_at_end_ = !goes_on;
  close_one(*batch);
  return goes_on;
}

void Loader::State::read_loop() {
  std::exception_ptr failure;
  try {
    while (read_batch()) {
    }
  } catch (...) {  // no memory for another batch
    failure = std::current_exception();
  }
  const std::scoped_lock lock(mutex_);
  read_failure_ = std::move(failure);
  is_at_end_ = true;
  ready_.notify_all();
}

/// Under the lock: one sample (or the reader) is done with the batch.
void Loader::State::close_one(PendingBatch& batch) {
  if (--batch.num_open == 0) ready_.notify_all();
}

void Loader::State::decode_sample(HostBatch& host, int64_t slot, const RawSample& sample) const {
  const auto image_bytes = static_cast<size_t>(config_.image_pixels * config_.image_pixels * 3);
  const auto values = static_cast<size_t>(config_.clip_samples), tokens = static_cast<size_t>(config_.context_length);
  const auto at = static_cast<size_t>(slot);
  SampleSlot target{.image_YXC = std::span(host.image_BYXC).subspan(at * image_bytes, image_bytes),
                    .audio_S = std::span(host.audio_BS).subspan(at * values, values),
                    .text_T = std::span(host.text_BT).subspan(at * tokens, tokens),
                    .label = sample.label};
  std::fill(target.text_T.begin(), target.text_T.end(), 0);
  if (sample.damage) throw DataError(*sample.damage);
  decoder_(sample, target);
  if (values > 0) host.audio_samples_B[at] = target.audio_samples;
  host.label_B[at] = target.label;
  host.keys[at] = sample.file.empty() ? fmt::format("{}:{}", sample.shard, sample.key) : sample.file;
}

/// The sample of `task` is bad: takes its substitutes in turn until one can be used.
void Loader::State::decode_substitute(Task& task, const DataError& reason) {
  BadSample bad{task.sample.shard, task.sample.offset, task.sample.key, reason.what()};
  if (!task.sample.substitute)
    throw DataError(fmt::format("{}; this source has no substitutes", reason.what()),
                    "evaluation data must be whole: remove the sample");
  for (int64_t attempt = 1; attempt <= config_.max_attempts; ++attempt) {
    try {
      RawSample other = task.sample.substitute(static_cast<int>(attempt));
      other.id = task.sample.id;  // the position keys the augmentation
      load_deferred(other);
      decode_sample(task.batch->host, task.slot, other);
      const std::scoped_lock lock(mutex_);
      task.batch->bad.emplace_back(task.slot, std::move(bad));
      return;
    } catch (const DataError&) {  // counted when its own turn comes
    }
  }
  throw DataError(
      fmt::format("{}; {} substitutes of its neighbourhood are bad, too", reason.what(), config_.max_attempts),
      "run `lockstep data inspect` on the shard; most of it seems unusable");
}

void Loader::State::leave_out(Task& task, const DataError& reason) {
  const std::scoped_lock lock(mutex_);
  task.batch->bad.emplace_back(task.slot,
                               BadSample{task.sample.shard, task.sample.offset, task.sample.key, reason.what()});
}

void Loader::State::decode_task(Task& task) {
  try {
    load_deferred(task.sample);
    decode_sample(task.batch->host, task.slot, task.sample);
  } catch (const DataError& error) {
    if (config_.on_bad_sample == OnBadSample::kSkip) return decode_substitute(task, error);
    if (config_.on_bad_sample == OnBadSample::kLeaveOut) return leave_out(task, error);
    if (task.sample.substitute || config_.may_leave_out) throw;
    throw DataError(error.what(), hint_of_whole_data(error.hint()));
  }
}

void Loader::State::work_loop() {
  while (std::optional<Task> task = tasks_->pop()) {
    const auto start = std::chrono::steady_clock::now();
    std::exception_ptr error;
    try {
      decode_task(*task);
    } catch (...) {
      error = std::current_exception();
    }
    decode_ms_.fetch_add(core::ms_since(start));
    const std::scoped_lock lock(mutex_);
    for (const Member& member : task->sample.members)
      task->batch->sample_bytes += static_cast<double>(member.bytes.size());
    if (error) task->batch->fail(task->slot, std::move(error));
    close_one(*task->batch);
  }
}

void Loader::State::account(PendingBatch& batch) {
  std::sort(batch.bad.begin(), batch.bad.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [slot, bad] : batch.bad) {
    ++num_bad_;
    if (!config_.is_quiet && is_warned_of(num_bad_))
      core::log_warning("data: bad sample {} ({} so far): {}",
                        config_.on_bad_sample == OnBadSample::kLeaveOut ? "left out" : "replaced", num_bad_,
                        bad.reason);
    if (bad_.size() < kMaxListed) bad_.push_back(std::move(bad));
  }
  last_position_ = std::move(batch.position_after);
  stats_.sample_bytes += batch.sample_bytes;
  if (num_bad_ <= config_.max_bad_samples) return;
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(bad_.size(), 3); ++i) list += "\n    " + core::printable_line(bad_[i].reason);
  throw ErrorOfLines<DataError>(fmt::format("data: {} bad samples are more than the {} allowed; the first:{}", num_bad_,
                                            config_.max_bad_samples, list),
                                "repair the data (`lockstep data verify`), or allow more with --max-bad-samples");
}

namespace {

/// Takes the rows of these rising numbers out of x, of which `width` values are a row.
template <typename T> void erase_rows(std::vector<T>& x, int64_t width, std::span<const int64_t> rows) {
  if (x.empty() || width == 0) return;
  const auto row = [&](int64_t number) { return x.begin() + number * width; };
  auto to = row(rows.front());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto end = i + 1 < rows.size() ? row(rows[i + 1]) : x.end();
    to = std::move(row(rows[i] + 1), end, to);
  }
  x.resize(static_cast<size_t>(to - x.begin()));
}

}  // namespace

/// The batch of `batch` without the samples that were left out.
HostBatch Loader::State::without_bad(HostBatch host, const PendingBatch& batch) const {
  if (config_.on_bad_sample != OnBadSample::kLeaveOut || batch.bad.empty()) return host;
  std::vector<int64_t> slots;
  for (const auto& [slot, bad] : batch.bad) slots.push_back(slot);
  erase_rows(host.image_BYXC, config_.image_pixels * config_.image_pixels * 3, slots);
  erase_rows(host.audio_BS, config_.clip_samples, slots);
  erase_rows(host.audio_samples_B, 1, slots);
  erase_rows(host.text_BT, config_.context_length, slots);
  erase_rows(host.label_B, 1, slots);
  erase_rows(host.place_B, 1, slots);
  erase_rows(host.keys, 1, slots);
  host.num_samples -= std::ssize(slots);
  return host;
}

HostBatch Loader::State::trim(HostBatch host) const {
  const auto num = static_cast<size_t>(host.num_samples);
  if (host.num_samples < config_.micro_batch_size) {
    host.image_BYXC.resize(num * static_cast<size_t>(config_.image_pixels * config_.image_pixels * 3));
    host.audio_BS.resize(num * static_cast<size_t>(config_.clip_samples));
    if (config_.clip_samples > 0) host.audio_samples_B.resize(num);
    host.text_BT.resize(num * static_cast<size_t>(config_.context_length));
    host.label_B.resize(num);
    host.place_B.resize(num);
    host.keys.resize(num);
  }
  if (std::all_of(host.label_B.begin(), host.label_B.end(), [](int64_t label) { return label < 0; }))
    host.label_B.clear();
  return host;
}

std::optional<HostBatch> Loader::State::next() {
  if (failure_) std::rethrow_exception(failure_);
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<PendingBatch> batch;
  {
    std::unique_lock lock(mutex_);
    depth_sum_ += static_cast<double>(
        std::count_if(batches_.begin(), batches_.end(), [](const auto& b) { return b->num_open == 0; }));
    ready_.wait(lock, [&] { return batches_.empty() ? is_at_end_ : batches_.front()->num_open == 0; });
    if (!batches_.empty()) {
      batch = std::move(batches_.front());
      batches_.pop_front();
    } else {
      failure_ = read_failure_;
    }
  }
  if (failure_) std::rethrow_exception(failure_);
  room_.notify_one();
  stats_.wait_ms += core::ms_since(start);
  HostBatch host;
  host.image_pixels = config_.image_pixels;
  host.clip_samples = config_.clip_samples;
  host.context_length = config_.context_length;
  ++stats_.num_batches;
  if (!batch) return host;
  try {
    if (batch->error) std::rethrow_exception(batch->error);
    account(*batch);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
  HostBatch kept = trim(without_bad(std::move(batch->host), *batch));
  if (kept.num_samples > 0) return kept;
  recycle(std::move(kept));
  return std::nullopt;
}

void Loader::State::recycle(HostBatch&& host) {
  const std::scoped_lock lock(mutex_);
  if (spare_.size() < kMaxRecycled) spare_.push_back(std::move(host));
}

Loader::Loader(std::unique_ptr<SampleSource> source, SampleDecoder decoder, const LoaderConfig& config) {
  check_config(config);
  state_ = std::make_unique<State>(std::move(source), std::move(decoder), config);
  state_->start();
}

Loader::~Loader() = default;

HostBatch Loader::next() {
  for (;;)
    if (std::optional<HostBatch> batch = state_->next()) return std::move(*batch);
}
void Loader::recycle(HostBatch&& batch) { state_->recycle(std::move(batch)); }
core::Json Loader::position() const { return state_->last_position_; }
int64_t Loader::num_bad_samples() const { return state_->num_bad_; }
const std::vector<BadSample>& Loader::bad_samples() const { return state_->bad_; }

void Loader::seek(const core::Json& position) {
  state_->stop();
  state_->source_->seek(position);
  state_->last_position_ = state_->source_->position();
  state_->failure_ = nullptr;
  state_->start();
}

LoaderStats Loader::stats() const {
  LoaderStats stats = state_->stats_;
  stats.read_ms = state_->read_ms_.load();
  stats.decode_ms = state_->decode_ms_.load();
  stats.mean_queue_depth = stats.num_batches > 0 ? state_->depth_sum_ / static_cast<double>(stats.num_batches) : 0;
  return stats;
}

}  // namespace lockstep::data
