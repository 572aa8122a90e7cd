#include "data/tokens/gpt_stream.h"

#include "core/error.h"
#include "core/join_first.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/order/position.h"

namespace lockstep::data {
namespace {

constexpr const char* kOrigin = "made_of";

core::Json to_json(const GptSampleOrigin& origin) {
  return {{"data", origin.prefixes.empty() ? "mock data" : core::join_first(origin.prefixes, 1)},
          {"documents", origin.num_sequences},
          {"split", origin.split},
          {"sequence_length", origin.sequence_length},
          {"seed", origin.seed}};
}

/// "--split was 9,1 and is 8,2; --seed was 1 and is 2": what sets the samples of a position apart from those here.
/// `saved` is of a file: an older one lacks it.
std::string changes_text(const core::Json& saved, const core::Json& now) {
  if (!saved.is_object()) return "data, split, seed or sequence length have changed";
  const auto text = [](const core::Json& origin, const char* key) {
    const auto value = origin.find(key);
    return value == origin.end() ? "not told" : value->is_string() ? value->get<std::string>() : value->dump();
  };
  std::vector<std::string> changes;
  for (const auto& [key, name] : {std::pair("split", "--split"), std::pair("sequence_length", "--seq-length"),
                                  std::pair("seed", "--seed"), std::pair("documents", "the number of documents")})
    if (text(saved, key) != text(now, key))
      changes.push_back(fmt::format("{} was {} and is {}", name, text(saved, key), text(now, key)));
  // The name alone says little, since data may move: it counts where documents changed or nothing else explains it.
  const bool are_documents_others = text(saved, "documents") != text(now, "documents");
  if (text(saved, "data") != text(now, "data") && (changes.empty() || are_documents_others))
    changes.push_back(fmt::format("the data were '{}' and are '{}'", text(saved, "data"), text(now, "data")));
  if (changes.empty())
    return fmt::format("the documents of '{}' have other lengths than when the checkpoint was saved",
                       text(now, "data"));
  return core::join(changes, "; ");
}

}  // namespace

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
  return {{"kind", "gpt"}, {"consumed_samples", consumed_samples_}, {"num_samples", samples_->num_samples()},
          {"hash", hash_}, {"source", samples_->source_hash()},     {kOrigin, to_json(samples_->origin())}};
}

void GptStream::seek(const core::Json& position) {
  const PositionReader reader(position, "gpt");
  if (reader.number<std::string>("source") != samples_->source_hash())
    throw DataError(fmt::format("data: cannot continue this stream: the samples are other ones: {}",
                                changes_text(position.value(kOrigin, core::Json()), to_json(samples_->origin()))),
                    "resume with the data and the data options that the checkpoint was written with");
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
