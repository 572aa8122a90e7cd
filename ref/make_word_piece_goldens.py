#!/usr/bin/env python3
"""Writes tests/golden/word_pieces/: a small vocabulary made here (vocab.txt), and for awkward strings (cases.jsonl.gz)
the ids of Hugging Face's BertTokenizerFast and the rows that OpenCLIP 3.3.0 makes of them for CLIPA.

    export PYTHONPATH=$(ref/setup.sh); python3 ref/make_word_piece_goldens.py [--out tests/golden/word_pieces]
"""
import argparse
import gzip
import json
import os

from open_clip.tokenizer import HFTokenizer
from tokenizers import BertWordPieceTokenizer
from transformers import BertTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
CONTEXT_LENGTH = 16
# What the normaliser and the splitter of BERT decide on.
AWKWARD = [
    "[CLS] a [SEP]b[MASK] [UNK]", "tab\tnew\nline\rback", "nel\x85sep\u2028para\u2029", "zero\u200bwidth\ufeffmark",
    "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m \u0130stanbul", "\u03a3\u03a3 \u039f\u0394\u039f\u03a3",
    "\u4e2d\u6587abc\u6587", "$5 + 3 = 8 ~ `x` ^ | <tag>", "\u00ab quote \u00bb \u2014 dash\u2026",
    "\u20ac100 \u00b1 5", "a" * 100, "a" * 101,
    "\ufffd broken \x00 nul \x1c fs", "\u0e01\u0e33 \u0939\u093f\u0928\u094d\u0926\u0940",
    "\U0001f600 smile \U0001f3fd", "e\u0301 combining", "\ud55c\uad6d\uc5b4", "\u3042\u30a2\uff21\uff22",
    "[sep] [CLS][CLS]", "x\u00adsoft",
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.join(HERE, "../tests/golden/word_pieces"))
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with gzip.open(os.path.join(HERE, "../tests/golden/bpe/corpus.txt.gz"), "rt", encoding="utf-8") as file:
        lines = [line for line in file.read().split("\n") if line]
    if not os.path.exists(os.path.join(options.out, "vocab.txt")):  # its training is not the same twice
        trained = BertWordPieceTokenizer(lowercase=True)
        trained.train_from_iterator(lines, vocab_size=900, min_frequency=2, limit_alphabet=300)
        trained.save_model(options.out)
    tokenizer = BertTokenizerFast(vocab_file=os.path.join(options.out, "vocab.txt"), do_lower_case=True)
    tokenizer.save_pretrained(os.path.join(options.out, "hf"))
    openclip = HFTokenizer(os.path.join(options.out, "hf"), context_length=CONTEXT_LENGTH, strip_sep_token=True)
    with open(os.path.join(HERE, "../tests/golden/tokenizer/strings.json"), encoding="ascii") as file:
        strings = json.load(file)
    texts = [t for t in dict.fromkeys(AWKWARD + strings["words"] + strings["awkward"] + strings["fixed"] + lines[::3])
             if not any(0xD800 <= ord(c) < 0xE000 for c in t)]
    with open(os.path.join(options.out, "cases.jsonl.gz"),
              "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="", compresslevel=9) as out:
        for text in texts:
            case = {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False),
                    "row": openclip([text])[0].tolist()}
            out.write((json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n").encode())
    for name in os.listdir(os.path.join(options.out, "hf")):
        os.remove(os.path.join(options.out, "hf", name))
    os.rmdir(os.path.join(options.out, "hf"))
    print(f"{options.out}: {len(texts)} cases")


main()
