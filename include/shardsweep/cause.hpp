// SPDX-License-Identifier: Apache-2.0
// Causes of failed runs: entries of sweeps/causes.yaml, and of `classify` in a user's file, which
// has the same keys. The head of causes.yaml says what the words mean.
#pragma once

#include <shardsweep/described.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/words.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardsweep {

/// Places in which the words of a cause count.
enum class LinePlace : std::uint8_t {
  line,
  warning,
  exception,
  error_class,
  frame,
  loop,
  progress
};
SHARDSWEEP_WORDS(LinePlace, "line", "warning", "exception", "class", "frame", "loop", "progress");

/// Weight of a line against other lines, the heaviest first.
enum class Strength : std::uint8_t {
  fact,     ///< fact of hardware, kernel or Slurm: stands above every exception
  cause,    ///< names what went wrong
  end,      ///< how it ended, if nothing else tells why
  late,     ///< may have been survived: the last one counts
  symptom,  ///< follows from another failure
  hint,     ///< tells that something failed, not what
  never,    ///< tells of no failure, whatever else stands in the line
};
SHARDSWEEP_WORDS(Strength, "fact", "cause", "end", "late", "symptom", "hint", "never");

/// Conditions besides the words.
enum class When : std::uint8_t { always, untrained, set_up, network, other_memory, alone };
SHARDSWEEP_WORDS(When, "always", "untrained", "set-up", "network", "other-memory", "alone");

/// The one who has to do something about it.
enum class Whose : std::uint8_t {
  nobody,  ///< not told
  layout,
  program,
  node,
  device,
  network,
  scheduler,
  user
};
SHARDSWEEP_WORDS(Whose, "", "layout", "program", "node", "device", "network", "scheduler", "user");

inline constexpr std::size_t most_causes = 100;  ///< limit for one user
inline constexpr std::size_t most_pattern_bytes = 200;
inline constexpr std::size_t most_sample_bytes = 8192;

/// Outcomes that a user's cause may have. All others depend on facts that no line has: if there is
/// a result, what the scheduler did, who asked for it.
inline constexpr std::array<Outcome, 7> cause_outcomes{Outcome::oom, Outcome::hung,
    Outcome::timeout, Outcome::node_failure, Outcome::comm_error, Outcome::crashed,
    Outcome::rejected};

struct Cause {
  std::string name{}, pattern{};
  Outcome outcome = Outcome::crashed;
  LinePlace where = LinePlace::line;
  Strength weight = Strength::cause;
  When when = When::always;
  Whose whose = Whose::nobody;
  std::string remedy{}, source{}, since{}, sample{};
  friend bool operator==(const Cause&, const Cause&) = default;
};
// clang-format off
template <>
inline constexpr auto described<Cause> = Entries{
    Key{"name", &Cause::name, {KeyType::name, "name of the cause, shown with it"}},
    Key{"pattern", &Cause::pattern, {.type = KeyType::pattern, .meaning = "text of a line; * is any text", .most = most_pattern_bytes, .takes = "a text with *"}},
    Key{"outcome", &Cause::outcome, {.meaning = "oom, hung, timeout, node_failure, comm_error, crashed or rejected", .takes = "an outcome"}},
    Key{"where", &Cause::where, {.meaning = "what the text stands in: line; warning: a line, even if it only warns; exception: an error by which a traceback ends; class: its class; frame: a line above it, or with the weight never one that only cleans up; loop: a frame that tells that training goes on; progress: the line of a train step, or with the weight hint one that tells that the program goes on", .takes = "line, warning, exception, class, frame, loop or progress", .otherwise = "line"}, Flag::optional},
    Key{"weight", &Cause::weight, {.meaning = "fact: stands above every exception; late: may have been survived, so the last one counts; end: how the job ended, if nothing else tells why; symptom: follows from another failure; hint: something failed, but not what; never: it tells of no failure", .takes = "fact, cause, end, late, symptom, hint or never", .otherwise = "cause"}, Flag::optional},
    Key{"when", &Cause::when, {.meaning = "untrained: only if no train step was printed; set-up: nor one in the traceback; network: only the last file of a traceback that ends in a network error; other-memory: only if PyTorch tells that another process has memory of the GPU; alone: only if nothing else stands in the line", .takes = "always, untrained, set-up, network, other-memory or alone", .otherwise = "always"}, Flag::optional},
    Key{"whose", &Cause::whose, {.meaning = "whose fault it is", .takes = "layout, program, node, device, network, scheduler or user"}, Flag::optional},
    Key{"remedy", &Cause::remedy, {KeyType::text, "what to do next"}, Flag::optional},
    Key{"source", &Cause::source, {KeyType::text, "where the text is known from"}, Flag::optional},
    Key{"since", &Cause::since, {KeyType::text, "the version that prints it first"}, Flag::optional},
    Key{"sample", &Cause::sample, {.type = KeyType::lines, .meaning = "a log of one or more lines that this cause must judge: it is tried when the file is read", .most = most_sample_bytes}, Flag::optional},
};
// clang-format on

}  // namespace shardsweep
