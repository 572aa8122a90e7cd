#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "core/hash.h"
#include "core/strings.h"
#include "data/tokens/gpt_dataset.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMarkEvery = 1024;
constexpr size_t kMaxSets = 32767;  // set numbers have 16 bits in the reference, too

/// NumPy's order of adding: eight partial sums in blocks of 128, halves above. Weights must come out equal to the last
/// bit.
double numpy_sum(std::span<const double> values) {
  if (values.size() < 8) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }
  if (values.size() > 128) {
    const size_t half = values.size() / 2 / 8 * 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  double part[8];
  std::copy_n(values.begin(), 8, part);
  size_t i = 8;
  for (; i + 8 <= values.size(); i += 8)
    for (size_t j = 0; j < 8; ++j) part[j] += values[i + j];
  double sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  for (; i < values.size(); ++i) sum += values[i];
  return sum;
}

GptIndexConfig index_config(const GptDataConfig& config, const SplitBounds& bounds, const TokenCorpus& corpus,
                            Split split, int64_t num_samples) {
  const auto sequences = static_cast<double>(corpus.num_sequences());
  return {.first = static_cast<int64_t>(std::nearbyint(bounds.begin * sequences)),  // half to even
          .last = static_cast<int64_t>(std::nearbyint(bounds.end * sequences)),
          .sequence_length = config.sequence_length,
          .num_samples = num_samples,
          .seed = config.seed,
          .memory_bytes = config.memory_bytes,
          .keeps_partial = split == Split::kValid && config.keeps_partial_validation};
}

}  // namespace

std::vector<double> normalised_weights(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> parts(weights.begin(), weights.end());
  for (double& part : parts) part /= sum;
  return parts;
}

namespace {

/// Draws the set of each sample: that of the greatest lag behind its share of all draws so far.
struct BlendMemory {
  explicit BlendMemory(size_t num_sets) : counts(num_sets) {}

  void draw(std::span<const double> weights, int64_t num_samples, std::span<const int64_t> sizes) {
    sets.reserve(static_cast<size_t>(num_samples));
    for (int64_t i = 0; i < num_samples; ++i) {
      const auto drawn = static_cast<double>(std::max<int64_t>(i, 1));
      size_t neediest = 0;
      double most = -std::numeric_limits<double>::infinity();
      for (size_t set = 0; set < weights.size(); ++set) {
        if (!sizes.empty() && counts[set] == sizes[set]) continue;
        const double lag = weights[set] * drawn - static_cast<double>(counts[set]);
        if (lag > most) {
          most = lag;
          neediest = set;
        }
      }
      if (i % kMarkEvery == 0) marks.insert(marks.end(), counts.begin(), counts.end());
      sets.push_back(static_cast<uint16_t>(neediest));
      ++counts[neediest];
    }
  }

  std::vector<int64_t> counts;
  std::vector<uint16_t> sets;
  std::vector<int64_t> marks;
};

/// Sizes: after so many draws a set is exhausted; none: never.
Arrays blend_arrays(std::span<const double> weights, int64_t num_samples, std::span<const int64_t> sizes,
                    ArrayCache* cache) {
  LOCKSTEP_CHECK(weights.size() >= 2 && weights.size() <= kMaxSets, "{} sets", weights.size());
  const auto make = [&] {
    auto memory = std::make_shared<BlendMemory>(weights.size());
    memory->draw(weights, num_samples, sizes);
    return Arrays{.parts = {std::as_bytes(std::span(memory->counts)), std::as_bytes(std::span(memory->sets)),
                            std::as_bytes(std::span(memory->marks))},
                  .memory = memory};
  };
  if (cache == nullptr) return make();
  return cache->get("blend",
                    fmt::format("{} samples={} sizes={}", core::xxh3_hex(std::as_bytes(weights)), num_samples,
                                core::xxh3_hex(std::as_bytes(sizes))),
                    make);
}

}  // namespace

BlendIndex::BlendIndex(const Arrays& arrays)
    : sets_(arrays.part_as<uint16_t>(1)), marks_(arrays.part_as<int64_t>(2)), memory_(arrays.memory) {
  const auto counts = arrays.part_as<int64_t>(0);
  counts_.assign(counts.begin(), counts.end());
  num_samples_ = std::ssize(sets_);
}

BlendIndex BlendIndex::weighted(std::span<const double> weights, int64_t num_samples, ArrayCache* cache) {
  return weights.size() == 1 ? BlendIndex(num_samples) : BlendIndex(blend_arrays(weights, num_samples, {}, cache));
}

BlendIndex BlendIndex::exhaustive(std::span<const int64_t> sizes, ArrayCache* cache) {
  int64_t num_samples = 0;
  for (const int64_t size : sizes) num_samples += size;
  if (sizes.size() == 1) return BlendIndex(num_samples);
  std::vector<double> weights;
  for (const int64_t size : sizes) weights.push_back(static_cast<double>(size) / static_cast<double>(num_samples));
  return BlendIndex(blend_arrays(weights, num_samples, sizes, cache));
}

BlendIndex::Place BlendIndex::operator[](int64_t sample) const {
  LOCKSTEP_CHECK(sample >= 0 && sample < num_samples(), "sample {} of {}", sample, num_samples());
  if (sets_.empty()) return {0, sample};
  const uint16_t set = sets_[static_cast<size_t>(sample)];
  const int64_t mark = sample / kMarkEvery;
  const auto place = static_cast<size_t>(mark) * counts_.size() + set;
  if (set >= counts_.size() || place >= marks_.size())
    throw DataError(fmt::format("data: the blend takes sample {} from set {} of {}", sample, set, counts_.size()),
                    "its file in the cache of indices is damaged: remove it; the next start makes it again");
  const auto from = sets_.begin() + mark * kMarkEvery;
  return {set, marks_[place] + std::count(from, sets_.begin() + sample, set)};
}

const char* split_name(Split split) {
  constexpr const char* kNames[kNumSplits] = {"train", "valid", "test"};
  return kNames[static_cast<size_t>(split)];
}

Blend parse_blend(std::span<const std::string> data_path) {
  Blend blend;
  const bool may_be_pairs = data_path.size() % 2 == 0;
  for (size_t i = 0; may_be_pairs && i < data_path.size(); i += 2) {
    const std::optional<double> weight = core::parse_double(data_path[i]);
    if (!weight && i == 0) break;  // a list of prefixes
    if (!weight || !(*weight > 0) || !std::isfinite(*weight))
      throw UsageError(
          fmt::format("--data-path: weight '{}' of '{}', expected a number > 0", data_path[i], data_path[i + 1]),
          "give prefixes alone, or a weight before each");
    blend.weights.push_back(*weight);
    blend.prefixes.push_back(data_path[i + 1]);
  }
  if (blend.weights.empty()) blend.prefixes.assign(data_path.begin(), data_path.end());
  return blend;
}

std::vector<SplitBounds> parse_splits(const std::string& text) {
  std::vector<double> shares;
  for (const std::string& field : core::split(text, ",")) {
    const std::optional<double> share = core::parse_double(core::trim(field));
    if (!share || !(*share >= 0) || !std::isfinite(*share))
      throw UsageError(fmt::format("--split '{}': '{}' is no share of the data", text, field),
                       "expected up to three numbers, such as 969,30,1");
    shares.push_back(*share);
  }
  if (shares.size() > kNumSplits || !(numpy_sum(shares) > 0))
    throw UsageError(fmt::format("--split '{}': expected one to three shares that are not all 0", text),
                     "such as 969,30,1");
  shares.resize(kNumSplits, 0.0);
  shares = normalised_weights(shares);
  std::vector<SplitBounds> bounds;
  double begin = 0;
  for (const double share : shares) {
    bounds.push_back({begin, begin + share});
    begin += share;
  }
  return bounds;
}

namespace {

GptDataset open_set(const GptDataConfig& config, const SplitBounds& bounds, std::shared_ptr<const TokenCorpus> corpus,
                    Split split, int64_t num_samples) {
  const GptIndexConfig index = index_config(config, bounds, *corpus, split, num_samples);
  return GptDataset(std::move(corpus), index, config.cache.get());
}

std::unique_ptr<TokenCorpus> open_corpus(const GptDataConfig& config, const Blend& blend, size_t i, Split split) {
  std::optional<TokenIdCheck> check;
  if (split == Split::kTrain || config.data_path.empty())  // else the training split has tested the same files
    check = TokenIdCheck{.cache = config.cache,
                         .seconds = config.check_seconds / static_cast<double>(blend.prefixes.size()),
                         .is_first_rank = config.is_first_rank};
  return open_indexed_corpus(blend.prefixes[i], config.vocab_size, check);
}

/// Several corpora, or one with a weight.
std::unique_ptr<GptSamples> open_blend(const GptDataConfig& config, const Blend& blend, const SplitBounds& bounds,
                                       Split split, GptSampleOrigin origin) {
  const int64_t wanted = config.num_samples[static_cast<size_t>(split)];
  const std::vector<double> weights = normalised_weights(blend.weights);
  if (!weights.empty() && wanted == 0)
    throw UsageError(fmt::format("data: a blend with weights needs the number of {} samples", split_name(split)),
                     "leave the weights out to take every sample once");
  std::vector<GptDataset> sets;
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    int64_t needed = 0;
    if (!weights.empty()) {
      const double share = std::ceil(static_cast<double>(wanted) * weights[i]);
      total += static_cast<int64_t>(share);
      needed = static_cast<int64_t>(std::ceil(share * (1 + config.surplus)));
    }
    sets.push_back(open_set(config, bounds, open_corpus(config, blend, i, split), split, needed));
    sizes.push_back(sets.back().num_samples());
  }
  const BlendIndex index = [&] {
    if (!weights.empty())
      // normalised twice, as in the reference
      return BlendIndex::weighted(normalised_weights(weights), total, config.cache.get());
    if (wanted == 0) return BlendIndex::exhaustive(sizes, config.cache.get());
    const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    return BlendIndex::weighted(normalised_weights(std::vector<double>(sizes.begin(), sizes.end())),
                                std::min(wanted, all), config.cache.get());
  }();
  for (size_t i = 0; i < sets.size(); ++i) {
    if (index.count_of(static_cast<int64_t>(i)) > sizes[i])
      throw DataError(
          fmt::format("data: the blend takes {} {} samples from '{}', which has {}",
                      index.count_of(static_cast<int64_t>(i)), split_name(split), blend.prefixes[i], sizes[i]),
          "raise --mid-level-dataset-surplus");
  }
  return std::make_unique<GptSamples>(std::move(sets), index, std::move(origin));
}

/// Where the samples of a split come from; nothing where it has no share of the data.
struct SplitPart {
  bool is_mock;
  std::string shares;  ///< --split; empty where the split has files of its own.
  SplitBounds bounds;
  Blend blend;
};
std::optional<SplitPart> part_of(const GptDataConfig& config, Split split) {
  const auto number = static_cast<size_t>(split);
  const bool has_own_paths = std::any_of(std::begin(config.path_of_split), std::end(config.path_of_split),
                                         [](const auto& paths) { return !paths.empty(); });
  if (has_own_paths && !config.data_path.empty())
    throw UsageError("--data-path excludes --train-data-path and --valid-data-path", "give one or the other");
  const bool is_mock = !has_own_paths && config.data_path.empty();
  const std::vector<std::string>& paths = has_own_paths ? config.path_of_split[number] : config.data_path;
  if (!is_mock && paths.empty()) return std::nullopt;
  const std::string shares = has_own_paths ? "" : is_mock ? "1,1,1" : config.split;
  const SplitBounds bounds = has_own_paths ? SplitBounds{0, 1} : parse_splits(shares)[number];
  if (bounds.end <= bounds.begin) return std::nullopt;
  return SplitPart{.is_mock = is_mock, .shares = shares, .bounds = bounds, .blend = parse_blend(paths)};
}

}  // namespace

std::unique_ptr<GptSamples> open_gpt_samples(const GptDataConfig& config, Split split) {
  const auto number = static_cast<size_t>(split);
  const std::optional<SplitPart> part = part_of(config, split);
  if (!part) return nullptr;
  const auto& [is_mock, shares, bounds, blend] = *part;
  GptSampleOrigin origin{
      .prefixes = blend.prefixes, .split = shares, .sequence_length = config.sequence_length, .seed = config.seed};
  std::erase(origin.split, ' ');
  if (blend.prefixes.size() > 1 || !blend.weights.empty())
    return open_blend(config, blend, bounds, split, std::move(origin));
  std::shared_ptr<const TokenCorpus> corpus =
      is_mock ? make_mock_corpus(config.vocab_size, config.eod) : open_corpus(config, blend, 0, split);
  std::vector<GptDataset> sets;
  sets.push_back(open_set(config, bounds, std::move(corpus), split, config.num_samples[number]));
  const int64_t one[] = {sets[0].num_samples()};
  return std::make_unique<GptSamples>(std::move(sets), BlendIndex::exhaustive(one), std::move(origin));
}

std::vector<SplitSize> measure_split(const GptDataConfig& config, Split split) {
  const std::optional<SplitPart> part = part_of(config, split);
  if (!part || part->is_mock) return {};
  std::vector<SplitSize> sizes;
  int64_t num_tokens = 0;
  for (const std::string& prefix : part->blend.prefixes) {
    const auto corpus = open_indexed_corpus(prefix, config.vocab_size);
    const GptIndexConfig index = index_config(config, part->bounds, *corpus, split, 0);
    SplitSize& size = sizes.emplace_back(SplitSize{.num_documents = index.last - index.first});
    for (int64_t sequence = index.first; sequence < index.last; ++sequence) size.num_tokens += corpus->length(sequence);
    num_tokens += size.num_tokens;
  }
  const std::vector<double> weights = normalised_weights(part->blend.weights);
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i].share = !weights.empty() ? weights[i]
                     : num_tokens > 0 ? static_cast<double>(sizes[i].num_tokens) / static_cast<double>(num_tokens)
                                      : 1.0;
  return sizes;
}

std::filesystem::path default_index_folder(const GptDataConfig& config) {
  std::vector<std::string> paths = config.data_path;
  for (const auto& of_split : config.path_of_split)
    if (paths.empty()) paths = of_split;
  const Blend blend = parse_blend(paths);
  return blend.prefixes.empty() ? std::filesystem::path()
                                : std::filesystem::path(blend.prefixes.front()).parent_path() / "cache" / "lockstep";
}

}  // namespace lockstep::data
