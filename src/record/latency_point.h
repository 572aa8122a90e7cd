#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>

namespace lockstep::record {

/// One measured latency (`bench latency`), or one that a table tells. Times in ms; NaN: the source does not tell.
struct LatencyPoint {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::string program = "lockstep";  ///< "TensorRT" and the like in tables of others.
  std::string model{}, precision{};
  std::string from{}, tower{};  ///< Where a call begins and what it computes, as `bench latency` calls them.
  int64_t batch = 0, text_tokens = 0;
  double p50_ms = kNone, p50_low_ms = kNone, p50_high_ms = kNone, p90_ms = kNone, p99_ms = kNone;
  double per_s = kNone, tokens_per_s = kNone, first_ms = kNone;
  std::map<std::string, double> stages_ms{};
};

}  // namespace lockstep::record
