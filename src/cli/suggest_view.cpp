// SPDX-License-Identifier: Apache-2.0
#include "cli/suggest_view.hpp"

#include "cli/table_view.hpp"
#include "domain/text.hpp"

#include <shardsweep/point.hpp>

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <string_view>
#include <vector>

namespace shardsweep {
namespace {

constexpr double milliseconds = 1e3;

/// The axes that a suggestion chooses.
constexpr std::array<std::string_view, 8> chosen{
    "dp", "tp", "pp", "micro_batch", "grad_accum", "zero", "recompute", "sequence_parallel"};

Value axis_value(std::string_view name, const Point& point) {
  const auto& axis = *find_axis(name);
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
  for (const auto name : chosen)
    table.columns.emplace_back(name);
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
    for (const auto name : chosen)
      row.push_back(axis_value(name, layout.point));
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

/// The same for eyes.
Table short_table(const Suggestion& suggestion) {
  Table table;
  table.columns = {"dp",        "tp", "pp",           "micro_batch", "grad_accum", "zero",
                   "recompute", "sp", "tokens/s/GPU", "MFU",         "train step", "memory"};
  for (const auto word : memory_class_words)
    table.columns.emplace_back(word);
  const auto bytes = [](std::int64_t count) { return bytes_text(static_cast<double>(count)); };
  for (const auto& layout : suggestion.layouts) {
    auto& row = table.rows.emplace_back();
    for (const auto name : chosen)
      row.push_back(axis_value(name, layout.point));
    const bool speed = layout.tokens_per_s_per_gpu > 0;
    row.push_back(speed ? Value(fmt::format("{:.0f}", layout.tokens_per_s_per_gpu)) : Value());
    row.push_back(speed ? Value(fmt::format("{:.1f} %", 100 * layout.mfu)) : Value());
    row.push_back(speed ? Value(fmt::format("{} s", amount_text(layout.guess.step_s)))
                        : Value());
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

std::string for_eyes(const SuggestRequest& request, const Suggestion& suggestion) {
  std::string out = fmt::format(
      "{}: {} parameters on {} of {}, {} tokens per sample, {} per train step\n",
      request.model.name, grouped(suggestion.parameters), counted(request.gpus, "GPU"),
      request.cluster.name, grouped(request.seq_len), grouped(request.global_batch_tokens));
  append_step(out, "1. Fit a train step in memory", suggestion.memory);
  append_step(out, "2. Reach the global batch", suggestion.batch);
  append_step(out, "3. Optimise throughput", suggestion.throughput);
  if (!suggestion.layouts.empty())
    out += "\n" + table_text(short_table(suggestion), Format::table);
  out += "\nRules of thumb\n";
  for (const auto& check : suggestion.checks)
    out += fmt::format("   {}: {} ({}) [{}]\n", check.holds ? "holds" : "does not hold",
                       check.rule, check.why, check.source);
  return out;
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
                            Format format) {
  if (format == Format::json) return as_json(request, suggestion);
  if (format == Format::csv) return table_text(layout_table(suggestion), format);
  return for_eyes(request, suggestion);
}

}  // namespace shardsweep
