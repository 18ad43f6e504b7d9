// SPDX-License-Identifier: Apache-2.0
// How an attempt ended. What is seen of it (attempt/classify.hpp), the lines of node agents and
// leads, and the attempt's row hold one Ending: the lead judges it, the daemon joins it with
// the records. A new fact is a field here, with a migration if it is stored. With Flag::beside
// it is seen beside the ranks (attempt/findings.hpp), and joined over the nodes: counts and
// clauses add up, of shares the largest one stays.
#pragma once

#include <shardsweep/described.hpp>
#include <shardsweep/evidence.hpp>
#include <shardsweep/outcome.hpp>

#include <cstdint>
#include <string>

namespace shardsweep {

struct Ending {
  Outcome outcome = Outcome::lost;
  std::string cause{};  ///< the first evidence, one line
  SaidBy source = SaidBy::nobody;
  std::int32_t exit_code = -1;  ///< exit code of the rank that failed first; -1: none
  std::int32_t signal = 0;
  std::int32_t leaked = 0;       ///< processes that outlived their ranks and were ended
  std::string node{};            ///< node of the first cause; empty: none in particular
  std::string also{};            ///< contradiction to the outcome, one line; empty: none
  Mark mark = Mark::none;        ///< mark of a result; its measurement keeps it
  std::int32_t start_error = 0;  ///< errno of a program that could not be started; 0: it was
  bool fragmented = false;       ///< true with outcome `oom`: memory was there, in pieces
  /// Share of a node's CPUs that others used meanwhile, of the node on which it was most; 0:
  /// none, or nobody looked.
  double others_cpu = 0;
  /// Hash of its programs, if they have changed: nothing was started.
  std::string found_code{};

  friend bool operator==(const Ending&, const Ending&) = default;
};
template <>
inline constexpr auto described<Ending> = Entries{
    Field{"outcome", &Ending::outcome, Flag::as_null},
    SHARDSWEEP_FIELDS(Ending, exit_code, signal, cause, source),
    Field{"leaked", &Ending::leaked, Flag::beside},
    Field{"node", &Ending::node, Flag::optional},
    Field{"also", &Ending::also, Flag::optional | Flag::beside},
    Field{"mark", &Ending::mark, Flag::optional | Flag::unstored | Flag::beside},
    Field{"start_error", &Ending::start_error, Flag::optional | Flag::unstored},
    Field{"fragmented", &Ending::fragmented, Flag::optional},
    Field{"others_cpu", &Ending::others_cpu, Flag::optional | Flag::beside},
    Field{"found_code", &Ending::found_code, Flag::optional | Flag::unstored},
};

}  // namespace shardsweep
