// SPDX-License-Identifier: Apache-2.0
// All that a report says about sweeps, read at one moment.
#pragma once

#include <shardsweep/table.hpp>

#include <cstdint>

namespace shardsweep {

/// Tables by the names of their columns (store/facts.cpp); times are microseconds, maps are
/// `key=value` with `;` between them.
struct ReportFacts {
  Table sweeps;       ///< with their resolved files and job templates; without site files
  Table trials;       ///< of the selection, with measurement and evidence
  Table attempts;     ///< that have started, by allocation and time
  Table allocations;  ///< that have been claimed
  Table controls;
  Table checks;     ///< of nodes, before an allocation's first attempt
  Table side_runs;  ///< with the folders of their attempts
  Table nodes;      ///< those that are not trusted, or have evidence against them
  Table bounds;     ///< with which searches have stopped, and how many trials each has spared
};

}  // namespace shardsweep
