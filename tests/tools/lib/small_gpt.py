# SPDX-License-Identifier: Apache-2.0
"""A small GPT on CPUs (PyTorch, gloo) with experts over `ep` ranks, a pipeline of `pp` stages and data
parallelism. It trains for real, and prints its train steps as the trainer of --lines does. What it has
measured itself stands in --told, for a test to hold against what was read from its lines."""
import argparse
import json
import math
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

flags = argparse.ArgumentParser()
for name in ("layers", "hidden", "heads", "vocab", "seq", "experts", "pp", "ep", "micro-batch", "accumulation", "steps", "warmup"):
    flags.add_argument("--" + name, type=int)
flags.add_argument("--lines")
flags.add_argument("--told")
args = flags.parse_args()
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
dist.init_process_group("gloo")
DP = WORLD // args.pp
assert DP * args.pp == WORLD and DP % args.ep == 0
STAGE, PLACE = divmod(RANK, DP)  # stages are the slowest dimension
LAST = STAGE == args.pp - 1


def own_group(groups):
    made = {tuple(ranks): dist.new_group(ranks) for ranks in groups}  # all ranks make all of them
    return next(group for ranks, group in made.items() if RANK in ranks)


stages = [list(range(s * DP, (s + 1) * DP)) for s in range(args.pp)]
data_group = own_group(stages)
expert_group = own_group([ranks[i : i + args.ep] for ranks in stages for i in range(0, DP, args.ep)])
# Ranks that hold the same experts.
twin_group = own_group([ranks[i :: args.ep] for ranks in stages for i in range(args.ep)])


class Gather(torch.autograd.Function):
    """The tokens of all ranks of a group; the gradient of them all comes back to their owner."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        parts = [torch.empty_like(x) for _ in range(args.ep)]
        dist.all_gather(parts, x.contiguous(), group=expert_group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad, group=expert_group)
        return grad.chunk(args.ep)[PLACE % args.ep]


class Combine(torch.autograd.Function):
    """The sum over the ranks' experts, of this rank's tokens."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x, group=expert_group)
        return x.chunk(args.ep)[PLACE % args.ep]

    @staticmethod
    def backward(ctx, grad):
        parts = [torch.empty_like(grad) for _ in range(args.ep)]
        dist.all_gather(parts, grad.contiguous(), group=expert_group)
        return torch.cat(parts)


class Experts(nn.Module):
    """Each token goes through one expert; this rank holds experts / ep of them."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(args.hidden, args.experts)
        self.first = (PLACE % args.ep) * (args.experts // args.ep)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(args.hidden, args.hidden), nn.GELU(), nn.Linear(args.hidden, args.hidden))
            for _ in range(args.experts // args.ep)
        )

    def forward(self, x):
        flat = Gather.apply(x.flatten(0, 1)) if args.ep > 1 else x.flatten(0, 1)
        weight, chosen = self.router(flat).softmax(-1).max(-1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            mine = (chosen == self.first + number).unsqueeze(-1)
            out = out + mine * weight.unsqueeze(-1) * expert(flat)
        return (Combine.apply(out) if args.ep > 1 else out).view_as(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(args.hidden), nn.LayerNorm(args.hidden)
        self.attention = nn.MultiheadAttention(args.hidden, args.heads, batch_first=True)
        dense = nn.Sequential(nn.Linear(args.hidden, 4 * args.hidden), nn.GELU(), nn.Linear(4 * args.hidden, args.hidden))
        self.mlp = Experts() if args.experts else dense

    def forward(self, x):
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), -math.inf), 1)
        y = self.before(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.between(x))


torch.manual_seed(1 + STAGE)
blocks = nn.Sequential(*(Block() for _ in range(args.layers // args.pp)))
embedding = nn.Embedding(args.vocab, args.hidden) if STAGE == 0 else None
head = nn.Linear(args.hidden, args.vocab) if LAST else None
if head is not None:
    nn.init.normal_(head.weight, std=0.002)  # the first loss is ln(vocabulary)
    nn.init.zeros_(head.bias)
model = nn.ModuleList(part for part in (embedding, blocks, head) if part is not None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
shape = (args.micro_batch, args.seq, args.hidden)


def micro_batch(step, number):
    """One micro-batch through the stages, forwards and backwards; the loss on the last one."""
    generator = torch.Generator().manual_seed(10**6 * step + 1000 * number + PLACE)
    tokens = torch.randint(args.vocab, (args.micro_batch, args.seq + 1), generator=generator)
    if embedding is not None:
        received = embedding(tokens[:, :-1])
    else:
        received = torch.empty(shape)
        dist.recv(received, RANK - DP)
        received.requires_grad_()
    out = blocks(received)
    if not LAST:
        dist.send(out.detach().contiguous(), RANK + DP)
        grad = torch.empty(shape)
        dist.recv(grad, RANK + DP)
        out.backward(grad)
        loss = 0.0
    else:
        value = F.cross_entropy(head(out).flatten(0, 1), tokens[:, 1:].flatten()) / args.accumulation
        value.backward()
        loss = value.item()
    if embedding is None:
        dist.send(received.grad.contiguous(), RANK - DP)
    return loss


def train_step(step):
    optimizer.zero_grad()
    loss = sum(micro_batch(step, number) for number in range(args.accumulation))
    for name, parameter in model.named_parameters():
        of_expert = ".experts." in name
        dist.all_reduce(parameter.grad, group=twin_group if of_expert else data_group)
        parameter.grad /= DP
    optimizer.step()
    return loss


batch = DP * args.micro_batch * args.accumulation
tokens = batch * args.seq


def human(value):
    """nanotron's human_format: three digits."""
    value = float(f"{value:.3g}")
    size = 0
    while abs(value) >= 1000:
        size, value = size + 1, value / 1000
    return f"{f'{value:f}'.rstrip('0').rstrip('.')}{['', 'K', 'M', 'B'][size]}"


def picotrons(value):
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= limit:
            return f"{value / limit:.2f}{unit}"
    return f"{value:.2f}"


def megatron_line(step, ms, loss):
    return (
        f" [2026-08-22 10:00:00.000000] iteration {step:8d}/{args.steps:8d} | consumed samples: {step * batch:12d} | elapsed "
        f"time per iteration (ms): {ms:.1f} | learning rate: 1.000000E-01 | global batch size: {batch:5d} | lm loss: {loss:.6E} | "
        f"loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def line(step, ms, loss):
    s = ms / 1000
    if args.lines in ("megatron", "megatron-bridge"):
        return megatron_line(step, ms, loss)
    if args.lines == "nanotron":
        return (
            f"08/23 10:00:00 [INFO|EP=0|CP=0|DP=0|PP={STAGE}|TP=0|n1]: iteration: {step} / {args.steps} | consumed_tokens: "
            f"{human(step * tokens)} | time_per_iteration_ms: {human(ms)} | tokens_per_sec: {human(tokens / s)} | "
            f"tokens_per_sec_per_gpu: {human(tokens / s / WORLD)} | global_batch_size: {human(tokens)} | grad_norm: 1.23 | "
            f"lm_loss: {human(loss)} | lr: 0.1 | model_tflops_per_gpu: 1 | eta: 0:00:01"
        )
    if args.lines == "torchtitan":
        return (
            f"[titan] 2026-08-21 10:00:00,000 - root - INFO - step: {step:2}  loss: {loss:8.5f}  grad_norm: {1.0:7.4f}  memory: "
            f"{0.5:5.2f}GiB({1.0:.2f}%)  tps: {round(tokens / s / WORLD):,}  tflops: {1.0:,.2f}  mfu: N/A"
        )
    if args.lines == "deepspeed":
        return f"steps: {step} loss: {loss:0.4f} iter time (s): {s:0.3f} samples/sec: {batch / s:0.3f}"
    if args.lines == "gpt-neox":
        return (
            f" samples/sec: {batch / s:.3f} | iteration {step:8d}/{args.steps:8d} | elapsed time per iteration (ms): {ms:.1f} | "
            f"learning rate: 1.000E-01 | approx flops per GPU: 1.0TFLOPS | lm_loss: {loss:.6E} | number of skipped iterations:   0 | "
            f"number of nan iterations:   0 |"
        )
    if args.lines == "picotron":
        return (
            f"[rank {RANK}] Step: {step:<5d} | Loss: {loss:6.4f} | Global batch size: {picotrons(tokens):>7s} | Tokens/s: "
            f"{picotrons(tokens / s):>7s} | Tokens/s/GPU: {picotrons(tokens / s / WORLD):>7s} | Tokens: {picotrons(step * tokens):>7s} | "
            f"MFU:  1.00% | Memory usage:   0.10GB"
        )
    return (
        f"[batch={step}/{args.steps}]:\n\t Train loss/train/total: {loss:.4f}\n\t Train throughput/batches_per_sec: {1 / s:.4f}\n\t "
        f"Train throughput/device/tokens_per_sec: {tokens / s / WORLD:.4f}"
    )


def main():
    if RANK == 0 and args.lines == "megatron":
        print(f"using world size: {WORLD}, data-parallel size: {DP}, context-parallel size: 1, hierarchical context-parallel "
              f"sizes: None, tensor-model-parallel size: 1, pipeline-model-parallel size: {args.pp}", flush=True)
    if RANK == 0 and args.lines == "deepspeed":
        print(f"[2026-08-23 10:00:00,123] [INFO] [config.py:1004:print]   train_batch_size ............. {batch}\n"
              f"[2026-08-23 10:00:00,123] [INFO] [config.py:1004:print]   world_size ................... {DP}", flush=True)
    prints = RANK == WORLD - 1
    times = []
    for step in range(1, args.steps + 1):
        dist.barrier()
        begin = time.monotonic()
        loss = train_step(step)
        mean = torch.tensor([loss])
        dist.all_reduce(mean, group=data_group)
        times.append(1000 * (time.monotonic() - begin))
        if prints:
            print(line(step, times[-1], mean.item() / DP), flush=True)
    if prints:
        timed = times[args.warmup :]
        with open(args.told, "w") as out:
            json.dump({"step_ms": sum(timed) / len(timed), "median_ms": sorted(timed)[len(timed) // 2],
                       "parameters": sum(p.numel() for p in model.parameters())}, out)


main()
