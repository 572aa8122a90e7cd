"""Small .pt files of torch.save for the tests of our reader, and a check of the file that our writer makes.

Packages (PyPI): torch==2.11.0 safetensors==0.8.0. Run from the repository root:

    python3 ref/make_pt_goldens.py            writes tests/golden/pt/*.pt and expected.safetensors
    python3 ref/make_pt_goldens.py --check    torch.load(weights_only=True) of tests/golden/pt/ours.pt equals
                                              expected.safetensors

The unit tests hold our writer to the bytes of ours.pt, so that what was checked here stays true.
"""
import argparse
import collections
import pathlib

import torch
from safetensors.torch import load_file, save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "pt"
SHAPES = {"visual.weight": (6, 12), "token_embedding.weight": (11, 6), "text_projection": (6, 6), "logit_scale": ()}


def values():
    generator = torch.Generator().manual_seed(4)
    out = collections.OrderedDict((name, torch.randn(shape, generator=generator)) for name, shape in SHAPES.items())
    out["visual.running_mean"] = torch.randn(12, generator=generator)
    return out


class Towers(torch.nn.Module):
    """A module whose state_dict carries _metadata, parameters and buffers."""

    def __init__(self, tensors):
        super().__init__()
        self.visual = torch.nn.Module()
        self.visual.weight = torch.nn.Parameter(tensors["visual.weight"].clone())
        self.visual.register_buffer("running_mean", tensors["visual.running_mean"].clone())
        self.token_embedding = torch.nn.Embedding(11, 6)
        self.token_embedding.weight.data.copy_(tensors["token_embedding.weight"])
        self.text_projection = torch.nn.Parameter(tensors["text_projection"].clone())
        self.logit_scale = torch.nn.Parameter(tensors["logit_scale"].clone())


def make():
    FOLDER.mkdir(parents=True, exist_ok=True)
    tensors = values()
    save_file(dict(tensors), FOLDER / "expected.safetensors")

    model = Towers(tensors)
    torch.save(model.state_dict(), FOLDER / "state_dict.pt")

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sum(parameter.sum() for parameter in model.parameters()).backward()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer.step()
    torch.save(
        {"epoch": 3, "name": "run", "state_dict": collections.OrderedDict((f"module.{n}", t) for n,
                                                                          t in before.items()),
         "optimizer": optimizer.state_dict(), "scaler": torch.amp.GradScaler("cpu").state_dict()},
        FOLDER / "openclip_ddp.pt",
    )

    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sgd.step()
    schedule = torch.optim.lr_scheduler.StepLR(sgd, step_size=30)
    torch.save(  # as torchvision's reference of classification does
        {"model": tensors, "optimizer": sgd.state_dict(), "lr_scheduler": schedule.state_dict(), "epoch": 3,
         "args": argparse.Namespace(model="resnet50", lr=0.1)},
        FOLDER / "torchvision_training.pt",
    )

    custom = collections.OrderedDict()
    for name, tensor in tensors.items():
        is_text = name in ("token_embedding.weight", "text_projection")
        custom[("text." if is_text else "") + name] = tensor.reshape(1) if name == "logit_scale" else tensor
    custom["text.transformer.embeddings.position_ids"] = torch.arange(5)
    custom["note"] = "no tensor"
    torch.save(custom, FOLDER / "custom_text.pt")

    base = torch.arange(24, dtype=torch.float32)
    torch.save(
        {"f32": base[:6].reshape(2, 3), "view": base.reshape(4, 6)[:, 1:3], "transposed": base[:12].reshape(3, 4).t(),
         "bf16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16), "f16": torch.tensor([0.25], dtype=torch.float16),
         "f64": torch.tensor(1e300, dtype=torch.float64), "i64": torch.tensor([-(2**62), 7]),
         "i32": torch.tensor([-5], dtype=torch.int32),
         "u8": torch.tensor([200], dtype=torch.uint8), "bool": torch.tensor([True, False]), "empty": torch.empty(0, 3),
         "parameter": torch.nn.Parameter(base[:2].clone())},
        FOLDER / "types.pt",
    )


def check():
    expected = load_file(FOLDER / "expected.safetensors")
    for mmap in (False, True):
        ours = torch.load(FOLDER / "ours.pt", weights_only=True, mmap=mmap)
        assert ours["epoch"] == 7 and ours["name"] == "exported", ours.keys()
        scaler = torch.amp.GradScaler("cpu")
        scaler.load_state_dict(ours["scaler"])
        assert scaler.state_dict() == ours["scaler"] == {
            "scale": 512.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 9
        }, ours["scaler"]
        state_dict = ours["state_dict"]
        assert isinstance(state_dict, collections.OrderedDict) and set(state_dict) == set(expected)
        for name, tensor in state_dict.items():
            assert tensor.dtype == expected[name].dtype and torch.equal(tensor, expected[name]), name
    Towers(values()).load_state_dict(state_dict)
    print(f"ours.pt: {len(state_dict)} tensors equal")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check() if parser.parse_args().check else make()
