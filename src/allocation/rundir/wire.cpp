// SPDX-License-Identifier: Apache-2.0
// Messages and specs to JSON lines and back. Each struct lists its fields once, in fields();
// writer and reader visit that list.
#include "record/json_values.hpp"
#include "text/characters.hpp"

#include <shardsweep/protocol.hpp>

#include <type_traits>
#include <utility>

namespace shardsweep {
namespace {

using namespace json;

constexpr std::size_t longest_text = 4000;  // of a cause in a file
constexpr std::size_t longest_also = 300;   // of what contradicts it

// ---- what each message is called and holds

template <class T>
inline constexpr std::string_view type_word;
template <>
inline constexpr std::string_view type_word<Assign> = "assign";
template <>
inline constexpr std::string_view type_word<Revoke> = "revoke";
template <>
inline constexpr std::string_view type_word<Cancel> = "cancel";
template <>
inline constexpr std::string_view type_word<Drain> = "drain";
template <>
inline constexpr std::string_view type_word<Claimed> = "claimed";
template <>
inline constexpr std::string_view type_word<Beat> = "beat";
template <>
inline constexpr std::string_view type_word<Started> = "started";
template <>
inline constexpr std::string_view type_word<Ended> = "ended";
template <>
inline constexpr std::string_view type_word<Revoked> = "revoked";
template <>
inline constexpr std::string_view type_word<NodeSeen> = "node";
template <>
inline constexpr std::string_view type_word<FoundOnNode> = "finding";
template <>
inline constexpr std::string_view type_word<Bye> = "bye";
template <>
inline constexpr std::string_view type_word<Launch> = "launch";
template <>
inline constexpr std::string_view type_word<EndAttempt> = "end";
template <>
inline constexpr std::string_view type_word<AskProgress> = "ask_still";
template <>
inline constexpr std::string_view type_word<Place> = "place";
template <>
inline constexpr std::string_view type_word<TimedSteps> = "timed";
template <>
inline constexpr std::string_view type_word<LeadBeat> = "beat";
template <>
inline constexpr std::string_view type_word<Quit> = "quit";
template <>
inline constexpr std::string_view type_word<NodeReady> = "ready";
template <>
inline constexpr std::string_view type_word<NodeBeat> = "beat";
template <>
inline constexpr std::string_view type_word<NodeLaunched> = "launched";
template <>
inline constexpr std::string_view type_word<Suspect> = "suspect";
template <>
inline constexpr std::string_view type_word<NoProgress> = "still";
template <>
inline constexpr std::string_view type_word<NodeEnded> = "ended";
template <>
inline constexpr std::string_view type_word<NodeFinding> = "finding";

template <class T, class M>
concept Is = std::is_same_v<std::remove_const_t<T>, M>;

void fields(Is<Assign> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("trial", m.trial);
  visit("dir", m.dir);
  visit("nonce", m.nonce);
  visit("lane", m.lane);
  visit("micro_batch", m.micro_batch);
  visit.optional("predicted_s", m.predicted_s);
}
void fields(Is<Revoke> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
}
void fields(Is<Cancel> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("why", m.why);
}
void fields(Is<Drain> auto&, auto&&) {}
void fields(Is<Claimed> auto& m, auto&& visit) {
  visit("token", m.token);
  visit("claim", m.claim);
  visit("host", m.host);
  visit("pid", m.pid);
  visit("pid_start", m.pid_start);
  visit("job_id", m.job_id);
  visit.optional("node", m.node);
}
void fields(Is<Beat> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("phase", m.phase);
  visit("step", m.step);
}
void fields(Is<Started> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("nonce", m.nonce);
}
void fields(Is<Ended> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("nonce", m.nonce);
  visit("outcome", m.outcome);
  visit("exit_code", m.exit_code);
  visit("signal", m.signal);
  visit("cause", m.cause);
  visit("source", m.source);
  visit("leaked", m.leaked);
  visit("pack", m.pack);
  visit.optional("node", m.node);
  visit.optional("also", m.also);
  visit.optional("mark", m.mark);
  visit.optional("nodes", m.nodes);
  visit.optional("start_error", m.start_error);
  visit.optional("fragmented", m.fragmented);
  visit.optional("found_code", m.found_code);
  visit.optional("sm_clock_mhz", m.sm_clock_mhz);
  visit.optional("power_w", m.power_w);
  visit.optional("throttled", m.throttled);
}
void fields(Is<Revoked> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
}
void fields(Is<NodeSeen> auto& m, auto&& visit) {
  visit("node", m.node);
  visit("host", m.host);
  visit("pid", m.pid);
  visit.optional("switches", m.switches);
}
void fields(Is<FoundOnNode> auto& m, auto&& visit) {
  visit("node", m.node);
  visit("kind", m.kind);
  visit("detail", m.detail);
}
void fields(Is<Bye> auto& m, auto&& visit) {
  visit("why", m.why);
}
void fields(Is<Launch> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("dir", m.dir);
  visit.optional("meet", m.meet);
}
void fields(Is<EndAttempt> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("outcome", m.outcome);
  visit("why", m.why);
  visit.optional("cut_short", m.cut_short);
}
void fields(Is<AskProgress> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
}
void fields(Is<Place> auto& m, auto&& visit) {
  visit("node", m.node);
  visit("index", m.index);
}
void fields(Is<TimedSteps> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
}
void fields(Is<LeadBeat> auto&, auto&&) {}
void fields(Is<Quit> auto&, auto&&) {}
void fields(Is<NodeReady> auto& m, auto&& visit) {
  visit("node", m.node);
  visit("host", m.host);
  visit("pid", m.pid);
  visit.optional("index", m.index);
  visit.optional("gpu", m.gpu);
  visit.optional("switches", m.switches);
}
void fields(Is<NodeBeat> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("phase", m.phase);
  visit("step", m.step);
  visit.optional("timed", m.timed);
}
void fields(Is<NodeLaunched> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
}
void fields(Is<Suspect> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("limit_s", m.limit_s);
  visit("why", m.why);
}
void fields(Is<NoProgress> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("still_s", m.still_s);
}
void fields(Is<NodeEnded> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("outcome", m.outcome);
  visit("exit_code", m.exit_code);
  visit("signal", m.signal);
  visit("at", m.at);
  visit("cause", m.cause);
  visit("source", m.source);
  visit("leaked", m.leaked);
  visit.optional("also", m.also);
  visit.optional("mark", m.mark);
  visit.optional("start_error", m.start_error);
  visit.optional("node", m.node);
  visit.optional("cut_short", m.cut_short);
  visit.optional("fragmented", m.fragmented);
  visit.optional("found_code", m.found_code);
  visit.optional("sm_clock_mhz", m.sm_clock_mhz);
  visit.optional("power_w", m.power_w);
  visit.optional("held_back", m.held_back);
}
void fields(Is<NodeFinding> auto& m, auto&& visit) {
  visit("kind", m.kind);
  visit("detail", m.detail);
}
void fields(Is<TrainerRun> auto& m, auto&& visit) {
  visit("log", m.log);
  visit("patterns", m.patterns);
  visit("per_node", m.per_node);
  visit("directory", m.directory);
  visit("warmup", m.warmup);
  visit("steps", m.steps);
  visit("dp", m.dp);
  visit("tp", m.tp);
  visit("pp", m.pp);
  visit("cp", m.cp);
  visit("seq_len", m.seq_len);
  visit("tokens_per_step", m.tokens_per_step);
  visit.optional("vocab", m.vocab);
  visit.optional("parameters", m.parameters);
  visit.optional("unchecked", m.unchecked);
  visit.optional("fake_world", m.fake_world);
  visit.optional("fake_rank", m.fake_rank);
}
void fields(Is<ContainerSpec> auto& m, auto&& visit) {
  visit("runtime", m.runtime);
  visit("image", m.image);
  visit("mounts", m.mounts);
  visit("workdir", m.workdir);
  visit("env", m.env);
  visit("options", m.options);
}
void fields(Is<AttemptSpec> auto& m, auto&& visit) {
  visit("attempt", m.attempt);
  visit("trial", m.trial);
  visit("nonce", m.nonce);
  visit("token", m.token);
  visit("world", m.world);
  visit("ranks_per_node", m.ranks_per_node);
  visit("argv", m.argv);
  visit("env", m.env);
  visit("start_limit_s", m.start_limit_s);
  visit("rendezvous_limit_s", m.rendezvous_limit_s);
  visit("init_limit_s", m.init_limit_s);
  visit("first_step_limit_s", m.first_step_limit_s);
  visit("step_limit_s", m.step_limit_s);
  visit("teardown_limit_s", m.teardown_limit_s);
  visit("attempt_limit_s", m.attempt_limit_s);
  visit("grace_s", m.grace_s);
  visit("keep_log_bytes", m.keep_log_bytes);
  visit.optional("hang_floor_s", m.hang_floor_s);
  visit.optional("hang_factor", m.hang_factor);
  visit.optional("evidence_s", m.evidence_s);
  visit.optional("others_cpu_limit", m.others_cpu_limit);
  visit.optional("rules", m.rules);
  visit.optional("gpu_release_s", m.gpu_release_s);
  visit.optional("gpu_slack_bytes", m.gpu_slack_bytes);
  visit.optional("predicted_s", m.predicted_s);
  visit.optional("slow_limit_s", m.slow_limit_s);
  visit.optional("group", m.group);
  visit.optional("learn_factor", m.learn_factor);
  visit.optional("learn_floor_s", m.learn_floor_s);
  visit.optional("gdb_s", m.gdb_s);
  visit.optional("nccl_debug", m.nccl_debug);
  visit.optional("log_limit_bytes", m.log_limit_bytes);
  visit.optional("file_limit_bytes", m.file_limit_bytes);
  visit.optional("trainer", m.trainer);
  visit.optional("container", m.container);
  visit.optional("container_limit_s", m.container_limit_s);
  visit.optional("expandable_segments", m.expandable_segments);
  visit.optional("programs", m.programs);
  visit.optional("code_hash", m.code_hash);
  visit.optional("give_up_above_ms", m.give_up_above_ms);
  visit.optional("warmup", m.warmup);
  visit.optional("tokens_per_step", m.tokens_per_step);
  visit.optional("watch_pace", m.watch_pace);
}
void fields(Is<AllocationSpec> auto& m, auto&& visit) {
  visit("token", m.token);
  visit("job_name", m.job_name);
  visit("nodes", m.nodes);
  visit("slots_per_node", m.slots_per_node);
  visit("launch", m.launch);
  visit("beat_s", m.beat_s);
  visit("agent_lease_s", m.agent_lease_s);
  visit("node_lease_s", m.node_lease_s);
  visit("file_beat_s", m.file_beat_s);
  visit("watch_interval_s", m.watch_interval_s);
  visit("idle_limit_s", m.idle_limit_s);
  visit.optional("time_margin", m.time_margin);
  visit.optional("grace_s", m.grace_s);
  visit.optional("stop_before_end_s", m.stop_before_end_s);
  visit.optional("gpu", m.gpu);
  visit.optional("agents_limit_s", m.agents_limit_s);
}

// ---- writing

struct Writer {
  Json& object;
  template <Worded Enum>
  void operator()(const char* key, const Enum& value) const {
    object[key] = std::string(word_of(value));
  }
  void operator()(const char* key, const std::vector<LogRule>& rules) const {
    Json& list = object[key] = Json::array();
    for (const LogRule& rule : rules)
      list.push_back({{"name", rule.name},
                      {"pattern", rule.pattern},
                      {"outcome", std::string(name(rule.outcome))}});
  }
  void operator()(const char* key, const std::optional<TrainerRun>& trainer) const {
    if (trainer) fields(*trainer, Writer{object[key] = Json::object()});
  }
  void operator()(const char* key, const std::optional<ContainerSpec>& container) const {
    if (container) fields(*container, Writer{object[key] = Json::object()});
  }
  void operator()(const char* key, const std::optional<ContainerRuntime>& runtime) const {
    object[key] = std::string(word_of(runtime.value_or(ContainerRuntime::none)));
  }
  void operator()(const char* key, const auto& value) const { object[key] = value; }
  void optional(const char* key, const auto& value) const {
    if constexpr (requires { value.empty(); }) {
      if (value.empty()) return;
    } else if constexpr (requires { word_of(value); }) {
      if (word_of(value).empty()) return;
    }
    (*this)(key, value);
  }
};

std::string dump(const Json& object, int indent = -1) {
  return object.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Shortens `text` to at most `limit` bytes, at the beginning of a UTF-8 sequence.
void cut_text(std::string& text, std::size_t limit) {
  if (text.size() <= limit) return;
  while (limit > 0 && is_continuation(text[limit]))
    --limit;
  text.resize(limit);
}

/// The free text of a message, which may be cut; nullptr where it has none.
template <class T>
std::string* free_text(T& message) {
  if constexpr (requires { message.cause; }) {
    return &message.cause;
  } else if constexpr (requires { message.why; }) {
    return &message.why;
  } else if constexpr (requires { message.detail; }) {
    return &message.detail;
  } else {
    return nullptr;
  }
}

template <class T>
std::string line_of(Json head, T message, std::size_t limit) {
  std::string* text = free_text(message);
  if (text != nullptr) cut_text(*text, longest_text);
  // Beside it, and not cut with it.
  if constexpr (requires { message.also; }) cut_text(message.also, longest_also);
  head["type"] = std::string(type_word<T>);
  fields(message, Writer{head});
  std::string line = dump(head);
  // Escapes make up to six bytes of one, so it is cut by a sixth of what is too much.
  while (line.size() >= limit && text != nullptr && !text->empty()) {
    const std::size_t cut = (line.size() - limit) / 6 + 1;
    cut_text(*text, text->size() > cut ? text->size() - cut : 0);
    fields(message, Writer{head});
    line = dump(head);
  }
  // Nothing but escapes: the cause alone could not make room for it.
  if constexpr (requires { message.also; }) {
    if (line.size() >= limit) {
      cut_text(message.also, longest_also / 6);
      fields(message, Writer{head});
      line = dump(head);
    }
  }
  return line;
}

// ---- reading

using json::read_value;
template <Worded Enum>
bool read_value(const Json& value, Enum& out) {
  if (!value.is_string()) return false;
  const auto known = from_word<Enum>(value.get_ref<const std::string&>());
  if (known) out = *known;
  return known.has_value();
}
bool read_value(const Json& value, std::vector<std::string>& out) {
  if (!value.is_array()) return false;
  for (const auto& item : value) {
    if (!read_value(item, out.emplace_back())) return false;
  }
  return true;
}
bool read_value(const Json& value, std::vector<LogRule>& out) {
  if (!value.is_array() || value.size() > most_log_rules) return false;
  for (const auto& item : value) {
    LogRule& rule = out.emplace_back();
    const auto holds = [&](const char* key, auto& into) {
      const auto found = item.find(key);
      return found != item.end() && read_value(*found, into);
    };
    const bool whole = item.is_object() && holds("name", rule.name) &&
                       holds("pattern", rule.pattern) && holds("outcome", rule.outcome);
    if (!whole) return false;
  }
  return true;
}
bool read_value(const Json& value, std::map<std::string, std::string>& out) {
  if (!value.is_object()) return false;
  for (const auto& [key, item] : value.items()) {
    if (!read_value(item, out[key])) return false;
  }
  return true;
}

bool read_value(const Json& value, std::optional<TrainerRun>& out);
bool read_value(const Json& value, std::optional<ContainerSpec>& out);
bool read_value(const Json& value, std::optional<ContainerRuntime>& out) {
  if (value.is_string()) out = from_word<ContainerRuntime>(value.get_ref<const std::string&>());
  return out.has_value();
}

/// Visits fields(); remembers the first key that is missing or of another type.
struct Reader {
  const Json& object;
  std::string& wrong;
  void operator()(const char* key, auto& value) const {
    if (!wrong.empty()) return;
    const auto found = object.find(key);
    if (found == object.end() || !read_value(*found, value)) wrong = key;
  }
  /// A key that was added later: lines written before keep the default.
  void optional(const char* key, auto& value) const {
    if (object.contains(key)) (*this)(key, value);
  }
};

bool read_value(const Json& value, std::optional<TrainerRun>& out) {
  if (!value.is_object()) return false;
  std::string wrong;
  fields(out.emplace(), Reader{value, wrong});
  return wrong.empty();
}

bool read_value(const Json& value, std::optional<ContainerSpec>& out) {
  if (!value.is_object()) return false;
  std::string wrong;
  fields(out.emplace(), Reader{value, wrong});
  return wrong.empty();
}

template <class T>
Result<T> read_fields(const Json& object, std::string_view line) {
  T message{};
  std::string wrong;
  fields(message, Reader{object, wrong});
  if (!wrong.empty()) return tl::unexpected(malformed(line, "key '" + wrong + "'"));
  return message;
}

/// Tries the alternatives of a variant by their words.
template <class Body, std::size_t Index = 0>
Result<Body> read_body(const Json& object, std::string_view type, std::string_view line) {
  if constexpr (Index < std::variant_size_v<Body>) {
    using Message = std::variant_alternative_t<Index, Body>;
    if (type != type_word<Message>) return read_body<Body, Index + 1>(object, type, line);
    return read_fields<Message>(object, line).map([](Message&& message) {
      return Body(std::move(message));
    });
  } else {
    return tl::unexpected(malformed(line, "unknown type"));
  }
}

template <class Body>
Result<Body> decode_body(const Json& object, std::string_view line) {
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string())
    return tl::unexpected(malformed(line, "key 'type'"));
  return read_body<Body>(object, type->get_ref<const std::string&>(), line);
}

template <class T>
Result<T> decode_spec(std::string_view text) {
  SHARDSWEEP_ASSIGN(const Json object, parse_object(text, longest_line * 16));
  return read_fields<T>(object, text);
}

template <class T>
std::string encode_spec(const T& spec) {
  Json object = Json::object();
  fields(spec, Writer{object});
  return dump(object, 1) + "\n";
}

}  // namespace

std::string encode(const ToLead& message) {
  Json head{{"n", message.n}, {"epoch", message.epoch}};
  return std::visit([&](const auto& body) { return line_of(head, body, longest_line); },
                    message.body);
}
std::string encode(const FromLead& message) {
  Json head{{"n", message.n}, {"t", message.t}};
  return std::visit([&](const auto& body) { return line_of(head, body, longest_line); },
                    message.body);
}
std::string encode(const ToNodeBody& message) {
  return std::visit([](const auto& body) { return line_of(Json::object(), body, max_line); },
                    message);
}
std::string encode(const FromNode& message) {
  // The first key tells our lines from what a task prolog or a library prints on stdout.
  Json head{{"shardsweep", message.node}};
  return std::visit([&](const auto& body) { return line_of(head, body, max_line); },
                    message.body);
}
std::string encode(const AttemptSpec& spec) {
  return encode_spec(spec);
}
std::string encode(const AllocationSpec& spec) {
  return encode_spec(spec);
}

Result<ToLead> decode_to_lead(std::string_view line) {
  SHARDSWEEP_ASSIGN(const Json object, parse_object(line, longest_line));
  ToLead message;
  std::string wrong;
  const Reader reader{object, wrong};
  reader("n", message.n);
  reader("epoch", message.epoch);
  if (!wrong.empty()) return tl::unexpected(malformed(line, "key '" + wrong + "'"));
  SHARDSWEEP_ASSIGN(message.body, decode_body<ToLeadBody>(object, line));
  return message;
}
Result<FromLead> decode_from_lead(std::string_view line) {
  SHARDSWEEP_ASSIGN(const Json object, parse_object(line, longest_line));
  FromLead message;
  std::string wrong;
  const Reader reader{object, wrong};
  reader("n", message.n);
  reader("t", message.t);
  if (!wrong.empty()) return tl::unexpected(malformed(line, "key '" + wrong + "'"));
  SHARDSWEEP_ASSIGN(message.body, decode_body<FromLeadBody>(object, line));
  return message;
}
Result<ToNodeBody> decode_to_node(std::string_view line) {
  SHARDSWEEP_ASSIGN(const Json object, parse_object(line, max_line));
  return decode_body<ToNodeBody>(object, line);
}
Result<FromNode> decode_from_node(std::string_view line) {
  SHARDSWEEP_ASSIGN(const Json object, parse_object(line, max_line));
  FromNode message;
  std::string wrong;
  Reader{object, wrong}("shardsweep", message.node);
  if (!wrong.empty()) return tl::unexpected(malformed(line, "not ours"));
  SHARDSWEEP_ASSIGN(message.body, decode_body<FromNodeBody>(object, line));
  return message;
}
Result<AttemptSpec> decode_attempt_spec(std::string_view text) {
  return decode_spec<AttemptSpec>(text);
}
Result<AllocationSpec> decode_allocation_spec(std::string_view text) {
  return decode_spec<AllocationSpec>(text);
}

}  // namespace shardsweep
