#!/usr/bin/env python3
"""Writes tests/golden/bpe/: byte-level BPE tokenizers trained here, awkward strings with the ids Hugging Face gives
them, the classes of all characters, and the merges that its trainer finds.

    export PYTHONPATH=$(ref/setup.sh); python3 ref/make_bpe_goldens.py [--seed 1] [--scale 1] [--out tests/golden/bpe]

Another seed or scale makes other strings of the same kinds: LOCKSTEP_BPE_GOLDEN=FOLDER build/test_data
--gtest_filter='ByteBpe*'.
"""
import argparse
import gzip
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import RobertaTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
FIXED = ["", " ", "  ", "\n", "a", " a", "a ", "  a  b  ", "I'm you're he'LL THEY'VE it's o'clock 'tis 'S \u2019s",
         "don't", "1234567 12 3", "\u0661\u0662\u0663\u0664",
         "x\r\n\r\n  y\t\tz\n \n", "\u00a0a\u00a0 b", "\u180ea \u180e b", "\u200b zero", "\u2028\u2029\u0085 x",
         "e\u0301 \u00e9 \ufb01 \u212b", "'\u017f \u212aelvin",
         "<s>a</s>", "a<mask>b", " <mask> x", "a  <mask>  b", "<|endoftext|>", "a<|endoftext|>b <|endoftext|>",
         "<|endoftext", "<|begin_of_text|>hi<|eot_id|>",
         "<|eot_id|><|eot_id|>", "word[W]word [W] x[W] [W]", "a [L] b", "a  [L]  b", "a [R]   b", "[L][R] [L] [R]",
         "N\u00c9 ne\u0301 NE\u0301", "caf\u00e9 cafe\u0301",
         "\U0001f469\u200d\U0001f4bb\U0001f1e9\U0001f1ea", "\U00031350\U000323af x\U00013460", "\x00\x01\x7f\x80",
         "\ufffd\ufffe\uffff", "a" * 400, "ab" * 300, " " * 200 + "x", "\u00e9" * 120, "1" * 100,
         "!" * 150, "\n" * 90, "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u4f60\u597d\u4e16\u754c",
         "\U0001d7d8\u2167\u00bd", "_a_b__c", "\u0345x", "ll'll 'll", "''s'"]


def corpus():
    """Words of many languages and this repository's own documents as they are now: committed as corpus.txt.gz, so that
    it never changes."""
    path = os.path.join(HERE, "../tests/golden/bpe/corpus.txt.gz")
    if not os.path.exists(path):
        with open(os.path.join(HERE, "../tests/golden/tokenizer/strings.json"), encoding="ascii") as file:
            strings = json.load(file)
        text = "\n".join(strings["words"] + strings["awkward"] + strings["fixed"])
        for name in ["docs/data.md", "docs/parallelism.md", "docs/measuring.md", "ARCHITECTURE.md"]:
            with open(os.path.join(HERE, "..", name), encoding="utf-8") as file:
                text += "\n" + file.read()
        text = text.encode("utf-8", "ignore").decode("utf-8")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="",
                                                    compresslevel=9) as out:
            out.write(text.encode())
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return file.read().split("\n")


def train(split, size, special, normalizer=None, min_frequency=2):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=min_frequency, special_tokens=special,
                                  show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def split_by(regex):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def with_settings(tokenizer, **settings):
    data = json.loads(tokenizer.to_str())
    data["model"].update(settings)
    return Tokenizer.from_str(json.dumps(data))


def make_tokenizers():
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = {"gpt2": train(byte_level, 700, ["<|endoftext|>"])}
    made["prefix"] = train(pre_tokenizers.ByteLevel(add_prefix_space=True), 500, ["<|endoftext|>"])
    made["llama3"] = with_settings(train(split_by(LLAMA3), 700, []), ignore_merges=True)
    # a vocabulary of whole words that no merge makes: only ignore_merges finds them
    data = json.loads(made["llama3"].to_str())
    for word in ["don", "\u0120zero", "\u0120THEY"]:
        data["model"]["vocab"].setdefault(word, len(data["model"]["vocab"]))
    made["llama3"] = Tokenizer.from_str(json.dumps(data))
    made["llama3"].add_special_tokens(["<|begin_of_text|>", "<|eot_id|>", "<|endoftext|>"])
    made["llama3"].post_processor = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[
        ("<|begin_of_text|>", made["llama3"].token_to_id("<|begin_of_text|>"))])
    made["qwen2"] = train(split_by(QWEN2), 600, [], normalizers.NFC())
    made["qwen2"].add_tokens([AddedToken("[W]", single_word=True), AddedToken("[L]", lstrip=True),
                              AddedToken("[R]", rstrip=True),
                              AddedToken("n\u00e9", normalized=True), AddedToken("NE\u0301", normalized=True),
                              "<|endoftext|>", "<|end"])
    return made


class Strings:
    def __init__(self, seed, scale):
        self.random, self.scale = random.Random(seed), scale
        with open(os.path.join(HERE, "../tests/golden/tokenizer/strings.json"), encoding="ascii") as file:
            strings = json.load(file)
        self.words, self.awkward = strings["words"], strings["awkward"] + ["'s", "'LL", "\r\n", "  ", "\n\n", "12",
                                                                           "3456", " \u00a0", "<mask>", "<|endoftext|>",
                                                                           "[W]", "[L]", "[R]"]
        self.fixed = FIXED + strings["fixed"] + strings["words"] + strings["awkward"]
        self.lines = [line for line in corpus() if line]

    def character(self):
        top = self.random.choice([0x80, 0x250, 0x2500, 0x10000, 0x110000])
        code = self.random.randrange(top)
        return " " if 0xD800 <= code < 0xE000 else chr(code)

    def generated(self):
        yield from self.fixed
        for _ in range(400 * self.scale):
            yield "".join(self.character() for _ in range(self.random.randint(1, 16)))
        for _ in range(700 * self.scale):
            parts = [self.random.choice(self.awkward if self.random.random() < 0.6 else self.words)
                     for _ in range(self.random.randint(2, 9))]
            yield self.random.choice(["", " ", "  ", "\n"]).join(parts)
        for _ in range(300 * self.scale):
            yield "".join(self.random.choice("ab1 2'sS\n\r\t.!\u00a0\u00e9\u4e2d\u0301")
                          for _ in range(self.random.randint(1, 24)))
        for _ in range(250 * self.scale):
            line = self.random.choice(self.lines)
            begin = self.random.randrange(len(line))
            yield line[begin:begin + self.random.randint(1, 200)]

    def all(self):
        return list(dict.fromkeys(text for text in self.generated() if not any(0xD800 <= ord(c) < 0xE000
                                                                               for c in text)))


def write_gz(path, lines):
    with open(path, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="", compresslevel=9) as out:
        for line in lines:
            out.write((json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n").encode())


def character_classes():
    """Runs [first, last, class] of all characters by the GPT-2 split: L letter, N number, S space; what is in no run is
    anything else."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    runs = []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        kind = next((name for name, probe in (("L", "a"), ("N", "1"), ("O", "!"))
                     if len(split.pre_tokenize_str(probe + chr(code))) == 1), "S")
        if runs and runs[-1][2] == kind and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code, kind])
    return [run for run in runs if run[2] != "O"]


def roberta_cases(folder, texts):
    trained = train(pre_tokenizers.ByteLevel(add_prefix_space=False), 700, ROBERTA)
    os.makedirs(folder, exist_ok=True)
    trained.model.save(folder)
    tokenizer = RobertaTokenizer.from_pretrained(folder)
    for context_length in (77, 12, 2):
        some = texts if context_length == 77 else texts[::11]
        encoded = tokenizer(some, max_length=context_length, padding="max_length", truncation=True)
        for text, ids, mask in zip(some, encoded.input_ids, encoded.attention_mask):
            yield {"text": text, "context_length": context_length, "ids": ids[:sum(mask)],
                   "decoded": tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)}


def trainer_cases():
    """Trained merges for settings that differ; each word count as the trainer saw it comes from corpus.txt.gz."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for size, min_frequency, special in [(700, 2, ["<|endoftext|>"]), (2000, 1, []), (2500, 3, ["<s>", "</s>"]),
                                         (260, 0, [])]:
        model = json.loads(train(byte_level, size, special, min_frequency=min_frequency).to_str())["model"]
        yield {"vocab_size": size, "min_frequency": min_frequency, "special": special,
               "vocab": [name for name, _ in sorted(model["vocab"].items(), key=lambda item: item[1])],
               "merges": model["merges"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(HERE, "../tests/golden/bpe"))
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    texts = Strings(options.seed, options.scale).all()
    tokenizers = make_tokenizers()
    for name, tokenizer in tokenizers.items():
        with open(os.path.join(options.out, name + ".json"), "w", encoding="ascii") as file:
            json.dump(json.loads(tokenizer.to_str()), file, separators=(",", ":"))
    cases = []
    for text in texts:
        case = {"text": text}
        for name, tokenizer in tokenizers.items():
            case[name] = tokenizer.encode(text, add_special_tokens=False).ids
        case["decoded"] = tokenizers["gpt2"].decode(case["gpt2"], skip_special_tokens=False)
        cases.append(case)
    write_gz(os.path.join(options.out, "cases.jsonl.gz"), cases)
    write_gz(os.path.join(options.out, "roberta.jsonl.gz"), roberta_cases(os.path.join(options.out, "roberta"), texts))
    write_gz(os.path.join(options.out, "trainer.jsonl.gz"), trainer_cases())
    write_gz(os.path.join(options.out, "classes.jsonl.gz"), character_classes())
    print(f"{options.out}: {len(cases)} cases")


main()
