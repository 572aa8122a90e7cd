#!/usr/bin/env python3
"""Writes tests/golden/sentencepiece/: a small model trained here, the ids that the library gives to awkward strings
(cases.jsonl.gz), and those that a text tower of OpenCLIP gets of them (frames.jsonl.gz): cleaned by OpenCLIP 3.3.0,
framed as the tokenizers of Hugging Face frame them. For mT5 and NLLB these are transformers' own tokenizers of small
models trained here (mt5.model, nllb.model).

    export PYTHONPATH=$(ref/setup.sh); python3 ref/make_sentencepiece_goldens.py [--out tests/golden/sentencepiece]
"""
import argparse
import gzip
import io
import json
import os

import sentencepiece
from open_clip.tokenizer import get_clean_fn
from tokenizers.models import BPE
from transformers import NllbTokenizer, T5Tokenizer
from transformers.convert_slow_tokenizer import NllbConverter, SentencePieceExtractor
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

HERE = os.path.dirname(os.path.abspath(__file__))


def train(lines, path, **how):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model,
                                             normalization_rule_name="identity", character_coverage=0.98, num_threads=1,
                                             minloglevel=2, **how)
    with open(path, "wb") as file:
        file.write(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_file=path)


def frame(processor, text, kind, length):
    """As T5Tokenizer (SigLIP's with pad_token="</s>"), GemmaTokenizer with add_eos_token and XLMRobertaTokenizer do it
    with padding="max_length", truncation=True."""
    pieces = processor.encode(get_clean_fn("whitespace" if kind == "xlm" else "canonicalize")(text))
    if kind == "xlm":
        ids = [0] + [piece + 1 if piece else 3 for piece in pieces][: length - 2] + [2]
    else:
        ids = pieces[: length - 1] + [1]
    return ids + [{"t5": 1, "gemma": 0, "xlm": 1}[kind]] * (length - len(ids))


def mt5_tokenizer(folder):
    return T5Tokenizer.from_pretrained(folder, vocab_file=os.path.join(folder, "mt5.model"))


def nllb_tokenizer(path):
    parts = NllbConverter.convert_from_spm(**SentencePieceExtractor(path).extract(BPE))
    parts.pop("additional_special_tokens")  # of the file; without them NLLB's languages are taken
    return NllbTokenizer(**parts)


def whole(tokenizer, text, length):
    """As OpenCLIP's HFTokenizer calls it."""
    return tokenizer(get_clean_fn("whitespace")(text), max_length=length, padding="max_length",
                     truncation=True).input_ids


def nllb_ids(tokenizer, num_pieces, text, length, language="eng_Latn"):
    """The tokenizer's, but for the language: in the file of the Hub languages stand right behind the pieces."""
    tokenizer.set_src_lang_special_tokens(language)
    ids = whole(tokenizer, text, length)
    return [num_pieces + 1 + FAIRSEQ_LANGUAGE_CODES.index(language)] + ids[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.join(HERE, "../tests/golden/sentencepiece"))
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with gzip.open(os.path.join(HERE, "../tests/golden/bpe/corpus.txt.gz"), "rt", encoding="utf-8") as file:
        lines = [line for line in file.read().split("\n") if line]
    path = os.path.join(options.out, "small.model")
    processor = train(lines, path, vocab_size=600, model_type="bpe", byte_fallback=True)
    train(lines, os.path.join(options.out, "mt5.model"), vocab_size=420, model_type="unigram", byte_fallback=True,
          pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    nllb_pieces = len(train(lines, os.path.join(options.out, "nllb.model"), vocab_size=300, model_type="bpe"))
    mt5, nllb = mt5_tokenizer(options.out), nllb_tokenizer(os.path.join(options.out, "nllb.model"))
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
            case = {"text": text} | {kind: frame(processor, text, kind, 16) for kind in ("t5", "gemma", "xlm")}
            case |= {"mt5": whole(mt5, text, 16), "nllb": nllb_ids(nllb, nllb_pieces, text, 16),
                     "nllb_fra": nllb_ids(nllb, nllb_pieces, text, 16, "fra_Latn")}
            out.write((json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n").encode())
    print(f"{options.out}: {len(texts)} cases, {os.path.getsize(path)} bytes of model")


if __name__ == "__main__":
    main()
