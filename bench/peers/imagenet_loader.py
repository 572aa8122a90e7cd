#!/usr/bin/env python3
"""Pictures per second of processor time: lockstep's loader of labelled pictures against torchvision's ImageFolder on
Pillow, and two other CPU pipelines from PyPI: NVIDIA DALI's CPU operators and torchvision's tensor pipeline
(torchvision.io.decode_jpeg and transforms.v2). Interleaved, one thread each.

    pip install --target PEERS torchvision==0.26.0 pillow numpy nvidia-dali-cuda120
    export PYTHONPATH=PEERS:$LOCKSTEP_TORCH_DIR
    python3 bench/peers/imagenet_loader.py compare --program build/lockstep --out bench/results/imagenet_loader_cpu.json

All read the same JPEG pictures of 500 x 375 from class folders, cut, resize and mirror them at random to 224 x 224
bytes and stack them into batches with their labels. lockstep also reads them from an LMDB and from a tar file. What is
compared is processor time of all threads of a process, which holds on a machine that others use; the wall clock stands
beside it. DALI takes its own random numbers and its resampling is not Pillow's; lockstep's bytes are.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

from side_by_side import paired_ratio, write_record

PEERS = ["torchvision-pillow", "torchvision-tensor", "dali-cpu"]
OURS = ["lockstep-folder", "lockstep-lmdb", "lockstep-tar"]


def draw_picture(random):
    """Smooth noise with edges, about 80 kB as a JPEG, like a photograph."""
    import numpy
    from PIL import Image

    coarse = Image.fromarray(random.integers(0, 256, (24, 32, 3), dtype=numpy.uint8)).resize((500, 375), Image.BICUBIC)
    pixels = numpy.asarray(coarse).astype(numpy.int16)
    pixels = pixels + random.normal(0, 9, pixels.shape).astype(numpy.int16)
    pixels[100:200, 150:260] = 255 - pixels[100:200, 150:260]
    return Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))


def make_pictures(folder: pathlib.Path, program: str, count: int) -> None:
    """Class folders, one LMDB and one tar file of the same JPEG pictures."""
    import numpy

    random = numpy.random.default_rng(5)
    for number in range(count):
        path = folder / "folders" / f"class{number % 8}"
        path.mkdir(parents=True, exist_ok=True)
        draw_picture(random).save(path / f"{number:05}.jpg", quality=90)
    subprocess.run(
        [program, "data", "to-lmdb", str(folder / "folders"), str(folder / "pictures.lmdb")],
        check=True,
        capture_output=True,
    )
    import io
    import tarfile

    with tarfile.open(folder / "pictures.tar", "w") as tar:
        for number, path in enumerate(sorted((folder / "folders").rglob("*.jpg"))):
            for name, content in (
                (f"{number:05}.jpg", path.read_bytes()),
                (f"{number:05}.cls", path.parent.name[-1].encode()),
            ):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))


def run_lockstep(options, side: str) -> dict:
    source = {"lockstep-folder": "folders", "lockstep-lmdb": "pictures.lmdb", "lockstep-tar": "pictures.tar"}[side]
    done = subprocess.run(
        [
            options.program,
            "bench",
            "loader",
            "--model",
            "resnet50",
            "--train-data",
            f"{options.inputs}/{source}",
            "--workers",
            "1",
            "--threads",
            "1",
            "--batch-size",
            str(options.batch),
            "--warmup-iters",
            "2",
            "--iters",
            str(options.batches),
            "--json",
        ]
        + (["--train-num-samples", str(options.pictures)] if side == "lockstep-tar" else []),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{side} failed:\n{done.stderr}")
    row = json.loads(done.stdout)["rows"][0]
    assert row["wrong"] == 0
    return {"per_cpu_s": row["samples_per_cpu_s"], "per_s": row["samples_per_s"]}


def measured(options, batches) -> dict:
    """Takes warm-up and timed batches of (pictures, labels)."""
    for _ in range(2):
        next(batches)
    begin, cpu = time.perf_counter(), time.process_time()
    count = 0
    for _ in range(options.batches):
        pictures, labels = next(batches)
        assert len(pictures) == len(labels) == options.batch
        count += len(labels)
    return {"per_cpu_s": count / (time.process_time() - cpu), "per_s": count / (time.perf_counter() - begin)}


def endless(loader):
    while True:
        yield from loader


def run_torchvision(options, uses_tensors: bool) -> dict:
    import torch
    from torchvision import datasets, io, transforms
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    steps = (
        [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
        if uses_tensors
        else [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]
    )
    decode = (
        (lambda path: io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB))
        if uses_tensors
        else datasets.folder.default_loader
    )
    data = datasets.ImageFolder(
        f"{options.inputs}/folders", (v2 if uses_tensors else transforms).Compose(steps), loader=decode
    )
    return measured(
        options, endless(torch.utils.data.DataLoader(data, batch_size=options.batch, shuffle=True, drop_last=True))
    )


def run_dali(options) -> dict:
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=options.batch, num_threads=1, device_id=None, prefetch_queue_depth=1, seed=1)
    def pipeline():
        files, labels = fn.readers.file(file_root=f"{options.inputs}/folders", random_shuffle=True, name="files")
        pictures = fn.decoders.image_random_crop(
            files, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[0.75, 4 / 3]
        )
        pictures = fn.resize(pictures, resize_x=224, resize_y=224, interp_type=types.INTERP_TRIANGULAR)
        return fn.flip(pictures, horizontal=fn.random.coin_flip()), labels

    pipe = pipeline()
    pipe.build()

    def batches():
        while True:
            pictures, labels = pipe.run()
            yield pictures.as_array(), labels.as_array()

    return measured(options, batches())


def run_side(options, side: str) -> dict:
    if side in OURS:
        return run_lockstep(options, side)
    done = subprocess.run(
        [
            sys.executable,
            sys.argv[0],
            side,
            "--inputs",
            options.inputs,
            "--batch",
            str(options.batch),
            "--batches",
            str(options.batches),
        ],
        capture_output=True,
        text=True,
        env=dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"),
    )
    if done.returncode != 0:
        sys.exit(f"{side} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(options) -> None:
    rounds = []
    sides = [side for side in PEERS + OURS if side not in options.without]
    with tempfile.TemporaryDirectory() as folder:
        options.inputs = folder
        make_pictures(pathlib.Path(folder), options.program, options.pictures)
        sizes = [path.stat().st_size for path in pathlib.Path(folder).rglob("*.jpg")]
        for number in range(options.rounds):
            order = sides if number % 2 == 0 else sides[::-1]
            rounds.append({side: run_side(options, side) for side in order})
            print(
                f"round {number + 1}: "
                + ", ".join(f"{side} {rounds[-1][side]['per_cpu_s']:.0f}" for side in sides)
                + " pictures per core second",
                flush=True,
            )
    for one in rounds:  # the shared arithmetic compares times
        for side in sides:
            one[side]["cpu_ms"] = [1000 / one[side]["per_cpu_s"]]
    summary = {
        f"{own} over {peer}": paired_ratio(rounds, 0, peer, "cpu_ms", own)
        for own in OURS
        if own in sides
        for peer in PEERS
        if peer in sides
    }
    for name, ratio in summary.items():
        print(
            f"{name}: {ratio['ratio']:.2f}"
            + (f" ({ratio['ratio_95'][0]:.2f} to {ratio['ratio_95'][1]:.2f})" if "ratio_95" in ratio else "")
        )
    write_record(
        options,
        versions(),
        {
            "what": "pictures per second of processor time; a ratio above 1: lockstep is faster",
            "load_before_and_after": [options.load, os.getloadavg()],
            "pictures": len(sizes),
            "median_jpeg_bytes": statistics.median(sizes),
            "summary": summary,
            "rounds": rounds,
        },
    )


def versions() -> dict:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("torch", "torchvision", "pillow", "nvidia-dali-cuda120"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["compare"] + PEERS)
    parser.add_argument("--program", default="build/lockstep")
    parser.add_argument("--inputs")
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--out")
    options = parser.parse_args()
    options.load, options.threads = os.getloadavg(), 1
    if options.job == "compare":
        return compare(options)
    side = {
        "torchvision-pillow": lambda: run_torchvision(options, False),
        "torchvision-tensor": lambda: run_torchvision(options, True),
        "dali-cpu": lambda: run_dali(options),
    }[options.job]
    print(json.dumps(side()))


if __name__ == "__main__":
    main()
