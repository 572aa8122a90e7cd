#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/cases.jsonl.gz: awkward strings with OpenCLIP's cleaned text and token ids. Beside it
cleanings.jsonl.gz: some of them, and strings of punctuation, with those of the cleanings that are not the default.

Needs open_clip_torch==3.3.0, ftfy==6.3.1, regex, torch (PyPI) and a Python with Unicode 14 (3.11 or 3.12: see
docs/tokenizer.md):

    python3 ref/make_tokenizer_goldens.py [--seed 1] [--scale 1] [--out tests/golden/tokenizer/cases.jsonl.gz]

Another seed or a larger scale makes more cases of the same kinds, for `LOCKSTEP_TOKENIZER_CASES=FILE build/test_data`.
"""
import argparse
import gzip
import html.entities
import json
import os
import random
import string
import unicodedata

from open_clip import tokenizer as reference

ENCODINGS = ["latin-1", "sloppy-windows-1252", "sloppy-windows-1251", "sloppy-windows-1250", "sloppy-windows-1253",
             "sloppy-windows-1254", "sloppy-windows-1257", "iso-8859-2", "macroman", "cp437"]
STRINGS = os.path.join(os.path.dirname(__file__), "../tests/golden/tokenizer/strings.json")
LONG = ["a" * 300, "ab" * 5000, "1" * 200, "\u00e9" * 150, "<start_of_text>" * 90, "&amp;" * 50, "&" + "amp;" * 30,
        "\u0130" * 40]
PUNCTUATION = ["A_cat's  (red) HAT... &amp; more!", "!?", "_", "snake_case __init__", "a - b, c/d; e: f",
               "x<y>z & &lt;b&gt;", "50% of $3.99 (ca. 2 EUR)",
               "\u0391\u03a3.\u0391 \u0391\u03a3-\u0391 \u0391\u03a3",
               "\u00ab\u00bfqu\u00e9?\u00bb \u2026 \u2014", "<start_of_text> I'LL <end_of_text>", "\u0130.I",
               "don't DON'T we've", "\u3002\uff01a_\u00a0_b", string.punctuation]


class Maker:
    def __init__(self, seed, scale):
        self.random = random.Random(seed)
        self.scale = scale
        self.cases = []
        with open(STRINGS, encoding="ascii") as file:
            strings = json.load(file)
        self.words_list, self.awkward, self.fixed_strings = strings["words"], strings["awkward"], strings["fixed"]
        named = {name for name in html.entities.html5}
        self.entities = sorted(named)
        self.assigned = [cp for cp in range(0x110000)
                         if unicodedata.category(chr(cp)) not in ("Cn", "Cs", "Co") or cp in (0xE000, 0xF8FF)]
        self.small = [cp for cp in self.assigned if cp < 0x2500]

    def add(self, text):
        if not any(0xD800 <= ord(c) <= 0xDFFF for c in text):
            self.cases.append(text)

    def times(self, count):
        return range(count * self.scale)

    def words(self, low=1, high=6):
        return " ".join(self.random.choice(self.words_list) for _ in range(self.random.randint(low, high)))

    def misread(self, text):
        """UTF-8 read in a wrong single-byte encoding; lost bytes stay lost."""
        encoding = self.random.choice(ENCODINGS)
        data = text.encode("utf-8", "surrogatepass")
        return data.decode(encoding, "replace") if self.random.random() < 0.8 else data.decode("windows-1252",
                                                                                               "replace")

    def as_cesu8(self, text):
        pairs = text.encode("utf-16-be", "surrogatepass")
        units = [int.from_bytes(pairs[i:i + 2], "big") for i in range(0, len(pairs), 2)]
        return "".join(chr(u) for u in units)

    def entity(self):
        kind = self.random.random()
        name = self.random.choice(self.entities)
        if kind < 0.25:
            return "&" + name
        if kind < 0.4:
            return "&" + name.upper()
        if kind < 0.5:
            return "&" + name.rstrip(";") + self.random.choice(["x", " ", ".", "\u00e9", "="])
        number = self.random.choice([0, 9, 10, 13, 38, 59, 60, 0x26, 0x80, 0x85, 0x91, 0x9F, 0xA0, 0xE9, 0xD800, 0xFDD0,
                                     0xFFFE, 0x1F600, 0x10FFFF, 0x110000, 10 ** 30, self.random.randrange(0x3000)])
        form = self.random.choice(["&#{};", "&#{}", "&#x{:x};", "&#X{:X}", "&#x{:x}g", "&#{}\u00e9", "&#0{};"])
        return form.format(number)

    def escaped(self, text, depth):
        for _ in range(depth):
            text = html.escape(text)
        return text

    def fixed(self):
        for text in self.fixed_strings + LONG + self.words_list + self.awkward:
            self.add(text)
        for cp in range(0x80, 0x100):
            self.add("a" + chr(cp) + "b " + chr(cp))
        for name in self.entities[::3]:
            self.add("x&" + name + "y")
        for name in self.entities[1::9]:
            self.add("X&" + name.upper() + "Y")

    def generated(self):
        for _ in self.times(300):
            self.add(self.words(1, 8))
        for _ in self.times(900):
            text = self.words(1, 4)
            for _ in range(self.random.choice([1, 1, 1, 2, 3])):
                text = self.misread(text)
            if self.random.random() < 0.3:
                text = text.replace("\xa0", " ")
            if self.random.random() < 0.3:
                text = self.words(1, 2) + " " + text + " " + self.words(1, 2)
            if self.random.random() < 0.1:
                text = text.replace("\ufffd", "?")
            self.add(text)
        for _ in self.times(60):
            text = self.as_cesu8(self.words(1, 2) + self.random.choice("\U0001f60d\U0001f4a9\U0001f44d"))
            self.add(self.misread(text) + self.random.choice(["", " x", "\n"]))
        for _ in self.times(350):
            text = self.words(0, 2) + self.random.choice(["", " "]) + self.entity() + self.words(0, 2)
            self.add(self.escaped(text, self.random.choice([0, 0, 1, 2, 3])))
        for _ in self.times(500):
            lists = [self.awkward if self.random.random() < 0.6 else self.words_list
                     for _ in range(self.random.randint(2, 8))]
            parts = [self.random.choice(one) for one in lists]
            self.add(self.random.choice(["", " "]).join(parts))
        for _ in self.times(250):
            self.add("".join(chr(self.random.choice(self.small)) for _ in range(self.random.randint(1, 12))))
        for _ in self.times(150):
            self.add("".join(chr(self.random.choice(self.assigned)) for _ in range(self.random.randint(1, 12))))
        for _ in self.times(250):  # the alphabet of wrong decodings
            alphabet = bytes(range(0x80, 0x100)).decode(self.random.choice(ENCODINGS),
                                                        "replace") + "aZ .?\n\x1a\ufffd'  "
            self.add("".join(self.random.choice(alphabet) for _ in range(self.random.randint(2, 7))))
        for _ in self.times(60):
            telling = b"\xc2\xc3\xe2\xe3\xf0\xed\xa0\xbd\xb8\x80\x9f\x85 ?\x1aaA\xc0\n"
            data = bytes(self.random.choice(telling) for _ in range(self.random.randint(2, 9)))
            self.add(data.decode(self.random.choice(ENCODINGS), "replace"))
        for _ in self.times(30):
            self.add(self.words(60, 120))


def write_lines(path, lines):
    with open(path, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="", compresslevel=9) as out:
        for line in lines:
            out.write((json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n").encode())


def write_cleanings(path, texts):
    tokenizers = {clean: reference.SimpleTokenizer(clean=clean) for clean in ("whitespace", "canonicalize")}
    write_lines(path, [{"text": text, **{clean: {"clean": one.clean_fn(text), "ids": one.encode(text)}
                                         for clean, one in tokenizers.items()}} for text in texts])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(__file__),
                                                      "../tests/golden/tokenizer/cases.jsonl.gz"))
    parser.add_argument("--every", type=int, default=25, help="cleanings.jsonl.gz has one of so many strings")
    options = parser.parse_args()
    maker = Maker(options.seed, options.scale)
    if options.seed == 1:
        maker.fixed()
    maker.generated()
    tokenizer = reference.SimpleTokenizer()
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    with open(options.out, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="",
                                                       compresslevel=9) as out:
        for text in dict.fromkeys(maker.cases):
            case = {"text": text, "clean": tokenizer.clean_fn(text), "ids": tokenizer.encode(text)}
            if len(case["ids"]) < 60 and len(tokenizer.cache) > 200_000:
                tokenizer.cache = {t: t for t in ("<start_of_text>", "<end_of_text>")}
            out.write((json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n").encode())
    write_cleanings(os.path.join(os.path.dirname(os.path.abspath(options.out)), "cleanings.jsonl.gz"),
                    PUNCTUATION + [text for text in dict.fromkeys(maker.cases) if len(text) < 60][::options.every])
    print(f"{options.out}: {len(dict.fromkeys(maker.cases))} cases, {os.path.getsize(options.out)} bytes")


main()
