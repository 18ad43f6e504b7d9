// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/script.hpp"

#include "text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace shardsweep {
namespace {

constexpr std::string_view plain_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

struct Tag {
  std::size_t begin = 0;
  std::size_t end = 0;
  char kind = ' ';  ///< ' ', '?' or '*'
  std::string key;
};

class Renderer {
 public:
  Renderer(std::string_view name, const TemplateValues& values) : name_(name), values_(values) {}

  Result<std::string> run(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      SHARDSWEEP_TRY(add_line(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    SHARDSWEEP_TRY(check_all_used());
    return std::move(out_);
  }

 private:
  [[nodiscard]] tl::unexpected<Fault> error(const std::string& what) const {
    return fault(FaultKind::invalid_input, "{}:{}: {}", name_, line_, what);
  }

  Result<std::optional<Tag>> next_tag(std::string_view line, std::size_t from) const {
    Tag tag;
    tag.begin = line.find("{{", from);
    if (tag.begin == std::string_view::npos) return std::nullopt;
    const std::size_t close = line.find("}}", tag.begin);
    if (close == std::string_view::npos) return error("'{{' without '}}'");
    tag.end = close + 2;
    std::string_view inner = line.substr(tag.begin + 2, close - tag.begin - 2);
    if (!inner.empty() && (inner.front() == '?' || inner.front() == '*')) {
      tag.kind = inner.front();
      inner.remove_prefix(1);
    }
    tag.key = inner;
    if (!known(tag.key)) return error(fmt::format("unknown key '{}'", tag.key));
    return tag;
  }

  [[nodiscard]] bool known(const std::string& key) const {
    return values_.values.count(key) != 0 || values_.lists.count(key) != 0 ||
        std::find(values_.optional.begin(), values_.optional.end(), key) != values_.optional.end();
  }

  /// The line with its tags replaced; nothing if an optional key has no value. `element`
  /// stands for the list's.
  Result<std::optional<std::string>> fill(std::string_view line, const std::string* element) {
    std::string filled;
    std::size_t at = 0;
    for (;;) {
      SHARDSWEEP_ASSIGN(const auto tag, next_tag(line, at));
      if (!tag) break;
      filled += line.substr(at, tag->begin - at);
      at = tag->end;
      used_.insert(tag->key);
      const auto value = values_.values.find(tag->key);
      if (tag->kind == '?') {
        if (value == values_.values.end()) return std::nullopt;
      } else if (tag->kind == '*') {
        filled += *element;
      } else if (value == values_.values.end()) {
        return error(fmt::format("key '{}' has no value", tag->key));
      } else {
        filled += value->second;
      }
    }
    filled += line.substr(at);
    return filled;
  }

  Result<void> add_line(std::string_view line) {
    std::size_t at = 0;
    for (;;) {
      SHARDSWEEP_ASSIGN(const auto tag, next_tag(line, at));
      if (!tag) break;
      if (tag->kind == '*') return add_repeated(line, tag->key);
      at = tag->end;
    }
    return add(fill(line, nullptr));
  }

  Result<void> add_repeated(std::string_view line, const std::string& key) {
    used_.insert(key);
    const auto list = values_.lists.find(key);
    if (list == values_.lists.end()) return {};
    for (const std::string& element : list->second)
      SHARDSWEEP_TRY(add(fill(line, &element)));
    return {};
  }

  Result<void> add(Result<std::optional<std::string>> filled) {
    SHARDSWEEP_TRY(filled);
    if (*filled) out_ += **filled + '\n';
    return {};
  }

  Result<void> check_all_used() const {
    const auto unused = [this](const std::string& key) {
      return used_.count(key) == 0 &&
          std::find(values_.optional.begin(), values_.optional.end(), key) ==
          values_.optional.end();
    };
    for (const auto& [key, value] : values_.values) {
      if (unused(key)) return error(fmt::format("no line uses the key '{}'", key));
    }
    for (const auto& [key, list] : values_.lists) {
      if (unused(key)) return error(fmt::format("no line uses the list '{}'", key));
    }
    return {};
  }

  std::string_view name_;
  const TemplateValues& values_;
  std::string out_;
  std::set<std::string, std::less<>> used_;
  int line_ = 0;
};

}  // namespace

Result<std::string> render_template(
    std::string_view text, std::string_view name, const TemplateValues& values) {
  return Renderer(name, values).run(text);
}

std::string shell_quote(std::string_view word) {
  if (!word.empty() && word.find_first_not_of(plain_characters) == std::string_view::npos) {
    return std::string(word);
  }
  return shell_quoted(word);
}

std::string shell_command(const std::vector<std::string>& argv) {
  std::string command;
  for (const std::string& word : argv) {
    if (!command.empty()) command += ' ';
    command += shell_quote(word);
  }
  return command;
}

namespace {

/// sbatch reads the rest of the line up to white space or a comment; it knows quotes, but a
/// value that needs them is more likely a mistake, and a newline would begin a line of its own.
bool stands_in_directive(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte < 0x7f &&
        std::string_view("\"'\\#`$;&|<>").find(c) == std::string_view::npos;
  });
}

/// A value of the site's own: no shell sees a #SBATCH line, so [a|b] and a&b are plain text, and
/// quotes keep what blanks would end.
Result<std::string> site_option_value(std::string_view option, const std::string& value) {
  const bool ends_blank = value.empty() || value.front() == ' ' || value.back() == ' ';
  const bool stands = !ends_blank && std::all_of(value.begin(), value.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x7f &&
        std::string_view("\"'\\#").find(c) == std::string_view::npos;
  });
  if (stands) return value.find(' ') == std::string::npos ? value : fmt::format("\"{}\"", value);
  return fault(FaultKind::invalid_input,
      "site option {} '{}' cannot stand in a #SBATCH line: no quotes, control characters, \\ or #, "
      "and no blank at its ends",
      option, value);
}

/// A job has no login shell's functions. /etc/profile is not written for `set -u`.
constexpr const char* define_module =
    "type module >/dev/null 2>&1 || { set +eu; . /etc/profile; set -eu; }";

Result<std::vector<std::string>> site_options(const SiteSpec& site, std::int32_t nodes) {
  std::vector<std::string> options;
  for (const auto& [option, values] : site.slurm) {
    if (option == "exclude" || option == "nodelist") continue;  // joined with our own
    for (const SlurmValue& value : values) {
      if (nodes < value.from || nodes > value.to) continue;
      if (value.value.empty()) {
        options.push_back("--" + option);
        continue;
      }
      SHARDSWEEP_ASSIGN(const std::string word, site_option_value(option, value.value));
      options.push_back(fmt::format("--{}={}", option, word));
    }
  }
  return options;
}

/// True if the site sets the option, or its absence.
bool says(const SiteSpec& site, std::string_view option) {
  return site.slurm.contains(std::string(option)) ||
      std::find(site.slurm_without.begin(), site.slurm_without.end(), option) !=
      site.slurm_without.end();
}
bool says_any(const SiteSpec& site, std::initializer_list<std::string_view> options) {
  return std::any_of(options.begin(), options.end(),
      [&site](std::string_view option) { return says(site, option); });
}

/// sbatch takes the last of several equal options: what the site excludes and what is out stand
/// in one. A node that is tried again is the only one asked for.
Result<void> add_nodes(
    const SiteSpec& site, const ScriptContext& context, std::vector<std::string>& options) {
  std::string exclude = site_value(site, "exclude", context.nodes);
  for (const std::string& node : context.exclude)
    exclude += (exclude.empty() ? "" : ",") + node;
  std::string only = context.only_node;
  if (only.empty()) only = site_value(site, "nodelist", context.nodes);
  if (!context.only_node.empty()) exclude.clear();
  if (!exclude.empty()) {
    SHARDSWEEP_ASSIGN(const std::string word, directive_value("site option exclude", exclude));
    options.push_back("--exclude=" + word);
  }
  if (!only.empty()) {
    SHARDSWEEP_ASSIGN(const std::string word, directive_value("site option nodelist", only));
    options.push_back("--nodelist=" + word);
  }
  return {};
}

bool says_gpus(const SiteSpec& site) {
  return says_any(site, {"gpus-per-node", "gres", "gpus", "gpus-per-task", "tres-per-task"});
}

/// Adds defaults for options that the site leaves open.
void add_defaults(const SweepSpec& sweep, const SiteSpec& site, const ScriptContext& context,
    TemplateValues& values) {
  auto& defaults = values.lists["default_options"];
  if (!says_gpus(site))
    defaults.push_back(fmt::format("--gpus-per-node={}", sweep.cluster.gpus_per_node));
  if (!says(site, "exclusive")) defaults.emplace_back("--exclusive");
  if (!says_any(site, {"mem", "mem-per-cpu", "mem-per-gpu"})) defaults.emplace_back("--mem=0");
  if (!says(site, "time") && context.time_limit_s > 0) {
    // Whole minutes, never less than what was asked for.
    const auto minutes = static_cast<std::int64_t>(std::ceil(context.time_limit_s / 60));
    defaults.push_back("--time=" + std::to_string(minutes));
  }
}

}  // namespace

std::string option_for(const std::vector<SlurmValue>& values, std::int32_t nodes) {
  for (const SlurmValue& value : values) {
    if (value.from <= nodes && nodes <= value.to) return value.value;
  }
  return "";
}

std::string site_value(const SiteSpec& site, const std::string& option, std::int32_t nodes) {
  const auto found = site.slurm.find(option);
  return found == site.slurm.end() ? "" : option_for(found->second, nodes);
}

std::vector<SlurmValue> gpus_of_nodes(const SweepSpec& sweep, const SiteSpec& site) {
  if (!says_gpus(site)) return {{.value = fmt::format("gpu:{}", sweep.cluster.gpus_per_node)}};
  if (const auto gres = site.slurm.find("gres"); gres != site.slurm.end()) return gres->second;
  const auto found = site.slurm.find("gpus-per-node");
  std::vector<SlurmValue> values;
  if (found != site.slurm.end()) values = found->second;
  for (SlurmValue& value : values)
    value.value.insert(0, "gpu:");
  return values;
}

Result<std::string> directive_value(std::string_view what, const std::string& value) {
  if (stands_in_directive(value)) return value;
  return fault(FaultKind::invalid_input,
      "{} '{}' cannot stand in a #SBATCH line: no spaces, quotes, control characters or any of \\ "
      "# ` $ ; & | < >",
      what, value);
}

Result<std::string> output_value(const std::string& path) {
  std::string escaped;
  for (const char c : path)
    escaped += c == '%' ? std::string("%%") : std::string(1, c);
  return directive_value("the log's path", escaped);
}

Result<TemplateValues> script_values(
    const SweepSpec& sweep, const SiteSpec& site, const ScriptContext& context) {
  TemplateValues values;
  SHARDSWEEP_ASSIGN(values.values["job_name"], directive_value("the job name", context.job_name));
  SHARDSWEEP_ASSIGN(values.values["output"], output_value(context.paths.log().string()));
  values.values["sweep"] = sweep.name;
  values.values["nodes"] = std::to_string(context.nodes);
  values.values["lead_command"] =
      shell_command({context.agent, "lead", "--dir", context.paths.dir.string()});
  SHARDSWEEP_ASSIGN(values.lists["slurm_options"], site_options(site, context.nodes));
  SHARDSWEEP_TRY(add_nodes(site, context, values.lists["slurm_options"]));
  add_defaults(sweep, site, context, values);
  values.lists["modules"];
  if (!site.modules.empty()) values.lists["modules"].emplace_back(define_module);
  for (const std::string& module : site.modules) {
    values.lists["modules"].push_back("module load " + shell_quote(module));
  }
  values.lists["prolog"] = site.prolog;
  values.lists["env"];
  for (const auto& [name, value] : site.env) {
    values.lists["env"].push_back(fmt::format("{}={}", name, shell_quote(value)));
  }
  return values;
}

}  // namespace shardsweep
