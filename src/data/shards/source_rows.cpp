#include "data/shards/source_rows.h"

#include <atomic>

#include "core/counted.h"
#include "core/error.h"
#include "core/rng.h"
#include "data/order/position.h"

namespace lockstep::data {
using core::Json;

namespace {

constexpr uint64_t kPurposeRows = 0x524f5753ull;
constexpr uint64_t kPurposeSubstitute = 0x535542ull;

/// "class folders"
std::string words_of(const std::string& format) {
  if (format == DatasetType::kImageFolder) return "class folders";
  if (format == DatasetType::kLmdb) return "an LMDB";
  if (format == DatasetType::kCsv) return "a table";
  return format;
}

/// Where a stream stands in a table of rows.
struct RowProgress {
  std::shared_ptr<const RowTable> table;
  uint64_t rank, world_size;
  uint64_t consumed = 0;
  SourceReport report{};
  std::atomic<bool> is_interrupted{false};

  RowProgress(RowTable rows, const SourceConfig& config)
      : table(std::make_shared<const RowTable>(std::move(rows))), rank(static_cast<uint64_t>(config.rank)),
        world_size(static_cast<uint64_t>(config.world_size)) {}

  uint64_t num_rows() const { return static_cast<uint64_t>(table->num_rows); }
  RawSample take(uint64_t row, uint64_t id) {
    RawSample sample = table->row(static_cast<int64_t>(row));
    sample.id = id;
    consumed += world_size;
    ++report.num_samples;
    return sample;
  }
  void check_interrupted() const {
    if (is_interrupted.load()) throw DataError("data: reading was interrupted");
  }
  void add_format(Json& position) const {
    if (!table->format.empty()) position["format"] = table->format;
  }
  /// In words, since fingerprints say nothing to people.
  void expect_same_data(const Json& json, const PositionReader& position) const {
    if (position.number<std::string>("data") == table->fingerprint) return;
    const std::string then = core::text_at(json, "format"), &now = table->format;
    const std::string change =
        then.empty() || now.empty() || then == now
            ? fmt::format("the data{} hold other samples than when the checkpoint was written, or under other names",
                          now.empty() ? "" : " (" + words_of(now) + ")")
            : fmt::format("the data are {} now and were {} when the checkpoint was written, which has another order",
                          words_of(now), words_of(then));
    throw DataError("data: cannot continue this stream: " + change,
                    "resume with the data that the checkpoint was written with, or begin anew with its weights: "
                    "--pretrained RUN");
  }
  void restart(uint64_t from) {
    consumed = from;
    report = {};
    is_interrupted = false;
  }
};

class RowTrainSource : public SampleSource {
 public:
  RowTrainSource(RowTable table, const SourceConfig& config)
      : at_(std::move(table), config), shuffle_(config.shuffle), seed_(config.seed),
        epoch_samples_(static_cast<uint64_t>(at_.table->num_rows / config.global_batch * config.global_batch)) {
    if (epoch_samples_ == 0)
      throw DataError(fmt::format("data: '{}' holds {}, fewer than one global batch of {}", config.spec,
                                  core::counted(at_.table->num_rows, "sample"), config.global_batch),
                      kTooFewSamplesHint);
  }

  std::optional<RawSample> next() override {
    at_.check_interrupted();
    const uint64_t place = at_.consumed + at_.rank, id = epoch_ * epoch_samples_ + place;
    const uint64_t row =
        shuffle_ ? core::Permutation(at_.num_rows(), core::stream_key({seed_, kPurposeRows, epoch_}))(place) : place;
    RawSample sample = at_.take(row, id);
    sample.substitute = [table = at_.table, row, id, seed = seed_](int attempt) {
      const auto num_others = static_cast<uint64_t>(table->num_rows) - 1;
      if (num_others == 0) return table->row(static_cast<int64_t>(row));
      const uint64_t key = core::stream_key({seed, kPurposeSubstitute, id, static_cast<uint64_t>(attempt)});
      const uint64_t pick = core::CounterRng(key).below(num_others);
      return table->row(static_cast<int64_t>(pick < row ? pick : pick + 1));
    };
    if (at_.consumed >= epoch_samples_) {
      at_.consumed -= epoch_samples_;
      ++epoch_;
      at_.report.num_dropped_tail += static_cast<int64_t>(at_.num_rows() - epoch_samples_);
    }
    return sample;
  }

  Json position() const override {
    Json position = {{"kind", "rows"},     {"data", at_.table->fingerprint}, {"seed", seed_},
                     {"epoch", epoch_},    {"consumed", at_.consumed},       {"epoch_samples", epoch_samples_},
                     {"shuffle", shuffle_}};
    at_.add_format(position);
    return position;
  }

  void seek(const Json& json) override {
    const PositionReader position(json, "rows");
    at_.expect_same_data(json, position);
    position.expect("shuffle", shuffle_, "--shuffle differs");
    const auto samples = position.number<uint64_t>("epoch_samples"), consumed = position.number<uint64_t>("consumed");
    if (samples == 0 || samples > at_.num_rows() || samples % at_.world_size != 0 || consumed % at_.world_size != 0 ||
        consumed >= samples)
      throw DataError(
          fmt::format("data: a position after {} samples (epochs of {}) cannot be shared equally by {} ranks", consumed,
                      samples, at_.world_size),
          "continue on a number of ranks that divides both");
    seed_ = position.number<uint64_t>("seed");
    epoch_ = position.number<uint64_t>("epoch");
    epoch_samples_ = samples;
    at_.restart(consumed);
  }

  SourceReport report() const override { return at_.report; }
  void interrupt() override { at_.is_interrupted = true; }

 private:
  RowProgress at_;
  const bool shuffle_;
  uint64_t seed_, epoch_samples_, epoch_ = 0;
};

class RowEvalSource : public SampleSource {
 public:
  RowEvalSource(RowTable table, const SourceConfig& config) : at_(std::move(table), config) {}

  std::optional<RawSample> next() override {
    at_.check_interrupted();
    const uint64_t row = at_.consumed + at_.rank;
    if (row >= at_.num_rows()) return std::nullopt;
    return at_.take(row, row);
  }

  Json position() const override {
    Json position = {{"kind", "rows_once"}, {"data", at_.table->fingerprint}, {"consumed", at_.consumed}};
    at_.add_format(position);
    return position;
  }

  void seek(const Json& json) override {
    const PositionReader position(json, "rows_once");
    at_.expect_same_data(json, position);
    const auto consumed = position.number<int64_t>("consumed");
    if (consumed < 0 || static_cast<uint64_t>(consumed) % at_.world_size != 0)
      throw DataError(fmt::format("data: a position after {} samples cannot be shared equally by {} ranks", consumed,
                                  at_.world_size));
    at_.restart(static_cast<uint64_t>(consumed));
  }

  SourceReport report() const override { return at_.report; }
  void interrupt() override { at_.is_interrupted = true; }

 private:
  RowProgress at_;
};

}  // namespace

std::unique_ptr<SampleSource> make_row_train_source(RowTable table, const SourceConfig& config) {
  return std::make_unique<RowTrainSource>(std::move(table), config);
}

std::unique_ptr<SampleSource> make_row_eval_source(RowTable table, const SourceConfig& config) {
  return std::make_unique<RowEvalSource>(std::move(table), config);
}

}  // namespace lockstep::data
