// SPDX-License-Identifier: Apache-2.0
// next, record: a sweep that somebody else measures (shardsweep/outside.hpp).
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/session.hpp"
#include "text/units.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

namespace shardsweep {
namespace {

struct NextOptions {
  std::int64_t points = 1;
  std::string lease = "1h";
  std::string worker;
  std::string trial;
};

struct RecordOptions {
  std::string tokens_per_s;
  std::string step_ms;
  std::string memory;
  std::int64_t steps = 0;
  std::string outcome = "completed";
  std::string evidence;
};

/// Number that an option gives, or 0 if it is not given.
template <class Parse>
Result<double> number_of(const char* option, const std::string& text, const Parse& parse) {
  if (text.empty()) return 0.0;
  const auto value = parse(text);
  if (!value) return fault(FaultKind::invalid_input, "{}: {}", option, value.error());
  if (*value <= 0) return fault(FaultKind::invalid_input, "{}: must be above 0", option);
  return static_cast<double>(*value);
}

Result<ExitCode> run_next(const Session& session) {
  const auto& own = session.options.of<NextOptions>();
  SHARDSWEEP_ASSIGN(const double lease_s, number_of("--lease", own.lease, config::parse_duration));
  SHARDSWEEP_ASSIGN(const Answer answer,
      ask_writer(session,
          {.verb = Verb::next,
              .names = session.options.names,
              .hand_out = {own.points, lease_s, own.worker, own.trial}}));
  const bool json = session.options.format == Format::json;
  return deliver(json ? answer.document : answer.text + "\n");
}

Result<OutsideResult> result_of(const RecordOptions& own) {
  OutsideResult result;
  const auto outcome = from_word<Outcome>(own.outcome);
  if (outcome) result.outcome = *outcome;
  SHARDSWEEP_ASSIGN(
      result.tokens_per_s, number_of("--tokens-per-s", own.tokens_per_s, config::parse_real));
  SHARDSWEEP_ASSIGN(result.step_ms, number_of("--step-ms", own.step_ms, config::parse_real));
  constexpr std::int64_t most = std::int64_t{1} << 50;
  SHARDSWEEP_ASSIGN(
      result.peak_memory_bytes, number_of("--memory", own.memory, [](const std::string& text) {
        return config::parse_bytes(text, {1, most, "--memory"});
      }));
  result.steps = own.steps;
  result.evidence = own.evidence;
  return result;
}

Result<ExitCode> run_record(const Session& session) {
  SHARDSWEEP_ASSIGN(OutsideResult result, result_of(session.options.of<RecordOptions>()));
  SHARDSWEEP_ASSIGN(const Answer answer,
      ask_writer(session,
          {.verb = Verb::record, .names = session.options.names, .result = std::move(result)}));
  if (session.options.format != Format::json) {
    say(answer.text);
    return ExitCode::done;
  }
  const auto is = [&](const char* what) { return answer.counts.at(what) != 0; };
  return deliver(fmt::format(R"({{"counted":{},"late":{},"again":{}}})"
                             "\n",
      is("counted"), is("late"), is("again")));
}

}  // namespace

extern const Command command_next{.name = "next",
    .help = "Hand out the next points of a sweep that is measured outside.",
    .examples =
        "shardsweep next my-sweep --points 4 --format json\n"
        "shardsweep next my-sweep --as worker-1 --format json",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<NextOptions>();
          grammar
              .option("sweep", grammar.options().names, "SWEEP",
                  "A sweep that was submitted with --backend outside.")
              .required()
              .times(1, 1);
          grammar.option("--points", own.points, "COUNT", "How many points at most.")
              .whole_number(1, most_handed_out);
          grammar.option("--lease", own.lease, "DURATION",
              "How long the points are reserved. A later result counts only if nobody else has "
              "the point by then; else it is stored and does not count.");
          grammar.option("--as", own.worker, "NAME",
              "Name of the worker that asks. Points that it still holds come first, so nothing is "
              "lost if it was killed.");
          grammar.option("--trial", own.trial, "SLUG",
              "Hand out this trial, if it waits, in place of those that the planner chooses.");
          grammar.form(
              "Form: json has the command, its environment and its files.", {"table", "json"});
        },
    .run = run_next};

extern const Command command_record{.name = "record",
    .help = "Record the result of a point that 'next' has handed out.",
    .examples =
        "shardsweep record 5c0f --step-ms 812.5 --memory 61.2GiB\n"
        "shardsweep record 5c0f --tokens-per-s 161300 --steps 10\n"
        "shardsweep record 81aa --outcome crashed --evidence NCCL",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<RecordOptions>();
          grammar
              .option("id", grammar.options().names, "ID", "The point's id, as 'next' prints it.")
              .required()
              .times(1, 1);
          grammar.option("--tokens-per-s", own.tokens_per_s, "NUMBER",
              "Tokens per second of all GPUs together.");
          grammar.option("--step-ms", own.step_ms, "NUMBER", "Milliseconds of a train step.");
          grammar.option("--memory", own.memory, "BYTES", "Peak memory of a GPU, such as 61.2GiB.");
          grammar.option("--steps", own.steps, "COUNT", "Train steps that were timed.")
              .whole_number(1, 1'000'000);
          grammar
              .option(
                  "--outcome", own.outcome, "OUTCOME", "How it ended: completed, oom or crashed.")
              .one_of({"completed", "oom", "crashed"});
          grammar.option("--evidence", own.evidence, "TEXT",
              "Of oom and crashed: the line of its log that says so.");
          grammar.form("Form of the answer: table or json.", {"table", "json"});
        },
    .run = run_record};

}  // namespace shardsweep
