// SPDX-License-Identifier: Apache-2.0
#include "report/sections.hpp"

#include "picture/svg.hpp"
#include "report/charts.hpp"
#include "report/page.hpp"
#include "report/page_data.hpp"
#include "show/pivot.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

struct Condition {
  std::string name;
  std::map<std::string, std::int64_t> values;
};

std::vector<Condition> conditions_of(const std::vector<ReportedTrial>& trials) {
  std::map<std::string, std::map<std::string, std::int64_t>> found;
  for (const auto& trial : trials) {
    if (!trial.tokens_per_s_per_gpu) continue;
    ++found["runner"][told_runner(runner_of(trial))];
    ++found["dtype"][trial.dtype];
    ++found["global batch"][fmt::to_string(trial.global_batch)];
    for (auto& [key, value] : key_values(trial.software))
      ++found[key][value];
  }
  std::vector<Condition> conditions;
  conditions.reserve(found.size());
  for (auto& [name, values] : found)
    conditions.push_back({name, std::move(values)});
  return conditions;
}

std::string with_counts(const std::map<std::string, std::int64_t>& values) {
  const auto with_count = [](const auto& one) {
    return fmt::format("{} ({})", one.first, counted(one.second, "run"));
  };
  return join_first(values, 6, ", ", with_count, ", and ");
}

/// Lines that may hold a secret are in the site file, which a report does not have.
std::string details(std::string_view summary, const std::string& text) {
  if (text.empty()) return {};
  return fmt::format("<details><summary>{}</summary><pre tabindex=\"0\">", xml_escaped(summary)) +
      xml_escaped_lines(text) + "</pre></details>\n";
}

/// An empty place that the script draws into.
std::string chart_place(std::string_view id, std::string_view caption) {
  return fmt::format(
      "<figure id=\"{}\"><div class=\"scroll\"><div "
      "class=\"plot\"></div></div><figcaption>{}</figcaption></figure>\n",
      id, caption);
}

/// Measured over predicted: the middle, and the middle four fifths.
std::string predicted_caption(const std::vector<ReportedTrial>& trials) {
  std::vector<double> ratios;
  for (const auto& trial : trials) {
    const double measured = trial.tokens_per_s_per_gpu.value_or(0);
    const double predicted = trial.predicted_tokens_per_s_per_gpu.value_or(0);
    if (measured > 0 && predicted > 0) ratios.push_back(measured / predicted);
  }
  constexpr std::size_t least_points = 3;
  if (ratios.size() < least_points) return {};
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    return ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1))];
  };
  return fmt::format(
      "Predicted before anything ran. Measured speed over predicted speed: {:.2f} in the median, "
      "{:.2f} to {:.2f} for the middle 80 % of {}.",
      at(0.5), at(0.1), at(0.9), counted(static_cast<std::int64_t>(ratios.size()), "trial"));
}

/// Causes that differ in their numbers alone, or in the trial that stands behind them in brackets,
/// are one.
std::string kind_of_cause(std::string cause) {
  const auto name = cause.rfind(" (");
  if (name != std::string::npos && cause.back() == ')' && cause.find(' ', name + 1) == cause.npos)
    cause.resize(name);
  std::string kind;
  for (const char c : cause) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || !kind.ends_with('#')) kind += digit ? '#' : c;
  }
  return kind;
}

bool has_memory(const std::vector<ReportedTrial>& trials) {
  return std::any_of(trials.begin(), trials.end(), [](const ReportedTrial& trial) {
    return trial.tokens_per_s_per_gpu && trial.peak_memory_bytes;
  });
}

}  // namespace

std::string gpu_time_text(double gpu_seconds) {
  const double hours = gpu_seconds / seconds_per_hour;
  if (hours >= 100) return grouped(std::llround(hours)) + " GPU-h";
  if (hours >= 1) return fmt::format("{:.1f} GPU-h", hours);
  constexpr double minute = 60;
  return gpu_seconds >= minute ? fmt::format("{:.1f} GPU-min", gpu_seconds / minute)
                               : fmt::format("{:.2g} GPU-s", gpu_seconds);
}

std::string section(std::string_view heading, std::string_view body) {
  if (body.empty()) return {};
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", xml_escaped(heading), body);
}

std::string memory_chart(const ReportView& view) {
  if (!has_memory(view.trials)) return {};
  return "<h3>Speed against memory: <span class=\"chosen-cell\"></span></h3>\n" +
      chart_place("memory-chart",
          "Each dot is a run of the chosen cell; the fastest layouts have their names. Click a dot "
          "for its trial.");
}

std::string predicted_section(const ReportView& view) {
  const auto caption = predicted_caption(view.trials);
  if (caption.empty()) return {};
  return section("Predicted against measured", chart_place("predicted-chart", caption));
}

std::string parallel_section(const ReportView& view) {
  constexpr std::size_t least_trials = 3;
  if (view.trials.size() < least_trials) return {};
  return section("Trials over the axes that vary",
      "<div class=\"bar screen\"><span id=\"chosen\" role=\"status\"></span><label><input "
      "type=\"checkbox\" id=\"only-cell\"> only <span class=\"chosen-cell\">the chosen "
      "cell</span></label><button type=\"button\" id=\"clear\">Show all</button></div>\n" +
          chart_place("parallel-chart",
              "A line is a trial. Drag along an axis to choose a part of it, click it to choose "
              "all of it again. With keys: Tab to an axis, up and down move, with Shift they "
              "widen, Escape clears. The choice holds for the other charts and for the table of "
              "trials. <span class=\"drawn\"></span>"));
}

std::string failures_section(const ReportView& view) {
  std::map<std::pair<std::string, std::string>, std::vector<const ReportedTrial*>> found;
  for (const auto& trial : view.trials) {
    if (trial.outcome.empty() || trial.outcome == "completed") continue;
    found[{trial.outcome, kind_of_cause(shown_cause(trial))}].push_back(&trial);
  }
  if (found.empty()) return {};
  std::vector<std::pair<std::pair<std::string, std::string>, std::vector<const ReportedTrial*>>>
      order(found.begin(), found.end());
  std::stable_sort(order.begin(), order.end(),
      [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  constexpr std::size_t most_rows = 20;
  std::string body =
      "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Failures by cause\"><table "
      "class=\"list\"><thead><tr><th scope=\"col\" class=\"number\">trials</th><th "
      "scope=\"col\">outcome</th><th scope=\"col\">cause</th><th scope=\"col\" "
      "class=\"number\">cost</th><th scope=\"col\">such as</th></tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < std::min(order.size(), most_rows); ++i) {
    const auto& [kind, trials] = order[i];
    double seconds = 0;
    for (const auto* trial : trials)
      seconds += trial->gpu_seconds.value_or(0);
    const auto name = xml_escaped(trials.front()->trial);
    body += fmt::format(
        "<tr><td class=\"number\">{}</td><td class=\"word\">{}</td><td "
        "class=\"long\">{}</td><td class=\"number\">{}</td><td class=\"name\"><a "
        "href=\"#trial={}\">{}</a></td></tr>\n",
        grouped(std::ssize(trials)), xml_escaped(outcome_words(kind.first)),
        xml_escaped(shown_cause(*trials.front())), seconds > 0 ? gpu_time_text(seconds) : "", name,
        name);
  }
  body += "</tbody></table></div>\n";
  if (order.size() > most_rows)
    body += fmt::format(
        "<p class=\"faint\">and {} rarer causes; see all trials.</p>\n", order.size() - most_rows);
  return section("Failures by cause", body);
}

std::string conditions_section(const ReportView& view) {
  std::string equal;
  std::string differing;
  for (const auto& condition : conditions_of(view.trials)) {
    if (condition.values.size() == 1) {
      equal += fmt::format("<dt>{}</dt><dd>{}</dd>\n", xml_escaped(condition.name),
          xml_escaped(condition.values.begin()->first));
    } else {
      differing += fmt::format("<dt>{}</dt><dd>{}</dd>\n", xml_escaped(condition.name),
          xml_escaped(with_counts(condition.values)));
    }
  }
  std::string body;
  if (!differing.empty())
    body += "<div class=\"note\">Not equal in all runs:<dl class=\"words\">" + differing +
        "</dl></div>\n";
  if (!equal.empty()) body += "<p>Equal in all runs:</p><dl class=\"words\">" + equal + "</dl>\n";
  return section("Can the numbers be compared?", body);
}

std::string nodes_section(const ReportView& view) {
  std::string body;
  const auto tables = {std::pair(&view.facts().controls,
                           "Controls: the same short run before and after an allocation's trials"),
      std::pair(&view.facts().checks, "Checks of nodes before an allocation's first trial"),
      std::pair(&view.facts().nodes, "Nodes with findings")};
  for (const auto& [table, caption] : tables) {
    if (!table->rows.empty()) body += html_table(*table, caption);
  }
  return section("Controls and nodes", body);
}

std::string side_runs_section(const ReportView& view) {
  const Table& runs = view.facts().side_runs;
  if (runs.rows.empty()) return {};
  return section("Profiles and memory snapshots",
      html_table(runs, "Extra runs. No number of this page comes from them."));
}

std::string trials_section(const ReportView& view) {
  const auto body = fmt::format(
      "<div class=\"bar\"><label>Filter <input id=\"filter\" type=\"search\" placeholder=\"words; "
      "all have to occur\"></label>\n<button id=\"csv\" class=\"screen\" type=\"button\">Download "
      "CSV</button>\n<span id=\"count\" role=\"status\">{}</span>\n"
      "<button id=\"before\" class=\"screen\" type=\"button\">Previous</button><button "
      "id=\"after\" class=\"screen\" type=\"button\">Next</button></div>\n<div class=\"scroll\" "
      "tabindex=\"0\" role=\"group\" aria-label=\"All trials\"><table id=\"trials\" "
      "class=\"list\"><thead></thead><tbody></tbody></table></div>\n<dialog id=\"trial\" "
      "aria-label=\"One trial\"></dialog>\n<noscript><p>The table and the charts need JavaScript. "
      "What the page says above is complete without it.</p></noscript>\n",
      counted(static_cast<std::int64_t>(view.trials.size()), "trial"));
  return section("All trials", body);
}

std::string reproduce_section(const ReportView& view) {
  std::string body;
  for (const ReportedSweep& sweep : view.facts().sweeps) {
    body += fmt::format("<h3>{}</h3><dl class=\"words\">", xml_escaped(sweep.sweep));
    const auto add = [&](std::string_view name, std::string_view text) {
      if (!text.empty()) body += fmt::format("<dt>{}</dt><dd>{}</dd>", name, xml_escaped(text));
    };
    add("backend", word_of(sweep.backend));
    add("cluster", sweep.cluster);
    add("runner", sweep.runner);
    add("its version", sweep.runner_version);
    add("submission", fmt::to_string(sweep.revision));
    body += "</dl>\n";
    if (sweep.backend == Backend::imported) {
      body += fmt::format("<p>{}</p>\n", xml_escaped(sweep.resolved));
      continue;
    }
    body += details("The sweep file, complete: save it and `shardsweep run` it", sweep.resolved);
    body += details("The template of its job scripts", sweep.job_template);
  }
  if (!body.empty())
    body +=
        "<p class=\"faint\">The site file is not part of a report: it may hold secrets. "
        "`shardsweep render` prints the job script of a sweep file.</p>\n";
  return section("How to reproduce", body);
}

std::vector<std::pair<std::string, std::int64_t>> counts_by_outcome(
    const std::vector<ReportedTrial>& trials) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& trial : trials)
    ++counts[!trial.outcome.empty()   ? trial.outcome
            : trial.state == "queued" ? "planned"
                                      : trial.state];
  std::vector<std::pair<std::string, std::int64_t>> found(counts.begin(), counts.end());
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    const bool first = a.first == "completed";
    const bool second = b.first == "completed";
    return first != second ? first : a.second > b.second;
  });
  return found;
}

std::string outcome_words(std::string_view outcome) {
  if (outcome == "completed") return "measured";
  if (outcome == "oom") return "out of memory";
  if (outcome == "node_failure") return "node failures";
  if (outcome == "comm_error") return "communication errors";
  if (outcome == "skipped") return "skipped";
  if (outcome == "planned" || outcome == "queued" || outcome.empty()) return "not run yet";
  return std::string(outcome);
}

std::size_t outcome_colour(std::string_view outcome) {
  auto role = ColourRole::failed;
  if (outcome == "completed") role = ColourRole::measured;
  if (outcome == "oom") role = ColourRole::out_of_memory;
  if (outcome == "running") role = ColourRole::running;
  if (outcome == "skipped" || outcome == "planned" || outcome == "queued")
    role = ColourRole::derived;
  return number_of(role);
}

}  // namespace shardsweep
