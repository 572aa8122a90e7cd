#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "core/json.h"
#include "data/shards/sample.h"

namespace lockstep::data {

/// What a stream has passed over so far, on this rank.
struct SourceReport {
  int64_t num_samples = 0;       ///< Handed out.
  int64_t num_shards = 0;        ///< Opened.
  int64_t num_dropped_tail = 0;  ///< Samples left out at the ends of epochs, over all ranks (0 without an index).
  std::map<std::string, int64_t> skipped;  ///< Reason -> samples or members left out, for example "sample without txt".
  bool operator==(const SourceReport&) const = default;
};

/// Deterministic stream of raw samples for one rank. Not thread safe but for interrupt().
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// The next sample; nothing at the end of a finite source (evaluation). Training sources go on with the next epoch
  /// for ever. Damaged input throws DataError with shard, offset and key.
  virtual std::optional<RawSample> next() = 0;
  /// Where the stream stands. Enough to continue it on the same data, also on another world size (merge_positions).
  virtual core::Json position() const = 0;
  /// Continues as if exactly the samples before `position` had been taken; DataError when the position belongs to other
  /// data.
  virtual void seek(const core::Json& position) = 0;
  virtual SourceReport report() const = 0;
  /// Makes a next() that waits for input in another thread throw soon, and every later one at once, until the next
  /// seek(). Thread safe.
  virtual void interrupt() = 0;
};

/// Joins the positions that all ranks report at the same step into one that any rank of any legal world size can seek
/// to. Only streams without an index gain by it: with the position of one rank alone they replay the other ranks' lanes
/// from the start.
core::Json merge_positions(std::span<const core::Json> positions);

}  // namespace lockstep::data
