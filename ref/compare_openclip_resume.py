"""Runs that change programs half way: OpenCLIP's command line begins and lockstep's goes on, and the reverse. Compares
each loss with that of the run that one program makes alone.

Needs from PyPI: open_clip_torch 3.3.0, torch 2.11.0, and what OpenCLIP's trainer imports: webdataset 0.2.86, pandas,
braceexpand, tensorboard; and a built lockstep. Run from the top of the repository:

    python3 ref/compare_openclip_resume.py build/lockstep ref/results/openclip_resume.md

A ViT of four blocks and a text tower of three, pictures of `lockstep data make-shapes`, fp32, AdamW, five steps of
warm-up, then a cosine: four epochs of five steps. Each shard holds one batch and each loader process one shard, so that
an epoch's batches are those of OpenCLIP's own shuffling of shards (--data-order openclip here); within a batch the
order of the samples does not change the loss. The pictures have the model's size and --aug-cfg scale=(1.0,1.0) takes
all of them, because random crops have no common generator. One rank: OpenCLIP's command line needs GPUs for several.
Losses are read from both programs' TensorBoard files.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import open_clip
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

MODEL = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 64, "layers": 4, "width": 128, "patch_size": 16, "head_width": 32},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 96, "heads": 4, "layers": 3},
}
EPOCHS, STEPS_PER_EPOCH, BATCH = 4, 5, 16
TOTAL = EPOCHS * STEPS_PER_EPOCH


class Runs:
    """Command lines of both programs in one folder, with the losses that they leave."""

    def __init__(self, lockstep, folder, model=MODEL):
        self.lockstep, self.folder = lockstep, folder
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "open_clip_config.json").write_text(json.dumps({"model_cfg": model, "preprocess_cfg": {}}))
        self.call(
            [lockstep, "data", "make-shapes", "data", "--samples", BATCH * STEPS_PER_EPOCH, "--val-samples", 28]
            + ["--samples-per-shard", BATCH, "--image-size", model["vision_cfg"]["image_size"]]
        )
        self.write_weights()
        data = "data/train-{%06d..%06d}.tar" % (0, STEPS_PER_EPOCH - 1)
        self.flags = ["--model", "local-dir:model", "--train-data", data, "--batch-size", BATCH, "--seed", 3]
        self.flags += ["--train-num-samples", BATCH * STEPS_PER_EPOCH, "--workers", STEPS_PER_EPOCH]
        self.flags += ["--epochs", EPOCHS, "--warmup", 5, "--lr", 1e-3, "--wd", 0.2, "--precision", "fp32"]
        self.flags += ["--aug-cfg", "scale=(1.0,1.0)", "--logs", "logs", "--save-frequency", 1]
        self.flags += ["--report-to", "tensorboard", "--log-every-n-steps", 1]

    def write_weights(self, change=lambda model: None):
        """What runs of both programs begin with: OpenCLIP's initial weights, changed."""
        torch.manual_seed(5)
        model = open_clip.create_model(f"local-dir:{self.folder}/model", load_weights=False)
        with torch.no_grad():
            change(model)
        torch.save(model.state_dict(), self.folder / "model" / "open_clip_pytorch_model.bin")

    def call(self, words, threads=1):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env=environment, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"{words}\n{done.stdout.decode()[-3000:]}{done.stderr.decode()[-3000:]}")

    def losses(self, name):
        events = EventAccumulator(str(self.folder / "logs" / name / "tensorboard"), size_guidance={"scalars": 0})
        events.Reload()
        return {event.step: event.value for event in events.Scalars("train/loss")}

    def openclip(self, name, *more, threads=1):
        words = [sys.executable, "-m", "open_clip_train.main", *self.flags, "--name", name, *more]
        self.call(words, threads)
        return self.losses(name)

    def ours(self, name, *more):
        words = [self.lockstep, "train", "clip", *self.flags, "--name", name, *more]
        self.call([*words, "--data-order", "openclip", "--save-format", "openclip"])
        return self.losses(name)

    def file(self, name, epoch):
        return f"logs/{name}/checkpoints/epoch_{epoch}.pt"


def compare(runs):
    """(title, first step, losses of the run alone, losses of the run that changed programs)"""
    alone = runs.openclip("openclip")
    yield "OpenCLIP at two threads, alone", 0, alone, runs.openclip("openclip_again", threads=2)
    yield "OpenCLIP 10 steps, then lockstep 10", 10, alone, runs.ours("on", "--resume", runs.file("openclip", 2))
    ours = runs.ours("lockstep")
    yield "lockstep alone, against OpenCLIP alone", 0, alone, ours
    on = runs.openclip("back", "--resume", runs.file("lockstep", 2))
    yield "lockstep 10 steps, then OpenCLIP 10", 10, ours, on
    runs.ours("middle", "--resume", runs.file("openclip", 1))
    end = runs.openclip("end", "--resume", runs.file("middle", 3))
    yield "OpenCLIP 5, lockstep 10, then OpenCLIP 5", 15, alone, end


def main():
    lockstep, output = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    lines = [
        "# Runs that change between OpenCLIP and lockstep",
        "",
        "Written by `ref/compare_openclip_resume.py`, which says what is run: the command lines of both programs",
        "(`open_clip_train.main` of OpenCLIP 3.3.0), fp32, 20 steps with warm-up and cosine, `--resume epoch_K.pt` and",
        "`--save-format openclip`. Each row: the largest relative difference of a loss from that of the run that one",
        "program makes alone.",
        "",
        "| run | steps compared | largest difference |",
        "|---|---|---|",
    ]
    details = []
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for title, first, alone, changed in compare(Runs(lockstep, pathlib.Path(folder) / "runs")):
            steps = range(first, TOTAL)
            assert sorted(changed) == list(steps) and sorted(alone) == list(range(TOTAL)), (title, sorted(changed))
            differences = [abs(changed[step] - alone[step]) / alone[step] for step in steps]
            lines.append(f"| {title} | {first} to {TOTAL - 1} | {max(differences):.1e} |")
            print(lines[-1], flush=True)
            worst = max(worst, max(differences))
            if first == 10:
                details += ["", f"## {title}", "", "| step | alone | changed | relative difference |"]
                details += ["|---|---|---|---|"]
                details += [
                    f"| {step} | {alone[step]:.7f} | {changed[step]:.7f} | {difference:.1e} |"
                    for step, difference in zip(steps, differences)
                ]
    output.write_text("\n".join(lines + details) + "\n")
    if worst > 1e-5:
        sys.exit(f"the largest difference is {worst:.1e}")


if __name__ == "__main__":
    main()
