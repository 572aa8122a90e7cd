#!/usr/bin/env python3
"""Efficiency that `lockstep predict` tells from a recipe and a system alone, beside what was published, in points.

    bench/predict_uncalibrated.py --lockstep build/lockstep --output bench/results/predict_uncalibrated.json

Published rates are those of tests/golden/published; efficiency is that of the rate of a device against the smallest
size. Nothing is measured and nothing calibrates.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLAP = ('model = "HTSAT-{}-Roberta-base"\nbatch-size = {}\nprecision = "amp_bf16"\ndataset-type = "synthetic"\n'
        "train-num-samples = 1000000\n")
NEMOTRON = ["recipes/gpt_nemotron4_340b_h100.toml", "--system", "dgx-h100", "--samples-per-device", "0.25"]
# name: (table, rows to take, column of a rate of all devices, arguments of predict; a recipe's text may stand for one)
CASES = {
    "CLAP tiny, JUPITER": ("clap_htsat_tiny_jupiter", {}, "samples_per_s", [CLAP.format("tiny", 616), "--system",
                                                                         "jupiter"], []),
    "CLAP base, JUPITER": ("clap_htsat_base_jupiter", {}, "samples_per_s", [CLAP.format("base", 416), "--system",
                                                                         "jupiter"], []),
    "CLIP g/14, DGX A100": ("nemo_clip_g14", {"system": "DGX-A100-80GB"}, "samples_per_s",
                            ["recipes/clip_vitg14_dgx.toml", "--system", "dgx-a100"], []),
    "CLIP g/14, DGX H100": ("nemo_clip_g14", {"system": "DGX-H100-80GB"}, "samples_per_s",
                            ["recipes/clip_vitg14_dgx.toml", "--system", "dgx-h100"], []),
    "Nemotron-4 340B bf16": ("nemotron4_340b_h100", {"precision": "bf16"}, "tokens_per_s", NEMOTRON, []),
    "Nemotron-4 340B fp8": ("nemotron4_340b_h100", {"precision": "fp8"}, "tokens_per_s", NEMOTRON,
                            ["--", "--fp8-format", "hybrid"]),
}


def published(table, wanted, rate):
    """{devices: efficiency in percent}"""
    text = (ROOT / f"tests/golden/published/{table}.csv").read_text()
    rows = [row for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
            if all(row[key] == value for key, value in wanted.items())]
    of_device = {int(row["gpus"]): float(row[rate]) / int(row["gpus"]) for row in rows}
    base = of_device[min(of_device)]
    return {devices: 100 * value / base for devices, value in of_device.items()}


def predicted(program, arguments, more, devices):
    per_node = 4 if "jupiter" in arguments else 8
    nodes = ",".join(str(count // per_node) for count in sorted(devices))
    with tempfile.TemporaryDirectory() as folder:
        recipe = arguments[0]
        if "\n" in recipe:
            recipe = f"{folder}/clap_mine.toml"
            pathlib.Path(recipe).write_text(arguments[0])
        command = [program, "predict", recipe, *arguments[1:], "--nodes", nodes, "--json", *more]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {int(point["size"]) * per_node: {key: 100 * point["efficiency"][key] for key in ("p5", "p50", "p95")}
            for point in json.loads(told)["predicted"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build/lockstep")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    program = str(options.lockstep.resolve())
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[3]
    found = {}
    for name, (table, wanted, rate, arguments, more) in CASES.items():
        truth = published(table, wanted, rate)
        told = predicted(program, arguments, more, truth)
        sizes = {devices: {"published": round(truth[devices], 2)} |
                 {key: round(value, 2) for key, value in told[devices].items()} for devices in sorted(truth)}
        off = {devices: one["p50"] - one["published"] for devices, one in sizes.items()}
        worst = max(off, key=lambda devices: abs(off[devices]))
        found[name] = {"recipe": arguments, "more": more, "worst_points": round(abs(off[worst]), 2),
                       "at_devices": worst, "sizes": sizes}
        print(f"{name}: {abs(off[worst]):.1f} points at {worst} devices "
              f"({told[worst]['p50']:.1f} against {truth[worst]:.1f})")
    if options.output:
        options.output.write_text(json.dumps({"commit": version, "cases": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
