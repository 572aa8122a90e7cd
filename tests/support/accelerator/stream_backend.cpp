#include "support/accelerator/stream_backend.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "support/accelerator/kernels.h"
#include "support/accelerator/runtime.h"

namespace lockstep::tests::accelerator {
namespace {

/// A call, or transfers that are one, on its way through the group's stream.
struct Job {
  std::vector<comm::Call> calls;  // tensors where the device reaches them
  Completions before;             // what the stream waits for
  std::shared_ptr<Completion> end = std::make_shared<Completion>();
  Event event;  // recorded behind the call
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

/// The group's stream: carries out jobs one after the other. Outlives the backend where a job never ends.
class Queue {
 public:
  explicit Queue(std::unique_ptr<comm::Backend> transport) : transport_(std::move(transport)) {}

  void add(std::shared_ptr<Job> job) {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) throw std::runtime_error("the communicator was aborted");
    jobs_.push_back(std::move(job));
    changed_.notify_all();
  }

  /// Work under way ends at once, with whatever lies in its tensors.
  void abort() {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    for (const auto& job : jobs_) job->end->finish();
    if (current_) current_->end->finish();
    changed_.notify_all();
  }

  bool is_aborted() {
    const std::lock_guard lock(mutex_);
    return is_aborted_;
  }

  /// Is a call under way that the host gave it longer ago?
  bool is_late(std::chrono::milliseconds limit) {
    const std::lock_guard lock(mutex_);
    const auto first = current_ ? current_ : jobs_.empty() ? nullptr : jobs_.front();
    return !is_aborted_ && first != nullptr && std::chrono::steady_clock::now() - first->begin > limit;
  }

  /// Has the device nothing to wait for here?
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return is_aborted_ || (jobs_.empty() && !current_);
  }

  /// True: all jobs are done, and no more will come.
  bool close() {
    std::unique_lock lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
    return changed_.wait_for(lock, std::chrono::seconds(is_aborted_ ? 0 : 30),
                             [this] { return jobs_.empty() && !current_; });
  }

  void run() {
    while (const auto job = next()) {
      for (const auto& before : job->before) before->wait();
      try {
        for (const auto& wait : transport_->start_together(job->calls)) wait();
      } catch (const std::exception&) {
        hang();  // NCCL's kernels know nothing of ranks that are gone
      }
      const std::lock_guard lock(mutex_);
      job->end->finish();
      current_.reset();
      changed_.notify_all();
      if (is_aborted_) return;
    }
  }

 private:
  std::shared_ptr<Job> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !jobs_.empty() || is_closed_ || is_aborted_; });
    if (jobs_.empty() || is_aborted_) return nullptr;
    current_ = jobs_.front();
    jobs_.pop_front();
    return current_;
  }

  void hang() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_aborted_; });
  }

  std::unique_ptr<comm::Backend> transport_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  std::shared_ptr<Job> current_;
  bool is_closed_ = false, is_aborted_ = false;
};

/// The queues of all groups, by device.
class Queues {
 public:
  void add(int device, const std::shared_ptr<Queue>& queue) {
    const std::lock_guard lock(mutex_);
    queues_.emplace(device, queue);
  }

  bool is_idle(int device) {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = queues_.equal_range(device);
    return std::all_of(begin, end, [](const auto& entry) {
      const std::shared_ptr<Queue> queue = entry.second.lock();
      return queue == nullptr || queue->is_idle();
    });
  }

 private:
  std::mutex mutex_;
  std::multimap<int, std::weak_ptr<Queue>> queues_;
};

Queues& queues() {
  static auto& all = *new Queues();
  return all;
}

class StreamBackend final : public comm::Backend {
 public:
  StreamBackend(std::unique_ptr<comm::Backend> transport, int device, StreamGroup group)
      : Backend(transport->rank(), transport->size(), at::Device(kDeviceType, static_cast<c10::DeviceIndex>(device))),
        group_(std::move(group)), stream_(Runtime::get().new_stream(device)),
        queue_(std::make_shared<Queue>(std::move(transport))), thread_([queue = queue_] { queue->run(); }) {
    queues().add(device, queue_);
  }

  ~StreamBackend() override {
    if (queue_->close())
      thread_.join();
    else
      thread_.detach();  // a kernel that never ends
  }

  std::function<void()> start(comm::Call call) override { return start_job({std::move(call)}); }

  std::vector<std::function<void()>> start_together(std::vector<comm::Call> calls) override {
    const size_t count = calls.size();
    return std::vector<std::function<void()>>(count, start_job(std::move(calls)));
  }

  /// NCCL's ends its own kernels and then frees memory, for which CUDA waits until the device has done all that it was
  /// given, the kernels of other communicators included (github.com/NVIDIA/nccl/issues/1013). There for ever.
  void abort() override {
    queue_->abort();
    if (group_.on_abort) group_.on_abort();
    constexpr int kTries = 3000;
    for (int i = 0; i < kTries && !queues().is_idle(device().index()); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  std::string find_error() override {
    return queue_->is_late(group_.timeout) ? "a call takes longer than its time limit" : "";
  }

 private:
  std::function<void()> start_job(std::vector<comm::Call> calls) {
    Runtime& runtime = Runtime::get();
    const int index = device().index();
    Event ready;
    runtime.record(ready, runtime.current_stream(index));
    runtime.block(ready, stream_);
    const auto job = std::make_shared<Job>();
    int actor = -1;
    job->before = runtime.launch_later(stream_, actor);
    for (comm::Call call : calls) {
      mark_uses(call, actor,
                place_here(fmt::format("{} of group '{}' on {}", describe(call), group_.name,
                                       runtime.races().name_of(actor))));
      for (at::Tensor* tensor : {&call.tensor, &call.input})
        if (tensor->defined()) *tensor = on_device_side(*tensor);
      call.give_up_check = nullptr;
      job->calls.push_back(std::move(call));
    }
    runtime.await_on_stream(job->end, stream_);
    runtime.record(job->event, stream_);
    queue_->add(job);
    return [job, kept = std::move(calls), queue = queue_, index] {
      if (queue->is_aborted()) throw std::runtime_error("the communicator was aborted");
      Runtime& now = Runtime::get();
      now.block(job->event, now.current_stream(index));
    };
  }

  void mark_uses(const comm::Call& call, int actor, const Place& place) const {
    Runtime& runtime = Runtime::get();
    if (call.input.defined()) runtime.use(call.input, actor, Access::kRead, place);
    const bool only_reads =
        call.kind == comm::OpKind::kSend || (call.kind == comm::OpKind::kBroadcast && call.peer == rank());
    runtime.use(call.tensor, actor, only_reads ? Access::kRead : Access::kWrite, place);
  }

  StreamGroup group_;
  c10::Stream stream_;
  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<comm::Backend> make_stream_backend(std::unique_ptr<comm::Backend> transport, int device,
                                                   StreamGroup group) {
  return std::make_unique<StreamBackend>(std::move(transport), device, std::move(group));
}

}  // namespace lockstep::tests::accelerator
