// SPDX-License-Identifier: Apache-2.0
#include "report/cells_of_page.hpp"

#include "answer/answer.hpp"
#include "picture/svg.hpp"
#include "text/content_hash.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

/// If several programs go by its name, the heatmap says which it shows.
bool is_shown(const std::set<std::string>& runners, const ReportedTrial& trial) {
  if (!trial.tokens_per_s_per_gpu) return true;
  const auto name = runner_of(trial);
  return runners.contains(name) || runners.contains(with_code(name, trial.code_hash));
}

/// Sequence length that the heatmap chooses: the one with most measurements, then with most trials.
std::int64_t usual_seq_len(const std::vector<ReportedTrial>& trials) {
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> seen;
  for (const auto& trial : trials) {
    auto& [completed, all] = seen[trial.seq_len];
    completed += trial.outcome == "completed" ? 1 : 0;
    ++all;
  }
  std::int64_t usual = 0;
  std::pair<std::int64_t, std::int64_t> most{-1, -1};
  for (const auto& [seq_len, counts] : seen) {
    if (counts > most) {
      most = counts;
      usual = seq_len;
    }
  }
  return usual;
}

/// `dp8` as `dp` and `8`.
struct Token {
  std::string_view name;
  std::string_view number;
};
Token split(std::string_view token) {
  const auto digits = token.find_first_of("0123456789");
  if (digits == std::string_view::npos || digits == 0 ||
      token.find_first_not_of("0123456789", digits) != std::string_view::npos)
    return {token, {}};
  return {token.substr(0, digits), token.substr(digits)};
}

template <class Take>
void each_token(std::string_view label, Take take) {
  while (!label.empty()) {
    const auto end = std::min(label.find(' '), label.size());
    if (end > 0) take(label.substr(0, end));
    label.remove_prefix(std::min(end + 1, label.size()));
  }
}

}  // namespace

std::string runner_of(const ReportedTrial& trial) {
  return trial.runner + (trial.runner_version.empty() ? "" : " " + trial.runner_version);
}

TrialRows::TrialRows(const std::vector<ReportedTrial>& trials) {
  for (std::size_t row = 0; row < trials.size(); ++row)
    rows_.emplace(trials[row].trial_id, row);
}

std::optional<std::size_t> TrialRows::row(TrialId trial) const {
  const auto found = rows_.find(trial);
  return found == rows_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<PageCell> cells_of_page(
    const Heatmap& heatmap, const std::vector<ReportedTrial>& trials) {
  const auto row_of = trial_column(heatmap.row_name);
  const auto column_of = trial_column(heatmap.column_name);
  const auto seq_len = usual_seq_len(trials);
  const std::set<std::string> shown(heatmap.runners.begin(), heatmap.runners.end());
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> rows_of;
  for (std::size_t row = 0; row < trials.size(); ++row) {
    const auto& trial = trials[row];
    if (trial.seq_len != seq_len || !is_shown(shown, trial)) continue;
    rows_of[{plain_text(row_of(trial)), plain_text(column_of(trial))}].push_back(row);
  }
  std::vector<PageCell> cells;
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      const auto found = rows_of.find({heatmap.rows[r], heatmap.columns[c]});
      if (found == rows_of.end()) continue;
      cells.push_back({r, c, heatmap.cells[r][c].answer, std::move(found->second)});
    }
  }
  return cells;
}

std::string place_of(const Heatmap& heatmap, std::size_t row, std::size_t column) {
  const auto& model = heatmap.rows[row];
  const auto& size = heatmap.columns[column];
  const bool sized = heatmap.column_name == "nodes" || heatmap.column_name == "gpus";
  if (heatmap.row_name != "model" || !sized)
    return fmt::format("{} {}, {} {}", heatmap.row_name, model, heatmap.column_name, size);
  const char* noun = heatmap.column_name == "gpus" ? "GPU" : "node";
  return fmt::format("{} on {} {}{}", model, size, noun, size == "1" ? "" : "s");
}

Badge badge_of(const CellAnswer& answer) {
  const auto word = short_form(answer);
  if (answer.layouts.empty()) return {};
  const double percent = answer.layouts.front().verdict.share * 100;
  const auto share = fmt::format("{:.{}f} %", percent, percent < 10 ? 1 : 0);
  if (word == "faster") return {"faster", "faster " + share};
  if (word == "tie") return {"tie", "tie"};
  if (word == "1 run") return {"run", "1 run, +" + share};
  if (word == "alone") return {"run", "only layout"};
  return {"open", "? " + std::string(word)};
}

std::string axis_words(std::string_view axis) {
  if (axis == "zero") return "ZeRO";
  if (axis == "gpus") return "GPUs";
  std::string words(axis);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string without_options(std::string sentence) {
  constexpr std::array<std::string_view, 3> options{
      " --all-versions ranks them too.", " --all-versions ranks it too.", " (--all-versions)"};
  for (const auto option : options) {
    for (auto at = sentence.find(option); at != std::string::npos; at = sentence.find(option, at))
      sentence.erase(at, option.size());
  }
  return sentence;
}

std::string layout_html(std::string_view label) {
  std::string out;
  each_token(label, [&out](std::string_view token) {
    const auto [name, number] = split(token);
    // A var may be longer than a cell is wide.
    const bool var = token.find('=') != std::string_view::npos;
    out += fmt::format("<span{}>{}", var ? " class=\"var\"" : "", xml_escaped(name));
    if (!number.empty()) out += fmt::format("<b>{}</b>", xml_escaped(number));
    out += "</span> ";
  });
  if (!out.empty()) out.pop_back();
  return out;
}

std::vector<std::pair<std::string, std::string>> short_names_in(
    const std::vector<std::string>& labels) {
  std::set<std::string, std::less<>> seen;
  for (const auto& label : labels)
    each_token(label, [&seen](std::string_view token) { seen.emplace(split(token).name); });
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& axis : axes()) {
    if (axis.of_layout() && !axis.short_name.empty() && seen.contains(axis.short_name))
      names.emplace_back(axis.short_name, axis.meaning);
  }
  return names;
}

}  // namespace shardsweep
