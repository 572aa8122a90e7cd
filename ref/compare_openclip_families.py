"""Runs of the families of OpenCLIP that are not its first CLIP class, continued in either program from the other's
epoch_1.pt: names, shapes and optimiser numbers of the files, and the losses behind them.

Needs from PyPI: open_clip_torch 3.3.0, torch 2.11.0, timm 1.0.31, transformers 5.23.0, sentencepiece, safetensors;
and a built lockstep. Run from the top of the repository:

    python3 ref/compare_openclip_families.py build/lockstep ref/results/openclip_families.md

Models are those of make_clip_goldens.py (OpenCLIP's classes around small towers of timm and transformers) with the
vocabulary of their tokenizer. Two epochs of five steps, fp32, AdamW, one learning rate, pictures of `lockstep data
make-shapes` at the model's size, in the order of the shards. OpenCLIP's side is its model, its loss, the two groups of
parameters of its training script and torch's AdamW; files are read with the strict load_state_dict that its --resume
has, and written as it writes them.
"""
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import numpy
import open_clip
import sentencepiece
import torch
import transformers
from make_clip_goldens import CASES, build, no_decay
from make_sentencepiece_goldens import FAIRSEQ_LANGUAGE_CODES, mt5_tokenizer, nllb_ids, nllb_tokenizer, whole
from open_clip.loss import ClipLoss, CoCaLoss, SigLipLoss
from PIL import Image

FAMILIES = ["custom_text", "siglip", "coca", "coca_roberta", "roberta", "xlm_roberta", "mt5", "nllb", "eva", "eva02",
            "pe", "vitamin", "timm_token", "convnext", "fastvit", "fastvit_large", "resnet", "vit"]
PIECES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "sentencepiece"
STEPS, BATCH, EPOCHS, LR, WD, BETAS, EPS = 5, 16, 2, 1e-3, 0.2, (0.9, 0.98), 1e-6
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(word) for word in words)}\n{done.stderr.decode()[-1500:]}")


def config_of(name, vocabulary):
    """The golden's model with the vocabulary of its texts; what names a tokenizer of the Hub is left out."""
    config = json.loads(json.dumps(CASES[name]))
    text = config["text_cfg"]
    text["context_length"] = 16
    for key in ("hf_tokenizer_name", "tokenizer_kwargs"):
        if "hf_model_name" not in text:
            text.pop(key, None)
    if "hf_model_name" in text:
        text["hf_config"]["vocab_size"] = vocabulary
    if "roberta" in text.get("hf_model_name", ""):
        text["hf_model_name"] = text["hf_tokenizer_name"] = "roberta-base"
        text["hf_config"]["max_position_embeddings"] = 20
    if "hf_model_name" not in text or "multimodal_cfg" in config:
        text["vocab_size"] = 49408 if "hf_model_name" not in text else vocabulary
    if "multimodal_cfg" in config:
        config["multimodal_cfg"]["context_length"] = 16
    return config


def batches_of(folder, tokenize):
    for shard in sorted(folder.glob("train-*.tar")):
        pictures, texts = [], []
        with tarfile.open(shard) as tar:
            for member in tar:
                content = tar.extractfile(member).read()
                if member.name.endswith(".txt"):
                    texts.append(content.decode())
                elif not member.name.endswith((".json", ".cls")):
                    pictures.append(numpy.asarray(Image.open(io.BytesIO(content)).convert("RGB")))
        image = torch.from_numpy(numpy.stack(pictures)).permute(0, 3, 1, 2).float() / 255
        image = (image - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(STD).view(1, 3, 1, 1)
        yield image, tokenize(texts)


class OpenClip:
    """A run as OpenCLIP's training script makes it on one process without mixed precision."""

    def __init__(self, config, state):
        self.model = build(config)
        self.model.output_dict = True
        self.model.load_state_dict(state)
        self.model.train()
        named = [(name, value) for name, value in self.model.named_parameters() if value.requires_grad]
        plain = [value for name, value in named if no_decay(name, value)]
        decaying = [value for name, value in named if not no_decay(name, value)]
        groups = [{"params": plain, "weight_decay": 0.0}, {"params": decaying, "weight_decay": WD}]
        self.optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
        is_coca = "multimodal_cfg" in config
        self.loss = (CoCaLoss(caption_loss_weight=2.0, clip_loss_weight=1.0) if is_coca else
                     SigLipLoss() if "init_logit_bias" in config else ClipLoss())

    def resume(self, file):
        saved = torch.load(file, map_location="cpu", weights_only=True)
        names = [name.removeprefix("module.") for name in saved["state_dict"]]
        self.model.load_state_dict(dict(zip(names, saved["state_dict"].values())))
        self.optimizer.load_state_dict(saved["optimizer"])
        numbered = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        for parameter in numbered:
            assert self.optimizer.state[parameter]["exp_avg"].shape == parameter.shape
        return names == list(self.model.state_dict()), saved["epoch"], len(numbered)

    def save(self, file):
        torch.save({"epoch": 1, "name": "theirs", "state_dict": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict()}, file)

    def train(self, batches):
        losses = []
        for image, text in batches:
            self.optimizer.zero_grad()
            parts = self.loss(**self.model(image, text), output_dict=True)
            total = sum(parts.values())
            total.backward()
            self.optimizer.step()
            with torch.no_grad():
                self.model.logit_scale.clamp_(0, numpy.log(100))
            losses.append(total.item())
        return losses


class Lockstep:
    def __init__(self, program, folder, config, data, tokenizer):
        self.program, self.folder = program, folder
        shards = data / ("train-{%06d..%06d}.tar" % (0, STEPS - 1))
        self.flags = ["--model", folder / "model.json", "--train-data", shards, "--train-num-samples", STEPS * BATCH]
        self.flags += ["--batch-size", BATCH, "--workers", 1, "--shuffle", "off", "--train-transform", "eval"]
        self.flags += ["--epochs", EPOCHS, "--lr", LR, "--lr-scheduler", "const"]
        self.flags += ["--warmup", 0, "--wd", WD, "--beta1", BETAS[0], "--beta2", BETAS[1], "--eps", EPS]
        self.flags += ["--precision", "fp32", "--logs", folder / "logs", "--save-format", "openclip", "--device", "cpu"]
        if "init_logit_bias" in config:
            self.flags += ["--siglip"]
        if "hf_model_name" in config["text_cfg"]:
            self.flags += ["--tokenizer-vocab", tokenizer]
        (folder / "model.json").write_text(json.dumps(config))

    def train(self, name, *more):
        call(self.program, "train", "clip", *self.flags, "--name", name, *more)
        lines = (self.folder / "logs" / name / "steps.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines if "loss" in json.loads(line)]

    def file(self, name, epoch):
        return self.folder / "logs" / name / "checkpoints" / f"epoch_{epoch}.pt"


def difference(a, b):
    assert len(a) == len(b) > 0, (len(a), len(b))
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def pieces_of(name):
    """A tokenizer of mT5's or NLLB's kind, its file, and how many ids it has."""
    file = PIECES / f"{name}.model"
    num_pieces = len(sentencepiece.SentencePieceProcessor(model_file=str(file)))
    if name == "mt5":
        tokenizer = mt5_tokenizer(PIECES)
        return (lambda text: whole(tokenizer, text, 16)), file, num_pieces
    tokenizer = nllb_tokenizer(str(file))
    return (lambda text: nllb_ids(tokenizer, num_pieces, text, 16)), file, num_pieces + 1 + len(FAIRSEQ_LANGUAGE_CODES)


def compare(name, program, folder):
    tokenizer = folder.parent / "sounds"
    if name in ("mt5", "nllb"):
        encode, tokenizer, vocabulary = pieces_of(name)
        config = config_of(name, vocabulary)

        def tokenize(texts):
            return torch.tensor([encode(text) for text in texts])
    elif "hf_model_name" in CASES[name]["text_cfg"]:
        [file] = tokenizer.rglob("vocab.json")
        roberta = transformers.RobertaTokenizer(vocab=str(file), merges=str(file.with_name("merges.txt")))
        config = config_of(name, len(json.loads(file.read_text())))
        tokenizer = file.parent

        def tokenize(texts):
            texts = [" ".join(text.split()) for text in texts]
            return roberta(texts, return_tensors="pt", max_length=16, padding="max_length", truncation=True).input_ids
    else:
        config = config_of(name, None)

        def tokenize(texts):
            return open_clip.SimpleTokenizer(context_length=16)(texts)

    size = config["vision_cfg"]["image_size"]
    data = folder.parent / f"data{size}"
    if not data.exists():
        call(program, "data", "make-shapes", data, "--samples", BATCH * STEPS, "--val-samples", 28,
             "--samples-per-shard", BATCH, "--image-size", size)
    torch.manual_seed(5)
    start = build(config)
    with torch.no_grad():  # CoCa leaves parameters of its decoder as it found the memory
        for key, parameter in start.named_parameters():
            if key.startswith("text_decoder.") and parameter.dim() > 1:
                parameter.normal_(std=0.02)
    state = {key: value.clone() for key, value in start.state_dict().items()}
    torch.save(state, folder / "start.pt")
    batches = list(batches_of(data, tokenize))
    alone = OpenClip(config, state)
    theirs = alone.train(batches)
    alone.save(folder / "epoch_1.pt")
    theirs += alone.train(batches)

    ours = Lockstep(program, folder, config, data, tokenizer)
    losses = ours.train("ours", "--pretrained", folder / "start.pt")
    back = OpenClip(config, state)
    is_in_order, epoch, num_numbered = back.resume(ours.file("ours", 1))
    assert epoch == 1, epoch
    on = ours.train("on", "--resume", folder / "epoch_1.pt")
    return [
        type(back.model).__name__, len(back.model.state_dict()), "yes" if is_in_order else "NO", num_numbered,
        difference(losses, theirs), difference(back.train(batches), losses[STEPS:]), difference(on, theirs[STEPS:]),
    ]


def main():
    program, output = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    lines = [
        "# Runs of other families, continued in either program",
        "",
        "Written by `ref/compare_openclip_families.py`, which says what is run: small models of the classes of",
        "OpenCLIP 3.3.0 (timm 1.0.31, transformers 5.23.0), fp32, two epochs of five steps. OpenCLIP reads the",
        "`epoch_1.pt` of `--save-format openclip` with its strict `load_state_dict`; its AdamW counts parameters.",
        "`in order`: the file's names are those of OpenCLIP's state dict in its order. Differences are the largest",
        "relative ones of a loss: our ten steps from OpenCLIP's ten, OpenCLIP's five behind our file from ours, and",
        "the reverse.",
        "",
        "| model | class | tensors | in order | numbered | ours alone | OpenCLIP goes on | ours goes on |",
        "|---|---|---|---|---|---|---|---|",
    ]
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        call(program, "data", "make-sounds", pathlib.Path(folder) / "sounds", "--samples", 48, "--val-samples", 48,
             "--vocab-size", 400)
        for name in sys.argv[3:] or FAMILIES:
            (pathlib.Path(folder) / name).mkdir()
            try:
                *facts, alone, back, on = compare(name, program, pathlib.Path(folder) / name)
                worst = max(worst, alone, back, on)
                cells = [*facts, *(f"{value:.1e}" for value in (alone, back, on))]
            except Exception as error:  # the table shows which family fails, and the end says so
                print(f"{name}: {type(error).__name__} {error}", flush=True)
                cells, worst = ["failed"], float("inf")
            lines.append(f"| {name} | {' | '.join(str(cell) for cell in cells)} |")
            print(lines[-1], flush=True)
    output.write_text("\n".join(lines) + "\n")
    if worst > 1e-5:
        sys.exit(f"the largest difference is {worst:.1e}")


if __name__ == "__main__":
    main()
