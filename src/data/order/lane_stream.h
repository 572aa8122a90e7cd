#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/json.h"
#include "data/order/lane_plan.h"
#include "data/shards/source.h"

namespace lockstep::data {

/// What the lanes of one rank share.
struct LaneContext {
  std::shared_ptr<const ShardSet> set;
  LaneOrder order;
  /// Usable samples per shard as far as known (-1), from the index or from reading.
  std::vector<int64_t> known_samples;
  SourceReport report;
  bool keep_lost = false;  ///< SourceConfig::keep_lost
  std::atomic<bool> is_interrupted{false};
};

/// Walks a list of pieces and returns their usable samples.
///
/// With keep_lost damage takes the place of samples. With an index each sample is lost or not by itself, wherever the
/// walk began; without one a single lost sample stands for the unknown rest of the shard.
class PieceWalker {
 public:
  /// A place between two samples. `offset` is the byte in the shard where the next sample begins, 0 when it is not
  /// known.
  struct Place {
    uint64_t piece = 0;
    int64_t taken = 0;  ///< Of this piece.
    uint64_t offset = 0;
  };
  explicit PieceWalker(LaneContext& context) : context_(context) {}

  void begin(std::vector<ShardPiece> pieces, const Place& place);
  /// The next usable sample, or nothing behind the last piece.
  std::optional<RawSample> next();
  /// Passes over `count` samples, reading as little as possible; returns how many there were.
  int64_t pass_over(int64_t count);
  const Place& place() const { return place_; }

 private:
  std::optional<RawSample> next(bool with_data);
  std::optional<RawSample> next_in_shard(bool with_data);
  RawSample take_lost(const DataError& damage);
  uint64_t offset_of(uint64_t ordinal);
  void open();
  void next_piece();
  void count_barren();
  void count_left_out(const std::string& reason, const std::string& key);
  void close();
  [[noreturn]] void throw_unusable() const;

  LaneContext& context_;
  std::vector<ShardPiece> pieces_;
  Place place_;
  std::optional<TarSampleReader> reader_;
  std::vector<uint64_t> offsets_;  // of the usable samples of shard offsets_shard_, from its side-car
  int64_t offsets_shard_ = -1;
  int64_t num_barren_ = 0;  // shards in a row without a usable sample
  std::map<std::string, int64_t> barren_reasons_;
};

/// Where a lane stood at the beginning of a shuffle window; from there everything that follows can be read again.
struct LaneMark {
  int64_t lane = 0;
  int64_t taken = 0;  ///< Samples of this lane before the window, since the beginning of the stream.
  uint64_t pass = 0;
  uint64_t window = 0;  ///< Number within the pass.
  PieceWalker::Place place;
  core::Json to_json() const;
  static LaneMark from_json(const core::Json& json);  ///< DataError unless well formed.
};

/// One lane: an endless deterministic stream of samples, shuffled within bounded windows.
class LaneStream {
 public:
  LaneStream(LaneContext& context, int64_t lane) : context_(context), lane_(lane), walker_(context) {}

  /// The next sample; `id` becomes RawSample::id and keys its substitutes.
  RawSample next(uint64_t id);
  /// Leaves samples to other ranks, so that next() gives sample number `number` of this lane. All of them are read,
  /// since windows are shuffled as a whole.
  void pass_to(int64_t number);
  /// Continues behind the first `taken` samples. With an index this reads at most two windows; else from `mark` on
  /// (which must not lie behind `taken`), or, without one, everything from the beginning.
  void seek(int64_t taken, const LaneMark* mark);
  /// For seek(): begins early enough to fill the present window and the one its substitutes come from.
  LaneMark mark() const;

 private:
  using Window = std::vector<RawSample>;
  void begin_pass(uint64_t pass);
  bool fill(bool with_data);
  void restore(const LaneMark& mark);
  LaneMark mark_here() const;
  LaneMark start_of_known(int64_t taken) const;

  LaneContext& context_;
  const int64_t lane_;
  PieceWalker walker_;
  bool is_pass_open_ = false;
  uint64_t pass_ = 0, next_window_ = 0;
  int64_t taken_ = 0;  // of windows filled so far
  std::shared_ptr<Window> window_, previous_;
  LaneMark window_mark_, previous_mark_;  // where those begin
  uint64_t window_key_ = 0;
  int64_t cursor_ = 0;  // samples of window_ handed out
};

}  // namespace lockstep::data
