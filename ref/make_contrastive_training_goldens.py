"""Ten training steps of small CLIP models by OpenCLIP's own losses, locks and optimiser groups.

Packages (PyPI): open_clip_torch==3.3.0 torch==2.11.0 safetensors. Run from the repository root, behind
make_clip_goldens.py:

    python3 ref/make_contrastive_training_goldens.py            # writes the goldens
    python3 ref/make_contrastive_training_goldens.py FILE.pt    # OpenCLIP goes on from a file that lockstep wrote

Writes tests/golden/contrastive_training/epoch_5.pt, a checkpoint after five steps, and losses.json beside it: for each
case the losses of ten steps and the L2 norm of each parameter at the end.
Weights are those of tests/golden/clip, pictures and texts are formulas (batch_of), which the test repeats.
"""

import json
import math
import pathlib
import sys

import torch
from make_clip_goldens import build, padding_of
from open_clip.loss import ClipLoss, CoCaLoss, DistillClipLoss, SigLipLoss
from safetensors import safe_open

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
STEPS, BATCH = 10, 8
OTHER_TIMM_TOWERS = ("eva", "eva_post_norm", "pe", "pe_largest", "timm_mean", "timm_token", "timm_relative",
                     "timm_stem", "vitamin", "vitamin_plain", "fastvit", "fastvit_large")
LR, WD, BETAS, EPS = 1e-3, 0.2, (0.9, 0.98), 1e-6


def load(name, scale=1.0, **more):
    """The golden model; `scale` times its weights make another one of the same shape."""
    with safe_open(GOLDEN / "clip" / f"{name}.safetensors", "pt") as file:
        config = json.loads(file.metadata()["config"])
        state = {key[len("param/") :]: file.get_tensor(key) for key in file.keys() if key.startswith("param/")}
    model = build({**config, **more})
    model.output_dict = True
    for key, value in state.items():
        state[key] = value.float() * scale if value.is_floating_point() else value
    with torch.no_grad():
        missing = model.load_state_dict(state, strict=False).missing_keys
        if "init_logit_scale" in more:  # as --siglip sets it; the file holds another one
            model.logit_scale.fill_(more["init_logit_scale"])
    assert set(missing) <= {"logit_bias"}, missing
    return model, config


def batch_of(config, step):
    size, text_config = config["vision_cfg"]["image_size"], config["text_cfg"]
    index = torch.arange(BATCH * 3 * size * size, dtype=torch.float64)
    image = torch.sin(0.37 * index + 1.3 * step + torch.cos(0.11 * index)).reshape(BATCH, 3, size, size).float()
    hugging_face = text_config.get("hf_config", {})
    padding, vocab_size = padding_of(text_config), (hugging_face or text_config)["vocab_size"]
    text = torch.full((BATCH, text_config["context_length"]), padding, dtype=torch.int64)
    for row in range(BATCH):
        end = 2 + (3 * row + step) % (text_config["context_length"] - 3)
        text[row, :end] = 1 + padding + (torch.arange(end) * 7 + row * 11 + step * 5) % (vocab_size - 3 - padding)
        text[row, end] = vocab_size - 1
    return image, text


def make_optimizer(model):
    exclude = lambda n, p: p.ndim < 2 or "bn" in n or "ln" in n or "bias" in n or "logit_scale" in n
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return torch.optim.AdamW(
        [
            {"params": [p for n, p in trained if exclude(n, p)], "weight_decay": 0.0},
            {"params": [p for n, p in trained if not exclude(n, p)], "weight_decay": WD},
        ],
        lr=LR,
        betas=BETAS,
        eps=EPS,
    )


def save_checkpoint(path, model, optimizer, epoch):
    torch.save(
        {"epoch": epoch, "name": "golden", "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, path
    )


def train(name, loss, lock=None, teacher=None, save_at=None, resume=None, **more):
    model, config = load(name, **more)
    if lock:
        lock(model)
    model.train()
    optimizer, first = make_optimizer(model), 0
    if resume is not None:  # as OpenCLIP's main does it
        checkpoint = torch.load(resume, map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        first = checkpoint["epoch"]
    losses = []
    for step in range(first, STEPS):
        image, text = batch_of(config, step)
        optimizer.zero_grad()
        out = model(image, text)
        if teacher is not None:
            with torch.no_grad():
                out.update({f"dist_{key}": value for key, value in teacher.eval()(image, text).items()})
        parts = loss(**out, output_dict=True)
        sum(parts.values()).backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, math.log(100))
        if save_at is not None and step + 1 == save_at[0]:
            save_checkpoint(save_at[1], model, optimizer, step + 1)
        losses.append({key: value.item() for key, value in parts.items()})
    norms = {
        key: value.double().norm().item() for key, value in model.state_dict().items() if value.is_floating_point()
    }
    return {"model": name, "losses": losses, "norms": norms}


def continue_from(path):
    """The reverse: OpenCLIP goes on from a file of `ckpt export --with-optimizer` (epoch = steps done)."""
    print(json.dumps([part["contrastive_loss"] for part in train("vit_one_block", ClipLoss(), resume=path)["losses"]]))


def main():
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        return continue_from(sys.argv[1])
    sigmoid = {"init_logit_scale": math.log(10), "init_logit_bias": -10.0}
    folder = GOLDEN / "contrastive_training"
    folder.mkdir(exist_ok=True)
    cases = {
        "resumed": train("vit_one_block", ClipLoss(), save_at=(5, folder / "epoch_5.pt")),
        "softmax": train("vit", ClipLoss()),
        "siglip": train("vit", SigLipLoss(), **sigmoid),
        "siglip_resnet": train("resnet", SigLipLoss(), **sigmoid),
        "siglip_tower": train("siglip", SigLipLoss(), **sigmoid),
        "coca": train("coca", CoCaLoss(caption_loss_weight=2.0, clip_loss_weight=1.0)),
        "coca_captions": train("coca_plain", CoCaLoss(caption_loss_weight=1.0, clip_loss_weight=0.5)),
        "coca_roberta": train("coca_roberta", CoCaLoss(caption_loss_weight=2.0, clip_loss_weight=1.0)),
        "distill": train("vit", DistillClipLoss(), teacher=load("vit", 0.9)[0]),
        "lock_image": train("vit", ClipLoss(), lambda model: model.lock_image_tower()),
        "lock_image_2_groups": train("vit", ClipLoss(), lambda model: model.lock_image_tower(unlocked_groups=2)),
        "lock_text_1_layer": train("vit", ClipLoss(), lambda model: model.lock_text_tower(unlocked_layers=1)),
        "lock_both": train(
            "vit", ClipLoss(), lambda model: (model.lock_image_tower(), model.lock_text_tower(unlocked_layers=9))
        ),
        "lock_resnet": train("resnet", ClipLoss(), lambda model: model.lock_image_tower()),
        "lock_resnet_frozen_norms": train(
            "resnet", ClipLoss(), lambda model: model.lock_image_tower(freeze_bn_stats=True)
        ),
        "lock_fastvit_frozen_norms": train(
            "fastvit", ClipLoss(), lambda model: model.lock_image_tower(freeze_bn_stats=True)
        ),
        "convnext": train("convnext", ClipLoss()),
        "swin": train("swin", ClipLoss()),
        "eva02": train("eva02", ClipLoss()),
        **{name: train(name, ClipLoss()) for name in OTHER_TIMM_TOWERS},
        "roberta": train("roberta", ClipLoss()),
        "xlm_roberta": train("xlm_roberta", ClipLoss()),
        "mt5": train("mt5", ClipLoss()),
        "nllb": train("nllb", ClipLoss()),
        "lock_text_mt5": train("mt5", ClipLoss(), lambda model: model.lock_text_tower(0, False)),
        "lock_text_mt5_1_layer": train("mt5", ClipLoss(), lambda model: model.lock_text_tower(1, True)),
        "lock_text_roberta": train("roberta", ClipLoss(), lambda model: model.lock_text_tower(0, False)),
        "lock_text_roberta_norms": train("roberta", ClipLoss(), lambda model: model.lock_text_tower(0, True)),
    }
    (folder / "losses.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
