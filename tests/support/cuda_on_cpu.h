// Runs kernels of CUDA on the processor, as they are written, so that tests without a GPU see their results. The file
// of the kernels is included where it sees the names below; `launch` then runs a grid.
//
// Threads of a block are fibers of one thread: a fiber runs until it waits at a barrier or for the lanes of its warp,
// and which one goes on is drawn; in some blocks one warp runs as far as it can before the next. Blocks run one after
// another in an order that is drawn, too. So a kernel that leaves out a barrier, or leans on the order of blocks, gives
// other numbers for some seed.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>

#define __device__
#define __global__
// Of a function: one for all fibers. Behind `extern`: the one that the includer defines (GCC 12 needs
// -fno-extern-tls-init, or calls an initialiser of it that is not there).
#define __shared__ thread_local
#define __launch_bounds__(most_threads)

namespace lockstep::tests::cuda {

struct Index {
  unsigned x = 1, y = 1, z = 1;
};
struct Grid {
  Index blocks, threads;
  std::span<float> shared = {};  // what kernels call `extern __shared__ float name[]`
  size_t num_shared = 0;         // numbers of it that the launch asks for
  /// Called when a thread is about to add to a counter: what lies in memory by then other blocks may count on, though
  /// here none runs beside this one.
  std::function<void()> before_atomic_add = {};
};

/// Runs `kernel` for each thread of the grid. Throws std::runtime_error, with the line of the kernel where there is
/// one, when not all threads of a block reach a barrier, or not all lanes of a warp an exchange; when the kernel reads
/// or writes outside its Buffers; and when it writes beyond the shared numbers that it was given.
void launch(const Grid& grid, uint64_t seed, const std::function<void()>& kernel);

/// Memory between pages that nobody may touch: a read or write behind its last byte, or far before its first, ends the
/// launch. Short of a page before its first byte are bytes of NaNs, whose change ends the launch, too. All types begin
/// as NaN, so that what a kernel leaves out does not look like a result.
class GuardedMemory {
 public:
  GuardedMemory(std::string name, size_t num_bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  std::byte* data() const { return data_; }
  /// From now on writing ends the launch.
  void seal();

 private:
  std::byte *begin_, *data_;
  size_t num_mapped_;
};

template <typename T> class Buffer {
 public:
  Buffer(const std::string& name, size_t count) : memory_(name, count * sizeof(T)), count_(count) {}
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  size_t size() const { return count_; }
  T& operator[](size_t place) const { return data()[place]; }
  T* begin() const { return data(); }
  T* end() const { return data() + count_; }
  const T* sealed() {
    memory_.seal();
    return data();
  }

 private:
  GuardedMemory memory_;
  size_t count_;
};

/// What the fiber at hand sees; the names are CUDA's.
extern Index threadIdx, blockIdx, blockDim, gridDim;

void wait_for_block(const std::source_location& place);
/// The 32 bits that lane `lane ^ mask` brings to the same exchange. Only exchanges of all lanes are imitated.
uint32_t exchange_in_warp(unsigned lanes, uint32_t mine, int mask, const std::source_location& place);

inline void __syncthreads(const std::source_location& place = std::source_location::current()) {
  wait_for_block(place);
}

template <typename T>
T __shfl_xor_sync(unsigned lanes, T value, int mask,
                  const std::source_location& place = std::source_location::current()) {
  static_assert(sizeof(T) == sizeof(uint32_t) && std::is_trivially_copyable_v<T>);
  return std::bit_cast<T>(exchange_in_warp(lanes, std::bit_cast<uint32_t>(value), mask, place));
}

inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline void __threadfence() {}  // one thread runs at a time
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }

/// The bytes of *place may belong to a float.
inline unsigned atomicMax(unsigned* place, unsigned value) {
  unsigned before = 0;
  std::memcpy(&before, place, sizeof before);
  if (before < value) std::memcpy(place, &value, sizeof value);
  return before;
}

void tell_of_atomic_add();

inline unsigned atomicAdd(unsigned* place, unsigned value) {
  tell_of_atomic_add();
  const unsigned before = *place;
  *place += value;
  return before;
}

struct alignas(8) uint2 {
  unsigned x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

}  // namespace lockstep::tests::cuda
