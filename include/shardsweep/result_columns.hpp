// SPDX-License-Identifier: Apache-2.0
// The views that others may rely on, column by column. Axes, metrics and a model's numbers have
// their meaning in their own tables; the views are those of store/views.sql, and a test
// compares them.
#pragma once

#include <shardsweep/axis_table.hpp>
#include <shardsweep/model.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace shardsweep {

struct ViewColumn {
  std::string_view name;
  std::string_view unit;     ///< empty: a name, a word or a count
  std::string_view meaning;  ///< empty: an axis (point.hpp) or a metric (metric.hpp)
};

namespace result_parts {

inline constexpr std::array<ViewColumn, 6> first{{
    {"sweep", "", "name of the sweep"},
    {"trial", "", "name of the trial (slug)"},
    {"state", "", "planned, queued, running or ended"},
    {"outcome", "", "how it ended; NULL before that"},
    {"cause", "", "first evidence for the outcome"},
    {"mark", "", "contaminated or implausible: kept and not ranked; NULL: none"},
}};

// The axes stand between the two.
inline constexpr std::array<ViewColumn, 30> measured{{
    {"repeat", "", "number of this run of its layout, from 1"},
    {"global_batch", "samples", "samples per train step of all ranks"},
    {"vars", "", "free axes as a JSON object; each is a column of its own in `results`"},
    {"layout", "", "the layout in one word group, such as dp4 tp2 pp1 mb2 ga4 z1"},
    {"tokens_per_s_per_gpu", "", ""},
    {"tokens_per_s", "", ""},
    {"train_step_ms", "", ""},
    {"train_step_ms_min", "", ""},
    {"train_step_ms_p95", "", ""},
    {"train_step_ms_spread", "", ""},
    {"mfu", "", ""},
    {"tflops_per_gpu", "", ""},
    {"peak_memory_bytes", "", ""},
    {"peak_allocated_bytes", "", ""},
    {"peak_reserved_bytes", "", ""},
    {"loss", "", ""},
    {"tokens_per_step", "", ""},
    {"n_params", "", ""},
    {"steps", "", ""},
    {"warmup", "", ""},
    {"resolution", "", ""},
    {"sm_clock_mhz", "", ""},
    {"power_w", "", ""},
    {"throttled", "", "what held that clock back; empty: nothing, or it is not told"},
    {"cut_short", "", "1: ended early, as it was too slow against its cell's best; not ranked"},
    {"beaten_by", "", "that best, by its name; NULL: it ran to its end"},
    {"predicted_memory_bytes", "B", "predicted peak of a rank; NULL: not known"},
    {"predicted_train_step_s", "s", "predicted train step; NULL: not known"},
    {"predicted_attempt_s", "s", "predicted run, from its start to its end; NULL: not known"},
    {"predicted_tokens_per_s_per_gpu", "tokens/s/GPU", "predicted speed; NULL: not known"},
}};

// A model's numbers stand between the two.
inline constexpr std::array<ViewColumn, 26> last{{
    {"runner", "", "name of the program that measured"},
    {"runner_version", "", "its version"},
    {"flops_model", "", "FLOPs formula behind mfu and tflops_per_gpu"},
    {"software", "", "what the runner says it ran, as a JSON object"},
    {"hosts", "", "hosts of the ranks, as a JSON array"},
    {"settings", "", "variables of the first rank that change numbers, as it found them"},
    {"image_digest", "", "digest of the container's image; unknown: its runtime tells none"},
    {"code_hash", "", "hash of the user's own programs, or of their snapshot; empty: not known"},
    {"cluster", "", "name of the cluster that its sweep is for"},
    {"final_round", "", "round of its cell's finals; empty: it is no run of finals"},
    {"remeasured", "",
        "at which time after its sweep it was measured again, from 1; empty: it is a run of the "
        "sweep itself"},
    {"final_set", "", "set of nodes of that run: 2 and more confirm what the first has said"},
    {"spread", "",
        "leaf switches or blocks that its nodes lie on; empty: the cluster tells no topology"},
    {"attempts", "", "number of the last attempt"},
    {"others_cpu", "",
        "share of a node's CPUs that others used while it ran; 0: none, or it is not known"},
    {"startup_s", "s",
        "from the start of the counted attempt to its first train step; NULL: not known"},
    {"started_at", "us", "start of the counted attempt, microseconds since 1970, UTC"},
    {"ended_at", "us", "its end"},
    {"lane", "", "trials of one lane differ in micro_batch and grad_accum alone"},
    {"position", "", "place in the plan"},
    {"trial_id", "", "key of the trial in this database"},
    {"sweep_id", "", "key of the sweep"},
    {"attempt_id", "", "key of the counted attempt; NULL: nothing is measured"},
    {"in_file", "", "0: the edited sweep file no longer has the trial; `results` leaves it out"},
    {"control_ratio", "1",
        "control of its allocation against the median of its kind, the one further from 1"},
    {"network_ratio", "1", "the same of the all-reduce that a control times"},
}};

}  // namespace result_parts

/// `results` and `all_results`: a row per trial.
inline constexpr auto result_columns = [] {
  using namespace result_parts;
  std::array<ViewColumn,
      first.size() + axis_table.size() + measured.size() + shape_fields.size() + last.size()>
      all{};
  auto* next = std::copy(first.begin(), first.end(), all.begin());
  for (const auto& axis : axis_table)
    *next++ = {axis.name, "", ""};
  next = std::copy(measured.begin(), measured.end(), next);
  for (const auto& field : shape_fields)
    *next++ = {field.name, "", field.meaning};
  std::copy(last.begin(), last.end(), next);
  return all;
}();

/// `node_ledger`: a row per node that has run something, or has evidence against it.
inline constexpr std::array<ViewColumn, 20> node_columns{{
    {"node", "", "as the scheduler calls it"},
    {"state", "", "trusted, quarantined, or another word of `shardsweep nodes`"},
    {"attempts", "", "attempts that started in allocations with this node"},
    {"completed", "", "of these, completed ones"},
    {"node_failure", "", "attempts whose first cause was this node's failure"},
    {"comm_error", "", "attempts whose first cause was a broken connection on it"},
    {"hung", "", "attempts that hung on it first"},
    {"crashed", "", "attempts that crashed on it first"},
    {"slow", "1", "its own time over that of its peers, mean over `slow_in`"},
    {"slow_in", "", "attempts in which it was slow"},
    {"evidence", "", "pieces of evidence that count against it"},
    {"probes_passed", "", "short runs on it alone that went well"},
    {"probes_failed", "", "short runs on it alone that failed"},
    {"since", "us", "time of its state, microseconds since 1970, UTC; 0: none"},
    {"probe_at", "us", "next probe of a quarantined node; 0: none"},
    {"switches", "", "switches or blocks above it, the top one first; empty: not told"},
    {"last_seen", "us", "when it last ran something"},
    {"hosts", "", "as it calls itself"},
    {"reason", "", "why it has its state"},
    {"last_evidence", "", "the last evidence against it"},
}};

}  // namespace shardsweep
