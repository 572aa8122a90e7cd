#!/usr/bin/env python3
"""One CLAP training step (HTSAT + RoBERTa), Hugging Face's ClapModel against lockstep: same weights, same batch, same
threads, runs interleaved.

    export PYTHONPATH=$(ref/setup.sh)
    python3 bench/peers/clap_step.py compare --program build/bench_clap_step --batch 8 --precision bf16 \\
        --out bench/results/NAME.json

Both sides start from waveforms of 10 s and token ids padded to 77 columns. The Python side computes log-mel
spectrograms with torch.stft (one product each for filters and spectrum), then ClapModel and the symmetric contrastive
loss. Random dropping is on in both as each of them trains: dropout 0.1 in RoBERTa, drop path 0.1 in HTSAT, none in its
other layers; ours adds SpecAugment, as LAION does. --words says how many tokens the captions really have: "caption"
draws 8 to 24 (the lengths of AudioCaps), "full" uses all 77.
"""
import argparse
import math
import pathlib

from side_by_side import StepClock, add_arguments, run_job, set_up_torch

SAMPLES, COLUMNS = 480000, 77
SIZES = {"HTSAT-tiny-Roberta-base": {"patch_embeds_hidden_size": 96, "depths": [2, 2, 6, 2], "hidden_size": 768},
         "HTSAT-base-Roberta-base": {"patch_embeds_hidden_size": 128, "depths": [2, 2, 12, 2], "hidden_size": 1024}}


def build(model_name: str):
    from transformers import ClapConfig, ClapModel

    audio = {**SIZES[model_name], "num_attention_heads": [4, 8, 16, 32], "drop_path_rate": 0.1,
             "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return ClapModel(ClapConfig(text_config={"layer_norm_eps": 1e-5}, audio_config=audio))


def write_inputs(folder: pathlib.Path, options) -> None:
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(options.seed)
    save_file({name: tensor.contiguous() for name, tensor in build(options.model).state_dict().items()},
              str(folder / "weights.safetensors"))
    tensors = {}
    for index in range(options.batches):
        tensors[f"audio.{index}"] = 0.1 * torch.randn(options.batch, SAMPLES)
        text = torch.ones(options.batch, COLUMNS, dtype=torch.int64)
        for row in range(options.batch):
            length = COLUMNS if options.words == "full" else int(torch.randint(8, 25, ()))
            text[row, :length] = torch.randint(3, 50265, (length,))
            text[row, 0], text[row, length - 1] = 0, 2
        tensors[f"text.{index}"] = text
    save_file(tensors, str(folder / "batches.safetensors"))


def log_mel(audio, window, filters):
    import torch

    spectrum = torch.stft(audio, 1024, 480, window=window, center=True, pad_mode="reflect", return_complex=True)
    power = torch.view_as_real(spectrum).square().sum(-1)
    return (10 * torch.matmul(filters, power).clamp_min(1e-10).log10()).transpose(1, 2)[:, None]


def run_huggingface(options) -> None:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
    from transformers import ClapFeatureExtractor

    set_up_torch(options)
    model = build(options.model)
    model.load_state_dict(load_file(f"{options.inputs}/weights.safetensors"))
    model.to(options.device).train()
    batches = load_file(f"{options.inputs}/batches.safetensors", device=options.device)
    num_batches = len(batches) // 2
    filters = torch.tensor(ClapFeatureExtractor(frequency_min=50).mel_filters_slaney,
                           dtype=torch.float32).T.contiguous().to(options.device)
    window = torch.hann_window(1024, device=options.device)
    named = [(name, p) for name, p in model.named_parameters() if name != "logit_scale_t"]
    decays = lambda name, p: p.ndim >= 2 and "bias" not in name  # noqa: E731
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0},
         {"params": [p for n, p in named if decays(n, p)], "weight_decay": 0.2}],
        lr=options.lr, betas=(options.beta1, options.beta2), eps=options.eps, foreach=True)
    clock = StepClock(options.device)
    for step in range(options.steps):
        audio, text = batches[f"audio.{step % num_batches}"], batches[f"text.{step % num_batches}"]
        clock.begin()
        optimizer.zero_grad()
        mel = log_mel(audio, window, filters)
        with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            sounds = model.audio_projection(model.audio_model(input_features=mel).pooler_output)
            texts = model.text_projection(model.text_model(input_ids=text,
                                                           attention_mask=(text != 1).long()).pooler_output)
            logits = model.logit_scale_a.exp() * F.normalize(sounds.float(),
                                                             dim=-1) @ F.normalize(texts.float(), dim=-1).T
            labels = torch.arange(len(logits), device=options.device)
            loss = (F.cross_entropy(logits.float(), labels) + F.cross_entropy(logits.float().T, labels)) / 2
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale_a.clamp_(0, math.log(100))
        clock.end(loss)
    clock.print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["compare", "huggingface"])
    add_arguments(parser, program="build/bench_clap_step", model="HTSAT-tiny-Roberta-base", batch=8)
    parser.add_argument("--words", choices=["caption", "full"], default="caption")
    run_job(parser.parse_args(), run_huggingface, write_inputs)


if __name__ == "__main__":
    main()
