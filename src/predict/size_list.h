#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::predict {

/// Sizes from a text: "16,32", "1-1024*2" (from 1, doubling, to 1024), "8-64+8" (in steps of 8), "4-7". Ascending, each
/// once. UsageError with the part that is wrong.
std::vector<int64_t> parse_sizes(const std::string& text);

}  // namespace lockstep::predict
