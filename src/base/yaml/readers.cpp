// SPDX-License-Identifier: Apache-2.0
// Nothing is guessed. A number in quotes is a text, a unit has to be written, a key that is not
// known is a mistake; and each refusal says what to write. So a file that is accepted means one
// thing.
#include "yaml/readers.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/secrets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::size_t most_value_bytes = 32768;  // limit of a variable

/// A plain scalar, for numbers and booleans: quotes say that a text was meant.
Result<std::string_view> plain(const YamlNode& node, std::string_view what, std::string_view kind) {
  if (node.kind != YamlNode::Kind::scalar) {
    return refuse(node, "expected {} for '{}', got {}", kind, what, describe(node));
  }
  if (node.quoted) {
    return refuse(node, "expected {} for '{}', got the text {}; remove the quotes", kind, what,
        in_quotes(node.text));
  }
  return std::string_view(node.text);
}

template <class T>
Result<T> placed(const YamlNode& node, Parsed<T> parsed) {
  if (!parsed) return refuse(node, parsed.error());
  return *std::move(parsed);
}

Result<void> check_variable(const YamlNode& key) {
  if (!is_environment_name(key.text) || key.text.size() > most_text_bytes) {
    return refuse(key,
        "{} is not a valid name for an environment variable; use letters, digits and '_', and do "
        "not begin with a digit",
        in_quotes(key.text));
  }
  const auto reason = owned_variable(key.text);
  if (!reason.empty()) return refuse(key, "'{}' cannot be set; {}", key.text, reason);
  return {};
}

}  // namespace

std::string_view owned_variable(std::string_view name) {
  constexpr std::array<std::string_view, 6> of_the_world{
      "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  if (name == "CUDA_VISIBLE_DEVICES") return "the agent sets it, so that each rank has its own GPU";
  if (name.rfind("SHARDSWEEP_", 0) == 0) return "names that begin with SHARDSWEEP_ are reserved";
  if (std::find(of_the_world.begin(), of_the_world.end(), name) != of_the_world.end())
    return "the agent sets it, so that the ranks find each other";
  return {};
}

tl::unexpected<Fault> refuse(const YamlNode& node, std::string_view what) {
  return tl::unexpected(node.source->fault_at(node.line, node.column, what));
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::scalar:
      break;
  }
  return in_quotes(node.text);
}

Result<void> expect_map(const YamlNode& node, std::string_view what) {
  if (node.kind == YamlNode::Kind::map) return {};
  return refuse(node, "expected a map ('key: value') for {}, got {}", what, describe(node));
}

Result<void> expect_list(const YamlNode& node, std::string_view what) {
  if (node.kind == YamlNode::Kind::list) return {};
  return refuse(node, "expected a list for {}, got {}", what, describe(node));
}

void check_keys(const YamlNode& map, std::string_view what,
    const std::vector<std::string_view>& known, Mistakes& mistakes,
    std::string (*elsewhere)(std::string_view)) {
  for (const auto& key : map.keys) {
    if (std::find(known.begin(), known.end(), key->text) != known.end()) continue;
    if (const auto place = elsewhere == nullptr ? std::string() : elsewhere(key->text);
        !place.empty()) {
      mistakes.add(*key, place);
      continue;
    }
    mistakes.add(*key, unknown_key(key->text, what, known));
  }
}

const YamlNode* find(const YamlNode& map, std::string_view key) {
  for (std::size_t at = 0; at < map.keys.size(); ++at) {
    if (map.keys[at]->text == key) return map.items[at].get();
  }
  return nullptr;
}

bool is_misspelt(const YamlNode& map, std::string_view key) {
  return std::any_of(map.keys.begin(), map.keys.end(),
      [&](const auto& each) { return nearest(each->text, {key}) == key; });
}

const YamlNode* need(
    const YamlNode& map, std::string_view what, std::string_view key, Mistakes& mistakes) {
  const auto* found = find(map, key);
  if (found != nullptr) return found;
  if (!is_misspelt(map, key)) mistakes.add(map, "missing key '{}' in {}", key, what);
  return nullptr;
}

Result<std::string> read_text(
    const YamlNode& node, std::string_view what, std::size_t most_bytes, Lines lines) {
  if (node.kind == YamlNode::Kind::null) {
    return refuse(node, "expected a text for '{}', got nothing; write '' for an empty text", what);
  }
  if (node.kind != YamlNode::Kind::scalar)
    return refuse(node, "expected a text for '{}', got {}", what, describe(node));
  if (node.text.size() > most_bytes) {
    return refuse(node, "'{}' has {} bytes; the limit is {}", what, node.text.size(), most_bytes);
  }
  auto checked = node.text;
  if (lines == Lines::many) {
    std::replace_if(
        checked.begin(), checked.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  }
  if (has_control(checked)) {
    return refuse(node, "'{}' holds a control character: {}", what, in_quotes(node.text));
  }
  return node.text;
}

Result<std::string> read_name(const YamlNode& node, std::string_view what) {
  if (node.kind != YamlNode::Kind::scalar)
    return refuse(node, "expected a name for '{}', got {}", what, describe(node));
  if (!is_name(node.text)) {
    return refuse(
        node, "{} is not a valid name for '{}'; {}", in_quotes(node.text), what, name_rule);
  }
  return node.text;
}

Result<std::vector<std::string>> read_texts(const YamlNode& node, std::string_view what) {
  SHARDSWEEP_TRY(expect_list(node, fmt::format("'{}'", what)));
  std::vector<std::string> texts;
  for (const auto& item : node.items)
    SHARDSWEEP_SET(texts.emplace_back(), read_text(*item, what));
  return texts;
}

Result<std::int64_t> read_count(const YamlNode& node, const Range& range) {
  SHARDSWEEP_ASSIGN(const auto text, plain(node, range.what, "a whole number"));
  return placed(node, parse_count(text, range));
}

Result<std::int64_t> read_bytes(const YamlNode& node, const Range& range) {
  SHARDSWEEP_ASSIGN(const auto text, plain(node, range.what, "a size such as 80GiB"));
  return placed(node, parse_bytes(text, range));
}

Result<bool> read_bool(const YamlNode& node, std::string_view what) {
  SHARDSWEEP_ASSIGN(const auto text, plain(node, what, "true or false"));
  return placed(node, parse_bool(text));
}

Result<double> read_real(const YamlNode& node, std::string_view what, std::string_view kind,
    Parsed<double> (*parse)(std::string_view)) {
  SHARDSWEEP_ASSIGN(const auto text, plain(node, what, kind));
  return placed(node, parse(text));
}

Result<std::vector<std::string>> read_passed_names(const YamlNode& node, Stars stars) {
  SHARDSWEEP_ASSIGN(auto names, read_texts(node, "pass_env"));
  for (const std::string& name : names) {
    const bool starred = stars == Stars::may_end && name.ends_with('*');
    if (name == "*" && starred) continue;
    if (is_environment_name(starred ? name.substr(0, name.size() - 1) : name)) continue;
    return refuse(
        node, "{} in 'pass_env' is not a valid name for an environment variable", in_quotes(name));
  }
  return names;
}

std::map<std::string, std::string> read_environment(
    const YamlNode& node, Mistakes& mistakes, std::string_view what) {
  std::map<std::string, std::string> variables;
  if (!mistakes.take(node, expect_map(node, what))) return variables;
  for (std::size_t at = 0; at < node.keys.size(); ++at) {
    const auto& key = *node.keys[at];
    if (!mistakes.take(key, check_variable(key))) continue;
    auto text = read_text(*node.items[at], key.text, most_value_bytes);
    // A secret's value must not appear in the message.
    if (!text && (what == "'secrets'" || may_be_secret(key.text)))
      text = refuse(*node.items[at], "'{}' takes a text of one line, of at most {} bytes", key.text,
          most_value_bytes);
    mistakes.assign(variables[key.text], *node.items[at], std::move(text));
  }
  return variables;
}

}  // namespace shardsweep::config
