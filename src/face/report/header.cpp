// SPDX-License-Identifier: Apache-2.0
// The page's header: what was measured, on what, when, at what cost, and how surely. Numbers
// that nobody has recorded are said to be unknown, and never 0.
#include "picture/svg.hpp"
#include "report/sections.hpp"
#include "show/cell_text.hpp"
#include "show/pivot.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace shardsweep {
namespace {

/// In natural order, without the empty ones.
using NaturalOrder = std::set<std::string, decltype(&natural_less)>;
std::vector<std::string> values_of(NaturalOrder seen) {
  seen.erase("");
  return {seen.begin(), seen.end()};
}
template <class Row, class V>
std::vector<std::string> values_of(const std::vector<Row>& rows, V Row::*member) {
  std::set<V> distinct;  // many rows have few values
  for (const Row& row : rows)
    distinct.insert(row.*member);
  NaturalOrder seen(&natural_less);
  for (const V& value : distinct)
    seen.insert(fmt::format("{}", value));
  return values_of(std::move(seen));
}

std::string joined(const std::vector<std::string>& values, std::size_t most) {
  return join_first(values, most, " · ", std::identity());
}

/// `1 to 64 nodes`, `2 GPUs`.
std::string range_text(const std::vector<std::string>& sizes, std::string_view noun) {
  if (sizes.empty()) return {};
  if (sizes.size() == 1)
    return fmt::format("{} {}{}", sizes.front(), noun, sizes.front() == "1" ? "" : "s");
  return fmt::format("{} to {} {}s", sizes.front(), sizes.back(), noun);
}

/// One fact: what it is called, its answer, and smaller lines as HTML.
std::string fact(std::string_view name, const std::string& answer, const std::string& more) {
  if (answer.empty()) return {};
  return fmt::format(
      "<div><dt>{}</dt><dd><b>{}</b>{}</dd></div>\n", xml_escaped(name), xml_escaped(answer), more);
}

std::string lines(const std::vector<std::string>& texts) {
  std::string out;
  for (const auto& text : texts) {
    if (!text.empty()) out += (out.empty() ? "" : "<br>") + xml_escaped(text);
  }
  return out;
}

std::string bits_text(double bytes_per_s) {
  return fmt::format("{} Gb/s", amount_text(bytes_per_s * 8e-9));
}

std::string name_of(const ClusterSpec& cluster) {
  const auto gpu = cluster.gpu.empty() ? cluster.name : cluster.gpu;
  return cluster.this_machine
      ? fmt::format("this machine, {} as GPUs", counted(cluster.gpus_per_node, "slot"))
      : fmt::format("{} × {} per node", cluster.gpus_per_node, gpu);
}

std::string hardware_fact(const ReportView& view) {
  const auto& clusters = view.input.clusters;
  std::vector<std::string> names;
  std::vector<std::string> more;
  for (const auto& cluster : clusters) {
    names.push_back(name_of(cluster));
    std::string line;
    if (cluster.memory_bytes > 0) line = size_text(cluster.memory_bytes) + " per GPU";
    if (cluster.inter_node_bandwidth > 0 && !cluster.this_machine)
      line += fmt::format("{}{} per GPU between nodes", line.empty() ? "" : ", ",
          bits_text(cluster.inter_node_bandwidth));
    more.push_back(std::move(line));
  }
  if (names.empty()) names = values_of(view.facts().sweeps, &ReportedSweep::cluster);
  auto sizes = values_of(view.trials, &ReportedTrial::nodes);
  std::erase(sizes, "0");
  more.push_back(range_text(sizes, "node"));
  more.push_back(range_text(values_of(view.trials, &ReportedTrial::gpus), "GPU"));
  const auto size = more.size() >= 2 && !more[more.size() - 2].empty()
      ? more[more.size() - 2] + ", " + more.back()
      : more.back();
  more.resize(more.size() - 2);
  more.insert(more.begin(), size);
  return fact("Hardware", joined(names, 2), lines(more));
}

/// `1.34 billion`.
std::string parameters_text(double count) {
  if (count >= 1e9) return amount_text(std::round(count / 1e7) / 100) + " billion";
  if (count >= 1e6) return amount_text(std::round(count / 1e4) / 100) + " million";
  return grouped(static_cast<std::int64_t>(count));
}

std::string models_fact(const ReportView& view) {
  const auto models = values_of(view.trials, &ReportedTrial::model);
  std::vector<std::string> more;
  std::map<std::string, std::int64_t> parameters;
  for (const auto& trial : view.trials) {
    if (trial.n_params > 0) parameters.emplace(trial.model, trial.n_params);
  }
  constexpr std::size_t most_named = 3;
  if (models.size() <= most_named) {
    std::string sizes;
    for (const auto& model : models) {
      const auto found = parameters.find(model);
      if (found != parameters.end())
        sizes += (sizes.empty() ? "" : ", ") + parameters_text(static_cast<double>(found->second));
    }
    if (!sizes.empty()) more.push_back(sizes + " parameters");
  }
  const auto batches = values_of(view.trials, &ReportedTrial::global_batch);
  std::string batch =
      joined(values_of(view.trials, &ReportedTrial::seq_len), 3) + " tokens per sequence";
  if (batches.size() == 1) batch += fmt::format(", batch {} sequences", batches.front());
  if (batches.size() > 1)
    batch += fmt::format(", batch {} to {} sequences", batches.front(), batches.back());
  more.push_back(batch);
  return fact(models.size() == 1 ? "Model" : "Models", joined(models, most_named), lines(more));
}

std::string software_fact(const ReportView& view) {
  std::map<std::string, std::set<std::string>> runners;
  for (const auto& trial : view.trials) {
    if (trial.tokens_per_s_per_gpu) runners[trial.runner].insert(trial.runner_version);
  }
  std::vector<std::string> names;
  std::vector<std::string> more;
  for (const auto& [name, versions] : runners) {
    const bool one = versions.size() == 1;
    names.push_back(one ? told_runner(fmt::format("{} {}", name, *versions.begin())) : name);
    if (!one)
      more.push_back(fmt::format(
          "{} versions: {}", versions.size(), joined({versions.begin(), versions.end()}, 3)));
  }
  if (names.empty()) names = values_of(view.facts().sweeps, &ReportedSweep::runner);
  more.push_back(joined(values_of(view.trials, &ReportedTrial::dtype), 3));
  return fact("Runner", joined(names, 2), lines(more));
}

/// The first and the last moment of rows; none: none is known.
template <class Row>
std::optional<std::pair<Timestamp, Timestamp>> span_of(
    const std::vector<Row>& rows, Timestamp Row::*first, Timestamp Row::*last) {
  Timestamp from = 0;
  Timestamp to = 0;
  for (const Row& row : rows) {
    if (row.*first > 0 && (from == 0 || row.*first < from)) from = row.*first;
    to = std::max(to, row.*last);
  }
  if (from == 0) return std::nullopt;
  return std::pair(from, std::max(from, to));
}
std::optional<std::pair<Timestamp, Timestamp>> submissions(
    const std::vector<ReportedSweep>& sweeps) {
  return span_of(sweeps, &ReportedSweep::submitted_at, &ReportedSweep::submitted_at);
}

/// `2026-11-03 to 2026-11-06`.
std::string dates_text(const std::pair<std::int64_t, std::int64_t>& span) {
  constexpr std::size_t date_length = 10;
  const auto from = local_time_text(span.first).substr(0, date_length);
  const auto to = local_time_text(span.second).substr(0, date_length);
  return from == to ? from : from + " to " + to;
}

std::string date_fact(const ReportView& view) {
  const auto& sweeps = view.facts().sweeps;
  if (const auto ran = span_of(
          view.facts().attempts, &ReportedAttempt::started_at, &ReportedAttempt::ended_at)) {
    return fact("Date", dates_text(*ran),
        xml_escaped("measured within " +
            duration_text(static_cast<double>(ran->second - ran->first) * 1e-6)));
  }
  const auto submitted = submissions(sweeps);
  if (!submitted) return {};
  const bool imported = sweeps.front().backend == Backend::imported;
  return fact("Date", dates_text({submitted->first, submitted->first}),
      imported ? "when the table was imported; run dates are not recorded"
               : "submitted; nothing has run yet");
}

std::string trials_fact(const ReportView& view) {
  const auto counts = counts_by_outcome(view.trials);
  std::int64_t measured = 0;
  std::int64_t all = 0;
  for (const auto& [outcome, count] : counts) {
    if (outcome == "completed") measured = count;
    all += count;
  }
  std::string bar = "<span class=\"share\" aria-hidden=\"true\">";
  std::string words;
  for (const auto& [outcome, count] : counts) {
    bar += fmt::format("<i class=\"k{}\" style=\"width:{:.2f}%\"></i>", outcome_colour(outcome),
        100.0 * static_cast<double>(count) / static_cast<double>(all));
    words +=
        fmt::format("<span style=\"white-space:nowrap\"><i class=\"key k{}\"></i>{} {}</span> ",
            outcome_colour(outcome), grouped(count), xml_escaped(outcome_words(outcome)));
  }
  return fact("Trials", fmt::format("{} measured of {}", grouped(measured), grouped(all)),
      bar + "</span>" + words);
}

std::string money_text(const Price& price, double seconds) {
  const double money = price.per_gpu_hour * seconds / seconds_per_hour;
  const auto amount = money >= 100 ? grouped(std::llround(money)) : fmt::format("{:.2f}", money);
  return amount + (price.currency.empty() ? "" : " " + price.currency);
}

/// Least energy per token of a winner, in joules: its measured power (W) over tokens/s.
std::string energy_text(const ReportView& view) {
  double least = 0;
  for (const auto& cell : view.cells) {
    const auto* winner = cell.answer.winner();
    const auto row = winner != nullptr ? view.row_of(*winner) : std::nullopt;
    if (!row) continue;
    const double power = view.trials[*row].power_w.value_or(0);
    const double speed = view.trials[*row].tokens_per_s_per_gpu.value_or(0);
    if (power <= 0 || speed <= 0) continue;
    const double own = power / speed;
    least = least > 0 ? std::min(least, own) : own;
  }
  return least > 0 ? fmt::format("{} J per token at best (GPUs alone)", amount_text(least))
                   : std::string();
}

std::string cost_fact(const ReportView& view) {
  double spent = 0;
  double saved = 0;
  std::int64_t spared = 0;
  for (const auto& trial : view.trials) {
    spent += trial.gpu_seconds.value_or(0);
    if (trial.outcome != "skipped" || !trial.predicted_attempt_s) continue;
    ++spared;
    saved += *trial.predicted_attempt_s * static_cast<double>(trial.gpus);
  }
  if (spent <= 0) return fact("Cost", "not recorded", "the trials have no run times");
  auto answer = gpu_time_text(spent);
  std::vector<std::string> more;
  if (view.input.price) {
    answer += " = " + money_text(*view.input.price, spent);
    more.push_back(money_text(*view.input.price, seconds_per_hour) + " per GPU-hour");
  }
  if (saved > 0)
    more.push_back(fmt::format("about {} saved: {} of the full grid not run", gpu_time_text(saved),
        counted(spared, "trial")));
  more.push_back(energy_text(view));
  return fact("Cost", answer, lines(more));
}

std::string certainty_fact(const ReportView& view) {
  std::int64_t faster = 0;
  std::int64_t all = 0;
  std::int64_t by_finals = 0;
  std::map<std::string, std::int64_t> others;
  for (const auto& cell : view.cells) {
    if (cell.answer.layouts.empty()) continue;
    ++all;
    const auto style = badge_of(cell.answer).style;
    if (style == "faster") ++faster;
    if (style == "faster" && cell.answer.by_finals) ++by_finals;
    if (style == "tie") ++others["tie"];
    if (style == "run") ++others["winner"];
    if (style == "open") ++others["open"];
  }
  if (all == 0) return {};
  std::vector<std::string> more;
  more.reserve(others.size());
  for (const auto& [word, count] : others)
    more.push_back(word == "open" ? fmt::format("{} open", count)
            : word == "tie"       ? counted(count, "tie")
                                  : counted(count, "winner") + " measured once");
  const auto proven =
      fmt::format("{} of {} proven{}", faster, all, by_finals == faster ? " by finals" : "");
  return fact("How sure", faster == 0 ? "nothing proven yet" : proven,
      xml_escaped(fmt::format("{}", fmt::join(more, ", "))));
}

std::string title_of_page(const ReportView& view) {
  const auto names = values_of(view.facts().sweeps, &ReportedSweep::sweep);
  const auto& heatmap = view.heatmap();
  auto title = joined(names, 4);
  if (title.empty()) title = "shardsweep report";
  if (heatmap.row_name != "model" || heatmap.rows.empty()) return title;
  title += fmt::format(": fastest layouts of {}",
      heatmap.rows.size() == 1 ? heatmap.rows.front()
                               : counted(static_cast<std::int64_t>(heatmap.rows.size()), "model"));
  if (heatmap.column_name == "nodes") title += " on " + range_text(heatmap.columns, "node");
  if (heatmap.column_name == "gpus") title += " on " + range_text(heatmap.columns, "GPU");
  return title;
}

}  // namespace

std::string source_line(ReportSources sources, const std::vector<ClusterSpec>& clusters) {
  const auto& sweeps = sources.sweeps;
  std::vector<std::string> parts{joined(values_of(sweeps, &ReportedSweep::sweep), 3)};
  std::erase_if(sources.allocations, [](const auto& allocation) { return allocation.imported; });
  const auto ran =
      span_of(sources.allocations, &ReportedAllocation::claimed_at, &ReportedAllocation::ended_at);
  if (ran) {
    parts.push_back("measured " + dates_text(*ran));
  } else if (const auto at = submissions(sweeps)) {
    const bool imported = sweeps.front().backend == Backend::imported;
    parts.push_back((imported ? "imported " : "submitted ") + dates_text(*at));
  }
  std::vector<std::string> names;
  names.reserve(clusters.size());
  for (const auto& cluster : clusters)
    names.push_back(name_of(cluster));
  parts.push_back(
      names.empty() ? joined(values_of(sweeps, &ReportedSweep::cluster), 2) : joined(names, 2));
  std::erase(parts, "");
  return printable(joined(parts, parts.size()));
}

std::string header_section(const ReportView& view) {
  std::string out = fmt::format("<header>\n<h1>{}</h1>\n<p class=\"sub\">{}</p>\n",
      xml_escaped(title_of_page(view)), xml_escaped(view.input.made));
  if (!view.input.warning.empty())
    out += fmt::format("<p class=\"note\">{}</p>\n", xml_escaped(view.input.warning));
  out += "</header>\n<dl class=\"facts\">\n";
  for (const auto& one : {hardware_fact(view), models_fact(view), software_fact(view),
           date_fact(view), trials_fact(view), cost_fact(view), certainty_fact(view)})
    out += one;
  out += "</dl>\n";
  if (!view.input.changed.empty())
    out += fmt::format("<p class=\"note\">{}</p>\n", xml_escaped(view.input.changed));
  if (!view.heatmap().note.empty())
    out += fmt::format(
        "<p class=\"note\">{}</p>\n", xml_escaped(without_options(view.heatmap().note)));
  return out;
}

}  // namespace shardsweep
