"""Writes the golden files of the CLAP towers, computed by Hugging Face's ClapModel and RobertaModel (fusion off).

Needs from PyPI: transformers 5.23.0 and what it needs, torch 2.11.0, safetensors. Run from the top of the repository:

    python3 ref/make_clap_goldens.py tests/golden/clap

Each clap_<case>.safetensors holds one tiny model with random weights under Hugging Face's names ("param/NAME", rounded
to bfloat16 so that the file stays small; the computation itself is in float32), waveforms and their log-mel
spectrograms (transformers' own feature extractor), texts of several lengths, outputs of evaluation and training
("output/...") and gradients of the contrastive loss ("grad/NAME"). Random dropping is off: its draws cannot be
repeated. roberta.safetensors is a RobertaModel with hidden states, for the poolers that ClapModel does not have. The
metadata carries the sizes.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers import ClapConfig, ClapFeatureExtractor, ClapModel, RobertaConfig, RobertaModel

TEXT = {"vocab_size": 96, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
        "max_position_embeddings": 20,
        "layer_norm_eps": 1e-5, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "type_vocab_size": 1}
# Two stages with shifted windows and a last one that is a single window.
AUDIO = {"spec_size": 64, "num_mel_bins": 16, "patch_size": 4, "patch_stride": [4, 4], "window_size": 4,
         "patch_embeds_hidden_size": 8,
         "depths": [2, 2, 2], "num_attention_heads": [2, 2, 4], "hidden_size": 32, "hidden_dropout_prob": 0.0,
         "attention_probs_dropout_prob": 0.0,
         "drop_path_rate": 0.0, "mlp_ratio": 3.0}
SOUND = {"sampling_rate": 4000, "hop_length": 16, "fft_window_size": 256, "max_length_s": 1, "frequency_min": 50,
         "frequency_max": 1800}
CASES = {
    "full": {"text": TEXT, "audio": AUDIO, "projection": 20, "act": "relu",
             "lengths": [4000, 4000, 2100, 700, 4000, 150], "clip": 4000},
    # Two stages, both with shifts; GELU; clips of 0.55 s, stretched to the image's width.
    "short": {"text": TEXT | {"num_attention_heads": 2, "num_hidden_layers": 1}, "projection": 12, "act": "gelu",
              "audio": AUDIO | {"depths": [1, 3], "num_attention_heads": [1, 4], "hidden_size": 16, "spec_size": 64,
                                "mlp_ratio": 2.0},
              "lengths": [2200, 1000, 2200, 300], "clip": 2200},
}
TEXT_LENGTHS = [5, 9, 2, 9, 14, 5]
COLUMNS = 16


def draw_weights(model, generator):
    """Weights of a size at which every part of the model matters to the result."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        noise = torch.randn(value.shape, generator=generator)
        if not value.is_floating_point():
            continue
        if name.startswith("logit_scale"):
            value.data.fill_(math.log(1 / 0.07))
        elif name.endswith("running_var"):
            value.data.copy_(300 * (0.5 + noise.abs()))  # log-mel values spread over tens of decibels
        elif name.endswith("running_mean"):
            value.data.copy_(-30 + 5 * noise)
        elif value.ndim < 2:
            value.data.copy_((1.0 if name.endswith("weight") else 0.0) + 0.2 * noise)
        elif "embeddings" in name or "relative_position" in name:
            value.data.copy_(0.5 * noise)
        else:
            value.data.copy_(1.3 * noise / math.sqrt(value[0].numel()))
        value.data.copy_(value.data.to(torch.bfloat16).float())


def draw_waves(lengths, clip, rate, generator):
    """Chirps with noise; shorter ones are repeated whole and padded with zeros (LAION's repeatpad)."""
    waves = torch.zeros(len(lengths), clip)
    for row, length in enumerate(lengths):
        time = torch.arange(length) / rate
        low, high = 100 + 150 * row, 1700 - 200 * row
        wave = 0.5 * torch.sin(2 * math.pi
                               * (low * time + (high - low) * time ** 2)) + 0.05 * torch.randn(length,
                                                                                               generator=generator)
        wave = wave.to(torch.bfloat16).float().repeat(clip // length)
        waves[row, : len(wave)] = wave
    return waves


def draw_texts(rows, generator):
    text = torch.ones(rows, COLUMNS, dtype=torch.int64)
    for row, length in enumerate(TEXT_LENGTHS[:rows]):
        text[row, :length] = torch.randint(3, TEXT["vocab_size"], (length,), generator=generator)
        text[row, 0], text[row, length - 1] = 0, 2
    return text


def log_mel(waves, clip, num_mel_bins=AUDIO["num_mel_bins"], sound=SOUND):
    extractor = ClapFeatureExtractor(feature_size=num_mel_bins, truncation="rand_trunc", padding="repeatpad", **sound)
    mels = [extractor._np_extract_fbank_features(wave.numpy().astype(np.float64), extractor.mel_filters_slaney)
            for wave in waves]
    assert all(mel.shape == (clip // sound["hop_length"] + 1, num_mel_bins) for mel in mels)
    return torch.tensor(np.stack(mels), dtype=torch.float32)


def contiguous_gradient(module, inputs, output):
    """For the batch norm over mel bins. PyTorch 2.11's CPU kernel computes wrong gradients of weight and bias for the
    strides that ClapModel leaves: its gradient of the bias is not the sum of the incoming one. With contiguous strides
    it is."""
    if output.requires_grad:
        output.register_hook(lambda gradient: gradient.contiguous())


def forward(model, mel, text):
    audio = model.audio_projection(model.audio_model(input_features=mel[:, None]).pooler_output)
    texts = model.text_projection(model.text_model(input_ids=text, attention_mask=(text != 1).long()).pooler_output)
    audio, texts = F.normalize(audio, dim=-1), F.normalize(texts, dim=-1)
    return audio, texts, model.logit_scale_a.exp() * audio @ texts.T


def make_clap(name, case, folder):
    generator = torch.Generator().manual_seed(13)
    config = ClapConfig(text_config=case["text"], audio_config=case["audio"], projection_dim=case["projection"],
                        projection_hidden_act=case["act"])
    config._attn_implementation = "eager"
    model = ClapModel(config)
    model.audio_model.audio_encoder.batch_norm.register_forward_hook(contiguous_gradient)
    draw_weights(model, generator)
    waves = draw_waves(case["lengths"], case["clip"], SOUND["sampling_rate"], generator)
    text = draw_texts(len(waves), generator)
    mel = log_mel(waves, case["clip"])
    tensors = {f"param/{key}": value.to(torch.bfloat16) if value.is_floating_point() else value.clone() for key,
               value in model.state_dict().items()}
    tensors |= {"input/wave": waves.to(torch.bfloat16), "input/text": text, "output/log_mel": mel}
    model.eval()
    with torch.no_grad():
        tensors["output/eval_audio"], tensors["output/eval_text"], tensors["output/eval_logits"] = forward(model, mel,
                                                                                                           text)
        public = model(input_ids=text, input_features=mel[:, None], attention_mask=(text != 1).long())
        assert torch.allclose(public.logits_per_audio, tensors["output/eval_logits"], atol=1e-5)
    model.train()
    audio, texts, logits = forward(model, mel, text)
    labels = torch.arange(len(waves))
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    loss.backward()
    tensors |= {"output/train_audio": audio, "output/train_text": texts, "output/logits": logits, "output/loss": loss}
    tensors |= {f"grad/{key}": value.grad for key, value in model.named_parameters() if value.grad is not None}
    tensors |= {f"after/{key}": value for key, value in model.named_buffers() if "batch_norm" in key}
    sizes = {**case, "sound": SOUND, "columns": COLUMNS}
    save(tensors, folder / f"clap_{name}.safetensors", sizes)


def make_roberta(folder):
    generator = torch.Generator().manual_seed(14)
    config = RobertaConfig(**TEXT)
    config._attn_implementation = "eager"
    model = RobertaModel(config)
    draw_weights(model, generator)
    text = draw_texts(6, generator)
    tensors = {f"param/{key}": value.to(torch.bfloat16) for key, value in model.state_dict().items()
               if value.is_floating_point()}
    mask = (text != 1).long()
    with torch.no_grad():
        out = model.eval()(input_ids=text, attention_mask=mask)
    hidden, real = out.last_hidden_state, mask.unsqueeze(-1)
    tensors |= {"input/text": text, "output/hidden": hidden * real, "output/cls_pooler": out.pooler_output,
                "output/mean_pooler": (hidden * real).sum(1) / real.sum(1),
                "output/max_pooler": hidden.masked_fill(real == 0, -torch.inf).max(1).values,
                "output/cls_last_hidden_state_pooler": hidden[:, 0]}
    save(tensors, folder / "roberta.safetensors", {"text": TEXT, "columns": COLUMNS})


def save(tensors, path, sizes):
    metadata = {"sizes": json.dumps(sizes),
                "made_by": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"}
    save_file({key: value.detach().clone().contiguous() for key, value in tensors.items()}, path, metadata)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name, case in CASES.items():
        make_clap(name, case, folder)
    make_roberta(folder)


if __name__ == "__main__":
    main()
