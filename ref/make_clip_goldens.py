"""Writes the golden files of the CLIP towers, computed by OpenCLIP.

Needs from PyPI: open_clip_torch 3.3.0, torch 2.11.0, timm 1.0.31, transformers 5.23.0, safetensors. Run from the top of
the repository:

    python3 ref/make_clip_goldens.py tests/golden/clip

Each <case>.safetensors holds one tiny model: its weights ("param/NAME", rounded to bfloat16 so that the file stays
small; the computation itself is in float32), inputs ("input/..."), outputs ("output/...") and gradients of the
contrastive loss ("grad/NAME"). The metadata carries the model configuration, OpenCLIP's state_dict order and its
weight-decay groups. openclip_configs.json lists every configuration that OpenCLIP ships with its parameter counts.
"""
import functools
import json
import math
import pathlib
import sys

import open_clip
import timm
import torch
import torch.nn.functional as F
import transformers
from open_clip.coca_model import CoCa
from open_clip.hf_model import HFTextEncoder
from open_clip.loss import CoCaLoss
from open_clip.model import CLIP, CustomTextCLIP, convert_weights_to_lp
from safetensors.torch import save_file

TEXT = {"context_length": 12, "vocab_size": 64, "width": 16, "heads": 2, "layers": 2}
VIT = {"image_size": 32, "layers": 2, "width": 24, "head_width": 12, "patch_size": 8}
TIMM_VIT = {**VIT, "tower": "timm_vit", "norm_kwargs": {"eps": 1e-6}}
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
    # As CLIPA's: no norm in front, patches averaged, the last norm behind; text without a mask, its last place.
    "vit_avg": {
        "embed_dim": 20,
        "vision_cfg": {**VIT, "no_ln_pre": True, "pool_type": "avg", "final_ln_after_pool": True,
                       "norm_kwargs": {"eps": 1e-3}, "act_kwargs": {"approximate": "tanh"}},
        "text_cfg": {**TEXT, "no_causal_mask": True, "pool_type": "last", "act_kwargs": {"approximate": "tanh"}},
    },
    "vit_fixed": {  # fixed positions, norm before the mean; text pooled at its end token, projection with bias
        "embed_dim": 20,
        "vision_cfg": {**VIT, "pos_embed_type": "sin_cos_2d", "pool_type": "avg"},
        "text_cfg": {**TEXT, "pool_type": "eos", "eos_id": 63, "proj_bias": True, "norm_kwargs": {"eps": 1e-3}},
    },
    # Text tower under a name of its own, pooled at the first place; attentional pooling of the picture.
    "custom_text": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**VIT, "attentional_pool": True, "attn_pooler_queries": 5, "attn_pooler_heads": 4},
        "text_cfg": {**TEXT, "pool_type": "first", "no_causal_mask": True},
    },
    "coca": {
        "embed_dim": 16, "custom_text": True,
        "vision_cfg": {**VIT, "attentional_pool": True, "attn_pooler_queries": 5, "attn_pooler_heads": 4,
                       "output_tokens": True},
        "text_cfg": {**TEXT, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {"context_length": 12, "width": 16, "heads": 2, "layers": 2},
    },
    "coca_plain": {  # the decoder reads the blocks' own tokens; one width throughout
        "embed_dim": 24, "custom_text": True, "quick_gelu": True,
        "vision_cfg": {**VIT, "output_tokens": True},
        "text_cfg": {**TEXT, "width": 24, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {"context_length": 12, "width": 24, "heads": 3, "layers": 1, "ls_init_value": 0.5},
    },
    "siglip": {  # timm's tower at sizes that no name of timm has
        "embed_dim": 24, "custom_text": True, "init_logit_bias": -10,
        "vision_cfg": {**VIT, "tower": "timm_vit", "timm_pool": "map", "timm_proj": "none",
                       "norm_kwargs": {"eps": 1e-6}, "mlp_ratio": 3.7362},
        "text_cfg": {**TEXT, "hf_tokenizer_name": "timm/ViT-B-16-SigLIP", "tokenizer_kwargs": {"clean": "canonicalize"},
                     "no_causal_mask": True, "proj_bias": True, "pool_type": "last", "norm_kwargs": {"eps": 1e-6}},
    },
    "siglip_head": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**VIT, "tower": "timm_vit", "timm_pool": "map", "timm_proj": "mlp",
                       "norm_kwargs": {"eps": 1e-6}, "act_kwargs": {"approximate": "tanh"}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "convnext": {
        "embed_dim": 20,
        "vision_cfg": {"tower": "convnext", "image_size": 64, "layers": [1, 2, 1, 1], "width": 8, "head_width": 8,
                       "timm_pool": "", "timm_proj": "linear", "norm_kwargs": {"eps": 1e-6}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "swin": {  # the first stage has four windows, which the second block shifts
        "embed_dim": 20,
        "vision_cfg": {"tower": "swin", "image_size": 32, "layers": [2, 1, 1, 1], "width": 8, "head_width": 4,
                       "patch_size": 4, "window_size": 4, "timm_pool": "", "timm_proj": "linear"},
        "text_cfg": {**TEXT, "layers": 1},
    },
    # As fastvit_mci0, and as fastvit_mci3: a fifth stage, layer norms. Sides of an odd number of cells occur.
    "fastvit": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {"tower": "fastvit", "image_size": 40, "layers": [1, 2, 1, 1], "width": 8, "head_width": 32,
                       "mlp_ratio": 3.0, "timm_pool": "avg", "timm_proj": None},
        "text_cfg": {**TEXT, "layers": 1, "no_causal_mask": True},
    },
    "fastvit_large": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {"tower": "fastvit", "image_size": 72, "layers": [1, 1, 1, 1, 1], "width": 4, "head_width": 32,
                       "mlp_ratio": 4.0, "timm_pool": "avg", "timm_proj": "linear"},
        "text_cfg": {**TEXT, "layers": 1, "no_causal_mask": True},
    },
    "eva02": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**VIT, "tower": "eva02", "mlp_ratio": 2.6, "timm_pool": "token", "timm_proj": None,
                       "norm_kwargs": {"eps": 1e-6}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    # The first EVA: keys without bias, timm's head at the class token; and with norms behind the branches (EVA02-E).
    "eva": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**TIMM_VIT, "mlp_ratio": 2.6, "timm_pool": "token", "timm_proj": None,
                       "timm_config": {"class_token": True, "qkv_bias": "not_keys", "begins_as_eva": True}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "eva_post_norm": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**TIMM_VIT, "mlp_ratio": 2.6, "timm_pool": "token", "timm_proj": None,
                       "timm_config": {"class_token": True, "qkv_bias": "not_keys", "begins_as_eva": True,
                                       "use_post_norm": True}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    # PE: rotary positions (stretched, shifted), a pool of other heads than the blocks'; the largest has no class token.
    "pe": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**TIMM_VIT, "timm_pool": "map", "timm_proj": None, "norm_kwargs": {"eps": 1e-5},
                       "timm_config": {"class_token": True, "pre_norm": True, "begins_as_eva": True,
                                       "ref_feat_shape": 6, "rope_grid_offset": 1.0, "attn_pool_num_heads": 3,
                                       "attn_pool_mlp_ratio": 2.0}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "pe_largest": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**TIMM_VIT, "layers": 1, "timm_pool": "map", "timm_proj": None, "norm_kwargs": {"eps": 1e-5},
                       "timm_config": {"pre_norm": True, "begins_as_eva": True, "ref_feat_shape": 4}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "timm_mean": {  # as vit_medium_patch16_gap_256
        "embed_dim": 20,
        "vision_cfg": {**TIMM_VIT, "timm_pool": "avg", "timm_proj": "linear", "ls_init_value": 1e-6,
                       "timm_config": {"qkv_bias": "none"}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "timm_token": {  # as vit_large_patch14_clip_224
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**TIMM_VIT, "layers": 1, "timm_pool": "token", "timm_proj": None, "norm_kwargs": {"eps": 1e-5},
                       "timm_config": {"class_token": True, "pre_norm": True}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "timm_relative": {  # as vit_relpos_medium_patch16_cls_224, without its dropout
        "embed_dim": 20,
        "vision_cfg": {**TIMM_VIT, "timm_pool": "token", "timm_proj": "linear", "ls_init_value": 0.4,
                       "timm_config": {"class_token": True, "qkv_bias": "none", "pos_embed": "none",
                                       "rel_pos_dim": 10, "rel_pos_drop": 0.0}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "vitamin": {
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**TIMM_VIT, "tower": "vitamin", "image_size": 48, "patch_size": 16, "layers": 1,
                       "mlp_ratio": 2.0, "timm_pool": "avg", "final_ln_after_pool": True, "timm_proj": "linear",
                       "timm_config": {"has_gated_mlp": True, "embed_dim": [4, 8], "depths": [1, 2]}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "vitamin_plain": {  # as the largest, without positions
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**TIMM_VIT, "tower": "vitamin", "image_size": 32, "patch_size": 16, "layers": 1,
                       "mlp_ratio": 2.0, "timm_pool": "avg", "final_ln_after_pool": True, "timm_proj": "linear",
                       "timm_config": {"has_gated_mlp": True, "embed_dim": [4, 4], "depths": [1, 1],
                                       "pos_embed": "none"}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "timm_stem": {  # as vit_base_mci_224
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**TIMM_VIT, "tower": "timm_stem_vit", "image_size": 48, "patch_size": 16, "layers": 1,
                       "timm_pool": "token", "timm_proj": None,
                       "timm_config": {"class_token": True, "no_embed_class": True}},
        "text_cfg": {**TEXT, "layers": 1},
    },
    "roberta": {
        "embed_dim": 20,
        "vision_cfg": {**VIT, "layers": 1},
        "text_cfg": {"hf_model_name": "roberta-base", "hf_tokenizer_name": "roberta-base", "context_length": 12,
                     "hf_pooler_type": "mean_pooler", "hf_proj_type": "mlp",
                     "hf_config": {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2,
                                   "num_attention_heads": 2, "intermediate_size": 40, "max_position_embeddings": 16,
                                   "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}},
    },
    "coca_roberta": {  # the decoder reads all of RoBERTa's tokens, padding included, and is asked for it
        "embed_dim": 20, "custom_text": True,
        "vision_cfg": {**VIT, "output_tokens": True},
        "text_cfg": {"hf_model_name": "roberta-base", "hf_tokenizer_name": "roberta-base", "context_length": 12,
                     "hf_pooler_type": "mean_pooler", "hf_proj_type": "linear", "output_tokens": True, "width": 24,
                     "vocab_size": 64,
                     "hf_config": {"vocab_size": 64, "hidden_size": 24, "num_hidden_layers": 2,
                                   "num_attention_heads": 2, "intermediate_size": 40, "max_position_embeddings": 16,
                                   "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}},
        "multimodal_cfg": {"context_length": 12, "width": 24, "heads": 3, "layers": 1},
    },
    "xlm_roberta": {
        "embed_dim": 24,
        "vision_cfg": {**VIT, "layers": 1},
        "text_cfg": {"hf_model_name": "xlm-roberta-base", "hf_tokenizer_name": "xlm-roberta-base", "context_length": 12,
                     "hf_pooler_type": "cls_pooler", "hf_proj_type": "linear",
                     "hf_config": {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2,
                                   "num_attention_heads": 4, "intermediate_size": 40, "max_position_embeddings": 16,
                                   "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}},
    },
    "mt5": {  # buckets of more than one distance; heads that do not make up the width
        "embed_dim": 20,
        "vision_cfg": {**VIT, "layers": 1},
        "text_cfg": {"hf_model_name": "google/mt5-base", "hf_tokenizer_name": "google/mt5-base", "context_length": 12,
                     "hf_pooler_type": "mean_pooler", "hf_proj_type": "mlp",
                     "hf_config": {"vocab_size": 64, "d_model": 16, "d_kv": 6, "d_ff": 20, "num_layers": 3,
                                   "num_heads": 3, "relative_attention_num_buckets": 8,
                                   "relative_attention_max_distance": 9, "dropout_rate": 0.0, "pad_token_id": 0}},
    },
    "nllb": {
        "embed_dim": 24,
        "vision_cfg": {**VIT, "layers": 1},
        "text_cfg": {"hf_model_name": "facebook/nllb-200-distilled-600M", "context_length": 12,
                     "hf_tokenizer_name": "facebook/nllb-200-distilled-600M", "hf_pooler_type": "cls_pooler",
                     "hf_proj_type": "linear",
                     "hf_config": {"vocab_size": 64, "d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 4,
                                   "encoder_ffn_dim": 40, "dropout": 0.0, "attention_dropout": 0.0,
                                   "encoder_layerdrop": 0.0, "pad_token_id": 1}},
    },
    "resnet": {
        "embed_dim": 12,
        "vision_cfg": {"image_size": 64, "layers": [2, 1, 1, 1], "width": 2, "patch_size": None, "head_width": 8},
        "text_cfg": {**TEXT, "layers": 1},
    },
}
BATCH = 6
EMBEDDINGS = ("embedding.weight", "positional_embedding", "embeddings.weight", "pos_embed", "latent", "query")
LOW_PRECISION = ("vit", "vit_quickgelu", "vit_one_block", "resnet")


def is_fixed(name, value):
    return name == "visual.positional_embedding" and not value.requires_grad


def draw_weights(model, generator):
    """Weights of a size at which every part of the model matters to the result."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        noise = torch.randn(value.shape, generator=generator)
        if name.endswith("attn_mask") or name.endswith("num_batches_tracked") or name == "logit_bias":
            continue
        if name.endswith(("position_ids", "token_type_ids", "relative_position_index", "rel_coords_log")):
            continue
        if ".rope." in name or name.endswith("embed_positions.weights"):  # sines
            continue
        if name == "logit_scale":
            value.data.fill_(math.log(1 / 0.07))
        elif name.endswith("running_var"):
            value.data.copy_(0.5 + noise.abs())
        elif is_fixed(name, value):
            pass
        elif value.ndim < 2:
            gain = name.endswith("weight") or name.endswith("gamma")
            value.data.copy_((1.0 if gain else 0.0) + 0.2 * noise)
        elif name.endswith(EMBEDDINGS) or name.endswith("cls_token"):
            value.data.copy_(0.5 * noise)
        else:
            is_matrix = name == "visual.proj" or (name.endswith("text_projection") and value.ndim == 2)
            fan_in = value.shape[0] if is_matrix else value[0].numel()
            value.data.copy_(1.3 * noise / math.sqrt(fan_in))
        value.data.copy_(value.data.to(torch.bfloat16).float())


def padding_of(text):
    """Of a model's "text_cfg"."""
    return text["hf_config"].get("pad_token_id", 1) if "hf_config" in text else 0


def draw_inputs(config, generator):
    size = config["vision_cfg"]["image_size"]
    image = torch.randn(BATCH, 3, size, size, generator=generator).to(torch.bfloat16).float()
    length, sizes = config["text_cfg"]["context_length"], config["text_cfg"].get("hf_config", config["text_cfg"])
    vocab = sizes["vocab_size"]
    text = torch.full((BATCH, length), padding_of(config["text_cfg"]), dtype=torch.int64)
    for row, end in enumerate([3, 7, 1, 9, 5, 4]):  # never the last position: the trimming of unused positions shows
        text[row, :end] = torch.randint(1 if text[row, 0] == 0 else 2, vocab - 2, (end,), generator=generator)
        text[row, 0] = vocab - 2
        text[row, end] = vocab - 1
    return image, text


def no_decay(name, value):  # the rule of OpenCLIP 3.3.0's train script
    return value.ndim < 2 or "bn" in name or "ln" in name or "bias" in name or "logit_scale" in name


OWN_KEYS = ("tower", "hf_config", "timm_config", "window_size")  # of lockstep's configurations


def timm_vit(vision, num_classes):
    """A vision transformer of timm, or its Eva, with the arguments of timm_config."""
    wanted = dict(vision["timm_config"])
    is_eva, bias = wanted.pop("begins_as_eva", False), wanted.pop("qkv_bias", "all")
    cells = wanted.get("ref_feat_shape")
    common = {
        "img_size": vision["image_size"], "patch_size": vision["patch_size"], "embed_dim": vision["width"],
        "depth": vision["layers"], "num_heads": vision["width"] // vision["head_width"],
        "mlp_ratio": vision.get("mlp_ratio", 4.0), "class_token": wanted.pop("class_token", False),
        "global_pool": vision["timm_pool"], "num_classes": num_classes,
        "norm_layer": functools.partial(timm.layers.LayerNorm, eps=vision["norm_kwargs"]["eps"]),
    }
    if is_eva:
        wanted["use_pre_transformer_norm"] = wanted.pop("pre_norm", False)
        if cells:
            wanted |= {"use_rot_pos_emb": True, "attn_type": "rope", "rope_grid_indexing": "xy"}
        assert (bias == "not_keys") == (not cells)  # timm's kinds of attention
        return timm.models.eva.Eva(**common, **wanted)
    if "rel_pos_dim" in wanted:
        trunk = timm.models.vision_transformer_relpos.VisionTransformerRelPos(
            **common, qkv_bias=bias == "all", init_values=vision["ls_init_value"], rel_pos_dim=wanted["rel_pos_dim"])
        for block in trunk.blocks:
            block.attn.rel_pos.mlp.drop1.p = wanted["rel_pos_drop"]
        return trunk
    if vision["tower"] == "timm_stem_vit":
        width = vision["width"]
        stem = timm.models.vision_transformer_hybrid.ConvStem(
            channels=(width // 4, width // 4, width), stride=(4, 2, 2), kernel_size=(4, 2, 2), padding=0,
            act_layer=torch.nn.GELU)
        common |= {"patch_size": 1, "embed_layer": functools.partial(
            timm.models.vision_transformer_hybrid.HybridEmbed, backbone=stem, proj=False)}
    is_vitamin = vision["tower"] == "vitamin"
    if is_vitamin:
        widths = wanted.pop("embed_dim")
        stages = timm.models.vitamin.VitCfg(
            embed_dim=(*widths, vision["width"]), depths=(*wanted.pop("depths"), 1), stem_width=widths[0],
            conv_cfg=timm.models.vitamin.VitConvCfg(norm_layer="layernorm2d", norm_eps=1e-6), head_type="1d")
        stem = timm.models.vitamin.MbConvStages(cfg=stages)
        common |= {"patch_size": 1, "embed_layer": functools.partial(
            timm.models.vision_transformer_hybrid.HybridEmbed, backbone=stem, proj=False)}
        wanted.pop("has_gated_mlp")
        wanted["mlp_layer"] = timm.models.vitamin.GeGluMlp
    return timm.models.vision_transformer.VisionTransformer(
        **common, **wanted, qkv_bias=bias == "all", init_values=vision.get("ls_init_value"), fc_norm=is_vitamin)


def fastvit(vision, num_classes):
    """timm's FastViT with the arguments of its fastvit_mci0 (four stages) or fastvit_mci3 (five)."""
    stages = len(vision["layers"])
    is_large = stages == 5
    places = functools.partial(timm.models.fastvit.RepConditionalPosEnc, spatial_shape=(7, 7))
    large = {"norm_layer": functools.partial(timm.layers.LayerNorm2d, eps=1e-5), "stem_use_scale_branch": False}
    return timm.models.fastvit.FastVit(
        layers=vision["layers"], embed_dims=[vision["width"] << stage for stage in range(stages)],
        mlp_ratios=[vision["mlp_ratio"]] * stages, downsamples=[stage > 0 for stage in range(stages)],
        se_downsamples=[stage > 1 and not is_large for stage in range(stages)],
        pos_embs=[places if stage > 2 else None for stage in range(stages)],
        token_mixers=["attention" if stage > 2 else "repmixer" for stage in range(stages)], lkc_use_act=True,
        num_classes=num_classes, **(large if is_large else {}))


def set_timm_trunk(model, vision, embed_dim):
    """A tower of timm at the sizes of the case."""
    if "timm_config" in vision:
        has_own_head = vision["timm_proj"] is None
        model.visual.trunk = timm_vit(vision, embed_dim if has_own_head else 0)
        if has_own_head:
            model.visual.head = torch.nn.Identity()
        else:
            model.visual.head.proj = torch.nn.Linear(vision["width"], embed_dim, bias=False)
        return
    if vision["tower"] == "fastvit":
        has_own_head = vision["timm_proj"] is None
        model.visual.trunk = fastvit(vision, embed_dim if has_own_head else 0)
        if has_own_head:
            model.visual.head = torch.nn.Identity()
        else:
            model.visual.head.proj = torch.nn.Linear(model.visual.trunk.num_features, embed_dim, bias=False)
        return
    if vision["tower"] == "convnext":
        widths = [vision["width"] << stage for stage in range(4)]
        model.visual.trunk = timm.models.convnext.ConvNeXt(depths=vision["layers"], dims=widths, num_classes=0)
        model.visual.head.proj = torch.nn.Linear(widths[-1], embed_dim, bias=False)
        return
    if vision["tower"] == "swin":
        heads = [(vision["width"] << stage) // vision["head_width"] for stage in range(4)]
        model.visual.trunk = timm.models.swin_transformer.SwinTransformer(
            img_size=vision["image_size"], patch_size=vision["patch_size"], embed_dim=vision["width"],
            depths=vision["layers"], num_heads=heads, window_size=vision["window_size"], num_classes=0,
            drop_path_rate=0.0)
        model.visual.head.proj = torch.nn.Linear(vision["width"] << 3, embed_dim, bias=False)
        return
    if vision["tower"] == "eva02":
        model.visual.trunk = timm.models.eva.Eva(
            img_size=vision["image_size"], patch_size=vision["patch_size"], embed_dim=vision["width"],
            depth=vision["layers"], num_heads=vision["width"] // vision["head_width"], mlp_ratio=vision["mlp_ratio"],
            qkv_fused=False, swiglu_mlp=True, scale_mlp=True, scale_attn_inner=True, use_rot_pos_emb=True,
            ref_feat_shape=(16, 16), global_pool="token", num_classes=embed_dim,
        )
        model.visual.head = torch.nn.Identity()
        return
    trunk = timm.models.vision_transformer.VisionTransformer(
        img_size=vision["image_size"], patch_size=vision["patch_size"], embed_dim=vision["width"],
        depth=vision["layers"], num_heads=vision["width"] // vision["head_width"],
        mlp_ratio=vision.get("mlp_ratio", 4.0), class_token=False, global_pool="map", num_classes=0,
        act_layer="gelu_tanh" if "act_kwargs" in vision else "gelu",
    )
    model.visual.trunk = trunk
    if vision["timm_proj"] == "mlp":
        model.visual.head.mlp = timm.layers.Mlp(vision["width"], 2 * embed_dim, embed_dim, drop=(0, 0),
                                                bias=(True, False))


def set_text_encoder(model, text, embed_dim):
    """OpenCLIP's wrapper around a small model of the same kind."""
    if "mt5" in text["hf_model_name"] or "nllb" in text["hf_model_name"]:
        kind = transformers.MT5Config if "mt5" in text["hf_model_name"] else transformers.M2M100Config
        small = kind(**text["hf_config"])
        encoder = HFTextEncoder("", embed_dim, config=small, pooler_type=text["hf_pooler_type"],
                                proj_type=text["hf_proj_type"])
        encoder.transformer = encoder.transformer.encoder  # as the wrapper does it for a name
        model.text = encoder
        return
    kind = transformers.XLMRobertaConfig if text["hf_model_name"].startswith("xlm") else transformers.RobertaConfig
    small = kind(**text["hf_config"], type_vocab_size=1, pad_token_id=1, layer_norm_eps=1e-5)
    encoder = HFTextEncoder("", embed_dim, config=small, pooler_type=text["hf_pooler_type"],
                            proj_type=text["hf_proj_type"], output_tokens=text.get("output_tokens", False))
    has_pooler = text["hf_pooler_type"] == "cls_pooler"
    encoder.transformer = transformers.AutoModel.from_config(small, add_pooling_layer=has_pooler)
    model.text = encoder


def build(config, cast_dtype=None):
    config = json.loads(json.dumps(config))
    own = {part: dict(config[part]) for part in ("vision_cfg", "text_cfg")}
    for part in own:
        for key in OWN_KEYS:
            config[part].pop(key, None)
    is_timm, is_hf = "tower" in own["vision_cfg"], "hf_model_name" in own["text_cfg"]
    if is_timm:  # replaced at once
        config["vision_cfg"]["timm_model_name"] = "vit_base_patch32_siglip_256"
        config["vision_cfg"] |= {"timm_pool": "map", "timm_proj": config["vision_cfg"]["timm_proj"] or "none"}
    if is_hf:  # replaced at once
        config["text_cfg"] = {key: value for key, value in own["text_cfg"].items() if key == "vocab_size"}
    has_custom_text = config.pop("custom_text", False) or is_hf
    if is_hf and "multimodal_cfg" in config:
        config["text_cfg"]["width"] = config["multimodal_cfg"]["width"]
    kind = CoCa if "multimodal_cfg" in config else CustomTextCLIP if has_custom_text else CLIP
    model = kind(**config, cast_dtype=cast_dtype)
    if is_timm:
        set_timm_trunk(model, own["vision_cfg"], config["embed_dim"])
    if is_hf:
        set_text_encoder(model, own["text_cfg"], config["embed_dim"])
    return model


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
    fixed = {f"output/{key}": value.clone() for key, value in model.named_parameters() if is_fixed(key, value)}
    draw_weights(model, generator)
    image, text = draw_inputs(config, generator)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    tensors = {f"param/{key}": value.to(torch.bfloat16) if value.is_floating_point() else value for key,
               value in state.items()}
    tensors |= fixed | {"input/image": image.to(torch.bfloat16), "input/text": text}

    tensors["output/eval_image"], tensors["output/eval_text"] = features(model.eval(), image, text)
    for label, pure in (("bf16", False), ("pure_bf16", True)):
        if config["vision_cfg"].get("ls_init_value") or name not in LOW_PRECISION:
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
    if isinstance(model, CoCa):  # the whole loss of OpenCLIP: pairs, and twice the captions
        parts = CoCaLoss(caption_loss_weight=2.0, clip_loss_weight=1.0)(
            **model(image, text), output_dict=True)
        tensors["output/caption_loss"] = parts["caption_loss"]
        tensors["output/caption_logits"] = model(image, text)["logits"]
        if "hf_config" in config["text_cfg"]:  # where a token sees those behind it, this is no part of the former
            tensors["output/next_logits"] = model(image, text[:, :5], output_labels=False)["logits"][:, -1]
        loss = parts["contrastive_loss"] + parts["caption_loss"]
    loss.backward()
    tensors |= {"output/train_image": image_features, "output/train_text": text_features, "output/logits": logits,
                "output/loss": loss}
    for key, value in model.named_parameters():
        if value.numel() <= 2400 and value.grad is not None:
            tensors[f"grad/{key}"] = value.grad
    for key, value in model.named_buffers():
        if "running" in key or "tracked" in key:
            tensors[f"after/{key}"] = value
    metadata = {
        "config": json.dumps(config),
        "state_dict_order": json.dumps(list(state)),
        "decayed": json.dumps([key for key, value in model.named_parameters()
                               if value.requires_grad and not no_decay(key, value)]),
        "made_by": f"open_clip_torch {open_clip.__version__}, torch {torch.__version__.split('+')[0]}",
    }
    tensors = {key: value.detach().clone().contiguous() for key, value in tensors.items()}
    save_file(tensors, folder / f"{name}.safetensors", metadata)


def sizes_of(encoder):
    """What the Hub's config.json says of it."""
    if "mt5" in encoder:
        is_base = encoder.endswith("-base")
        return {"d_model": 768 if is_base else 2048, "d_ff": 2048 if is_base else 5120, "d_kv": 64,
                "num_layers": 12 if is_base else 24, "num_heads": 12 if is_base else 32, "vocab_size": 250112,
                "pad_token_id": 0}
    if "nllb" in encoder:
        is_large = "1.3B" in encoder
        return {"vocab_size": 256206, "d_model": 1024, "encoder_layers": 24 if is_large else 12,
                "encoder_attention_heads": 16, "encoder_ffn_dim": 8192 if is_large else 4096, "encoder_layerdrop": 0.0,
                "pad_token_id": 1}
    large = "large" in encoder
    return {"vocab_size": 250002 if "xlm" in encoder else 50265, "hidden_size": 1024 if large else 768,
            "num_hidden_layers": 24 if large else 12, "num_attention_heads": 16 if large else 12,
            "intermediate_size": 4096 if large else 3072, "max_position_embeddings": 514}


def build_whole(config):
    """A model of OpenCLIP's list; sizes of Hugging Face's encoders are written out, because nothing is downloaded."""
    encoder = config["text_cfg"].get("hf_model_name")
    if encoder is None:
        return build(config)
    text = {"hf_proj_type": "mlp", "hf_pooler_type": "mean_pooler", **config["text_cfg"]}
    text["hf_config"] = sizes_of(encoder)
    return build({**config, "text_cfg": text})


def list_configs(folder):
    listed = {}
    for name in sorted(open_clip.list_models()):
        config = open_clip.get_model_config(name)
        with torch.device("meta"):
            model = build_whole(config)
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
