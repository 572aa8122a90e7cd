#include "published/rate_names.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/csv_table.h"
#include "core/strings.h"
#include "logs/speed_names.h"

namespace lockstep::published {
namespace {

using logs::holds_word;

/// A thing, and how many of its known unit one of it is: "pflop" -> 1000 TFLOP.
struct Thing {
  RateThing thing = RateThing::kNone;
  double scale = 1;
  bool has_period = false;  ///< "tflops" may be TFLOP per second.
};

Thing thing_of(std::string_view word) {
  if (holds_word(
          "samples sample images image imgs img sequences sequence seqs seq pairs pair examples example sentences "
          "sentence clips clip pictures picture",
          word))
    return {RateThing::kSamples};
  if (holds_word("tokens token toks tok", word)) return {RateThing::kTokens};
  if (holds_word("steps step iterations iteration iters iter its it batches", word)) return {RateThing::kSteps};
  for (const auto& [prefix, scale] : {std::pair<std::string_view, double>{"t", 1},
                                      {"tera", 1},
                                      {"p", 1e3},
                                      {"peta", 1e3},
                                      {"g", 1e-3},
                                      {"giga", 1e-3}})
    if (core::starts_with(word, prefix) && holds_word("flop flops", word.substr(prefix.size())))
      return {RateThing::kTflop, scale, word.back() == 's'};
  return {};
}

/// "kimg", "ktokens", "mtok": a prefix that is written together with its thing.
Thing prefixed_thing_of(std::string_view word) {
  if (word.size() < 4 || (word.front() != 'k' && word.front() != 'm')) return {};
  const Thing thing = thing_of(word.substr(1));
  if (thing.thing != RateThing::kSamples && thing.thing != RateThing::kTokens) return {};
  return {thing.thing, word.front() == 'k' ? 1e3 : 1e6};
}

std::optional<double> prefix_of(std::string_view word) {
  if (holds_word("thousand thousands kilo x1000 1e3", word)) return 1e3;
  if (holds_word("million millions mega mio 1e6", word)) return 1e6;
  if (holds_word("billion billions 1e9", word)) return 1e9;
  return std::nullopt;
}

std::optional<double> seconds_of(std::string_view word) {
  if (holds_word("s sec secs second seconds", word)) return 1;
  if (holds_word("ms millisecond milliseconds", word)) return 1e-3;
  if (holds_word("min mins minute minutes", word)) return 60;
  if (holds_word("h hr hrs hour hours", word)) return 3600;
  if (holds_word("d day days", word)) return 86400;
  return std::nullopt;
}

bool is_filler(std::string_view word) {
  return holds_word(
      "per a of in the throughput rate total aggregate aggregated global average avg mean median training train speed "
      "overall measured performance processing processed cluster all",
      word);
}

/// The words, with powers of ten and bracketed letters spelled out.
std::vector<std::string> words_of(std::string_view name) {
  std::string text = core::to_lower_ascii(name);
  constexpr std::pair<const char*, const char*> kSpelled[] = {{"10^3", " thousand "},
                                                              {"10**3", " thousand "},
                                                              {"10\xc2\xb3", " thousand "},
                                                              {"10^6", " million "},
                                                              {"10**6", " million "},
                                                              {"10^9", " billion "},
                                                              {"10\xe2\x81\xb6", " million "},
                                                              {"(k)", " thousand "},
                                                              {"[k]", " thousand "},
                                                              {"(m)", " million "},
                                                              {"[m]", " million "},
                                                              {"(k ", " thousand "},
                                                              {"[k ", " thousand "},
                                                              {"(m ", " million "},
                                                              {"[m ", " million "}};
  for (const auto& [sign, word] : kSpelled) text = core::replace_all(text, sign, word);
  const std::string plain = core::plain_name(text);
  return plain.empty() ? std::vector<std::string>() : core::split(plain, "_");
}

/// A single letter that is a prefix by its place: right before a thing, or last behind the period.
double letter_prefix(const std::vector<std::string>& words, size_t at, bool has_period) {
  if (words[at] != "k" && words[at] != "m") return 0;
  const bool is_before = at + 1 < words.size() && thing_of(words[at + 1]).thing != RateThing::kNone;
  const bool is_behind = at + 1 == words.size() && has_period;
  return !is_before && !is_behind ? 0 : words[at] == "k" ? 1e3 : 1e6;
}
}  // namespace

RateName parse_rate_name(std::string_view name) {
  RateName rate;
  const std::vector<std::string> words = words_of(name);
  const logs::ToldSpeed told = logs::read_speed_name(name).told;
  const bool may_be_time = told == logs::ToldSpeed::kTime || told == logs::ToldSpeed::kUnclear;
  double letters = 1, period_s = 1;
  for (size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    Thing thing = thing_of(word);
    if (thing.thing == RateThing::kNone) thing = prefixed_thing_of(word);
    if (thing.thing != RateThing::kNone && rate.thing == RateThing::kNone) {
      rate.thing = thing.thing;
      rate.scale *= thing.scale;
      rate.has_period = rate.has_period || thing.has_period;
    } else if (const auto prefix = prefix_of(word)) {
      rate.scale *= *prefix;
    } else if (const double letter = letter_prefix(words, at, rate.has_period); letter > 0) {
      letters *= letter;
    } else if (const auto seconds = seconds_of(word); seconds && rate.thing != RateThing::kNone && period_s == 1) {
      if (may_be_time) continue;
      period_s = *seconds;
      rate.has_period = true;
    } else if (word == "node") {
      rate.of = RateOf::kNode;
    } else if (holds_word("gpu device gcd chip accelerator rank card tpu", word)) {
      rate.of = RateOf::kDevice;
    } else if (!is_filler(word)) {
      rate.is_whole = false;
    }
  }
  rate.scale *= (rate.is_whole ? letters : 1) / period_s;  // beside other words a letter may be part of a name: "ViT M"
  return rate;
}

std::string known_rate(const RateName& rate) {
  if (!rate.is_whole || !rate.has_period || rate.of == RateOf::kNode) return {};
  const bool is_of_device = rate.of == RateOf::kDevice;
  switch (rate.thing) {
    case RateThing::kSamples: return is_of_device ? "samples_per_s_per_gpu" : "samples_per_s";
    case RateThing::kTokens: return is_of_device ? "tokens_per_s_per_gpu" : "tokens_per_s";
    case RateThing::kTflop: return is_of_device ? "tflops_per_gpu" : "";
    case RateThing::kSteps:
    case RateThing::kNone: return {};
  }
  return {};
}

}  // namespace lockstep::published
