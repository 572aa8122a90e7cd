#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/tokens/gpt_index.h"
#include "data/tokens/token_corpus.h"

namespace lockstep::data {

/// Stands in a sample for what the corpus no longer holds (the last sample of evaluation data).
inline constexpr int32_t kPaddingToken = -1;

/// Samples of one corpus. All members are const and thread safe.
class GptDataset {
 public:
  /// The index is taken from `cache`, or made there; without one in memory.
  GptDataset(std::shared_ptr<const TokenCorpus> corpus, const GptIndexConfig& config, ArrayCache* cache = nullptr);

  int64_t num_samples() const { return index_.num_samples(); }
  int64_t num_sequences() const { return corpus_->num_sequences(); }  ///< Of the corpus, beyond its split, too.
  const GptIndex& index() const { return index_; }
  /// Equal for the same sequences, cut alike, however many samples are made of them.
  const std::string& source_hash() const { return source_hash_; }
  /// Fills `out` (sequence_length + 1 tokens) with sample `k`; `piece_begins` gets the places in it where a sequence
  /// begins anew.
  void read(int64_t k, std::span<int32_t> out, std::vector<int32_t>& piece_begins) const;

 private:
  std::shared_ptr<const TokenCorpus> corpus_;
  GptIndex index_;
  std::string source_hash_;
};

/// Which of several data sets each sample comes from.
///
/// Sample i is taken from the set that lags most behind its weight; the counts are those of Megatron's blending index.
/// Two bytes per sample, none for one set: the number within a set is counted from the nearest mark.
class BlendIndex {
 public:
  struct Place {
    int64_t set = 0, sample = 0;
  };
  /// `num_samples` draws in proportion to `weights` (which sum to 1).
  static BlendIndex weighted(std::span<const double> weights, int64_t num_samples, ArrayCache* cache = nullptr);
  /// Each set as often as its size says, spread evenly.
  static BlendIndex exhaustive(std::span<const int64_t> sizes, ArrayCache* cache = nullptr);

  int64_t num_samples() const { return num_samples_; }
  /// DataError where the file of the index is damaged.
  Place operator[](int64_t sample) const;
  int64_t count_of(int64_t set) const { return counts_[static_cast<size_t>(set)]; }

 private:
  explicit BlendIndex(int64_t num_samples) : num_samples_(num_samples), counts_{num_samples} {}
  explicit BlendIndex(const Arrays& arrays);
  int64_t num_samples_ = 0;
  std::vector<int64_t> counts_;     ///< Per set, all samples.
  std::span<const uint16_t> sets_;  ///< Empty where there is one set.
  std::span<const int64_t> marks_;  ///< Per set, before every kMarkEvery-th sample.
  std::shared_ptr<const void> memory_;
};

enum class Split { kTrain = 0, kValid = 1, kTest = 2 };
inline constexpr size_t kNumSplits = 3;
const char* split_name(Split split);

/// Where the samples of a GPT run come from; the fields follow Megatron's flags.
struct GptDataConfig {
  std::vector<std::string> data_path = {};  ///< Prefixes, or weights and prefixes in turn; none: mock data.
  std::string split = "969, 30, 1";
  std::vector<std::string> path_of_split[kNumSplits] = {};  ///< Instead of data_path and split, one list each.
  int64_t sequence_length = 0;
  int64_t num_samples[kNumSplits] = {0, 0, 0};  ///< 0: each sample of the data once.
  uint32_t seed = 1234;
  int64_t vocab_size = 0;
  int32_t eod = 0;
  double surplus = 0.005;  ///< A blended set is built larger by this part.
  bool keeps_partial_validation = false;
  /// Of indices and of what check_token_ids finds; null: nothing is kept in files.
  std::shared_ptr<ArrayCache> cache = nullptr;
  double check_seconds = 20;  ///< See TokenIdCheck; of all corpora together.
  bool is_first_rank = true;
  int64_t memory_bytes = 0;  ///< That an index may take while it is made; 0: any.
};

/// Where indices lie unless the user says otherwise: cache/lockstep beside the first prefix; empty for mock data.
std::filesystem::path default_index_folder(const GptDataConfig& config);

/// Prefixes and, where given, weights. UsageError for a weight that is no number > 0.
struct Blend {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  ///< Empty: none given.
};
/// Weights as parts of 1, to the last bit as NumPy computes them.
std::vector<double> normalised_weights(std::span<const double> weights);
Blend parse_blend(std::span<const std::string> data_path);

/// The part [begin, end) of each split, "949,50,1" normalised. UsageError for anything else.
struct SplitBounds {
  double begin = 0, end = 0;
};
std::vector<SplitBounds> parse_splits(const std::string& text);

/// What samples are made of, in the words of the command line.
struct GptSampleOrigin {
  std::vector<std::string> prefixes = {};  ///< None: mock data.
  int64_t num_sequences = 0;               ///< Of all corpora and splits; GptSamples counts them.
  std::string split = {};                  ///< Without spaces; empty where the split has files of its own.
  int64_t sequence_length = 0;
  uint32_t seed = 0;
};

/// Samples of one split over all its corpora. All members are const and thread safe.
class GptSamples {
 public:
  GptSamples(std::vector<GptDataset> sets, BlendIndex blend, GptSampleOrigin origin);
  int64_t num_samples() const { return blend_.num_samples(); }
  void read(int64_t k, std::span<int32_t> out, std::vector<int32_t>& piece_begins) const;
  /// Equal on two machines when the samples are.
  std::string hash() const;
  /// Equal when the samples are of the same data, also in another number and so in another order.
  std::string source_hash() const;
  /// Says what has changed where source_hash() is another one.
  const GptSampleOrigin& origin() const { return origin_; }

 private:
  std::vector<GptDataset> sets_;
  BlendIndex blend_;
  GptSampleOrigin origin_;
};

/// The samples of one split; nullptr when the split has no share of the data.
std::unique_ptr<GptSamples> open_gpt_samples(const GptDataConfig& config, Split split);

/// What one split has of one corpus.
struct SplitSize {
  int64_t num_documents = 0, num_tokens = 0;
  double share = 1;  ///< Of the samples, by the weights or else by the tokens.
};
/// Of each corpus of a split, without reading tokens; none of mock data and of a split without a share. DataError where
/// files are missing or damaged.
std::vector<SplitSize> measure_split(const GptDataConfig& config, Split split);

}  // namespace lockstep::data
