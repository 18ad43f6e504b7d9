// SPDX-License-Identifier: Apache-2.0
// Memory per rank, by class, of a Llama-like model under a layout: bytes, from shapes alone.
//
// Symbols: L layers, h hidden, f ffn, a heads, g kv heads, V vocab, s seq_len, b micro_batch,
// m grad_accum, t tp, p pp, d dp / dp_replicate, e bytes of an element, N parameters.
#pragma once

#include <shardsweep/model.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/point.hpp>

#include <cstdint>
#include <string_view>

namespace shardsweep {

/// N: per layer 2h^2 + 2h^2 g/a + 3hf + 2h; embedding and head Vh each (one where tied); the
/// last norm h. The same in every layout.
[[nodiscard]] std::int64_t parameters(const ModelSpec& model);

/// What a trainer does that shapes do not say.
struct MemoryFamily {
  std::string_view name;
  double bf16_gradient_bytes;  ///< per parameter in bf16: 4 for fp32 main gradients
  bool flash_attention;        ///< false: the attention probabilities of each layer are kept
  double overhead_bytes;       ///< per rank: runtime context, workspaces, code
};

/// shardbench on GPUs: fp32 main gradients as Megatron; no probabilities kept; 0.5 GB of
/// context and a 32 MiB cuBLAS workspace.
[[nodiscard]] const MemoryFamily& shardbench_cuda_memory();
/// shardbench on a CPU: keeps the probabilities; 16 MiB for the process itself.
[[nodiscard]] const MemoryFamily& shardbench_cpu_memory();
/// By where it runs: this-machine is a CPU.
[[nodiscard]] const MemoryFamily& memory_family(const ClusterSpec& cluster);

/// Bytes per rank of the stage that needs most. Layers are split evenly, the first L mod p
/// stages one more; so stage 0 (most in flight, embedding) or the last (head, logits) is the
/// largest.
///
/// Weights, gradients, optimizer per parameter, with ZeRO [Rajbhandari, arXiv 1910.02054]: bf16
/// with fp32 master and moments 2 + 4 + 12, at stage 1 6 + 12/d, 2: 2 + 16/d, 3: 18/d; fp32 has
/// no master: 4 + 4 + 8; fp64 8 + 8 + 16. N is divided by tp and stage; norms are whole in
/// every TP rank.
///
/// Activations per layer and micro-batch, tensor by tensor (residual, norm, Q, K, V, attention
/// output, log-sum-exp, residual, norm, gate, up, silu*up; method of Korthikanti, arXiv
/// 2205.05198, section 4):
///   A = e (sbh (6 + 2g/a) + 3sbf) + 4sba, what lies between the TP regions (4 e sbh) divided
///   by
/// t only under sequence parallel. selective: without the two norms and silu*up; full: the
/// layer's input, and one layer's A while it is computed again. In flight on stage i: 1F1B
/// min(m, p - i), all-forward-all-backward m. Probabilities: e a s^2 b / t.
/// Logits: e s b V / t, gradients in place. Communication: a gradient bucket, the receive
/// buffers of a pipeline, and two gathered units (layer or embedding) under ZeRO 3.
[[nodiscard]] MemoryEstimate estimate_memory(const ModelSpec& model, const Point& point,
                                             const MemoryFamily& family);

/// A lower bound whatever the trainer does well: bf16 gradients, everything sharded by tp and
/// any split of the layers over stages; weights, gradients, optimizer and one micro-batch's
/// activations as `recompute` keeps them; no log-sum-exp, logits, buffers or runtime.
[[nodiscard]] MemoryEstimate optimistic_memory(const ModelSpec& model, const Point& point);

}  // namespace shardsweep
