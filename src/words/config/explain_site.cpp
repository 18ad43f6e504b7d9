// SPDX-License-Identifier: Apache-2.0
// A site as a complete site file, to be kept with a sweep.
#include "config/container.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

namespace shardsweep {
namespace {

using config::yaml_text;

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items)
    text += (text.empty() ? "" : ", ") + yaml_text(item);
  return "[" + text + "]";
}

std::string value_of(const SlurmValue& value) {
  return value.value.empty() ? "true" : yaml_text(value.value);
}

std::string nodes_of(const SlurmValue& value) {
  if (value.from == value.to) return fmt::format("\"{}\"", value.from);
  if (value.to == SlurmValue{}.to) return fmt::format("\"{}-\"", value.from);
  return fmt::format("\"{}-{}\"", value.from, value.to);
}

std::string option_of(const std::vector<SlurmValue>& values) {
  const SlurmValue all{};
  if (values.size() == 1 && values[0].from == all.from && values[0].to == all.to) {
    return value_of(values[0]);
  }
  std::string text;
  for (const SlurmValue& value : values) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", nodes_of(value), value_of(value));
  }
  return "{" + text + "}";
}

}  // namespace

std::string explain_site(const SiteSpec& site) {
  std::string text = "# A complete site file.\n";
  const auto add = [&text](std::string_view key, const std::string& value) {
    text += fmt::format("{}: {}\n", key, value);
  };
  if (site.backend != Backend::none) add("backend", std::string(word_of(site.backend)));
  if (!site.env.empty()) {
    text += "env:\n";
    for (const auto& [name, value] : site.env)
      add("  " + name, yaml_text(value));
  }
  text += config::container_lines(site.container);
  add("pass_env", list_of(site.pass_env));
  add("modules", list_of(site.modules));
  add("prolog", list_of(site.prolog));
  if (!site.job_template.empty()) add("template", yaml_text(site.job_template));
  add("launch", std::string(word_of(site.launch)));
  add("strict", site.strict ? "true" : "false");
  if (!site.rest.url.empty()) {
    text += "slurmrestd:\n";
    add("  url", yaml_text(site.rest.url));
    if (site.rest.plain_http) add("  plain_http", "true");
    if (!site.rest.token_file.empty()) add("  token_file", yaml_text(site.rest.token_file));
    if (!site.rest.user.empty()) add("  user", yaml_text(site.rest.user));
  }
  if (site.notify.wanted()) {
    text += "notify:\n";
    if (!site.notify.url.empty()) add("  url", yaml_text(site.notify.url));
    if (!site.notify.url_file.empty()) add("  url_file", yaml_text(site.notify.url_file));
    if (!site.notify.header_file.empty())
      add("  header_file", yaml_text(site.notify.header_file));
    std::vector<std::string> events;
    for (const NotifyEvent event : site.notify.events)
      events.emplace_back(notify_words.at(static_cast<std::size_t>(event)));
    add("  events", list_of(events));
  }
  if (site.slurm.empty() && site.slurm_without.empty()) return text;
  text += "slurm:\n";
  for (const auto& [option, values] : site.slurm)
    add("  " + option, option_of(values));
  for (const std::string& option : site.slurm_without)
    add("  " + option, "false");
  return text;
}

}  // namespace shardsweep
