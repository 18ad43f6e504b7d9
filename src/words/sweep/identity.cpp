// SPDX-License-Identifier: Apache-2.0
// The canonical text that identities are hashes of, and the readable names made from them.
#include "sweep/identity.hpp"

#include "text/numbers.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

using Buffer = fmt::memory_buffer;

constexpr std::size_t slug_limit = 80;
constexpr std::size_t model_limit = 24;
constexpr std::size_t long_digits = 16;

template <class... Args>
void put(Buffer& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

std::string_view view(const Buffer& buffer) {
  return {buffer.data(), buffer.size()};
}

// Length first, so that no text can pass for a key and a value.
void put_text(Buffer& out, std::string_view key, std::string_view text) {
  put(out, "{} {}:{}\n", key, text.size(), text);
}

void put_value(Buffer& out, const AxisInfo& axis, std::int64_t value) {
  if (axis.kind == AxisKind::word) {
    append_text(out, axis.words[static_cast<std::size_t>(value)]);
  } else {
    append_integer(out, value);
  }
}

void put_model(Buffer& out, const ModelSpec& model) {
  put_text(out, "model", model.name);
  for (const auto& field : shape_fields) {
    const auto value = model.*field.member;
    if (!field.optional || value != 0) put(out, "{} {}\n", field.name, value);
  }
  if (model.tied_embeddings) put(out, "tied_embeddings 1\n");
}

/// Hashes the trainer without its folder: the same trainer in another folder measures the same.
void put_trainer(Buffer& out, const TrainerSpec& trainer) {
  for (const auto& word : trainer.argv)
    put_text(out, "argv", word);
  put_text(out, "log", trainer.log);
  for (const auto& pattern : trainer.patterns)
    put_text(out, "pattern", pattern);
  put(out, "per_node {}\n", trainer.per_node ? 1 : 0);
  for (const auto& [name, text] : trainer.files) {
    put_text(out, "file", name);
    put_text(out, "holds", text);
  }
}

/// Hashes the container, with all that may change figures in it.
void put_container(Buffer& out, const ContainerSpec& container) {
  put_text(out, "container", word_of(*container.runtime));
  put_text(out, "image", container.image);
  for (const auto& mount : container.mounts)
    put_text(out, "mount", mount);
  for (const auto& option : container.options)
    put_text(out, "option", option);
  for (const auto& [name, value] : container.env) {
    put_text(out, "inside", name);
    put_text(out, "is", value);
  }
}

void put_surroundings(Buffer& out, const SweepSpec& sweep, const Capabilities& runner,
    const std::map<std::string, std::string>& site_env) {
  put(out, "shardsweep trial 1\n");
  // A sweep file without a runner's name always meant shardbench.
  put_text(out, "runner", sweep.runner.name.empty() ? "shardbench" : sweep.runner.name);
  put_text(out, "program", runner.runner);
  put_text(out, "version", runner.version);
  if (sweep.runner.profile != own_profile) put_text(out, "profile", sweep.runner.profile);
  for (const auto& arg : sweep.runner.args)
    put_text(out, "arg", arg);
  if (sweep.runner.is_trainer()) put_trainer(out, sweep.runner.trainer);
  if (!sweep.runner.snapshot_hash.empty()) put_text(out, "snapshot", sweep.runner.snapshot_hash);
  if (sweep.container.is_used()) put_container(out, sweep.container);
  put_text(out, "cluster", sweep.cluster.name);
  put_text(out, "gpu", sweep.cluster.gpu);
  put(out, "gpus_per_node {}\nmemory {}\n", sweep.cluster.gpus_per_node,
      sweep.cluster.memory_bytes);
  auto env = sweep.env;
  env.insert(site_env.begin(), site_env.end());
  for (const auto& [name, value] : env) {
    put_text(out, "env", name);
    put_text(out, "is", value);
  }
  // Secrets enter by name alone: a login changes no figure, and a renewed key makes no trial new.
  for (const auto& [name, value] : sweep.secrets)
    put_text(out, "secret", name);
  for (const auto& entry : sweep.pass_env)
    put_text(out, "secret", entry);
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Safe in file names, job names and shells; never starts with '-' or '.'.
std::string safe_name(std::string_view text, std::string_view if_empty) {
  std::string out;
  for (const char c : text) {
    const bool keep = is_plain(c) || ((c == '.' || c == '_' || c == '-') && !out.empty());
    if (keep) {
      out += c;
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
    if (out.size() == model_limit) break;
  }
  while (!out.empty() && !is_plain(out.back()))
    out.pop_back();
  return out.empty() ? std::string(if_empty) : out;
}

/// Prefix of an axis' value in a slug. Slugs are stored, so one axis keeps a longer name than in a
/// layout's text.
std::string_view prefix_of(const AxisInfo& axis) {
  return axis.name == "recompute" ? "rc-" : axis.short_name;
}

void put_extra(Buffer& out, const AxisInfo& axis, std::int64_t value) {
  const auto prefix = prefix_of(axis);
  if (axis.kind == AxisKind::toggle) {
    append_text(out, value != 0 ? "-" : "-no-");
    append_text(out, prefix);
    return;
  }
  out.push_back('-');
  append_text(out, prefix);
  put_value(out, axis, value);
}

void put_layout(Buffer& out, const Point& point) {
  const auto part = [&](std::string_view name, std::int64_t value) {
    append_text(out, name);
    append_integer(out, value);
  };
  const auto& layout = point.layout;
  const bool whole_nodes = point.nodes > 0;
  part(whole_nodes ? "-n" : "-g", whole_nodes ? point.nodes : point.gpus);
  part("-dp", layout.dp);
  part("tp", layout.tp);
  part("pp", layout.pp);
  part("-mb", layout.micro_batch);
  part("ga", layout.grad_accum);
  for (const auto& axis : axes()) {
    const bool stands_already = axis.is(AxisUse::world) || axis.is(AxisUse::named);
    const auto value = axis.get(point);
    if (!stands_already && value != axis.default_value) put_extra(out, axis, value);
  }
}

// Axes, beside the model, that put_layout() writes whatever their values.
constexpr std::array<std::string_view, 6> written{
    "model", "dp", "tp", "pp", "micro_batch", "grad_accum"};
static_assert(names_all(written, AxisUse::named));

}  // namespace

Identifier::Identifier(const SweepSpec& sweep, const Capabilities& runner,
    const std::map<std::string, std::string>& site_env) {
  Buffer shared;
  put_surroundings(shared, sweep, runner, site_env);
  Fnv128 hash;
  hash.add(view(shared));
  for (const auto& model : sweep.models) {
    Buffer text;
    put_model(text, model);
    by_model_.push_back(hash);
    by_model_.back().add(view(text));
    models_.push_back(safe_name(model.name, "model"));
  }
  for (std::size_t i = 0; i < sweep.vars.size(); ++i) {
    Var var{i, {}, {}};
    for (const auto& value : sweep.vars[i].values) {
      Buffer text;
      put_text(text, "var", sweep.vars[i].name);
      put_text(text, "is", value);
      var.text.emplace_back(view(text));
      var.in_slug.push_back(
          fmt::format("-{}.{}", safe_name(sweep.vars[i].name, "var"), safe_name(value, "empty")));
    }
    vars_.push_back(std::move(var));
  }
  std::sort(vars_.begin(), vars_.end(), [&](const Var& a, const Var& b) {
    return sweep.vars[a.index].name < sweep.vars[b.index].name;
  });
}

Fnv128 Identifier::hash(const Point& point, bool lane) const {
  Buffer text;
  if (lane) put(text, "lane\n");
  for (const auto& axis : axes()) {
    if (axis.kind == AxisKind::model || (lane && !axis.in_lane_key)) continue;
    const auto value = axis.get(point);
    if (value == axis.default_value) continue;
    append_text(text, axis.name);
    text.push_back('=');
    put_value(text, axis, value);
    text.push_back('\n');
  }
  if (!lane && point.repeat != 1) put(text, "repeat={}\n", point.repeat);
  auto hash = by_model_.at(static_cast<std::size_t>(point.model));
  hash.add(view(text));
  for (const auto& var : vars_)
    hash.add(var.text.at(static_cast<std::size_t>(point.vars.at(var.index))));
  return hash;
}

std::string Identifier::identity(const Point& point) const {
  return hash(point, false).hex();
}

std::string Identifier::lane_key(const Point& point) const {
  return hash(point, true).hex();
}

std::string Identifier::slug(const Point& point) const {
  const auto digits = identity(point);
  Buffer text;
  append_text(text, models_.at(static_cast<std::size_t>(point.model)));
  put_layout(text, point);
  for (const auto& var : vars_)
    append_text(text, var.in_slug.at(static_cast<std::size_t>(point.vars.at(var.index))));
  if (point.repeat != 1) put(text, "-r{}", point.repeat);

  if (text.size() + 1 + slug_digits > slug_limit) {
    text.resize(slug_limit - 2 - long_digits);
    text.push_back('-');
    append_text(text, std::string_view(digits).substr(slug_digits, long_digits - slug_digits));
  }
  text.push_back('-');
  append_text(text, std::string_view(digits).substr(0, slug_digits));
  return {text.data(), text.size()};
}

std::string identity(const SweepSpec& sweep, const Capabilities& runner, const Point& point,
    const std::map<std::string, std::string>& site_env) {
  return Identifier(sweep, runner, site_env).identity(point);
}

std::string slug(const SweepSpec& sweep, const Capabilities& runner, const Point& point,
    const std::map<std::string, std::string>& site_env) {
  return Identifier(sweep, runner, site_env).slug(point);
}

std::string lane_key(const SweepSpec& sweep, const Capabilities& runner, const Point& point,
    const std::map<std::string, std::string>& site_env) {
  return Identifier(sweep, runner, site_env).lane_key(point);
}

}  // namespace shardsweep
