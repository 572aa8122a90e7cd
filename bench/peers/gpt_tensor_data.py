#!/usr/bin/env python3
"""Two processes that share one GPT as tensor ranks against the same two as data ranks, at equal global batch; runs in
turn.

    python3 bench/peers/gpt_tensor_data.py --program build/lockstep --out bench/results/NAME.json

Each round runs both layouts through `lockstep launch` over Gloo with one compute thread a rank. A side's time is the
median of its steps behind the warm-up; the ratio is of data ranks over tensor ranks, so that above 1 tensor ranks are
the faster ones.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from side_by_side import paired_ratio, write_record

LAYOUTS = {"data": [], "tensor": ["--tensor-model-parallel-size", "2", "--sequence-parallel"]}


def run(options, layout: str, folder: str, number: int) -> dict:
    name = f"{layout}-{number}"
    batch = ["--micro-batch-size", str(options.batch // 2 if layout == "data" else options.batch),
             "--global-batch-size", str(options.batch)]
    command = [options.program, "launch", "--nproc-per-node", "2", "--", "train", "gpt", "--model", options.model,
               "--seq-length", str(options.tokens), *batch, *LAYOUTS[layout],
               "--mock-data", "--hidden-dropout", "0", "--attention-dropout", "0", "--train-iters", str(options.steps),
               "--lr", "1e-4", "--precision", options.precision,
               "--device", "cpu", "--threads", "1", "--check-replicas", "0", "--logs", folder, "--name", name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{layout} failed:\n{done.stderr}")
    steps = [json.loads(line) for line in open(pathlib.Path(folder) / name / "steps.jsonl")]
    return {"step_ms": [step["step_ms"] for step in steps], "loss": steps[-1]["loss"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/lockstep")
    parser.add_argument("--model", default="gpt2")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--out")
    parser.set_defaults(threads=1)  # of each rank
    options = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            order = list(LAYOUTS) if number % 2 == 0 else list(LAYOUTS)[::-1]
            rounds.append({layout: run(options, layout, folder, number) for layout in order})
            losses = [rounds[-1][layout]["loss"] for layout in LAYOUTS]
            if abs(losses[0] - losses[1]) > 1e-3 * losses[0]:
                sys.exit(f"the two layouts do not compute the same: losses {losses}")
            print(f"round {number + 1}: "
                  + ", ".join(f"{layout} {statistics.median(rounds[-1][layout]['step_ms'][options.warm_up:]):.0f} ms"
                              for layout in LAYOUTS), flush=True)
    summary = paired_ratio(rounds, options.warm_up, "data", "step_ms", own="tensor")
    print(json.dumps(summary, indent=1))
    write_record(options, {}, {"summary": summary, "rounds": rounds})


if __name__ == "__main__":
    main()
