// SPDX-License-Identifier: Apache-2.0
// The table of axes. A new axis is a row here and a column in schema.sql; nothing else lists
// them.
#include <shardsweep/point.hpp>

#include <limits>

namespace shardsweep {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::int64_t any = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t widest = 1 << 20;

constexpr std::array<std::string_view, 3> dp_aliases{"data_parallel_size", "dp_size",
                                                     "data_parallel_degree"};
constexpr std::array<std::string_view, 4> tp_aliases{
    "tensor_model_parallel_size", "tensor_parallel_size", "tp_size", "tensor_parallel_degree"};
constexpr std::array<std::string_view, 4> pp_aliases{"pipeline_model_parallel_size",
                                                     "pipeline_parallel_size", "pp_size",
                                                     "pipeline_parallel_degree"};
constexpr std::array<std::string_view, 3> cp_aliases{"context_parallel_size", "cp_size",
                                                     "context_parallel_degree"};
constexpr std::array<std::string_view, 1> cp_mode_aliases{"cp_comm_type"};
constexpr std::array<std::string_view, 3> ep_aliases{"expert_model_parallel_size",
                                                     "expert_parallel_size", "ep_size"};
constexpr std::array<std::string_view, 1> vpp_aliases{"virtual_pipeline_model_parallel_size"};
constexpr std::array<std::string_view, 2> replicate_aliases{"dp_replicate_degree",
                                                            "data_parallel_replicate_degree"};
constexpr std::array<std::string_view, 4> micro_batch_aliases{
    "micro_batch_size", "mbs", "train_micro_batch_size_per_gpu", "local_batch_size"};
constexpr std::array<std::string_view, 4> grad_accum_aliases{
    "batch_accumulation_per_replica", "gradient_accumulation_steps", "gas", "grad_acc"};
constexpr std::array<std::string_view, 2> zero_aliases{"zero_stage", "zero_optimization_stage"};
constexpr std::array<std::string_view, 2> recompute_aliases{"recompute_granularity",
                                                            "activation_checkpoint"};
constexpr std::array<std::string_view, 2> seq_len_aliases{"sequence_length", "seq_length"};
constexpr std::array<std::string_view, 2> nodes_aliases{"num_nodes", "nnodes"};
constexpr std::array<std::string_view, 2> gpus_aliases{"world_size", "num_gpus"};
// With every dimension named, as Megatron-LM names them. The ranks of ep are neighbours among
// those of cp and dp, wherever these stand.
constexpr std::array<WordSynonym, 5> rank_order_synonyms{{{"tp-cp-dp-pp", "tp-dp-pp"},
                                                          {"tp-cp-ep-dp-pp", "tp-dp-pp"},
                                                          {"tp-pp-cp-dp", "tp-pp-dp"},
                                                          {"cp-dp-tp-pp", "dp-tp-pp"},
                                                          {"tp-cp-ep-pp-dp", "tp-cp-pp-dp"}}};
constexpr std::array<std::string_view, 1> bucket_aliases{"bucket_cap_mb"};

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

constexpr bool with_auto = true;
constexpr bool keyed = true;  // in the lane's key

// clang-format off
const std::array<AxisInfo, 22> axis_table{{
    {"model", AxisKind::model, {}, {}, 0, any, 0, false, keyed, "model preset or a model of this file",
     get_point<&Point::model>, set_point<&Point::model>},
    {"nodes", AxisKind::integer, {}, nodes_aliases, 0, widest, 0, false, keyed, "nodes of the cluster",
     get_point<&Point::nodes>, set_point<&Point::nodes>},
    {"gpus", AxisKind::integer, {}, gpus_aliases, 1, widest, 1, false, keyed, "world size, for worlds smaller than a node",
     get_point<&Point::gpus>, set_point<&Point::gpus>},
    {"seq_len", AxisKind::integer, {}, seq_len_aliases, 1, 1 << 24, 4096, false, keyed, "tokens per sample",
     get_point<&Point::seq_len>, set_point<&Point::seq_len>},
    {"dtype", AxisKind::word, Words(dtype_words), {}, 0, 4, 0, false, keyed, "type of weights and activations; fp8: of the layers' products, by current or delayed scaling",
     get_point<&Point::dtype>, set_point<&Point::dtype>},
    {"dp", AxisKind::integer, {}, dp_aliases, 1, widest, 1, with_auto, keyed, "data parallel degree",
     get_layout<&Layout::dp>, set_layout<&Layout::dp>},
    {"tp", AxisKind::integer, {}, tp_aliases, 1, widest, 1, false, keyed, "tensor parallel degree",
     get_layout<&Layout::tp>, set_layout<&Layout::tp>},
    {"pp", AxisKind::integer, {}, pp_aliases, 1, widest, 1, false, keyed, "pipeline parallel degree",
     get_layout<&Layout::pp>, set_layout<&Layout::pp>},
    {"cp", AxisKind::integer, {}, cp_aliases, 1, widest, 1, false, keyed, "context parallel degree: ranks that share each sequence",
     get_layout<&Layout::cp>, set_layout<&Layout::cp>},
    {"cp_mode", AxisKind::word, Words(context_mode_words), cp_mode_aliases, 0, 1, 0, false, keyed, "how they share attention: keys and values go round, or heads are exchanged for tokens",
     get_layout<&Layout::cp_mode>, set_layout<&Layout::cp_mode>},
    {"ep", AxisKind::integer, {}, ep_aliases, 1, widest, 1, false, keyed, "expert parallel degree: ranks of dp x cp that share the experts of each layer",
     get_layout<&Layout::ep>, set_layout<&Layout::ep>},
    {"vpp", AxisKind::integer, {}, vpp_aliases, 1, widest, 1, false, keyed, "virtual pipeline stages per rank, which 1f1b interleaves and zb-v folds",
     get_layout<&Layout::vpp>, set_layout<&Layout::vpp>},
    {"dp_replicate", AxisKind::integer, {}, replicate_aliases, 1, widest, 1, false, keyed, "replicas of ZeRO's shards, each over dp / dp_replicate ranks",
     get_layout<&Layout::dp_replicate>, set_layout<&Layout::dp_replicate>},
    {"micro_batch", AxisKind::integer, {}, micro_batch_aliases, 1, widest, 1, false, !keyed, "samples per micro-batch",
     get_layout<&Layout::micro_batch>, set_layout<&Layout::micro_batch>},
    {"grad_accum", AxisKind::integer, {}, grad_accum_aliases, 1, widest, 1, with_auto, !keyed, "micro-batches per train step and DP rank",
     get_layout<&Layout::grad_accum>, set_layout<&Layout::grad_accum>},
    {"zero", AxisKind::integer, {}, zero_aliases, 0, 3, 0, false, keyed, "ZeRO stage",
     get_layout<&Layout::zero>, set_layout<&Layout::zero>},
    {"recompute", AxisKind::word, Words(recompute_words), recompute_aliases, 0, 2, 0, false, keyed, "activations computed again in backward",
     get_layout<&Layout::recompute>, set_layout<&Layout::recompute>},
    {"sequence_parallel", AxisKind::toggle, {}, {}, 0, 1, 0, false, keyed, "activations between TP regions split along the sequence",
     get_layout<&Layout::sequence_parallel>, set_layout<&Layout::sequence_parallel>},
    {"schedule", AxisKind::word, Words(schedule_words), {}, 0, 3, 0, false, keyed, "pipeline schedule; zb-v needs vpp 2",
     get_layout<&Layout::schedule>, set_layout<&Layout::schedule>},
    {"rank_order", AxisKind::word, Words(rank_order_words), {}, 0, 4, 0, false, keyed, "order of the dimensions over the ranks, fastest first; cp before dp where it is not named",
     get_layout<&Layout::rank_order>, set_layout<&Layout::rank_order>},
    {"bucket_mb", AxisKind::integer, {}, bucket_aliases, 1, 1 << 16, 25, false, keyed, "MiB of gradients per DP all-reduce",
     get_layout<&Layout::bucket_mb>, set_layout<&Layout::bucket_mb>},
    {"overlap", AxisKind::toggle, {}, {}, 0, 1, 1, false, keyed, "DP communication overlaps backward",
     get_layout<&Layout::overlap>, set_layout<&Layout::overlap>},
}};
// clang-format on

}  // namespace

std::span<const AxisInfo> axes() {
  return axis_table;
}

const AxisInfo* find_axis(std::string_view name_or_alias) {
  for (const auto& axis : axis_table) {
    if (axis.name == name_or_alias) return &axis;
    for (const auto alias : axis.aliases) {
      if (alias == name_or_alias) return &axis;
    }
  }
  return nullptr;
}

std::span<const WordSynonym> word_synonyms(const AxisInfo& axis) {
  if (axis.name == "rank_order") return rank_order_synonyms;
  return {};
}

std::string axis_text(const AxisInfo& axis, std::int64_t value) {
  switch (axis.kind) {
    case AxisKind::word:
      return std::string(axis.words[static_cast<std::size_t>(value)]);
    case AxisKind::toggle:
      return value != 0 ? "true" : "false";
    case AxisKind::integer:
    case AxisKind::model:
      break;
  }
  return std::to_string(value);
}

}  // namespace shardsweep
