// SPDX-License-Identifier: Apache-2.0
// One table of flags: name, what it takes, what it does, how it is set.
#include "program/options.hpp"

#include "base/counter_random.hpp"
#include "measurement/profile.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>

namespace shardbench {
namespace {

constexpr i64 most_mebibytes = i64{1} << 30;

enum class Takes { nothing, value, optional_switch };

struct Flag {
  const char* name;
  Takes takes;
  const char* help;
  /// False when the value is not one.
  std::function<bool(Options&, const std::string&)> set;
  bool differs_by_rank = false;
};

bool parse_integer(const std::string& text, i64& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_real(const std::string& text, double& out) {
  if (text.empty()) return false;
  char* end = nullptr;
  out = std::strtod(text.c_str(), &end);
  return *end == '\0' && std::isfinite(out);
}

/// An integer of at least `least`, into the member that `field` finds.
template <typename Field>
Flag integer_flag(const char* name, const char* help, i64 least, Field field) {
  return {name, Takes::value, help, [least, field](Options& o, const std::string& text) {
            i64 value = 0;
            if (!parse_integer(text, value) || value < least) return false;
            field(o) = static_cast<std::remove_reference_t<decltype(field(o))>>(value);
            return true;
          }};
}

template <typename Field>
Flag text_flag(const char* name, const char* help, Field field) {
  return {name, Takes::value, help, [field](Options& o, const std::string& text) {
            field(o) = text;
            return !text.empty();
          }};
}

template <typename Field>
Flag switch_flag(const char* name, const char* help, Field field) {
  return {name, Takes::optional_switch, help, [field](Options& o, const std::string& text) {
            field(o) = text == "on";
            return text == "on" || text == "off";
          }};
}

/// Any spelling of a switch as on or off; nothing for other words.
std::string switch_word(const std::string& text) {
  if (text == "on" || text == "true" || text == "1" || text == "yes") return "on";
  if (text == "off" || text == "false" || text == "0" || text == "no") return "off";
  return "";
}

template <typename Value, std::size_t N, typename Field>
Flag choice_flag(const char* name, const char* help,
    std::array<std::pair<const char*, Value>, N> choices, Field field) {
  return {name, Takes::value, help, [choices, field](Options& o, const std::string& text) {
            for (const auto& [word, value] : choices) {
              if (text != word) continue;
              field(o) = value;
              return true;
            }
            return false;
          }};
}

template <typename Field>
Flag real_flag(const char* name, const char* help, Field field) {
  return {name, Takes::value, help, [field](Options& o, const std::string& text) {
            return parse_real(text, field(o)) && field(o) >= 0;
          }};
}

bool set_rank_order(Options& o, const std::string& text) {
  const auto order = rank_order_of(text);
  if (order) o.layout.rank_order = *order;
  return order.has_value();
}

bool set_stages(Options& o, const std::string& text) {
  std::istringstream in(text);
  std::string word;
  o.layout.stages.clear();
  while (std::getline(in, word, ',')) {
    i64 layers = 0;
    if (!parse_integer(word, layers) || layers < 1) return false;
    o.layout.stages.push_back(layers);
  }
  return !o.layout.stages.empty() && text.back() != ',';
}

bool set_deadline(Options& o, const std::string& text) {
  const std::size_t equals = text.find('=');
  double seconds = 0;
  if (equals == std::string::npos || !parse_real(text.substr(equals + 1), seconds)) return false;
  constexpr std::array<const char*, 7> phases{
      "start", "rendezvous", "init", "warmup", "train", "teardown", "comm"};
  for (const char* phase : phases)
    if (text.substr(0, equals) == phase) o.deadlines_s[phase] = seconds;
  return seconds > 0 && o.deadlines_s.count(text.substr(0, equals)) > 0;
}

bool set_run_id(Options& o, const std::string& text) {
  o.run_id = text;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
        c == '_' || c == '-';
  };
  for (const char c : text)
    if (!allowed(c)) return false;
  return !text.empty() && text.size() <= 128;
}

bool set_model(Options& o, const std::string& text) {
  o.model_name = text;
  return find_shape(text).has_value();
}

bool set_profile(Options& o, const std::string& text) {
  const Profile* profile = find_profile(text);
  if (profile == nullptr) return false;
  o.profile = text;
  o.layout.habits = profile->habits;
  return true;
}

void add_layout_flags(std::vector<Flag>& f) {
  f.push_back(
      integer_flag("dp", "data parallel ranks", 1, [](Options& o) -> i64& { return o.layout.dp; }));
  f.push_back(integer_flag(
      "tp", "tensor parallel ranks", 1, [](Options& o) -> i64& { return o.layout.tp; }));
  f.push_back(
      integer_flag("pp", "pipeline stages", 1, [](Options& o) -> i64& { return o.layout.pp; }));
  f.push_back(integer_flag(
      "cp", "context parallel ranks", 1, [](Options& o) -> i64& { return o.layout.cp; }));
  f.push_back(choice_flag("cp-mode", "ring|ulysses: how they share attention",
      std::array<std::pair<const char*, ContextMode>, 2>{
          {{"ring", ContextMode::ring}, {"ulysses", ContextMode::ulysses}}},
      [](Options& o) -> ContextMode& { return o.layout.cp_mode; }));
  f.push_back(integer_flag(
      "ep", "expert parallel ranks", 1, [](Options& o) -> i64& { return o.layout.ep; }));
  f.push_back(choice_flag("moe-routing", "learned|balanced|skewed: the router, or a token's place",
      std::array<std::pair<const char*, MoeRouting>, 3>{{{"learned", MoeRouting::learned},
          {"balanced", MoeRouting::balanced}, {"skewed", MoeRouting::skewed}}},
      [](Options& o) -> MoeRouting& { return o.layout.moe_routing; }));
  f.push_back(real_flag("moe-capacity", "rows of an expert / balanced ones; 0: dropless",
      [](Options& o) -> double& { return o.layout.moe_capacity; }));
  f.push_back(real_flag("moe-aux-loss", "coefficient of the loss for balance (0)",
      [](Options& o) -> double& { return o.layout.moe_aux_loss; }));
  f.push_back(
      integer_flag("vpp", "virtual stages per rank: parts of its layers, which 1f1b interleaves", 1,
          [](Options& o) -> i64& { return o.layout.vpp; }));
  f.push_back(integer_flag("dp-replicate", "replicas of ZeRO's shards", 1,
      [](Options& o) -> i64& { return o.layout.dp_replicate; }));
  f.push_back(integer_flag("micro-batch", "samples per micro-batch", 1,
      [](Options& o) -> i64& { return o.layout.micro_batch; }));
  f.push_back(integer_flag("grad-accum", "micro-batches per train step and dp rank", 1,
      [](Options& o) -> i64& { return o.layout.grad_accum; }));
  f.push_back({"zero", Takes::value, "ZeRO stage, 0 to 3", [](Options& o, const std::string& text) {
                 return parse_integer(text, o.layout.zero) && o.layout.zero >= 0 &&
                     o.layout.zero <= 3;
               }});
  f.push_back(choice_flag("recompute", "none|selective|full",
      std::array<std::pair<const char*, Recompute>, 3>{{{"none", Recompute::none},
          {"selective", Recompute::selective}, {"full", Recompute::full}}},
      [](Options& o) -> Recompute& { return o.layout.recompute; }));
  f.push_back(switch_flag("sequence-parallel", "on|off (alone: on)",
      [](Options& o) -> bool& { return o.layout.sequence_parallel; }));
  f.push_back(choice_flag("schedule", "1f1b|afab|zb-h1|zb-v: order of a pipeline's work",
      std::array<std::pair<const char*, ScheduleKind>, 4>{
          {{"1f1b", ScheduleKind::one_f_one_b}, {"afab", ScheduleKind::afab},
              {"zb-h1", ScheduleKind::zb_h1}, {"zb-v", ScheduleKind::zb_v}}},
      [](Options& o) -> ScheduleKind& { return o.layout.schedule; }));
  f.push_back({"rank-order", Takes::value,
      "axes, fastest first, cp before dp if not named (tp-dp-pp)", set_rank_order});
  f.push_back({"bucket-mb", Takes::value, "gradient bucket in MiB",
      [](Options& o, const std::string& text) {
        i64 mebibytes = 0;
        if (!parse_integer(text, mebibytes) || mebibytes < 1 || mebibytes > most_mebibytes)
          return false;
        o.layout.bucket_bytes = mebibytes << 20;
        return true;
      }});
  f.push_back(switch_flag("overlap", "on|off: reduce gradients during backward",
      [](Options& o) -> bool& { return o.layout.overlap; }));
  f.push_back({"stages", Takes::value, "layers of each stage of the model, pp · vpp of them: N,N,…",
      set_stages});
}

bool set_dtype(Options& o, const std::string& text) {
  for (const Scaling scaling : {Scaling::none, Scaling::current, Scaling::delayed})
    for (const Dtype dtype : {Dtype::bf16, Dtype::fp32, Dtype::fp64}) {
      if (text != trained_in(dtype, scaling)) continue;
      if (scaling == Scaling::none) o.dtype = dtype;
      o.layout.fp8 = scaling;
      return true;
    }
  return false;
}

void add_model_flags(std::vector<Flag>& f) {
  f.push_back({"model", Takes::value, "a named shape; explicit flags override", set_model});
  f.push_back(integer_flag(
      "layers", "transformer layers", 1, [](Options& o) -> i64& { return o.model.layers; }));
  f.push_back(integer_flag("hidden", "width of the residual stream", 1,
      [](Options& o) -> i64& { return o.model.hidden; }));
  f.push_back(integer_flag(
      "ffn", "width of the SwiGLU", 1, [](Options& o) -> i64& { return o.model.ffn; }));
  f.push_back(integer_flag(
      "experts", "of each layer; 0: dense", 0, [](Options& o) -> i64& { return o.model.experts; }));
  f.push_back(integer_flag("experts-per-token", "that a router chooses", 1,
      [](Options& o) -> i64& { return o.model.experts_per_token; }));
  f.push_back(integer_flag("expert-ffn", "width of one expert's SwiGLU", 1,
      [](Options& o) -> i64& { return o.model.expert_ffn; }));
  f.push_back(integer_flag("shared-experts", "that every token goes through", 0,
      [](Options& o) -> i64& { return o.model.shared_experts; }));
  f.push_back(integer_flag("dense-layers", "first layers without experts", 0,
      [](Options& o) -> i64& { return o.model.dense_layers; }));
  f.push_back(
      integer_flag("heads", "query heads", 1, [](Options& o) -> i64& { return o.model.heads; }));
  f.push_back(integer_flag(
      "kv-heads", "key/value heads", 1, [](Options& o) -> i64& { return o.model.kv_heads; }));
  f.push_back(integer_flag("head-dim", "values of a head; 0: hidden / heads", 0,
      [](Options& o) -> i64& { return o.model.head_values; }));
  f.push_back(
      integer_flag("vocab", "vocabulary", 1, [](Options& o) -> i64& { return o.model.vocab; }));
  f.push_back({"profile", Takes::value,
      "own|megatron|nanotron|torchtitan: do what that trainer does; flags after it override",
      set_profile});
  f.push_back(switch_flag("tied-embeddings", "on|off: embedding and head are one matrix",
      [](Options& o) -> std::optional<bool>& { return o.tied; }));
  f.push_back(
      integer_flag("vocab-multiple", "each tp rank's part of the vocabulary is padded to it (128)",
          1, [](Options& o) -> i64& { return o.layout.habits.vocab_multiple; }));
  f.push_back(integer_flag("seq-len", "tokens per sample (also --seq)", 1,
      [](Options& o) -> i64& { return o.model.seq_len; }));
  f.push_back({"dtype", Takes::value,
      "bf16|fp32|fp64, fp8|fp8-delayed: layers' products in FP8 by current or delayed "
      "scaling",
      set_dtype});
}

void add_run_flags(std::vector<Flag>& f) {
  f.push_back(integer_flag("warmup", "train steps before the clock runs", 0,
      [](Options& o) -> i64& { return o.warmup; }));
  f.push_back(
      integer_flag("steps", "timed train steps", 1, [](Options& o) -> i64& { return o.steps; }));
  f.push_back(
      integer_flag("seed", "of weights and samples", 0, [](Options& o) -> u64& { return o.seed; }));
  f.push_back({"memory-limit", Takes::value, "bytes per rank, as in 256MiB",
      [](Options& o, const std::string& text) {
        o.memory_limit_bytes = parse_bytes(text);
        return o.memory_limit_bytes.has_value();
      }});
  f.push_back({"peak-flops", Takes::value, "dense peak of one device in FLOP/s, for MFU",
      [](Options& o, const std::string& text) {
        double value = 0;
        if (!parse_real(text, value) || value <= 0) return false;
        o.peak_flops = value;
        return true;
      }});
  f.push_back({"give-up-above", Takes::value,
      "end with a result after two or more train steps that take longer, in ms",
      [](Options& o, const std::string& text) {
        double value = 0;
        if (!parse_real(text, value) || value <= 0) return false;
        o.give_up_above_ms = value;
        return true;
      }});
  f.push_back(choice_flag("device", "cpu|cuda|meta",
      std::array<std::pair<const char*, const char*>, 3>{
          {{"cpu", "cpu"}, {"cuda", "cuda"}, {"meta", "meta"}}},
      [](Options& o) -> std::string& { return o.device; }));
  f.push_back(choice_flag("comm", "socket|nccl|staged|null",
      std::array<std::pair<const char*, const char*>, 4>{
          {{"socket", "socket"}, {"nccl", "nccl"}, {"staged", "staged"}, {"null", "null"}}},
      [](Options& o) -> std::string& { return o.comm; }));
  f.push_back(
      switch_flag("nccl-blocking", "NCCL gives work to the GPU within each call (default on)",
          [](Options& o) -> bool& { return o.nccl_blocking; }));
  f.push_back(
      switch_flag("nccl-register", "let NCCL send from the arenas and into them without copies",
          [](Options& o) -> bool& { return o.nccl_register; }));
  f.push_back(text_flag("records", "file for JSON lines; rank k writes FILE.k",
      [](Options& o) -> std::string& { return o.records; }));
  f.push_back(text_flag("recorder", "folder for the flight recorders",
      [](Options& o) -> std::string& { return o.recorder; }));
  f.push_back({"deadline", Takes::value, "PHASE=SECONDS, may be repeated", set_deadline});
  f.push_back(text_flag("fault", "kind@phase[+step][:rank]: inject a fault",
      [](Options& o) -> std::string& { return o.fault; }));
  f.push_back({"run-id", Takes::value, "nonce of this run", set_run_id});
}

void add_rank_flags(std::vector<Flag>& f) {
  f.push_back(text_flag("rendezvous", "DIR, tcp://HOST:PORT or fd:N",
      [](Options& o) -> std::string& { return o.rendezvous; }));
  f.push_back(integer_flag("rank", "this rank", 0, [](Options& o) -> i64& { return o.rank; }));
  f.push_back(integer_flag(
      "world-size", "number of ranks", 1, [](Options& o) -> i64& { return o.world_size; }));
  f.push_back(integer_flag(
      "local-rank", "this rank on its node", 0, [](Options& o) -> i64& { return o.local_rank; }));
  for (std::size_t i = f.size() - 4; i < f.size(); ++i)
    f[i].differs_by_rank = true;
}

void add_commands(std::vector<Flag>& f) {
  const auto command = [&f](const char* name, const char* help, Command value) {
    f.push_back({name, Takes::nothing, help, [value](Options& o, const std::string&) {
                   o.command = value;
                   return true;
                 }});
  };
  command("capabilities", "print the supported values and rules, as JSON", Command::capabilities);
  command("help", "this text", Command::help);
  command("version", "name and version", Command::version);
  f.push_back(
      {"microbench", Takes::nothing, "time the building blocks; with --records, during a run",
          [](Options& o, const std::string&) { return o.microbench = true; }});
  f.push_back(choice_flag("network-probe",
      "off|first|alone: time all-reduces over all ranks before training",
      std::array<std::pair<const char*, NetworkProbe>, 3>{{{"off", NetworkProbe::off},
          {"first", NetworkProbe::first}, {"alone", NetworkProbe::alone}}},
      [](Options& o) -> NetworkProbe& { return o.network_probe; }));
  f.push_back(text_flag("read-recorder", "print the ranks that wait in each collective",
      [](Options& o) -> std::string& { return o.read_recorder; }));
}

const std::vector<Flag>& flags() {
  static const std::vector<Flag> table = [] {
    std::vector<Flag> f;
    add_layout_flags(f);
    add_model_flags(f);
    add_run_flags(f);
    add_rank_flags(f);
    add_commands(f);
    return f;
  }();
  return table;
}

const Flag* find_flag(std::string name) {
  if (name == "seq") name = "seq-len";
  for (const Flag& flag : flags())
    if (name == flag.name) return &flag;
  return nullptr;
}

Error usage(std::string message) {
  return {.kind = ErrorClass::usage, .message = std::move(message)};
}

struct Word {
  const Flag* flag;
  std::string value;
};

/// The next flag with its value; advances `at` past both.
std::optional<Error> next_word(
    const std::vector<std::string>& arguments, std::size_t& at, Word& word) {
  std::string name = arguments[at++];
  if (name == "-h") name = "--help";
  if (name.rfind("--", 0) != 0) return usage("unexpected '" + name + "'");
  name.erase(0, 2);
  const std::size_t equals = name.find('=');
  std::optional<std::string> value;
  if (equals != std::string::npos) {
    value = name.substr(equals + 1);
    name.erase(equals);
  }
  word.flag = find_flag(name);
  if (word.flag == nullptr) return usage("unknown flag '--" + name + "'");
  if (word.flag->takes == Takes::nothing) {
    if (value) return usage("--" + name + " takes no value, got '" + *value + "'");
    return std::nullopt;
  }
  if (word.flag->takes == Takes::optional_switch) {
    const bool next_is_word = at < arguments.size() && !switch_word(arguments[at]).empty();
    if (!value) value = next_is_word ? arguments[at++] : "on";
    word.value = switch_word(*value);
    if (word.value.empty()) word.value = *value;
    return std::nullopt;
  }
  if (!value && at == arguments.size()) return usage("--" + name + " needs a value");
  word.value = value ? *value : arguments[at++];
  return std::nullopt;
}

void take_rank(i64& out, const char* first, const char* second, Environment environment) {
  for (const char* name : {first, second}) {
    const char* text = environment(name);
    if (text != nullptr && parse_integer(text, out)) return;
  }
}

void take_identity(Options& o, Environment environment) {
  take_rank(o.rank, "RANK", "SLURM_PROCID", environment);
  take_rank(o.world_size, "WORLD_SIZE", "SLURM_NTASKS", environment);
  take_rank(o.local_rank, "LOCAL_RANK", "SLURM_LOCALID", environment);
}

/// Reads the fault from the environment too, so that a sweep can vary it: a free axis is a variable
/// of the ranks' environment.
void take_fault(Options& o, Environment environment) {
  const char* fault = environment("SHARDBENCH_FAULT");
  if (fault != nullptr && std::string_view(fault) != "none") o.fault = fault;
}

u64 hash_of(const std::string& text) {
  u64 hash = 0;
  for (const char c : text)
    hash = mix(hash, static_cast<u64>(static_cast<unsigned char>(c)));
  return hash;
}

void take_defaults(Options& o) {
  if (o.rendezvous.empty()) {
    o.rendezvous = std::filesystem::path(o.records).parent_path().string();
    if (o.rendezvous.empty()) o.rendezvous = ".";
  }
  if (o.run_id.empty()) {
    std::error_code ignored;
    const std::string path = std::filesystem::absolute(o.records, ignored).string();
    std::ostringstream id;
    id << std::hex << hash_of(path + '\n' + o.defining_flags);
    o.run_id = id.str();
  }
}

/// Named shape first, explicit extents over it.
void merge_model(Options& o) {
  const ModelShape named = find_shape(o.model_name).value_or(ModelShape{});
  const auto take = [](i64& explicit_value, i64 named_value) {
    if (explicit_value == 0) explicit_value = named_value;
  };
  take(o.model.layers, named.layers);
  take(o.model.hidden, named.hidden);
  take(o.model.ffn, named.ffn);
  take(o.model.heads, named.heads);
  take(o.model.kv_heads, named.kv_heads);
  take(o.model.vocab, named.vocab);
  take(o.model.seq_len, named.seq_len);
  take(o.model.head_values, named.head_values);
  take(o.model.experts, named.experts);
  take(o.model.experts_per_token, named.experts_per_token);
  take(o.model.expert_ffn, named.expert_ffn);
  take(o.model.shared_experts, named.shared_experts);
  take(o.model.dense_layers, named.dense_layers);
  // Models without dense layers take the experts' width.
  if (o.model.experts > 0 && o.model.dense_layers == 0) take(o.model.ffn, o.model.expert_ffn);
  o.model.tied = o.tied.value_or(named.tied);
  if (o.model.kv_heads == 0) o.model.kv_heads = o.model.heads;
}

std::optional<Error> complete(Options& o) {
  if (o.command != Command::run || !o.read_recorder.empty()) return std::nullopt;
  merge_model(o);
  const ModelShape& m = o.model;
  if (m.layers == 0 || m.hidden == 0 || m.ffn == 0 || m.heads == 0 || m.vocab == 0 ||
      m.seq_len == 0)
    return usage(
        "no model: give --model NAME, or --layers --hidden --ffn --heads --vocab "
        "--seq-len");
  if (o.rank >= o.world_size)
    return usage("rank " + std::to_string(o.rank) + " is not below the world size, " +
        std::to_string(o.world_size));
  // Values outside 8 bits are in the device's own format.
  if (o.layout.fp8 != Scaling::none) o.dtype = o.device == "cpu" ? Dtype::fp32 : Dtype::bf16;
  take_defaults(o);
  return std::nullopt;
}

}  // namespace

std::optional<i64> parse_bytes(const std::string& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  i64 value = 0;
  if (digits == 0 || !parse_integer(text.substr(0, digits), value)) return std::nullopt;
  const std::string unit = text.substr(digits);
  using Unit = std::pair<const char*, i64>;
  constexpr std::array<Unit, 15> units{{Unit{"", 1}, {"B", 1}, {"KiB", i64{1} << 10},
      {"MiB", i64{1} << 20}, {"GiB", i64{1} << 30}, {"TiB", i64{1} << 40}, {"Ki", i64{1} << 10},
      {"Mi", i64{1} << 20}, {"Gi", i64{1} << 30}, {"Ti", i64{1} << 40}, {"kB", 1000}, {"KB", 1000},
      {"MB", 1000000}, {"GB", 1000000000}, {"TB", 1000000000000}}};
  for (const auto& [name, factor] : units)
    if (unit == name && value <= LLONG_MAX / factor) return value * factor;
  return std::nullopt;
}

ParsedOptions parse_options(
    const std::vector<std::string>& arguments, Environment environment, Options defaults) {
  ParsedOptions parsed{std::move(defaults), {}};
  Options& o = parsed.options;
  take_identity(o, environment);
  take_fault(o, environment);
  for (std::size_t at = 0; at < arguments.size();) {
    Word word{};
    parsed.error = next_word(arguments, at, word);
    if (parsed.error) return parsed;
    if (!word.flag->set(o, word.value)) {
      parsed.error = usage(std::string("--") + word.flag->name + " takes " + word.flag->help +
          ", got '" + word.value + "'");
      return parsed;
    }
    if (!word.flag->differs_by_rank)
      o.defining_flags += std::string(" --") + word.flag->name + "=" + word.value;
  }
  parsed.error = complete(o);
  return parsed;
}

std::string help_text() {
  std::string text =
      "shardbench: train a Llama-like model for a few steps under a given layout.\n"
      "One process per rank; see runner/README.md.\n\n";
  for (const Flag& flag : flags()) {
    std::string name = std::string("  --") + flag.name;
    name.resize(std::max<std::size_t>(name.size() + 1, 24), ' ');
    text += name + flag.help + "\n";
  }
  return text;
}

}  // namespace shardbench
