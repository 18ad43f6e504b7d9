// SPDX-License-Identifier: Apache-2.0
// The one table of axes. A new axis is a field in point.hpp, a row here and a column by a
// migration: nothing else lists them. What only one place can know of some axes (which values
// are worth a suggestion, with which axes memory is known to grow) stands there, and
// names_all() holds it to this table when it is compiled.
#pragma once

#include <shardsweep/point.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

namespace shardsweep {
namespace axis_rows {

using Use = AxisUse;
using Words = std::span<const std::string_view>;

inline constexpr std::int64_t any = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t widest = 1 << 20;

inline constexpr std::array<std::string_view, 3> dp_aliases{
    "data_parallel_size", "dp_size", "data_parallel_degree"};
inline constexpr std::array<std::string_view, 4> tp_aliases{
    "tensor_model_parallel_size", "tensor_parallel_size", "tp_size", "tensor_parallel_degree"};
inline constexpr std::array<std::string_view, 4> pp_aliases{"pipeline_model_parallel_size",
    "pipeline_parallel_size", "pp_size", "pipeline_parallel_degree"};
inline constexpr std::array<std::string_view, 3> cp_aliases{
    "context_parallel_size", "cp_size", "context_parallel_degree"};
inline constexpr std::array<std::string_view, 1> cp_mode_aliases{"cp_comm_type"};
inline constexpr std::array<std::string_view, 3> ep_aliases{
    "expert_model_parallel_size", "expert_parallel_size", "ep_size"};
inline constexpr std::array<std::string_view, 1> vpp_aliases{
    "virtual_pipeline_model_parallel_size"};
inline constexpr std::array<std::string_view, 2> replicate_aliases{
    "dp_replicate_degree", "data_parallel_replicate_degree"};
inline constexpr std::array<std::string_view, 4> micro_batch_aliases{
    "micro_batch_size", "mbs", "train_micro_batch_size_per_gpu", "local_batch_size"};
inline constexpr std::array<std::string_view, 4> grad_accum_aliases{
    "batch_accumulation_per_replica", "gradient_accumulation_steps", "gas", "grad_acc"};
inline constexpr std::array<std::string_view, 2> zero_aliases{
    "zero_stage", "zero_optimization_stage"};
inline constexpr std::array<std::string_view, 2> recompute_aliases{
    "recompute_granularity", "activation_checkpoint"};
inline constexpr std::array<std::string_view, 2> seq_len_aliases{"sequence_length", "seq_length"};
inline constexpr std::array<std::string_view, 2> nodes_aliases{"num_nodes", "nnodes"};
inline constexpr std::array<std::string_view, 2> gpus_aliases{"world_size", "num_gpus"};
// Synonyms with every dimension named, as Megatron-LM names them. The ranks of ep are neighbours
// among those of cp and dp, wherever these stand.
inline constexpr std::array<WordSynonym, 5> rank_order_synonyms{
    {{"tp-cp-dp-pp", "tp-dp-pp"}, {"tp-cp-ep-dp-pp", "tp-dp-pp"}, {"tp-pp-cp-dp", "tp-pp-dp"},
        {"cp-dp-tp-pp", "dp-tp-pp"}, {"tp-cp-ep-pp-dp", "tp-cp-pp-dp"}}};
inline constexpr std::array<std::string_view, 1> bucket_aliases{"bucket_cap_mb"};
inline constexpr std::array<std::string_view, 3> expert_tp_aliases{
    "expert_tensor_parallel_size", "expert_tensor_parallel_degree", "etp_size"};
inline constexpr std::array<std::string_view, 2> first_stage_aliases{
    "decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage"};
inline constexpr std::array<std::string_view, 2> last_stage_aliases{
    "decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage"};
inline constexpr std::array<std::string_view, 1> cuda_graph_aliases{"enable_cuda_graph"};

constexpr std::int64_t last_of(Words words) {
  return static_cast<std::int64_t>(words.size()) - 1;
}

constexpr std::int32_t narrow(std::int64_t value) {
  return static_cast<std::int32_t>(value);
}

// A row's accessors: the member that the axis is.
template <auto Member>
std::int64_t get_point(const Point& point) {
  return static_cast<std::int64_t>(point.*Member);
}
template <auto Member>
void set_point(Point& point, std::int64_t value) {
  using Field = std::remove_reference_t<decltype(point.*Member)>;
  point.*Member = static_cast<Field>(narrow(value));
}
template <auto Member>
std::int64_t get_layout(const Point& point) {
  return static_cast<std::int64_t>(point.layout.*Member);
}
template <auto Member>
void set_layout(Point& point, std::int64_t value) {
  using Field = std::remove_reference_t<decltype(point.layout.*Member)>;
  point.layout.*Member = static_cast<Field>(narrow(value));
}

inline constexpr bool with_auto = true;
inline constexpr bool keyed = true;  // true: part of the lane's key
inline constexpr Use no_use{};

// clang-format off
// Name, kind, words, aliases, least, most, default, auto, in the lane's key, place, short name.
inline constexpr auto table = std::to_array<AxisInfo>({
    {"model", AxisKind::model, {}, {}, 0, any, 0, false, keyed, 0, "",
     Use::cell | Use::named | Use::shown,
     "model preset or a model of this file",
     get_point<&Point::model>, set_point<&Point::model>},
    {"nodes", AxisKind::integer, {}, nodes_aliases, 0, widest, 0, false, keyed, 0, "n",
     Use::cell | Use::world,
     "whole nodes",
     get_point<&Point::nodes>, set_point<&Point::nodes>},
    {"gpus", AxisKind::integer, {}, gpus_aliases, 1, widest, 1, false, keyed, 0, "g",
     Use::cell | Use::world | Use::shown,
     "GPUs in all; as an axis: fewer than a node has",
     get_point<&Point::gpus>, set_point<&Point::gpus>},
    {"seq_len", AxisKind::integer, {}, seq_len_aliases, 1, 1 << 24, 4096, false, keyed, 0, "s",
     Use::cell | Use::shown,
     "tokens per sample",
     get_point<&Point::seq_len>, set_point<&Point::seq_len>},
    {"dtype", AxisKind::word, Words(dtype_words), {}, 0, 5, 0, false, keyed, 0, "",
     Use::shown,
     "type of weights and activations; fp8: of the layers' products, by current or delayed scaling",
     get_point<&Point::dtype>, set_point<&Point::dtype>},
    {"dp", AxisKind::integer, {}, dp_aliases, 1, widest, 1, with_auto, keyed, 1, "dp",
     Use::spelt | Use::degree | Use::named | Use::shown | Use::structural | Use::suggested,
     "data parallel degree",
     get_layout<&Layout::dp>, set_layout<&Layout::dp>},
    {"tp", AxisKind::integer, {}, tp_aliases, 1, widest, 1, false, keyed, 2, "tp",
     Use::spelt | Use::degree | Use::named | Use::shown | Use::structural | Use::suggested,
     "tensor parallel degree",
     get_layout<&Layout::tp>, set_layout<&Layout::tp>},
    {"pp", AxisKind::integer, {}, pp_aliases, 1, widest, 1, false, keyed, 3, "pp",
     Use::spelt | Use::degree | Use::named | Use::shown | Use::structural | Use::suggested,
     "pipeline parallel degree",
     get_layout<&Layout::pp>, set_layout<&Layout::pp>},
    {"cp", AxisKind::integer, {}, cp_aliases, 1, widest, 1, false, keyed, 7, "cp",
     Use::degree | Use::structural | Use::suggested,
     "context parallel degree: ranks that share each sequence",
     get_layout<&Layout::cp>, set_layout<&Layout::cp>},
    {"cp_mode", AxisKind::word, Words(context_mode_words), cp_mode_aliases, 0, 1, 0, false, keyed, 8, "",
     Use::structural,
     "how they share attention: keys and values go round, or heads are exchanged for tokens",
     get_layout<&Layout::cp_mode>, set_layout<&Layout::cp_mode>},
    {"ep", AxisKind::integer, {}, ep_aliases, 1, widest, 1, false, keyed, 9, "ep",
     Use::degree | Use::structural | Use::suggested,
     "expert parallel degree: ranks of dp x cp that share the experts of each layer",
     get_layout<&Layout::ep>, set_layout<&Layout::ep>},
    {"vpp", AxisKind::integer, {}, vpp_aliases, 1, widest, 1, false, keyed, 10, "vpp",
     Use::structural | Use::suggested,
     "virtual pipeline stages per rank, which 1f1b interleaves and zb-v folds",
     get_layout<&Layout::vpp>, set_layout<&Layout::vpp>},
    {"dp_replicate", AxisKind::integer, {}, replicate_aliases, 1, widest, 1, false, keyed, 15, "dpr",
     Use::structural,
     "replicas of ZeRO's shards, each over dp / dp_replicate ranks",
     get_layout<&Layout::dp_replicate>, set_layout<&Layout::dp_replicate>},
    {"micro_batch", AxisKind::integer, {}, micro_batch_aliases, 1, widest, 1, false, !keyed, 4, "mb",
     Use::spelt | Use::named | Use::shown | Use::suggested,
     "samples per micro-batch",
     get_layout<&Layout::micro_batch>, set_layout<&Layout::micro_batch>},
    {"grad_accum", AxisKind::integer, {}, grad_accum_aliases, 1, widest, 1, with_auto, !keyed, 5, "ga",
     Use::spelt | Use::named | Use::shown | Use::suggested,
     "micro-batches per train step and DP rank",
     get_layout<&Layout::grad_accum>, set_layout<&Layout::grad_accum>},
    {"zero", AxisKind::integer, {}, zero_aliases, 0, 3, 0, false, keyed, 6, "z",
     Use::spelt | Use::shown | Use::structural | Use::suggested,
     "ZeRO stage",
     get_layout<&Layout::zero>, set_layout<&Layout::zero>},
    {"recompute", AxisKind::word, Words(recompute_words), recompute_aliases, 0, last_of(recompute_words), 0, false, keyed, 11, "",
     Use::shown | Use::structural | Use::suggested,
     "activations computed again in backward: as the trainer selects them, of whole layers, or of modules by their names",
     get_layout<&Layout::recompute>, set_layout<&Layout::recompute>},
    {"sequence_parallel", AxisKind::toggle, {}, {}, 0, 1, 0, false, keyed, 12, "sp",
     Use::structural | Use::suggested,
     "activations between TP regions split along the sequence",
     get_layout<&Layout::sequence_parallel>, set_layout<&Layout::sequence_parallel>},
    {"schedule", AxisKind::word, Words(schedule_words), {}, 0, 3, 0, false, keyed, 13, "",
     Use::structural,
     "pipeline schedule; zb-v needs vpp 2",
     get_layout<&Layout::schedule>, set_layout<&Layout::schedule>},
    {"rank_order", AxisKind::word, Words(rank_order_words), {}, 0, 4, 0, false, keyed, 14, "",
     Use::structural,
     "order of the dimensions over the ranks, fastest first; cp before dp where it is not named",
     get_layout<&Layout::rank_order>, set_layout<&Layout::rank_order>},
    {"bucket_mb", AxisKind::integer, {}, bucket_aliases, 1, 1 << 16, 25, false, keyed, 16, "b",
     no_use,
     "MiB of gradients per DP all-reduce",
     get_layout<&Layout::bucket_mb>, set_layout<&Layout::bucket_mb>},
    {"overlap", AxisKind::toggle, {}, {}, 0, 1, 1, false, keyed, 17, "overlap",
     Use::structural,
     "DP communication overlaps backward",
     get_layout<&Layout::overlap>, set_layout<&Layout::overlap>},
    {"expert_tp", AxisKind::integer, {}, expert_tp_aliases, 0, widest, 0, false, keyed, 18, "etp",
     Use::structural | Use::suggested | Use::optional_flag,
     "ranks that split each expert; 0: those of tp",
     get_layout<&Layout::expert_tp>, set_layout<&Layout::expert_tp>},
    {"first_stage_layers", AxisKind::integer, {}, first_stage_aliases, 0, 1 << 14, 0, false, keyed, 19, "first",
     Use::structural | Use::optional_flag,
     "layers of the pipeline's first stage, which has the embedding; 0: as many as the others",
     get_layout<&Layout::first_stage_layers>, set_layout<&Layout::first_stage_layers>},
    {"last_stage_layers", AxisKind::integer, {}, last_stage_aliases, 0, 1 << 14, 0, false, keyed, 20, "last",
     Use::structural | Use::optional_flag,
     "layers of the pipeline's last stage, which has the loss; 0: as many as the others",
     get_layout<&Layout::last_stage_layers>, set_layout<&Layout::last_stage_layers>},
    {"cuda_graphs", AxisKind::toggle, {}, cuda_graph_aliases, 0, 1, 0, false, keyed, 21, "graphs",
     Use::structural | Use::optional_flag,
     "a layer's kernels are launched as one CUDA graph",
     get_layout<&Layout::cuda_graphs>, set_layout<&Layout::cuda_graphs>},
    {"offload", AxisKind::word, Words(offload_words), {}, 0, last_of(offload_words), 0, false, keyed, 22, "offload-",
     Use::structural | Use::optional_flag,
     "in the host's memory between its uses: the optimizer's state, or weights and gradients too",
     get_layout<&Layout::offload>, set_layout<&Layout::offload>},
});
// clang-format on

}  // namespace axis_rows

/// All axes, in the order of columns; axes() if no constant is needed.
inline constexpr const auto& axis_table = axis_rows::table;

/// How many axes have a use.
[[nodiscard]] constexpr std::size_t count_axes(AxisUse use) {
  return static_cast<std::size_t>(std::count_if(
      axis_table.begin(), axis_table.end(), [use](const auto& axis) { return axis.is(use); }));
}

/// The axes that have a use, in the order of the table.
template <AxisUse Use>
inline constexpr auto axes_with = [] {
  std::array<const AxisInfo*, count_axes(Use)> found{};
  std::size_t next = 0;
  for (const auto& axis : axis_table) {
    if (axis.is(Use)) found[next++] = &axis;
  }
  return found;
}();

/// True if a list elsewhere has each axis of a use, and no other: for static_assert.
[[nodiscard]] constexpr bool names_all(std::span<const std::string_view> names, AxisUse use) {
  const bool all_are = std::all_of(names.begin(), names.end(), [use](std::string_view name) {
    return std::any_of(axis_table.begin(), axis_table.end(),
        [&](const AxisInfo& axis) { return axis.name == name && axis.is(use); });
  });
  return all_are && names.size() == count_axes(use);
}

/// True if each name of such a list is an axis.
[[nodiscard]] constexpr bool names_axes(std::span<const std::string_view> names) {
  return std::all_of(names.begin(), names.end(), [](std::string_view name) {
    return std::any_of(axis_table.begin(), axis_table.end(),
        [name](const AxisInfo& axis) { return axis.name == name; });
  });
}

}  // namespace shardsweep
