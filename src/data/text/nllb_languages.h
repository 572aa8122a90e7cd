#pragma once
#include <span>
#include <string_view>

namespace lockstep::data {

/// Languages of NLLB-200 as FLORES-200 names them, in the order of their numbers in its tokenizer.
std::span<const std::string_view> nllb_languages();

}  // namespace lockstep::data
