#include "support/accelerator/race_detector.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <utility>

#include "core/strings.h"

namespace lockstep::tests::accelerator {
namespace {

/// The frames that belong to this program, as arguments of addr2line.
std::pair<std::string, std::string> own_addresses(const std::vector<void*>& frames) {
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&own_addresses), &self);
  std::string addresses;
  for (void* frame : frames) {
    Dl_info info{};
    if (dladdr(frame, &info) != 0 && info.dli_fbase == self.dli_fbase)
      addresses +=
          fmt::format(" {:#x}", reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(info.dli_fbase) - 1);
  }
  return {self.dli_fname, addresses};
}

bool is_told(const std::string& function) {
  return function.find("lockstep::") != std::string::npos && function.find("tests::accelerator") == std::string::npos;
}

}  // namespace

Place place_here(std::string what) {
  constexpr int kMostFrames = 48;
  std::array<void*, kMostFrames> frames{};
  const int count = backtrace(frames.data(), kMostFrames);
  return {.what = std::move(what), .frames = std::vector<void*>(frames.begin(), frames.begin() + count)};
}

std::string Place::text() const {
  const auto [program, addresses] = own_addresses(frames);
  if (addresses.empty()) return what;
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(fmt::format("addr2line -Cfe '{}'{} 2>/dev/null", program, addresses).c_str(), "r"), pclose);
  if (!pipe) return what;
  std::string calls;
  std::array<char, 4096> line{};
  for (int named = 0; named < 4 && fgets(line.data(), line.size(), pipe.get()) != nullptr;) {
    std::string function = core::replace_all(line.data(), "(anonymous namespace)::", "");
    if (!is_told(function)) continue;
    calls += "\n      in " + function.substr(0, std::min(function.find('('), function.find('\n')));
    ++named;
  }
  return what + calls;
}

int RaceDetector::add_actor(std::string name) {
  const std::lock_guard lock(mutex_);
  names_.push_back(std::move(name));
  clocks_.emplace_back();
  return static_cast<int>(names_.size()) - 1;
}

std::string RaceDetector::name_of(int actor) const {
  const std::lock_guard lock(mutex_);
  return names_.at(static_cast<size_t>(actor));
}

void RaceDetector::launch(int host, int stream) { join(stream, snapshot(host)); }

VectorClock RaceDetector::snapshot(int actor) {
  const std::lock_guard lock(mutex_);
  return clocks_.at(static_cast<size_t>(actor));
}

void RaceDetector::join(int actor, const VectorClock& known) {
  const std::lock_guard lock(mutex_);
  clocks_.at(static_cast<size_t>(actor)).join(known);
}

RaceDetector::Block* RaceDetector::block_at(uintptr_t address) {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  auto& [begin, block] = *std::prev(next);
  return address < begin + block.bytes ? &block : nullptr;
}

void RaceDetector::add_block(uintptr_t begin, size_t bytes, int stream, int host) {
  const std::lock_guard lock(mutex_);
  blocks_[begin] = {.bytes = bytes, .stream = stream, .host = host};
}

void RaceDetector::use(int actor, uintptr_t begin, uintptr_t end, Access access, const Place& place) {
  const std::lock_guard lock(mutex_);
  Block* block = block_at(begin);
  if (block == nullptr) return;
  VectorClock& clock = clocks_.at(static_cast<size_t>(actor));
  for (const Use& earlier : block->uses) {
    const bool conflicts =
        earlier.begin < end && begin < earlier.end && (access == Access::kWrite || earlier.access == Access::kWrite);
    if (!conflicts || clock.knows(earlier.actor, earlier.tick)) continue;
    const auto word = [](Access kind) { return kind == Access::kWrite ? "write" : "read"; };
    report_locked(fmt::format("a {} that no event orders after a {}", word(access), word(earlier.access)),
                  earlier.place, place);
  }
  // What this use covers need not be remembered: who is ordered after this use is so after that, too.
  std::erase_if(block->uses, [&](const Use& earlier) {
    const bool is_covered = begin <= earlier.begin && earlier.end <= end;
    return is_covered && (access == Access::kWrite || (earlier.access == Access::kRead && earlier.actor == actor));
  });
  block->uses.push_back(
      {.begin = begin, .end = end, .actor = actor, .tick = clock.tick(actor), .access = access, .place = place});
}

void RaceDetector::share(uintptr_t begin, int stream) {
  const std::lock_guard lock(mutex_);
  if (Block* block = block_at(begin)) block->shared_with.insert(stream);
}

void RaceDetector::release(uintptr_t begin, const Place& place) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(begin);
  if (found == blocks_.end()) return;
  const Block& block = found->second;
  VectorClock known = clocks_.at(static_cast<size_t>(block.stream));
  known.join(clocks_.at(static_cast<size_t>(block.host)));  // the next owner's work is queued by the host
  for (const Use& use : block.uses)
    if (use.actor != block.stream && !block.shared_with.contains(use.actor) && !known.knows(use.actor, use.tick))
      report_locked(fmt::format("memory of {} goes back to the allocator while another stream may use it",
                                names_.at(static_cast<size_t>(block.stream))),
                    use.place, place);
  blocks_.erase(found);
}

bool RaceDetector::knows_all_uses(int actor, uintptr_t begin) const { return unknown_use(actor, begin).empty(); }

std::string RaceDetector::unknown_use(int actor, uintptr_t begin) const {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(begin);
  if (found == blocks_.end()) return "";
  for (const Use& use : found->second.uses)
    if (!clocks_.at(static_cast<size_t>(actor)).knows(use.actor, use.tick)) return use.place.what;
  return "";
}

void RaceDetector::report_locked(const std::string& kind, const Place& earlier, const Place& later) {
  if (!known_pairs_.insert(kind + "|" + earlier.what + "|" + later.what).second) return;
  reports_.push_back(fmt::format("race: {}\n    earlier: {}\n    later: {}", kind, earlier.text(), later.text()));
}

void RaceDetector::report(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (known_pairs_.insert(text).second) reports_.push_back(text);
}

std::vector<std::string> RaceDetector::take_reports() {
  const std::lock_guard lock(mutex_);
  known_pairs_.clear();
  return std::exchange(reports_, {});
}

size_t RaceDetector::num_reports() const {
  const std::lock_guard lock(mutex_);
  return reports_.size();
}

}  // namespace lockstep::tests::accelerator
