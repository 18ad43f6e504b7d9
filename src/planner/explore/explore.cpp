// SPDX-License-Identifier: Apache-2.0
#include "explore/explore.hpp"

#include "explore/question.hpp"
#include "plan/advice.hpp"
#include "plan/card.hpp"
#include "plan/suggest.hpp"
#include "plan/suggested_sweep.hpp"
#include "published/model_config.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"
#include "trainer/configuration.hpp"
#include "trainer/point_words.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shardsweep {
namespace {

// Judgements of the planner as JSON: numbers, and beside them the texts that a page shows.

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

/// A layout with its memory and its step in parts.
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

/// Values for controls: axes, families, dtypes, keys of models, trainers.
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

using Json = nlohmann::ordered_json;
using Answered = Result<Json>;

Point point_of(const Question& question, const std::vector<AxisValues>& layout) {
  Point point;
  point.nodes = question.request.nodes;
  point.gpus = question.request.gpus;
  point.seq_len = question.request.seq_len;
  for (const auto& setting : layout)
    setting.axis->set(point, setting.values.front());
  return point;
}

Answered flags_of(const Question& question) {
  SHARDSWEEP_ASSIGN(const auto layout, question.layout);
  const auto point = point_of(question, layout);
  if (const auto axis = axis_without_words(point); !axis.empty())
    return fault(FaultKind::invalid_input, "{} has no setting for {}", question.trainer, axis);
  SHARDSWEEP_ASSIGN(
      auto text, configuration_of_point(question.trainer, point, question.request.model));
  return Json{{"text", std::move(text)}};
}

Answered config_of(const Json& question) {
  const auto text = question.find("config");
  const auto name = question.find("name");
  if (text == question.end() || !text->is_string())
    return fault(FaultKind::invalid_input, "config takes the text of a config.json");
  SHARDSWEEP_ASSIGN(const auto read,
      model_of_config(text->get<std::string>(),
          name != question.end() && name->is_string() ? name->get<std::string>() : "model"));
  return Json{
      {"model", question_of(read)}, {"parameters", parameters_sentence(read)}, {"note", read.note}};
}

/// One question; the suggestion is made once, for whoever needs it.
class Explorer {
 public:
  explicit Explorer(const Question& question) : question_(question) {}

  Answered answer(std::string_view word) {
    const auto& request = question_.request;
    if (word == "card") {
      SHARDSWEEP_ASSIGN(const auto* made, suggestion());
      return json_of_card(request, *made);
    }
    if (word == "gpus") {
      SHARDSWEEP_ASSIGN(
          const auto counts, over_gpu_counts(request, gpu_counts_worth_a_look(request)));
      return json_of_gpus(request, counts);
    }
    if (word == "batch") {
      SHARDSWEEP_ASSIGN(const auto verdict, judge_batch(request));
      return Json{{"text", verdict.text}, {"too_few", verdict.too_few},
          {"tokens_per_gpu", verdict.tokens_per_gpu}, {"gain", verdict.gain}};
    }
    if (word == "splits" || word == "sizes") {
      const auto& pair = word == "splits" ? tp_by_pp : micro_batch_by_zero;
      SHARDSWEEP_ASSIGN(const auto cells, over_pairs(request, pair));
      return json_of_pairs(request, pair, cells);
    }
    if (word == "why_not") {
      SHARDSWEEP_ASSIGN(const auto layout, question_.layout);
      SHARDSWEEP_ASSIGN(const auto why, why_not(request, layout));
      return json_of_why_not(request, why);
    }
    if (word == "held") {
      SHARDSWEEP_ASSIGN(auto text, cost_of_locks(request));
      return Json{{"text", std::move(text)}};
    }
    if (word == "flags") return flags_of(question_);
    if (word == "sweep") return sweep();
    return fault(FaultKind::invalid_input, "nothing is called '{}'", word);
  }

 private:
  Result<const Suggestion*> suggestion() {
    if (!suggestion_) SHARDSWEEP_SET(suggestion_, suggest(question_.request));
    return &*suggestion_;
  }

  Answered sweep() {
    SHARDSWEEP_ASSIGN(const auto* made, suggestion());
    if (made->layouts.empty()) return fault(FaultKind::invalid_input, made->memory.back());
    return Json{{"text",
        suggested_sweep(
            question_.request, *made, question_.preset_of_model, question_.preset_of_cluster)}};
  }

  const Question& question_;
  std::optional<Suggestion> suggestion_;
};

Json why_of(const Fault& wrong) {
  return Json{{"why", wrong.what}};
}

std::string written(const Json& answer) {
  // Invalid bytes of a question are replaced: the answer is UTF-8.
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json answer_to(const Json& asked) {
  const auto words = asked.find("ask");
  if (words == asked.end() || !words->is_array())
    return Json{{"error", "ask takes a list of words"}};
  Json answer = Json::object();
  std::optional<Result<Question>> question;
  std::optional<Explorer> explorer;
  for (const auto& entry : *words) {
    const auto word = entry.is_string() ? entry.get<std::string>() : std::string();
    if (word == "vocabulary") {
      answer[word] = json_of_vocabulary();
      continue;
    }
    if (word == "config") {
      const auto read = config_of(asked);
      answer[word] = read ? *read : why_of(read.error());
      continue;
    }
    if (!question) {
      question = read_question(asked);
      if (!*question) return Json{{"error", question->error().what}};
      explorer.emplace(**question);
    }
    const auto one = explorer->answer(word);
    answer[word] = one ? *one : why_of(one.error());
    const auto& request = (*question)->request;
    if (!one && word == "card")
      answer[word]["odd_batch"] = request.global_batch_tokens % request.seq_len != 0;
  }
  return answer;
}

}  // namespace

std::string explore(std::string_view question) {
  const auto asked = Json::parse(question, nullptr, false);
  if (!asked.is_object()) return written(Json{{"error", "a question is a JSON object"}});
  return written(answer_to(asked));
}

}  // namespace shardsweep
