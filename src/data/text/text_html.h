#pragma once
#include <string>
#include <string_view>

namespace lockstep::data {

/// Resolves HTML character references by the rules of HTML 5, as Python's html.unescape does: named ones, for old names
/// also without their semicolon and with text behind, and numbers; forbidden numbers vanish or become U+FFFD.
std::u32string unescape_html(std::u32string_view text);

/// Resolves only what is certainly a reference, as ftfy does: those with a semicolon, and names of lower-case
/// references written in capitals ("&EACUTE;"), which give the capital letter.
std::u32string unescape_certain_html(std::u32string_view text);

}  // namespace lockstep::data
