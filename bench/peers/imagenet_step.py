#!/usr/bin/env python3
"""One SGD step of ResNet-50 on the CPU: torchvision with channels-last against `lockstep train imagenet`, same batch
and threads, in turn every few seconds.

    pip install --target PEERS torchvision==0.26.0 pillow numpy
    export PYTHONPATH=PEERS:$LOCKSTEP_TORCH_DIR
    python3 bench/peers/imagenet_step.py compare --program build/lockstep --precision fp32 \
        --out bench/results/imagenet_step_resnet50_fp32_cpu.json

A step is forward, loss, backward and SGD with momentum and weight decay, of random pictures that are in memory. Both
programs live at once, and one of them is stopped while the other has its turn; time in which a program was stopped does
not count. --precision bf16 is bf16 autocast on both sides. That both compute the same is tested elsewhere
(tests/unit/tasks_engine/classifier_training_test.cpp: ten steps with torchvision's losses). processor_time is what a
side's threads used in its turn, per step: what remains comparable on a machine that others use, with --threads 1 at
least.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from side_by_side import Turns, paired_ratio, write_record

MANY = 10000  # steps that no side reaches
FORWARD_FLOPS = 8.178e9  # of a picture of 224 pixels; a step has three such passes


def lockstep_command(options, folder: str) -> list:
    precision = {"fp32": "fp32", "bf16": "amp_bf16"}[options.precision]
    return (f"{options.program} train imagenet --dummy -a {options.model} -b {options.batch} -j 1 --max-steps {MANY} "
            f"--threads {options.threads} --device cpu --precision {precision} --train-num-samples "
            f"{MANY * options.batch} --epochs 1 --val-frequency 0 --val-num-samples 0 --save-frequency 0 --name run "
            f"--logs").split() + [folder]


def whole_lines(record: pathlib.Path) -> list:
    """Of a file of JSON lines that another program still writes, or has not begun."""
    text = record.read_text() if record.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def lockstep_steps(folder: pathlib.Path) -> list:
    """[end in seconds since 1970, duration in ms] of each step that ended."""
    return [[line["time_s"], line["step_ms"]] for line in whole_lines(folder / "run/steps.jsonl")]


def torchvision_command(options, folder: str) -> list:
    return ([sys.executable, sys.argv[0], "torchvision", "--model", options.model, "--batch", str(options.batch),
             "--threads", str(options.threads), "--precision", options.precision, "--out", f"{folder}/torchvision"]
            + (["--fused"] if options.fused else []))


def torchvision_steps(folder: pathlib.Path) -> list:
    return whole_lines(folder / "torchvision")


def run_torchvision(options) -> None:
    import torch
    import torchvision

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = torchvision.models.get_model(options.model).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=options.fused)
    pictures = torch.randn(options.batch, 3, 224, 224).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (options.batch,))
    with open(options.out, "w") as record:
        for _ in range(MANY):
            begin = time.time()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
                loss = torch.nn.functional.cross_entropy(model(pictures), labels)
            loss.backward()
            optimizer.step()
            end = time.time()
            print(json.dumps([end, 1000 * (end - begin)]), file=record, flush=True)


def moment(turns) -> tuple:
    """Seconds since 1970, and the processor seconds of each side."""
    return time.time(), {side: turns.cpu_s(side) for side in turns.processes}


def turn_of(turns, side: str, steps: list, begin: tuple, end: tuple) -> dict:
    """The steps that ended between two moments, without the time in which the side was stopped."""
    times = [1000 * turns.running_s(side, ended_s - ms / 1000, ended_s) for ended_s, ms in steps
             if begin[0] <= ended_s < end[0]]
    share = (end[1][side] - begin[1][side]) / turns.running_s(side, begin[0], end[0])
    return {"step_ms": times, "cpu_ms": [share * statistics.mean(times)] if times else []}


def compare(options) -> None:
    rounds = []
    steps_of = {"torchvision": torchvision_steps, "lockstep": lockstep_steps}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        commands = {"torchvision": torchvision_command(options, name), "lockstep": lockstep_command(options, name)}
        with Turns(commands, env=dict(os.environ, OMP_NUM_THREADS=str(options.threads))) as turns:
            for side in commands:
                turns.let_run(side, lambda: len(steps_of[side](folder)) > options.warm_up)  # noqa: B023
            moments = [moment(turns)]
            for number in range(options.rounds):
                for side in list(commands) if number % 2 == 0 else list(commands)[::-1]:
                    if not turns.let_run_for(side, options.turn):
                        sys.exit(f"{side} ended after {MANY} steps: fewer --rounds or a shorter --turn")
                moments.append(moment(turns))
            for side in commands:  # lines of the record are written behind the step
                turns.let_run_for(side, options.turn)
            for begin, end in zip(moments, moments[1:]):
                one = {side: turn_of(turns, side, steps_of[side](folder), begin, end) for side in commands}
                if all(turn["step_ms"] for turn in one.values()):  # a slow step may fill a turn and not end in it
                    rounds.append(one)
    summary = paired_ratio(rounds, 0, "torchvision", "step_ms")
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
    parser.add_argument("--turn", type=float, default=6, help="seconds")
    parser.add_argument("--warm-up", type=int, default=2, help="steps of each side before the first turn")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each side")
    parser.add_argument("--fused", action="store_true", help="torch's fused SGD on the other side")
    parser.add_argument("--out")
    options = parser.parse_args()
    options.load = os.getloadavg()
    if options.job == "torchvision":
        run_torchvision(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()
