#!/usr/bin/env python3
"""Pictures and captions of WebDataset shards embedded per second: `lockstep infer embed --shards` against OpenCLIP
3.3.0's own model, transform and tokenizer behind webdataset, as its users write that loop. Same weights and threads;
both live at once and run in turns of a second.

    pip install --target PEERS webdataset==0.2.86 braceexpand
    export PYTHONPATH=PEERS:$(ref/setup.sh)
    python3 bench/peers/embed_bulk.py compare --program build/lockstep --out bench/results/embed_bulk_fp32_cpu.json

JPEG pictures of 500 x 375 and captions of 5 to 18 words. Each side runs over the first --few shards and over all of
them; what counts is the difference of both, so that start and loading of the weights do not. The features of both sides
are compared as well. With --device cuda the sides run one after the other, each with --workers decoders:

    python3 bench/peers/embed_bulk.py compare --device cuda --precision bf16 --batch 256 --workers 16 --threads 4 \\
        --shards 64 --few 16 --pictures 256 --rounds 2 --out bench/results/gpu_embed_bulk_bf16.json
"""
import argparse
import concurrent.futures
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

from imagenet_loader import draw_picture
from side_by_side import paired_ratio, running_times, write_record

SIDES = ("openclip", "lockstep")
TYPES = {"fp32": "fp32", "bf16": "pure_bf16"}
WORDS = ("a the of on in with and two small red old wooden dog cat street table people man woman standing sitting "
         "next to near blue sky water boat train bread cake playing holding under bright window").split()


def write_shard(path: pathlib.Path, shard: int, seed: int, pictures: int) -> None:
    import numpy

    random = numpy.random.default_rng([seed, shard])
    with tarfile.open(path, "w") as tar:
        for number in range(pictures):
            words = " ".join(random.choice(WORDS, random.integers(5, 19)))
            picture = io.BytesIO()
            draw_picture(random).save(picture, "JPEG", quality=90)
            for name, content in (("jpg", picture.getvalue()), ("txt", words.encode())):
                member = tarfile.TarInfo(f"{shard:03}{number:05}.{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def write_inputs(folder: pathlib.Path, options) -> None:
    import open_clip
    import torch
    from safetensors.torch import save_file

    with concurrent.futures.ProcessPoolExecutor() as pool:
        shards = [pool.submit(write_shard, folder / f"{shard:06}.tar", shard, options.seed, options.pictures)
                  for shard in range(options.shards)]
        for shard in shards:
            shard.result()
    torch.manual_seed(options.seed)
    state = open_clip.create_model(options.model).state_dict()
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, str(folder / "weights.safetensors"))


def embed_with_openclip(options) -> None:
    import open_clip
    import torch
    import webdataset
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(options.threads)
    model, _, preprocess = open_clip.create_model_and_transforms(options.model, precision=TYPES[options.precision])
    model.load_state_dict(load_file(f"{options.inputs}/weights.safetensors"))
    model.eval().to(options.device)
    tokenizer = open_clip.get_tokenizer(options.model)
    paths = sorted(str(path) for path in pathlib.Path(options.inputs).glob("*.tar"))[:options.num_read]
    data = (webdataset.WebDataset(paths, shardshuffle=False).decode("pilrgb").to_tuple("__key__", "jpg", "txt")
            .map_tuple(int, preprocess, lambda text: tokenizer([text])[0]).batched(options.batch))
    dtype = torch.float32 if options.precision == "fp32" else torch.bfloat16
    keys, found = [], {"image": [], "text": []}
    with torch.no_grad():
        loader = webdataset.WebLoader(data, batch_size=None, num_workers=options.workers,
                                      pin_memory=options.device == "cuda")
        for key, image, text in loader:
            keys.extend(int(number) for number in key)
            image, text = image.to(options.device, non_blocking=True), text.to(options.device, non_blocking=True)
            found["image"].append(model.encode_image(image.to(dtype), normalize=True).float())
            found["text"].append(model.encode_text(text, normalize=True).float())
    order = torch.tensor(keys).argsort()  # workers read shards beside each other
    save_file({key: torch.cat(rows).cpu()[order].contiguous() for key, rows in found.items()},
              f"{options.inputs}/openclip.safetensors")


def command_of(side: str, options, num_read: int) -> list:
    if side == "openclip":
        return [sys.executable, __file__, "openclip", "--model", options.model, "--batch", str(options.batch),
                "--precision", options.precision, "--threads", str(options.threads), "--inputs", options.inputs,
                "--device", options.device, "--workers", str(options.workers), "--num-read", str(num_read)]
    return [options.program, "infer", "embed", "--model", options.model, "--pretrained",
            f"{options.inputs}/weights.safetensors", "--shards", f"{options.inputs}/{{000000..{num_read - 1:06}}}.tar",
            "--batch-size", str(options.batch), "--precision", TYPES[options.precision], "--device",
            options.device, "--threads", str(options.threads), "--output", f"{options.inputs}/own",
            *(["--workers", str(options.workers)] if options.workers else [])]


def run_both(options, num_read: int) -> dict:
    """Seconds of a process of each side over so many shards; on the CPU in turns of a second."""
    subprocess.run(["rm", "-rf", f"{options.inputs}/own"], check=True)
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads), MKL_NUM_THREADS=str(options.threads))
    commands = {side: command_of(side, options, num_read) for side in SIDES}
    if options.device == "cpu":
        return running_times(commands, 1.0, env=environment)
    seconds = {}
    for side, command in commands.items():
        began = time.perf_counter()
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        seconds[side] = time.perf_counter() - began
    return seconds


def measure(options) -> dict:
    few, many = run_both(options, options.few), run_both(options, options.shards)
    pictures = (options.shards - options.few) * options.pictures
    return {side: {"ms_per_pair": [1000 * (many[side] - few[side]) / pictures]} for side in SIDES}


def largest_differences(options) -> dict:
    """Of any number of any feature, after runs of both sides over all shards."""
    import torch
    from safetensors.torch import load_file

    own = [load_file(str(path)) for path in sorted(pathlib.Path(f"{options.inputs}/own").glob("*.safetensors"))]
    peer = load_file(f"{options.inputs}/openclip.safetensors")
    return {key: float((torch.cat([shard[key] for shard in own]) - peer[key]).abs().max()) for key in peer}


def compare(options) -> None:
    import open_clip
    import torch
    import webdataset

    with tempfile.TemporaryDirectory() as folder:
        options.inputs = folder
        write_inputs(pathlib.Path(folder), options)
        rounds = []
        for number in range(options.rounds):
            rounds.append(measure(options))
            if number == 0:
                differences = largest_differences(options)
                print("largest difference to OpenCLIP:", differences, flush=True)
            print(f"round {number + 1}: " + ", ".join(
                f"{side} {rounds[-1][side]['ms_per_pair'][0]:.3g} ms a pair" for side in SIDES), flush=True)
    summary = paired_ratio(rounds, 0, "openclip", "ms_per_pair")
    print(json.dumps(summary, indent=1))
    write_record(options, {"open_clip_torch": open_clip.__version__, "webdataset": webdataset.__version__,
                           "torch": torch.__version__},
                 {"load_average_at_the_end": os.getloadavg()[0], "largest_difference": differences,
                  "summary": summary, "rounds": rounds})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["compare", "openclip"])
    parser.add_argument("--program", default="build/lockstep")
    parser.add_argument("--model", default="ViT-B-32")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--few", type=int, default=1, help="shards of the runs that are subtracted")
    parser.add_argument("--pictures", type=int, default=64, help="of a shard")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--workers", type=int, default=0, help="decoders of a side (default: none, and ours)")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", choices=list(TYPES), default="fp32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("--inputs", help=argparse.SUPPRESS)
    parser.add_argument("--num-read", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    embed_with_openclip(options) if options.job == "openclip" else compare(options)


if __name__ == "__main__":
    main()
