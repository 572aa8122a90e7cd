#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "data/gpt_dataset.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMarkEvery = 1024;
constexpr size_t kMaxSets = 32767;  // set numbers have 16 bits in the reference, too

/// NumPy's order of adding: eight partial sums in blocks of 128, halves above. Weights must come out equal to the last bit.
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

GptIndexConfig index_config(const GptDataConfig& config, const SplitBounds& bounds, const TokenCorpus& corpus, Split split, int64_t num_samples) {
  const auto sequences = static_cast<double>(corpus.num_sequences());
  return {.first = static_cast<int64_t>(std::nearbyint(bounds.begin * sequences)),  // half to even
          .last = static_cast<int64_t>(std::nearbyint(bounds.end * sequences)),
          .sequence_length = config.sequence_length,
          .num_samples = num_samples,
          .seed = config.seed,
          .keeps_partial = split == Split::kValid && config.keeps_partial_validation};
}

}  // namespace

std::vector<double> normalised_weights(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> parts(weights.begin(), weights.end());
  for (double& part : parts) part /= sum;
  return parts;
}

void BlendIndex::add(size_t set) {
  if (sets_.size() % kMarkEvery == 0) marks_.insert(marks_.end(), counts_.begin(), counts_.end());
  sets_.push_back(static_cast<uint16_t>(set));
  ++counts_[set];
}

BlendIndex BlendIndex::weighted(std::span<const double> weights, int64_t num_samples) {
  LOCKSTEP_CHECK(!weights.empty() && weights.size() <= kMaxSets, "{} sets", weights.size());
  BlendIndex blend;
  blend.counts_.resize(weights.size());
  blend.sets_.reserve(static_cast<size_t>(num_samples));
  for (int64_t i = 0; i < num_samples; ++i) {
    const auto drawn = static_cast<double>(std::max<int64_t>(i, 1));
    size_t neediest = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t set = 0; set < weights.size(); ++set) {
      const double lag = weights[set] * drawn - static_cast<double>(blend.counts_[set]);
      if (lag > most) {
        most = lag;
        neediest = set;
      }
    }
    blend.add(neediest);
  }
  return blend;
}

BlendIndex BlendIndex::exhaustive(std::span<const int64_t> sizes) {
  LOCKSTEP_CHECK(!sizes.empty() && sizes.size() <= kMaxSets, "{} sets", sizes.size());
  BlendIndex blend;
  blend.counts_.resize(sizes.size());
  int64_t num_samples = 0;
  for (const int64_t size : sizes) num_samples += size;
  for (int64_t i = 0; i < num_samples; ++i) {
    const auto drawn = static_cast<double>(std::max<int64_t>(i, 1));
    size_t neediest = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t set = 0; set < sizes.size(); ++set) {
      if (blend.counts_[set] == sizes[set]) continue;
      const double weight = static_cast<double>(sizes[set]) / static_cast<double>(num_samples);
      const double lag = weight * drawn - static_cast<double>(blend.counts_[set]);
      if (lag > most) {
        most = lag;
        neediest = set;
      }
    }
    blend.add(neediest);
  }
  return blend;
}

BlendIndex::Place BlendIndex::operator[](int64_t sample) const {
  LOCKSTEP_CHECK(sample >= 0 && sample < num_samples(), "sample {} of {}", sample, num_samples());
  const uint16_t set = sets_[static_cast<size_t>(sample)];
  const int64_t mark = sample / kMarkEvery;
  const auto from = sets_.begin() + mark * kMarkEvery;
  const int64_t before = marks_[static_cast<size_t>(mark) * counts_.size() + set];
  return {set, before + std::count(from, sets_.begin() + sample, set)};
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
      throw UsageError(fmt::format("--data-path: weight '{}' of '{}', expected a number > 0", data_path[i], data_path[i + 1]),
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
      throw UsageError(fmt::format("--split '{}': '{}' is no share of the data", text, field), "expected up to three numbers, such as 969,30,1");
    shares.push_back(*share);
  }
  if (shares.size() > kNumSplits || !(numpy_sum(shares) > 0))
    throw UsageError(fmt::format("--split '{}': expected one to three shares that are not all 0", text), "such as 969,30,1");
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

GptDataset open_set(const GptDataConfig& config, const SplitBounds& bounds, std::shared_ptr<const TokenCorpus> corpus, Split split,
                    int64_t num_samples) {
  const GptIndexConfig index = index_config(config, bounds, *corpus, split, num_samples);
  return GptDataset(std::move(corpus), index);
}

/// Several corpora, or one with a weight.
std::unique_ptr<GptSamples> open_blend(const GptDataConfig& config, const Blend& blend, const SplitBounds& bounds, Split split) {
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
    sets.push_back(open_set(config, bounds, open_indexed_corpus(blend.prefixes[i], config.vocab_size), split, needed));
    sizes.push_back(sets.back().num_samples());
  }
  BlendIndex index;
  if (!weights.empty()) {
    index = BlendIndex::weighted(normalised_weights(weights), total);  // normalised twice, as in the reference
  } else if (wanted == 0) {
    index = BlendIndex::exhaustive(sizes);
  } else {
    int64_t all = 0;
    for (const int64_t size : sizes) all += size;
    index = BlendIndex::weighted(normalised_weights(std::vector<double>(sizes.begin(), sizes.end())), std::min(wanted, all));
  }
  for (size_t i = 0; i < sets.size(); ++i) {
    if (index.count_of(static_cast<int64_t>(i)) > sizes[i])
      throw DataError(fmt::format("data: the blend takes {} {} samples from '{}', which has {}", index.count_of(static_cast<int64_t>(i)),
                                  split_name(split), blend.prefixes[i], sizes[i]),
                      "raise --mid-level-dataset-surplus");
  }
  return std::make_unique<GptSamples>(std::move(sets), std::move(index));
}

}  // namespace

std::unique_ptr<GptSamples> open_gpt_samples(const GptDataConfig& config, Split split) {
  const auto number = static_cast<size_t>(split);
  const bool has_own_paths = std::any_of(std::begin(config.path_of_split), std::end(config.path_of_split), [](const auto& paths) { return !paths.empty(); });
  if (has_own_paths && !config.data_path.empty())
    throw UsageError("--data-path excludes --train-data-path and --valid-data-path", "give one or the other");
  const bool is_mock = !has_own_paths && config.data_path.empty();
  const std::vector<std::string>& paths = has_own_paths ? config.path_of_split[number] : config.data_path;
  if (!is_mock && paths.empty()) return nullptr;
  const SplitBounds bounds = has_own_paths ? SplitBounds{0, 1} : parse_splits(is_mock ? "1,1,1" : config.split)[number];
  if (bounds.end <= bounds.begin) return nullptr;
  const Blend blend = parse_blend(paths);
  if (blend.prefixes.size() > 1 || !blend.weights.empty()) return open_blend(config, blend, bounds, split);
  std::shared_ptr<const TokenCorpus> corpus =
      is_mock ? make_mock_corpus(config.vocab_size, config.eod) : open_indexed_corpus(blend.prefixes[0], config.vocab_size);
  std::vector<GptDataset> sets;
  sets.push_back(open_set(config, bounds, std::move(corpus), split, config.num_samples[number]));
  const int64_t one[] = {sets[0].num_samples()};
  return std::make_unique<GptSamples>(std::move(sets), BlendIndex::exhaustive(one));
}

}  // namespace lockstep::data
