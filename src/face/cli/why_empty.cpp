// SPDX-License-Identifier: Apache-2.0
#include "cli/why_empty.hpp"

#include "show/exit_code.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

namespace shardsweep {
namespace {

Result<std::int64_t> count_trials(Reader& reader, const Options& options,
                                  const std::string& where) {
  SHARDSWEEP_ASSIGN(const Table all,
                    reader.results({.selection = {.names = options.names,
                                                  .where = where,
                                                  .hidden = options.results.hidden},
                                    .columns = {"trial"}}));
  return static_cast<std::int64_t>(all.rows.size());
}

}  // namespace

Result<std::string> why_empty(Reader& reader, const Options& options) {
  SHARDSWEEP_ASSIGN(const auto matching, count_trials(reader, options, options.where));
  if (matching == 0) {
    if (options.where.empty())
      return "There is no trial. `shardsweep run SWEEP.yaml` makes some.";
    SHARDSWEEP_ASSIGN(const auto all, count_trials(reader, options, ""));
    return fmt::format("0 of {} match.", counted(all, "trial"));
  }
  std::string outcomes;
  SHARDSWEEP_ASSIGN(const auto sweeps, reader.status(options.names));
  for (const auto& sweep : sweeps) {
    const auto text = outcomes_text(sweep);
    if (!text.empty())
      outcomes += fmt::format("{}{}: {}", outcomes.empty() ? "" : "; ", sweep.name, text);
  }
  return fmt::format("No trial has a measurement that is ranked{}{}.",
                     outcomes.empty() ? "" : ". ", outcomes);
}

Result<void> say_why_empty(Reader& reader, const Options& options) {
  SHARDSWEEP_ASSIGN(const auto why, why_empty(reader, options));
  say(why);
  return {};
}

}  // namespace shardsweep
