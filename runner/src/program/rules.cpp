// SPDX-License-Identifier: Apache-2.0
// A rule has two forms, an expression for the planner and a predicate for this program; the
// tests hold them together.
#include "program/rules.hpp"

#include "base/json.hpp"
#include "base/version.hpp"
#include "measurement/fault.hpp"
#include "measurement/profile.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <vector>

namespace shardbench {
namespace {

/// A wasteful layout is refused too, but would train correctly.
enum class Nature { impossible, wasteful };

struct Rule {
  const char* constraint;
  const char* when;
  const char* why;
  std::function<bool(const Layout&, const ModelShape&)> broken;
  Nature nature = Nature::impossible;
};

// Reach of the kernels' 32-bit indices.
constexpr i64 most_row_values = (i64{1} << 32) - 1;

// Alignment of rows and columns of operands in 8 bits for cublasLt: 16 bytes.
constexpr i64 fp8_multiple = 16;

// Numbers of rows are 32 bits wide.
constexpr i64 most_expert_rows = (i64{1} << 31) - 1;

/// Rules on heads, widths and sequences.
std::vector<Rule> tensor_rules() {
  return {

      {"runner:heads", "head_dim = 0 and hidden % heads <> 0",
          "the heads must divide the hidden size",
          [](const Layout&, const ModelShape& m) {
            return m.head_values == 0 && m.hidden % m.heads != 0;
          }},
      {"runner:rope", "head_dim % 2 <> 0 or (head_dim = 0 and hidden / heads % 2 <> 0)",
          "rotary embedding needs heads of even size",
          [](const Layout&, const ModelShape& m) { return m.head_dim() % 2 != 0; }},
      {"runner:kv_heads", "heads % kv_heads <> 0", "the kv heads must divide the heads",
          [](const Layout&, const ModelShape& m) { return m.heads % m.kv_heads != 0; }},
      {"runner:tp_heads", "heads % tp <> 0 or kv_heads % tp <> 0",
          "tp must divide the heads and the kv heads",
          [](const Layout& l, const ModelShape& m) {
            return m.heads % l.tp != 0 || m.kv_heads % l.tp != 0;
          }},
      {"runner:tp_ffn", "ffn % tp <> 0", "tp must divide the ffn size",
          [](const Layout& l, const ModelShape& m) { return m.ffn % l.tp != 0; }},
      {"runner:sequence_parallel_tp", "sequence_parallel = 1 and tp = 1",
          "sequence parallelism needs tp above 1",
          [](const Layout& l, const ModelShape&) { return l.sequence_parallel && l.tp == 1; }},
      {"runner:sequence_parallel_seq", "sequence_parallel = 1 and seq_len % (tp * cp) <> 0",
          "sequence parallelism needs tp * cp to divide seq_len",
          [](const Layout& l, const ModelShape& m) {
            return l.sequence_parallel && m.seq_len % (l.tp * l.cp) != 0;
          }},
      {"runner:cp_seq", "cp > 1 and seq_len % (2 * cp) <> 0",
          "context parallelism cuts each sequence into 2 * cp pieces: seq_len has to be a "
          "multiple",
          [](const Layout& l, const ModelShape& m) {
            return l.cp > 1 && m.seq_len % (2 * l.cp) != 0;
          }},
      {"runner:ulysses_heads",
          "cp_mode = 'ulysses' and (heads % (tp * cp) <> 0 or kv_heads % (tp * cp) <> 0)",
          "ulysses exchanges heads: tp * cp must divide the heads and the kv heads",
          [](const Layout& l, const ModelShape& m) {
            const i64 cut = l.tp * l.cp;
            return l.cp_mode == ContextMode::ulysses &&
                (m.heads % cut != 0 || m.kv_heads % cut != 0);
          }}};
}

/// Rules on ranks with the same weights.
std::vector<Rule> data_rules() {
  return {{"runner:zero_dp", "zero > 0 and dp * cp = 1", "ZeRO needs dp or cp above 1",
              [](const Layout& l, const ModelShape&) { return l.zero > 0 && l.data_ranks() == 1; }},
      {"runner:dp_replicate_zero", "dp_replicate > 1 and zero = 0",
          "dp_replicate needs ZeRO 1 to 3",
          [](const Layout& l, const ModelShape&) { return l.dp_replicate > 1 && l.zero == 0; }},
      {"runner:dp_replicate_dp",
          "dp % dp_replicate <> 0 or (dp_replicate > 1 and dp_replicate = dp * cp)",
          "dp_replicate must divide dp and leave at least two ranks to shard over",
          [](const Layout& l, const ModelShape&) {
            return l.dp % l.dp_replicate != 0 ||
                (l.dp_replicate > 1 && l.dp_replicate == l.data_ranks());
          }}};
}

/// Rules on stages.
std::vector<Rule> pipeline_rules() {
  return {{"runner:pp_layers", "pp * vpp > layers", "a pipeline stage needs a layer",
              [](const Layout& l, const ModelShape& m) { return l.pp * l.vpp > m.layers; }},
      {"runner:vpp_pp", "vpp > 1 and pp = 1", "virtual stages need pp above 1",
          [](const Layout& l, const ModelShape&) { return l.vpp > 1 && l.pp == 1; }},
      {"runner:vpp_schedule", "vpp > 1 and schedule <> '1f1b' and schedule <> 'zb-v'",
          "virtual stages need the schedule 1f1b, which interleaves them, or zb-v",
          [](const Layout& l, const ModelShape&) {
            return l.vpp > 1 && l.schedule != ScheduleKind::one_f_one_b &&
                l.schedule != ScheduleKind::zb_v;
          }},
      {"runner:zbv_vpp", "schedule = 'zb-v' and vpp <> 2",
          "zb-v folds the stages, so that each rank has two: vpp has to be 2",
          [](const Layout& l, const ModelShape&) {
            return l.schedule == ScheduleKind::zb_v && l.vpp != 2;
          }},
      {"runner:zb_fp8",
          "(schedule = 'zb-h1' or schedule = 'zb-v') and (dtype = 'fp8' or dtype = 'fp8-delayed')",
          "zb-h1 and zb-v keep products' operands for later, which FP8 does not",
          [](const Layout& l, const ModelShape&) {
            return halves_backward(l.schedule) && l.fp8 != Scaling::none;
          }},
      {"runner:vpp_grad_accum", "vpp > 1 and schedule <> 'zb-v' and grad_accum % pp <> 0",
          "with virtual stages micro-batches go in groups of pp: grad_accum has to be a multiple "
          "of pp",
          [](const Layout& l, const ModelShape&) {
            return l.vpp > 1 && l.schedule != ScheduleKind::zb_v && l.grad_accum % l.pp != 0;
          }}};
}

/// Rules on mixtures of experts.
std::vector<Rule> expert_rules() {
  return {{"runner:ep_experts", "experts = 0 and ep > 1",
              "expert parallelism needs a model with experts",
              [](const Layout& l, const ModelShape& m) { return m.experts == 0 && l.ep > 1; }},
      {"runner:experts_per_token",
          "experts > 0 and (experts_per_token < 1 or experts_per_token > experts)",
          "a token goes through one expert at least and through each once at most: "
          "experts_per_token has to be 1 to experts",
          [](const Layout&, const ModelShape& m) {
            return m.experts > 0 && (m.experts_per_token < 1 || m.experts_per_token > m.experts);
          }},
      {"runner:expert_ffn", "experts > 0 and expert_ffn < 1", "experts need a width, expert_ffn",
          [](const Layout&, const ModelShape& m) { return m.experts > 0 && m.expert_ffn < 1; }},
      {"runner:tp_expert_ffn", "experts > 0 and expert_ffn % tp <> 0", "tp must divide expert_ffn",
          [](const Layout& l, const ModelShape& m) {
            return m.experts > 0 && m.expert_ffn % l.tp != 0;
          }},
      {"runner:dense_layers", "experts > 0 and layers - dense_layers < 1",
          "dense_layers has to leave layers with experts",
          [](const Layout&, const ModelShape& m) {
            return m.experts > 0 && m.layers - m.dense_layers < 1;
          }},
      {"runner:ep_divides", "experts > 0 and experts % ep <> 0", "ep must divide the experts",
          [](const Layout& l, const ModelShape& m) {
            return m.experts > 0 && m.experts % l.ep != 0;
          }},
      {"runner:ep_dp", "experts > 0 and dp * cp % ep <> 0", "ep must divide dp * cp",
          [](const Layout& l, const ModelShape& m) {
            return m.experts > 0 && l.data_ranks() % l.ep != 0;
          }},
      {"runner:ep_dp_replicate", "experts > 0 and ep > 1 and dp_replicate > 1",
          "shards of experts have no replicas: dp_replicate has to be 1 where ep is above 1",
          [](const Layout& l, const ModelShape& m) {
            return m.experts > 0 && l.ep > 1 && l.dp_replicate > 1;
          }},
      {"runner:zb_experts", "experts > 0 and (schedule = 'zb-h1' or schedule = 'zb-v')",
          "zb-h1 and zb-v keep products' operands for later, which experts do not",
          [](const Layout& l, const ModelShape& m) {
            return m.experts > 0 && halves_backward(l.schedule);
          }},
      {"runner:fp8_experts", "experts > 0 and (dtype = 'fp8' or dtype = 'fp8-delayed')",
          "experts' products have no FP8: dtype has to be bf16, fp32 or fp64",
          [](const Layout& l, const ModelShape& m) {
            return m.experts > 0 && l.fp8 != Scaling::none;
          }},
      {"runner:expert_rows",
          "experts > 0 and micro_batch * seq_len * experts_per_token / cp > 2147483647",
          "a micro-batch's rows for experts are more than 2^31; reduce micro_batch",
          [](const Layout& l, const ModelShape& m) {
            return m.experts > 0 &&
                l.micro_batch * m.seq_len * m.experts_per_token / l.cp > most_expert_rows;
          }}};
}

/// Rules on sizes that the kernels and the schedule take; the wasteful ones come last.
std::vector<Rule> size_rules() {
  return {
      {"runner:rows", "micro_batch * seq_len / cp * ffn / tp > 4294967295",
          "the rows of a micro-batch within the ffn are more than 2^32 values; reduce micro_batch "
          "or raise tp",
          [](const Layout& l, const ModelShape& m) {
            return l.micro_batch * m.seq_len / l.cp * m.ffn / l.tp > most_row_values;
          }},
      {"runner:fp8",
          "(dtype = 'fp8' or dtype = 'fp8-delayed') and (micro_batch * seq_len / cp % 16 <> 0 or "
          "hidden % 16 <> 0 or ffn / tp % 16 <> 0 or head_dim * kv_heads / tp % 16 <> 0 or "
          "(head_dim = 0 and hidden / heads * kv_heads / tp % 16 <> 0))",
          "FP8 needs matrices with rows and columns in multiples of 16: the tokens of a "
          "micro-batch, hidden, and on each tp rank ffn and the values of its heads",
          [](const Layout& l, const ModelShape& m) {
            return l.fp8 != Scaling::none &&
                (l.micro_batch * m.seq_len / l.cp % fp8_multiple != 0 ||
                    m.hidden % fp8_multiple != 0 || m.ffn / l.tp % fp8_multiple != 0 ||
                    m.head_dim() * m.kv_heads / l.tp % fp8_multiple != 0);
          }},
      {"runner:pp_grad_accum", "pp > 1 and grad_accum < pp - 1",
          "with grad_accum below pp - 1 the pipeline never fills",
          [](const Layout& l, const ModelShape&) { return l.pp > 1 && l.grad_accum < l.pp - 1; },
          Nature::wasteful},
      {"runner:cp_mode", "cp_mode = 'ulysses' and cp = 1",
          "cp_mode says how ranks share a sequence: ulysses needs cp above 1",
          [](const Layout& l, const ModelShape&) {
            return l.cp_mode == ContextMode::ulysses && l.cp == 1;
          },
          Nature::wasteful}};
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> table = [] {
    std::vector<Rule> all;
    for (const auto& part :
        {tensor_rules(), data_rules(), pipeline_rules(), expert_rules(), size_rules()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

/// Axes whose degrees have no limit of their own.
constexpr std::array<const char*, 7> axes{"dp", "tp", "pp", "cp", "ep", "vpp", "dp_replicate"};

/// Axes of other trainers: only their default works here.
constexpr std::array<const char*, 3> others_axes{
    "expert_tp", "first_stage_layers", "last_stage_layers"};

const std::vector<Dtype> all_dtypes{Dtype::bf16, Dtype::fp32, Dtype::fp64};

std::string dtype_list(const std::vector<Dtype>& dtypes) {
  std::string list;
  for (const Dtype dtype : dtypes)
    list += (list.empty() ? "" : " and ") + std::string(dtype_name(dtype));
  return list;
}

std::string profile_names() {
  std::vector<std::string> names;
  for (const Profile& profile : profiles())
    names.push_back(json_quote(profile.name));
  return json_array(names);
}

Error invalid(std::string message) {
  return {.kind = ErrorClass::invalid_layout, .message = std::move(message)};
}

std::optional<Error> stages_refusal(const Layout& layout, const ModelShape& model) {
  if (layout.stages.empty()) return std::nullopt;
  const i64 layers = std::accumulate(layout.stages.begin(), layout.stages.end(), i64{0});
  const i64 stages = layout.pp * layout.vpp;
  if (static_cast<i64>(layout.stages.size()) == stages && layers == model.layers)
    return std::nullopt;
  return invalid("--stages gives " + std::to_string(layout.stages.size()) + " stages with " +
      std::to_string(layers) + " layers; the layout has " + std::to_string(stages) + " with " +
      std::to_string(model.layers));
}

/// Refuses formats and communicators that this program lacks on a device.
std::optional<Error> platform_refusal(const Options& o, const Platforms& platforms) {
  const std::string device = "device '" + o.device + "'";
  const PlatformKind* kind = find_platform(platforms, o.device);
  if (kind == nullptr && o.device != "meta") return invalid("this program has no " + device);
  const std::vector<Dtype> dtypes = kind == nullptr ? all_dtypes : kind->dtypes;
  if (std::find(dtypes.begin(), dtypes.end(), o.dtype) == dtypes.end())
    return invalid(device + " computes in " + dtype_list(dtypes) + ", not in " +
        std::string(dtype_name(o.dtype)));
  const std::vector<std::string_view> comms =
      kind == nullptr ? std::vector<std::string_view>{"null"} : kind->comms;
  if (!o.comm.empty() && std::find(comms.begin(), comms.end(), o.comm) == comms.end())
    return invalid(device + " has no communicator '" + o.comm + "' in this program");
  return std::nullopt;
}

std::optional<Error> hardware_refusal(const Options& o, const Platforms& platforms) {
  if (auto error = platform_refusal(o, platforms)) return error;
  if (!parse_fault(o.fault, o.world_size))
    return Error{.kind = ErrorClass::usage,
        .message = "--fault takes kind@phase[+step][:rank], got '" + o.fault + "'"};
  return std::nullopt;
}

}  // namespace

std::optional<Error> layout_refusal(const Layout& layout, const ModelShape& model, Waste waste) {
  for (const Rule& rule : rules())
    if (rule.broken(layout, model) &&
        (rule.nature == Nature::impossible || waste == Waste::refused))
      return invalid(std::string(rule.constraint) + ": " + rule.why);
  return stages_refusal(layout, model);
}

std::optional<Error> refusal(const Options& o, const Platforms& platforms) {
  if (auto error = hardware_refusal(o, platforms)) return error;
  if (auto error = layout_refusal(o.layout, o.model)) return error;
  if (auto error = profile_refusal(*find_profile(o.profile), o.layout)) return error;
  // The meta device counts any world from one process.
  // So do the microbenchmarks of communication, which have no layout of their own.
  const bool blocks_alone = o.microbench && o.records.empty();
  if (o.device != "meta" && !blocks_alone && o.layout.world() != o.world_size)
    return invalid("dp·tp·pp·cp = " + std::to_string(o.layout.world()) + " but the world has " +
        std::to_string(o.world_size) + " ranks");
  return std::nullopt;
}

std::string capabilities_json(const Platforms& platforms, const Profile& profile) {
  std::vector<std::string> devices;
  std::vector<std::string> dtypes;
  JsonObject comms;
  JsonObject attentions;
  for (const PlatformKind& kind : platforms) {
    devices.push_back(json_quote(kind.device));
    for (const Dtype dtype : kind.dtypes)
      dtypes.push_back(json_quote(dtype_name(dtype)));
    std::vector<std::string> names;
    for (const std::string_view comm : kind.comms)
      names.push_back(json_quote(comm));
    comms.raw(kind.device, json_array(names));
    std::vector<std::string> ways;
    for (const std::string_view way : kind.attentions)
      ways.push_back(json_quote(way));
    if (!ways.empty()) attentions.raw(kind.device, json_array(ways));
  }
  devices.push_back(json_quote("meta"));
  // In each of them, beside the first of its formats.
  for (const Scaling scaling : {Scaling::current, Scaling::delayed})
    dtypes.push_back(json_quote(trained_in(Dtype::bf16, scaling)));
  JsonObject most;
  for (const char* axis : axes)
    most.null(axis);
  for (const char* axis : others_axes)
    most.integer(axis, 0);
  std::vector<std::string> rule_objects;
  for (const Rule& rule : rules())
    rule_objects.push_back(JsonObject{}
                               .text("constraint", rule.constraint)
                               .text("when", rule.when)
                               .text("why", rule.why)
                               .str());
  for (const ProfileRule& rule : profile_rules(profile))
    rule_objects.push_back(JsonObject{}
                               .text("constraint", profile_constraint)
                               .text("when", rule.when)
                               .text("why", rule.why)
                               .str());
  return JsonObject{}
      .text("runner", "shardbench")
      .text("version", version)
      .raw("device", json_array(devices))
      .raw("dtype", json_array(dtypes))
      .raw("comm", comms.str())
      .raw("attention", attentions.str())
      .raw("max", most.str())
      .raw("zero", "[0,1,2,3]")
      .raw("recompute", R"(["none","selective","full"])")
      .raw("sequence_parallel", "[false,true]")
      .raw("cp_mode", R"(["ring","ulysses"])")
      .raw("cuda_graphs", "[false]")
      .raw("offload", R"(["none"])")
      .raw("schedule", R"(["1f1b","afab","zb-h1","zb-v"])")
      .raw("profile", profile_names())
      .raw("rules", json_array(rule_objects))
      .boolean("gives_up", true)
      .str();
}

}  // namespace shardbench
