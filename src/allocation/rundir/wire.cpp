// SPDX-License-Identifier: Apache-2.0
// Messages and specs to JSON lines and back: writer and reader visit what each struct lists
// (described.hpp).
#include "record/json_values.hpp"
#include "text/characters.hpp"

#include <shardsweep/protocol.hpp>

#include <utility>

namespace shardsweep {
namespace {

using namespace json;

constexpr std::size_t longest_text = 4000;  // limit of a cause in a file
constexpr std::size_t longest_also = 300;   // limit of facts that contradict the cause

// ---- what each message is called

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
inline constexpr std::string_view type_word<Checked> = "checked";
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
inline constexpr std::string_view type_word<CheckNode> = "check";
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
template <>
inline constexpr std::string_view type_word<NodeChecked> = "checked";

// ---- writing

struct Writer {
  Json& object;
  void operator()(const auto& field, const auto& value) const {
    if (field.is(Flag::optional) && is_empty(value)) return;
    write(object[std::string(field.name)], value);
  }

 private:
  static bool is_empty(const auto& value) {
    if constexpr (requires { value.empty(); }) return value.empty();
    if constexpr (requires { value.has_value(); }) return !value.has_value();
    if constexpr (requires { word_of(value); }) return word_of(value).empty();
    return false;
  }
  template <Worded Enum>
  static void write(Json& out, const Enum& value) {
    out = std::string(word_of(value));
  }
  static void write(Json& out, const std::vector<Cause>& causes) {
    out = Json::array();
    for (const Cause& cause : causes) {
      Json& object = out.emplace_back(Json::object());
      visit_values(cause, [&object](const auto& key, const auto& value) {
        if (!key.is(Flag::optional) || value != Cause{}.*key.member)
          write(object[std::string(key.name)], value);
      });
    }
  }
  static void write(Json& out, const std::optional<ContainerRuntime>& runtime) {
    out = std::string(word_of(runtime.value_or(ContainerRuntime::none)));
  }
  template <class T>
  static void write(Json& out, const std::optional<T>& inner) {
    out = Json::object();
    visit_values(*inner, Writer{out});
  }
  static void write(Json& out, const auto& value) { out = value; }
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

/// The free text of a message, which may be cut; nullptr if it has none.
template <class T>
std::string* free_text(T& message) {
  if constexpr (requires { message.ending; }) {
    return &message.ending.cause;
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
  // Contradictions have a limit of their own.
  if constexpr (requires { message.ending; }) cut_text(message.ending.also, longest_also);
  head["type"] = std::string(type_word<T>);
  visit_values(message, Writer{head});
  std::string line = dump(head);
  // Escapes make up to six bytes of one, so it is cut by a sixth of what is too much.
  while (line.size() >= limit && text != nullptr && !text->empty()) {
    const std::size_t cut = (line.size() - limit) / 6 + 1;
    cut_text(*text, text->size() > cut ? text->size() - cut : 0);
    visit_values(message, Writer{head});
    line = dump(head);
  }
  // Cut `also` to a sixth: an escape takes six bytes, and an empty cause did not make enough room.
  if constexpr (requires { message.ending; }) {
    if (line.size() >= limit) {
      cut_text(message.ending.also, longest_also / 6);
      visit_values(message, Writer{head});
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
bool read_value(const Json& value, std::map<std::string, std::string>& out) {
  if (!value.is_object()) return false;
  for (const auto& [key, item] : value.items()) {
    if (!read_value(item, out[key])) return false;
  }
  return true;
}

bool read_value(const Json& value, std::map<std::string, double>& out) {
  if (!value.is_object()) return false;
  for (const auto& [key, item] : value.items()) {
    if (!read_value(item, out[key])) return false;
  }
  return true;
}

bool read_value(const Json& value, std::vector<Cause>& out);
template <class T>
bool read_value(const Json& value, std::optional<T>& out);
bool read_value(const Json& value, std::optional<ContainerRuntime>& out) {
  if (value.is_string()) out = from_word<ContainerRuntime>(value.get_ref<const std::string&>());
  return out.has_value();
}

/// Remembers the first key that is missing or of another type.
struct Reader {
  const Json& object;
  std::string& wrong;
  void operator()(const auto& field, auto& value) const {
    if (!field.is(Flag::optional) || object.contains(std::string(field.name)))
      read(std::string(field.name), value);
  }
  void read(const std::string& key, auto& value) const {
    if (!wrong.empty()) return;
    const auto found = object.find(key);
    if (found == object.end() || !read_value(*found, value)) wrong = key;
  }
};

template <class T>
bool read_value(const Json& value, std::optional<T>& out) {
  if (!value.is_object()) return false;
  std::string wrong;
  visit_values(out.emplace(), Reader{value, wrong});
  return wrong.empty();
}

bool read_value(const Json& value, std::vector<Cause>& out) {
  if (!value.is_array() || value.size() > most_causes) return false;
  std::string wrong;
  for (const auto& item : value) {
    if (!item.is_object()) return false;
    visit_values(out.emplace_back(), Reader{item, wrong});
  }
  return wrong.empty();
}

template <class T>
Result<T> read_fields(const Json& object, std::string_view line) {
  T message{};
  std::string wrong;
  visit_values(message, Reader{object, wrong});
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
  visit_values(spec, Writer{object});
  return dump(object, 1) + "\n";
}

}  // namespace

std::string encode(const ToLead& message) {
  Json head{{"n", message.n}, {"epoch", message.epoch}};
  return std::visit(
      [&](const auto& body) { return line_of(head, body, longest_line); }, message.body);
}
std::string encode(const FromLead& message) {
  Json head{{"n", message.n}, {"t", message.t}};
  return std::visit(
      [&](const auto& body) { return line_of(head, body, longest_line); }, message.body);
}
std::string encode(const ToNodeBody& message) {
  return std::visit(
      [](const auto& body) { return line_of(Json::object(), body, max_line); }, message);
}
std::string encode(const FromNode& message) {
  // The first key tells our lines from what a task prolog or a library prints on stdout.
  Json head{{"shardsweep", message.node}};
  return std::visit([&](const auto& body) { return line_of(head, body, max_line); }, message.body);
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
  reader.read("n", message.n);
  reader.read("epoch", message.epoch);
  if (!wrong.empty()) return tl::unexpected(malformed(line, "key '" + wrong + "'"));
  SHARDSWEEP_ASSIGN(message.body, decode_body<ToLeadBody>(object, line));
  return message;
}
Result<FromLead> decode_from_lead(std::string_view line) {
  SHARDSWEEP_ASSIGN(const Json object, parse_object(line, longest_line));
  FromLead message;
  std::string wrong;
  const Reader reader{object, wrong};
  reader.read("n", message.n);
  reader.read("t", message.t);
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
  Reader{object, wrong}.read("shardsweep", message.node);
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
