#pragma once
#include <string>
#include <string_view>

namespace lockstep::data {

/// OpenCLIP's cleanings of a caption, by its names.
enum class TextCleaning {
  kLower,       ///< "lower": CLIP's default.
  kWhiteSpace,  ///< "whitespace": letters keep their case. The default of other tokenizers.
  kCanonical,   ///< "canonicalize": without ASCII punctuation, "_" a space, then lower case.
};

/// Cleans a caption as OpenCLIP 3.3.0 does: the repairs of ftfy.fix_text 6.3.1, HTML character references resolved
/// twice, white space runs to one space, none at the ends, then what `cleaning` says (docs/tokenizer.md). Throws
/// DataError when the bytes are not UTF-8 (OpenCLIP skips such a sample) or when repairs do not come to an end. Thread
/// safe.
std::string clean_text(std::string_view utf8, TextCleaning cleaning = TextCleaning::kLower);

/// ftfy.fix_text with its default configuration.
std::u32string fix_text(std::u32string_view text);

}  // namespace lockstep::data
