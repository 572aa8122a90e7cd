#pragma once

namespace lockstep::core {

/// 0 to 9; no other decimal digit of Unicode.
constexpr bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }

}  // namespace lockstep::core
