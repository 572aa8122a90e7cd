#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace lockstep::tests::accelerator {

/// Memory that is mapped twice: at the addresses that are handed out, with rights of its own, and at others, where the
/// simulated device's operators reach it always. Pages come when they are touched. Thread safe.
class DoubleMappedMemory {
 public:
  /// `protection`: of the addresses handed out, as mprotect takes it. Blocks begin at multiples of `alignment`.
  DoubleMappedMemory(size_t capacity_bytes, int protection, size_t alignment);
  DoubleMappedMemory(const DoubleMappedMemory&) = delete;
  DoubleMappedMemory& operator=(const DoubleMappedMemory&) = delete;

  /// Filled with bytes 0xff, which are NaN in every floating type. nullptr: all is taken.
  void* take(size_t bytes);
  void give_back(void* block);
  bool holds(const void* address) const;
  /// The same memory where the device reaches it.
  void* device_side(const void* address) const;
  /// The block that an address lies in; {nullptr, 0}: none.
  std::pair<void*, size_t> block_at(const void* address) const;
  /// Rights of a block's addresses (whole pages: alignment must be the page size).
  void protect(void* block, int protection) const;

 private:
  size_t rounded(size_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }

  size_t capacity_, alignment_;
  uint8_t* outside_ = nullptr;
  uint8_t* inside_ = nullptr;
  mutable std::mutex mutex_;
  size_t num_used_ = 0;  // bytes from the start that were ever handed out
  std::map<uint8_t*, size_t> blocks_;
  std::map<size_t, std::vector<uint8_t*>> free_;  // by size
};

}  // namespace lockstep::tests::accelerator
