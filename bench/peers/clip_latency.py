#!/usr/bin/env python3
"""Latency of one CLIP call from decoded pixels and token ids, on the CPU: OpenCLIP 3.3.0 (PyPI) eager, torch.compile,
ONNX Runtime and OpenVINO against lockstep: same weights, same threads, rounds interleaved.

    export PYTHONPATH=$(ref/setup.sh)
    python3 bench/peers/clip_latency.py --program build/lockstep --out bench/results/clip_latency_cpu.json

A round is --iters calls of each side in turn; the order turns round each time. The sides in Python stay loaded, so that
what the others prepare is not measured. A side whose packages are not installed is left out and named (pip install
--target DIR onnx onnxscript onnxruntime openvino, and DIR into PYTHONPATH). Before the timing the embeddings of
lockstep and OpenCLIP for the same pictures and captions are compared. In bf16 OpenVINO takes the fp32 model and
computes in bf16 by its own hint; ONNX Runtime's CPU provider has no bf16.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from side_by_side import paired_ratio, write_record

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
CAPTIONS = ["a photo of a cat", "two dogs play with a red ball on the beach", "a diagram", "an old bridge in the fog"]
TYPES = {"fp32": "fp32", "bf16": "pure_bf16"}


def load_model(options):
    import open_clip
    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(options.threads)
    model = open_clip.create_model(options.model, precision=TYPES[options.precision])
    model.load_state_dict(load_file(f"{options.inputs}/weights.safetensors"))
    return model.eval()


def network_of(model):
    """From normalised pictures and ids to both normalised features."""
    import torch

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, image, text):
            return self.model.encode_image(image, normalize=True), self.model.encode_text(text, normalize=True)

    return Both()


def make_inputs(options, model):
    import torch

    torch.manual_seed(options.seed)
    size = model.visual.image_size
    size = size if isinstance(size, int) else size[0]
    pixels = torch.randint(0, 256, (options.batch, size, size, 3), dtype=torch.uint8)
    text = torch.zeros(options.batch, model.context_length, dtype=torch.long)
    text[:, :options.text_length] = torch.randint(1, 49406, (options.batch, options.text_length))
    text[:, 0], text[:, options.text_length - 1] = 49406, 49407
    return pixels, text


def write_onnx(options, network, image, text) -> str:
    import torch

    torch.backends.mha.set_fastpath_enabled(False)  # its fused operator has no ONNX form
    path = f"{options.inputs}/{options.side}.onnx"
    torch.onnx.export(network, (image, text), path, input_names=["image", "text"], opset_version=18, dynamo=False)
    return path


def onnx_runtime(options, network, image, text):
    """ONNX Runtime's session as a function of the same arguments."""
    import onnxruntime

    path = write_onnx(options, network, image, text)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return lambda a, b: session.run(None, {"image": a.numpy(), "text": b.numpy()})


def open_vino(options, network, image, text):
    """OpenVINO's compiled model as a function of the same arguments; without the hint fp32 may be computed in bf16."""
    import openvino

    path = write_onnx(options, network.float(), image.float(), text)
    hints = {"INFERENCE_NUM_THREADS": options.threads, "PERFORMANCE_HINT": "LATENCY",
             "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[options.precision]}
    compiled = openvino.Core().compile_model(path, "CPU", hints)
    return lambda a, b: compiled([a.float().numpy(), b.numpy()])


def serve(options) -> None:
    """A side in Python: loads, then times as many calls as each line of standard input says."""
    import torch

    torch.set_grad_enabled(False)
    model = load_model(options)
    pixels, text = make_inputs(options, model)
    dtype = torch.float32 if options.precision == "fp32" else torch.bfloat16
    scale = (1 / (255 * torch.tensor(STD))).view(3, 1, 1)
    shift = (-torch.tensor(MEAN) / torch.tensor(STD)).view(3, 1, 1)
    prepare = lambda: (pixels.permute(0, 3, 1, 2).float() * scale + shift).to(dtype)  # noqa: E731
    network = network_of(model)
    call = {"openclip": lambda: network, "compile": lambda: torch.compile(network),
            "onnxruntime": lambda: onnx_runtime(options, network, prepare(), text),
            "openvino": lambda: open_vino(options, network, prepare(), text)}[options.side]()
    for _ in range(3):
        call(prepare(), text)
    print("ready", flush=True)
    for line in sys.stdin:
        samples, cpu = [], []
        for _ in range(int(line)):
            began, cpu_began = time.perf_counter(), time.process_time()
            call(prepare(), text)
            samples.append((time.perf_counter() - began) * 1000)
            cpu.append((time.process_time() - cpu_began) * 1000)
        print(json.dumps({"samples_ms": samples, "cpu_ms": cpu}), flush=True)


class PythonSide:
    def __init__(self, options, side: str):
        command = [sys.executable, __file__, "--side", side, "--inputs", options.inputs] + common_flags(options)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment(options))
        self.is_ready = self.process.stdout.readline().strip() == "ready"
        self.reason = "" if self.is_ready else (self.process.communicate()[1].strip().splitlines() or ["died"])[-1]

    def run(self, iterations: int) -> dict:
        print(iterations, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def environment(options) -> dict:
    return dict(os.environ, OMP_NUM_THREADS=str(options.threads), MKL_NUM_THREADS=str(options.threads))


def common_flags(options) -> list:
    return ["--model", options.model, "--batch", str(options.batch), "--precision", options.precision, "--text-length",
            str(options.text_length), "--threads", str(options.threads), "--seed", str(options.seed)]


def run_lockstep(options) -> dict:
    command = [options.program, "bench", "latency", "--model", options.model, "--pretrained",
               f"{options.inputs}/weights.safetensors", "--from", "pixels", "--batch-size", str(options.batch),
               "--precisions", options.precision, "--text-length", str(options.text_length), "--threads",
               str(options.threads), "--device", "cpu", "--warmup-iters", "3", "--iters", str(options.iters),
               "--seconds", "1e6", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(options))
    if done.returncode != 0:
        sys.exit(f"lockstep failed:\n{done.stderr}")
    row = json.loads(done.stdout)["rows"][0]
    return {"samples_ms": row["samples_ms"], "cpu_ms": [row["cpu_ms"]], "stages_ms": row["stages_ms"]}


def compare_embeddings(options) -> dict:
    """Largest difference of any number of any feature, on PNG pictures of the model's size and captions."""
    import open_clip
    import torch
    from PIL import Image
    from safetensors.torch import load_file

    model = load_model(options)
    pixels, _ = make_inputs(options, model)
    folder = pathlib.Path(options.inputs)
    (folder / "pictures").mkdir(exist_ok=True)
    for number, picture in enumerate(pixels):
        Image.fromarray(picture.numpy()).save(folder / "pictures" / f"{number:04}.png")
    (folder / "captions.txt").write_text("\n".join(CAPTIONS) + "\n")
    command = [options.program, "infer", "embed", "--model", options.model, "--pretrained",
               str(folder / "weights.safetensors"), "--images", str(folder / "pictures"), "--texts",
               str(folder / "captions.txt"), "--precision", TYPES[options.precision], "--device", "cpu", "--threads",
               str(options.threads), "--output", str(folder / "own.safetensors")]
    subprocess.run(command, check=True, capture_output=True, env=environment(options))
    own = load_file(str(folder / "own.safetensors"))
    plain = load_model(argparse.Namespace(**dict(vars(options), precision="fp32")))
    shape = (1, 3, 1, 1)
    image = (pixels.permute(0, 3, 1, 2).float() / 255 - torch.tensor(MEAN).view(shape)) / torch.tensor(STD).view(shape)
    with torch.no_grad():
        peer = {"image": plain.encode_image(image, normalize=True),
                "text": plain.encode_text(open_clip.get_tokenizer(options.model)(CAPTIONS), normalize=True)}
    return {key: float((own[key] - peer[key]).abs().max()) for key in peer}


def compare(options) -> None:
    import open_clip
    import torch
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        options.inputs = folder
        torch.manual_seed(options.seed)
        state = open_clip.create_model(options.model).state_dict()
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, f"{folder}/weights.safetensors")
        differences = compare_embeddings(options)
        print("largest difference to OpenCLIP in fp32:", differences, flush=True)
        found = {side: PythonSide(options, side) for side in options.sides}
        left_out = {side: found[side].reason for side in found if not found[side].is_ready}
        peers = [side for side in found if found[side].is_ready]
        for side, reason in left_out.items():
            print(f"{side} is left out: {reason}", flush=True)
        rounds = []
        for number in range(options.rounds):
            order = peers + ["lockstep"] if number % 2 == 0 else ["lockstep"] + peers[::-1]
            rounds.append({side: run_lockstep(options) if side == "lockstep" else found[side].run(options.iters)
                           for side in order})
            print(f"round {number + 1}: " + ", ".join(
                f"{side} {statistics.median(rounds[-1][side]['samples_ms']):.1f} ms" for side in order), flush=True)
        for side in peers:
            found[side].close()
    summary = {side: {"wall": paired_ratio(rounds, 0, side, "samples_ms"),
                      "processor_time": paired_ratio(rounds, 0, side, "cpu_ms")} for side in peers}
    print(json.dumps(summary, indent=1))
    load = os.getloadavg()[0]
    write_record(options, {"open_clip_torch": open_clip.__version__, "torch": torch.__version__},
                 {"load_average_at_the_end": load, "largest_difference_to_openclip_fp32": differences,
                  "left_out": left_out, "summary": summary, "rounds": rounds})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/lockstep")
    parser.add_argument("--model", default="ViT-B-32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", choices=list(TYPES), default="fp32")
    parser.add_argument("--text-length", type=int, default=64, help="tokens; 64 is that of NeMo's published table")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--iters", type=int, default=30, help="calls of a side in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sides", nargs="+", default=["openclip", "compile", "onnxruntime", "openvino"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--inputs", help=argparse.SUPPRESS)
    options = parser.parse_args()
    serve(options) if options.side else compare(options)


if __name__ == "__main__":
    main()
