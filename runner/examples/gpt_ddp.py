#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small GPT with DDP that knows nothing of shardsweep: it reads flags, and prints each train
step as Megatron-LM does. runner/TRAINERS.md says how a sweep measures it."""
import argparse
import math
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

flags = argparse.ArgumentParser()
for name, default in (
    ("num-layers", 2),
    ("hidden-size", 64),
    ("num-attention-heads", 4),
    ("seq-length", 32),
    ("vocab-size", 512),
    ("micro-batch-size", 1),
    ("accumulation", 1),
    ("train-iters", 5),
):
    flags.add_argument("--" + name, type=int, default=default)
flags.add_argument("--fault", default="", help="hang, oom or nan in the third train step")
args = flags.parse_args()


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.before, self.between = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
        )

    def forward(self, x):
        length = x.shape[1]
        mask = torch.triu(torch.full((length, length), -math.inf), 1)
        y = self.before(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.between(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(args.vocab_size, args.hidden_size)
        blocks = [Block(args.hidden_size, args.num_attention_heads) for _ in range(args.num_layers)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(args.hidden_size, args.vocab_size)
        nn.init.normal_(self.head.weight, std=0.002)  # the first loss is ln(vocabulary)

    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens)))


def samples(iteration, number):
    generator = torch.Generator().manual_seed(1000 * iteration + number)
    size = (args.micro_batch_size, args.seq_length + 1)
    return torch.randint(args.vocab_size, size, generator=generator)


def train_step(model, optimizer, iteration, rank):
    total = 0.0
    optimizer.zero_grad()
    for number in range(args.accumulation):
        tokens = samples(iteration, rank * args.accumulation + number)
        logits = model(tokens[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits, tokens[:, 1:].flatten()) / args.accumulation
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


def inject(fault, rank):
    if fault == "hang" and rank == 0:
        while True:
            pass
    if fault == "oom":
        torch.empty(1 << 50)


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(Gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = args.micro_batch_size * args.accumulation * world
    if rank == 0:
        print(f"using world size: {world}, data-parallel size: {world}", flush=True)
        print(f"  padded_vocab_size .......................... {args.vocab_size}", flush=True)
    for iteration in range(1, args.train_iters + 1):
        begin = time.monotonic()
        if iteration == 3:
            inject(args.fault, rank)
        loss = train_step(model, optimizer, iteration, rank)
        if args.fault == "nan" and iteration >= 3:
            loss = math.nan
        ms = 1e3 * (time.monotonic() - begin)
        if rank == world - 1:  # Megatron prints on the last rank
            print(
                f" iteration {iteration:8d}/{args.train_iters:8d} | consumed samples: "
                f"{iteration * batch:12d} | elapsed time per iteration (ms): {ms:.1f} | "
                f"learning rate: 1.000000E-03 | global batch size: {batch:5d} | lm loss: "
                f"{loss:.6E} | loss scale: 1.0 | number of skipped iterations:   0 | "
                f"number of nan iterations:   {int(math.isnan(loss))} |",
                flush=True,
            )


main()
