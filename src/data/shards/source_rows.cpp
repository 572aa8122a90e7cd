#include "data/shards/source_rows.h"

#include <atomic>

#include "core/error.h"
#include "core/rng.h"
#include "data/order/position.h"

namespace lockstep::data {
using core::Json;

namespace {

constexpr uint64_t kPurposeRows = 0x524f5753ull;
constexpr uint64_t kPurposeSubstitute = 0x535542ull;

class RowTrainSource : public SampleSource {
 public:
  RowTrainSource(RowTable table, const SourceConfig& config)
      : table_(std::make_shared<const RowTable>(std::move(table))), rank_(static_cast<uint64_t>(config.rank)),
        world_size_(static_cast<uint64_t>(config.world_size)), shuffle_(config.shuffle), seed_(config.seed),
        epoch_samples_(static_cast<uint64_t>(table_->num_rows / config.global_batch * config.global_batch)) {
    if (epoch_samples_ == 0)
      throw DataError(fmt::format("data: '{}' holds {} samples, fewer than one global batch of {}", config.spec,
                                  table_->num_rows, config.global_batch),
                      kTooFewSamplesHint);
  }

  std::optional<RawSample> next() override {
    if (is_interrupted_.load()) throw DataError("data: reading was interrupted");
    const uint64_t at = consumed_ + rank_, id = epoch_ * epoch_samples_ + at;
    const auto num_rows = static_cast<uint64_t>(table_->num_rows);
    const uint64_t row =
        shuffle_ ? core::Permutation(num_rows, core::stream_key({seed_, kPurposeRows, epoch_}))(at) : at;
    RawSample sample = table_->row(static_cast<int64_t>(row));
    sample.id = id;
    sample.substitute = [table = table_, row, id, seed = seed_](int attempt) {
      const auto num_others = static_cast<uint64_t>(table->num_rows) - 1;
      if (num_others == 0) return table->row(static_cast<int64_t>(row));
      const uint64_t key = core::stream_key({seed, kPurposeSubstitute, id, static_cast<uint64_t>(attempt)});
      const uint64_t pick = core::CounterRng(key).below(num_others);
      return table->row(static_cast<int64_t>(pick < row ? pick : pick + 1));
    };
    consumed_ += world_size_;
    if (consumed_ >= epoch_samples_) {
      consumed_ -= epoch_samples_;
      ++epoch_;
      report_.num_dropped_tail += static_cast<int64_t>(num_rows - epoch_samples_);
    }
    ++report_.num_samples;
    return sample;
  }

  Json position() const override {
    return {{"kind", "rows"},        {"data", table_->fingerprint},     {"seed", seed_},      {"epoch", epoch_},
            {"consumed", consumed_}, {"epoch_samples", epoch_samples_}, {"shuffle", shuffle_}};
  }

  void seek(const Json& json) override {
    const PositionReader position(json, "rows");
    position.expect("data", table_->fingerprint, "the data set differs from the one the position was written with");
    position.expect("shuffle", shuffle_, "--shuffle differs");
    const auto samples = position.number<uint64_t>("epoch_samples"), consumed = position.number<uint64_t>("consumed");
    if (samples == 0 || samples > static_cast<uint64_t>(table_->num_rows) || samples % world_size_ != 0 ||
        consumed % world_size_ != 0 || consumed >= samples)
      throw DataError(
          fmt::format("data: a position after {} samples (epochs of {}) cannot be shared equally by {} ranks", consumed,
                      samples, world_size_),
          "continue on a number of ranks that divides both");
    seed_ = position.number<uint64_t>("seed");
    epoch_ = position.number<uint64_t>("epoch");
    epoch_samples_ = samples;
    consumed_ = consumed;
    report_ = {};
    is_interrupted_ = false;
  }

  SourceReport report() const override { return report_; }
  void interrupt() override { is_interrupted_ = true; }

 private:
  const std::shared_ptr<const RowTable> table_;
  const uint64_t rank_, world_size_;
  const bool shuffle_;
  uint64_t seed_, epoch_samples_, epoch_ = 0, consumed_ = 0;
  SourceReport report_;
  std::atomic<bool> is_interrupted_{false};
};

class RowEvalSource : public SampleSource {
 public:
  RowEvalSource(RowTable table, const SourceConfig& config)
      : table_(std::move(table)), rank_(config.rank), world_size_(config.world_size) {}

  std::optional<RawSample> next() override {
    if (is_interrupted_.load()) throw DataError("data: reading was interrupted");
    if (consumed_ + rank_ >= table_.num_rows) return std::nullopt;
    RawSample sample = table_.row(consumed_ + rank_);
    sample.id = static_cast<uint64_t>(consumed_ + rank_);
    consumed_ += world_size_;
    ++report_.num_samples;
    return sample;
  }

  Json position() const override {
    return {{"kind", "rows_once"}, {"data", table_.fingerprint}, {"consumed", consumed_}};
  }

  void seek(const Json& json) override {
    const PositionReader position(json, "rows_once");
    position.expect("data", table_.fingerprint, "the data set differs from the one the position was written with");
    const auto consumed = position.number<int64_t>("consumed");
    if (consumed < 0 || consumed % world_size_ != 0)
      throw DataError(
          fmt::format("data: a position after {} samples cannot be shared equally by {} ranks", consumed, world_size_));
    consumed_ = consumed;
    report_ = {};
    is_interrupted_ = false;
  }

  SourceReport report() const override { return report_; }
  void interrupt() override { is_interrupted_ = true; }

 private:
  const RowTable table_;
  const int64_t rank_, world_size_;
  int64_t consumed_ = 0;
  SourceReport report_;
  std::atomic<bool> is_interrupted_{false};
};

}  // namespace

std::unique_ptr<SampleSource> make_row_train_source(RowTable table, const SourceConfig& config) {
  return std::make_unique<RowTrainSource>(std::move(table), config);
}

std::unique_ptr<SampleSource> make_row_eval_source(RowTable table, const SourceConfig& config) {
  return std::make_unique<RowEvalSource>(std::move(table), config);
}

}  // namespace lockstep::data
