#include "logs/speed_names.h"

#include <algorithm>
#include <optional>

#include "core/characters.h"
#include "core/strings.h"

namespace lockstep::logs {
namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

struct Thing {
  Counted counted = Counted::kNone;
  bool is_plural = false;
};

Thing thing_of(std::string_view word) {
  if (holds_word("step iteration iter itr it batch minibatch update", word)) return {Counted::kStep};
  if (holds_word("steps iterations iters itrs its batches minibatches updates", word)) return {Counted::kStep, true};
  if (holds_word("sample image img sequence seq pair example sentence clip picture", word)) return {Counted::kSample};
  if (holds_word("samples images imgs sequences seqs pairs examples sentences clips pictures", word))
    return {Counted::kSample, true};
  if (holds_word("token tok", word)) return {Counted::kToken};
  if (holds_word("tokens toks", word)) return {Counted::kToken, true};
  return {};
}

bool is_time_word(std::string_view word) {
  return holds_word("time times timing timings duration durations latency walltime wallclock runtime elapsed", word);
}

bool is_filler(std::string_view word) {
  return holds_word(
      "a an one each single the of in to for taken avg average mean median p50 train training wall clock global "
      "optimizer optimiser mini full whole total overall measured steady state end e2e speed throughput rate "
      "performance our ours",
      word);
}

double unit_of(std::string_view word) {
  if (holds_word("us usec usecs microsecond microseconds", word)) return 1e-6;
  if (holds_word("msec msecs millis millisecond milliseconds", word)) return 1e-3;
  return holds_word("d day days", word) ? 0 : time_unit_s(word);
}

/// "itertime", "stepduration" -> two words.
std::optional<size_t> joined_at(std::string_view word) {
  for (const std::string_view end : {"time", "duration", "latency"})
    if (word.size() > end.size() && core::ends_with(word, end) &&
        thing_of(word.substr(0, word.size() - end.size())).counted != Counted::kNone)
      return word.size() - end.size();
  return std::nullopt;
}

/// Places of the words that tell a speed; nothing where there is another word, or two of one sort.
struct Places {
  std::optional<size_t> thing{}, unit{};
  bool has_time = false, is_of_device = false;
};
std::optional<Places> places_of(const std::vector<HeaderWord>& words) {
  Places places;
  for (size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    const bool is_owner = holds_word("gpu device gcd chip accelerator rank card tpu", word);
    if (thing_of(word).counted != Counted::kNone) {
      // "global batch step", "training step iteration" would be two.
      if (places.thing) return std::nullopt;
      places.thing = at;
    } else if (unit_of(word) > 0) {
      if (places.unit) return std::nullopt;
      places.unit = at;
    } else if (is_time_word(word)) {
      places.has_time = true;
    } else if (is_owner && at > 0 && words[at - 1].text == "per") {
      places.is_of_device = true;
    } else if (word != "per" && !is_filler(word)) {
      return std::nullopt;
    }
  }
  return places;
}

/// How a unit behind its thing is meant.
ToldSpeed told_behind(const std::vector<HeaderWord>& words, const Places& places) {
  constexpr double kShortest = 1;  // nobody counts steps in a millisecond
  const size_t unit = *places.unit, thing = *places.thing;
  if (places.has_time) return ToldSpeed::kTime;  // "step time / s" names a unit
  const double unit_s = unit_of(words[unit].text);
  if (words[unit - 1].text == "per") return unit_s < kShortest ? ToldSpeed::kUnclear : ToldSpeed::kRate;
  const bool is_bracketed = words[unit].is_in_brackets && !words[thing].is_in_brackets;
  if (unit_s < kShortest) return ToldSpeed::kTime;
  const auto [counted, is_plural] = thing_of(words[thing].text);
  if (is_plural) return is_bracketed ? ToldSpeed::kUnclear : ToldSpeed::kRate;
  if (counted != Counted::kStep && !is_bracketed) return ToldSpeed::kRate;  // "img_s"
  return words[thing].text != "it" || is_bracketed ? ToldSpeed::kTime : ToldSpeed::kUnclear;
}
}  // namespace

bool holds_word(std::string_view words, std::string_view word) {
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

double time_unit_s(std::string_view word) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (word == "ms") return 1e-3;
  if (holds_word("s sec secs second seconds hms", word)) return 1;
  if (holds_word("min mins minute minutes", word)) return kMinute;
  if (holds_word("h hr hrs hour hours", word)) return kHour;
  return holds_word("d day days", word) ? kDay : 0;
}

std::vector<HeaderWord> header_words(std::string_view header) {
  std::vector<HeaderWord> words;
  bool is_new = true, is_in_brackets = false;
  for (size_t at = 0; at < header.size(); ++at) {
    const char sign = header[at];
    const bool is_word = is_lower(sign) || is_upper(sign) || core::is_digit(sign);
    if (sign == '/') words.push_back({"per", is_in_brackets});
    if (sign == '(' || sign == '[' || sign == '{') is_in_brackets = true;
    if (sign == ')' || sign == ']' || sign == '}') is_in_brackets = false;
    if (!is_word) {
      is_new = true;
      continue;
    }
    const bool is_camel = at > 0 && is_lower(header[at - 1]) && is_upper(sign);
    if (is_new || is_camel) words.push_back({"", is_in_brackets});
    words.back().text += core::to_lower_ascii(header.substr(at, 1));
    is_new = false;
  }
  for (size_t at = 0; at < words.size(); ++at)
    if (const auto part = joined_at(words[at].text)) {
      const HeaderWord end{words[at].text.substr(*part), words[at].is_in_brackets};
      words[at].text.resize(*part);
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, end);
    }
  return words;
}

SpeedName read_speed_name(std::string_view header) {
  const std::vector<HeaderWord> words = header_words(header);
  const auto places = places_of(words);
  if (!places || !places->thing) return {};
  SpeedName name{.counted = thing_of(words[*places->thing].text).counted, .is_of_device = places->is_of_device};
  if (places->unit) {
    const bool is_behind = *places->unit > *places->thing;
    name.told = is_behind ? told_behind(words, *places) : ToldSpeed::kTime;
    if (name.told == ToldSpeed::kTime) name.unit_s = unit_of(words[*places->unit].text);
  } else if (places->has_time) {
    const bool is_of_simulation = words.size() == 2 && words[0].text == "time";  // "time step" may count them
    const bool is_count = thing_of(words[*places->thing].text).is_plural && words.back().text != "time";
    name.told = is_of_simulation || is_count ? ToldSpeed::kNone : ToldSpeed::kTime;
  }
  const bool is_other_rate = name.counted != Counted::kStep && name.told != ToldSpeed::kTime;
  if (name.told == ToldSpeed::kNone || is_other_rate) return {};
  return name;
}

}  // namespace lockstep::logs
