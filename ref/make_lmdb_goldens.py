#!/usr/bin/env python3
"""Writes tests/golden/lmdb/: small LMDBs of labelled pictures in the layouts that Python programs write.

Needs from PyPI: lmdb==3.0.0 msgpack==1.2.4. Run: python3 ref/make_lmdb_goldens.py
Every set holds the same 12 pictures: number i is jpeg_1x1.jpg, or from 10 on jpeg_444.jpg (larger than a page),
followed by one byte i; its label is i % 3 * 500.
"""
import pathlib
import pickle

import lmdb
import msgpack

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden"
OUT = ROOT / "lmdb"
NUM = 12


def picture(i):
    name = "jpeg_444.jpg" if i >= 10 else "jpeg_1x1.jpg"
    return (ROOT / "image" / name).read_bytes() + bytes([i])


def label(i):
    return i % 3 * 500


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def datum(i):
    """Caffe's message Datum with data = 4, label = 5, encoded = 7, as convert_imageset --encoded writes it."""
    return b"\x22" + varint(len(picture(i))) + picture(i) + b"\x28" + varint(label(i)) + b"\x38\x01"


def write(name, pairs):
    path = OUT / f"{name}.mdb"
    path.unlink(missing_ok=True)
    env = lmdb.open(str(path), subdir=False, map_size=1 << 24, lock=False)
    with env.begin(write=True) as transaction:
        for key, value in pairs:
            transaction.put(key, value)
    env.close()


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    keys = [str(i).encode() for i in range(NUM)]
    for protocol in (3, 5):
        pairs = [(key, pickle.dumps((picture(i), label(i)), protocol)) for i, key in enumerate(keys)]
        write(f"pickle{protocol}", pairs + [(b"__keys__", pickle.dumps(keys, protocol)),
                                            (b"__len__", pickle.dumps(NUM, protocol))])
    write("msgpack", [(key, msgpack.dumps((picture(i), label(i)))) for i,
                      key in enumerate(keys)] + [(b"__len__", b"12")])
    write("datum", [(f"{i:08}_n{label(i):04}/p.JPEG".encode(), datum(i)) for i in range(NUM)])
    write("raw_paths", [(f"n{label(i):04}/p{i:02}.JPEG".encode(), picture(i)) for i in range(NUM)])
    write("raw_numbers", [(key, picture(i)) for i, key in enumerate(keys)])
    write("objects", [(key, pickle.dumps(pathlib.PurePosixPath("a"))) for key in keys])


if __name__ == "__main__":
    main()
