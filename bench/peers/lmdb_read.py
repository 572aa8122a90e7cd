#!/usr/bin/env python3
"""Reading all pictures of an LMDB (`lockstep data verify`) against reading its file from the first byte to the last
(`dd bs=1M`).

    pip install --target PEERS pillow numpy lmdb
    PYTHONPATH=PEERS python3 bench/peers/lmdb_read.py --program build/lockstep --folder FOLDER \
        --out bench/results/lmdb_read_cpu.json

FOLDER lies on the file system in question. Before each cold reading the file is read once, which is not timed, and
dropped from the kernel's cache: each side then finds memory as that reading left it, and not as the other side did.
Runs are interleaved; the ratio is that of bytes per second, ours over the file system's, start of the process
included. "read" is an LMDB without hashes, where each value is read and its first bytes are looked at; "verify"
compares hashes as well. processor_time is what remains comparable on a machine that others use; of several threads it
is the sum.
"""

import argparse
import os
import pathlib
import resource
import shutil
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


def run_timed(command: list) -> tuple:
    """Wall and processor milliseconds of a command that must succeed."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    wall_s, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return 1000 * wall_s, 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def remove_hashes(lmdb_folder: pathlib.Path) -> None:
    """What remains is the layout of the folder2lmdb scripts."""
    import lmdb

    with lmdb.open(str(lmdb_folder), map_size=1 << 40) as environment, environment.begin(write=True) as transaction:
        with transaction.cursor() as cursor:
            ours = [key for key in cursor.iternext(values=False) if key.startswith((b"__lockstep__", b"__xxh3"))]
        for key in ours:
            transaction.delete(key)
    (lmdb_folder / "lock.mdb").unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/lockstep")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--pictures", type=int, default=128)
    parser.add_argument("--copies", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
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
    shutil.copytree(folder / "all.lmdb", folder / "plain.lmdb")
    remove_hashes(folder / "plain.lmdb")
    files = {"file": "plain.lmdb", "read": "plain.lmdb", "verify": "all.lmdb"}
    commands = {
        side: [options.program, "data", "verify", "--no-decode", str(folder / name), "--workers", str(options.threads)]
        for side, name in files.items()
    } | {"file": ["dd", f"if={folder}/plain.lmdb/data.mdb", "of=/dev/null", "bs=1M"]}
    rounds = []
    for number in range(options.rounds):
        one = {side: {} for side in commands}
        for state in ("cold", "warm"):
            for side in list(commands)[:: 1 if number % 2 == 0 else -1]:
                data = folder / files[side] / "data.mdb"
                if state == "cold":
                    drop(data)
                    run_timed(["dd", f"if={data}", "of=/dev/null", "bs=1M"])
                    drop(data)
                elif side == "verify" or number == 0:
                    run_timed(["dd", f"if={data}", "of=/dev/null", "bs=1M"])
                wall_ms, cpu_ms = run_timed(commands[side])
                one[side] |= {f"{state}_ms": [wall_ms], f"{state}_cpu_ms": [cpu_ms]}
        rounds.append(one)
    summary = {}
    for side in ("read", "verify"):
        pairs = [{"file": one["file"], "lockstep": one[side]} for one in rounds]
        summary[side] = {state: paired_ratio(pairs, 0, "file", f"{state}_ms") for state in ("cold", "warm")}
        summary[side]["processor_time"] = paired_ratio(pairs, 0, "file", "warm_cpu_ms")
        ratios = ", ".join(f"{name} {value['ratio']:.2f}" for name, value in summary[side].items())
        print(f"{side}: {ratios} of the file system's")
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
