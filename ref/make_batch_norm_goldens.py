"""Ten training steps of a small ModifiedResNet by OpenCLIP on one rank, and on two and four ranks of torch's
DistributedDataParallel, each with batch statistics of its own (OpenCLIP without --use-bn-sync).

Packages (PyPI): open_clip_torch==3.3.0 torch==2.11.0 safetensors. Run from the repository root, behind
make_clip_goldens.py:

    python3 ref/make_batch_norm_goldens.py

Writes tests/golden/contrastive_training/batch_norm.json: for each number of ranks the mean loss of all ranks at each
step, and the L2 norms of rank 0's parameters and running statistics at the end. With --use-bn-sync all ranks compute
what one rank computes of the whole batch; torch's SyncBatchNorm itself needs GPUs. The learning rate is a tenth of that
of make_contrastive_training_goldens.py: batch norm of so few pictures multiplies rounding at each step.
"""

import json
import math
import tempfile

import torch
from make_contrastive_training_goldens import BATCH, GOLDEN, STEPS, batch_of, load, make_optimizer
from open_clip.loss import ClipLoss
from torch import distributed, multiprocessing

LR = 1e-4


def train(rank, num_ranks, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/join", rank=rank, world_size=num_ranks)
    model, config = load("resnet")
    model.train()
    optimizer = make_optimizer(model)
    for group in optimizer.param_groups:
        group["lr"] = LR
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    loss = ClipLoss(local_loss=True, gather_with_grad=True, rank=rank, world_size=num_ranks)
    own = slice(rank * BATCH // num_ranks, (rank + 1) * BATCH // num_ranks)
    losses = []
    for step in range(STEPS):
        image, text = batch_of(config, step)
        optimizer.zero_grad()
        total = loss(**parallel(image[own], text[own]), output_dict=True)["contrastive_loss"]
        total.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, math.log(100))
        mean = total.detach().clone()
        distributed.all_reduce(mean)
        losses.append(mean.item() / num_ranks)
    if rank == 0:
        norms = {
            key: value.double().norm().item() for key, value in model.state_dict().items() if value.is_floating_point()
        }
        with open(f"{folder}/result.json", "w") as file:
            json.dump({"losses": losses, "norms": norms}, file)
    distributed.destroy_process_group()


def main():
    cases = {}
    for num_ranks in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(train, (num_ranks, folder), num_ranks)
            with open(f"{folder}/result.json") as file:
                cases[num_ranks] = json.load(file)
    (GOLDEN / "contrastive_training" / "batch_norm.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
