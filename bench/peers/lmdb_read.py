#!/usr/bin/env python3
"""Reading all pictures of an LMDB, with their hashes compared (`lockstep data verify`), against reading its file from
the first byte to the last.

    pip install --target PEERS pillow numpy
    PYTHONPATH=PEERS python3 bench/peers/lmdb_read.py --program build/lockstep --folder FOLDER \
        --out bench/results/lmdb_read_cpu.json

FOLDER lies on the file system in question. Before each cold reading the file is dropped from the kernel's cache. Runs
are interleaved; the ratio is that of bytes per second, ours over the file system's, start of the process included.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from imagenet_loader import make_pictures
from side_by_side import paired_ratio, write_record


def drop(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def read_file(path: pathlib.Path) -> None:
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(1 << 20)
        while file.readinto(buffer):
            pass


def verify(options, lmdb: pathlib.Path) -> None:
    done = subprocess.run(
        [options.program, "data", "verify", str(lmdb), "--workers", str(options.threads)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(done.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/lockstep")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--pictures", type=int, default=128)
    parser.add_argument("--copies", type=int, default=32)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    options = parser.parse_args()
    load = os.getloadavg()
    folder = pathlib.Path(options.folder) / "lmdb_read"
    shutil.rmtree(folder, ignore_errors=True)
    make_pictures(folder, options.program, options.pictures)
    for path in sorted((folder / "folders").rglob("*.jpg")):
        for copy in range(1, options.copies):
            os.link(path, path.with_name(f"{path.stem}-{copy:03}.jpg"))
    subprocess.run(
        [options.program, "data", "to-lmdb", str(folder / "folders"), str(folder / "all.lmdb")],
        check=True,
        capture_output=True,
    )
    data = folder / "all.lmdb/data.mdb"
    rounds = []
    for number in range(options.rounds):
        one = {"file": {}, "lockstep": {}}
        for state in ("cold", "warm"):
            for side in ("file", "lockstep") if number % 2 == 0 else ("lockstep", "file"):
                if state == "cold":
                    drop(data)
                begin = time.perf_counter()
                read_file(data) if side == "file" else verify(options, folder / "all.lmdb")
                one[side][f"{state}_ms"] = [1000 * (time.perf_counter() - begin)]
        rounds.append(one)
    summary = {state: paired_ratio(rounds, 0, "file", f"{state}_ms") for state in ("cold", "warm")}
    for state in summary:
        summary[state]["file_gbytes_per_s"] = (
            data.stat().st_size / statistics.median([one["file"][f"{state}_ms"][0] for one in rounds]) / 1e6
        )
        print(
            f"{state}: file {summary[state]['file_gbytes_per_s']:.2f} GB/s, "
            f"lockstep {summary[state]['ratio']:.2f} of it"
        )
    write_record(
        options,
        {},
        {
            "load_before_and_after": [load, os.getloadavg()],
            "file_bytes": data.stat().st_size,
            "summary": summary,
            "rounds": rounds,
        },
    )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
