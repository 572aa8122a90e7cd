#include "data/shards/source_webdataset.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/order/lane_stream.h"
#include "data/order/position.h"
#include "data/shards/index_jobs.h"
#include "data/shards/shard_list.h"

namespace lockstep::data {
using core::Json;

namespace {

constexpr int64_t kPlainWindow = 64;  // with shuffle off: only the neighbourhood of substitutes

SampleFilter make_filter(const SourceConfig& config) {
  return {.image_keys = config.need_image ? config.image_keys : std::vector<std::string>{},
          .audio_keys = config.need_audio ? config.audio_keys : std::vector<std::string>{},
          .text_keys = config.need_text ? config.text_keys : std::vector<std::string>{},
          .need_label = config.need_label,
          .num_classes = config.num_classes};
}

/// Fills in the counts; false when a side-car is missing.
bool load_index(ShardSet& set, const SourceConfig& config) {
  std::vector<int64_t> samples;
  std::vector<uint64_t> bytes;
  std::map<std::string, int64_t> left_out;
  const size_t num_different = set.shards.size() / static_cast<size_t>(config.num_repeats);
  IndexHeaders headers(config.index_dir);
  for (size_t i = 0; i < set.shards.size(); ++i) {
    const std::string& shard = set.shards[i];
    const auto header = headers.find(shard);
    if (!header) {
      if (config.index != IndexUse::kRequire) return false;
      throw DataError(fmt::format("data: shard '{}' has no index", shard),
                      fmt::format("make it with `lockstep data index '{}'`", config.spec));
    }
    samples.push_back(header->num_usable(set.filter));
    bytes.push_back(header->bytes);
    if (i >= num_different) continue;
    for (const auto& [extensions, count] : header->extension_sets)
      if (const std::string reason = set.filter.reason_against(extensions); !reason.empty()) left_out[reason] += count;
  }
  set.left_out = std::move(left_out);
  set.samples = std::move(samples);
  set.bytes = std::move(bytes);
  set.index_dir = config.index_dir;
  return true;
}

/// What all lane positions say besides the numbers.
constexpr std::string_view kLaneKind = "lanes";

class LaneSource : public SampleSource {
 public:
  explicit LaneSource(const SourceConfig& config)
      : rank_(config.rank), world_size_(config.world_size), is_strided_(!config.shuffle) {
    context_.set = load_shard_set(config);
    context_.keep_lost = config.keep_lost;
    LaneOrder order{.seed = config.seed,
                    .num_lanes = 1,
                    .shuffle = config.shuffle,
                    .resampled = config.resampled,
                    .pass_samples = pass_samples(*context_.set, config),
                    .window = kPlainWindow};
    if (config.shuffle) {
      const auto num_shards = static_cast<int64_t>(context_.set->shards.size());
      try {
        order.num_lanes =
            choose_num_lanes(config.num_lanes, num_shards, order.pass_samples, config.resampled, world_size_);
      } catch (const DataError&) {  // a run that goes on has its lanes
        cannot_begin_ = std::current_exception();
      }
      order.window = std::max<int64_t>(1, (config.shuffle_window + order.num_lanes - 1) / order.num_lanes);
    }
    rebuild(order);
  }

  std::optional<RawSample> next() override {
    if (cannot_begin_) std::rethrow_exception(cannot_begin_);
    if (context_.is_interrupted.load()) throw DataError("data: reading was interrupted");
    const auto pass_samples = static_cast<uint64_t>(context_.order.pass_samples);
    const uint64_t first = pass_ * pass_samples + consumed_;
    RawSample sample = is_strided_ ? take_strided(first) : take_from_lane(first);
    consumed_ += static_cast<uint64_t>(world_size_);
    if (pass_samples > 0 && consumed_ >= pass_samples) {
      consumed_ -= pass_samples;
      ++pass_;
      context_.report.num_dropped_tail += context_.set->num_samples() - context_.order.pass_samples;
    }
    ++context_.report.num_samples;
    return sample;
  }

  Json position() const override {
    const LaneOrder& order = context_.order;
    Json json{{"kind", kLaneKind},
              {"data", fingerprint_},
              {"seed", order.seed},
              {"epoch", pass_},
              {"consumed", consumed_},
              {"lanes", order.num_lanes},
              {"epoch_samples", order.pass_samples},
              {"window", order.window},
              {"shuffle", order.shuffle},
              {"resampled", order.resampled}};
    if (order.pass_samples > 0) return json;
    Json marks = Json::array();
    for (const LaneStream& lane : lanes_) marks.push_back(lane.mark().to_json());
    json["marks"] = std::move(marks);
    return json;
  }

  void seek(const Json& json) override {
    const PositionReader position(json, kLaneKind);
    position.expect("data", fingerprint_, "the data set differs from the one the position was written with");
    position.expect("shuffle", context_.order.shuffle, "--shuffle differs");
    position.expect("resampled", context_.order.resampled, "--dataset-resampled differs");
    LaneOrder order = context_.order;
    order.seed = position.number<uint64_t>("seed");
    order.num_lanes = position.positive("lanes");
    order.window = position.positive("window");
    const auto samples = position.number<int64_t>("epoch_samples");
    if ((samples > 0) != (order.pass_samples > 0))
      throw DataError(fmt::format("data: the position was written {} an index, but now there is {}",
                                  samples > 0 ? "with" : "without", order.pass_samples > 0 ? "one" : "none"),
                      "use the same --index-dir and the same index as before");
    if (samples < 0 || samples > context_.set->num_samples() + (order.pass_samples == 0 ? 1 : 0) ||
        (samples > 0 && samples < order.num_lanes))
      throw DataError(fmt::format("data: a position with epoch_samples={} does not fit {} samples", samples,
                                  context_.set->num_samples()));
    order.pass_samples = samples;
    const auto consumed = position.number<uint64_t>("consumed"), pass = position.number<uint64_t>("epoch");
    const auto world = static_cast<uint64_t>(world_size_);
    if (consumed % world != 0 ||
        (samples > 0 && (static_cast<uint64_t>(samples) % world != 0 || consumed >= static_cast<uint64_t>(samples))) ||
        consumed > (uint64_t{1} << 60) || pass > (uint64_t{1} << 40))
      throw DataError(
          fmt::format("data: a position after {} samples (epochs of {}) cannot be shared equally by {} ranks", consumed,
                      samples, world_size_),
          "continue on a number of ranks that divides both");
    context_.is_interrupted = false;
    cannot_begin_ = nullptr;
    rebuild(order);
    if (rank_ == 0 && !is_strided_ && lane_step_ < world_size_)
      core::log_warning(
          "data: {} ranks share the {} lanes of this run's order, so that every shard is read {} times; numbers of "
          "ranks that divide {} read it once",
          world_size_, order.num_lanes, world_size_ / lane_step_, order.num_lanes);
    pass_ = pass;
    consumed_ = consumed;
    seek_lanes(json);
  }

  SourceReport report() const override { return context_.report; }
  void interrupt() override { context_.is_interrupted = true; }

 private:
  void rebuild(const LaneOrder& order) {
    context_.order = order;
    context_.known_samples =
        context_.set->has_index() ? context_.set->samples : std::vector<int64_t>(context_.set->shards.size(), -1);
    context_.report = {};
    fingerprint_ = context_.set->fingerprint();
    pass_ = consumed_ = 0;
    lanes_.clear();
    lane_step_ = is_strided_ ? 1 : std::gcd(world_size_, order.num_lanes);
    for (int64_t lane = first_lane(); lane < order.num_lanes; lane += lane_step_) lanes_.emplace_back(context_, lane);
  }

  /// Rank r takes the samples r, r + world size, ... of the order, so it has the lanes of these numbers modulo
  /// `lane_step_`. Where the ranks divide the lanes, nobody else reads them.
  int64_t first_lane() const { return rank_ % lane_step_; }

  RawSample take_from_lane(uint64_t first) {
    const auto place = static_cast<int64_t>(consumed_) + rank_, lane = place % context_.order.num_lanes;
    LaneStream& stream = lanes_[static_cast<size_t>(lane / lane_step_)];
    stream.pass_to(before_pass(lane) + place / context_.order.num_lanes);
    return stream.next(first + static_cast<uint64_t>(rank_));
  }

  /// One lane for all ranks: takes the samples of the others too.
  RawSample take_strided(uint64_t first) {
    std::optional<RawSample> own;
    for (int64_t i = 0; i < world_size_; ++i) {
      RawSample sample = lanes_.front().next(first + static_cast<uint64_t>(i));
      if (i == rank_) own = std::move(sample);
    }
    return std::move(*own);
  }

  /// Samples of a lane before the present pass; without an index there is one pass alone.
  int64_t before_pass(int64_t lane) const {
    const LaneOrder& order = context_.order;
    return order.pass_samples > 0 ? static_cast<int64_t>(pass_) * order.lane_samples(lane) : 0;
  }

  /// Samples that a lane gave to all ranks before the present position.
  int64_t taken_of(int64_t lane) const {
    const auto consumed = static_cast<int64_t>(consumed_), lanes = context_.order.num_lanes;
    return before_pass(lane) + consumed / lanes + (lane < consumed % lanes ? 1 : 0);
  }

  void seek_lanes(const Json& json) {
    std::map<int64_t, LaneMark> marks;
    if (context_.order.pass_samples == 0 && json.contains("marks"))
      for (const Json& item : json.at("marks")) {
        const LaneMark mark = LaneMark::from_json(item);
        marks[mark.lane] = mark;
      }
    int64_t lane = first_lane();
    for (LaneStream& stream : lanes_) {
      const auto mark = marks.find(lane);
      stream.seek(taken_of(lane), mark == marks.end() ? nullptr : &mark->second);
      lane += lane_step_;
    }
  }

  const int64_t rank_, world_size_;
  const bool is_strided_;
  LaneContext context_;
  std::string fingerprint_;
  std::exception_ptr cannot_begin_;  // too few shards for the ranks of a new run
  int64_t lane_step_ = 1;            // lanes of one rank lie so far apart
  std::vector<LaneStream> lanes_;    // this rank's
  uint64_t pass_ = 0;
  uint64_t consumed_ = 0;  // of the pass, by all ranks together
};

class SequentialSource : public SampleSource {
 public:
  explicit SequentialSource(const SourceConfig& config)
      : rank_(config.rank), world_size_(config.world_size), walker_(context_) {
    context_.set = load_shard_set(config);
    context_.keep_lost = config.keep_lost;
    fingerprint_ = context_.set->fingerprint();
    rewind();
  }

  std::optional<RawSample> next() override {
    if (context_.is_interrupted.load()) throw DataError("data: reading was interrupted");
    const int64_t wanted = consumed_ + rank_;
    read_ += walker_.pass_over(wanted - read_);
    std::optional<RawSample> sample = walker_.next();
    if (!sample) return std::nullopt;
    sample->id = static_cast<uint64_t>(wanted);
    read_ = wanted + 1;
    consumed_ += world_size_;
    ++context_.report.num_samples;
    return sample;
  }

  Json position() const override { return {{"kind", "sequential"}, {"data", fingerprint_}, {"consumed", consumed_}}; }

  void seek(const Json& json) override {
    const PositionReader position(json, "sequential");
    position.expect("data", fingerprint_, "the data set differs from the one the position was written with");
    const auto consumed = position.number<int64_t>("consumed");
    if (consumed < 0 || consumed % world_size_ != 0)
      throw DataError(
          fmt::format("data: a position after {} samples cannot be shared equally by {} ranks", consumed, world_size_));
    rewind();
    consumed_ = consumed;
  }

  SourceReport report() const override { return context_.report; }
  void interrupt() override { context_.is_interrupted = true; }

 private:
  void rewind() {
    context_.is_interrupted = false;
    context_.known_samples.assign(context_.set->shards.size(), -1);
    context_.report = {};
    std::vector<ShardPiece> pieces(context_.set->shards.size());
    for (size_t i = 0; i < pieces.size(); ++i)
      pieces[i] = {static_cast<int64_t>(i), 0, context_.set->has_index() ? context_.set->samples[i] : -1};
    walker_.begin(std::move(pieces), {});
    consumed_ = read_ = 0;
  }

  const int64_t rank_, world_size_;
  LaneContext context_;
  PieceWalker walker_;
  std::string fingerprint_;
  int64_t consumed_ = 0, read_ = 0;
};

}  // namespace

std::vector<std::string> expand_shards(const SourceConfig& config) {
  std::vector<std::string> shards;
  for (const ShardSource& source : parse_shard_sources(config.spec, config.upsampling_factors))
    shards.insert(shards.end(), source.shards.begin(), source.shards.end());
  return shards;
}

std::shared_ptr<const ShardSet> load_shard_set(const SourceConfig& config) {
  if (!config.upsampling_factors.empty() && !config.resampled)
    throw UsageError("data: --train-data-upsampling-factors needs --dataset-resampled",
                     "factors are chances of drawing a shard; a plain epoch takes every shard once");
  auto set = std::make_shared<ShardSet>();
  double weight = 0;
  const std::vector<ShardSource> sources = parse_shard_sources(config.spec, config.upsampling_factors);
  for (int64_t repeat = 0; repeat < config.num_repeats; ++repeat) {
    for (const ShardSource& source : sources) {
      for (const std::string& shard : source.shards) {
        if (is_pipe(shard) && !config.allow_pipe)
          throw UsageError(fmt::format("data: '{}' would run a command, which is switched off here", shard));
        set->shards.push_back(shard);
        set->cumulative_weight.push_back(weight += source.factor);
      }
    }
  }
  set->filter = make_filter(config);
  set->wanted = set->filter.wanted();
  if (config.index != IndexUse::kOff) load_index(*set, config);
  return set;
}

int64_t pass_samples(const ShardSet& set, const SourceConfig& config) {
  if (!set.has_index() || config.resampled) return 0;
  const int64_t total = set.num_samples(), batches = total / config.global_batch;
  if (batches == 0)
    throw DataError(fmt::format("data: '{}' holds {} usable samples, fewer than one global batch of {}", config.spec,
                                total, config.global_batch),
                    total == 0 ? set.filter.hint(config.spec) : kTooFewSamplesHint);
  return batches * config.global_batch;
}

std::unique_ptr<SampleSource> open_lane_source(const SourceConfig& config) {
  return std::make_unique<LaneSource>(config);
}
std::unique_ptr<SampleSource> open_sequential_source(const SourceConfig& config) {
  return std::make_unique<SequentialSource>(config);
}

}  // namespace lockstep::data
