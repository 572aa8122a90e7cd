#include "data/tokens/gpt_dataset.h"

#include <algorithm>

#include "core/error.h"
#include "core/hash.h"

namespace lockstep::data {

namespace {

/// Names the lengths of these sequences.
std::string hash_lengths(const TokenCorpus& corpus, const GptIndexConfig& config) {
  constexpr size_t kBlock = 1 << 14;
  core::Xxh3 hash;
  std::vector<int32_t> lengths;
  for (int64_t sequence = config.first; sequence < config.last; ++sequence) {
    lengths.push_back(corpus.length(sequence));
    if (lengths.size() < kBlock && sequence + 1 < config.last) continue;
    hash.update(std::as_bytes(std::span(lengths)));
    lengths.clear();
  }
  return hash.hex();
}

}  // namespace

GptDataset::GptDataset(std::shared_ptr<const TokenCorpus> corpus, const GptIndexConfig& config, ArrayCache* cache)
    : corpus_(std::move(corpus)) {
  source_hash_ = fmt::format("{} {} {} {} {}", hash_lengths(*corpus_, config), config.first, config.last,
                             config.sequence_length, config.seed);
  const auto build = [&] {
    return build_gpt_index(config, [this](int64_t sequence) { return corpus_->length(sequence); });
  };
  try {
    // The lengths are all that an index takes from the data: the key holds wherever the files lie.
    const std::string key =
        fmt::format("{} samples={} partial={}", source_hash_, config.num_samples, config.keeps_partial);
    index_ = cache != nullptr ? GptIndex::of(cache->get("samples", key, [&] { return build().arrays(); })) : build();
  } catch (const DataError& error) {
    throw DataError(fmt::format("{} ({})", error.what(), corpus_->name()), error.hint());
  }
}

void GptDataset::read(int64_t k, std::span<int32_t> out, std::vector<int32_t>& piece_begins) const {
  const auto check = [&](bool is_right) {  // the arrays may be of a file
    if (!is_right)
      throw DataError(
          fmt::format("data: the index of sample {} of {} does not fit '{}'", k, num_samples(), corpus_->name()),
          "its file in the cache of indices is damaged: remove it; the next start makes it again");
  };
  check(k >= 0 && k < num_samples());
  const uint32_t cut = index_.shuffle[static_cast<size_t>(k)];
  check(cut < num_samples());
  SampleStart at = index_.starts[cut];
  piece_begins.clear();
  size_t done = 0;
  for (; done < out.size() && at.position < index_.sequences.size(); at = {at.position + 1, 0}) {
    const int32_t sequence = index_.sequences[at.position];
    check(sequence >= 0 && sequence < corpus_->num_sequences() && at.offset >= 0 &&
          at.offset <= corpus_->length(sequence));
    const size_t count = std::min(static_cast<size_t>(corpus_->length(sequence) - at.offset), out.size() - done);
    if (count == 0) continue;
    piece_begins.push_back(static_cast<int32_t>(done));
    corpus_->read(sequence, at.offset, out.subspan(done, count));
    done += count;
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(done), out.end(), kPaddingToken);
}

GptSamples::GptSamples(std::vector<GptDataset> sets, BlendIndex blend, GptSampleOrigin origin)
    : sets_(std::move(sets)), blend_(std::move(blend)), origin_(std::move(origin)) {
  origin_.num_sequences = 0;
  for (const GptDataset& set : sets_) origin_.num_sequences += set.num_sequences();
}

void GptSamples::read(int64_t k, std::span<int32_t> out, std::vector<int32_t>& piece_begins) const {
  const BlendIndex::Place place = blend_[k];
  sets_[static_cast<size_t>(place.set)].read(place.sample, out, piece_begins);
}

std::string GptSamples::hash() const {
  std::string all;
  for (const GptDataset& set : sets_) all += set.index().hash;
  for (size_t set = 0; set < sets_.size(); ++set) all += fmt::format(" {}", blend_.count_of(static_cast<int64_t>(set)));
  return core::xxh3_hex(all);
}

std::string GptSamples::source_hash() const {
  std::string all;
  for (const GptDataset& set : sets_) all += set.source_hash() + "; ";
  return core::xxh3_hex(all);
}

}  // namespace lockstep::data
