"""A run of OpenCLIP's command line that lockstep's goes on with in the tests: 20 losses, and the checkpoint in between.

Needs what compare_openclip_resume.py needs. Run from the top of the repository:

    python3 ref/make_openclip_resume_golden.py build/lockstep

Writes tests/golden/openclip_resume/epoch_2.pt.gz, the file behind 10 of the steps, and losses.json. The model begins
with zeros in the rows of the vocabulary that no caption uses. They stay zero, with their moments, so that the file is
small; nothing that is computed depends on them.
"""
import gzip
import json
import pathlib
import sys
import tarfile
import tempfile

import open_clip
import torch
from compare_openclip_resume import TOTAL, Runs

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "openclip_resume"
MODEL = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 3, "width": 24, "patch_size": 8, "head_width": 12},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}


def captions(folder):
    for shard in folder.glob("data/train-*.tar"):
        with tarfile.open(shard) as tar:
            yield from (tar.extractfile(member).read().decode() for member in tar if member.name.endswith(".txt"))


def forget_unused_rows(model, folder):
    tokens = open_clip.get_tokenizer(f"local-dir:{folder}/model")(list(captions(folder)))
    is_unused = torch.ones(len(model.token_embedding.weight), dtype=torch.bool)
    is_unused[tokens.unique()] = False
    model.token_embedding.weight[is_unused] = 0


def main():
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder) / "runs", MODEL)
        runs.write_weights(lambda model: forget_unused_rows(model, runs.folder))
        losses = runs.openclip("openclip")
        (GOLDEN / "losses.json").write_text(json.dumps([losses[step] for step in range(TOTAL)]) + "\n")
        checkpoint = (runs.folder / runs.file("openclip", 2)).read_bytes()
        (GOLDEN / "epoch_2.pt.gz").write_bytes(gzip.compress(checkpoint, mtime=0))


if __name__ == "__main__":
    main()
