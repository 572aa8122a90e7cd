#include "data/tokens/gpt_index.h"

#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/hash.h"
#include "core/units.h"
#include "data/order/numpy_random.h"

namespace lockstep::data {
namespace {

/// Numbers that follow from the tokens of the split.
struct EpochPlan {
  int64_t epoch_tokens = 0, num_epochs = 1, num_samples = 0;
  int64_t num_early_samples = 0;  ///< Samples that end before the last epoch.
  bool is_last_apart = false;     ///< The last epoch is needed for less than 80 % and shuffled by itself.
};

EpochPlan plan_epochs(const GptIndexConfig& config, int64_t epoch_tokens) {
  const int64_t T = config.sequence_length;
  EpochPlan plan{.epoch_tokens = epoch_tokens};
  const int64_t wanted_tokens = config.num_samples * T + 1;
  if (config.num_samples > 0) plan.num_epochs = std::max<int64_t>(1, (wanted_tokens + epoch_tokens - 1) / epoch_tokens);
  const int64_t usable_tokens = plan.num_epochs * epoch_tokens - 1;
  plan.num_samples = config.keeps_partial ? (usable_tokens + T - 1) / T : usable_tokens / T;
  plan.num_early_samples = ((plan.num_epochs - 1) * epoch_tokens - 1) / T;
  if (plan.num_epochs > 1) {
    const int64_t epoch_samples = (epoch_tokens - 1) / T;
    // In double as the reference computes it.
    const auto threshold = static_cast<int64_t>(0.80 * static_cast<double>(epoch_samples));
    plan.is_last_apart = config.num_samples - plan.num_early_samples < threshold;
  }
  return plan;
}

std::vector<int32_t> order_sequences(const GptIndexConfig& config, const EpochPlan& plan, NumpyRandomState& random) {
  const int64_t epoch_size = config.last - config.first;
  std::vector<int32_t> order(static_cast<size_t>(epoch_size * plan.num_epochs));
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<int32_t>(config.first + static_cast<int64_t>(i) % epoch_size);
  const auto all = std::span(order);
  const size_t apart = plan.is_last_apart ? static_cast<size_t>(epoch_size) : 0;
  random.shuffle(all.first(all.size() - apart));
  random.shuffle(all.last(apart));
  return order;
}

/// Sample i begins at token i * T of the sequences laid end to end.
std::vector<SampleStart> cut_samples(const GptIndexConfig& config, const EpochPlan& plan,
                                     const std::vector<int32_t>& order,
                                     const std::function<int32_t(int64_t)>& length_of) {
  std::vector<SampleStart> starts(static_cast<size_t>(plan.num_samples) + 1);
  const int64_t last_token = plan.num_epochs * plan.epoch_tokens - 1;
  size_t next = 1;  // the first begins at the first sequence, be it empty
  int64_t begin = 0;
  for (uint32_t position = 0; position < order.size() && next < starts.size(); ++position) {
    const int64_t end = begin + length_of(order[position]);
    for (; next < starts.size(); ++next) {
      const int64_t token = std::min(static_cast<int64_t>(next) * config.sequence_length, last_token);
      if (token >= end) break;
      starts[next] = {position, static_cast<int32_t>(token - begin)};
    }
    begin = end;
  }
  LOCKSTEP_CHECK(next == starts.size(), "{} of {} samples found", next, starts.size());
  return starts;
}

struct IndexMemory {
  std::vector<int32_t> sequences;
  std::vector<SampleStart> starts;
  std::vector<uint32_t> shuffle;
};

std::string hash_of(const IndexMemory& memory) {
  core::Xxh3 hash;
  hash.update(std::as_bytes(std::span(memory.sequences)));
  hash.update(std::as_bytes(std::span(memory.starts)));
  hash.update(std::as_bytes(std::span(memory.shuffle)));
  return hash.hex();
}

std::vector<uint32_t> order_samples(const EpochPlan& plan, NumpyRandomState& random) {
  std::vector<uint32_t> order(static_cast<size_t>(plan.num_samples));
  std::iota(order.begin(), order.end(), 0u);
  const auto all = std::span(order);
  const size_t early = plan.is_last_apart ? static_cast<size_t>(plan.num_early_samples) : all.size();
  random.shuffle(all.first(early));
  random.shuffle(all.subspan(early));
  return order;
}

}  // namespace

Arrays GptIndex::arrays() const {
  return {.facts = {{"epochs", num_epochs}, {"hash", hash}},
          .parts = {std::as_bytes(sequences), std::as_bytes(starts), std::as_bytes(shuffle)},
          .memory = memory};
}

GptIndex GptIndex::of(const Arrays& arrays) {
  GptIndex index{.num_epochs = arrays.facts.at("epochs").get<int64_t>(),
                 .sequences = arrays.part_as<int32_t>(0),
                 .starts = arrays.part_as<SampleStart>(1),
                 .shuffle = arrays.part_as<uint32_t>(2),
                 .hash = arrays.facts.at("hash").get<std::string>(),
                 .memory = arrays.memory};
  LOCKSTEP_CHECK(index.starts.size() == index.shuffle.size() + 1, "{} starts of {} samples", index.starts.size(),
                 index.shuffle.size());
  return index;
}

namespace {

constexpr int64_t kMostSamples = std::numeric_limits<uint32_t>::max() - 1;  // the index numbers them in 32 bits

void refuse_too_many(int64_t num_samples, int64_t num_sequences, int64_t num_epochs) {
  if (num_samples <= kMostSamples && num_sequences <= kMostSamples / num_epochs) return;
  throw DataError(fmt::format("data: {} samples from {} sequences in {} epochs, expected at most {} of each",
                              num_samples, num_sequences, num_epochs, kMostSamples),
                  "shorten the run (--train-iters, --global-batch-size), or join short documents");
}

void refuse_beyond_memory(const GptIndexConfig& config, const EpochPlan& plan) {
  const double num_ordered = static_cast<double>(config.last - config.first) * static_cast<double>(plan.num_epochs);
  const double needed_bytes =
      num_ordered * sizeof(int32_t) + static_cast<double>(plan.num_samples) * (sizeof(SampleStart) + sizeof(uint32_t));
  if (config.memory_bytes == 0 || needed_bytes <= static_cast<double>(config.memory_bytes)) return;
  throw EnvironmentError(
      fmt::format("data: the index of {} samples ({} epochs of {} sequences) takes {} of memory, {} are free",
                  plan.num_samples, plan.num_epochs, config.last - config.first, core::format_bytes(needed_bytes),
                  core::format_bytes(static_cast<double>(config.memory_bytes))),
      "all samples of the run are put in order before it starts: give the steps that are to run now (--train-iters, "
      "--global-batch-size)");
}

}  // namespace

GptIndex build_gpt_index(const GptIndexConfig& config, const std::function<int32_t(int64_t)>& length_of) {
  LOCKSTEP_CHECK(
      config.sequence_length >= 1 && config.num_samples >= 0 && config.first >= 0 && config.first <= config.last,
      "T={} samples={} sequences [{}, {})", config.sequence_length, config.num_samples, config.first, config.last);
  int64_t epoch_tokens = 0;
  for (int64_t i = config.first; i < config.last; ++i) epoch_tokens += length_of(i);
  const int64_t least_tokens = config.keeps_partial || config.num_samples > 0 ? 2 : config.sequence_length + 1;
  if (epoch_tokens < least_tokens)
    throw DataError(fmt::format("data: {} tokens in {} sequences, expected at least {} for one sample", epoch_tokens,
                                config.last - config.first, least_tokens),
                    "use more data, another --split or a smaller --seq-length");
  refuse_too_many(config.num_samples, config.last - config.first, 1);  // before it is multiplied
  const EpochPlan plan = plan_epochs(config, epoch_tokens);
  refuse_too_many(plan.num_samples, config.last - config.first, plan.num_epochs);
  refuse_beyond_memory(config, plan);
  NumpyRandomState random(config.seed);
  const auto memory = std::make_shared<IndexMemory>();
  memory->sequences = order_sequences(config, plan, random);
  memory->starts = cut_samples(config, plan, memory->sequences, length_of);
  memory->shuffle = order_samples(plan, random);
  return {.num_epochs = plan.num_epochs,
          .sequences = memory->sequences,
          .starts = memory->starts,
          .shuffle = memory->shuffle,
          .hash = hash_of(*memory),
          .memory = memory};
}

}  // namespace lockstep::data
