// SPDX-License-Identifier: Apache-2.0
// Numbers of a row are counted in a trainer's source, taken from a paper, or fitted to
// published runs: its comment says which, and fitted_to names the runs. The fitted ones of
// memory are also in fitted_memory_constants() (tests/tools/lab/memory_score), so that a score can
// be told without the rows that they were fitted to.
#include "predict/family.hpp"

#include "predict/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

namespace shardsweep {
namespace {

// nanotron, read in its source and in the memory columns of the Ultra-Scale Playbook's sweep
// (rank 0 of 1,020 runs on 80 GB H100):
// - fp32 gradients are accumulated beside the weights, bf16 ones lie in DDP's buckets;
// - ZeRO-1 gathers the new weights from coalesced copies: 2 + 2/d;
// - Q and K are copied by the rotary embedding, K and V once more for flash attention; gate,
//   silu(gate), up and their product are kept;
// - the loss holds a logit in bf16, in fp32, and its exponential in fp32;
// - TP gathers into two buffers of whole rows.
// Fitted to those columns: the rows that the allocator can't give back while their collectives
// run (seen without a pipeline), and workspaces. Outside the allocator, contexts and NCCL's
// buffers: no run reserved more than 77.2 of the 79.6 GiB that the driver reports.
MemoryFamily nanotron() {
  MemoryFamily family;
  family.name = "nanotron";
  family.query_rows = 3;
  family.key_rows = 5;
  family.ffn_rows = 4;
  family.logits_bytes = 10;
  family.working_layers = 1;
  family.split = StageSplit::by_cost;
  family.allocator_bytes = 0.3 * gib;
  family.overhead_bytes = 2.5 * gib;
  family.bucket_bytes = 2;
  family.step_gather_bytes = 2;
  family.tp_buffer_rows = 2;
  family.tp_retained_rows = 28;
  return family;
}

MemoryFamily nanotron_least() {
  auto family = nanotron();
  family.tp_retained_rows = 0;
  return family;
}

// Megatron-LM: fp32 main gradients (18 bytes per parameter, 6 + 12/d with its distributed
// optimizer: theoretical_memory_usage.py); GPT's activations by arXiv 2205.05198; selective
// recomputation is that of the attention. Norms that are not fused compute in fp32.
MemoryFamily megatron() {
  MemoryFamily family;
  family.name = "megatron";
  family.selective = Selective::attention;
  family.vocab_multiple = 128;
  family.plain_where_ffn_is_4h = true;
  family.probability_bytes = 4;
  family.logits_bytes = 6;
  family.norm_row_bytes = 8;
  family.overhead_bytes = 1.5 * gib;
  return family;
}

// bf16 gradients and fused norms, as forks of it do; half an activation saved here and there.
MemoryFamily megatron_least() {
  auto family = megatron();
  family.bf16_gradient_bytes = 2;
  family.between_rows = 3;
  family.norm_row_bytes = 0;
  family.probability_bytes = 2;
  family.logits_bytes = 2;
  family.overhead_bytes = 0.5 * gib;
  return family;
}

// PyTorch FSDP with mixed precision, as torchtitan and llm-foundry use it: fp32 shards of
// weights, gradients and moments (16 bytes per parameter, here as 2 + 2 + 12), units gathered
// in bf16; the loss in fp32 with its gradient beside it. Within 4 % of torchtitan's 8B tables
// (docs/performance, H100, selective recomputation, 8 and 128 ranks). In a pipeline torchtitan
// gathers once (reshard_after_forward), and FSDP2 sums unreduced gradients in the type in which
// it reduces them.
MemoryFamily fsdp() {
  MemoryFamily family;
  family.name = "fsdp";
  family.bf16_gradient_bytes = 2;
  family.logits_bytes = 8;
  family.overhead_bytes = 1.5 * gib;
  family.whole_in_pipeline = true;
  return family;
}

/// Of what kernels and links reach, what nanotron does: on nodes of eight H100 55 % of the peak
/// in products, 35 % in attention, 53 and 54 % of the links, 156 GB/s in a ring over a node's
/// adapters, and 24 latencies for each doubling of a group.
void reach_as_nanotron(TimeFamily& family) {
  const ClusterSpec good{};
  family.gemm_share = 0.55 / good.gemm_efficiency;
  family.attention_share = 0.35 / good.attention_efficiency;
  family.links = {.inside = 0.53 / good.intra_node_efficiency,
      .between = 0.54 / good.inter_node_efficiency,
      .adapters = 0.39,
      .waits = 12};
}

// Fitted to the 755 completed runs of the playbook's 1B, 9B and 469B models with one software
// state, regularised towards what each is made of; fitted without the 1B or the 9B model, the
// constants move by a fifth at most and the other's steps are 13 % off in the mean. Python
// launches a layer in 2.5 ms, with TP in 4.2; in a pipeline each TP rank adds 1.6 ms. The
// update is Adam's unfused, ZeRO-1's all_gather_coalesced copies each tensor's parts one by
// one.
TimeFamily nanotron_time() {
  TimeFamily family;
  family.launch_layer_s = 2.5e-3;
  family.launch_layer_tp_s = 4.2e-3;
  family.launch_layer_pipeline_tp_s = 1.62e-3;
  family.launch_stage_s = 0.41e-3;
  family.stage_message_s = 0.2e-3;
  family.activation_passes = 3;
  family.parameter_bytes = 16;
  family.logit_bytes = 40;
  family.tp_exposed = 0.55;
  family.overlap = 0.5;
  family.update_bytes = 92;
  family.update_s = 0.043;
  family.gather_tensor_s = 1.2e-4;
  family.gather_part_s = 6.1e-6;
  reach_as_nanotron(family);
  return family;
}

// Fused kernels and contiguous buffers; the host is as slow as Python's launches are. A
// weight's gradient is added to fp32 by its product, which reads and writes 8 bytes. Rows go to
// experts by DeepEP or alike, FP8 is Transformer Engine's.
TimeFamily megatron_time() {
  TimeFamily family;
  family.parameter_bytes = 8;
  family.sends_parts = true;
  family.once_per_node = true;
  family.fused_quantization = true;
  family.launch_layer_s = 1e-3;
  family.launch_layer_tp_s = 1.5e-3;
  family.launch_stage_s = 0.3e-3;
  family.stage_message_s = 0.1e-3;
  family.logit_bytes = 30;
  family.update_s = 0.01;
  return family;
}

// Eager kernels move activations twice as often as fused ones. Attention is FlashAttention-2's,
// written for A100. Selective recomputation, torchtitan's per operation, computes every second
// product again.
TimeFamily fsdp_time() {
  TimeFamily family;
  family.attention_share = 0.35 / ClusterSpec{}.attention_efficiency;
  family.activation_passes = 6;
  family.selective_again = 0.5;
  family.sends_parts = true;
  family.launch_layer_s = 1.5e-3;
  family.launch_layer_tp_s = 2.5e-3;
  family.launch_stage_s = 1e-3;
  family.stage_message_s = 0.2e-3;
  family.logit_bytes = 30;
  family.overlap = 0.9;
  family.update_bytes = 60;
  family.update_s = 0.02;
  return family;
}

// C++ launches: a layer's few dozen kernels in 0.2 ms.
TimeFamily shardbench_time() {
  TimeFamily family;
  family.launch_layer_s = 0.2e-3;
  family.launch_layer_tp_s = 0.3e-3;
  family.stage_message_s = 0.05e-3;
  family.update_s = 0.5e-3;
  return family;
}

/// Somebody's own program reaches no more than the one that was measured.
TimeFamily other_time() {
  auto family = shardbench_time();
  reach_as_nanotron(family);
  return family;
}

MemoryFamily shardbench_gpu() {
  auto family = shardbench_cuda_memory();
  family.arenas = true;
  return family;
}

/// Two moments of 16 bits and no master copy, of 12 bytes (Family::certain_optimizer): Megatron
/// with its precision-aware optimizer, FSDP with weights in bf16.
constexpr double in_16_bits = 4.0 / 12;

}  // namespace

std::span<const Family> families() {
  static const std::array<Family, 4> all{{
      {.name = "shardbench",
          .trainer = "the benchmark that comes with shardsweep",
          .title = "shardbench",
          .fitted_to = "its own plan of memory, which is exact, and no run on a GPU",
          .memory = shardbench_gpu(),
          .constants_off_by = 0,
          .time = shardbench_time(),
          .measured_on_gpus = false},
      {.name = "nanotron",
          .trainer = "Hugging Face nanotron, as in the Ultra-Scale Playbook",
          .title = "nanotron",
          .words = "nanotron",
          .fitted_to = "1,020 runs of 1B to 469B models on 8 to 512 H100",
          .memory = nanotron(),
          .least = nanotron_least(),
          .time = nanotron_time(),
          .reports_first_stage = true,
          .retries_near_the_limit = true},
      {.name = "megatron",
          .trainer = "Megatron-LM and what is built on Megatron core",
          .title = "Megatron-LM",
          .words = "megatron",
          .memory = megatron(),
          .least = megatron_least(),
          .certain_optimizer = in_16_bits,
          .time = megatron_time()},
      {.name = "fsdp",
          .trainer = "PyTorch FSDP: torchtitan, llm-foundry",
          .title = "PyTorch FSDP",
          .words = "torchtitan",
          .fitted_to = "torchtitan's 8B tables on 8 and 128 H100",
          .memory = fsdp(),
          .certain_optimizer = in_16_bits,
          .time = fsdp_time()},
  }};
  return all;
}

Result<const Family*> find_family(std::string_view name) {
  std::string known;
  for (const auto& family : families()) {
    if (family.name == name) return &family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.name);
  }
  return fault(
      FaultKind::invalid_input, fmt::format("unknown family '{}'; there are: {}", name, known));
}

const Family& family_of_runner(std::string_view runner) {
  // Somebody's own program: the plain formulas, of which nobody has checked that they hold.
  static const Family other{.name = "other",
      .trainer = "any other program",
      .memory = shardbench_cuda_memory(),
      .certain_optimizer = in_16_bits,
      .time = other_time()};
  const auto all = families();
  const auto found = std::find_if(all.begin(), all.end(),
      [&](const Family& family) { return runner.substr(0, family.name.size()) == family.name; });
  return found == all.end() ? other : *found;
}

namespace {

/// As runner/src/measurement/profile.cpp has them.
Family shardbench_with(std::string_view profile) {
  Family family = families().front();
  if (profile == "megatron" || profile == "nanotron")
    family.memory.selective = Selective::attention;
  if (profile == "nanotron" || profile == "torchtitan") family.memory.vocab_multiple = 1;
  return family;
}

}  // namespace

const Family& default_family(const ClusterSpec& cluster) {
  const auto all = families();
  const std::string_view name = cluster.gpu.empty() ? "shardbench" : "megatron";
  return *std::find_if(
      all.begin(), all.end(), [&](const Family& family) { return family.name == name; });
}

bool same_hardware(const ClusterSpec& a, const ClusterSpec& b) {
  return std::tie(a.gpu, a.gpus_per_node, a.memory_bytes) ==
      std::tie(b.gpu, b.gpus_per_node, b.memory_bytes);
}

bool is_kin(const SweepSpec& a, const SweepSpec& b) {
  const Family& family = family_of(a.runner);
  // Programs of no known family have nothing in common but that.
  const bool same_trainer =
      find_family(family.name).has_value() || a.runner.known_as() == b.runner.known_as();
  return a.cluster.name == b.cluster.name && same_hardware(a.cluster, b.cluster) &&
      a.proof_of.empty() && b.proof_of.empty() && &family == &family_of(b.runner) && same_trainer;
}

const Family& family_of(const RunnerSpec& runner) {
  static const auto profiles = [] {
    std::array<Family, profile_words.size()> all;
    std::transform(profile_words.begin(), profile_words.end(), all.begin(), shardbench_with);
    return all;
  }();
  const auto* const found = std::find(profile_words.begin(), profile_words.end(), runner.profile);
  if (!runner.is_shardbench() || found == profile_words.end())
    return family_of_runner(runner.known_as());
  return profiles[static_cast<std::size_t>(found - profile_words.begin())];
}

}  // namespace shardsweep
