#include "support/accelerator/install.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <csignal>
#include <cstring>
#include <memory>

#include "support/accelerator/kernels.h"
#include "support/accelerator/runtime.h"

namespace lockstep::tests::accelerator {
namespace {

int index_of(c10::Device device) { return device.has_index() ? device.index() : Runtime::current_device(); }

/// The device's side of what LibTorch asks of any accelerator.
class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {kDeviceType, static_cast<c10::DeviceIndex>(Runtime::current_device())};
  }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < Runtime::get().num_devices(), "there is no device ", device.str());
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) Runtime::current_device() = device.index();
  }
  c10::Stream getStream(c10::Device device) const override { return Runtime::get().current_stream(index_of(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, {kDeviceType, static_cast<c10::DeviceIndex>(index_of(device))});
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return Runtime::get().pool_stream(index_of(device));
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return Runtime::get().new_stream(index_of(device));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    Runtime::get().set_current_stream(stream);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(Runtime::get().num_devices());
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    Runtime::get().record(*static_cast<Event*>(*event), stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    Runtime::get().block(*static_cast<Event*>(event), stream);
  }
  bool queryEvent(void* event) const override { return Runtime::get().query(*static_cast<Event*>(event)); }
  void synchronizeEvent(void* event) const override { Runtime::get().synchronize(*static_cast<Event*>(event)); }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  bool queryStream(const c10::Stream& stream) const override {
    Event event;
    Runtime::get().record(event, stream);
    return Runtime::get().query(event);
  }
  void synchronizeStream(const c10::Stream& stream) const override { Runtime::get().synchronize(stream); }
  void synchronizeDevice(const c10::DeviceIndex device) const override { Runtime::get().synchronize_device(device); }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override {
    Runtime::get().share(pointer.get(), stream);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>(static_cast<Event*>(to)->time - static_cast<Event*>(from)->time)
        .count();
  }
};

void give_back_device_memory(void* block) { Runtime::get().give_back_device_memory(block); }
void give_back_pinned_memory(void* block) { Runtime::get().give_back_pinned_memory(block); }

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const int device = Runtime::current_device();
    const c10::Device place(kDeviceType, static_cast<c10::DeviceIndex>(device));
    if (bytes == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, place};
    const auto used = static_cast<size_t>(Runtime::get().usage(device).now);
    TORCH_CHECK_WITH(OutOfMemoryError, used + bytes <= Runtime::get().bytes_of_a_device(),
                     "simulated out of memory. Tried to allocate ", bytes, " bytes. ", place.str(), " has ", used,
                     " of ", Runtime::get().bytes_of_a_device(), " in use.");
    void* block = Runtime::get().take_device_memory(bytes, device);
    return {block, block, &give_back_device_memory, place};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back_device_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    const auto& memory = Runtime::get().device_memory();
    std::memcpy(memory.device_side(to), memory.device_side(from), bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    Runtime::get().share(pointer.get(), stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto& usage = Runtime::get().usage(device);
    for (auto* bytes : {&stats.allocated_bytes, &stats.reserved_bytes}) {
      bytes->at(0).current = usage.now;
      bytes->at(0).peak = usage.peak;
    }
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    Runtime::get().usage(device).peak = Runtime::get().usage(device).now;
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const size_t all = Runtime::get().bytes_of_a_device() + Runtime::get().bytes_taken_later();
    return {all - static_cast<size_t>(Runtime::get().usage(device).now), all};
  }
};

class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, at::Device(at::kCPU)};
    void* block = Runtime::get().take_pinned_memory(bytes);
    return {block, block, &give_back_pinned_memory, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back_pinned_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  explicit Hooks(c10::Allocator* pinned) : pinned_(pinned) {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(Runtime::get().num_devices()); }
  void setCurrentDevice(c10::DeviceIndex device) const override { Guard().setDevice({kDeviceType, device}); }
  c10::DeviceIndex getCurrentDevice() const override { return Guard().getDevice().index(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return Guard().exchangeDevice({kDeviceType, device}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_; }
  bool isPinnedPtr(const void* pointer) const override { return Runtime::get().pinned_memory().holds(pointer); }
  /// Operators draw on the CPU.
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }

 private:
  c10::Allocator* pinned_;
};

/// A page fault in memory of the simulation is a use by the host.
void on_fault(int signal, siginfo_t* info, void*) {
  if (Runtime::get().host_touches(info->si_addr)) return;
  for (const auto& report : Runtime::get().races().take_reports()) fprintf(stderr, "%s\n", report.c_str());
  std::signal(signal, SIG_DFL);  // and again
}

}  // namespace

void install(int num_devices) {
  TORCH_CHECK(num_devices >= 1 && num_devices <= kMostDevices, "devices: ", num_devices);
  Runtime::get().set_num_devices(num_devices);
  static DeviceMemory device_memory;
  static PinnedMemory pinned_memory;
  static Hooks hooks(&pinned_memory);
  static Guard guard;
  static const c10::impl::DeviceGuardImplRegistrar registrar(kDeviceType, &guard);
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::register_privateuse1_backend("simulated");
  c10::SetAllocator(kDeviceType, &device_memory, /*priority=*/1);
  register_kernels();
  register_autocast();
  struct sigaction action {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace lockstep::tests::accelerator
