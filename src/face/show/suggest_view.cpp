// SPDX-License-Identifier: Apache-2.0
#include "show/suggest_view.hpp"

#include "plan/card.hpp"
#include "show/cell_text.hpp"
#include "show/table_view.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

namespace shardsweep {
namespace {

constexpr double milliseconds = 1e3;

/// The axes that a suggestion chooses; of those that few trainers have, and of those that
/// follow from others, the ones that some layout sets.
std::vector<const AxisInfo*> axes_of(const Suggestion& suggestion) {
  std::vector<const AxisInfo*> chosen;
  for (const auto& axis : axes()) {
    const bool always = axis.is(AxisUse::suggested) && !axis.is(AxisUse::optional_flag);
    const bool set = std::any_of(suggestion.layouts.begin(), suggestion.layouts.end(),
        [&](const SuggestedLayout& one) { return axis.get(one.point) != axis.default_value; });
    if (always || (set && axis.is(AxisUse::optional_flag))) chosen.push_back(&axis);
  }
  return chosen;
}

Value axis_value(const AxisInfo& axis, const Point& point) {
  const auto value = axis.get(point);
  if (axis.kind == AxisKind::word) return axis_text(axis, value);
  return value;
}

Value known(double value) {
  return value > 0 ? Value(value) : Value();
}

bool any_measured(const Suggestion& suggestion) {
  return std::any_of(suggestion.layouts.begin(), suggestion.layouts.end(),
      [](const SuggestedLayout& one) { return one.measured != nullptr; });
}

/// Tokens/s per GPU, or how it ended.
Value measured_cell(const SuggestedLayout& layout) {
  if (!layout.measured) return {};
  const auto& seen = layout.measured->seen;
  if (seen.tokens_per_s_per_gpu > 0) return amount_text(seen.tokens_per_s_per_gpu);
  return std::string(word_of(seen.outcome));
}

/// One row per layout, for machines: bytes and milliseconds.
Table layout_table(const Suggestion& suggestion) {
  Table table;
  const auto chosen = axes_of(suggestion);
  for (const auto* axis : chosen)
    table.columns.emplace_back(axis->name);
  for (const auto* name : {"predicted_tokens_per_s_per_gpu", "predicted_mfu",
           "predicted_train_step_ms", "predicted_memory_bytes"})
    table.columns.emplace_back(name);
  for (const auto word : memory_class_words)
    table.columns.push_back(fmt::format("memory_{}_bytes", word));
  for (const auto& part : step_parts())
    table.columns.push_back(fmt::format("step_{}_ms", part.name));
  table.columns.emplace_back("limit");
  const bool learnt = any_measured(suggestion);
  if (learnt) {
    table.columns.emplace_back("measured_tokens_per_s_per_gpu");
    table.columns.emplace_back("measured_memory_bytes");
  }
  for (const auto& layout : suggestion.layouts) {
    auto& row = table.rows.emplace_back();
    for (const auto* axis : chosen)
      row.push_back(axis_value(*axis, layout.point));
    row.push_back(known(layout.tokens_per_s_per_gpu));
    row.push_back(known(layout.mfu));
    row.push_back(known(milliseconds * layout.guess.step_s));
    row.emplace_back(layout.guess.memory.estimate.total());
    for (const auto bytes : layout.guess.memory.estimate.bytes)
      row.emplace_back(bytes);
    for (const auto& part : step_parts())
      row.emplace_back(milliseconds * layout.guess.time.*part.seconds);
    row.emplace_back(layout.limit);
    if (!learnt) continue;
    const auto* const seen = layout.measured.get();
    row.push_back(seen ? known(seen->seen.tokens_per_s_per_gpu) : Value());
    row.push_back(seen && seen->seen.peak_bytes > 0 ? Value(seen->seen.peak_bytes) : Value());
  }
  return table;
}

/// The same for eyes: the degrees are one column.
Table short_table(const Suggestion& suggestion) {
  const auto chosen = axes_of(suggestion);
  Table table;
  table.columns = {"layout"};
  for (const auto* axis : chosen) {
    const bool narrow = axis->kind == AxisKind::toggle;
    if (!axis->is(AxisUse::degree))
      table.columns.emplace_back(narrow ? axis->short_name : axis->name);
  }
  for (const auto* name : {"tokens/s/GPU", "MFU", "train step", "memory"})
    table.columns.emplace_back(name);
  const bool learnt = any_measured(suggestion);
  if (learnt) table.columns.emplace_back("measured");
  for (const auto word : memory_class_words)
    table.columns.emplace_back(word);
  const auto bytes = [](std::int64_t count) { return size_text(count); };
  for (const auto& layout : suggestion.layouts) {
    auto& row = table.rows.emplace_back();
    row.emplace_back(layout_text(layout.point, LayoutForm::degrees));
    for (const auto* axis : chosen) {
      if (!axis->is(AxisUse::degree)) row.push_back(axis_value(*axis, layout.point));
    }
    const bool speed = layout.tokens_per_s_per_gpu > 0;
    row.push_back(speed ? Value(amount_text(layout.tokens_per_s_per_gpu)) : Value());
    row.push_back(speed ? Value(percent_text(layout.mfu)) : Value());
    row.push_back(speed ? Value(duration_text(layout.guess.step_s)) : Value());
    row.emplace_back(bytes(layout.guess.memory.estimate.total()));
    if (learnt) row.push_back(measured_cell(layout));
    for (const auto part : layout.guess.memory.estimate.bytes)
      row.emplace_back(bytes(part));
  }
  return table;
}

void append_step(std::string& out, std::string_view title, const std::vector<std::string>& lines) {
  out += fmt::format("\n{}\n", title);
  for (const auto& line : lines)
    out += fmt::format("   {}\n", line);
}

std::string_view verdict_on(const RuleCheck& check) {
  if (!check.applies) return "does not apply";
  return check.holds ? "holds" : "does not hold";
}

/// The answer in a few lines: what to use, what it gives, what comes close, how sure that is.
std::string card_text(
    const SuggestRequest& request, const Suggestion& suggestion, const SuggestionView& view) {
  std::string out = asked_sentence(request) + "\n";
  if (suggestion.layouts.empty()) {
    out += suggestion.memory.back() + "\n";
  } else {
    const auto& best = suggestion.layouts.front();
    out += fmt::format("Use {}:\n   {}\n   {}\n", layout_text(best.point, LayoutForm::sentence),
        headline(request, best), best.limit);
    const auto others = runners_up(suggestion);
    if (!others.empty()) out += fmt::format("Next best: {}.\n", others.front());
  }
  const auto measured = fastest_measured(request);
  if (!measured.empty()) out += measured + "\n";
  if (view.least_gpus)
    out += fmt::format("Least GPUs with this batch: {}.\n", grouped(*view.least_gpus));
  if (!view.batch.empty()) out += view.batch + "\n";
  if (suggestion.layouts.empty()) return out;
  for (const auto& line : trust(request, suggestion.layouts.front()))
    out += line + "\n";
  return out;
}

std::string for_eyes(const SuggestRequest& request, const Suggestion& suggestion,
    const SuggestionView& view, const TableStyle& style) {
  constexpr std::size_t indent = 5;
  const auto& terminal = style.terminal;
  const auto shown = [&](const std::string& text) {
    return fold_lines(in_charset(text, terminal.utf8), terminal.width, indent);
  };
  std::string out = shown(card_text(request, suggestion, view));
  if (!suggestion.layouts.empty()) out += "\n" + table_text(short_table(suggestion), style);
  if (!view.explain) return out;
  std::string steps;
  append_step(steps, "1. Fit a train step in memory", suggestion.memory);
  append_step(steps, "2. Reach the global batch", suggestion.batch);
  append_step(steps, "3. Optimise throughput", suggestion.throughput);
  out += shown(steps);
  std::string rules = "\nRules of thumb\n";
  for (const auto& check : suggestion.checks)
    rules += fmt::format(
        "   {}: {} ({}) [{}]\n", check.rule, verdict_on(check), check.why, check.source);
  return out + shown(rules);
}

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

class JsonObject {
 public:
  JsonObject& text(std::string_view name, std::string_view value) {
    key(name);
    append_json(out_, value);
    return *this;
  }
  JsonObject& raw(std::string_view name, std::string_view value) {
    key(name);
    fmt::format_to(std::back_inserter(out_), "{}", value);
    return *this;
  }
  JsonObject& texts(std::string_view name, const std::vector<std::string>& values) {
    key(name);
    out_.push_back('[');
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_.push_back(',');
      append_json(out_, values[i]);
    }
    out_.push_back(']');
    return *this;
  }
  [[nodiscard]] std::string take() const { return "{" + fmt::to_string(out_) + "}"; }

 private:
  void key(std::string_view name) {
    if (out_.size() > 0) out_.push_back(',');
    append_json(out_, name);
    out_.push_back(':');
  }
  fmt::memory_buffer out_;
};

std::string as_json(
    const SuggestRequest& request, const Suggestion& suggestion, const SuggestionView& view) {
  std::string checks;
  for (const auto& check : suggestion.checks) {
    JsonObject one;
    one.text("rule", check.rule).raw("holds", check.holds ? "true" : "false");
    one.raw("applies", check.applies ? "true" : "false");
    one.text("why", check.why).text("source", check.source);
    checks += (checks.empty() ? "" : ",") + one.take();
  }
  JsonObject steps;
  steps.texts("memory", suggestion.memory).texts("batch", suggestion.batch);
  steps.texts("throughput", suggestion.throughput);
  JsonObject all;
  all.text("model", request.model.name).raw("parameters", fmt::to_string(suggestion.parameters));
  all.text("cluster", request.cluster.name).raw("gpus", fmt::to_string(request.gpus));
  all.raw("seq_len", fmt::to_string(request.seq_len));
  all.raw("global_batch_tokens", fmt::to_string(request.global_batch_tokens));
  all.raw("least_gpus", view.least_gpus ? fmt::to_string(*view.least_gpus) : "null");
  if (!view.batch.empty()) all.text("batch_verdict", view.batch);
  all.raw("layouts_judged", fmt::to_string(suggestion.layouts_judged));
  all.raw("layouts_fitting", fmt::to_string(suggestion.layouts_fitting));
  all.raw("steps", steps.take());
  all.raw("layouts", without_newline(table_text(layout_table(suggestion), Format::json)));
  all.raw("checks", "[" + checks + "]");
  return all.take() + "\n";
}

/// Columns of the table for eyes, the most important first.
TableStyle by_importance(TableStyle style) {
  style.important = {"layout", "tokens/s/GPU", "memory", "micro_batch", "zero", "recompute", "MFU",
      "train step", "grad_accum", "sp"};
  return style;
}

}  // namespace

std::string suggestion_text(const SuggestRequest& request, const Suggestion& suggestion,
    const SuggestionView& view, const TableStyle& style) {
  if (style.format == Format::json) return as_json(request, suggestion, view);
  if (style.format == Format::csv) return table_text(layout_table(suggestion), style);
  return for_eyes(request, suggestion, view, by_importance(style));
}

std::string why_not_text(
    const SuggestRequest& request, const WhyNot& answer, const TableStyle& style) {
  Suggestion one;
  if (answer.layout) one.layouts.push_back(*answer.layout);
  if (style.format != Format::table) return table_text(layout_table(one), style);
  std::string out = answer.why + "\n";
  if (answer.place > 0)
    out += fmt::format(
        "Place {} of {} layouts that fit.\n", grouped(answer.place), grouped(answer.of));
  if (answer.layout)
    out += fmt::format("{}:\n   {}\n", layout_text(answer.layout->point, LayoutForm::sentence),
        headline(request, *answer.layout));
  constexpr std::size_t indent = 5;
  out = fold_lines(in_charset(out, style.terminal.utf8), style.terminal.width, indent);
  if (answer.layout) out += "\n" + table_text(short_table(one), by_importance(style));
  return out;
}

}  // namespace shardsweep
