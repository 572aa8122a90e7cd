#include "data/text/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_set>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace lockstep::data {
namespace {

struct Word {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

/// A pair that may be merged next, with the words that held it when it was proposed.
struct Candidate {
  int64_t count = 0;
  int32_t left = 0, right = 0;
  std::vector<uint32_t> words;
  bool operator<(const Candidate& other) const {  // the queue hands out the greatest
    if (count != other.count) return count < other.count;
    return std::pair(left, right) > std::pair(other.left, other.right);
  }
};

/// Merging over word counts. The order of merges follows Hugging Face's trainer also where a token can be made in two
/// ways: then a pair may be proposed twice, each proposal with its own words, and its later rank counts.
class Trainer {
 public:
  explicit Trainer(const WordCounter::Counts& words, const BpeTrainConfig& config) : config_(config) {
    for (const std::string& token : config.special_tokens) {
      if (token.empty() || !add_token(token))
        throw UsageError(fmt::format("data: special token '{}' is empty or given twice", token));
    }
    add_bytes();
    if (num_tokens() > config.vocab_size)
      throw UsageError(fmt::format("data: a vocabulary of {} has no place for {} special tokens and 256 bytes",
                                   config.vocab_size, config.special_tokens.size()),
                       fmt::format("ask for at least {}", num_tokens()));
    take_words(words);
  }

  TrainedBpe train() {
    propose_all();
    while (num_tokens() < config_.vocab_size && !queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      const int64_t count = pair_counts_[bpe_pair_key(best.left, best.right)];
      if (best.count != count) {  // out of date
        best.count = count;
        queue_.push(std::move(best));
        continue;
      }
      if (count < 1 || count < config_.min_frequency) break;
      apply(best);
    }
    return result();
  }

 private:
  int64_t num_tokens() const { return static_cast<int64_t>(names_.size()); }

  bool add_token(const std::string& name) {
    const bool is_new = ids_.emplace(name, static_cast<int32_t>(names_.size())).second;
    if (is_new) names_.push_back(name);
    return is_new;
  }

  /// In the order of their spellings.
  void add_bytes() {
    std::vector<std::pair<std::string, int>> spellings;
    for (int byte = 0; byte < 256; ++byte)
      spellings.emplace_back(spell_bytes(std::string(1, static_cast<char>(byte))), byte);
    std::sort(spellings.begin(), spellings.end());
    for (const auto& [spelling, byte] : spellings) {
      add_token(spelling);
      byte_ids_[static_cast<size_t>(byte)] = ids_.at(spelling);
    }
  }

  void take_words(const WordCounter::Counts& words) {
    words_.reserve(words.size());
    for (const auto& [text, count] : words) {
      Word& word = words_.emplace_back();
      word.count = count;
      for (const char c : text) word.symbols.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    }
  }

  void propose_all() {
    std::unordered_map<uint64_t, std::vector<uint32_t>> places;
    for (uint32_t w = 0; w < words_.size(); ++w) {
      const std::vector<int32_t>& symbols = words_[w].symbols;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const uint64_t key = bpe_pair_key(symbols[i], symbols[i + 1]);
        pair_counts_[key] += words_[w].count;
        std::vector<uint32_t>& of_pair = places[key];
        if (of_pair.empty() || of_pair.back() != w) of_pair.push_back(w);
      }
    }
    propose(std::move(places));
  }

  void propose(std::unordered_map<uint64_t, std::vector<uint32_t>>&& places) {
    for (auto& [key, words] : places) {
      const int64_t count = pair_counts_[key];
      if (count > 0)
        queue_.push({count, static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xFFFFFFFF), std::move(words)});
    }
  }

  void apply(const Candidate& best) {
    const std::string name = names_[static_cast<size_t>(best.left)] + names_[static_cast<size_t>(best.right)];
    add_token(name);
    const int32_t merged = ids_.at(name);
    merges_.emplace_back(best.left, best.right);
    std::unordered_map<uint64_t, std::vector<uint32_t>> grown;
    for (const uint32_t w : best.words) merge_in(w, best, merged, grown);
    propose(std::move(grown));
    if (config_.on_progress && num_tokens() % 256 == 0) config_.on_progress(num_tokens());
  }

  void change(int32_t left, int32_t right, int64_t by) { pair_counts_[bpe_pair_key(left, right)] += by; }

  /// Merges the pair in one word and keeps the counts of its neighbours; `grown` collects the pairs that came up.
  void merge_in(uint32_t w, const Candidate& pair, int32_t merged,
                std::unordered_map<uint64_t, std::vector<uint32_t>>& grown) {
    std::vector<int32_t>& symbols = words_[w].symbols;
    const int64_t count = words_[w].count;
    const auto grow = [&](int32_t left, int32_t right) {
      change(left, right, count);
      std::vector<uint32_t>& of_pair = grown[bpe_pair_key(left, right)];
      if (of_pair.empty() || of_pair.back() != w) of_pair.push_back(w);
    };
    size_t kept = 0;
    for (size_t i = 0; i < symbols.size(); ++i) {
      const bool is_pair = symbols[i] == pair.left && i + 1 < symbols.size() && symbols[i + 1] == pair.right;
      if (!is_pair) {
        symbols[kept++] = symbols[i];
        continue;
      }
      if (kept > 0) {
        change(symbols[kept - 1], pair.left, -count);
        grow(symbols[kept - 1], merged);
      }
      ++i;
      if (i + 1 < symbols.size()) {
        change(pair.right, symbols[i + 1], -count);
        grow(merged, symbols[i + 1]);
      }
      symbols[kept++] = merged;
    }
    symbols.resize(kept);
  }

  TrainedBpe result() const {
    TrainedBpe trained{config_.special_tokens, names_, {}};
    std::set<std::pair<int32_t, int32_t>> seen;  // of a pair that was merged twice the later rank counts
    for (auto merge = merges_.rbegin(); merge != merges_.rend(); ++merge) {
      if (!seen.insert(*merge).second) continue;
      trained.merges.emplace_back(names_[static_cast<size_t>(merge->first)],
                                  names_[static_cast<size_t>(merge->second)]);
    }
    std::reverse(trained.merges.begin(), trained.merges.end());
    return trained;
  }

  const BpeTrainConfig& config_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> ids_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<Word> words_;
  std::unordered_map<uint64_t, int64_t> pair_counts_;
  std::priority_queue<Candidate> queue_;
  std::vector<std::pair<int32_t, int32_t>> merges_;
};

core::Json byte_level(bool uses_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", uses_regex}};
}

core::Json tokenizer_json(const TrainedBpe& trained, const std::string& pattern) {
  core::Json added = core::Json::array(), merges = core::Json::array();
  for (size_t id = 0; id < trained.special_tokens.size(); ++id) {
    added.push_back({{"id", id},
                     {"content", trained.special_tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  for (const auto& [left, right] : trained.merges) merges.push_back({left, right});
  const core::Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const core::Json pre_tokenizer =
      pattern == kGpt2Pattern ? byte_level(true)
                              : core::Json{{"type", "Sequence"}, {"pretokenizers", {split, byte_level(false)}}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer},
          {"post_processor", nullptr},
          {"decoder", byte_level(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", nullptr},
            {"merges", merges}}}};
}

/// {"token": id, ...} in the order of ids; an ordered JSON object would take time quadratic in the vocabulary.
std::string vocab_text(const TrainedBpe& trained) {
  std::string text = "{";
  for (size_t id = 0; id < trained.vocab.size(); ++id)
    text += fmt::format("{}{}:{}", id == 0 ? "" : ",", core::Json(trained.vocab[id]).dump(), id);
  return text + "}";
}

}  // namespace

WordCounter::WordCounter(const std::string& pattern)
    : pattern_(pattern_from_oniguruma(pattern), TextPattern::Case::kSensitive, TextPattern::Input::kBytes) {}

void WordCounter::add_word(std::string_view word, int64_t count) {
  const auto found = counts_.find(word);
  if (found != counts_.end()) {
    found->second += count;
  } else {
    counts_.emplace(word, count);
  }
}

void WordCounter::add(std::string_view text) {
  TextPattern::Scan scan(pattern_, text);
  size_t done = 0;
  for (TextPattern::Match match; scan.next(match); done = match.end) {
    if (done < match.begin) add_word(text.substr(done, match.begin - done), 1);
    add_word(text.substr(match.begin, match.end - match.begin), 1);
  }
  if (done < text.size()) add_word(text.substr(done), 1);
}

void WordCounter::merge(const WordCounter& other) {
  for (const auto& [word, count] : other.counts_) add_word(word, count);
}

TrainedBpe train_bpe(const WordCounter::Counts& words, const BpeTrainConfig& config) {
  return Trainer(words, config).train();
}

void write_trained_bpe(const TrainedBpe& trained, const std::string& pattern, const std::filesystem::path& folder) {
  std::error_code ignored;  // what fails here fails with its reason below
  std::filesystem::create_directories(folder, ignored);
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : trained.merges) merges += fmt::format("{} {}\n", left, right);
  const std::string vocab = vocab_text(trained);
  core::write_file_atomic(folder / "vocab.json", vocab);
  core::write_file_atomic(folder / "merges.txt", merges);
  std::string json = tokenizer_json(trained, pattern).dump();
  constexpr std::string_view kPlace = "\"vocab\":null";
  json.replace(json.find(kPlace), kPlace.size(), "\"vocab\":" + vocab);
  core::write_file_atomic(folder / "tokenizer.json", json);
}

}  // namespace lockstep::data
