#!/usr/bin/env python3
"""Writes src/data/text/text_tables.cpp: character facts that text cleaning looks up.

Needs ftfy==6.3.1 (PyPI) and Python's own html.entities; run it again only when the reference version changes:

    python3 ref/make_text_tables.py > src/data/text/text_tables.cpp
"""
import html.entities
import re
import sys
import unicodedata

import ftfy
from ftfy import badness, chardata

# Name of the reference class, bit of our mask; the order must agree with enum TextClass in src/data/text/text_tables.h.
SPOTS = ["common", "c1", "bad", "law", "currency", "start_punctuation", "end_punctuation", "numeric", "kaomoji",
         "upper_accented", "lower_accented", "upper_common", "lower_common", "box"]
LEADS = ["utf8_first_of_2", "utf8_first_of_3", "utf8_first_of_4", "utf8_continuation", "utf8_continuation_strict"]
# In the order in which repairs are tried; Latin-1 needs no table.
CODE_PAGES = ["sloppy-windows-1252", "sloppy-windows-1251", "sloppy-windows-1250", "sloppy-windows-1253",
              "sloppy-windows-1254", "sloppy-windows-1257", "iso-8859-2", "macroman", "cp437"]
assert chardata.CHARMAP_ENCODINGS == ["latin-1"] + CODE_PAGES


def members(expression):
    pattern = re.compile("[" + expression + "]")
    return [cp for cp in range(0x10000) if not 0xD800 <= cp <= 0xDFFF and pattern.match(chr(cp))]


def class_rows():
    masks = {}
    sources = [badness.MOJIBAKE_CATEGORIES[name] for name in SPOTS] + [chardata.UTF8_CLUES[name] for name in LEADS]
    for bit, expression in enumerate(sources):
        for cp in members(expression):
            masks[cp] = masks.get(cp, 0) | 1 << bit
    runs = []
    for cp in sorted(masks):
        if runs and runs[-1][1] == cp - 1 and runs[-1][2] == masks[cp]:
            runs[-1][1] = cp
        else:
            runs.append([cp, cp, masks[cp]])
    return [f"{{0x{a:04x}, 0x{b:04x}, 0x{m:05x}}}" for a, b, m in runs]


def code_page_rows(name):
    return [f"0x{ord(bytes([byte]).decode(name)):04x}" for byte in range(0x80, 0x100)]


def entity_words():
    """name, then ':' (its semicolon is required) or '?' (may be missing), then code points in hexadecimal joined by
    '+'."""
    table = html.entities.html5
    for name in sorted(name for name in table if name.endswith(";")):
        mark = "?" if name[:-1] in table else ":"
        yield name[:-1] + mark + "+".join(f"{ord(c):x}" for c in table[name])
    assert all(name.endswith(";") or table[name] == table[name + ";"] for name in table)


def wrapped(words, separator, width=118, quote=False):
    line = ""
    for word in words:
        piece = word + separator
        if len(line) + len(piece) > width:
            yield f'    "{line}"' if quote else "    " + line.rstrip()
            line = ""
        line += piece
    yield f'    "{line}"' if quote else "    " + line.rstrip()


def main():
    print(f"// Written by ref/make_text_tables.py from ftfy {ftfy.__version__} and Python {sys.version.split()[0]} "
          f"(Unicode {unicodedata.unidata_version}); do not edit.")
    print('#include "data/text_tables.h"\n\nnamespace lockstep::data {\n')
    rows = class_rows()
    print("namespace {\nconstexpr TextClassRange kClassRanges[] = {")
    print("\n".join(wrapped(rows, ", ")))
    print("};\n}  // namespace\n")
    print("std::span<const TextClassRange> text_class_ranges() { return kClassRanges; }\n")
    print("// clang-format off\nconst CodePage kCodePages[kNumCodePages] = {")
    for name in CODE_PAGES:
        sloppy = name.startswith("sloppy-")
        short = name.removeprefix("sloppy-")
        print(f'  {{"{short}", {str(sloppy).lower()}, {str(name == "macroman").lower()}, {{')
        print("\n".join(wrapped(code_page_rows(name), ", ")))
        print("  }},")
    print("};\n// clang-format on\n")
    print("const char* const kHtmlEntities =")
    print("\n".join(wrapped(entity_words(), " ", quote=True)) + ";\n")
    print("}  // namespace lockstep::data")


main()
