#!/usr/bin/env python3
"""One CLIP training step, OpenCLIP 3.3.0 (PyPI) against lockstep: same weights, same batch, same threads, runs
interleaved.

    export PYTHONPATH=$(ref/setup.sh)
    python3 bench/peers/clip_step.py compare --program build/lockstep --model ViT-B-32 --batch 16 --precision fp32 \\
        --out bench/results/NAME.json

`compare` runs the two sides in turn as processes of their own (so that peak memory is each one's) and prints median
step times, the paired ratio with its 95 % interval (Student t on the log ratios of the rounds) and the peak memory.
`follow` compares the losses of --steps optimiser steps. `openclip` is one run of the Python side.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from side_by_side import StepClock, add_arguments, device_name, paired_ratio, set_up_torch


def write_inputs(folder: pathlib.Path, model_name: str, batch: int, num_batches: int, seed: int) -> None:
    """Weights of a fresh OpenCLIP model, and batches of random pictures and captions that use all 77 tokens."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    model = open_clip.create_model(model_name)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()},
              str(folder / "weights.safetensors"))
    size, length = model.visual.image_size, model.context_length
    size = size if isinstance(size, int) else size[0]  # an int for ModifiedResNet
    tensors = {}
    for index in range(num_batches):
        tensors[f"image.{index}"] = torch.randn(batch, 3, size, size)
        text = torch.randint(1, 49406, (batch, length))
        text[:, 0], text[:, -1] = 49406, 49407
        tensors[f"text.{index}"] = text
    save_file(tensors, str(folder / "batches.safetensors"))


def run_openclip(options) -> None:
    import open_clip
    import torch
    from open_clip.loss import ClipLoss
    from open_clip_train.precision import get_autocast
    from safetensors.torch import load_file

    set_up_torch(options)
    precision = {"fp32": "fp32", "bf16": "amp_bf16"}[options.precision]
    model = open_clip.create_model(options.model, precision=precision, output_dict=True)
    model.load_state_dict(load_file(f"{options.inputs}/weights.safetensors"))
    model.to(options.device).train()
    batches = load_file(f"{options.inputs}/batches.safetensors", device=options.device)
    num_batches = len(batches) // 2
    decays = lambda name, p: not (p.ndim < 2 or any(part in name for part in ("bn", "ln", "bias",
                                                                              "logit_scale")))  # noqa: E731
    named = list(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0},
         {"params": [p for n, p in named if decays(n, p)], "weight_decay": 0.2}],
        lr=options.lr, betas=(options.beta1, options.beta2), eps=options.eps)
    loss_of = ClipLoss()
    autocast = get_autocast(precision, device_type=options.device)
    call = torch.compile(model) if options.compile else model
    clock = StepClock(options.device)
    for step in range(options.steps):
        image, text = batches[f"image.{step % num_batches}"], batches[f"text.{step % num_batches}"]
        clock.begin()
        optimizer.zero_grad()
        with autocast():
            out = call(image, text)
            loss = loss_of(**out, output_dict=True)["contrastive_loss"]
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, math.log(100))
        clock.end(loss)
    clock.print()


def side_command(options, inputs: str, side: str) -> list:
    common = ["--model", options.model, "--threads", str(options.threads), "--lr", str(options.lr), "--beta1",
              str(options.beta1),
              "--beta2", str(options.beta2), "--eps", str(options.eps), "--device", options.device]
    if side != "lockstep":
        return [sys.executable, __file__, "openclip", "--inputs", inputs, "--precision", options.precision, "--steps",
                str(options.steps)] + common + (["--compile"] if side == "openclip_compiled" else [])
    precision = {"fp32": "fp32", "bf16": "amp_bf16"}[options.precision]
    return [options.program, "bench", "step", "--pretrained", f"{inputs}/weights.safetensors", "--batches",
            f"{inputs}/batches.safetensors",
            "--precision", precision, "--warmup-iters", "0", "--iters", str(options.steps),
            "--json"] + common


def run_side(options, inputs: str, side: str) -> dict:
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads), MKL_NUM_THREADS=str(options.threads))
    done = subprocess.run(side_command(options, inputs, side), capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{side} failed:\n{done.stderr}")
    if side != "lockstep":
        return json.loads(done.stdout.splitlines()[-1])
    row = json.loads(done.stdout)["rows"][0]  # its check has run two steps before the timed ones
    return {"step_ms": row["samples_ms"], "losses": row["losses"][:options.steps],
            "peak_bytes": row["peak_memory_bytes"]}


def summarise(rounds: list, warm_up: int) -> dict:
    result = {}
    for peer in [side for side in rounds[0] if side != "lockstep"]:
        for name, value in paired_ratio(rounds, warm_up, peer, "step_ms").items():
            result[f"{name}_{peer}_over_lockstep" if name.startswith("ratio") else name] = value
    for side in rounds[0]:
        result[f"{side}_peak_bytes"] = statistics.median([r[side]["peak_bytes"] for r in rounds])
    pairs = [(a, b) for r in rounds for a, b in zip(r["openclip"]["losses"], r["lockstep"]["losses"])]
    result["largest_relative_loss_difference"] = max(abs(a - b) / abs(a) for a, b in pairs)
    return result


def follow(options) -> None:
    """Losses of both sides step by step from the same weights on the same batches; and of OpenCLIP against itself at
    another thread count."""
    losses = {}
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(pathlib.Path(folder), options.model, options.batch, options.batches, options.seed)
        for side in ("openclip", "lockstep"):
            losses[side] = run_side(options, folder, side)["losses"]
        threads, options.threads = options.threads, 1 if options.threads > 1 else 2
        losses["openclip_other_threads"] = run_side(options, folder, "openclip")["losses"]
        options.threads = threads
    relative = lambda side: max(abs(a - b) / abs(a) for a, b in zip(losses["openclip"], losses[side]))  # noqa: E731
    summary = {"model": options.model, "precision": options.precision, "lr": options.lr, "steps": options.steps,
               "largest_relative_loss_difference": relative("lockstep"),
               "openclip_against_itself_at_another_thread_count": relative("openclip_other_threads")}
    print(json.dumps(summary, indent=1))
    write_record(options, {"summary": summary, "losses": losses})


def write_record(options, content: dict) -> None:
    if not options.out:
        return
    import open_clip
    import torch
    command = "python3 bench/peers/clip_step.py " + " ".join(
        arg if not arg.startswith("/") else pathlib.Path(arg).name for arg in sys.argv[1:])
    head = {"command": command, "versions": {"open_clip": open_clip.__version__, "torch": torch.__version__},
            "hardware": f"{device_name(options.device)}, {options.threads} threads"}
    pathlib.Path(options.out).write_text(json.dumps(head | content, indent=1) + "\n")


def compare(options) -> None:
    rounds = []
    sides = ["openclip", "lockstep"] + (["openclip_compiled"] if options.compile else [])
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(pathlib.Path(folder), options.model, options.batch, options.batches, options.seed)
        for number in range(options.rounds):
            order = sides if number % 2 == 0 else sides[::-1]
            rounds.append({side: run_side(options, folder, side) for side in order})
            print(f"round {number + 1}: " + ", ".join(
                f"{side} {statistics.median(rounds[-1][side]['step_ms'][options.warm_up:]):.0f} ms" for side in order),
                  flush=True)
    summary = summarise(rounds, options.warm_up)
    print(json.dumps(summary, indent=1))
    write_record(options, {"summary": summary, "rounds": rounds})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["compare", "follow", "openclip"])
    add_arguments(parser, program="build/lockstep", model="ViT-B-32", batch=16)
    parser.add_argument("--compile", action="store_true",
                        help="compare: OpenCLIP under torch.compile as a third side; its first steps compile, so give "
                        "--warm-up what they take")
    options = parser.parse_args()
    {"compare": compare, "follow": follow, "openclip": run_openclip}[options.job](options)


if __name__ == "__main__":
    main()
