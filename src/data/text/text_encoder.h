#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace lockstep::data {

/// Writes the token ids of a text, padding included, to all of `out`. Called in several threads at once; DataError for
/// text that it cannot take.
using TextEncoder = std::function<void(std::string_view utf8, std::span<int32_t> out)>;

}  // namespace lockstep::data
