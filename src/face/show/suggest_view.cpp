// SPDX-License-Identifier: Apache-2.0
#include "show/suggest_view.hpp"

#include "show/cell_text.hpp"
#include "show/table_view.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

namespace shardsweep {
namespace {

constexpr double milliseconds = 1e3;

/// The axes that a suggestion chooses.
constexpr const auto& chosen = axes_with<AxisUse::suggested>;

Value axis_value(const AxisInfo& axis, const Point& point) {
  const auto value = axis.get(point);
  if (axis.kind == AxisKind::word) return axis_text(axis, value);
  return value;
}

Value known(double value) {
  return value > 0 ? Value(value) : Value();
}

/// One row per layout, for machines: bytes and milliseconds.
Table layout_table(const Suggestion& suggestion) {
  Table table;
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
  }
  return table;
}

/// The same for eyes: the degrees are one column.
Table short_table(const Suggestion& suggestion) {
  Table table;
  table.columns = {"layout"};
  for (const auto* axis : chosen) {
    const bool narrow = axis->kind == AxisKind::toggle;
    if (!axis->is(AxisUse::degree))
      table.columns.emplace_back(narrow ? axis->short_name : axis->name);
  }
  for (const auto* name : {"tokens/s/GPU", "MFU", "train step", "memory"})
    table.columns.emplace_back(name);
  for (const auto word : memory_class_words)
    table.columns.emplace_back(word);
  const auto bytes = [](std::int64_t count) { return bytes_text(static_cast<double>(count)); };
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
    for (const auto part : layout.guess.memory.estimate.bytes)
      row.emplace_back(bytes(part));
  }
  return table;
}

void append_step(std::string& out, std::string_view title,
                 const std::vector<std::string>& lines) {
  out += fmt::format("\n{}\n", title);
  for (const auto& line : lines)
    out += fmt::format("   {}\n", line);
}

std::string_view verdict_on(const RuleCheck& check) {
  if (!check.applies) return "does not apply";
  return check.holds ? "holds" : "does not hold";
}

std::string for_eyes(const SuggestRequest& request, const Suggestion& suggestion,
                     const TableStyle& style) {
  constexpr std::size_t indent = 5;
  const auto& terminal = style.terminal;
  const auto shown = [&](const std::string& text) {
    return fold_lines(in_charset(text, terminal.utf8), terminal.width, indent);
  };
  std::string out = fmt::format(
      "{}: {} parameters on {} of {}, {} tokens per sample, {} per train step\n",
      request.model.name, grouped(suggestion.parameters), counted(request.gpus, "GPU"),
      request.cluster.name, grouped(request.seq_len), grouped(request.global_batch_tokens));
  append_step(out, "1. Fit a train step in memory", suggestion.memory);
  append_step(out, "2. Reach the global batch", suggestion.batch);
  append_step(out, "3. Optimise throughput", suggestion.throughput);
  out = shown(out);
  if (!suggestion.layouts.empty()) out += "\n" + table_text(short_table(suggestion), style);
  std::string rules = "\nRules of thumb\n";
  for (const auto& check : suggestion.checks)
    rules += fmt::format("   {}: {} ({}) [{}]\n", check.rule, verdict_on(check), check.why,
                         check.source);
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

std::string as_json(const SuggestRequest& request, const Suggestion& suggestion) {
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
  all.text("model", request.model.name)
      .raw("parameters", fmt::to_string(suggestion.parameters));
  all.text("cluster", request.cluster.name).raw("gpus", fmt::to_string(request.gpus));
  all.raw("seq_len", fmt::to_string(request.seq_len));
  all.raw("global_batch_tokens", fmt::to_string(request.global_batch_tokens));
  all.raw("layouts_judged", fmt::to_string(suggestion.layouts_judged));
  all.raw("layouts_fitting", fmt::to_string(suggestion.layouts_fitting));
  all.raw("steps", steps.take());
  all.raw("layouts", without_newline(table_text(layout_table(suggestion), Format::json)));
  all.raw("checks", "[" + checks + "]");
  return all.take() + "\n";
}

}  // namespace

std::string suggestion_text(const SuggestRequest& request, const Suggestion& suggestion,
                            const TableStyle& style) {
  if (style.format == Format::json) return as_json(request, suggestion);
  if (style.format == Format::csv) return table_text(layout_table(suggestion), style);
  auto ranked = style;
  ranked.important = {"layout",    "tokens/s/GPU", "memory",     "micro_batch", "zero",
                      "recompute", "MFU",          "train step", "grad_accum",  "sp"};
  return for_eyes(request, suggestion, ranked);
}

namespace {

bool varies(const Suggestion& suggestion, const AxisInfo& axis) {
  return std::any_of(suggestion.layouts.begin(), suggestion.layouts.end(),
                     [&](const SuggestedLayout& layout) {
                       return axis.get(layout.point) != axis.default_value;
                     });
}

/// Values of an axis in the suggested layouts; of a degree also half and double of the best's.
std::vector<std::string> neighbours(const Suggestion& suggestion, const AxisInfo& axis,
                                    std::int64_t most) {
  std::set<std::int64_t> values;
  for (const auto& layout : suggestion.layouts)
    values.insert(axis.get(layout.point));
  if (most > 0) {
    const auto best = axis.get(suggestion.layouts.front().point);
    if (best > 1) values.insert(best / 2);
    if (2 * best <= most) values.insert(2 * best);
  }
  std::vector<std::string> words;
  words.reserve(values.size());
  for (const auto value : values) {
    words.push_back(axis.kind == AxisKind::word ? axis_text(axis, value)
                                                : fmt::to_string(value));
  }
  return words;
}

/// How large a value of an axis may be for double the best's to be worth a measurement; 0: it
/// has no such neighbours.
std::int64_t most_worth_trying(const SuggestRequest& request, const AxisInfo& axis) {
  const std::int64_t per_node = request.cluster.gpus_per_node;
  if (axis.name == "tp") return std::min<std::int64_t>(per_node, request.gpus);
  if (axis.name == "pp") return std::min<std::int64_t>(request.model.layers, request.gpus);
  if (axis.name == "cp") return request.gpus;
  if (axis.name == "ep") return std::min<std::int64_t>(request.model.experts, request.gpus);
  if (axis.name == "micro_batch") return request.global_batch_tokens / request.seq_len;
  return 0;
}

}  // namespace

std::string suggested_sweep(const SuggestRequest& request, const Suggestion& suggestion,
                            std::string_view model, std::string_view cluster) {
  const auto& best = suggestion.layouts.front().point;
  const auto& dtype = *find_axis("dtype");
  std::string text = fmt::format(
      "# The layouts that `shardsweep suggest` predicts to be fastest, and their neighbours.\n"
      "# See what would run: shardsweep plan FILE. Run it: shardsweep run FILE.\n"
      "name: suggested-{}\n"
      "cluster: {}\n"
      "constants:\n"
      "  model: {}\n"
      "  dtype: {}\n"
      "  seq_len: {}\n"
      "  global_batch_tokens: {}\n"
      "  {}: {}\n"
      "axes:\n",
      model, cluster, model, axis_text(dtype, dtype.get(best)), request.seq_len,
      request.global_batch_tokens, request.nodes > 0 ? "nodes" : "gpus",
      request.nodes > 0 ? request.nodes : request.gpus);
  for (const auto* axis : chosen) {
    // Of short sequences and dense models cp and ep say nothing.
    const bool always = axis->is(AxisUse::spelt) || !axis->is(AxisUse::degree);
    if (axis->allows_auto || (!always && !varies(suggestion, *axis))) continue;
    const auto most = most_worth_trying(request, *axis);
    text += fmt::format("  {}: [{}]\n", axis->name,
                        fmt::join(neighbours(suggestion, *axis, most), ", "));
  }
  return text +
         "  dp: auto           # what is left of the GPUs\n"
         "  grad_accum: auto   # what the global batch needs\n"
         "search:              # remove it to measure every layout\n"
         "  policy: best_first\n"
         "  until: {regret: 2%, confidence: 95%}\n";
}

}  // namespace shardsweep
