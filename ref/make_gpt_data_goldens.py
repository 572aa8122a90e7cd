#!/usr/bin/env python3
"""Writes tests/golden/gpt_data/: token files, index arrays, blends and samples made by the data set code of
megatron-core 0.16.1.

    export PYTHONPATH=$(ref/setup.sh); python3 ref/make_gpt_data_goldens.py [--out tests/golden/gpt_data]
    python3 ref/make_gpt_data_goldens.py --read PREFIX     # what Megatron reads in files of ours: counts and a hash

Small cases keep their arrays, large ones the CRC-32 of them (little endian int64).
"""
import argparse
import gzip
import json
import os
import random
import shutil
import tempfile
import types
import zlib

import numpy
import torch
from megatron.core.datasets import helpers
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig, MockGPTDataset, MockGPTLowLevelDataset
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
from megatron.core.datasets.utils import Split, normalize

torch.set_num_threads(1)
EOD = 7
VOCAB = 200


def digest(values):
    return zlib.crc32(numpy.asarray(values, dtype="<i8").tobytes())


def kept(values):
    values = [int(v) for v in numpy.asarray(values).reshape(-1)]
    return {"crc": digest(values), "size": len(values), "values": values if len(values) <= 60 else values[:20]}


def tokenizer(vocab=VOCAB, eod=EOD):
    return types.SimpleNamespace(vocab_size=vocab, eod=eod, pad=-1, eos=eod, special_tokens_dict={},
                                 unique_identifiers={})


def config(sequence_length, seed=1234, split="1,0,0", blend=None, blend_per_split=None, keeps_partial=False,
           flags=(False, False, False), cache=None, surplus=0.005, tok=None):
    return GPTDatasetConfig(random_seed=seed, sequence_length=sequence_length, blend=blend,
                            blend_per_split=blend_per_split, split=split if blend_per_split is None and blend else None,
                            path_to_cache=cache, tokenizer=tok or tokenizer(), reset_position_ids=flags[0],
                            reset_attention_mask=flags[1], eod_mask_loss=flags[2],
                            create_attention_mask=flags[1], drop_last_partial_validation_sequence=not keeps_partial,
                            mid_level_dataset_surplus=surplus)


def documents(rng, count, longest, has_empty=False):
    """Documents of one or more sequences; some end with EOD."""
    made = []
    for _ in range(count):
        made.append([[rng.randrange(VOCAB) if rng.random() < 0.9 else EOD
                      for _ in range(rng.randint(0 if has_empty else 1, longest))]
                     for _ in range(rng.choice([1, 1, 1, 2, 3]))])
    return made


def write(prefix, docs, dtype):
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype)
    for doc in docs:
        for sequence in doc:
            builder.add_item(torch.tensor(sequence, dtype=torch.int64))
        builder.end_document()
    builder.finalize(prefix + ".idx")


def write_files(out):
    """One small corpus in each integer type, and one of floats."""
    rng = random.Random(3)
    docs = documents(rng, 12, 9, has_empty=True)
    for name in ["uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"]:
        limited = [[[token % 128 for token in sequence] for sequence in doc]
                   for doc in docs] if name == "int8" else docs
        write(os.path.join(out, name), limited, getattr(numpy, name))
    return docs


def index_cases(folder):
    """Index arrays for many lengths, lengths of sequence, numbers of samples and seeds."""
    rng = random.Random(11)
    for case in range(160):
        count = rng.choice([1, 2, 3, 7, 20, 60, 400])
        longest = rng.choice([1, 3, 10, 50, 300])
        lengths = [rng.randint(1 if rng.random() < 0.9 else 0, longest) for _ in range(count)]
        tokens = sum(lengths)
        length = rng.choice([2, 4, 5, 16, 64])
        if tokens < 2:
            continue
        per_epoch = max(1, (tokens - 1) // length)
        wanted = rng.choice([None, 1, per_epoch, per_epoch + 1, int(per_epoch * 1.3),
                             3 * per_epoch + rng.randint(0, per_epoch), 10 * per_epoch + 1])
        if wanted is None and tokens < length + 1:
            continue
        seed = rng.choice([1234, 0, 1, 2 ** 32 - 1, rng.randrange(2 ** 32)])
        keeps_partial = rng.random() < 0.2
        low = types.SimpleNamespace(sequence_lengths=numpy.array(lengths, dtype=numpy.int32), path_prefix=folder)
        cache = tempfile.mkdtemp(dir=folder)
        made = GPTDataset(low, "x", numpy.arange(count, dtype=numpy.int32), wanted, Split.valid if keeps_partial
                          else Split.train,
                          config(length, seed, keeps_partial=keeps_partial, cache=cache, blend=(["x"], None)))
        yield {"lengths": lengths, "sequence_length": length, "num_samples": wanted or 0, "seed": seed,
               "keeps_partial": keeps_partial,
               "document_index": kept(made.document_index), "sample_index": kept(made.sample_index),
               "shuffle_index": kept(made.shuffle_index)}


def blend_cases():
    rng = random.Random(5)
    for count in [1, 2, 3, 7, 8, 9, 17, 40, 150, 300]:
        weights = normalize([rng.choice([rng.random(), rng.randint(1, 100), 0.1]) for _ in range(count)])
        for size in [50, 3000]:
            sets, samples = numpy.zeros(size, dtype=numpy.int16), numpy.zeros(size, dtype=numpy.int64)
            helpers.build_blending_indices(sets, samples, weights, count, size, False)
            yield {"weights": weights, "sets": kept(sets), "samples": kept(samples)}
        sizes = [rng.randint(1, 40) for _ in range(count)]
        sets, samples = numpy.zeros(sum(sizes), dtype=numpy.int16), numpy.zeros(sum(sizes), dtype=numpy.int64)
        helpers.build_exhaustive_blending_indices(sets, samples, sizes, count)
        yield {"sizes": sizes, "sets": kept(sets), "samples": kept(samples)}
    for count in [2, 5, 8, 11, 23, 150, 700]:
        raw = [rng.choice([rng.random() * 100, rng.randint(1, 50), 0.3]) for _ in range(count)]
        yield {"raw": raw, "normalised": normalize(raw), "twice": normalize(normalize(raw))}


def sample_of(dataset, k):
    sample = dataset[k]
    result = {"k": k, "tokens": sample["tokens"].tolist(), "labels": sample["labels"].tolist(),
              "loss_mask": [int(v) for v in sample["loss_mask"]],
              "position_ids": sample["position_ids"].tolist()}
    if "attention_mask" in sample:  # places where the row sees nothing before itself
        mask = sample["attention_mask"][0]
        result["attention_begins"] = [int((~mask[row]).int().argmax()) for row in range(mask.shape[0])]
    return result


def run_cases(out, folder):
    """Whole runs over the files of write_files and two more: splits, blends, masks."""
    rng = random.Random(21)
    for name, count in [("one", 90), ("two", 40), ("three", 25)]:
        write(os.path.join(out, name), documents(rng, count, 30), numpy.uint16)
    runs = [dict(blend=(["one"], None), split="90,7,3", sizes=(40, 3, 1)), dict(blend=(["one"], None), split="80,20",
                                                                                sizes=(None, None, None)),
            dict(blend=(["one"], None), split="0.5,.25,0.25", sizes=(1000, 77, 5)),
            dict(blend=(["one"], [2.0]), split="90,10", sizes=(123, 10, 1)),
            dict(blend=(["one", "two", "three"], [0.5, 30.0, 3.3]), split="90,10,0", sizes=(500, 20, 1)),
            dict(blend=(["one", "two", "three"], None), split="90,10,0", sizes=(None, None, None)),
            dict(blend=(["one", "two", "three"], None), split="100", sizes=(60, None, None)),
            dict(blend_per_split=[(["one", "two"], [1.0, 2.0]), (["three"], None), None], sizes=(80, None, None))]
    for number, run in enumerate(runs):
        for flags in [(False, False, False), (True, True, True)]:
            length = [8, 16, 5][number % 3]
            keeps_partial = number % 2 == 1
            absolute = lambda blend: blend and ([os.path.join(out, name) for name in blend[0]], blend[1])
            built = BlendedMegatronDatasetBuilder(GPTDataset, list(run["sizes"]), lambda: True, config(
                length, 99 + number, run.get("split"), absolute(run.get("blend")), run.get("blend_per_split")
                and [absolute(b) for b in run["blend_per_split"]], keeps_partial, flags,
                cache=tempfile.mkdtemp(dir=folder))).build()
            result = {"blend": run.get("blend"), "blend_per_split": run.get("blend_per_split"),
                      "split": run.get("split"), "sizes": run["sizes"], "sequence_length": length, "seed": 99 + number,
                      "keeps_partial": keeps_partial, "rules": flags, "splits": []}
            for dataset in built:
                if dataset is None:
                    result["splits"].append(None)
                    continue
                every = [dataset[k]["tokens"].tolist() for k in range(len(dataset))]
                shown = sorted({0, 1, 2, len(dataset) // 2, len(dataset) - 1} & set(range(len(dataset))))
                result["splits"].append({"num_samples": len(dataset), "tokens_crc": digest(sum(every, [])),
                                         "samples": [sample_of(dataset, k) for k in shown]})
            yield result


def mock_case():
    low = MockGPTLowLevelDataset(tokenizer(50257, 50256))
    built = BlendedMegatronDatasetBuilder(MockGPTDataset, [700, 30, 10], lambda: True,
                                          config(256, 1234, tok=tokenizer(1000, 999))).build()
    return {"lengths": kept(low.sequence_lengths), "sequence_length": 256, "vocab_size": 1000, "eod": 999,
            "sizes": [700, 30, 10],
            "splits": [{"num_samples": len(dataset), "samples": [sample_of(dataset, k) for k in (0, 5, 9)]}
                       for dataset in built]}


def shuffles():
    for seed, count in [(1234, 10), (0, 1), (1, 2), (2 ** 32 - 1, 5000), (77, 70001)]:
        values = numpy.arange(count, dtype=numpy.int64)
        numpy.random.RandomState(seed).shuffle(values)
        yield {"seed": seed, "count": count, "shuffled": kept(values)}


def write_gz(path, lines):
    with open(path, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="", compresslevel=9) as out:
        for line in lines:
            out.write((json.dumps(line, separators=(",", ":")) + "\n").encode())


def read(prefix):
    data = IndexedDataset(prefix)
    tokens = numpy.concatenate([data[i] for i in range(len(data))]) if len(data) else numpy.zeros(0)
    print(json.dumps({"sequences": len(data), "documents": len(data.document_indices) - 1, "tokens": int(tokens.size),
                      "dtype": str(tokens.dtype), "tokens_crc": digest(tokens)}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                      "../tests/golden/gpt_data"))
    parser.add_argument("--read")
    options = parser.parse_args()
    if options.read:
        return read(options.read)
    os.makedirs(options.out, exist_ok=True)
    folder = tempfile.mkdtemp()
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0,
                                         world_size=1)  # blends ask for the rank
    try:
        write_gz(os.path.join(options.out, "files.jsonl.gz"), [write_files(options.out)])
        write_gz(os.path.join(options.out, "shuffles.jsonl.gz"), shuffles())
        write_gz(os.path.join(options.out, "indices.jsonl.gz"), index_cases(folder))
        write_gz(os.path.join(options.out, "blends.jsonl.gz"), blend_cases())
        write_gz(os.path.join(options.out, "runs.jsonl.gz"), run_cases(options.out, folder))
        write_gz(os.path.join(options.out, "mock.jsonl.gz"), [mock_case()])
    finally:
        torch.distributed.destroy_process_group()
        shutil.rmtree(folder)


main()
