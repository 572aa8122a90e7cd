#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::logs {

/// Is `word` one of `words`, which blanks part?
bool holds_word(std::string_view words, std::string_view word);

/// Seconds of a unit of time as a word of a plain name: 60 of "min"; 0 for other words.
double time_unit_s(std::string_view word);

/// A word of a header in lower case: of "avgStep time/iter (ms)" avg, step, time, per, iter and the bracketed ms. A '/'
/// is the word "per".
struct HeaderWord {
  std::string text{};
  bool is_in_brackets = false;
};
std::vector<HeaderWord> header_words(std::string_view header);

/// What a speed counts.
enum class Counted : uint8_t { kNone, kStep, kSample, kToken };
/// How it tells it.
enum class ToldSpeed : uint8_t {
  kNone,     ///< The header is no such thing, or has a word that means anything else.
  kTime,     ///< "Iteration (ms)", "s/it", "time per image": the time of one.
  kRate,     ///< "iterations/s"
  kUnclear,  ///< Either: "it_s", "Iterations (s)".
};
struct SpeedName {
  Counted counted = Counted::kNone;
  ToldSpeed told = ToldSpeed::kNone;
  double unit_s = 0;          ///< Of a time; 0: the header names no unit.
  bool is_of_device = false;  ///< "time per sample per GPU"
};

/// Times and rates of steps, and times of samples and tokens, by the words of a header in any order. Rates of samples
/// and tokens are left to others.
SpeedName read_speed_name(std::string_view header);

}  // namespace lockstep::logs
