// SPDX-License-Identifier: Apache-2.0
// Words of verdicts. They are stored, and sent between node agents, leads and the daemon.
#pragma once

#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardsweep {

/// Who said how an attempt ended.
enum class SaidBy : std::uint8_t {
  nobody,
  runner,
  exit,  ///< the exit status of a rank
  log,
  agent,
  policy,
  request,
  daemon,
  scheduler,
  import,  ///< a table of other people's measurements
};
template <>
inline constexpr std::array<std::string_view, 10> word_table<SaidBy>{
    "", "runner", "exit", "log", "agent", "policy", "request", "daemon", "scheduler", "import"};

/// Why a measurement is kept and not ranked. `cut_short` has a column of its own.
enum class Mark : std::uint8_t { none, contaminated, implausible, cut_short };
template <>
inline constexpr std::array<std::string_view, 4> word_table<Mark>{"", "contaminated",
                                                                  "implausible", "cut_short"};

}  // namespace shardsweep
