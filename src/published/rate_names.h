#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::published {

/// What a rate counts.
enum class RateThing : uint8_t { kNone, kSamples, kTokens, kTflop, kSteps };
/// Whose rate it is.
enum class RateOf : uint8_t { kAll, kNode, kDevice };

/// What the name of a column, or a unit, says of a rate: "Throughput (k img/s)", "tokens/s/GPU", "samples per minute".
struct RateName {
  RateThing thing = RateThing::kNone;
  RateOf of = RateOf::kAll;
  double scale = 1;         ///< A value times this counts things (TFLOP of TFLOP/s) per second.
  bool has_period = false;  ///< It says in what time: "/s", "per minute".
  bool is_whole = true;     ///< No word of it means anything else.
};

/// A time of a thing ("ms per image", "Iteration (s)") is no period. Reads prefixes (k, M, "10^3", "thousands"),
/// things, periods (ms, s, min, h, day) and whose rate it is, in any order. Single letters are prefixes right before a
/// thing, behind the period, or alone in brackets.
RateName parse_rate_name(std::string_view name);

/// The name under which formulas over a table know such a rate: "samples_per_s", "tokens_per_s_per_gpu",
/// "tflops_per_gpu". Empty where the name is no rate, says more than that, or no formula knows it (steps, rates of a
/// node, TFLOP/s of all devices).
std::string known_rate(const RateName& rate);

}  // namespace lockstep::published
