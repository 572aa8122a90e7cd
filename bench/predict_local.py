#!/usr/bin/env python3
"""Predicts steps of this machine from steps on one and two ranks, then measures them.

A small GPT is trained on processor cores, one thread a rank. `bench op`, by one rank and by two at once, and
`bench collective` describe the machine;
steps of one and two ranks calibrate; four ranks (more than cores, where there are two), other batches, two tensor ranks
and two pipeline ranks are predicted before they are measured. Every configuration is measured several times, in turn;
the median of the medians counts. Needs an idle machine.

    bench/predict_local.py --lockstep build/lockstep --output bench/results/predict_local.json

--again FILE takes machine and measurements from an earlier result, and predicts anew: what a change of the model does.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

RECIPE = """num-layers = {layers}
hidden-size = {width}
num-attention-heads = 8
seq-length = 256
max-position-embeddings = 256
vocab-size = 8192
micro-batch-size = 4
lr = 1e-4
mock-data = true
device = "cpu"
"""
# name, ranks, flags that differ from the calibrated command
CASES = [
    ("4 ranks", 4, []),
    ("twice the batch", 2, ["--micro-batch-size=8"]),
    ("half the batch", 2, ["--micro-batch-size=2"]),
    ("2 micro-batches", 2, ["--global-batch-size=16"]),
    ("2 tensor ranks", 2, ["--tensor-model-parallel-size=2"]),
    ("2 pipeline ranks", 2, ["--pipeline-model-parallel-size=2", "--global-batch-size=16"]),
]


class Bench:
    def __init__(self, program, folder, steps):
        self.program, self.folder, self.steps, self.count = program, folder, steps, 0
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def run(self, *words):
        done = subprocess.run(
            [self.program, *map(str, words)], capture_output=True, text=True, check=False, env=self.environment
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, words))}\n{done.stderr[-3000:]}")
        return done.stdout

    def step_s(self, ranks, flags):
        """Median step of a run, its first steps left out."""
        self.count += 1
        name = f"run{self.count}"
        batch = [] if any("global-batch" in f for f in flags) else [f"--global-batch-size={self.batch(ranks, flags)}"]
        self.run(
            "launch",
            "--nproc-per-node",
            ranks,
            "--",
            "train",
            "gpt",
            "--config",
            self.folder / "gpt_local.toml",
            "--train-iters",
            self.steps,
            "--logs",
            self.folder,
            "--name",
            name,
            *batch,
            *flags,
        )
        steps = [json.loads(line) for line in (self.folder / name / "steps.jsonl").read_text().splitlines()]
        return statistics.median(one["step_ms"] for one in steps[max(2, self.steps // 5) :]) / 1000

    @staticmethod
    def batch(ranks, flags):
        micro = next((int(f.split("=")[1]) for f in flags if "micro-batch" in f), 4)
        model = next((int(f.split("=")[1]) for f in flags if "parallel-size" in f), 1)
        return micro * ranks // model

    def predict(self, ranks, flags, measured):
        words = [
            "predict",
            self.folder / "gpt_local.toml",
            "--system",
            self.folder / "machine.toml",
            "--nodes",
            ranks,
            "--measured",
            *[f"{n}={s:.6f}" for n, s in measured.items()],
            "--json",
        ]
        batch = [] if any("global-batch" in f for f in flags) else [f"--global-batch-size={self.batch(ranks, flags)}"]
        words += ["--change=" + " ".join(batch + flags)]
        words += ["--samples-per-device", 4]
        answer = json.loads(self.run(*words))
        return next(p["step_s"] for p in answer["predicted"] if p["nodes"] == ranks)


def measure(bench, folder, rounds):
    """Writes machine.toml; returns the steps of all cases, and of the two that calibrate, by name."""
    op, both, collective = folder / "op.json", folder / "op_of_both.json", folder / "collective.json"
    rates = ["bench", "op", "--ops", "gemm", "triad", "--threads", 1, "--max-dim", 1024, "--output"]
    bench.run(*rates, op)
    bench.run("launch", "--nproc-per-node", os.cpu_count(), "--", *rates, both)
    sizes = ["-b", "1K", "-e", "16M", "-f", "4"]
    bench.run("launch", "--nproc-per-node", 2, "--", "bench", "collective", *sizes, "--output", collective)
    (folder / "machine.toml").write_text(bench.run("predict", "--describe-this-machine", op, both, collective))
    seen = {}
    for _ in range(rounds):
        for name, ranks, flags in [("1 rank", 1, []), ("2 ranks", 2, [])] + CASES:
            seen.setdefault(name, []).append(bench.step_s(ranks, flags))
    return seen


def earlier(folder, result):
    """The same out of an earlier result."""
    (folder / "machine.toml").write_text(result["machine"])
    seen = {case["case"]: case["all_measured_s"] for case in result["cases"]}
    return seen | {"1 rank": [result["calibrated_s"]["1"]], "2 ranks": [result["calibrated_s"]["2"]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lockstep", default="build/lockstep")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--again", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--output", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "gpt_local.toml").write_text(RECIPE.format(layers=options.layers, width=options.width))
        bench = Bench(options.lockstep, folder, options.steps)
        result = json.loads(options.again.read_text()) if options.again else {}
        seen = earlier(folder, result) if options.again else measure(bench, folder, options.rounds)
        measured = {1: statistics.median(seen["1 rank"]), 2: statistics.median(seen["2 ranks"])}
        rows = []
        for name, ranks, flags in CASES:
            step, truth = bench.predict(ranks, flags, measured), statistics.median(seen[name])
            rows.append(
                {
                    "case": name,
                    "ranks": ranks,
                    "flags": flags,
                    "measured_s": truth,
                    "all_measured_s": seen[name],
                    "predicted_s": step,
                    "error_pct": 100 * (step["p50"] / truth - 1),
                    "in_90": step["p5"] <= truth <= step["p95"],
                }
            )
        machine = (folder / "machine.toml").read_text().replace(f"{folder}/", "")
    print(f"calibrated on 1 rank {measured[1]:.4f} s and 2 ranks {measured[2]:.4f} s; {os.cpu_count()} cores")
    for row in rows:
        print(
            f"{row['case']:18} measured {row['measured_s']:.4f} s, predicted {row['predicted_s']['p50']:.4f} s"
            f" ({row['predicted_s']['p5']:.4f}-{row['predicted_s']['p95']:.4f}), error {row['error_pct']:+.1f} %"
        )
    if options.output:
        pathlib.Path(options.output).write_text(
            json.dumps(
                {
                    "cores": os.cpu_count(),
                    "steps": options.steps,
                    "rounds": options.rounds,
                    **({"predicted": "anew from earlier measurements, --again"} if options.again else {}),
                    "machine": machine,
                    "calibrated_s": measured,
                    "cases": rows,
                },
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
