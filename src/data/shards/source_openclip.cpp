#include "data/shards/source_openclip.h"

#include <algorithm>

#include "core/counted.h"
#include "core/error.h"
#include "data/order/lane_stream.h"
#include "data/order/position.h"
#include "data/order/python_random.h"
#include "data/shards/epoch_size.h"
#include "data/shards/source_webdataset.h"

namespace lockstep::data {
using core::Json;

namespace {

constexpr uint64_t kPurposeSamples = 0x4f435f58ull;
constexpr uint64_t kPurposeShardDraw = 0x4f435f44ull;
constexpr size_t kHistory = 16;
constexpr int64_t kShardBuffer = 2000, kShardInitial = 500;  // OpenCLIP's

/// Samples of one worker in one epoch: endless.
class WorkerStream {
 public:
  WorkerStream(LaneContext& context, std::vector<int64_t> shards, int64_t window, uint64_t key, bool resampled)
      : context_(context), shards_(std::move(shards)), draw_key_(core::stream_key({key, kPurposeShardDraw})),
        resampled_(resampled), walker_(context),
        shuffle_([this] { return read(); }, window, std::min<int64_t>(window, std::max<int64_t>(1, window / 5)),
                 core::CounterRng(key)) {}
  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  RawSample next() {
    for (;;) {
      if (auto sample = shuffle_.next()) return std::move(*sample);
      is_begun_ = false;  // the buffer is drained at the end of the shards, then they come again
    }
  }

 private:
  std::optional<RawSample> read() {
    if (is_begun_ || !resampled_) {
      if (!is_begun_) begin_pass();
      auto sample = walker_.next();
      if (sample || !resampled_) return sample;
    }
    for (;;) {
      draw_shard();
      if (auto sample = walker_.next()) return sample;
    }
  }

  void begin_pass() {
    std::vector<ShardPiece> pieces;
    for (const int64_t shard : shards_) pieces.push_back({shard, 0, -1});
    walker_.begin(std::move(pieces), {});
    is_begun_ = true;
  }

  void draw_shard() {
    const std::vector<double>& weight = context_.set->cumulative_weight;
    const double at = core::CounterRng(draw_key_, num_draws_++).uniform() * weight.back();
    const auto found = std::upper_bound(weight.begin(), weight.end(), at);
    walker_.begin({{std::min<int64_t>(found - weight.begin(), static_cast<int64_t>(weight.size()) - 1), 0, -1}}, {});
    is_begun_ = true;
  }

  LaneContext& context_;
  const std::vector<int64_t> shards_;
  const uint64_t draw_key_;
  const bool resampled_;
  uint64_t num_draws_ = 0;
  bool is_begun_ = false;
  PieceWalker walker_;
  RollingShuffle<RawSample> shuffle_;
};

class OpenClipSource : public SampleSource {
 public:
  explicit OpenClipSource(const SourceConfig& config) : config_(config) {
    if (config.micro_batch_size < 1 || config.num_workers < 1)
      throw UsageError(
          fmt::format("data: --data-order openclip needs a micro-batch and workers (micro_batch_size={}, workers={})",
                      config.micro_batch_size, config.num_workers));
    context_.set = load_shard_set(config);
    context_.keep_lost = config.keep_lost;
    const auto num_shards = static_cast<int64_t>(context_.set->shards.size()),
               streams = config.num_workers * config.world_size;
    if (!config.resampled && num_shards < streams)
      throw DataError(
          fmt::format("data: {} for {} x {} workers: OpenCLIP's order needs a shard for each",
                      core::counted(num_shards, "shard"), core::counted(config.world_size, "rank"), config.num_workers),
          "use fewer --workers, or --data-order lockstep");
    SourceConfig sized = config;
    sized.global_batch = config.micro_batch_size * config.world_size;
    const EpochSize size = shards_epoch_size(sized);
    const int64_t batches = (size.num_batches + config.num_workers - 1) / config.num_workers * config.num_workers;
    // OpenCLIP throws away micro-batches at the end of an epoch that fill no step.
    const int64_t accumulated = std::clamp<int64_t>(config.global_batch / sized.global_batch, 1, batches);
    epoch_samples_ = batches / accumulated * accumulated * config.micro_batch_size;
    fingerprint_ = context_.set->fingerprint();
    begin_epoch(0);
  }

  std::optional<RawSample> next() override {
    if (context_.is_interrupted.load()) throw DataError("data: reading was interrupted");
    if (taken_ == epoch_samples_) begin_epoch(epoch_ + 1);
    const int64_t batch = taken_ / config_.micro_batch_size;
    RawSample sample = workers_[static_cast<size_t>(batch % config_.num_workers)]->next();
    const auto world = static_cast<uint64_t>(config_.world_size);
    sample.id = (epoch_ * static_cast<uint64_t>(epoch_samples_) + static_cast<uint64_t>(taken_)) * world +
                static_cast<uint64_t>(config_.rank);
    ++taken_;
    ++context_.report.num_samples;
    sample.substitute = [history = history_](int attempt) {
      if (history.empty()) throw DataError("data: no sample before this one");
      return *history[history.size() - 1 - static_cast<size_t>(attempt - 1) % history.size()];
    };
    auto kept = std::make_shared<RawSample>(sample);
    kept->substitute = nullptr;
    history_.push_back(std::move(kept));
    if (history_.size() > kHistory) history_.erase(history_.begin());
    return sample;
  }

  Json position() const override {
    return {{"kind", "openclip"},
            {"data", fingerprint_},
            {"seed", seed_},
            {"epoch", epoch_},
            {"taken", taken_},
            {"world_size", config_.world_size},
            {"workers", config_.num_workers},
            {"samples_per_rank", config_.micro_batch_size},
            {"window", config_.shuffle_window},
            {"shuffle", config_.shuffle},
            {"resampled", config_.resampled}};
  }

  void seek(const Json& json) override {
    const PositionReader position(json, "openclip");
    position.expect("data", fingerprint_, "the data set differs from the one the position was written with");
    position.expect("world_size", config_.world_size, "OpenCLIP's order depends on the number of ranks");
    position.expect("workers", config_.num_workers, "OpenCLIP's order depends on --workers");
    position.expect("samples_per_rank", config_.micro_batch_size, "OpenCLIP's order depends on --batch-size");
    position.expect("window", config_.shuffle_window, "the shuffle buffer differs");
    position.expect("shuffle", config_.shuffle, "--shuffle differs");
    position.expect("resampled", config_.resampled, "--dataset-resampled differs");
    const auto taken = position.number<int64_t>("taken");
    if (taken < 0 || taken > epoch_samples_)
      throw DataError(fmt::format("data: a position after {} samples of an epoch", taken));
    context_.is_interrupted = false;
    seed_ = position.number<uint64_t>("seed");
    begin_epoch(position.number<uint64_t>("epoch"));
    while (taken_ < taken) next();
  }

  SourceReport report() const override { return context_.report; }
  void interrupt() override { context_.is_interrupted = true; }

 private:
  void begin_epoch(uint64_t epoch) {
    epoch_ = epoch;
    taken_ = 0;
    history_.clear();
    workers_.clear();
    const auto num_shards = static_cast<int64_t>(context_.set->shards.size());
    context_.known_samples.assign(static_cast<size_t>(num_shards), -1);
    std::vector<std::vector<int64_t>> dealt(static_cast<size_t>(config_.num_workers));
    int64_t fed = 0, place = 0;
    RollingShuffle<int64_t, PythonRandom> order(
        [&]() -> std::optional<int64_t> { return fed < num_shards ? std::optional(fed++) : std::nullopt; },
        config_.shuffle ? kShardBuffer : 1, config_.shuffle ? kShardInitial : 1, PythonRandom(seed_ + epoch));
    for (std::optional<int64_t> shard; (shard = order.next()); ++place)
      if (place % config_.world_size == config_.rank)
        dealt[static_cast<size_t>(place / config_.world_size % config_.num_workers)].push_back(*shard);
    for (int64_t worker = 0; worker < config_.num_workers; ++worker) {
      const uint64_t key = core::stream_key(
          {seed_, epoch, kPurposeSamples, static_cast<uint64_t>(config_.rank), static_cast<uint64_t>(worker)});
      workers_.push_back(std::make_unique<WorkerStream>(context_, std::move(dealt[static_cast<size_t>(worker)]),
                                                        config_.shuffle ? config_.shuffle_window : 1, key,
                                                        config_.resampled));
    }
  }

  const SourceConfig config_;
  uint64_t seed_ = config_.seed;
  LaneContext context_;
  std::string fingerprint_;
  int64_t epoch_samples_ = 0;  // of this rank
  uint64_t epoch_ = 0;
  int64_t taken_ = 0;  // of the epoch, by this rank
  std::vector<std::unique_ptr<WorkerStream>> workers_;
  std::vector<std::shared_ptr<const RawSample>> history_;  // the last samples of the epoch: substitutes for bad ones
};

}  // namespace

std::unique_ptr<SampleSource> open_openclip_source(const SourceConfig& config) {
  return std::make_unique<OpenClipSource>(config);
}

}  // namespace lockstep::data
