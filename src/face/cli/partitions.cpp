// SPDX-License-Identifier: Apache-2.0
// Points that no partition can hold, before they are submitted: by what sinfo says, and by the
// rules by which a daemon does not ask for their jobs.
#include "cli/session.hpp"
#include "fleet/decide.hpp"
#include "slurm/words/survey.hpp"
#include "text/numbers.hpp"

#include <shardsweep/command.hpp>

#include <fmt/format.h>

#include <stdlib.h>

#include <map>
#include <string>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr auto answer_limit = std::chrono::seconds(5);
constexpr auto kept_for = std::chrono::minutes(10);

/// First line of the kept answer: it names the Slurm that was asked.
std::string asked_of() {
  std::string line = "#";
  for (const char* name : {"SLURM_CONF", "SLURM_CLUSTERS"}) {
    const char* value = ::getenv(name);
    line += fmt::format(" {}={}", name, value == nullptr ? "" : value);
  }
  return line + '\n';
}

/// Answer of sinfo, kept beside the database for ten minutes; empty if there is none.
std::string partitions_text(const Session& session) {
  const fs::path kept = session.home.dir() / "sinfo";
  const std::string head = asked_of();
  std::error_code error;
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(kept, error);
  if (!error && age >= age.zero() && age < kept_for) {
    const auto text = read_own_file(kept, std::size_t{1} << 20);
    if (text && text->starts_with(head)) return text->substr(head.size());
  }
  const auto said = run_command(slurm::partitions_command(), {.deadline = answer_limit});
  if (!said || said->exit_code != 0) return "";
  // A failed write only costs another call of sinfo. Without a database there is no folder to keep
  // it in.
  if (fs::exists(session.home.dir(), error)) (void)write_own_file(kept, head + said->out);
  return said->out;
}

}  // namespace

std::vector<std::string> beyond_partitions(
    const Session& session, const PlannedSweep& planned, const SiteAccess& access) {
  if (stated_backend(session.options, access.site) != Backend::slurm ||
      !access.site.rest.url.empty())
    return {};
  SweepFacts facts;
  if (!slurm::read_partitions(partitions_text(session), facts.site)) return {};
  add_options(planned.sweep, access.site, facts);
  struct Beyond {
    std::int64_t trials = 0;
    double least_s = 0;
  };
  std::map<std::int32_t, Beyond> too_large;
  std::map<std::int32_t, Beyond> too_long;
  for (const PlannedTrial& trial : planned.plan.trials) {
    const std::int32_t nodes = std::max(1, trial.point.nodes);
    const double least_s = least_time_s(trial.prediction.attempt_s, planned.sweep.policy);
    const bool large = beyond_partition(facts, nodes).has_value();
    if (!large && !beyond_time(facts, nodes, least_s)) continue;
    Beyond& beyond = (large ? too_large : too_long)[nodes];
    ++beyond.trials;
    beyond.least_s = std::max(beyond.least_s, least_s);
  }
  std::vector<std::string> notes;
  const auto note = [&](std::int64_t trials, const std::optional<std::string>& why) {
    notes.push_back(fmt::format("{} of {} can't start and would wait for ever: {} {}. {}.", trials,
        counted(std::ssize(planned.plan.trials), "trial"), trials == 1 ? "it needs" : "they need",
        why.value_or(""), beyond_advice));
  };
  for (const auto& [nodes, beyond] : too_large)
    note(beyond.trials, beyond_partition(facts, nodes));
  for (const auto& [nodes, beyond] : too_long)
    note(beyond.trials, beyond_time(facts, nodes, beyond.least_s));
  return notes;
}

}  // namespace shardsweep
