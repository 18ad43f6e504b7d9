# SPDX-License-Identifier: Apache-2.0
"""The same model in PyTorch, as people would train it on one GPU: what scripts/gpu-check holds
shardbench against.

bf16 weights and activations, fused attention, torch.compile, fused AdamW over either
  fp32   master weights and gradients in fp32: the work that shardbench does, or
  bf16   the bf16 weights themselves: less work.
MODEL is what `shardbench-cuda --device meta` prints of the model: its shape, with the vocabulary
padded as there, and whether embedding and head are one matrix. Prints one JSON object per line:
    python3 torch_baseline.py MODEL train MICRO_BATCH none|full STEPS fp32|bf16
    python3 torch_baseline.py MODEL attention MICRO_BATCH
"""
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

WARMUP = 5


class Shape:
    """The model of shardbench: one table of shapes, which is its own."""

    def __init__(self, file):
        model = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))["model"]
        self.layers, self.hidden, self.ffn = model["layers"], model["hidden"], model["ffn"]
        self.heads, self.kv_heads = model["heads"], model["kv_heads"]
        self.vocab, self.padded_vocab = model["vocab"], model["padded_vocab"]
        self.tied, self.seq = model["tied_embeddings"], model["seq_len"]
        self.head_dim = self.hidden // self.heads


def rotation(shape, device):
    frequency = 10000.0 ** (-torch.arange(0, shape.head_dim, 2, device=device).float() /
                            shape.head_dim)
    angle = torch.outer(torch.arange(shape.seq, device=device).float(), frequency)
    return angle.cos().bfloat16(), angle.sin().bfloat16()


def flat_loss(logits, targets):
    """Targets are a part of each sequence: for several of them no view is flat."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Layer(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        width = shape.heads * shape.head_dim
        kv_width = shape.kv_heads * shape.head_dim
        self.widths = (width, kv_width, kv_width)
        self.norm1 = torch.nn.RMSNorm(shape.hidden, eps=1e-5)
        self.norm2 = torch.nn.RMSNorm(shape.hidden, eps=1e-5)
        self.qkv = torch.nn.Linear(shape.hidden, sum(self.widths), bias=False)
        self.out = torch.nn.Linear(width, shape.hidden, bias=False)
        self.gate_up = torch.nn.Linear(shape.hidden, 2 * shape.ffn, bias=False)
        self.down = torch.nn.Linear(shape.ffn, shape.hidden, bias=False)

    def forward(self, x, cos, sin):
        shape = self.shape
        q, k, v = (part.view(x.shape[0], shape.seq, -1, shape.head_dim).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(self.widths, dim=-1))
        grouped = {"enable_gqa": True} if shape.kv_heads != shape.heads else {}
        attended = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v,
                                                  is_causal=True, **grouped)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape[0], shape.seq, -1))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(torch.nn.Module):
    def __init__(self, shape, recompute):
        super().__init__()
        self.recompute = recompute
        self.embedding = torch.nn.Embedding(shape.padded_vocab, shape.hidden)
        self.layers = torch.nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = torch.nn.RMSNorm(shape.hidden, eps=1e-5)
        self.head = torch.nn.Linear(shape.hidden, shape.padded_vocab, bias=False)
        if shape.tied:
            self.head.weight = self.embedding.weight
        # As shardbench has them: norms are 1, all else normal.
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets, cos, sin):
        x = self.embedding(ids)
        for layer in self.layers:
            if self.recompute:
                x = checkpoint(layer, x, cos, sin, use_reentrant=False)
            else:
                x = layer(x, cos, sin)
        return flat_loss(self.head(self.norm(x)), targets)


class Masters:
    """fp32 copies of bf16 weights, which AdamW updates by fp32 gradients."""

    def __init__(self, weights):
        self.weights = list(weights)
        self.copies = [weight.detach().float() for weight in self.weights]
        for copy in self.copies:
            copy.grad = torch.zeros_like(copy)

    def parameters(self):
        return self.copies

    def take_gradients(self):
        torch._foreach_copy_([copy.grad for copy in self.copies],
                             [weight.grad for weight in self.weights])

    def give_weights(self):
        torch._foreach_copy_([weight.data for weight in self.weights], self.copies)
        for weight in self.weights:
            weight.grad = None


class Plain:
    """The bf16 weights themselves."""

    def __init__(self, weights):
        self.weights = list(weights)

    def parameters(self):
        return self.weights

    def take_gradients(self):
        pass

    def give_weights(self):
        for weight in self.weights:
            weight.grad = None


def operands(shape, micro_batch, device):
    """q, k and v of one layer, in random numbers."""
    return [torch.randn((micro_batch, heads, shape.seq, shape.head_dim), device=device,
                        dtype=torch.bfloat16).requires_grad_()
            for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]


def chosen_attention(shape, micro_batch):
    """What PyTorch takes for these shapes, by its own name."""
    from torch.nn.attention import SDPBackend
    grouped = {"enable_gqa": True} if shape.kv_heads != shape.heads else {}
    try:
        return SDPBackend(torch._fused_sdp_choice(*operands(shape, micro_batch, "cuda"),
                                                  is_causal=True, **grouped)).name
    except (AttributeError, TypeError, ValueError):
        return "not told"


def train(shape, micro_batch, recompute, steps, masters):
    torch.manual_seed(1)
    model = Model(shape, recompute == "full").cuda().bfloat16()
    weights = (Masters if masters == "fp32" else Plain)(model.parameters())
    optimizer = torch.optim.AdamW(weights.parameters(), lr=1e-3, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    cos, sin = rotation(shape, "cuda")
    times = []
    for step in range(WARMUP + steps):
        ids = torch.randint(shape.vocab, (micro_batch, shape.seq + 1), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = compiled(ids[:, :-1], ids[:, 1:], cos, sin)
        loss.backward()
        weights.take_gradients()
        torch.nn.utils.clip_grad_norm_(weights.parameters(), 1.0)
        optimizer.step()
        weights.give_weights()
        torch.cuda.synchronize()
        if step >= WARMUP:
            times.append(time.perf_counter() - start)
    median = statistics.median(times)
    return {"torch": torch.__version__, "micro_batch": micro_batch, "recompute": recompute,
            "masters": masters, "vocabulary": shape.padded_vocab,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "attention": chosen_attention(shape, micro_batch), "train_step_ms": median * 1e3,
            "tokens_per_s": micro_batch * shape.seq / median,
            "spread": (max(times) - min(times)) / median,
            "peak_bytes": torch.cuda.max_memory_allocated()}


def attention(shape, micro_batch):
    """Forward and backward of causal attention alone, by cuDNN and by FlashAttention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    out = {"torch": torch.__version__, "micro_batch": micro_batch}
    q, k, v = operands(shape, micro_batch, "cuda")
    g = torch.randn_like(q)
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION),
                          ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                forward, backward = attention_times((q, k, v), g)
                out[name + "_forward_ms"], out[name + "_backward_ms"] = forward, backward
        except RuntimeError as error:
            out[name + "_error"] = str(error).splitlines()[0]
    return out


def attention_times(qkv, g):
    grouped = {"enable_gqa": True} if qkv[0].shape[1] != qkv[1].shape[1] else {}
    forward, backward = [], []
    for _ in range(13):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        marks[0].record()
        result = F.scaled_dot_product_attention(*qkv, is_causal=True, **grouped)
        marks[1].record()
        result.backward(g)
        marks[2].record()
        torch.cuda.synchronize()
        forward.append(marks[0].elapsed_time(marks[1]))
        backward.append(marks[1].elapsed_time(marks[2]))
    return statistics.median(forward[3:]), statistics.median(backward[3:])


def main():
    shape, what, micro_batch = Shape(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if what == "attention":
        print(json.dumps(attention(shape, micro_batch)), flush=True)
    else:
        recompute, steps, masters = sys.argv[4], int(sys.argv[5]), sys.argv[6]
        print(json.dumps(train(shape, micro_batch, recompute, steps, masters)), flush=True)


if __name__ == "__main__":
    main()
