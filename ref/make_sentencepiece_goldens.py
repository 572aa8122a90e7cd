#!/usr/bin/env python3
"""Writes tests/golden/sentencepiece/: a small model trained here, the ids that the library gives to awkward strings
(cases.jsonl.gz), and those that a text tower of OpenCLIP gets of them (frames.jsonl.gz): cleaned by OpenCLIP 3.3.0,
framed as the tokenizers of Hugging Face frame them.

    export PYTHONPATH=$(ref/setup.sh); python3 ref/make_sentencepiece_goldens.py [--out tests/golden/sentencepiece]
"""
import argparse
import gzip
import io
import json
import os

import sentencepiece
from open_clip.tokenizer import get_clean_fn

HERE = os.path.dirname(os.path.abspath(__file__))


def frame(processor, text, kind, length):
    """As T5Tokenizer (SigLIP's with pad_token="</s>", mT5's), GemmaTokenizer with add_eos_token and XLMRobertaTokenizer
    do it with padding="max_length", truncation=True."""
    pieces = processor.encode(get_clean_fn("whitespace" if kind == "xlm" else "canonicalize")(text))
    if kind == "xlm":
        ids = [0] + [piece + 1 if piece else 3 for piece in pieces][: length - 2] + [2]
    else:
        ids = pieces[: length - 1] + [1]
    return ids + [{"t5": 1, "mt5": 0, "gemma": 0, "xlm": 1}[kind]] * (length - len(ids))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.join(HERE, "../tests/golden/sentencepiece"))
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with gzip.open(os.path.join(HERE, "../tests/golden/bpe/corpus.txt.gz"), "rt", encoding="utf-8") as file:
        lines = [line for line in file.read().split("\n") if line]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=600,
                                             model_type="bpe", byte_fallback=True,
                                             normalization_rule_name="identity", character_coverage=0.98, num_threads=1,
                                             minloglevel=2)
    path = os.path.join(options.out, "small.model")
    with open(path, "wb") as file:
        file.write(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    with open(os.path.join(HERE, "../tests/golden/tokenizer/strings.json"), encoding="ascii") as file:
        strings = json.load(file)
    texts = [t for t in dict.fromkeys(strings["words"] + strings["awkward"] + strings["fixed"] + lines[::3])
             if not any(0xD800 <= ord(c) < 0xE000 for c in t)]
    with open(os.path.join(options.out, "cases.jsonl.gz"),
              "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="", compresslevel=9) as out:
        for text in texts:
            ids = processor.encode(text)
            out.write((json.dumps({"text": text, "ids": ids, "decoded": processor.decode(ids)}, ensure_ascii=False,
                                  separators=(",", ":")) + "\n").encode())
    with open(os.path.join(options.out, "frames.jsonl.gz"),
              "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="", compresslevel=9) as out:
        for text in texts[::5]:
            case = {"text": text} | {kind: frame(processor, text, kind, 16) for kind in ("t5", "mt5", "gemma", "xlm")}
            out.write((json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n").encode())
    print(f"{options.out}: {len(texts)} cases, {os.path.getsize(path)} bytes of model")


main()
