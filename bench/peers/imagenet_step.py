#!/usr/bin/env python3
"""One SGD step of ResNet-50 on the CPU: torchvision with channels-last against `lockstep train imagenet`, same batch
and threads, interleaved.

    pip install --target PEERS torchvision==0.26.0 pillow numpy
    export PYTHONPATH=PEERS:$LOCKSTEP_TORCH_DIR
    python3 bench/peers/imagenet_step.py compare --program build/lockstep --precision fp32 \
        --out bench/results/imagenet_step_resnet50_fp32_cpu.json

A step is forward, loss, backward and SGD with momentum and weight decay, of random pictures that are in memory.
lockstep's time is that of its step without the wait for the loader, as its own record tells it. --precision bf16 is
bf16 autocast on both sides. That both compute the same is tested elsewhere
(tests/unit/tasks_engine/classifier_training_test.cpp: ten steps with torchvision's losses). processor_time is that of a
whole process of all steps less that of one of a single step, over the steps between: what remains comparable on a
machine that others use, with --threads 1 at least.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from side_by_side import paired_ratio, write_record

FORWARD_FLOPS = 8.178e9  # of a picture of 224 pixels; a step has three such passes


def run_timed(command: list, **more) -> tuple:
    """Standard output of a command that must succeed, and the processor seconds of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_lockstep(options, steps: int) -> tuple:
    with tempfile.TemporaryDirectory() as folder:
        _, cpu_s = run_timed(
            [
                options.program,
                "train",
                "imagenet",
                "--dummy",
                "-a",
                options.model,
                "-b",
                str(options.batch),
                "-j",
                "1",
                "--max-steps",
                str(steps),
                "--threads",
                str(options.threads),
                "--device",
                "cpu",
                "--precision",
                {"fp32": "fp32", "bf16": "amp_bf16"}[options.precision],
                "--train-num-samples",
                str(steps * options.batch),
                "--epochs",
                "1",
                "--val-frequency",
                "0",
                "--val-num-samples",
                "0",
                "--save-frequency",
                "0",
                "--logs",
                folder,
                "--name",
                "run",
            ]
        )
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "run/steps.jsonl").read_text().splitlines()]
    return [line["step_ms"] - line["data_wait_ms"] for line in lines], cpu_s


def start_torchvision(options, steps: int) -> tuple:
    arguments = [
        "--model",
        options.model,
        "--batch",
        str(options.batch),
        "--steps",
        str(steps),
        "--warm-up",
        "0",
        "--threads",
        str(options.threads),
        "--precision",
        options.precision,
    ] + (["--fused"] if options.fused else [])
    told, cpu_s = run_timed(
        [sys.executable, sys.argv[0], "torchvision"] + arguments,
        env=dict(os.environ, OMP_NUM_THREADS=str(options.threads)),
    )
    return json.loads(told.splitlines()[-1]), cpu_s


def run_torchvision(options) -> list:
    import torch
    import torchvision

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = torchvision.models.get_model(options.model).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=options.fused)
    pictures = torch.randn(options.batch, 3, 224, 224).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (options.batch,))
    times = []
    for _ in range(options.warm_up + options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        times.append(1000 * (time.perf_counter() - begin))
    return times


def compare(options) -> None:
    rounds = []
    for number in range(options.rounds):
        order = ("torchvision", "lockstep") if number % 2 == 0 else ("lockstep", "torchvision")
        one = {}
        for side in order:
            run = run_lockstep if side == "lockstep" else start_torchvision
            steps = options.warm_up + options.steps
            times, cpu_s = run(options, steps)
            _, one_step_cpu_s = run(options, 1)
            one[side] = {"step_ms": times, "cpu_ms": [1000 * (cpu_s - one_step_cpu_s) / (steps - 1)]}
        rounds.append(one)
        print(
            f"round {number + 1}: "
            + ", ".join(f"{side} {statistics.median(one[side]['step_ms'][options.warm_up:]):.0f} ms" for side in order),
            flush=True,
        )
    summary = paired_ratio(rounds, options.warm_up, "torchvision", "step_ms")
    summary["processor_time"] = paired_ratio(rounds, 0, "torchvision", "cpu_ms")
    peak = measured_peak(options)
    summary["lockstep_tflops"] = (
        3 * FORWARD_FLOPS * options.batch / summary["lockstep_median_step_ms"] / 1e9
        if options.model == "resnet50"
        else None
    )
    summary["share_of_measured_peak"] = (
        summary["lockstep_tflops"] / peak if peak and summary["lockstep_tflops"] else None
    )
    print(json.dumps(summary, indent=1))
    import torch
    import torchvision

    write_record(
        options,
        {"torch": torch.__version__, "torchvision": torchvision.__version__},
        {
            "load_before_and_after": [options.load, os.getloadavg()],
            "measured_matrix_product_tflops": peak,
            "summary": summary,
            "rounds": rounds,
        },
    )


def measured_peak(options):
    """TFLOP/s of the fastest square matrix product that `lockstep bench op` measures with these threads."""
    done = subprocess.run(
        [
            options.program,
            "bench",
            "op",
            "--ops",
            "gemm",
            "--precisions",
            options.precision,
            "--min-dim",
            "1024",
            "--max-dim",
            "2048",
            "--iters",
            "5",
            "--threads",
            str(options.threads),
            "--device",
            "cpu",
            "--json",
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return None
    return max(row.get("tflops_per_s", 0) for row in json.loads(done.stdout)["rows"]) or None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["compare", "torchvision"])
    parser.add_argument("--program", default="build/lockstep")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fused", action="store_true", help="torch's fused SGD on the other side")
    parser.add_argument("--out")
    options = parser.parse_args()
    options.load = os.getloadavg()
    if options.job == "torchvision":
        print(json.dumps(run_torchvision(options)))
    else:
        compare(options)


if __name__ == "__main__":
    main()
