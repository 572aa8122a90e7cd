#!/usr/bin/env python3
"""One training step of a GPT, Hugging Face's GPT2LMHeadModel in PyTorch eager against lockstep: same weights, same
tokens, same threads, interleaved.

    export PYTHONPATH=$(ref/setup.sh)
    python3 bench/peers/gpt_step.py compare --program build/bench_gpt_step --precision bf16 \\
        --out bench/results/NAME.json

bf16 on ours is `train gpt --bf16`: 16-bit weights with fp32 copies, gradients added up in fp32. On the Python side it
is autocast over fp32 weights with attention by scaled_dot_product_attention, or with --weights 16 a model in bf16 that
AdamW updates in bf16, without copies: less work than ours does, and steps that small weights do not feel. Both clip the
gradient's norm to 1 and use AdamW with decay 0.01 on matrices. Dropout is 0 on both, so that the losses can be
compared.
"""
import argparse
import pathlib

from side_by_side import StepClock, add_arguments, run_job, set_up_torch

SIZES = {"gpt2": {"n_layer": 12, "n_embd": 768, "n_head": 12}, "gpt2-medium": {"n_layer": 24, "n_embd": 1024,
                                                                               "n_head": 16}}


def build(model_name: str):
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(**SIZES[model_name], resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                      attn_implementation="sdpa"))


def write_inputs(folder: pathlib.Path, options) -> None:
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(options.seed)
    tensors = {name: tensor.contiguous() for name, tensor in build(options.model).state_dict().items()
               if name != "lm_head.weight"}
    save_file(tensors, str(folder / "weights.safetensors"))
    save_file({f"ids.{i}": torch.randint(0, 50257, (options.batch, options.tokens + 1))
               for i in range(options.batches)}, str(folder / "batches.safetensors"))


def run_huggingface(options) -> None:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file

    set_up_torch(options)
    model = build(options.model)
    model.load_state_dict(load_file(f"{options.inputs}/weights.safetensors"), strict=False)
    model.tie_weights()
    is_narrow = options.precision == "bf16" and options.weights == 16
    if is_narrow:
        model.to(torch.bfloat16)
    model.to(options.device).train()
    ids_by_name = load_file(f"{options.inputs}/batches.safetensors", device=options.device)
    batches = [tensor for _, tensor in sorted(ids_by_name.items())]
    named = list(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for _, p in named if p.ndim < 2], "weight_decay": 0.0},
         {"params": [p for _, p in named if p.ndim >= 2], "weight_decay": 0.01}],
        lr=options.lr, betas=(options.beta1, options.beta2), eps=options.eps, fused=True)
    clock = StepClock(options.device)
    for step in range(options.steps):
        ids = batches[step % len(batches)]
        clock.begin()
        optimizer.zero_grad()
        with torch.autocast(options.device, torch.bfloat16, options.precision == "bf16" and not is_narrow):
            logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        clock.end(loss)
    clock.print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["compare", "huggingface"])
    add_arguments(parser, program="build/bench_gpt_step", model="gpt2", batch=2)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--weights", type=int, choices=[16, 32], default=32,
                        help="bits of the Python side's weights under bf16")
    parser.set_defaults(lr=1e-4, beta2=0.999, eps=1e-8)
    run_job(parser.parse_args(), run_huggingface, write_inputs)


if __name__ == "__main__":
    main()
