// SPDX-License-Identifier: Apache-2.0
// What each axis is called by each trainer: the one table of these words. Readers, help and
// the check that an axis is told take them from here.
#pragma once

#include "trainer/configuration.hpp"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace shardsweep {

/// Places in configurable_trainers().
inline constexpr std::size_t place_of_megatron = 0;
inline constexpr std::size_t place_of_bridge = 1;

// Names as in the trainers' own files, without what they are nested in.
// clang-format off
inline constexpr auto names_of_axes = std::to_array<AxisNames>({
    {"dp", {"", "", "dp", "data_parallel_shard_degree", "", "", "dp_size", ""}},
    {"tp", {"--tensor-model-parallel-size", "model.tensor_model_parallel_size", "tp", "tensor_parallel_degree", "autotp_size", "model_parallel_size", "tp_size", "tensor_parallel_degree"}},
    {"pp", {"--pipeline-model-parallel-size", "model.pipeline_model_parallel_size", "pp", "pipeline_parallel_degree", "", "pipe_parallel_size", "pp_size", ""}},
    {"cp", {"--context-parallel-size", "model.context_parallel_size", "context_parallel_size", "context_parallel_degree", "", "", "cp_size", ""}},
    {"ep", {"--expert-model-parallel-size", "model.expert_model_parallel_size", "expert_parallel_size", "expert_parallel_degree", "", "", "", ""}},
    {"vpp", {"--num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size", "", "", "", "", "", ""}},
    {"cp_mode", {"--cp-comm-type", "model.cp_comm_type", "", "", "", "", "", ""}},
    {"rank_order", {"--use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping", "", "", "", "", "", ""}},
    {"dp_replicate", {"--num-distributed-optimizer-instances", "ddp.num_distributed_optimizer_instances", "", "data_parallel_replicate_degree", "", "", "", ""}},
    {"seq_len", {"--seq-length", "model.seq_length", "sequence_length", "seq_len", "", "seq_length", "seq_length", "max_seq_len"}},
    {"micro_batch", {"--micro-batch-size", "train.micro_batch_size", "micro_batch_size", "local_batch_size", "train_micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu", "micro_batch_size", "device_train_microbatch_size"}},
    {"grad_accum", {"", "", "batch_accumulation_per_replica", "", "gradient_accumulation_steps", "gradient_accumulation_steps", "gradient_accumulation_steps", ""}},
    {"global_batch", {"--global-batch-size", "train.global_batch_size", "", "global_batch_size", "train_batch_size", "", "", "global_train_batch_size"}},
    {"zero", {"--data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy", "zero_stage", "fsdp_reshard_after_forward", "stage", "stage", "", "sharding_strategy"}},
    {"zero 1", {"--use-distributed-optimizer", "ddp.use_distributed_optimizer", "zero_stage", "", "stage", "stage", "", ""}},
    {"recompute", {"--recompute-granularity", "model.recompute_granularity", "recompute_layer", "mode", "", "checkpoint_activations", "", "activation_checkpointing"}},
    {"schedule", {"", "", "pp_engine", "pipeline_parallel_schedule", "", "", "pp_engine", ""}},
    {"overlap", {"--overlap-grad-reduce", "ddp.overlap_grad_reduce", "", "", "", "", "", ""}},
    {"expert_tp", {"--expert-tensor-parallel-size", "model.expert_tensor_parallel_size", "", "expert_tensor_parallel_degree", "", "", "", ""}},
    {"first_stage_layers", {"--decoder-first-pipeline-num-layers", "model.num_layers_in_first_pipeline_stage", "", "pipeline_parallel_first_stage_less_layers", "", "", "", ""}},
    {"last_stage_layers", {"--decoder-last-pipeline-num-layers", "model.num_layers_in_last_pipeline_stage", "", "pipeline_parallel_last_stage_less_layers", "", "", "", ""}},
    {"cuda_graphs", {"--cuda-graph-impl", "model.cuda_graph_impl", "", "", "", "", "", ""}},
    {"offload", {"--optimizer-cpu-offload", "optimizer.optimizer_cpu_offload", "", "enable_cpu_offload", "offload_optimizer", "", "", ""}},
    {"sequence_parallel", {"--sequence-parallel", "model.sequence_parallel", "tp_mode", "", "", "sequence_parallel", "", ""}},
});
// clang-format on

/// Of an axis that the trainer has a word for; another one does not compile.
consteval std::string_view axis_word(std::string_view axis, std::size_t trainer) {
  for (const AxisNames& one : names_of_axes)
    if (one.axis == axis && !one.names[trainer].empty()) return one.names[trainer];
  std::abort();
}

}  // namespace shardsweep
