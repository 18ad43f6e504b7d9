// SPDX-License-Identifier: Apache-2.0
#include "attempt/effective_environment.hpp"

#include "attempt/container.hpp"
#include "text/characters.hpp"
#include "text/pieces.hpp"
#include "text/secrets.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

constexpr std::size_t longest_value = 512;
constexpr std::size_t most_environment_bytes = std::size_t{12} << 10;
constexpr std::size_t most_named = 4;
constexpr std::size_t longest_named = 80;
constexpr std::size_t most_words_of_an_interpreter = 2;

void add_entry(Variables& variables, std::string_view entry) {
  const std::size_t equals = entry.find('=');
  if (equals == std::string_view::npos || equals == 0) return;
  variables.insert_or_assign(
      std::string(entry.substr(0, equals)), std::string(entry.substr(equals + 1)));
}

/// A runtime puts its own folders in front of a list of them.
bool arrives_in(std::string_view name, std::string_view found, std::string_view wanted) {
  const bool is_list = name == "PATH" || name.ends_with("_PATH");
  return found == wanted || (is_list && found.find(wanted) != std::string_view::npos);
}

bool is_of_the_loader(std::string_view name) {
  return name == "PATH" || name.starts_with("LD_") || name.starts_with("PYTHON") ||
      name.starts_with("NVIDIA_") || name.starts_with("TRITON_") || name.starts_with("MALLOC_");
}

bool is_hidden(
    std::string_view name, std::string_view value, const std::vector<std::string>& secrets) {
  return is_secret(name, value) || std::find(secrets.begin(), secrets.end(), name) != secrets.end();
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Variables variables_in(std::string_view environ) {
  Variables variables;
  while (!environ.empty()) {
    const std::size_t end = std::min(environ.find('\0'), environ.size());
    add_entry(variables, environ.substr(0, end));
    environ.remove_prefix(std::min(end + 1, environ.size()));
  }
  return variables;
}

Variables variables_of(const std::vector<std::string>& entries) {
  Variables variables;
  for (const auto& entry : entries)
    add_entry(variables, entry);
  return variables;
}

// A newline behind the last zero byte says that all is there: no entry begins with one.
std::vector<std::string> telling_environment(
    const std::vector<std::string>& command, const std::string& file) {
  std::vector<std::string> words{
      "sh", "-c", R"((umask 077; { env -0 && echo; } >"$0") 2>/dev/null; exec "$@")", file};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string told_text(const std::vector<std::string>& entries) {
  std::string text;
  for (const auto& entry : entries)
    text.append(entry).push_back('\0');
  return text + '\n';
}

Variables told_environment(std::string_view text) {
  constexpr std::string_view end("\0\n", 2);
  return text.ends_with(end) ? variables_in(text.substr(0, text.size() - 1)) : Variables();
}

Variables wanted_inside(const AttemptSpec& spec, const Variables& given) {
  const bool launcher = spec.trainer && spec.trainer->per_node;
  Variables wanted;
  if (spec.container) wanted.insert(spec.container->env.begin(), spec.container->env.end());
  for (const auto& [name, value] : spec.env)
    wanted.insert_or_assign(name, value);
  // A retry adds to the user's own value.
  for (auto& [name, value] : wanted) {
    const auto found = given.find(name);
    if (found != given.end()) value = found->second;
  }
  for (const auto& [name, value] : given) {
    if (!launcher && is_of_the_world(name)) wanted.insert_or_assign(name, value);
  }
  return wanted;
}

std::vector<VariableOverride> overridden(const Variables& wanted, const Variables& found) {
  std::vector<VariableOverride> changes;
  for (const auto& [name, value] : wanted) {
    const auto inside = found.find(name);
    if (inside == found.end()) {
      changes.push_back({name, value, "nothing"});
    } else if (!arrives_in(name, inside->second, value)) {
      changes.push_back({name, value, inside->second});
    }
  }
  return changes;
}

std::string describe(const std::vector<VariableOverride>& changes, const std::string& image,
    const std::vector<std::string>& secrets) {
  const auto text_of = [&secrets](const VariableOverride& one) {
    if (is_hidden(one.name, one.found, secrets) || is_hidden(one.name, one.wanted, secrets))
      return fmt::format("{} has another value than the sweep set", one.name);
    return fmt::format("{} is '{}', but the sweep set '{}'", one.name,
        one_line(one.found, longest_named), one_line(one.wanted, longest_named));
  };
  const auto text = join_first(changes, most_named, "; ", text_of, "; ");
  return fmt::format(
      "the container overrides the environment: {} (image {}; its own variables, "
      "its start script or a hook of the site set it)",
      text, image);
}

Variables for_keeping(const Variables& variables, const Variables& wanted, Keeping keeping,
    const std::vector<std::string>& secrets) {
  Variables kept;
  std::size_t bytes = 0;
  for (const auto& [name, value] : variables) {
    const bool of_the_rank = wanted.contains(name) || is_of_the_world(name) ||
        is_of_the_libraries(name) || is_of_the_loader(name);
    if (keeping == Keeping::of_the_rank && !of_the_rank) continue;
    const std::string text = is_hidden(name, value, secrets) ? std::string(hidden_value)
                                                             : one_line(value, longest_value);
    bytes += name.size() + text.size();
    if (bytes > most_environment_bytes) break;
    kept.emplace(name, text);
  }
  return kept;
}

bool is_command_of_rank(
    const std::vector<std::string>& arguments, const std::vector<std::string>& command) {
  if (command.empty() || arguments.size() < command.size()) return false;
  const std::size_t more = arguments.size() - command.size();
  if (more > most_words_of_an_interpreter) return false;
  return base_name(arguments[more]) == base_name(command[0]) &&
      std::equal(command.begin() + 1, command.end(),
          arguments.begin() + static_cast<std::ptrdiff_t>(more) + 1);
}

}  // namespace shardsweep
