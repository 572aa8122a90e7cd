"""Exports small GPTs that `train gpt` has trained and opens them with transformers' AutoModelForCausalLM and
AutoTokenizer: logits, ids of texts, greedy continuations.

Needs from PyPI: transformers 5.23.0 and what it needs, torch 2.11.0, safetensors, sentencepiece (ref/setup.sh); and a
build. Run from the top of the repository:

    python3 ref/compare_gpt_export.py build ref/results/gpt_export.md
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from big_models import compare, table

WORDS = ("rain", "wind", "snow")
PROMPTS = ("rain", "wind goes", "snow  goes before\nrain")  # no blank in front: LlamaTokenizer drops one
TOKENS, NEW_TOKENS = 32, 12
PLAIN = ["--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "4", "--seq-length", str(TOKENS),
         "--micro-batch-size", "4", "--hidden-dropout", "0",
         "--attention-dropout", "0", "--lr", "1e-2", "--train-iters", "60", "--eval-iters", "0", "--device", "cpu",
         "--threads", "1"]
ROTARY = ["--position-embedding-type", "rope", "--disable-bias-linear", "--untie-embeddings-and-output-weights"]
GROUPS = ["--group-query-attention", "--num-query-groups", "2"]
LLAMA = [*ROTARY, *GROUPS, "--swiglu", "--normalization", "RMSNorm", "--norm-epsilon", "1e-6", "--rotary-base", "500"]
MODELS = {  # flags, ranks, tokenizer
    "GPT-2, one rank": ([], 1, "bpe"),
    "Llama, tensor 2 x pipeline 2": (["--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2",
                                      *LLAMA], 4, "bpe"),
    "Llama with stretched angles, bf16": ([*LLAMA, "--use-rope-scaling", "--bf16"], 1, "sentencepiece.model"),
    "Nemotron, tensor 2": (["--tensor-model-parallel-size", "2", *ROTARY, *GROUPS, "--squared-relu",
                            "--apply-layernorm-1p", "--rotary-percent", "0.5"], 2, "bpe"),
    "GPT-2, 2 data ranks, fp16": (["--fp16", "--initial-loss-scale", "1024"], 2, "pair"),
}


class Build:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def lockstep(self, *args):
        done = subprocess.run([self.folder / "lockstep", *map(str, args)], env=self.environment, capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise SystemExit(f"lockstep {' '.join(map(str, args))}\n{done.stderr}")
        return done.stdout


def make_corpus(build, folder):
    """Texts, and tokenizers of three kinds of files."""
    import sentencepiece
    texts = [" ".join(f"{WORDS[(i + j) % 3]} goes before {WORDS[(i + j + 1) % 3]} ." for j in range(4))
             for i in range(200)]
    corpus = folder / "c.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    build.lockstep("data", "train-bpe", corpus, "--output", folder / "bpe", "--vocab-size", 280)
    (folder / "pair").mkdir()
    for name in ("vocab.json", "merges.txt"):
        (folder / "pair" / name).write_bytes((folder / "bpe" / name).read_bytes())
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_prefix=str(folder / "sentencepiece"),
                                             vocab_size=290, model_type="bpe", byte_fallback=True,
                                             hard_vocab_limit=False, normalization_rule_name="identity",
                                             remove_extra_whitespaces=False, minloglevel=2)
    for kind in ("bpe", "pair", "sentencepiece.model"):
        build.lockstep("data", "tokenize", corpus, "--output-prefix", folder / f"c-{kind}", "--tokenizer-model",
                       folder / kind, "--append-eod")


def check_texts(build, exported, model):
    """Texts become the same ids, and go on with the same ids, which become the same texts. Returns the number of ids
    compared."""
    tokenizer = AutoTokenizer.from_pretrained(exported)
    said = build.lockstep("infer", "generate", "--pretrained", exported, "--device", "cpu", "--threads", 1, "--json",
                          "--no-stop-at-eod", "--max-new-tokens", NEW_TOKENS,
                          *[f"--prompt={prompt}" for prompt in PROMPTS])
    count = 0
    for line in map(json.loads, said.splitlines()):
        ids = torch.tensor([tokenizer(line["prompt"]).input_ids])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW_TOKENS,
                             eos_token_id=None, pad_token_id=0)[0]
        assert out[ids.shape[1]:].tolist() == line["ids"], (line, ids.tolist(), out.tolist())
        decoded = tokenizer.decode(out, skip_special_tokens=False)
        assert decoded == line["prompt"] + line["text"], (line, decoded)
        count += len(line["ids"])
    assert tokenizer.eos_token_id == model.config.eos_token_id, (tokenizer.eos_token_id, model.config.eos_token_id)
    return count


def check(build, folder, name):
    flags, ranks, kind = MODELS[name]
    launch = ["launch", "--nproc-per-node", ranks, "--"] if ranks > 1 else []
    run, exported = folder / "logs" / kind / str(len(flags)), folder / f"hf-{kind}-{len(flags)}"
    case = folder / "case.safetensors"
    build.lockstep(*launch, "train", "gpt", *PLAIN, *flags, "--vocab-size", 300, "--tokenizer-model", folder / kind,
                   "--data-path", folder / f"c-{kind}_text_document", "--logs",
                   run.parent, "--name", run.name)
    build.lockstep("ckpt", "export", run, exported, "--names", "huggingface")
    stored = AutoModelForCausalLM.from_pretrained(exported)
    model, loading = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32, output_loading_info=True)
    assert not any(loading.values()), loading
    ids = torch.randint(0, 300, (3, TOKENS), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        save_file({"input/ids": ids, "output/logits": model(input_ids=ids).logits.contiguous()}, case,
                  {"run": str(run)})
    figures = compare(build.folder / "test_infer", "GptExport.LogitsEqualHuggingFace", "LOCKSTEP_EXPORTED_GPT", case)
    return {"class": type(model).__name__, "type": str(stored.dtype).removeprefix("torch."),
            "tokenizer": type(AutoTokenizer.from_pretrained(exported)).__name__,
            **figures, "equal greedy ids": str(check_texts(build, exported, model))}


def main():
    build, report = Build(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_corpus(build, folder)
        results = {model: check(build, folder, model) for model in MODELS}
    lines = ["# Exported GPTs in Hugging Face's classes", "",
             "Models of 2 layers of width 32, trained for 60 steps, exported by `lockstep ckpt export --names "
             "huggingface`, opened by",
             "AutoModelForCausalLM and AutoTokenizer. `logits`: largest absolute difference to our model of the run "
             "over the largest",
             "absolute value, fp32 on the CPU, random ids. `equal greedy ids`: that both programs add to three "
             "texts, encoded and",
             "decoded by each program's own tokenizer.", "", *table(results), "",
             f"Made by ref/compare_gpt_export.py with transformers {transformers.__version__}, torch "
             f"{torch.__version__.split('+')[0]}."]
    report.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
