#pragma once
#include <ATen/core/TensorBody.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "support/accelerator/double_mapped_memory.h"
#include "support/accelerator/race_detector.h"

namespace lockstep::tests::accelerator {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
inline constexpr int kMostDevices = 16;

/// Work that other threads of the simulation carry out (a collective): streams that come behind it wait for it.
class Completion {
 public:
  void finish();
  void wait();
  bool is_finished() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_finished_ = false;
};
using Completions = std::vector<std::shared_ptr<Completion>>;

/// An event: what its stream knew when it was recorded, and what that waited for.
struct Event {
  VectorClock clock;
  Completions awaited;
  std::chrono::steady_clock::time_point time;
  int device = 0;
  int num_queries = 0;
};

/// Streams, events, memory and clocks of the simulated devices of this process. Operators are carried out by the thread
/// that calls them; what a device would do later is known by the clocks alone. Thread safe.
class Runtime {
 public:
  static Runtime& get();

  void set_num_devices(int count) { num_devices_ = count; }
  int num_devices() const { return num_devices_; }
  /// Allocations beyond it fail.
  void set_bytes_of_a_device(size_t bytes) { bytes_of_a_device_ = bytes; }
  size_t bytes_of_a_device() const { return bytes_of_a_device_; }
  /// Beside those: what the driver tells as free, and other programs take before this one can.
  void set_bytes_taken_later(size_t bytes) { bytes_taken_later_ = bytes; }
  size_t bytes_taken_later() const { return bytes_taken_later_; }
  RaceDetector& races() { return races_; }

  static int& current_device();  ///< Of this thread.
  c10::Stream current_stream(int device);
  void set_current_stream(c10::Stream stream);
  c10::Stream new_stream(int device);
  c10::Stream pool_stream(int device);

  /// Begins an operator on the current stream: waits until what the stream waits for is done. Its actor.
  int launch(int device);
  /// The same on another stream, without waiting: what must be done before.
  Completions launch_later(c10::Stream stream, int& actor);

  void record(Event& event, c10::Stream stream);
  void block(const Event& event, c10::Stream stream);
  /// What stream waits for after this includes `work`.
  void await_on_stream(const std::shared_ptr<Completion>& work, c10::Stream stream);
  /// False at first: a device takes its time.
  bool query(Event& event);
  void synchronize(const Event& event);
  void synchronize(c10::Stream stream);
  void synchronize_device(int device);
  /// Times that the host has waited for a device since the start of the process.
  int64_t num_host_waits() const { return num_host_waits_; }

  void* take_device_memory(size_t bytes, int device);
  void give_back_device_memory(void* block);
  void* take_pinned_memory(size_t bytes);
  void give_back_pinned_memory(void* block);
  void share(const void* block, c10::Stream stream);
  const DoubleMappedMemory& device_memory() const { return device_memory_; }
  const DoubleMappedMemory& pinned_memory() const { return pinned_memory_; }
  struct Usage {
    int64_t now = 0, peak = 0;
  };
  Usage& usage(int device) { return devices_.at(static_cast<size_t>(device)).usage; }

  /// The memory of a tensor, by the operator `place` of `actor`. Of pinned memory also: the host must keep away from it
  /// until it has waited.
  void use(const at::Tensor& tensor, int actor, Access access, const Place& place);
  /// By the host's thread, which a page fault tells. False: not memory of the simulation.
  bool host_touches(void* address);

  /// The one device that this thread works with: any use of another is a mistake. -1: any.
  static int& home_device();
  /// Devices on which this process has put a context, by any use but asking for the current device.
  std::vector<int> touched_devices() const;

 private:
  struct Stream {
    int actor = -1;
    Completions awaited;
  };
  struct Device {
    int host = -1;
    std::map<int64_t, Stream> streams;
    int64_t num_streams = 1;  // the default one
    int64_t next_pooled = 0;
    Usage usage;
    bool is_touched = false;
  };
  struct PinnedBlock {
    int device = 0;
    bool is_given_back = false;
  };

  Runtime();
  void touch(int device);
  Completions unfinished_locked();
  Stream& stream_locked(c10::Stream stream);
  int host_of(int device);
  void host_learns(int device, const VectorClock& clock);
  void open_pinned_memory(int device);

  int num_devices_ = 2;
  size_t bytes_of_a_device_ = size_t{16} << 30, bytes_taken_later_ = 0;
  RaceDetector races_;
  DoubleMappedMemory device_memory_, pinned_memory_;
  mutable std::mutex mutex_;
  std::vector<Device> devices_;
  std::map<void*, int> device_of_block_;
  std::map<void*, size_t> bytes_of_block_;
  std::map<void*, PinnedBlock> pinned_in_use_;  // by the device
  Completions under_way_;                       // what was given to await_on_stream and may not be done
  /// Given back in the order of the streams, while other threads may still work on it: reused when they have done.
  std::vector<std::pair<void*, Completions>> resting_;
  std::atomic<int64_t> num_host_waits_{0};
};

}  // namespace lockstep::tests::accelerator
