#include "support/accelerator/double_mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <stdexcept>

namespace lockstep::tests::accelerator {

DoubleMappedMemory::DoubleMappedMemory(size_t capacity_bytes, int protection, size_t alignment)
    : capacity_(capacity_bytes), alignment_(alignment) {
  const int file = memfd_create("simulated device memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(capacity_)) != 0)
    throw std::runtime_error("no memory for the simulated device");
  void* outside = mmap(nullptr, capacity_, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* inside = mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (outside == MAP_FAILED || inside == MAP_FAILED)
    throw std::runtime_error("the memory of the simulated device cannot be mapped twice");
  outside_ = static_cast<uint8_t*>(outside);
  inside_ = static_cast<uint8_t*>(inside);
}

void* DoubleMappedMemory::take(size_t bytes) {
  const size_t size = rounded(bytes);
  uint8_t* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (auto& same_size = free_[size]; !same_size.empty()) {
      block = same_size.back();
      same_size.pop_back();
    } else {
      if (num_used_ + size > capacity_) return nullptr;
      block = outside_ + num_used_;
      num_used_ += size;
    }
    blocks_[block] = size;
  }
  std::memset(device_side(block), 0xff, size);
  return block;
}

void DoubleMappedMemory::give_back(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<uint8_t*>(block));
  if (found == blocks_.end()) return;
  free_[found->second].push_back(found->first);
  blocks_.erase(found);
}

bool DoubleMappedMemory::holds(const void* address) const {
  const auto* byte = static_cast<const uint8_t*>(address);
  return byte >= outside_ && byte < outside_ + capacity_;
}

void* DoubleMappedMemory::device_side(const void* address) const {
  return inside_ + (static_cast<const uint8_t*>(address) - outside_);
}

std::pair<void*, size_t> DoubleMappedMemory::block_at(const void* address) const {
  const std::lock_guard lock(mutex_);
  auto* byte = static_cast<uint8_t*>(const_cast<void*>(address));
  auto next = blocks_.upper_bound(byte);
  if (next == blocks_.begin()) return {nullptr, 0};
  const auto& [begin, size] = *std::prev(next);
  return byte < begin + size ? std::pair<void*, size_t>(begin, size) : std::pair<void*, size_t>(nullptr, 0);
}

void DoubleMappedMemory::protect(void* block, int protection) const {
  const auto [begin, size] = block_at(block);
  if (begin != nullptr) mprotect(begin, size, protection);
}

}  // namespace lockstep::tests::accelerator
