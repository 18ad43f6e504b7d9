// SPDX-License-Identifier: Apache-2.0
// status, follow.
#include "cli/session.hpp"
#include "cli/table_view.hpp"

#include <shardsweep/trouble.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

/// "done" is no state of the database: an edited file or `rerun` gives a sweep new work.
std::string state_of(const SweepStatus& status) {
  const bool done = status.state == "active" && status.trials > 0 &&
                    count_of(status.by_state, name(State::ended)) == status.trials;
  return done ? "done" : status.state;
}

/// Of one sweep, and of all of them.
std::string trouble_of(const std::vector<Trouble>& all, const std::string& sweep) {
  std::string sentences;
  for (const Trouble& one : all) {
    if (!concerns(one, sweep)) continue;
    sentences += (sentences.empty() ? "" : " ") + text(one);
  }
  return sentences;
}

Table status_table(const std::vector<SweepStatus>& statuses,
                   const std::vector<Trouble>& trouble) {
  Table table;
  table.columns = {"sweep", "state", "trials", "planned", "queued", "running", "ended"};
  for (const OutcomeInfo& row : outcome_table)
    table.columns.emplace_back(row.name);
  for (const char* column :
       {"left_out", "remaining_s", "running_trial", "skipped_by", "trouble"}) {
    table.columns.emplace_back(column);
  }
  for (const SweepStatus& status : statuses) {
    std::vector<Value> row{status.name, state_of(status), status.trials};
    for (const State state : {State::planned, State::queued, State::running, State::ended}) {
      row.emplace_back(count_of(status.by_state, name(state)));
    }
    for (const OutcomeInfo& outcome : outcome_table) {
      row.emplace_back(count_of(status.by_outcome, outcome.name));
    }
    row.emplace_back(status.left_out);
    row.emplace_back(status.remaining_s);
    row.emplace_back(status.running);
    row.emplace_back(status.spared.empty() ? "" : status.spared.front().first);
    row.emplace_back(trouble_of(trouble, status.name));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// A person wants to see the outcomes that occurred, not thirteen columns of zeros.
void drop_empty_columns(Table& table) {
  const auto is_zero = [](const Value& value) {
    const auto* count = std::get_if<std::int64_t>(&value);
    const auto* text = std::get_if<std::string>(&value);
    return (count != nullptr && *count == 0) || (text != nullptr && text->empty());
  };
  for (std::size_t column = table.columns.size(); column-- > 3;) {
    const bool empty = std::all_of(table.rows.begin(), table.rows.end(),
                                   [&](const auto& row) { return is_zero(row[column]); });
    if (!empty) continue;
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(column));
    for (auto& row : table.rows)
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
}

/// In a table they would be wider than the rest together.
void say_sentences(SweepStatus& status) {
  if (!status.waiting.empty()) say(fmt::format("{}: {}", status.name, status.waiting));
  for (const auto& [bound, trials] : status.spared)
    say(fmt::format("{}: {} skipped: {}", status.name, trials, bound));
  status.spared.clear();
}

std::string daemon_line(const Session& session, Reader& reader) {
  const auto holder = reader.lease_holder();
  if (!daemon_runs(session)) return "no daemon runs";
  if (!holder || !*holder) return "a daemon runs";
  return fmt::format("daemon: pid {} on {}, log {}", (*holder)->pid, (*holder)->host,
                     session.home.log().string());
}

}  // namespace

Result<ExitCode> command_status(const Session& session) {
  auto trouble = troubles(session.home);
  const bool as_table = session.options.format == Format::table;
  if (as_table) {
    for (const Trouble& one : std::exchange(trouble, {}))
      say(text(one));
  }
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(auto statuses, reader->status(session.options.names));
  if (as_table) {
    say(daemon_line(session, *reader));
    for (SweepStatus& status : statuses)
      say_sentences(status);
  }
  Table table = status_table(statuses, trouble);
  if (as_table) drop_empty_columns(table);
  SHARDSWEEP_TRY(print_result(table_text(table, session.options.format)));
  const bool undecided = std::any_of(statuses.begin(), statuses.end(), [](const auto& status) {
    return status.undecided > 0 ||
           count_of(status.by_state, name(State::ended)) < status.trials;
  });
  return undecided ? ExitCode::undecided : ExitCode::done;
}

Result<ExitCode> command_follow(const Session& session) {
  return follow_sweeps(session, session.options.names);
}

}  // namespace shardsweep
