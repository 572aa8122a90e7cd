#!/usr/bin/env python3
"""Predicts training steps on one GPU, and compares them with measured ones.

`bench op` describes the machine; `bench step` measures models at several batch sizes. Each model's steps are then
predicted twice: from the description alone, and from it and one measured step, that of the batch named first.

    bench/predict_gpu.py --lockstep build/lockstep --output bench/results/predict_gpu.json

--again FILE takes machine and measurements from an earlier result, and predicts anew: what a change of the model does.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

CLIP = """model = "{model}"
batch-size = {batch}
precision = "{precision}"
dataset-type = "synthetic"
train-num-samples = 100000
"""
GPT = """model = "{model}"
seq-length = {sequence}
micro-batch-size = {batch}
global-batch-size = {batch}
bf16 = true
mock-data = true
lr = 1e-4
train-iters = 100
"""
GPT_BATCH = "--micro-batch-size={batch} --global-batch-size={batch}"
# name, task, recipe, flags of `bench step`, the flag of the batch, batches: the first one calibrates
MODELS = [
    ("ViT-B-32, bf16", "clip", CLIP, {"model": "ViT-B-32", "precision": "amp_bf16"}, "--batch-size={batch}",
     [256, 64, 512, 1024]),
    ("ViT-B-32, fp32", "clip", CLIP, {"model": "ViT-B-32", "precision": "fp32"}, "--batch-size={batch}", [256]),
    ("ViT-H-14, bf16", "clip", CLIP, {"model": "ViT-H-14", "precision": "amp_bf16"}, "--batch-size={batch}",
     [64, 16, 96]),
    ("ResNet-50, bf16", "imagenet", CLIP, {"model": "resnet50", "precision": "amp_bf16"}, "--batch-size={batch}",
     [256, 64]),
    ("GPT-2", "gpt", GPT, {"model": "gpt2", "precision": "bf16_master", "sequence": 1024}, GPT_BATCH, [8, 2, 32]),
    ("GPT 1.3B", "gpt", GPT, {"model": "gpt3-1.3b", "precision": "bf16_master", "sequence": 2048}, GPT_BATCH, [1, 4]),
]


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stderr[-3000:]}")
    return done.stdout


def measure(program, folder):
    """The description of the machine, its GPU, and the median step of each model and batch in seconds."""
    op = folder / "op.json"
    run(program, "bench", "op", "--min-dim", 256, "--max-dim", 8192, "--precisions", "fp32", "bf16", "--device", "cuda",
        "--output", op)
    machine = run(program, "predict", "--describe-this-machine", op)
    gpu = json.loads(op.read_text())["machine"]["ranks"][0]["device_name"]
    steps = {}
    for name, _, _, facts, _, batches in MODELS:
        for batch in batches:
            sequence = ["--seq-length", facts["sequence"]] if "sequence" in facts else []
            document = run(program, "bench", "step", "--model", facts["model"], "--precision", facts["precision"],
                           *sequence, "--batch-size", batch, "-w", 8, "-n", 25, "--device", "cuda", "--json")
            steps.setdefault(name, {})[str(batch)] = json.loads(document)["rows"][0]["step_ms"] / 1000
    return {"gpu": gpu, "machine": machine, "measured_s": steps}


def predicted(program, folder, recipe, *flags):
    answer = json.loads(run(program, "predict", recipe, "--system", folder / "machine.toml", "--nodes", 1, "--json",
                            *flags))
    return answer["predicted"][0]["step_s"]


def judge(program, folder, result):
    """Rows of predicted and measured steps."""
    (folder / "machine.toml").write_text(result["machine"])
    rows = []
    for name, task, recipe, facts, batch_flags, batches in MODELS:
        measured = result["measured_s"][name]
        for batch in batches:
            own = folder / f"{task}_step.toml"
            own.write_text(recipe.format(batch=batch, **facts))
            answers = {"from the description": predicted(program, folder, own)}
            if batch != batches[0]:
                own.write_text(recipe.format(batch=batches[0], **facts))
                answers[f"from batch {batches[0]}"] = predicted(
                    program, folder, own, "--measured", f"1={measured[str(batches[0])]}",
                    "--change=" + batch_flags.format(batch=batch))
            for source, step in answers.items():
                truth = measured[str(batch)]
                rows.append({"model": name, "batch": batch, "predicted": source, "measured_s": truth,
                             "predicted_s": step, "error_pct": 100 * (step["p50"] / truth - 1),
                             "in_90": step["p5"] <= truth <= step["p95"]})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lockstep", default="build/lockstep")
    parser.add_argument("--again", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--output", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        result = json.loads(options.again.read_text()) if options.again else measure(options.lockstep, folder)
        result["rows"] = judge(options.lockstep, folder, result)
    print(result["gpu"])
    for row in result["rows"]:
        print(f"{row['model']:16} {row['batch']:5} {row['predicted']:20} measured {row['measured_s']:.4f} s, predicted"
              f" {row['predicted_s']['p50']:.4f} s ({row['predicted_s']['p5']:.4f}-{row['predicted_s']['p95']:.4f}),"
              f" error {row['error_pct']:+.1f} %{'' if row['in_90'] else ', outside'}")
    for kind in ("from the description", "from batch"):
        rows = [row for row in result["rows"] if row["predicted"].startswith(kind)]
        print(f"{kind}: median error {statistics.median(abs(row['error_pct']) for row in rows):.1f} %, "
              f"{sum(row['in_90'] for row in rows)} of {len(rows)} inside")
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
