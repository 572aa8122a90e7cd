"""Writes the golden files of the CLIP towers, computed by OpenCLIP.

Needs from PyPI: open_clip_torch 3.3.0, torch 2.11.0, safetensors. Run from the top of the repository:

    python3 ref/make_clip_goldens.py tests/golden/clip

Each <case>.safetensors holds one tiny model: its weights ("param/NAME", rounded to bfloat16 so that the file stays
small; the computation itself is in float32), inputs ("input/..."), outputs ("output/...") and gradients of the
contrastive loss ("grad/NAME"). The metadata carries the model configuration, OpenCLIP's state_dict order and its
weight-decay groups. openclip_configs.json lists every configuration that OpenCLIP ships with its parameter counts (null
where a tower is not a native one, so that building it would need other packages).
"""
import json
import math
import pathlib
import sys

import open_clip
import torch
import torch.nn.functional as F
from open_clip.model import CLIP, convert_weights_to_lp
from safetensors.torch import save_file

TEXT = {"context_length": 12, "vocab_size": 64, "width": 16, "heads": 2, "layers": 2}
VIT = {"image_size": 32, "layers": 2, "width": 24, "head_width": 12, "patch_size": 8}
CASES = {
    "vit": {"embed_dim": 24, "vision_cfg": VIT, "text_cfg": TEXT},
    "vit_quickgelu": {
        "embed_dim": 20, "quick_gelu": True,
        "vision_cfg": {**VIT, "head_width": 8, "mlp_ratio": 2.53, "image_size": 36, "ls_init_value": 0.3},
        "text_cfg": {**TEXT, "heads": 4, "mlp_ratio": 3.0, "layers": 1},
    },
    "vit_one_block": {  # one block, one head; a bias and scalars of shape [1], as for the sigmoid loss
        "embed_dim": 16, "init_logit_bias": -10, "nonscalar_logit_scale": True,
        "vision_cfg": {**VIT, "layers": 1, "head_width": 24, "patch_size": 10},
        "text_cfg": {**TEXT, "layers": 1, "heads": 1},
    },
    "resnet": {
        "embed_dim": 12,
        "vision_cfg": {"image_size": 64, "layers": [2, 1, 1, 1], "width": 2, "patch_size": None, "head_width": 8},
        "text_cfg": {**TEXT, "layers": 1},
    },
}
BATCH = 6


def draw_weights(model, generator):
    """Weights of a size at which every part of the model matters to the result."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        noise = torch.randn(value.shape, generator=generator)
        if name == "attn_mask" or name.endswith("num_batches_tracked") or name == "logit_bias":
            continue
        if name == "logit_scale":
            value.data.fill_(math.log(1 / 0.07))
        elif name.endswith("running_var"):
            value.data.copy_(0.5 + noise.abs())
        elif value.ndim < 2:
            gain = name.endswith("weight") or name.endswith("gamma")
            value.data.copy_((1.0 if gain else 0.0) + 0.2 * noise)
        elif name.endswith("embedding.weight") or name.endswith("positional_embedding"):
            value.data.copy_(0.5 * noise)
        else:
            fan_in = value.shape[0] if name in ("visual.proj", "text_projection") else value[0].numel()
            value.data.copy_(1.3 * noise / math.sqrt(fan_in))
        value.data.copy_(value.data.to(torch.bfloat16).float())


def draw_inputs(config, generator):
    size = config["vision_cfg"]["image_size"]
    image = torch.randn(BATCH, 3, size, size, generator=generator).to(torch.bfloat16).float()
    length, vocab = config["text_cfg"]["context_length"], config["text_cfg"]["vocab_size"]
    text = torch.zeros(BATCH, length, dtype=torch.int64)
    for row, end in enumerate([3, 7, 1, 9, 5, 4]):  # never the last position: the trimming of unused positions shows
        text[row, :end] = torch.randint(1, vocab - 2, (end,), generator=generator)
        text[row, 0] = vocab - 2
        text[row, end] = vocab - 1
    return image, text


def no_decay(name, value):  # the rule of OpenCLIP 3.3.0's train script
    return value.ndim < 2 or "bn" in name or "ln" in name or "bias" in name or "logit_scale" in name


def build(config, cast_dtype=None):
    return CLIP(**json.loads(json.dumps(config)), cast_dtype=cast_dtype)


def features(model, image, text):
    with torch.no_grad():
        return model.encode_image(image, normalize=True).float(), model.encode_text(text, normalize=True).float()


def low_precision_features(config, state, image, text, pure):
    model = build(config, None if pure else torch.bfloat16)
    model.load_state_dict(state)
    if pure:
        model.to(torch.bfloat16)
    else:
        convert_weights_to_lp(model, torch.bfloat16)
    return features(model.eval(), image.to(torch.bfloat16), text)


def make_case(name, config, folder):
    generator = torch.Generator().manual_seed(7)
    model = build(config)
    draw_weights(model, generator)
    image, text = draw_inputs(config, generator)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    tensors = {f"param/{key}": value.to(torch.bfloat16) if value.is_floating_point() else value for key,
               value in state.items()}
    tensors |= {"input/image": image.to(torch.bfloat16), "input/text": text}

    tensors["output/eval_image"], tensors["output/eval_text"] = features(model.eval(), image, text)
    for label, pure in (("bf16", False), ("pure_bf16", True)):
        if config["vision_cfg"].get("ls_init_value"):
            break  # OpenCLIP 3.3.0 itself cannot run LayerScale in bf16
        outputs = low_precision_features(config, state, image, text, pure)
        tensors[f"output/{label}_image"], tensors[f"output/{label}_text"] = outputs

    model.train()
    image_features = model.encode_image(image, normalize=True)
    text_features = model.encode_text(text, normalize=True)
    logits = model.logit_scale.exp() * image_features @ text_features.T
    if model.logit_bias is not None:
        logits = logits + model.logit_bias
    labels = torch.arange(BATCH)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    if model.logit_bias is not None:
        loss = -F.logsigmoid((2 * torch.eye(BATCH) - 1) * logits).sum() / BATCH
    loss.backward()
    tensors |= {"output/train_image": image_features, "output/train_text": text_features, "output/logits": logits,
                "output/loss": loss}
    for key, value in model.named_parameters():
        if value.numel() <= 2400:
            tensors[f"grad/{key}"] = value.grad
    for key, value in model.named_buffers():
        if "running" in key or "tracked" in key:
            tensors[f"after/{key}"] = value
    metadata = {
        "config": json.dumps(config),
        "state_dict_order": json.dumps(list(state)),
        "decayed": json.dumps([key for key, value in model.named_parameters() if not no_decay(key, value)]),
        "made_by": f"open_clip_torch {open_clip.__version__}, torch {torch.__version__.split('+')[0]}",
    }
    tensors = {key: value.detach().clone().contiguous() for key, value in tensors.items()}
    save_file(tensors, folder / f"{name}.safetensors", metadata)


def list_configs(folder):
    listed = {}
    for name in sorted(open_clip.list_models()):
        config = open_clip.get_model_config(name)
        native = "timm_model_name" not in config["vision_cfg"] and "hf_model_name" not in config["text_cfg"]
        if not native or "multimodal_cfg" in config or config.get("custom_text"):
            listed[name] = None
            continue
        with torch.device("meta"):
            model = CLIP(**config)
        image = sum(p.numel() for p in model.visual.parameters())
        total = sum(p.numel() for p in model.parameters())
        decayed = sum(p.numel() for key, p in model.named_parameters() if not no_decay(key, p))
        listed[name] = {"image": image, "text": total - image, "decayed": decayed, "config": config}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in listed.items())
    (folder / "openclip_configs.json").write_text("{\n" + lines + "\n}\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name, config in CASES.items():
        make_case(name, config, folder)
    list_configs(folder)


if __name__ == "__main__":
    main()
