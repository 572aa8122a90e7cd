#include "support/cuda_on_cpu.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/sanitizers.h"

namespace lockstep::tests::cuda {

Index threadIdx, blockIdx, blockDim, gridDim;

namespace {

constexpr unsigned kWarpLanes = 32, kMostThreads = 1024;
constexpr size_t kStackBytes = 128 << 10;

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

std::byte* map_pages(size_t num_bytes) {
  void* memory = ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for what kernels use");
  return static_cast<std::byte*>(memory);
}

void forbid(std::byte* memory, size_t num_bytes, int rights) {
  if (::mprotect(memory, num_bytes, rights) != 0) throw std::runtime_error("mprotect");
}

std::string line_of(const std::source_location& place) {
  const std::string file = place.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), place.line());
}

/// What is known of a GuardedMemory when a kernel leaves it.
struct Region {
  std::string name;
  const std::byte *begin, *data, *end;  // the pages, what the kernel may use, where that ends
  size_t num_mapped;
};
std::vector<Region>& regions() {
  static std::vector<Region> all;
  return all;
}

constexpr auto kUntouched = std::byte{0xff};  // bytes of a NaN, in every type

struct Fiber {
  ucontext_t context{};
  void* place[5] = {};  // of __builtin_setjmp
  bool has_begun = false;
  Index thread;
  unsigned num_exchanges = 0;
};

/// Never returns: goes on where `next` stopped.
[[noreturn]] __attribute__((noinline)) void resume(Fiber& next) {
  if (next.has_begun && !kHasAddressSanitizer) __builtin_longjmp(next.place, 1);
  next.has_begun = true;
  ::setcontext(&next.context);
  std::abort();
}

/// Returns when somebody resumes `before`. swapcontext, which also asks the system for masks of signals, takes most of
/// a kernel's time; but the address sanitizer knows it.
__attribute__((noinline)) void leave(Fiber& before, Fiber& next) {
  if (kHasAddressSanitizer) {
    ::swapcontext(&before.context, &next.context);
  } else if (__builtin_setjmp(before.place) == 0) {
    resume(next);
  }
}

struct Warp {
  std::array<unsigned, kWarpLanes> ready{};  // fibers that can go on
  unsigned num_ready = 0;
  unsigned num_arrived = 0;
  int mask = 0;
  std::source_location place;
  // Lanes of one exchange write here while others still read what the one before it left there.
  std::array<std::array<uint32_t, kWarpLanes>, 2> values{};
};

/// The block that runs, one at a time.
class Block {
 public:
  Block() : stacks_(map_pages(kMostThreads * kStackBytes)), fibers_(kMostThreads) {
    for (size_t i = 0; i < kMostThreads; ++i) {
      forbid(stacks_ + i * kStackBytes, page_bytes(), PROT_NONE);
      ::getcontext(&fibers_[i].context);
    }
  }

  void run(const Grid& grid, const std::function<void()>& kernel, unsigned num_threads, std::mt19937_64& random) {
    grid_ = &grid;
    kernel_ = &kernel;
    random_ = &random;
    num_threads_ = num_threads;
    num_ended_ = num_at_barrier_ = 0;
    failure_.clear();
    warps_.assign((num_threads + kWarpLanes - 1) / kWarpLanes, {});
    favours_.resize(warps_.size());
    std::iota(favours_.begin(), favours_.end(), 0u);
    std::shuffle(favours_.begin(), favours_.end(), random);
    is_fair_ = random() % 2 == 0;
    num_ready_ = 0;
    for (unsigned i = 0; i < num_threads; ++i) begin_fiber(i);
    ::getcontext(&outside_);
    // Comes back here, by setcontext, when all have ended or one has failed.
    if (!is_running_) {
      is_running_ = true;
      resume(fibers_[take_ready()]);
    }
    is_running_ = false;
    if (!failure_.empty()) {
      const Index& thread = fibers_[current_].thread;
      throw std::runtime_error(
          fmt::format("block ({}, {}), thread ({}, {}): {}", blockIdx.x, blockIdx.y, thread.x, thread.y, failure_));
    }
  }

  void wait_for_block(const std::source_location& place) {
    if (num_at_barrier_ > 0 && place.line() != barrier_.line())
      fail(
          fmt::format("is at the barrier of {}, others of its block at that of {}", line_of(place), line_of(barrier_)));
    barrier_ = place;
    if (++num_at_barrier_ == num_threads_) {
      num_at_barrier_ = 0;
      for (unsigned i = 0; i < num_threads_; ++i) make_ready(i);
    }
    go_on();
  }

  uint32_t exchange(uint32_t mine, int mask, const std::source_location& place) {
    const unsigned lane = current_ % kWarpLanes, first = current_ - lane;
    if (first + kWarpLanes > num_threads_) fail(fmt::format("{}: its warp has fewer than 32 threads", line_of(place)));
    Warp& warp = warps_[first / kWarpLanes];
    if (warp.num_arrived > 0 && (place.line() != warp.place.line() || mask != warp.mask))
      fail(fmt::format("exchanges at {} with mask {}, others of its warp at {} with mask {}", line_of(place), mask,
                       line_of(warp.place), warp.mask));
    warp.place = place;
    warp.mask = mask;
    Fiber& fiber = fibers_[current_];
    auto& values = warp.values[fiber.num_exchanges++ % 2];
    values[lane] = mine;
    if (++warp.num_arrived == kWarpLanes) {
      warp.num_arrived = 0;
      for (unsigned i = 0; i < kWarpLanes; ++i) make_ready(first + i);
    }
    go_on();
    return values[lane ^ static_cast<unsigned>(mask)];
  }

  bool is_running() const { return is_running_; }
  const Grid& grid() const { return *grid_; }

  /// Leaves the block; of the fibers only their memory remains, which the next block uses.
  [[noreturn]] void fail(std::string why) {
    failure_ = std::move(why);
    ::setcontext(&outside_);
    std::abort();
  }

 private:
  void begin_fiber(unsigned i) {
    Fiber& fiber = fibers_[i];
    fiber.thread = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    fiber.num_exchanges = 0;
    fiber.has_begun = false;
    fiber.context.uc_stack.ss_sp = stacks_ + i * kStackBytes + page_bytes();
    fiber.context.uc_stack.ss_size = kStackBytes - page_bytes();
    fiber.context.uc_link = nullptr;
    ::makecontext(&fiber.context, &Block::run_fiber, 0);
    make_ready(i);
  }

  static void run_fiber();

  void make_ready(unsigned i) {
    Warp& warp = warps_[i / kWarpLanes];
    warp.ready[warp.num_ready++] = i;
    ++num_ready_;
  }

  /// The warp whose turn it is. Of half of the blocks any that can go on; of the others one runs as far as it can
  /// before the next: so a warp gets far ahead of others that still read what it writes again.
  Warp& next_warp() {
    if (!is_fair_) {
      for (const unsigned i : favours_) {
        if (warps_[i].num_ready > 0) return warps_[i];
      }
    }
    uint64_t drawn = (*random_)() % num_ready_;
    size_t i = 0;
    for (; drawn >= warps_[i].num_ready; ++i) drawn -= warps_[i].num_ready;
    return warps_[i];
  }

  /// One of the fibers that can go on, drawn.
  unsigned take_ready() {
    Warp& warp = next_warp();
    std::swap(warp.ready[(*random_)() % warp.num_ready], warp.ready[warp.num_ready - 1]);
    current_ = warp.ready[--warp.num_ready];
    --num_ready_;
    threadIdx = fibers_[current_].thread;
    return current_;
  }

  /// Returns when the fiber that calls it is drawn again.
  void go_on() {
    if (num_ready_ == 0) fail(stuck());
    Fiber& before = fibers_[current_];
    Fiber& next = fibers_[take_ready()];
    if (&next != &before) leave(before, next);
  }

  std::string stuck() const {
    std::string text = fmt::format("of {} threads {} have ended", num_threads_, num_ended_);
    if (num_at_barrier_ > 0)
      text += fmt::format(", {} wait for others at the barrier of {}", num_at_barrier_, line_of(barrier_));
    unsigned waiting = 0;
    const Warp* of_warp = nullptr;
    for (const Warp& warp : warps_) {
      waiting += warp.num_arrived;
      if (warp.num_arrived > 0) of_warp = &warp;
    }
    if (of_warp) text += fmt::format(", {} wait for lanes of their warp at {}", waiting, line_of(of_warp->place));
    return text;
  }

  std::byte* stacks_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<unsigned> favours_;  // warps, the first one most
  bool is_fair_ = true;
  unsigned num_ready_ = 0;
  const Grid* grid_ = nullptr;
  const std::function<void()>* kernel_ = nullptr;
  std::mt19937_64* random_ = nullptr;
  ucontext_t outside_{};
  std::source_location barrier_;
  std::string failure_;
  unsigned num_threads_ = 0, num_ended_ = 0, num_at_barrier_ = 0, current_ = 0;
  volatile bool is_running_ = false;  // getcontext returns twice
};

Block& block() {
  static auto* one = new Block;  // its stacks stay mapped for whatever a test does last
  return *one;
}

void Block::run_fiber() {
  Block& self = block();
  (*self.kernel_)();
  if (++self.num_ended_ == self.num_threads_) ::setcontext(&self.outside_);
  self.go_on();
  std::abort();  // nobody makes an ended fiber ready
}

std::string what_lies_at(const std::byte* address) {
  for (const Region& region : regions()) {
    if (address < region.begin || address >= region.begin + region.num_mapped) continue;
    if (address < region.data)
      return fmt::format("touches {} bytes before buffer `{}`", region.data - address, region.name);
    if (address < region.end)
      return fmt::format("writes to byte {} of buffer `{}`, which it may only read", address - region.data,
                         region.name);
    return fmt::format("touches byte {} of buffer `{}`, which has {}", address - region.data, region.name,
                       region.end - region.data);
  }
  return fmt::format("touches address {}, which is in no buffer (or is not aligned as its type asks)",
                     static_cast<const void*>(address));
}

/// Ends the launch instead of the process while a kernel runs. It does not return to what was interrupted, which is the
/// kernel: nothing there holds a lock.
void on_bad_access(int signal_number, siginfo_t* info, void*) {
  if (block().is_running()) block().fail(what_lies_at(static_cast<const std::byte*>(info->si_addr)));
  ::signal(signal_number, SIG_DFL);
}

class BadAccessHandler {
 public:
  BadAccessHandler() {
    stack_t stack{};
    stack.ss_sp = stack_.data();
    stack.ss_size = stack_.size();
    ::sigaltstack(&stack, &stack_before_);
    struct sigaction action {};
    action.sa_sigaction = on_bad_access;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigaction(SIGSEGV, &action, &segv_before_);
    ::sigaction(SIGBUS, &action, &bus_before_);
  }
  ~BadAccessHandler() {
    ::sigaction(SIGSEGV, &segv_before_, nullptr);
    ::sigaction(SIGBUS, &bus_before_, nullptr);
    ::sigaltstack(&stack_before_, nullptr);
  }
  BadAccessHandler(const BadAccessHandler&) = delete;
  BadAccessHandler& operator=(const BadAccessHandler&) = delete;

 private:
  std::vector<std::byte> stack_ = std::vector<std::byte>(64 << 10);
  stack_t stack_before_{};
  struct sigaction segv_before_ {
  }, bus_before_{};
};

/// The first byte that is not as it was, or `end`.
const std::byte* first_touched(const std::byte* begin, const std::byte* end) {
  const auto num_bytes = static_cast<size_t>(end - begin);
  if (num_bytes == 0 || (*begin == kUntouched && std::memcmp(begin, begin + 1, num_bytes - 1) == 0)) return end;
  return std::find_if(begin, end, [](std::byte byte) { return byte != kUntouched; });
}

void check_surroundings(const Grid& grid) {
  for (const Region& region : regions()) {
    const std::byte* touched = first_touched(region.begin + page_bytes(), region.data);
    if (touched != region.data)
      throw std::runtime_error(
          fmt::format("the kernel wrote {} bytes before buffer `{}`", region.data - touched, region.name));
  }
  const auto behind = std::as_bytes(grid.shared.subspan(grid.num_shared));
  const std::byte* touched = first_touched(behind.data(), behind.data() + behind.size());
  if (touched != behind.data() + behind.size())
    throw std::runtime_error(fmt::format("the kernel wrote shared number {}, the launch gave it {}",
                                         grid.num_shared + static_cast<size_t>(touched - behind.data()) / sizeof(float),
                                         grid.num_shared));
}

}  // namespace

void wait_for_block(const std::source_location& place) { block().wait_for_block(place); }

void tell_of_atomic_add() {
  if (block().is_running() && block().grid().before_atomic_add) block().grid().before_atomic_add();
}

uint32_t exchange_in_warp(unsigned lanes, uint32_t mine, int mask, const std::source_location& place) {
  if (lanes != 0xffffffffu) block().fail(fmt::format("{}: an exchange of lanes {:#x} only", line_of(place), lanes));
  return block().exchange(mine, mask, place);
}

void launch(const Grid& grid, uint64_t seed, const std::function<void()>& kernel) {
  const auto count = [](const Index& of) { return static_cast<size_t>(of.x) * of.y * of.z; };
  const size_t num_blocks = count(grid.blocks), num_threads = count(grid.threads);
  if (num_blocks == 0 || num_threads == 0 || num_threads > kMostThreads || grid.num_shared > grid.shared.size())
    throw std::invalid_argument("no GPU starts such a grid");
  blockDim = grid.threads;
  gridDim = grid.blocks;
  std::mt19937_64 random(seed);
  std::vector<size_t> order(num_blocks);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  const BadAccessHandler handler;
  for (const size_t i : order) {
    blockIdx = {static_cast<unsigned>(i % gridDim.x), static_cast<unsigned>(i / gridDim.x % gridDim.y),
                static_cast<unsigned>(i / gridDim.x / gridDim.y)};
    if (!grid.shared.empty()) std::memset(grid.shared.data(), static_cast<int>(kUntouched), grid.shared.size_bytes());
    block().run(grid, kernel, static_cast<unsigned>(num_threads), random);
    check_surroundings(grid);
  }
}

GuardedMemory::GuardedMemory(std::string name, size_t num_bytes) {
  const size_t page = page_bytes(), num_inner = (num_bytes + page - 1) / page * page;
  num_mapped_ = num_inner + 2 * page;
  begin_ = map_pages(num_mapped_);
  std::memset(begin_, static_cast<int>(kUntouched), num_mapped_);
  data_ = begin_ + page + num_inner - num_bytes;
  forbid(begin_, page, PROT_NONE);
  forbid(begin_ + page + num_inner, page, PROT_NONE);
  regions().push_back({std::move(name), begin_, data_, data_ + num_bytes, num_mapped_});
}

GuardedMemory::~GuardedMemory() {
  std::erase_if(regions(), [this](const Region& region) { return region.begin == begin_; });
  ::munmap(begin_, num_mapped_);
}

void GuardedMemory::seal() { forbid(begin_ + page_bytes(), num_mapped_ - 2 * page_bytes(), PROT_READ); }

}  // namespace lockstep::tests::cuda
