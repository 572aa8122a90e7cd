#pragma once
#include <algorithm>
#include <cstdint>
#include <map>

namespace lockstep::tests::accelerator {

/// What an actor (a stream, or the host as the user of a device) knows of all actors: how far each had come.
/// Mattern 1988; Fidge 1988.
class VectorClock {
 public:
  /// The actor's next moment.
  uint64_t tick(int actor) { return ++ticks_[actor]; }
  void join(const VectorClock& other) {
    for (const auto& [actor, tick] : other.ticks_) {
      uint64_t& mine = ticks_[actor];
      mine = std::max(mine, tick);
    }
  }
  bool knows(int actor, uint64_t tick) const {
    const auto found = ticks_.find(actor);
    return found != ticks_.end() && found->second >= tick;
  }

  /// Whether all that `other` knows is known.
  bool covers(const VectorClock& other) const {
    return std::all_of(other.ticks_.begin(), other.ticks_.end(),
                       [this](const auto& entry) { return knows(entry.first, entry.second); });
  }

 private:
  std::map<int, uint64_t> ticks_;
};

}  // namespace lockstep::tests::accelerator
