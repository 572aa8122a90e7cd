"""Compares whole CLAP models with Hugging Face's ClapModel on the same weights and inputs: log-mel, features, logits,
loss and all gradients, fp32 on the CPU.

Needs from PyPI: transformers 5.23.0 and what it needs, torch 2.11.0, safetensors; and a built test program. Run from
the top of the repository:

    python3 ref/compare_big_clap.py build/test_models ref/results/clap_big_models.md

Weights are transformers' own initial ones. Files (1.3 GB at most) lie in a temporary folder.
"""
import json
import pathlib
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import ClapConfig, ClapModel

from big_models import compare, table
from make_clap_goldens import contiguous_gradient, draw_texts, draw_waves, forward, log_mel

BATCH = 4
TEXT = {"vocab_size": 50265, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 514, "layer_norm_eps": 1e-5, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "type_vocab_size": 1}
AUDIO = {"spec_size": 256, "num_mel_bins": 64, "patch_size": 4, "patch_stride": [4, 4], "window_size": 8,
         "num_attention_heads": [4, 8, 16, 32],
         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "drop_path_rate": 0.0, "mlp_ratio": 4.0}
SOUND = {"sampling_rate": 48000, "hop_length": 480, "fft_window_size": 1024, "max_length_s": 10, "frequency_min": 50,
         "frequency_max": 14000}
MODELS = {"HTSAT-tiny-Roberta-base": {"patch_embeds_hidden_size": 96, "depths": [2, 2, 6, 2], "hidden_size": 768},
          "HTSAT-base-Roberta-base": {"patch_embeds_hidden_size": 128, "depths": [2, 2, 12, 2], "hidden_size": 1024}}


def run(model, mel, text):
    model.train()
    audio, texts, logits = forward(model, mel, text)
    labels = torch.arange(len(text))
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    loss.backward()
    outputs = {"output/train_audio": audio, "output/train_text": texts, "output/logits": logits, "output/loss": loss,
               "output/log_mel": mel}
    outputs |= {f"grad/{key}": value.grad for key, value in model.named_parameters() if value.grad is not None}
    return {key: value.detach().contiguous() for key, value in outputs.items()}


def write_case(name, path):
    torch.manual_seed(11)
    generator = torch.Generator().manual_seed(11)
    audio = AUDIO | MODELS[name]
    model = ClapModel(ClapConfig(text_config=TEXT, audio_config=audio, projection_dim=512,
                                 projection_hidden_act="relu"))
    model.audio_model.audio_encoder.batch_norm.register_forward_hook(contiguous_gradient)
    waves = draw_waves([480000, 480000, 150000, 20000], 480000, SOUND["sampling_rate"], generator)
    text = draw_texts(BATCH, generator)
    state = {f"param/{key}": value.clone() for key, value in model.state_dict().items()}
    mel = log_mel(waves, 480000, AUDIO["num_mel_bins"], SOUND)
    sizes = {"text": TEXT, "audio": audio, "projection": 512, "act": "relu", "clip": 480000, "sound": SOUND,
             "columns": text.shape[1]}
    save_file(state | {"input/wave": waves, "input/text": text} | run(model, mel, text), path,
              {"sizes": json.dumps(sizes)})


def main():
    program, report = sys.argv[1], pathlib.Path(sys.argv[2])
    results = {}
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "case.safetensors"
            write_case(name, path)
            results[name] = compare(program, "ClapModel.BigModelEqualsHuggingFace", "LOCKSTEP_BIG_CLAP", path)
    lines = [
        "# Whole CLAP models against Hugging Face's ClapModel",
        "",
        "Largest absolute difference over the largest absolute value of the reference; fp32, CPU, 4 pairs, equal "
        "weights",
        "(transformers' initial ones) and inputs, clips of 10 s (two of them repeated shorter ones), texts of 2 to 9 "
        "tokens,",
        "training mode without random dropping. `gradients`: all parameters joined.",
        "",
        *table(results),
    ]
    import transformers
    lines += ["", f"Made by ref/compare_big_clap.py with transformers {transformers.__version__}, torch "
                  f"{torch.__version__.split('+')[0]}."]
    report.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
