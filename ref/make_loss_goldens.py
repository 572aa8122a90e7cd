"""Golden files of the contrastive loss, AdamW, schedules and loss scaling.

Packages (PyPI): open_clip_torch==3.3.0 torch==2.11.0 safetensors==0.8.0 numpy. Run from the repository root:

    python3 ref/make_loss_goldens.py

Writes tests/golden/loss/clip_loss.safetensors, tests/golden/optim/{adamw.safetensors,schedule.json,scaler.json}.
"""
import json
import math
import pathlib

import torch
from open_clip.loss import ClipLoss
from open_clip_train.scheduler import const_lr, const_lr_cooldown, cosine_lr
from safetensors.torch import save_file

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"


def clip_loss():
    generator = torch.Generator().manual_seed(1)
    image = torch.nn.functional.normalize(torch.randn(12, 16, generator=generator), dim=-1)
    text = torch.nn.functional.normalize(image.roll(0, 0) + 0.7 * torch.randn(12, 16, generator=generator), dim=-1)
    log_scale = torch.tensor(math.log(1 / 0.07))
    leaves = [tensor.clone().requires_grad_() for tensor in (image, text, log_scale)]
    loss = ClipLoss()(leaves[0], leaves[1], leaves[2].exp())
    loss.backward()
    save_file(
        {"image": image, "text": text, "log_scale": log_scale, "loss": loss.detach(), "image_grad": leaves[0].grad,
         "text_grad": leaves[1].grad, "log_scale_grad": leaves[2].grad},
        GOLDEN / "loss" / "clip_loss.safetensors",
    )


def adamw():
    generator = torch.Generator().manual_seed(2)
    shapes = {"bias": (7,), "scale": (), "weight": (5, 7), "conv": (4, 3, 2, 2)}
    decays = {"weight", "conv"}
    parameters = {name: torch.nn.Parameter(torch.randn(shape, generator=generator)) for name, shape in shapes.items()}
    out = {f"start.{name}": parameter.detach().clone() for name, parameter in parameters.items()}
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in parameters.items() if n not in decays], "weight_decay": 0.0},
         {"params": [p for n, p in parameters.items() if n in decays], "weight_decay": 0.2}],
        lr=1e-2, betas=(0.9, 0.98), eps=1e-6,
    )
    for step in range(5):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (step + 1)
        for name, parameter in parameters.items():
            parameter.grad = torch.randn(shapes[name], generator=generator) * 3
            out[f"grad.{step}.{name}"] = parameter.grad.clone()
        out[f"norm.{step}"] = torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0 if step % 2 else 1e6).clone()
        optimizer.step()
        for name, parameter in parameters.items():
            out[f"param.{step}.{name}"] = parameter.detach().clone()
    for name, parameter in parameters.items():
        out[f"exp_avg.{name}"] = optimizer.state[parameter]["exp_avg"].clone()
        out[f"exp_avg_sq.{name}"] = optimizer.state[parameter]["exp_avg_sq"].clone()
    save_file(out, GOLDEN / "optim" / "adamw.safetensors")


def rates(schedule, optimizer, steps):
    out = []
    for step in range(steps):
        schedule(step)
        out.append(optimizer.param_groups[0]["lr"])
    return out


def schedules():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.0)
    cases = []
    for warmup, total, cooldown, power, end in [(0, 10, 4, 1.0, 0.0), (3, 20, 6, 2.0, 1e-5), (5, 12, 2, 0.5, 1e-4),
                                                (20, 12, 2, 1.0, 0.0)]:
        case = {"warmup": warmup, "total": total, "cooldown": cooldown, "power": power, "end": end, "lr": 1e-3}
        case["cosine"] = rates(cosine_lr(optimizer, 1e-3, warmup, total), optimizer, total)
        case["const"] = rates(const_lr(optimizer, 1e-3, warmup, total), optimizer, total)
        case["const-cooldown"] = rates(const_lr_cooldown(optimizer, 1e-3, warmup, total, cooldown, power, end),
                                       optimizer, total)
        cases.append(case)
    (GOLDEN / "optim" / "schedule.json").write_text(json.dumps(cases) + "\n")


def scaler():
    scale, tracker = torch.full((1,), 65536.0), torch.zeros(1, dtype=torch.int32)
    overflows, trace = [0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0], []
    for overflow in overflows:
        torch._amp_update_scale_(scale, tracker, torch.tensor([float(overflow)]), 2.0, 0.5, 3)
        trace.append([scale.item(), tracker.item()])
    (GOLDEN / "optim" / "scaler.json").write_text(json.dumps({"interval": 3, "overflows": overflows,
                                                              "trace": trace}) + "\n")


if __name__ == "__main__":
    for folder in ("loss", "optim"):
        (GOLDEN / folder).mkdir(parents=True, exist_ok=True)
    clip_loss()
    adamw()
    schedules()
    scaler()
