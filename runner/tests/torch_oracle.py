# SPDX-License-Identifier: Apache-2.0
"""An oracle in PyTorch for shardbench: torch_oracle.py FOLDER.

Reads what `shardbench_torch_dump` wrote there: shape.json, and for each tensor its name, rows,
columns and values in double precision. Computes loss and all gradients by autograd, with code of
its own, and holds the runner's against them. Exits with 0 where all agree to 1e-12.
"""
import json
import pathlib
import sys

import torch

TOLERANCE = 1e-12
EPSILON = 1e-5
THETA = 10000.0


def read(folder, entry):
    values = torch.frombuffer(bytearray((folder / entry["file"]).read_bytes()),
                              dtype=torch.float64)
    return values.view(entry["rows"], entry["columns"]).clone()


def rms_norm(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPSILON) * weight


def rotate(x):
    """[batch, seq, heads, dim]: pairs (i, i + dim/2) turn by position · θ^(−2i/dim)."""
    half = x.shape[-1] // 2
    frequency = THETA ** (-torch.arange(half, dtype=torch.float64) * 2 / x.shape[-1])
    angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def attention(x, weights, layer, shape):
    batch, seq, _ = x.shape
    dim = shape["hidden"] // shape["heads"]
    heads = {name: (x @ weights[f"{layer}.{name}"].T).view(batch, seq, -1, dim)
             for name in ("q", "k", "v")}
    group = shape["heads"] // shape["kv_heads"]
    q = rotate(heads["q"])
    k = rotate(heads["k"]).repeat_interleave(group, 2)
    v = heads["v"].repeat_interleave(group, 2)
    scores = torch.einsum("bshd,bthd->bhst", q, k) / dim ** 0.5
    later = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    probabilities = scores.masked_fill(later, float("-inf")).softmax(-1)
    attended = torch.einsum("bhst,bthd->bshd", probabilities, v).reshape(batch, seq, -1)
    return attended @ weights[f"{layer}.o"].T


def loss_of(weights, shape, tokens):
    x = weights["embedding"][tokens[:, :-1]]
    for layer in range(shape["layers"]):
        x = x + attention(rms_norm(x, weights[f"{layer}.attention_norm"]), weights, layer, shape)
        y = rms_norm(x, weights[f"{layer}.mlp_norm"])
        gate = y @ weights[f"{layer}.gate"].T
        x = x + (torch.nn.functional.silu(gate) * (y @ weights[f"{layer}.up"].T)
                 ) @ weights[f"{layer}.down"].T
    table = weights["embedding" if shape["tied"] else "head"]
    # What pads the vocabulary is no candidate.
    logits = (rms_norm(x, weights["final_norm"]) @ table.T)[..., :shape["vocab"]]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def main():
    folder = pathlib.Path(sys.argv[1])
    shape = json.loads((folder / "shape.json").read_text())
    weights = {entry["name"]: read(folder, entry["weight"]).requires_grad_()
               for entry in shape["tensors"]}
    loss = loss_of(weights, shape, torch.tensor(shape["tokens"]))
    loss.backward()
    worst = {"loss": abs(loss.item() - shape["loss"]) / abs(loss.item())}
    for entry in shape["tensors"]:
        wanted = weights[entry["name"]].grad
        got = read(folder, entry["gradient"])
        worst[entry["name"]] = ((got - wanted).norm() / wanted.norm()).item()
    name = max(worst, key=worst.get)
    print(f"PyTorch {torch.__version__}: {len(worst)} values of {shape['case']}, "
          f"the worst is {name}: {worst[name]:.1e}")
    # Written so that a NaN is a failure.
    return 0 if all(error <= TOLERANCE for error in worst.values()) else 1


sys.exit(main())
