#include "predict/told_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/characters.h"
#include "core/strings.h"

namespace lockstep::predict {
namespace {

/// One word of lower case, one number, or the end of a phrase (both empty).
struct Token {
  std::string word{};
  std::optional<double> number{};
  bool is_in_name = false;  ///< The number stands right behind a letter: "A100".
  bool is_break() const { return word.empty() && !number; }
};

using core::is_digit;
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

/// "1,536" and "2.5" at `at`; moves it behind the number.
double read_number(std::string_view text, size_t& at) {
  std::string digits;
  while (at < text.size()) {
    const bool is_inside = at + 1 < text.size() && is_digit(text[at + 1]) && !digits.empty();
    const bool is_thousands = text[at] == ',' && is_inside && at + 3 < text.size() && is_digit(text[at + 2]) &&
                              is_digit(text[at + 3]) && (at + 4 >= text.size() || !is_digit(text[at + 4]));
    if (is_digit(text[at]) || (text[at] == '.' && is_inside && digits.find('.') == std::string::npos))
      digits += text[at];
    else if (!is_thousands)
      break;
    ++at;
  }
  return core::parse_double(digits).value_or(0);
}

std::optional<double> scale_of(std::string_view word) {
  if (word == "k" || word == "thousand") return 1e3;
  if (word == "m" || word == "million") return 1e6;
  return std::nullopt;
}

/// A '/' is the word "per"; other signs part words, and those that end a phrase are kept as such.
std::vector<Token> tokens_of(std::string_view original) {
  const std::string text = core::to_lower_ascii(original);
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    if (is_digit(text[at])) {
      const bool is_in_name = at > 0 && is_letter(text[at - 1]);
      tokens.push_back({.number = read_number(text, at), .is_in_name = is_in_name});
    } else if (is_letter(text[at])) {
      size_t end = at;
      while (end < text.size() && is_letter(text[end])) ++end;
      std::string word = text.substr(at, end - at);
      at = end;
      const bool is_name = at < text.size() && is_digit(text[at]);  // of a device: "16 K80"
      const auto scale = is_name ? std::nullopt : scale_of(word);
      if (scale && !tokens.empty() && tokens.back().number)
        *tokens.back().number *= *scale;
      else
        tokens.push_back({.word = std::move(word)});
    } else {
      if (text[at] == '/') tokens.push_back({.word = "per"});
      const bool ends_phrase = text[at] == ',' || text[at] == ';' || text[at] == '|' ||
                               (text[at] == '.' && (at + 1 == text.size() || text[at + 1] == ' '));
      if (ends_phrase) tokens.emplace_back();
      ++at;
    }
  }
  return tokens;
}

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
bool is_device(const std::string& word) {
  return is_one_of(word, {"gpu", "gpus", "device", "gcd", "rank", "accelerator", "card", "chip"});
}
bool is_token_word(const std::string& word) { return is_one_of(word, {"token", "tokens", "tok"}); }
bool is_sample_word(const std::string& word) {
  return is_one_of(word, {"sequence", "sequences", "seqs", "sample", "samples", "image", "images", "pairs", "examples",
                          "sentences"});
}
/// Words between a thing and its number that say nothing of their own.
bool is_filler(const std::string& word) {
  return is_one_of(word, {"size", "sizes", "of", "is", "was", "at", "to", "fixed", "constant", "kept", "equals", "the",
                          "length", "len", "degree"});
}

enum class Whose { kUnsaid, kGlobal, kLocal, kMicro, kOther };
Whose whose_of(const std::string& word) {
  if (is_one_of(word, {"global", "total", "effective", "overall", "aggregate"})) return Whose::kGlobal;
  if (word == "local") return Whose::kLocal;
  if (word == "micro") return Whose::kMicro;
  return Whose::kUnsaid;
}

/// The batch that one mention tells.
struct Mention {
  double value = 0;
  bool is_tokens = false;
  Whose whose = Whose::kUnsaid;
};

class BatchReader {
 public:
  explicit BatchReader(std::string_view text) : tokens_(tokens_of(text)) {}

  std::vector<Mention> read() const {
    std::vector<Mention> mentions;
    for (size_t at = 0; at < tokens_.size(); ++at) {
      const std::string& word = tokens_[at].word;
      Whose whose = Whose::kUnsaid;
      if (word == "gbs")
        whose = Whose::kGlobal;
      else if (word == "lbs")
        whose = Whose::kLocal;
      else if (is_one_of(word, {"mbs", "microbatch"}))
        whose = Whose::kMicro;
      else if (!is_one_of(word, {"batch", "batchsize", "minibatch", "bs"}))
        continue;
      if (const auto mention = mention_at(at, whose)) mentions.push_back(*mention);
    }
    return mentions;
  }

 private:
  const Token* token(size_t at) const { return at < tokens_.size() ? &tokens_[at] : nullptr; }

  /// "per GPU", "a device", "on each rank" at `at`: whose that is.
  std::optional<Whose> owner_at(size_t at) const {
    if (at + 1 < tokens_.size() && tokens_[at].word == "on") ++at;
    if (at + 1 >= tokens_.size() || !is_one_of(tokens_[at].word, {"per", "a", "each"})) return std::nullopt;
    const std::string& word = tokens_[at + 1].word;
    if (is_device(word)) return Whose::kLocal;
    if (is_one_of(word, {"node", "replica", "worker", "group"})) return Whose::kOther;
    return std::nullopt;
  }

  std::optional<Mention> mention_at(size_t at, Whose whose) const {
    constexpr size_t kFarBefore = 3;
    for (size_t back = 1; back <= kFarBefore && back <= at && whose == Whose::kUnsaid; ++back) {
      const Token& before = tokens_[at - back];
      if (before.is_break() || is_one_of(before.word, {"size", "batch"})) break;
      whose = whose_of(before.word);
      if (is_device(before.word) && at > back && tokens_[at - back - 1].word == "per") whose = Whose::kLocal;
    }
    if (const auto behind = number_behind(at, whose)) return behind;
    return number_before(at, whose);
  }

  /// "batch size per GPU of 32", "batch (global): 4 million tokens"
  std::optional<Mention> number_behind(size_t at, Whose whose) const {
    for (size_t next = at + 1; const Token* one = token(next); ++next) {
      if (one->number) {
        Mention mention{.value = *one->number, .whose = whose};
        const Token* unit = token(++next);
        mention.is_tokens = unit != nullptr && is_token_word(unit->word);
        if (unit != nullptr && (mention.is_tokens || is_sample_word(unit->word))) ++next;
        if (const auto owner = owner_at(next); owner && whose != Whose::kMicro) mention.whose = *owner;
        return mention;
      }
      if (const auto owner = owner_at(next)) {
        if (whose != Whose::kMicro) whose = *owner;
        ++next;
      } else if (whose_of(one->word) != Whose::kUnsaid) {
        whose = whose_of(one->word);
      } else if (!is_filler(one->word)) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  /// "4M-token batch", "1536-sequence global batch"
  std::optional<Mention> number_before(size_t at, Whose whose) const {
    for (size_t back = at; back-- > 0;) {
      const Token& one = tokens_[back];
      if (one.number)
        return Mention{.value = *one.number, .is_tokens = is_token_word(tokens_[back + 1].word), .whose = whose};
      if (!is_token_word(one.word) && !is_sample_word(one.word) && whose_of(one.word) == Whose::kUnsaid)
        return std::nullopt;
    }
    return std::nullopt;
  }

  std::vector<Token> tokens_;
};

/// One number of several that agree; nothing where they do not.
class Agreed {
 public:
  void add(double value) {
    if (value_ && *value_ != value) is_doubtful_ = true;
    value_ = value;
  }
  std::optional<double> get() const { return is_doubtful_ ? std::nullopt : value_; }

 private:
  std::optional<double> value_{};
  bool is_doubtful_ = false;
};

/// Gbit/s of one card; "NDR200" and "HDR100" tell theirs.
std::optional<double> card_gbits(const std::vector<Token>& tokens, size_t at) {
  constexpr std::pair<std::string_view, double> kCards[] = {{"fdr", 56},  {"edr", 100}, {"hdr", 200},
                                                            {"ndr", 400}, {"xdr", 800}, {"slingshot", 200}};
  std::string_view word = tokens[at].word;
  if (word.size() > 1 && word.front() == 'x' && word != "xdr") word.remove_prefix(1);  // "8xHDR"
  for (const auto& [name, gbits] : kCards) {
    if (word != name) continue;
    const bool has_own = at + 1 < tokens.size() && tokens[at + 1].number && tokens[at + 1].is_in_name;
    return has_own && *tokens[at + 1].number >= 50 ? *tokens[at + 1].number : gbits;
  }
  return std::nullopt;
}
}  // namespace

ToldBatch told_batch(std::string_view text) {
  Agreed global_samples, global_tokens, local_samples, local_tokens, samples, tokens, micro;
  for (const Mention& mention : BatchReader(text).read()) {
    if (mention.value < 1) continue;
    switch (mention.whose) {
      case Whose::kGlobal: (mention.is_tokens ? global_tokens : global_samples).add(mention.value); break;
      case Whose::kLocal: (mention.is_tokens ? local_tokens : local_samples).add(mention.value); break;
      case Whose::kUnsaid: (mention.is_tokens ? tokens : samples).add(mention.value); break;
      case Whose::kMicro:
        if (!mention.is_tokens) micro.add(mention.value);
        break;
      case Whose::kOther: break;
    }
  }
  return {.global_samples = global_samples.get(),
          .global_tokens = global_tokens.get(),
          .local_samples = local_samples.get(),
          .local_tokens = local_tokens.get(),
          .samples = samples.get(),
          .tokens = tokens.get(),
          .micro_batch = micro.get()};
}

std::optional<int64_t> told_degree(std::string_view text, std::string_view word) {
  constexpr double kMost = 4096;
  const auto whole = [](const std::optional<double>& number) {
    return number && *number >= 1 && *number <= kMost && *number == std::floor(*number);
  };
  const auto says_nothing = [](const std::string& one) {
    return is_filler(one) || is_one_of(one, {"model", "parallel", "parallelism", "pipeline", "stages", "stage", "depth",
                                             "ways", "way", "ranks", "chunks"});
  };
  const std::vector<Token> tokens = tokens_of(text);
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at].word != word || (at + 1 < tokens.size() && is_one_of(tokens[at + 1].word, {"core", "cores"})))
      continue;
    if (word == "pipeline" && at > 0 && tokens[at - 1].word == "virtual") continue;
    size_t before = at;
    while (before > 0 && is_one_of(tokens[before - 1].word, {"way", "fold", "model"})) --before;
    if (before > 0 && whole(tokens[before - 1].number) && !tokens[before - 1].is_in_name)
      return static_cast<int64_t>(*tokens[before - 1].number);
    size_t next = at + 1;
    while (next < tokens.size() && says_nothing(tokens[next].word)) ++next;
    // "pipeline parallelism, 512 GPUs" ends its phrase before the number, "tensor parallel 8 GPUs" does not tell one.
    const bool counts_devices = next + 1 < tokens.size() && is_device(tokens[next + 1].word);
    if (next < tokens.size() && whole(tokens[next].number) && !counts_devices)
      return static_cast<int64_t>(*tokens[next].number);
  }
  return std::nullopt;
}

namespace {
std::optional<int64_t> whole_number(const Token& token, double least, double most) {
  if (!token.number || *token.number < least || *token.number > most || *token.number != std::floor(*token.number))
    return std::nullopt;
  return static_cast<int64_t>(*token.number);
}
}  // namespace

ToldExperts told_experts(std::string_view text) {
  constexpr double kMostExperts = 4096, kMostOfAToken = 64, kBillion = 1e9;
  // Of a model with one expert, what belongs to that expert.
  constexpr double kExpertShare = 0.75;
  const std::vector<Token> tokens = tokens_of(text);
  ToldExperts told;
  const auto word_at = [&](size_t at) { return at < tokens.size() ? std::string_view(tokens[at].word) : ""; };
  for (size_t at = 0; at < tokens.size(); ++at) {
    const Token& one = tokens[at];
    if (word_at(at) == "experts") {
      const bool has_kind = at > 1 && is_one_of(tokens[at - 1].word, {"routed", "local", "total"});
      const Token before = at > 0 ? tokens[has_kind ? at - 2 : at - 1] : Token{};
      const auto in_front = before.is_in_name ? std::nullopt : whole_number(before, 2, kMostExperts);
      const auto behind = at + 1 < tokens.size() ? whole_number(tokens[at + 1], 2, kMostExperts) : std::nullopt;
      if (in_front)
        told.num_experts = in_front;
      else if (behind)
        told.num_experts = behind;
    }
    if (is_one_of(one.word, {"top", "topk"})) {
      const size_t next = at + (word_at(at + 1) == "k" ? 2 : 1);
      if (next < tokens.size() && word_at(next + 1) != "accuracy" && word_at(next + 1) != "acc")
        if (const auto count = whole_number(tokens[next], 1, kMostOfAToken)) told.top_k = count;
    }
    const bool is_billions = one.number && word_at(at + 1) == "b";
    if (is_billions && one.is_in_name && at > 0 && tokens[at - 1].word == "a")
      told.active_parameters = *one.number * kBillion;
    if (is_billions && is_one_of(std::string(word_at(at + 2)), {"active", "activated"}))
      told.active_parameters = *one.number * kBillion;
    if (is_billions && at > 1 && tokens[at - 1].word == "x")
      if (const auto count = whole_number(tokens[at - 2], 2, kMostExperts)) {
        told.num_experts = count;
        told.parameters = *one.number * kBillion * (1 + kExpertShare * static_cast<double>(*count - 1));
      }
  }
  return told;
}

std::optional<double> told_sequence(std::string_view text) {
  const std::vector<Token> tokens = tokens_of(text);
  Agreed lengths;
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (!is_one_of(tokens[at].word, {"sequence", "sequences", "seq", "seqlen", "context"})) continue;
    size_t next = at + 1;
    while (next < tokens.size() && is_filler(tokens[next].word)) ++next;
    constexpr double kLeast = 32;
    if (next < tokens.size() && tokens[next].number && *tokens[next].number >= kLeast)
      lengths.add(*tokens[next].number);
  }
  return lengths.get();
}

namespace {
/// The letters that lower case would make alike: "100 Gb/s" are bits, and the "4X" of "4X EDR" counts lanes of a card.
std::string with_plain_rates(std::string_view given) {
  std::string text = core::replace_all(std::string(given), "Gb/sec", "gbps");
  text = core::replace_all(std::move(text), "Gb/s", "gbps");
  for (const char* kind : {"RoCE", "InfiniBand", "Ethernet", "EFA"})
    text = core::replace_all(std::move(text), fmt::format("Gb {}", kind), fmt::format("gbps {}", kind));
  for (const char* kind : {"FDR", "EDR", "HDR", "NDR"})
    text = core::replace_all(std::move(text), fmt::format("4X {}", kind), "4X");
  return core::replace_all(std::move(text), "*", " x ");
}
}  // namespace

std::optional<double> told_node_gbytes_per_s(std::string_view text) {
  constexpr double kMostCards = 16, kBitsPerByte = 8;
  const std::vector<Token> tokens = tokens_of(with_plain_rates(text));
  Agreed rates;
  for (size_t at = 1; at < tokens.size(); ++at) {
    const size_t before = tokens[at - 1].word == "x" && at > 1 ? at - 2 : at - 1;
    const auto& number = tokens[before].number;
    if (!number || tokens[before].is_in_name) continue;
    if (const auto gbits = card_gbits(tokens, at); gbits && *number <= kMostCards)
      rates.add(*number * *gbits / kBitsPerByte);
    if (!is_one_of(tokens[at].word, {"gbe", "gbps", "gbit"}) || *number < 1) continue;
    const size_t next =
        at + (at + 2 < tokens.size() && tokens[at].word == "gbit" && tokens[at + 1].word == "per" ? 3 : 1);
    const bool is_of_a_device =
        next + 1 < tokens.size() && is_one_of(tokens[next].word, {"per", "a"}) && is_device(tokens[next + 1].word);
    if (is_of_a_device) continue;
    // "8 x 400 Gbps": as many cards
    const bool has_cards = before > 1 && tokens[before - 1].word == "x" && tokens[before - 2].number &&
                           *tokens[before - 2].number <= kMostCards;
    rates.add((has_cards ? *tokens[before - 2].number : 1) * *number / kBitsPerByte);
  }
  return rates.get();
}

namespace {
/// Most words of a device's name between its number and what it counts.
constexpr size_t kMostNames = 6;
constexpr double kMostDevicesOfANode = 16;

bool is_node(const std::string& word) {
  return is_one_of(word, {"node", "server", "machine", "host", "instance", "box"});
}
bool is_gpu(const std::string& word) {
  return is_device(word) || is_one_of(word, {"gcds", "devices", "chips", "cards"});
}

/// Does a device's name begin at `at`: "V100", "Tesla V100", "NVIDIA A100", "MI250X", "K80 GPUs"?
bool is_device_name(const std::vector<Token>& tokens, size_t at) {
  while (at < tokens.size() && is_one_of(tokens[at].word, {"nvidia", "amd", "tesla", "instinct"})) ++at;
  return at + 1 < tokens.size() && tokens[at + 1].is_in_name &&
         is_one_of(tokens[at].word, {"a", "b", "gb", "gh", "h", "k", "l", "m", "mi", "p", "t", "v", "rtx"});
}

/// "per node", "a server", "/node" or "each" at `at`.
bool is_of_a_node(const std::vector<Token>& tokens, size_t at) {
  if (at < tokens.size() && tokens[at].word == "each") return true;
  return at + 1 < tokens.size() && is_one_of(tokens[at].word, {"per", "a", "in"}) && is_node(tokens[at + 1].word);
}

/// Is the number at `at` that of the devices of a node?
bool counts_devices_of_node(const std::vector<Token>& tokens, size_t at) {
  size_t next = at + 1;
  const bool has_times = next < tokens.size() && tokens[next].word == "x";
  if (has_times && is_device_name(tokens, next + 1)) return true;
  if (has_times) ++next;
  for (size_t names = 0; names < kMostNames && next < tokens.size() && !tokens[next].is_break(); ++names, ++next) {
    if (is_gpu(tokens[next].word)) return is_of_a_node(tokens, next + 1);
    if (tokens[next].number && !tokens[next].is_in_name) return false;  // the next number is nearer
  }
  return false;
}

/// "V100-SXM2-16GB x 8": the number stands behind the device's name.
bool follows_device_name(const std::vector<Token>& tokens, size_t at) {
  if (at < 2 || tokens[at - 1].word != "x") return false;
  for (size_t back = at - 1; back-- > 0 && at - back <= kMostNames + 2 && !tokens[back].is_break();)
    if (is_device_name(tokens, back)) return true;
  return false;
}
}  // namespace

std::optional<int64_t> told_devices_per_node(std::string_view text) {
  const std::vector<Token> tokens = tokens_of(text);
  std::optional<double> of_dgx;
  Agreed counts;
  for (size_t at = 0; at < tokens.size(); ++at) {
    const auto& number = tokens[at].number;
    const bool is_dgx = at > 0 && is_one_of(tokens[at - 1].word, {"dgx", "hgx"});
    if (is_dgx && number == 2) of_dgx = 16;
    if (is_dgx && (number == 1 || is_one_of(tokens[at].word, {"a", "b", "h"}))) of_dgx = 8;
    if (!number || tokens[at].is_in_name || is_dgx || *number < 1 || *number > kMostDevicesOfANode) continue;
    if (counts_devices_of_node(tokens, at) || follows_device_name(tokens, at)) counts.add(*number);
  }
  const auto count = counts.get() ? counts.get() : of_dgx;
  return count && *count == std::floor(*count) ? std::optional(static_cast<int64_t>(*count)) : std::nullopt;
}

}  // namespace lockstep::predict
