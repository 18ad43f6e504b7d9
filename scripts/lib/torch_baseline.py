# SPDX-License-Identifier: Apache-2.0
"""The same model in PyTorch, as people would train it on one GPU: what scripts/gpu-check holds
shardbench against.

bf16 weights and activations, fused attention, torch.compile, fused AdamW over either
  fp32   master weights and gradients in fp32: the work that shardbench does, or
  bf16   the bf16 weights themselves: less work.
The vocabulary is padded to a multiple of 128, as trainers do. Prints one JSON object per line:
    python3 torch_baseline.py train MICRO_BATCH none|full STEPS fp32|bf16
    python3 torch_baseline.py attention MICRO_BATCH
"""
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

# llama-1b of shardbench: the 1.34B model of the Ultra-Scale Playbook.
LAYERS, HIDDEN, FFN, HEADS, VOCAB, SEQ = 16, 2048, 8192, 32, 50257, 4096
PADDED_VOCAB = (VOCAB + 127) // 128 * 128
HEAD_DIM = HIDDEN // HEADS
WARMUP = 5


def rotation():
    frequency = 10000.0 ** (-torch.arange(0, HEAD_DIM, 2, device="cuda").float() / HEAD_DIM)
    angle = torch.outer(torch.arange(SEQ, device="cuda").float(), frequency)
    return angle.cos().bfloat16(), angle.sin().bfloat16()


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = torch.nn.RMSNorm(HIDDEN, eps=1e-5)
        self.norm2 = torch.nn.RMSNorm(HIDDEN, eps=1e-5)
        self.qkv = torch.nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = torch.nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate_up = torch.nn.Linear(HIDDEN, 2 * FFN, bias=False)
        self.down = torch.nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x, cos, sin):
        batch = x.shape[0]
        q, k, v = self.qkv(self.norm1(x)).view(batch, SEQ, 3, HEADS, HEAD_DIM).permute(
            2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v,
                                                  is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, SEQ, HIDDEN))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(torch.nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute
        self.embedding = torch.nn.Embedding(PADDED_VOCAB, HIDDEN)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = torch.nn.RMSNorm(HIDDEN, eps=1e-5)
        self.head = torch.nn.Linear(HIDDEN, PADDED_VOCAB, bias=False)

    def forward(self, ids, targets, cos, sin):
        x = self.embedding(ids)
        for layer in self.layers:
            if self.recompute:
                x = checkpoint(layer, x, cos, sin, use_reentrant=False)
            else:
                x = layer(x, cos, sin)
        logits = self.head(self.norm(x))
        # Targets are a part of each sequence: for several of them no view is flat.
        return F.cross_entropy(logits.reshape(-1, PADDED_VOCAB), targets.reshape(-1))


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


def chosen_attention(micro_batch):
    """What PyTorch takes for these shapes, by its own name."""
    q = torch.zeros((micro_batch, HEADS, SEQ, HEAD_DIM), device="cuda", dtype=torch.bfloat16,
                    requires_grad=True)
    try:
        return SDPBackend(torch._fused_sdp_choice(q, q, q, is_causal=True)).name
    except (AttributeError, TypeError, ValueError):
        return "not told"


def train(micro_batch, recompute, steps, masters):
    torch.manual_seed(1)
    model = Model(recompute == "full").cuda().bfloat16()
    weights = (Masters if masters == "fp32" else Plain)(model.parameters())
    optimizer = torch.optim.AdamW(weights.parameters(), lr=1e-3, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    cos, sin = rotation()
    times = []
    for step in range(WARMUP + steps):
        ids = torch.randint(VOCAB, (micro_batch, SEQ + 1), device="cuda")
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
            "masters": masters, "vocabulary": PADDED_VOCAB,
            "attention": chosen_attention(micro_batch), "train_step_ms": median * 1e3,
            "tokens_per_s": micro_batch * SEQ / median,
            "spread": (max(times) - min(times)) / median,
            "peak_bytes": torch.cuda.max_memory_allocated()}


def attention(micro_batch):
    """Forward and backward of causal attention alone, by cuDNN and by FlashAttention."""
    out = {"torch": torch.__version__, "micro_batch": micro_batch}
    shape = (micro_batch, HEADS, SEQ, HEAD_DIM)
    q, k, v, g = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_()
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION),
                          ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                forward, backward = attention_times(q, k, v, g)
                out[name + "_forward_ms"], out[name + "_backward_ms"] = forward, backward
        except RuntimeError as error:
            out[name + "_error"] = str(error).splitlines()[0]
    return out


def attention_times(q, k, v, g):
    forward, backward = [], []
    for _ in range(13):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        marks[0].record()
        result = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        marks[1].record()
        result.backward(g)
        marks[2].record()
        torch.cuda.synchronize()
        forward.append(marks[0].elapsed_time(marks[1]))
        backward.append(marks[1].elapsed_time(marks[2]))
    return statistics.median(forward[3:]), statistics.median(backward[3:])


def main():
    what, micro_batch = sys.argv[1], int(sys.argv[2])
    if what == "attention":
        print(json.dumps(attention(micro_batch)), flush=True)
    else:
        print(json.dumps(train(micro_batch, sys.argv[3], int(sys.argv[4]), sys.argv[5])), flush=True)


if __name__ == "__main__":
    main()
