// SPDX-License-Identifier: Apache-2.0
#include "show/suggest_view.hpp"

#include "plan/card.hpp"
#include "show/column.hpp"
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

bool any_measured(const Suggestion& suggestion) {
  return std::any_of(suggestion.layouts.begin(), suggestion.layouts.end(),
      [](const SuggestedLayout& one) { return one.measured != nullptr; });
}

/// Tokens/s per GPU, or how it ended.
std::string measured_text(const SuggestedLayout& layout) {
  if (!layout.measured) return {};
  const auto& seen = layout.measured->seen;
  return seen.tokens_per_s_per_gpu > 0 ? amount_text(seen.tokens_per_s_per_gpu)
                                       : std::string(word_of(seen.outcome));
}

/// Columns of a layout. People see its axes as one column: no two rows look alike.
View<SuggestedLayout> layout_columns(const Suggestion& suggestion) {
  using Layout = const SuggestedLayout&;
  View<SuggestedLayout> columns{
      {"layout", {}, For::people, "", [](Layout one) { return layout_text(one.point); }}};
  const auto add = [&](auto... column) { columns.push_back({std::move(column)...}); };
  for (const auto* axis : axes_of(suggestion))
    add(
        std::string(axis->name), [axis](Layout one) { return axis_value(*axis, one.point); },
        For::machines);
  add(
      "predicted_tokens_per_s_per_gpu", [](Layout one) { return known(one.tokens_per_s_per_gpu); },
      For::all, "tokens/s/GPU");
  add(
      "predicted_mfu", [](Layout one) { return known(one.mfu); }, For::all, "MFU");
  add(
      "predicted_train_step_ms", [](Layout one) { return known(milliseconds * one.guess.step_s); },
      For::all, "train step");
  add(
      "predicted_memory_bytes", [](Layout one) { return one.guess.memory.estimate.total(); },
      For::all, "memory");
  for (std::size_t i = 0; i < memory_class_words.size(); ++i)
    add(
        fmt::format("memory_{}_bytes", memory_class_words[i]),
        [i](Layout one) { return one.guess.memory.estimate.bytes[i]; }, For::all,
        std::string(memory_class_words[i]));
  for (const auto& part : step_parts())
    add(
        fmt::format("step_{}_ms", part.name),
        [&part](Layout one) { return milliseconds * one.guess.time.*part.seconds; }, For::machines);
  add(
      "limit", [](Layout one) { return one.limit; }, For::machines);
  if (!any_measured(suggestion)) return columns;
  add(
      "measured_tokens_per_s_per_gpu",
      [](Layout one) {
        return one.measured ? known(one.measured->seen.tokens_per_s_per_gpu) : Value();
      },
      For::all, "measured", measured_text);
  add(
      "measured_memory_bytes",
      [](Layout one) {
        const bool seen = one.measured && one.measured->seen.peak_bytes > 0;
        return seen ? Value(one.measured->seen.peak_bytes) : Value();
      },
      For::machines);
  return columns;
}

/// The most important columns first.
std::string layouts_text(const Suggestion& suggestion, TableStyle style) {
  style.important = {"layout", "predicted_tokens_per_s_per_gpu", "predicted_memory_bytes",
      "predicted_mfu", "predicted_train_step_ms"};
  return view_text(layout_columns(suggestion), suggestion.layouts, style);
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

/// Line on offload, which keeps its default unless somebody locks it; empty if nobody can.
std::string untried_text(const SuggestRequest& request) {
  return can_be_asked_to_offload(request) ? "Not tried: keeping some of the state in host memory. "
                                            "--lock offload=optimizer or offload=all tries it.\n"
                                          : "";
}

/// Line on what offload would give, which no answer tries; empty if that is nothing.
std::string offloaded_text(const Suggestion& suggestion) {
  if (!suggestion.offloaded) return "";
  const auto& with = *suggestion.offloaded;
  const auto& axis = *find_axis("offload");
  const auto speed = with.tokens_per_s_per_gpu > 0
      ? fmt::format(": {} tokens/s per GPU", amount_text(with.tokens_per_s_per_gpu))
      : "";
  return fmt::format("With --lock offload={} {} would fit{}{}.\n",
      axis_text(axis, axis.get(with.point)), layout_text(with.point), speed,
      suggestion.layouts.empty()
          ? ""
          : fmt::format(", {} faster",
                percent_text(suggestion.layouts.front().guess.step_s / with.guess.step_s - 1)));
}

/// The answer in a few lines: what to use, what it gives, what comes close, how sure that is.
std::string card_text(
    const SuggestRequest& request, const Suggestion& suggestion, const SuggestionView& view) {
  std::string out = asked_sentence(request) + "\n";
  if (suggestion.layouts.empty()) {
    out += suggestion.memory.back() + "\n" + offloaded_text(suggestion);
  } else {
    const auto& best = suggestion.layouts.front();
    out += fmt::format(
        "Use {}:\n   {}\n   {}\n", layout_text(best.point), headline(request, best), best.limit);
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
  return out + untried_text(request) + offloaded_text(suggestion);
}

std::string for_eyes(const SuggestRequest& request, const Suggestion& suggestion,
    const SuggestionView& view, const TableStyle& style) {
  constexpr std::size_t indent = 5;
  const auto& terminal = style.terminal;
  const auto shown = [&](const std::string& text) {
    return fold_lines(in_charset(text, terminal.utf8), terminal.width, indent);
  };
  std::string out = shown(card_text(request, suggestion, view));
  if (!suggestion.layouts.empty()) out += "\n" + layouts_text(suggestion, style);
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
  all.raw("layouts", without_newline(layouts_text(suggestion, {.format = Format::json})));
  all.raw("checks", "[" + checks + "]");
  return all.take() + "\n";
}

}  // namespace

std::string suggestion_text(const SuggestRequest& request, const Suggestion& suggestion,
    const SuggestionView& view, const TableStyle& style) {
  if (style.format == Format::json) return as_json(request, suggestion, view);
  if (style.format == Format::csv) return layouts_text(suggestion, style);
  return for_eyes(request, suggestion, view, style);
}

std::string why_not_text(
    const SuggestRequest& request, const WhyNot& answer, const TableStyle& style) {
  Suggestion one;
  if (answer.layout) one.layouts.push_back(*answer.layout);
  if (style.format != Format::table) return layouts_text(one, style);
  std::string out = answer.why + "\n";
  if (answer.place > 0)
    out += fmt::format(
        "Place {} of {} layouts that fit.\n", grouped(answer.place), grouped(answer.of));
  if (answer.layout)
    out += fmt::format(
        "{}:\n   {}\n", layout_text(answer.layout->point), headline(request, *answer.layout));
  constexpr std::size_t indent = 5;
  out = fold_lines(in_charset(out, style.terminal.utf8), style.terminal.width, indent);
  if (answer.layout) out += "\n" + layouts_text(one, style);
  return out;
}

}  // namespace shardsweep
