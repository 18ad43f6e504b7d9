// SPDX-License-Identifier: Apache-2.0
#include "explore/answer.hpp"

#include "plan/card.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"
#include "trainer/configuration.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shardsweep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> fit_words{"fits", "doubtful", "never"};

Json memory_of(const MemoryGuess& memory) {
  Json classes = Json::array();
  for (std::size_t i = 0; i < memory_class_words.size(); ++i) {
    const auto bytes = memory.estimate.bytes[i];
    classes.push_back(
        {{"name", memory_class_words[i]}, {"bytes", bytes}, {"text", size_text(bytes)}});
  }
  return {{"bytes", memory.estimate.total()}, {"text", size_text(memory.estimate.total())},
      {"lower_bytes", memory.lower_bytes}, {"upper_bytes", memory.upper_bytes},
      {"range",
          fmt::format("{} to {}", size_text(memory.lower_bytes), size_text(memory.upper_bytes))},
      {"fit", fit_words[static_cast<std::size_t>(memory.fit)]}, {"stage", memory.estimate.stage},
      {"classes", std::move(classes)}};
}

Json step_of(const Guess& guess) {
  Json parts = Json::array();
  for (const auto& part : step_parts()) {
    const double seconds = guess.time.*part.seconds;
    const double share = guess.time.step_s > 0 ? seconds / guess.time.step_s : 0;
    parts.push_back({{"name", part.name}, {"seconds", seconds},
        {"text", fmt::format("{} · {:.0f} %", duration_text(seconds), 100 * share)}});
  }
  return {{"seconds", guess.step_s}, {"text", duration_text(guess.step_s)},
      {"log_sigma", guess.log_sigma}, {"parts", std::move(parts)}};
}

template <class Texts>
Json texts_of(const Texts& texts) {
  Json all = Json::array();
  for (const auto& text : texts)
    all.push_back(text);
  return all;
}

Json json_of_axis(const AxisInfo& axis) {
  return {{"name", axis.name}, {"short", axis.short_name},
      {"kind",
          axis.kind == AxisKind::word         ? "word"
              : axis.kind == AxisKind::toggle ? "toggle"
                                              : "integer"},
      {"words", texts_of(axis.words)}, {"minimum", axis.minimum}, {"maximum", axis.maximum},
      {"default", axis_text(axis, axis.default_value)}, {"suggested", axis.is(AxisUse::suggested)},
      {"meaning", axis.meaning}};
}

/// Unit in which a question has the values of a key.
std::string_view unit_of(KeyType type) {
  switch (type) {
    case KeyType::bytes:
      return "bytes";
    case KeyType::rate:
      return "bytes/s";
    case KeyType::latency:
      return "us";
    default:
      return "";
  }
}

/// The keys of T that hold a number, or true or false.
template <class T>
Json json_of_keys() {
  Json keys = Json::array();
  visit_fields<T>([&](const auto& key) {
    using Member = std::remove_cvref_t<decltype(std::declval<T>().*key.member)>;
    if constexpr (std::is_arithmetic_v<Member>) {
      keys.push_back({{"name", key.name},
          {"kind",
              std::is_same_v<Member, bool>         ? "toggle"
                  : std::is_same_v<Member, double> ? "real"
                                                   : "integer"},
          {"unit", unit_of(key.facts.type)}, {"optional", key.is(Flag::optional)},
          {"minimum", key.facts.least}, {"maximum", key.facts.most},
          {"meaning", key.facts.meaning}});
    }
  });
  return keys;
}

Json json_of_measured(const MeasuredLayout& measured) {
  return {{"label", layout_text(measured.seen.point)}, {"outcome", word_of(measured.seen.outcome)},
      {"tokens_per_s_per_gpu", measured.seen.tokens_per_s_per_gpu},
      {"speed",
          measured.seen.tokens_per_s_per_gpu > 0 ? amount_text(measured.seen.tokens_per_s_per_gpu)
                                                 : std::string()},
      {"runs", measured.runs}, {"sentence", measured_sentence(measured)}};
}

/// Fastest run with a wanted layout, shown beside a prediction for such a job. Null: there is none.
template <class Wanted>
Json fastest_json(const SuggestRequest& request, std::int32_t gpus, const Wanted& wanted) {
  if (!request.learnt) return nullptr;
  auto world = world_of(request);
  world.gpus = gpus;
  const auto* const found = request.learnt->fastest(request.model, world, wanted);
  return found == nullptr ? Json(nullptr) : json_of_measured(*found);
}

}  // namespace

Json json_of_layout(const SuggestRequest& request, const SuggestedLayout& layout) {
  Json axes_of = Json::object();
  for (const auto& axis : axes()) {
    if (axis.of_layout()) axes_of[std::string(axis.name)] = axis_text(axis, axis.get(layout.point));
  }
  return {{"label", layout_text(layout.point)},
      {"degrees", layout_text(layout.point, LayoutForm::degrees)}, {"axes", std::move(axes_of)},
      {"tokens_per_s_per_gpu", layout.tokens_per_s_per_gpu},
      {"speed",
          layout.tokens_per_s_per_gpu > 0 ? amount_text(layout.tokens_per_s_per_gpu)
                                          : std::string()},
      {"mfu", layout.mfu}, {"mfu_text", layout.mfu > 0 ? percent_text(layout.mfu) : std::string()},
      {"headline", headline(request, layout)}, {"limit", layout.limit},
      {"measured", layout.measured ? json_of_measured(*layout.measured) : Json(nullptr)},
      {"step", step_of(layout.guess)}, {"memory", memory_of(layout.guess.memory)}};
}

Json json_of_card(const SuggestRequest& request, const Suggestion& suggestion) {
  Json layouts = Json::array();
  for (const auto& layout : suggestion.layouts)
    layouts.push_back(json_of_layout(request, layout));
  Json rules = Json::array();
  for (const auto& check : suggestion.checks) {
    rules.push_back({{"rule", check.rule}, {"holds", check.holds}, {"applies", check.applies},
        {"why", check.why}, {"source", check.source}});
  }
  Json flow = Json::array();
  for (const auto& step : suggestion.flow)
    flow.push_back({{"question", step.question}, {"yes", step.yes}, {"why", step.why}});
  Json card = {{"parameters", suggestion.parameters}, {"asked", asked_sentence(request)},
      {"parameters_text", parameters_sentence(request.model)},
      {"judged", suggestion.layouts_judged}, {"fitting", suggestion.layouts_fitting},
      {"capacity_bytes", request.cluster.memory_bytes},
      {"capacity", size_text(request.cluster.memory_bytes)}, {"layouts", std::move(layouts)},
      {"others", texts_of(runners_up(suggestion))}, {"measured", fastest_measured(request)},
      {"memory", texts_of(suggestion.memory)}, {"batch", texts_of(suggestion.batch)},
      {"throughput", texts_of(suggestion.throughput)}, {"flow", std::move(flow)},
      {"rules", std::move(rules)}};
  if (suggestion.layouts.empty()) {
    card["why"] = suggestion.memory.back();
    card["batches"] = suggestion.batches;
  } else {
    card["trust"] = texts_of(trust(request, suggestion.layouts.front()));
  }
  return card;
}

Json json_of_gpus(const SuggestRequest& request, const std::vector<GpuCount>& counts) {
  Json rows = Json::array();
  Json least;
  for (const auto& count : counts) {
    Json row = {{"gpus", count.gpus}, {"why", count.why},
        {"measured", fastest_json(request, count.gpus, [](const Layout&) { return true; })}};
    if (count.best) {
      if (least.is_null()) least = count.gpus;
      row["layout"] = json_of_layout(request, *count.best);
      row["efficiency"] = count.efficiency;
      row["efficiency_text"] = percent_text(count.efficiency);
      row["gpu_hours_per_1e9"] = count.gpu_hours_per_1e9;
      row["gpu_hours_text"] =
          count.gpu_hours_per_1e9 > 0 ? amount_text(count.gpu_hours_per_1e9) : std::string();
    }
    rows.push_back(std::move(row));
  }
  return {{"least", std::move(least)}, {"counts", std::move(rows)}};
}

Json json_of_pairs(
    const SuggestRequest& request, const AxisPair& pair, const std::vector<PairCell>& cells) {
  const auto& across = *find_axis(pair.across);
  const auto& down = *find_axis(pair.down);
  Json all = Json::array();
  for (const auto& cell : cells) {
    const auto is_its = [&](const Layout& layout) {
      Point point;
      point.layout = layout;
      return across.get(point) == cell.across && down.get(point) == cell.down;
    };
    Json one = {{across.name, cell.across}, {down.name, cell.down}, {"why", cell.why},
        {"measured", fastest_json(request, request.gpus, is_its)}};
    if (cell.best) one["layout"] = json_of_layout(request, *cell.best);
    all.push_back(std::move(one));
  }
  return all;
}

Json json_of_why_not(const SuggestRequest& request, const WhyNot& answer) {
  Json all = {{"fits", answer.fits}, {"place", answer.place}, {"of", answer.of},
      {"why", answer.why},
      {"place_text",
          answer.place > 0
              ? fmt::format("place {} of {}", grouped(answer.place), grouped(answer.of))
              : std::string()}};
  if (answer.layout) all["layout"] = json_of_layout(request, *answer.layout);
  return all;
}

Json json_of_vocabulary() {
  Json axes_of_layouts = Json::array();
  for (const auto& axis : axes()) {
    if (axis.of_layout()) axes_of_layouts.push_back(json_of_axis(axis));
  }
  Json trainer_families = Json::array();
  for (const auto& family : families())
    trainer_families.push_back(
        {{"name", family.name}, {"trainer", family.trainer}, {"words", family.words}});
  return {{"axes", std::move(axes_of_layouts)}, {"families", std::move(trainer_families)},
      {"usual_family", usual_family(UsualOn::gpus).name}, {"dtypes", texts_of(dtype_words)},
      {"model", json_of_keys<ModelSpec>()}, {"cluster", json_of_keys<ClusterSpec>()},
      {"peaks", texts_of(peak_words)}, {"trainers", texts_of(configurable_trainers())}};
}

}  // namespace shardsweep
