// SPDX-License-Identifier: Apache-2.0
#include "cli/passing.hpp"

#include "sweep/passed_variables.hpp"
#include "text/secrets.hpp"

#include <shardsweep/command.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/secrets_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

Fault missing_in(const std::string& sweep, const std::vector<std::string>& names) {
  return {FaultKind::invalid_input,
      fmt::format(
          "{}, but '{}' passes {} on to its ranks. Set {} and try again; nothing was changed.",
          missing_text(names), sweep, names.size() == 1 ? "it" : "them",
          names.size() == 1 ? "it" : "them")};
}

std::set<SweepId> sweeps_that_go_on(const Steps& steps) {
  std::set<SweepId> ids;
  for (const SweepStep& step : steps.sweeps) {
    if (step.effect == SweepEffect::activate) ids.insert(step.id);
  }
  for (const TrialStep& step : steps.trials) {
    if (step.effect == TrialEffect::plan) ids.insert(step.trial.sweep);
  }
  return ids;
}

Result<void> renew_secrets_of(const Session& session, const std::string& name,
    const std::string& resolved, const std::vector<std::string>& site_names) {
  auto sweep = load_sweep_text(resolved, name, {session.installation.presets, {}});
  // The text of an imported table is no sweep file.
  if (!sweep) return {};
  const auto file = session.home.secrets_of(name);
  SHARDSWEEP_ASSIGN(const Secrets kept, read_secrets(file));
  if (kept.empty() && sweep->secrets.empty() && sweep->pass_env.empty()) return {};
  const auto shell = own_environment();
  PassedVariables passed = take_variables(*sweep, shell, kept);
  if (!passed.missing.empty()) return tl::unexpected<Fault>(missing_in(name, passed.missing));
  // Variables that the site file passes on are taken from this shell. What the site gave before is
  // kept.
  SweepSpec of_site;
  std::copy_if(site_names.begin(), site_names.end(), std::back_inserter(of_site.pass_env),
      [&](const std::string& one) { return kept.contains(one); });
  Secrets all = std::move(passed.values);
  all.merge(take_variables(of_site, shell).values);
  const auto is_gone = [&](const std::string& variable) {
    return std::any_of(sweep->pass_env.begin(), sweep->pass_env.end(),
        [&](const auto& entry) { return is_passed_by(entry, variable); });
  };
  for (const auto& [variable, value] : kept) {
    if (!is_gone(variable)) all.emplace(variable, value);
  }
  return all == kept ? Result<void>() : write_secrets(file, all);
}

}  // namespace

std::map<std::string, std::string> take_secrets(SiteSpec& site) {
  std::map<std::string, std::string> secrets;
  for (auto* plain : {&site.env, &site.container.env}) {
    for (const auto& [name, value] : *plain) {
      if (is_secret(name, value)) secrets.emplace(name, value);
    }
    std::erase_if(*plain, [](const auto& entry) { return is_secret(entry.first, entry.second); });
  }
  return secrets;
}

void say_missing(const PlannedSweep& planned) {
  const auto& missing = planned.passed.missing;
  if (!missing.empty())
    say_notes({missing_text(missing) + ", so the sweep can't be submitted yet"});
}

void say_withheld(const SweepSpec& sweep) {
  const auto text = withheld_text(withheld_variables(sweep, own_environment()));
  if (!text.empty()) say_notes({text});
}

Result<void> check_passed(const PlannedSweep& planned) {
  if (planned.passed.missing.empty()) return {};
  return tl::unexpected<Fault>(missing_in(planned.sweep.name, planned.passed.missing));
}

Result<void> keep_secrets(
    const Session& session, const PlannedSweep& planned, const SiteAccess& access) {
  Secrets all = planned.passed.values;
  all.insert(access.secrets.begin(), access.secrets.end());
  return write_secrets(session.home.secrets_of(planned.sweep.name), all);
}

Result<void> renew_secrets(
    const Session& session, Reader& reader, const VerbScope& meant, const Steps& steps) {
  std::vector<std::string> of_site;
  if (const auto access = read_site(session)) of_site = access->passed;
  for (const SweepId id : sweeps_that_go_on(steps)) {
    const auto row = meant.sweeps.find(id);
    if (row == meant.sweeps.end()) continue;
    const std::string& name = row->second.name;
    SHARDSWEEP_ASSIGN(const std::string resolved, reader.resolved(name));
    SHARDSWEEP_TRY(renew_secrets_of(session, name, resolved, of_site));
  }
  return {};
}

}  // namespace shardsweep
