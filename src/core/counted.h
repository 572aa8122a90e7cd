#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::core {

/// "1 rank", "3 ranks"; with `plural` where that is no mere s: "1 class", "2 classes".
std::string counted(int64_t count, std::string_view singular, std::string_view plural = "");

}  // namespace lockstep::core
