// SPDX-License-Identifier: Apache-2.0
#include "daemon/sweeps.hpp"

#include "sweep/launch.hpp"

#include <shardsweep/secrets_file.hpp>
#include <shardsweep/snapshot.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

/// First line, without the quoted text.
std::string first_line(const std::string& why) {
  return why.substr(0, why.find('\n'));
}

}  // namespace

const SweepContext& Sweeps::known(SweepId id) const {
  static const SweepContext none;
  const auto found = contexts_.find(id);
  return found == contexts_.end() ? none : found->second;
}

void Sweeps::take_back_resumed() {
  std::erase_if(apart_, [this](SweepId id) {
    const SweepRow* sweep = world_.sweep(id);
    return sweep == nullptr || sweep->state == SweepState::active;
  });
}

const Policy& Sweeps::policy_of(SweepId sweep) const {
  const auto found = contexts_.find(sweep);
  return found == contexts_.end() ? parts_.policy : found->second.spec.policy;
}

/// Versions before this stored values with the sweep: they go to where commands put them now.
Result<void> Sweeps::keep_secrets(const std::string& name, SweepSpec& sweep) const {
  const auto file = parts_.home.secrets_of(name);
  const bool stored = std::any_of(sweep.secrets.begin(), sweep.secrets.end(),
      [](const auto& one) { return !one.second.empty(); });
  if (!stored) return {};
  SHARDSWEEP_ASSIGN(Secrets all, read_secrets(file));
  const std::size_t known = all.size();
  all.insert(sweep.secrets.begin(), sweep.secrets.end());
  for (auto& [variable, value] : sweep.secrets)
    value.clear();
  return all.size() == known ? Result<void>() : write_secrets(file, all);
}

Result<SweepContext*> Sweeps::context_of(const SweepRow& sweep) {
  auto context = read_context(sweep);
  if (context) {
    unloaded_.erase(sweep.id);
  } else {
    unloaded_[sweep.id] = first_line(context.error().what);
  }
  return context;
}

std::map<std::string, std::string> Sweeps::named(const std::map<SweepId, std::string>& why) const {
  std::map<std::string, std::string> names;
  for (const auto& [id, words] : why)
    if (const SweepRow* sweep = world_.sweep(id)) names.emplace(sweep->name, words);
  return names;
}

void Sweeps::note_watched(SweepId id, const std::string& why) {
  if (why.empty()) {
    unwatched_.erase(id);
  } else {
    unwatched_[id] = first_line(why);
  }
}

Result<SweepContext*> Sweeps::read_context(const SweepRow& sweep) {
  SweepContext& context = contexts_[sweep.id];
  if (context.site_text != sweep.site) {
    SHARDSWEEP_ASSIGN(context.site, load_site_text(sweep.site, "site of " + sweep.name));
    context.site_text = sweep.site;
  }
  if (context.resolved != sweep.resolved || context.resolved.empty()) {
    auto spec = load_sweep_text(sweep.resolved, sweep.name, {parts_.installation.presets, {}});
    if (!spec) {
      return fault(FaultKind::corrupt, "cannot load the stored file of sweep '{}': {}", sweep.name,
          spec.error().what);
    }
    SHARDSWEEP_TRY(keep_secrets(sweep.name, *spec));
    const auto tree = snapshot_tree(parts_.home, spec->runner.snapshot_hash);
    context.submitted = spec->remeasure.wanted() ? *spec : SweepSpec{};
    context.spec = in_snapshot(std::move(*spec), tree.string());
    context.resolved = sweep.resolved;
  }
  return &context;
}

SweepSpec Sweeps::spec_from(const SweepContext& context, const std::string& snapshot) const {
  if (snapshot.empty() || snapshot == context.spec.runner.snapshot_hash) return context.spec;
  SweepSpec spec = context.submitted;
  spec.runner.snapshot_hash = snapshot;
  return in_snapshot(std::move(spec), snapshot_tree(parts_.home, snapshot).string());
}

}  // namespace shardsweep
