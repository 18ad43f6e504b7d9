// SPDX-License-Identifier: Apache-2.0
// All that a report says about sweeps, read at one moment.
#pragma once

#include <shardsweep/backend.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/described.hpp>
#include <shardsweep/table.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

struct ReportedSweep {
  std::string sweep;
  Backend backend = Backend::none;
  std::string cluster;
  std::string runner;
  std::string runner_version;
  std::int64_t revision = 0;
  Timestamp submitted_at = 0;
  std::string resolved;  ///< text of the sweep file, or of an imported table
  std::string job_template;
};
template <>
inline constexpr auto described<ReportedSweep> = Entries{
    Field{"sweep", &ReportedSweep::sweep},
    Field{"backend", &ReportedSweep::backend},
    Field{"cluster", &ReportedSweep::cluster},
    Field{"runner", &ReportedSweep::runner},
    Field{"runner_version", &ReportedSweep::runner_version},
    Field{"revision", &ReportedSweep::revision},
    Field{"submitted_at", &ReportedSweep::submitted_at},
    Field{"resolved", &ReportedSweep::resolved},
    Field{"job_template", &ReportedSweep::job_template},
};

/// An attempt that has started.
struct ReportedAttempt {
  std::int64_t allocation = 0;
  std::string outcome;  ///< outcome, or the state if it has not ended
  Timestamp started_at = 0;
  Timestamp ended_at = 0;  ///< 0: not yet
};
template <>
inline constexpr auto described<ReportedAttempt> = Entries{
    Field{"allocation", &ReportedAttempt::allocation},
    Field{"outcome", &ReportedAttempt::outcome},
    Field{"started_at", &ReportedAttempt::started_at},
    Field{"ended_at", &ReportedAttempt::ended_at},
};

/// An allocation that was claimed.
struct ReportedAllocation {
  std::int64_t id = 0;
  std::string job_name;
  std::int64_t nodes = 0;
  std::int64_t slots_per_node = 0;
  Timestamp claimed_at = 0;
  Timestamp ended_at = 0;  ///< 0: not yet
  Timestamp last_beat = 0;
  bool imported = false;
};
template <>
inline constexpr auto described<ReportedAllocation> = Entries{
    Field{"id", &ReportedAllocation::id},
    Field{"job_name", &ReportedAllocation::job_name},
    Field{"nodes", &ReportedAllocation::nodes},
    Field{"slots_per_node", &ReportedAllocation::slots_per_node},
    Field{"claimed_at", &ReportedAllocation::claimed_at},
    Field{"ended_at", &ReportedAllocation::ended_at},
    Field{"last_beat", &ReportedAllocation::last_beat},
    Field{"imported", &ReportedAllocation::imported},
};

/// Sources of a report's numbers.
struct ReportSources {
  std::vector<ReportedSweep> sweeps;
  std::vector<ReportedAllocation> allocations;  ///< sorted by time
};

/// Maps in a table are `key=value` with `;` between them, times microseconds.
struct ReportFacts : ReportSources {
  Table trials;                           ///< selected trials, with measurement and evidence
  std::vector<ReportedAttempt> attempts;  ///< sorted by allocation and time
  // Tables as a report shows them.
  Table controls;
  Table checks;     ///< checks of nodes, before an allocation's first attempt
  Table side_runs;  ///< side runs with the folders of their attempts
  Table nodes;      ///< nodes that are not trusted, or have evidence against them
  Table bounds;     ///< bounds with which searches have stopped, and how many trials each has
                    ///< spared
};

}  // namespace shardsweep
