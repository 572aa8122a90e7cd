"""Writes the golden files of the language models, computed by Hugging Face's GPT2LMHeadModel, LlamaForCausalLM and
NemotronForCausalLM.

Needs from PyPI: transformers 5.23.0 and what it needs, torch 2.11.0, safetensors (ref/setup.sh). Run from the top of
the repository:

    python3 ref/make_gpt_goldens.py tests/golden/gpt

Each <case>.safetensors holds one tiny model with random weights under Hugging Face's names ("param/NAME", rounded to
bfloat16 so that the file stays small; the computation itself is in float32), token ids with one more column than the
model reads ("input/ids"), logits and loss of predicting each next token, and the gradients of all weights
("grad/NAME"). Of the first tokens of each sample, of other lengths, it holds what Hugging Face's generate adds without
drawing ("generate/prompt/I", "generate/ids/I"). The metadata has the configuration as config.json would hold it.
"""
import json
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, NemotronConfig, NemotronForCausalLM

VOCAB, TOKENS, SAMPLES = 97, 24, 3
PROMPT_TOKENS = (5, 12, 1)
NEW_TOKENS = 18
LEAST_MARGIN = 1e-3  # between the two largest logits: other orders of sums must not change the choice
SIZES = {"vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 0,
         "attention_dropout": 0.0, "tie_word_embeddings": False}
# Angles of every kind: kept, stretched, and between.
STRETCH = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 64}
CASES = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(vocab_size=VOCAB, n_positions=32, n_embd=32, n_layer=2, n_head=4,
                                         embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0,
                                         eos_token_id=0)),
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZES, intermediate_size=40, num_key_value_heads=2, rms_norm_eps=1e-5,
                                            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})),
    "llama_stretched": (LlamaForCausalLM,
                        LlamaConfig(**SIZES | {"tie_word_embeddings": True, "max_position_embeddings": 128},
                                    intermediate_size=40, num_key_value_heads=1, rms_norm_eps=1e-6,
                                                      rope_parameters=STRETCH)),
    "nemotron": (NemotronForCausalLM, NemotronConfig(**SIZES, intermediate_size=48, num_key_value_heads=2,
                                                     norm_eps=1e-5, hidden_act="relu2",
                                                     rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                                                      "partial_rotary_factor": 0.5})),
}


def draw_weights(model, generator):
    """Weights of a size at which every part of the model matters to the result."""
    for name, value in model.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        is_norm = "norm" in name or ".ln_" in name
        if value.ndim < 2:
            is_gain = is_norm and name.endswith("weight") and not isinstance(model, NemotronForCausalLM)
            value.data.copy_((1.0 if is_gain else 0.0) + 0.2 * noise)
        elif "embed" in name or ".wte" in name or ".wpe" in name:
            value.data.copy_(0.5 * noise)
        else:
            value.data.copy_(1.5 * noise / math.sqrt(SIZES["hidden_size"]))
        value.data.copy_(value.data.to(torch.bfloat16).float())


def continuations(model, ids):
    """What generate() adds to the beginnings of the samples. The end-of-document token does not end them."""
    model.generation_config.eos_token_id = model.config.eos_token_id = None
    tensors = {}
    for sample, length in enumerate(PROMPT_TOKENS):
        prompt = ids[sample:sample + 1, :length]
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=NEW_TOKENS,
                             pad_token_id=0)
        with torch.no_grad():
            best = model(input_ids=out).logits[0, length - 1:-1].topk(2).values
        assert (best[:, 0] - best[:, 1]).min() > LEAST_MARGIN, (best[:, 0] - best[:, 1]).min()
        added = out[0, length:]
        assert added.numel() == NEW_TOKENS and added.unique().numel() > 2, added
        tensors |= {f"generate/prompt/{sample}": prompt[0], f"generate/ids/{sample}": added}
    return tensors


def make(name, kind, config, folder):
    generator = torch.Generator().manual_seed(17)
    config._attn_implementation = "eager"
    model = kind(config)
    draw_weights(model, generator)
    ids = torch.randint(0, VOCAB, (SAMPLES, TOKENS + 1), generator=generator)
    logits = model(input_ids=ids[:, :-1]).logits
    loss = F.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    assert torch.allclose(model(input_ids=ids, labels=ids).loss, loss, atol=1e-5)
    loss.backward()
    tensors = {f"param/{key}": value.to(torch.bfloat16) for key, value in model.named_parameters()}
    tensors |= {f"grad/{key}": value.grad for key, value in model.named_parameters()}
    tensors |= {"input/ids": ids, "output/logits": logits, "output/loss": loss}
    config_text = json.dumps(json.loads(config.to_json_string()))
    tensors |= continuations(model, ids)
    metadata = {"config": config_text,
                "made_by": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"}
    save_file({key: value.detach().clone().contiguous() for key, value in tensors.items()},
              folder / f"{name}.safetensors", metadata)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name, (kind, config) in CASES.items():
        make(name, kind, config, folder)


if __name__ == "__main__":
    main()
