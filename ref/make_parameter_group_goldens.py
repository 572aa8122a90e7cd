"""Writes tests/golden/parameter_groups.json: layer groups of timm's image towers, and what timm's optimisers decay.

    PYTHONPATH=$(ref/setup.sh) python3 ref/make_parameter_group_goldens.py

Packages (PyPI): open_clip_torch 3.3.0, timm, transformers, torch (ref/requirements.txt). Of each model there are runs
over the names of its trained parameters in the order of their bytes: "groups" has [group, number of names] of the names
of an image tower of timm, group 0 at its input, as OpenCLIP's lock counts them; "decay" has [1 or 0, number of names]
of all names, as timm's create_optimizer_v2 shares them out. Models are built without memory for their weights.
"""
import itertools
import json
import pathlib

import torch
import transformers
from open_clip.coca_model import CoCa
from open_clip.factory import get_model_config
from open_clip.hf_model import HFTextEncoder
from open_clip.model import CLIP, CustomTextCLIP
from timm.models import group_parameters
from timm.optim import create_optimizer_v2

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "parameter_groups.json"
MODELS = [
    "RN50", "ViT-B-32", "coca_ViT-B-32", "roberta-ViT-B-32", "mt5-base-ViT-B-32", "ViT-B-16-SigLIP", "EVA01-g-14",
    "EVA02-B-16", "EVA02-E-14", "PE-Core-T-16-384", "PE-Core-B-16", "MobileCLIP-B", "MobileCLIP2-L-14", "MobileCLIP-S1",
    "MobileCLIP2-S0", "MobileCLIP2-S3", "ViTamin-S", "ViTamin-XL-256", "convnext_base", "convnext_large_d",
    "swin_base_patch4_window7_224", "vit_medium_patch16_gap_256", "vit_relpos_medium_patch16_cls_224",
]
ENCODERS = {
    "roberta-base": transformers.RobertaConfig(type_vocab_size=1, max_position_embeddings=514),
    "google/mt5-base": transformers.MT5Config(d_model=768, num_layers=12, num_heads=12, d_ff=2048, d_kv=64),
}


def runs(values):
    return [[key, len(list(group))] for key, group in itertools.groupby(values)]


def build(name):
    config = get_model_config(name)
    encoder = config["text_cfg"].get("hf_model_name")
    own_text = config["text_cfg"]
    if encoder:
        config["text_cfg"] = {}  # replaced at once
    has_custom_text = config.pop("custom_text", False) or encoder
    kind = CoCa if "multimodal_cfg" in config else CustomTextCLIP if has_custom_text else CLIP
    with torch.device("meta"):
        model = kind(**config)
        if encoder:
            model.text = HFTextEncoder("", config["embed_dim"], config=ENCODERS[encoder],
                                       pooler_type=own_text.get("hf_pooler_type", "mean_pooler"),
                                       proj_type=own_text.get("hf_proj_type", "mlp"))
            if encoder == "roberta-base":
                model.text.transformer = transformers.AutoModel.from_config(ENCODERS[encoder], add_pooling_layer=False)
            else:
                model.text.transformer = model.text.transformer.encoder  # as the wrapper does it for a name
    return model


def groups_of(trunk):
    found = group_parameters(trunk, trunk.group_matcher())
    group_of = {name: group for group, names in found.items() for name in names}
    assert set(group_of) == {name for name, _ in trunk.named_parameters()}
    return runs(group_of[name] for name in sorted(group_of))


def decay_of(model):
    optimizer = create_optimizer_v2(model, "lamb", lr=1e-3, weight_decay=0.1)
    decays = {id(p): int(group["weight_decay"] > 0) for group in optimizer.param_groups for p in group["params"]}
    return runs(decays[id(p)] for _, p in sorted(model.named_parameters()) if p.requires_grad)


def main():
    out = {}
    for name in MODELS:
        model = build(name)
        out[name] = {"decay": decay_of(model)}
        if hasattr(model.visual, "trunk"):
            out[name]["groups"] = groups_of(model.visual.trunk)
        print(name, flush=True)
    OUT.write_text(json.dumps(out, separators=(",", ":")).replace("},", "},\n") + "\n")


if __name__ == "__main__":
    main()
