"""Captions of the small CoCa models of tests/golden/clip by OpenCLIP's own generate().

    export PYTHONPATH=$(ref/setup.sh)
    pip download --no-deps transformers==4.55.4 && unzip transformers-4.55.4-*.whl 'transformers/generation/beam_*.py'
    python3 ref/make_caption_goldens.py transformers/generation        # writes tests/golden/clip/captions.json

OpenCLIP 3.3.0 searches with BeamSearchScorer, which transformers 5 no longer has: it is taken from the files of 4.55.4.
"""

import importlib.util
import json
import pathlib
import sys

import torch
import transformers.generation
import transformers.utils
from safetensors import safe_open

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "clip"


def restore_beam_search(folder):
    if not hasattr(transformers.utils, "add_start_docstrings"):
        transformers.utils.add_start_docstrings = lambda *_: lambda function: function
    for name in ("beam_constraints", "beam_search"):
        spec = importlib.util.spec_from_file_location(f"transformers.generation.{name}", folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    scorer = sys.modules["transformers.generation.beam_search"].BeamSearchScorer
    transformers.generation.BeamSearchScorer = transformers.BeamSearchScorer = scorer


def main():
    torch.set_num_threads(1)
    restore_beam_search(pathlib.Path(sys.argv[1]))
    from make_clip_goldens import build

    cases = []
    for name in ("coca", "coca_plain"):
        with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
            config = json.loads(file.metadata()["config"])
            state = {key[len("param/") :]: file.get_tensor(key).float() for key in file.keys() if key[:6] == "param/"}
            image = file.get_tensor("input/image").float()
        model = build(config).eval()
        model.load_state_dict(state)
        common = {"sot_token_id": 62, "eos_token_id": 63, "seq_len": 10}
        for settings in (
            {"generation_type": "beam_search", "num_beams": 6, "num_beam_groups": 3, "min_seq_len": 5},
            {"generation_type": "beam_search", "num_beams": 4, "num_beam_groups": 1, "min_seq_len": 3},
            {"generation_type": "top_k", "top_k": 1, "min_seq_len": 5},
            {"generation_type": "top_k", "top_k": 1, "min_seq_len": 2},
        ):
            ids = model.generate(image, **common, **settings)
            cases.append({"model": name, **common, **settings, "ids": ids.tolist()})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (GOLDEN / "captions.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
