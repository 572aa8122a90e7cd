#include "data/tokens/gpt_stream.h"

#include "core/error.h"
#include "core/log.h"
#include "data/order/position.h"

namespace lockstep::data {

GptStream::GptStream(std::shared_ptr<const GptSamples> samples, const GptStreamConfig& config)
    : samples_(std::move(samples)), config_(config), hash_(samples_->hash()) {
  LOCKSTEP_CHECK(config.micro_batch_size >= 1 && config.data_rank >= 0 && config.data_rank < config.data_size,
                 "B={} data rank {} of {}", config.micro_batch_size, config.data_rank, config.data_size);
  const DocumentRules& rules = config.rules;
  LOCKSTEP_CHECK(rules.eod >= 0 || !(rules.reset_position_ids || rules.reset_attention_mask || rules.eod_mask_loss),
                 "eod={}", rules.eod);
  tokens_.resize(static_cast<size_t>(config.sequence_length) + 1);
}

void GptStream::next(TokenBatch& batch) {
  batch.clear(config_.sequence_length);
  const int64_t window = config_.micro_batch_size * config_.data_size;
  if (consumed_samples_ + window > samples_->num_samples()) return;
  for (int64_t i = 0; i < config_.micro_batch_size; ++i) {
    const int64_t sample = consumed_samples_ + config_.data_rank * config_.micro_batch_size + i;
    samples_->read(sample, tokens_, piece_begins_);
    batch.add(tokens_, piece_begins_, config_.rules, sample);
  }
  consumed_samples_ += window;
}

core::Json GptStream::position() const {
  return {{"kind", "gpt"},
          {"consumed_samples", consumed_samples_},
          {"num_samples", samples_->num_samples()},
          {"hash", hash_},
          {"source", samples_->source_hash()}};
}

void GptStream::seek(const core::Json& position) {
  const PositionReader reader(position, "gpt");
  reader.expect("source", samples_->source_hash(),
                "the samples are other ones: data, split, seed or sequence length have changed");
  if (reader.number<std::string>("hash") != hash_ && config_.data_rank == 0)
    core::log_warning(
        "data: {} samples instead of {} are made of the same data now, which puts them into another order: going on "
        "behind as many of them as were taken",
        samples_->num_samples(), reader.number<int64_t>("num_samples"));
  const auto consumed = reader.number<int64_t>("consumed_samples");
  if (consumed < 0 || consumed > samples_->num_samples())
    throw DataError(fmt::format("data: cannot continue this stream: consumed_samples={}, expected 0 to {}", consumed,
                                samples_->num_samples()));
  consumed_samples_ = consumed;
}

}  // namespace lockstep::data
