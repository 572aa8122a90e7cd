#pragma once
#include <string>
#include <string_view>

namespace lockstep::data {

/// Whether the text holds a sequence of characters that is far likelier to come from a wrong decoding than from a
/// writer (the heuristic of ftfy 6.3.1).
bool looks_misdecoded(std::u32string_view text);

/// Undoes wrong decodings: text that was UTF-8 but was read as Latin-1, Windows 1250 to 1254 or 1257, ISO 8859-2, Mac
/// Roman or code page 437, once or several times over, wholly or in part, also with lost bytes; and Latin-1 that was
/// meant as Windows 1252.
std::u32string repair_encoding(std::u32string text);

/// U+0080..U+009F become the Windows 1252 characters of the same bytes, where there are such.
void replace_c1_controls(std::u32string& text);

}  // namespace lockstep::data
