#include "support/accelerator/runtime.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

namespace lockstep::tests::accelerator {
namespace {

constexpr size_t kDeviceBytes = size_t{24} << 30;  // addresses; pages come when touched
constexpr size_t kPinnedBytes = size_t{8} << 30;
constexpr size_t kPage = 4096;
constexpr size_t kDeviceAlignment = 512;
constexpr int64_t kPooledStreams = 4, kFirstPooled = 1, kFirstOwn = 100;

thread_local std::map<int, int64_t> stream_of_thread;  // by device

c10::Stream stream_with(int device, int64_t id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(device)), id);
}

/// First byte and end of what a tensor can reach.
std::pair<uintptr_t, uintptr_t> range_of(const at::Tensor& tensor) {
  const auto base = reinterpret_cast<uintptr_t>(tensor.storage().data()) +
                    static_cast<uintptr_t>(tensor.storage_offset()) * tensor.element_size();
  if (tensor.numel() == 0) return {base, base};
  int64_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) last += (tensor.size(dim) - 1) * tensor.stride(dim);
  return {base, base + static_cast<uintptr_t>(last + 1) * tensor.element_size()};
}

}  // namespace

void Completion::finish() {
  const std::lock_guard lock(mutex_);
  is_finished_ = true;
  changed_.notify_all();
}

void Completion::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_finished_; });
}

bool Completion::is_finished() const {
  const std::lock_guard lock(mutex_);
  return is_finished_;
}

Runtime& Runtime::get() {
  static auto* runtime = new Runtime;  // tensors of static life end after it would have
  return *runtime;
}

Runtime::Runtime()
    : device_memory_(kDeviceBytes, PROT_NONE, kDeviceAlignment),
      pinned_memory_(kPinnedBytes, PROT_READ | PROT_WRITE, kPage), devices_(kMostDevices) {
  for (int i = 0; i < kMostDevices; ++i)
    devices_[static_cast<size_t>(i)].host = races_.add_actor(fmt::format("the host of device {}", i));
}

int& Runtime::current_device() {
  static thread_local int device = 0;
  return device;
}

int& Runtime::home_device() {
  static thread_local int device = -1;
  return device;
}

void Runtime::touch(int device) {
  const int home = home_device();
  if (home >= 0 && device != home)
    races_.report(
        fmt::format("device: a thread of device {} uses device {}\n    {}", home, device, place_here("there").text()));
  devices_.at(static_cast<size_t>(device)).is_touched = true;
}

std::vector<int> Runtime::touched_devices() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> touched;
  for (int i = 0; i < kMostDevices; ++i)
    if (devices_[static_cast<size_t>(i)].is_touched) touched.push_back(i);
  return touched;
}

int Runtime::host_of(int device) { return devices_.at(static_cast<size_t>(device)).host; }

Runtime::Stream& Runtime::stream_locked(c10::Stream stream) {
  auto& found = devices_.at(static_cast<size_t>(stream.device_index())).streams[stream.id()];
  if (found.actor < 0)
    found.actor = races_.add_actor(fmt::format("stream {} of device {}", stream.id(), stream.device_index()));
  return found;
}

c10::Stream Runtime::current_stream(int device) { return stream_with(device, stream_of_thread[device]); }

void Runtime::set_current_stream(c10::Stream stream) { stream_of_thread[stream.device_index()] = stream.id(); }

c10::Stream Runtime::new_stream(int device) {
  const std::lock_guard lock(mutex_);
  touch(device);
  return stream_with(device, kFirstOwn + devices_.at(static_cast<size_t>(device)).num_streams++);
}

c10::Stream Runtime::pool_stream(int device) {
  const std::lock_guard lock(mutex_);
  touch(device);
  return stream_with(device, kFirstPooled + devices_.at(static_cast<size_t>(device)).next_pooled++ % kPooledStreams);
}

int Runtime::launch(int device) {
  int actor = -1;
  for (const auto& awaited : launch_later(current_stream(device), actor)) awaited->wait();
  return actor;
}

Completions Runtime::launch_later(c10::Stream stream, int& actor) {
  const std::lock_guard lock(mutex_);
  touch(stream.device_index());
  Stream& known = stream_locked(stream);
  actor = known.actor;
  races_.launch(host_of(stream.device_index()), actor);
  return std::exchange(known.awaited, {});
}

void Runtime::record(Event& event, c10::Stream stream) {
  const std::lock_guard lock(mutex_);
  touch(stream.device_index());
  Stream& known = stream_locked(stream);
  races_.launch(host_of(stream.device_index()), known.actor);
  event = {.clock = races_.snapshot(known.actor),
           .awaited = known.awaited,
           .time = std::chrono::steady_clock::now(),
           .device = stream.device_index()};
}

void Runtime::block(const Event& event, c10::Stream stream) {
  const std::lock_guard lock(mutex_);
  touch(stream.device_index());
  Stream& known = stream_locked(stream);
  races_.join(known.actor, event.clock);
  known.awaited.insert(known.awaited.end(), event.awaited.begin(), event.awaited.end());
}

void Runtime::await_on_stream(const std::shared_ptr<Completion>& work, c10::Stream stream) {
  const std::lock_guard lock(mutex_);
  stream_locked(stream).awaited.push_back(work);
  under_way_.push_back(work);
}

bool Runtime::query(Event& event) {
  for (const auto& awaited : event.awaited)
    if (!awaited->is_finished()) return false;
  {
    const std::lock_guard lock(mutex_);
    constexpr int kQueriesInVain = 1;
    const bool is_known = races_.snapshot(host_of(event.device)).covers(event.clock);
    if (!is_known && ++event.num_queries <= kQueriesInVain) return false;
  }
  host_learns(event.device, event.clock);
  return true;
}

void Runtime::synchronize(const Event& event) {
  for (const auto& awaited : event.awaited) awaited->wait();
  ++num_host_waits_;
  host_learns(event.device, event.clock);
}

void Runtime::synchronize(c10::Stream stream) {
  Event event;
  record(event, stream);
  synchronize(event);
}

void Runtime::synchronize_device(int device) {
  std::vector<int64_t> ids;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, stream] : devices_.at(static_cast<size_t>(device)).streams) ids.push_back(id);
  }
  for (const int64_t id : ids) synchronize(stream_with(device, id));
}

void Runtime::host_learns(int device, const VectorClock& clock) {
  const std::lock_guard lock(mutex_);
  races_.join(host_of(device), clock);
  open_pinned_memory(device);
}

/// Pinned memory that the device has done with, as far as the host knows, is the host's again.
void Runtime::open_pinned_memory(int device) {
  std::erase_if(pinned_in_use_, [&](const auto& entry) {
    const auto& [block, use] = entry;
    if (use.device != device || !races_.knows_all_uses(host_of(device), reinterpret_cast<uintptr_t>(block)))
      return false;
    pinned_memory_.protect(block, PROT_READ | PROT_WRITE);
    if (use.is_given_back) {
      races_.release(reinterpret_cast<uintptr_t>(block), {});
      pinned_memory_.give_back(block);
    }
    return true;
  });
}

Completions Runtime::unfinished_locked() {
  std::erase_if(under_way_, [](const auto& work) { return work->is_finished(); });
  return under_way_;
}

void* Runtime::take_device_memory(size_t bytes, int device) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(resting_, [this](const auto& entry) {
      for (const auto& work : entry.second)
        if (!work->is_finished()) return false;
      device_memory_.give_back(entry.first);
      return true;
    });
  }
  void* block = device_memory_.take(bytes);
  TORCH_CHECK(block != nullptr, "the simulated device is out of memory");
  const std::lock_guard lock(mutex_);
  touch(device);
  Usage& usage = devices_.at(static_cast<size_t>(device)).usage;
  usage.now += static_cast<int64_t>(bytes);
  usage.peak = std::max(usage.peak, usage.now);
  device_of_block_[block] = device;
  bytes_of_block_[block] = bytes;
  races_.add_block(reinterpret_cast<uintptr_t>(block), bytes, stream_locked(current_stream(device)).actor,
                   host_of(device));
  return block;
}

void Runtime::give_back_device_memory(void* block) {
  const auto place = place_here("given back");
  const std::lock_guard lock(mutex_);
  const int device = device_of_block_.at(block);
  device_of_block_.erase(block);
  devices_.at(static_cast<size_t>(device)).usage.now -= static_cast<int64_t>(bytes_of_block_[block]);
  races_.release(reinterpret_cast<uintptr_t>(block), place);
  resting_.emplace_back(block, unfinished_locked());
}

void* Runtime::take_pinned_memory(size_t bytes) {
  void* block = pinned_memory_.take(bytes);
  TORCH_CHECK(block != nullptr, "no pinned memory is left");
  const std::lock_guard lock(mutex_);
  const int device = current_device();
  touch(device);  // as cudaHostAlloc does
  races_.add_block(reinterpret_cast<uintptr_t>(block), bytes, host_of(device), host_of(device));
  return block;
}

/// While a copy is under way the allocator keeps it (as LibTorch's does, by events of its own).
void Runtime::give_back_pinned_memory(void* block) {
  const std::lock_guard lock(mutex_);
  if (const auto found = pinned_in_use_.find(block); found != pinned_in_use_.end()) {
    found->second.is_given_back = true;
    return;
  }
  races_.release(reinterpret_cast<uintptr_t>(block), {});
  pinned_memory_.give_back(block);
}

void Runtime::share(const void* block, c10::Stream stream) {
  const std::lock_guard lock(mutex_);
  races_.share(reinterpret_cast<uintptr_t>(block), stream_locked(stream).actor);
}

void Runtime::use(const at::Tensor& tensor, int actor, Access access, const Place& place) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.storage().data() == nullptr) return;
  const auto [begin, end] = range_of(tensor);
  races_.use(actor, begin, end, access, place);
  const void* address = reinterpret_cast<const void*>(begin);
  if (!pinned_memory_.holds(address)) return;
  const std::lock_guard lock(mutex_);
  void* block = pinned_memory_.block_at(address).first;
  pinned_in_use_[block].device = current_device();
  pinned_memory_.protect(block, access == Access::kWrite ? PROT_NONE : PROT_READ);
}

bool Runtime::host_touches(void* address) {
  if (device_memory_.holds(address)) {
    races_.report("host: memory of the device is read or written by the host\n    " + place_here("there").text());
    return false;
  }
  void* block = pinned_memory_.holds(address) ? pinned_memory_.block_at(address).first : nullptr;
  if (block == nullptr) return false;
  const std::lock_guard lock(mutex_);
  const std::string earlier =
      races_.unknown_use(host_of(pinned_in_use_[block].device), reinterpret_cast<uintptr_t>(block));
  races_.report(
      fmt::format("race: the host uses pinned memory that it has not waited for\n    earlier: {}\n    later: {}",
                  earlier, place_here("the host").text()));
  pinned_memory_.protect(block, PROT_READ | PROT_WRITE);
  return true;
}

}  // namespace lockstep::tests::accelerator
