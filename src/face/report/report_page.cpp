// SPDX-License-Identifier: Apache-2.0
#include "report/report_page.hpp"

#include "picture/svg.hpp"
#include "report/page.hpp"
#include "report/sections.hpp"
#include "show/cell_text.hpp"
#include "show/format.hpp"
#include "show/table_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace shardsweep {
namespace {

/// In the order of the page's table; the later ones are shown with a single trial.
constexpr std::array<std::string_view, 24> data_columns{"sweep",
                                                        "trial",
                                                        "model",
                                                        "nodes",
                                                        "gpus",
                                                        "layout",
                                                        "vars",
                                                        "outcome",
                                                        "tokens_per_s_per_gpu",
                                                        "train_step_ms",
                                                        "train_step_ms_spread",
                                                        "mfu",
                                                        "peak_memory_bytes",
                                                        "mark",
                                                        "predicted_tokens_per_s_per_gpu",
                                                        "predicted_memory_bytes",
                                                        "state",
                                                        "cause",
                                                        "evidence",
                                                        "runner",
                                                        "runner_version",
                                                        "hosts",
                                                        "files",
                                                        "seq_len"};

void append_script_json(fmt::memory_buffer& out, std::string_view text) {
  fmt::memory_buffer plain;
  append_json(plain, text);
  for (const char c : std::string_view(plain.data(), plain.size())) {
    // "</script>" and "<!--" would end or change the element.
    if (c == '<') {
      const std::string_view code = "\\u003c";
      out.append(code.data(), code.data() + code.size());
    } else {
      out.push_back(c);
    }
  }
}

/// Text that occurs again is a number of the list of texts.
class TextNumbers {
 public:
  std::size_t number(const std::string& text) {
    const auto [found, added] = numbers_.try_emplace(text, texts_.size());
    if (added) texts_.push_back(text);
    return found->second;
  }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> texts_;
};

void append_datum(fmt::memory_buffer& out, const Value& value, TextNumbers& texts) {
  const auto back = std::back_inserter(out);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    fmt::format_to(back, "{}", *integer);
  } else if (const auto* real = std::get_if<double>(&value);
             real != nullptr && std::isfinite(*real)) {
    fmt::format_to(back, "{:.5g}", *real);
  } else if (const auto* text = std::get_if<std::string>(&value); text != nullptr) {
    // A list of one number: a text.
    fmt::format_to(back, "[{}]", texts.number(printable(*text)));
  } else {
    fmt::format_to(back, "null");
  }
}

/// Columns whose values differ; of the others one value stands for all rows.
std::vector<bool> varying(const Rows& trials) {
  std::vector<bool> varies;
  for (const auto column : data_columns) {
    bool any = false;
    for (std::size_t row = 1; row < trials.size() && !any; ++row)
      any = trials.value(row, column) != trials.value(0, column);
    varies.push_back(any);
  }
  return varies;
}

std::string data_element(const ReportInput& input) {
  const Rows trials(input.facts.trials);
  TextNumbers texts;
  const auto varies = varying(trials);
  fmt::memory_buffer same;
  for (std::size_t i = 0; i < data_columns.size(); ++i) {
    same.push_back(i == 0 ? '[' : ',');
    const bool one = !varies[i] && trials.size() > 0;
    append_datum(same, one ? trials.value(0, data_columns[i]) : Value(), texts);
  }
  fmt::memory_buffer rows;
  for (std::size_t row = 0; row < trials.size(); ++row) {
    rows.push_back(row == 0 ? '[' : ',');
    rows.push_back('[');
    for (std::size_t i = 0; i < data_columns.size(); ++i) {
      if (!varies[i]) continue;
      append_datum(rows, trials.value(row, data_columns[i]), texts);
      rows.push_back(',');
    }
    const auto tail =
        input.log_tails.find(trials.text(row, "sweep") + "/" + trials.text(row, "trial"));
    append_datum(rows, tail == input.log_tails.end() ? Value() : Value(tail->second), texts);
    rows.push_back(']');
  }
  if (trials.size() == 0) rows.push_back('[');
  fmt::memory_buffer out;
  const auto put = [&out](std::string_view text) {
    out.append(text.data(), text.data() + text.size());
  };
  put("<script type=\"application/json\" id=\"data\">{\"columns\":[");
  for (const auto column : data_columns) {
    append_script_json(out, column);
    out.push_back(',');
  }
  put("\"log_tail\"],\"titles\":[");
  for (const auto column : data_columns) {
    append_script_json(out, title_of(column));
    out.push_back(',');
  }
  put("\"end of its log\"],\"texts\":[");
  for (std::size_t i = 0; i < texts.texts().size(); ++i) {
    if (i > 0) out.push_back(',');
    append_script_json(out, texts.texts()[i]);
  }
  put("],\"varies\":[");
  for (const bool one : varies)
    put(one ? "1," : "0,");
  put("1],\"same\":");
  out.append(same);
  put(",null],\"rows\":");
  out.append(rows);
  put("]}</script>\n");
  return fmt::to_string(out);
}

std::string page_title(const ReportFacts& facts) {
  const Rows sweeps(facts.sweeps);
  std::string names;
  constexpr std::size_t most_named = 4;
  for (std::size_t row = 0; row < std::min(sweeps.size(), most_named); ++row)
    names += (names.empty() ? "" : ", ") + sweeps.text(row, "sweep");
  if (sweeps.size() > most_named)
    names += fmt::format(" and {} more", sweeps.size() - most_named);
  return names.empty() ? "shardsweep report" : names;
}

}  // namespace

std::string report_page(const ReportInput& input) {
  const Rows trials(input.facts.trials);
  const auto layouts = layouts_of_cells(input.heatmap, trials);
  const ReportView view{input.facts, input.heatmap, layouts, trials, input.memory_limit};
  const auto title = page_title(input.facts);
  std::string body = fmt::format("<main>\n<h1>{}</h1>\n<p class=\"faint\">{}</p>\n",
                                 escaped(title), escaped(input.made));
  if (!input.warning.empty())
    body += fmt::format("<p class=\"warning\">{}</p>\n", escaped(input.warning));
  body += sentence_section(view);
  body += comparability_section(view);
  body += heatmap_section(view);
  body += predicted_section(view);
  body += scaling_section(view);
  body += history_section(view);
  body += timeline_section(view);
  body += nodes_section(view);
  body += trials_section(view);
  body += reproduce_section(view);
  body += "</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n";
  body += data_element(input);
  auto page = html_page(title, body, PageScript::whole);
  if (input.refresh_s > 0) {
    const std::string_view head = "<meta charset=\"utf-8\">\n";
    page.insert(page.find(head) + head.size(),
                fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", input.refresh_s));
  }
  return page;
}

}  // namespace shardsweep
