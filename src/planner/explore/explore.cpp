// SPDX-License-Identifier: Apache-2.0
#include "explore/explore.hpp"

#include "explore/answer.hpp"
#include "explore/question.hpp"
#include "plan/card.hpp"
#include "plan/suggested_sweep.hpp"
#include "published/model_config.hpp"
#include "trainer/point_words.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <utility>

namespace shardsweep {
namespace {

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
