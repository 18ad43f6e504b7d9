#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# PyTorch DDP as a runner: data parallel alone, on CPUs with gloo or on GPUs with NCCL. The
# contract is in runner/OWN_RUNNER.md; flags that this program does not know are left alone.
import argparse, json, os, resource, socket, statistics, sys, time

NAME, VERSION = "ddp", "1.0"
CAPABILITIES = {
    "runner": NAME, "version": VERSION, "dtype": ["fp32"],
    "max": {"tp": 1, "pp": 1, "cp": 1, "ep": 1, "vpp": 1, "dp_replicate": 1},
    "zero": [0], "recompute": ["none"], "sequence_parallel": [False],
    "rules": [{"constraint": "runner:world", "when": "dp <> gpus", "why": "every rank is a replica"}],
}
OOM = 11  # exit codes: runner/OWN_RUNNER.md
if "--capabilities" in sys.argv:
    sys.exit(print(json.dumps(CAPABILITIES)))

import torch
from torch.nn.parallel import DistributedDataParallel

numbers = "layers hidden heads ffn vocab seq-len dp micro-batch grad-accum warmup steps seed".split()
parser = argparse.ArgumentParser(allow_abbrev=False)
for name in numbers:
    parser.add_argument("--" + name, type=int, required=True)
for name in ("records", "run-id"):
    parser.add_argument("--" + name, required=True)
flags, _ = parser.parse_known_args()
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
on_gpu = torch.cuda.is_available()
# The agent shows each rank its own GPU: it is number 0.
device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")


def record(type, **keys):
    """Rank 0 speaks for all; an error is told by whom it happens to, in a file of its own."""
    if rank != 0 and type != "error":
        return
    line = {"type": type, "run_id": flags.run_id, "rank": rank, "t": time.time(), **keys}
    with open(flags.records if rank == 0 else f"{flags.records}.{rank}", "a") as file:
        file.write(json.dumps(line, allow_nan=False) + "\n")
        if type == "result":
            file.flush()
            os.fsync(file.fileno())  # an attempt is measured when its result is durable


class Model(torch.nn.Module):
    """A causal transformer of the sweep's shape; not Llama."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(
            flags.hidden, flags.heads, flags.ffn, dropout=0.0, batch_first=True, norm_first=True)
        self.embedding = torch.nn.Embedding(flags.vocab, flags.hidden)
        self.layers = torch.nn.TransformerEncoder(layer, flags.layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(flags.hidden, flags.vocab, bias=False)
        mask = torch.full((flags.seq_len, flags.seq_len), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, ids):
        return self.head(self.layers(self.embedding(ids), mask=self.mask))


def train_step(model, optimizer):
    optimizer.zero_grad(set_to_none=True)
    loss_sum = torch.zeros((), device=device)
    for micro in range(flags.grad_accum):
        # Gradients are summed over the ranks once, in the last micro-batch.
        model.require_backward_grad_sync = micro == flags.grad_accum - 1
        ids = torch.randint(flags.vocab, (flags.micro_batch, flags.seq_len + 1), device=device)
        logits = model(ids[:, :-1])
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, flags.vocab), ids[:, 1:].reshape(-1)) / flags.grad_accum
        loss.backward()
        loss_sum += loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss_sum


def slowest(seconds):
    """The time of the slowest rank."""
    times = torch.tensor([seconds], device=device, dtype=torch.float64)
    torch.distributed.all_reduce(times, torch.distributed.ReduceOp.MAX)
    return times.item()


def peak_memory_bytes():
    if on_gpu:
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # the whole process


def main():
    record("start", runner=NAME, version=VERSION, host=socket.gethostname(), torch=torch.__version__)
    record("phase", phase="rendezvous")
    meeting = os.path.join(os.path.dirname(flags.records), "torch.rendezvous")
    torch.distributed.init_process_group(
        "nccl" if on_gpu else "gloo", init_method="file://" + meeting, rank=rank, world_size=world)
    record("phase", phase="init")
    torch.manual_seed(flags.seed + rank)
    model = DistributedDataParallel(Model().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    for step in range(flags.warmup + flags.steps):
        if step in (0, flags.warmup):
            record("phase", phase="warmup" if step < flags.warmup else "train")
        begin = time.perf_counter()
        loss = train_step(model, optimizer).item()  # waits for the GPU
        step_s = slowest(time.perf_counter() - begin)
        record("train_step", step=step, step_ms=step_s * 1e3, loss=loss, timed=step >= flags.warmup)
        times.append(step_s)
    timed = sorted(times[flags.warmup:])
    median = statistics.median(timed)
    tokens = flags.dp * flags.micro_batch * flags.grad_accum * flags.seq_len
    record("phase", phase="teardown")
    record("result", tokens_per_s=tokens / median, tokens_per_s_per_gpu=tokens / median / world,
           train_step_ms=median * 1e3, train_step_ms_min=timed[0] * 1e3, loss=loss,
           peak_memory_bytes=peak_memory_bytes(), tokens_per_step=tokens,
           n_params=sum(p.numel() for p in model.parameters()), steps=flags.steps, warmup=flags.warmup)
    torch.distributed.destroy_process_group()


try:
    main()
except RuntimeError as error:
    oom = "out of memory" in str(error)
    record("error", **{"class": "oom" if oom else "internal", "message": str(error).split("\n")[0]})
    sys.exit(OOM if oom else 16)
