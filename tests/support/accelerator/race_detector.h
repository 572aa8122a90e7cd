#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "support/accelerator/vector_clock.h"

namespace lockstep::tests::accelerator {

/// Where something happened: an operator on a stream, and the functions that called it.
struct Place {
  std::string what;
  std::vector<void*> frames = {};  ///< Return addresses, innermost first.
  /// With the names of the functions of this program (by addr2line, where it is installed). Slow.
  std::string text() const;
};
/// `what` and who calls.
Place place_here(std::string what);

enum class Access { kRead, kWrite };

/// Finds uses of memory that nothing orders. Actors are streams and, for each device, the host. Each has a vector
/// clock; of each block of memory the last write and the reads since then are kept, by ranges of addresses. A use that
/// conflicts with an earlier one whose actor's moment is not known to its own actor is a race; so is memory that goes
/// back to the allocator while a stream that the allocator does not know of may still use it. Thread safe.
///
/// Whether two uses meet in time plays no part: a missing wait is found in each run that comes by it.
class RaceDetector {
 public:
  int add_actor(std::string name);
  std::string name_of(int actor) const;

  /// `host` queues work on `stream`: the work comes after all that the host knows.
  void launch(int host, int stream);
  /// What an event on the actor's stream, recorded now, tells.
  VectorClock snapshot(int actor);
  /// `actor` has waited for an event.
  void join(int actor, const VectorClock& known);

  /// Memory that the allocator gives out for use on `stream`. Also what earlier uses left is forgotten.
  void add_block(uintptr_t begin, size_t bytes, int stream, int host);
  /// [begin, end) within a block, by `actor`. Outside of all blocks nothing happens.
  void use(int actor, uintptr_t begin, uintptr_t end, Access access, const Place& place);
  /// The allocator is told that `stream` uses the block, too (record_stream).
  void share(uintptr_t begin, int stream);
  /// The memory goes back to the allocator, which gives it out on its own stream at once.
  void release(uintptr_t begin, const Place& place);

  /// Whether the actor knows of every use of the block so far (host: all queued copies are done).
  bool knows_all_uses(int actor, uintptr_t begin) const;
  /// A use of the block that the actor does not know of.
  std::string unknown_use(int actor, uintptr_t begin) const;

  /// A mistake of another kind, in the words of `text`.
  void report(const std::string& text);
  /// All found so far, each pair of places once; forgets them.
  std::vector<std::string> take_reports();
  size_t num_reports() const;

 private:
  struct Use {
    uintptr_t begin, end;
    int actor;
    uint64_t tick;
    Access access;
    Place place;
  };
  struct Block {
    size_t bytes;
    int stream, host;
    std::set<int> shared_with = {};
    std::vector<Use> uses = {};
  };
  void report_locked(const std::string& kind, const Place& earlier, const Place& later);
  Block* block_at(uintptr_t address);

  mutable std::mutex mutex_;
  std::vector<std::string> names_;
  std::vector<VectorClock> clocks_;
  std::map<uintptr_t, Block> blocks_;
  std::vector<std::string> reports_;
  std::set<std::string> known_pairs_;
};

}  // namespace lockstep::tests::accelerator
