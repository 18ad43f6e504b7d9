// SPDX-License-Identifier: Apache-2.0
// Decision: The answer comes first, then what tells rows of one table apart, then how sure the
// answer is, what it costs, and last how it came about. A column that is equal in all rows
// takes no room at all (show/arrange), so a table over one model loses nothing by `model`. The
// order is one of all tables, but of one table only its rows tell which column they need: one
// without which two of them would read alike comes before the rest (show/table_view).
#include "show/column_worth.hpp"

#include <shardsweep/point.hpp>

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

constexpr std::array<std::string_view, 43> order{// The answer.
    "layout", "outcome", "tokens_per_s_per_gpu", "change_share", "first_tokens_per_s_per_gpu",
    "second_tokens_per_s_per_gpu",
    // The row's cell.
    "model", "gpus", "nodes", "cluster", "seq_len",
    // How sure it is.
    "certainty", "against_the_fastest", "against_the_cheaper", "reason", "mark", "state",
    // Costs, and the lead that they buy.
    "train_step_ms", "peak_memory_bytes", "mfu", "tokens_per_s", "efficiency_share",
    "gpu_hours_per_billion_tokens", "lead_share", "behind_share", "doubts", "to_settle", "verdict",
    // How it came about.
    "runner_up", "repeats", "measured", "repeat_spread", "train_step_ms_spread", "cause",
    "runner_up_runs", "runner_up_spread", "verdict_reason", "trial", "sweep", "software", "runner",
    "runner_version", "profile"};

}  // namespace

std::size_t worth_of(std::string_view column) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), column) - order.begin());
}

std::size_t columns_of_worth() {
  return order.size();
}

bool names_rows(std::string_view column) {
  constexpr std::array<std::string_view, 14> names{"model", "seq_len", "nodes", "gpus", "cluster",
      "vars", "layout", "profile", "runner", "runner_version", "sweep", "trial", "attempt", "node"};
  return find_axis(column) != nullptr ||
      std::find(names.begin(), names.end(), column) != names.end();
}

bool is_prose(std::string_view column) {
  constexpr std::array<std::string_view, 18> names{"certainty", "cause", "also", "detail", "doubts",
      "reason", "last_evidence", "example", "facts", "e.g.", "why", "rule", "advice", "finding",
      "skipped_by", "to_settle", "against_the_cheaper", "against_the_fastest"};
  return std::find(names.begin(), names.end(), column) != names.end();
}

}  // namespace shardsweep
