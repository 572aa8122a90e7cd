#!/usr/bin/env python3
"""Writes tests/golden/sentencepiece/: a small model trained here, and the ids that the library gives to awkward
strings.

    export PYTHONPATH=$(ref/setup.sh); python3 ref/make_sentencepiece_goldens.py [--out tests/golden/sentencepiece]
"""
import argparse
import gzip
import io
import json
import os

import sentencepiece

HERE = os.path.dirname(os.path.abspath(__file__))


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
    print(f"{options.out}: {len(texts)} cases, {os.path.getsize(path)} bytes of model")


main()
