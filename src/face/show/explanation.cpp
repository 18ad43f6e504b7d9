// SPDX-License-Identifier: Apache-2.0
// Decision: A runner says what its ranks waited for, by group, and its phases contain these
// waits. `explain` takes each wait off the phase in which ranks wait, so that measured parts
// add up to the step and compare with predicted ones.
#include "show/explanation.hpp"

#include "predict/predictor.hpp"
#include "text/numbers.hpp"

#include <shardsweep/outcome.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

constexpr double ms_per_s = 1e3;

/// One part of a train step or of memory.
struct ExplainedPart {
  std::string name;
  std::optional<double> measured{};
  std::optional<double> predicted{};
  std::string detail{};
};

std::map<std::string, double> parts_in(std::string_view map) {
  std::map<std::string, double> parts;
  for (auto& [name, value] : key_numbers(map))
    parts.emplace(std::move(name), value);
  return parts;
}

/// Takes a number out of those that are left.
double taken(std::map<std::string, double>& parts, const std::string& name) {
  const auto found = parts.find(name);
  if (found == parts.end()) return 0;
  const double value = found->second;
  parts.erase(found);
  return value;
}

/// Milliseconds, by the parts that a prediction knows.
struct StepParts {
  double compute = 0;
  double tp = 0;
  double dp = 0;
  double pp = 0;
  double update = 0;
};

/// Ranks wait for their neighbours within the phases (runner/README.md): what they wait for is
/// taken off where they do.
StepParts measured_step(std::map<std::string, double>& phases,
    const std::map<std::string, double>& waits, std::int64_t zero) {
  const auto waited = [&waits](const char* group) {
    const auto found = waits.find(group);
    return found == waits.end() ? 0 : found->second;
  };
  StepParts parts;
  parts.compute = taken(phases, "forward") + taken(phases, "backward");
  parts.tp = std::min(waited("tp"), parts.compute);
  parts.compute -= parts.tp;
  parts.pp = taken(phases, "transfer");
  parts.update = taken(phases, "gradient_norm") + taken(phases, "optimizer");
  parts.dp = taken(phases, "reduction");
  // Waits beyond the reduction are for weights: ZeRO 1 and 2 wait after the update, ZeRO 3 within
  // layers.
  const double beyond = std::max(0.0, waited("dp") - parts.dp);
  const double after = zero == 3 ? 0 : std::min(beyond, parts.update);
  const double within = std::min(beyond - after, parts.compute);
  parts.update -= after;
  parts.compute -= within;
  parts.dp += after + within;
  return parts;
}

std::string in_parts(std::initializer_list<std::pair<const char*, double>> parts) {
  std::string text;
  for (const auto& [name, seconds] : parts) {
    if (seconds <= 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, duration_text(seconds));
  }
  return text;
}

/// Detail of a part: its measured and its predicted times. Shares of nominal rates have no times.
std::string step_detail(std::string_view measured, const std::string& predicted) {
  return predicted.empty() ? std::string(measured)
                           : fmt::format("{}; predicted: {}", measured, predicted);
}

/// The parts of a step that are known, measured or predicted, in milliseconds.
std::vector<ExplainedPart> explained_parts(
    const TrialToExplain& trial, const std::optional<Guess>& guess) {
  auto phases = parts_in(trial.trial.phases);
  const bool has_phases = !phases.empty();
  const auto step =
      measured_step(phases, parts_in(trial.trial.waits), point_of(trial.trial).layout.zero);
  const TimeEstimate time = guess ? guess->time : TimeEstimate{};
  const bool seconds = guess && !time.nominal;
  std::vector<ExplainedPart> parts;
  const auto add = [&](const char* name, double measured, double predicted_s,
                       const std::string& detail) {
    ExplainedPart part{name, {}, {}, detail};
    if (has_phases) part.measured = measured;
    if (guess) part.predicted = predicted_s * ms_per_s;
    if (part.measured.value_or(0) > 0 || part.predicted.value_or(0) > 0)
      parts.push_back(std::move(part));
  };
  const auto in_detail = [seconds](std::initializer_list<std::pair<const char*, double>> of) {
    return seconds ? in_parts(of) : std::string();
  };
  add("compute", step.compute, time.compute_s + time.memory_s + time.launch_s,
      step_detail("forward and backward without waits",
          in_detail({{"products", time.compute_s}, {"device memory", time.memory_s},
              {"launches", time.launch_s}})));
  add("tensor parallel", step.tp, time.tp_s, "waits within forward and backward");
  add("data parallel", step.dp, time.dp_s, "reduction of gradients, gathering of weights");
  add("pipeline", step.pp, time.bubble_s + time.pp_s,
      step_detail("messages between stages, and the bubble",
          in_detail({{"bubble", time.bubble_s}, {"messages", time.pp_s}})));
  add("optimizer", step.update, time.update_s, "norm of the gradients, and the update");
  add("allocator", 0, guess ? guess->step_s - time.step_s : 0,
      "near the memory limit it frees cached blocks and allocates them again");
  for (const auto& [name, value] : phases)
    parts.push_back({name, value, {}, name == "other" ? "between the phases" : ""});
  return parts;
}

Value optional_value(const std::optional<double>& value) {
  return value ? Value(*value) : Value();
}

double sum_of(
    const std::vector<ExplainedPart>& parts, std::optional<double> ExplainedPart::*member) {
  double sum = 0;
  for (const auto& part : parts)
    sum += (part.*member).value_or(0);
  return sum;
}

std::optional<double> share_of(const std::optional<double>& value, double sum) {
  return value && sum > 0 ? std::optional(*value / sum) : std::nullopt;
}

/// `nominal`: predicted parts have shares and no times.
Table step_table(
    const std::vector<ExplainedPart>& parts, const std::optional<double>& step_ms, bool nominal) {
  Table table{
      {"part", "measured_ms", "predicted_ms", "measured_share", "predicted_share", "detail"}, {}};
  const double measured = sum_of(parts, &ExplainedPart::measured);
  const double predicted = sum_of(parts, &ExplainedPart::predicted);
  for (const auto& part : parts) {
    table.rows.push_back({part.name, optional_value(part.measured),
        nominal ? Value() : optional_value(part.predicted),
        optional_value(share_of(part.measured, measured)),
        optional_value(share_of(part.predicted, predicted)), part.detail});
  }
  const bool none = nominal || predicted <= 0;
  if (!step_ms && none) return table;
  table.rows.push_back(
      {std::string("train step"), optional_value(step_ms), none ? Value() : Value(predicted),
          Value(), Value(), std::string("median of the timed train steps")});
  return table;
}

/// Shardbench's names for classes of memory, each with the class of the prediction.
constexpr std::array<std::pair<std::string_view, MemoryClass>, 6> runner_classes{
    {{"parameters", MemoryClass::weights}, {"gradients", MemoryClass::gradients},
        {"optimizer", MemoryClass::optimizer}, {"activations", MemoryClass::activations},
        {"workspace", MemoryClass::logits}, {"communication", MemoryClass::communication}}};

std::vector<ExplainedPart> memory_parts(
    const TrialToExplain& trial, const std::optional<Guess>& guess) {
  auto classes = parts_in(trial.trial.memory_classes);
  std::vector<ExplainedPart> parts;
  for (std::size_t i = 0; i < memory_class_words.size(); ++i) {
    const auto kind = static_cast<MemoryClass>(i);
    ExplainedPart part{std::string(memory_class_words[i]), {}, {}, {}};
    const auto named = std::find_if(runner_classes.begin(), runner_classes.end(),
        [kind](const auto& one) { return one.second == kind; });
    if (named != runner_classes.end()) {
      const std::string name(named->first);
      if (classes.contains(name)) part.measured = taken(classes, name);
    }
    if (guess) part.predicted = static_cast<double>(guess->memory.estimate.bytes[i]);
    if (kind == MemoryClass::logits) part.detail = "and other work space";
    if (kind == MemoryClass::overhead) part.detail = "outside the trainer's own memory";
    if (part.measured.value_or(0) > 0 || part.predicted.value_or(0) > 0)
      parts.push_back(std::move(part));
  }
  for (const auto& [name, value] : classes)
    parts.push_back({name, value, {}, {}});
  return parts;
}

std::optional<double> real_of(const std::optional<std::int64_t>& bytes) {
  return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
}

/// A prediction stays where the point has no numbers: then the plan's own is shown.
std::optional<double> predicted_peak(
    const TrialToExplain& trial, const std::optional<Guess>& guess) {
  if (guess) return static_cast<double>(guess->memory.estimate.total());
  return real_of(trial.trial.predicted_memory_bytes);
}

Table memory_table(const TrialToExplain& trial, const std::optional<Guess>& guess) {
  Table table{{"class", "measured_bytes", "predicted_bytes", "detail"}, {}};
  const auto bytes = [](const std::optional<double>& value) {
    return value ? Value(static_cast<std::int64_t>(std::llround(*value))) : Value();
  };
  for (const auto& part : memory_parts(trial, guess))
    table.rows.push_back({part.name, bytes(part.measured), bytes(part.predicted), part.detail});
  const auto peak = real_of(trial.trial.peak_memory_bytes);
  const auto predicted = predicted_peak(trial, guess);
  if (peak || predicted)
    table.rows.push_back({std::string("peak"), bytes(peak), bytes(predicted),
        std::string(table.rows.empty() ? "of the rank that needs most"
                                       : "at one moment; each class above at its own peak")});
  if (trial.cluster && trial.cluster->memory_bytes > 0)
    table.rows.push_back({std::string("limit"), Value(trial.cluster->memory_bytes),
        Value(trial.cluster->memory_bytes), std::string("of one GPU of the cluster file")});
  return table;
}

/// Sentences about what stands in the sections.
class Findings {
 public:
  explicit Findings(const TrialToExplain& trial) : trial_(trial) {}

  void about_outcome() {
    const auto& outcome = trial_.trial.outcome;
    const auto& state = trial_.trial.state;
    if (outcome.empty()) {
      say("The trial has not ended: its state is {}. All numbers are predictions.", state);
    } else if (outcome != name(Outcome::completed)) {
      say("No train step is measured: the trial ended as {}.", outcome);
    }
    const auto& mark = trial_.trial.mark;
    if (!mark.empty()) say("The trial's measurement is marked {} and is not ranked.", mark);
  }

  void about_step(const std::vector<ExplainedPart>& parts, const std::optional<Guess>& guess) {
    const auto& step_ms = trial_.trial.train_step_ms;
    const bool measured = step_ms || trial_.trial.tokens_per_s_per_gpu;
    if (measured && trial_.trial.phases.empty()) {
      say("The parts of the measured step are not known: the result record has no phase_ms.");
    }
    if (!guess) {
      say("{}",
          trial_.cluster ? "Nothing is predicted: the model's shape is not known."
                         : "Nothing is predicted: the cluster is not known.");
      return;
    }
    if (guess->time.nominal) {
      say("The cluster file has no speed of its GPUs, so the prediction gives shares and no "
          "times.");
      // A reader who asks why memory ran out has another question.
      if (measured) say("`shardsweep calibrate` measures the speed.");
    } else if (step_ms && *step_ms > 0 && guess->step_s > 0) {
      const double times = *step_ms / ms_per_s / guess->step_s;
      say("The step took {} times as long as predicted.", amount_text(times));
    }
    about_shares(parts);
  }

  void about_memory(const std::optional<Guess>& guess) {
    const auto peak = real_of(trial_.trial.peak_memory_bytes);
    const double limit = trial_.cluster ? static_cast<double>(trial_.cluster->memory_bytes) : 0;
    if (peak && trial_.trial.memory_classes.empty())
      say("The classes of the measured memory are not known: the result record has no "
          "peak_memory_by_class.");
    if (limit <= 0) return;
    const auto needed = peak ? peak : predicted_peak(trial_, guess);
    if (!needed) return;
    const char* of = peak ? "peak" : "predicted peak";
    say("{}",
        *needed <= limit ? fmt::format("The trial's {} leaves {} of {} free.", of,
                               bytes_text(limit - *needed), bytes_text(limit))
                         : fmt::format("The trial's {} is {} above the limit of {}.", of,
                               bytes_text(*needed - limit), bytes_text(limit)));
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <class... Values>
  void say(fmt::format_string<Values...> sentence, Values&&... values) {
    text_ += (text_.empty() ? "" : " ") + fmt::format(sentence, std::forward<Values>(values)...);
  }

  /// The part whose share is furthest from the prediction.
  void about_shares(const std::vector<ExplainedPart>& parts) {
    constexpr double worth_a_word = 0.05;
    const double measured = sum_of(parts, &ExplainedPart::measured);
    const double predicted = sum_of(parts, &ExplainedPart::predicted);
    if (measured <= 0 || predicted <= 0) return;
    const auto off = [&](const ExplainedPart& part) {
      return std::abs(
          part.measured.value_or(0) / measured - part.predicted.value_or(0) / predicted);
    };
    const auto most = std::max_element(
        parts.begin(), parts.end(), [&](const auto& a, const auto& b) { return off(a) < off(b); });
    if (off(*most) < worth_a_word) return;
    say("Furthest from its prediction: {} takes {} of the step, predicted {}.", most->name,
        percent_text(most->measured.value_or(0) / measured),
        percent_text(most->predicted.value_or(0) / predicted));
  }

  const TrialToExplain& trial_;
  std::string text_;
};

Table trial_table(const TrialToExplain& trial, const std::string& finding) {
  Table table{{"name", "value"}, {}};
  constexpr std::array<std::string_view, 19> shown{"model", "nodes", "gpus", "seq_len", "dtype",
      "layout", "vars", "state", "outcome", "cause", "evidence", "mark", "tokens_per_s_per_gpu",
      "predicted_tokens_per_s_per_gpu", "mfu", "train_step_ms_spread", "runner", "runner_version",
      "hosts"};
  for (const auto column : shown) {
    const Value value = trial_column(column)(trial.trial);
    const auto* text = std::get_if<std::string>(&value);
    if (std::holds_alternative<std::monostate>(value) || (text != nullptr && text->empty()))
      continue;
    table.rows.push_back({std::string(column), value});
  }
  if (!finding.empty()) table.rows.push_back({std::string("finding"), finding});
  return table;
}

}  // namespace

std::vector<Reader::Section> explanation(const TrialToExplain& trial) {
  std::optional<Guess> guess;
  if (trial.model && trial.cluster) {
    const Predictor predictor(*trial.cluster, family_of_runner(trial.trial.runner));
    guess = predictor.guess(*trial.model, point_of(trial.trial));
  }
  const auto& step_ms = trial.trial.train_step_ms;
  const auto parts = explained_parts(trial, guess);
  Findings findings(trial);
  findings.about_outcome();
  findings.about_step(parts, guess);
  findings.about_memory(guess);
  const auto thing = trial.trial.sweep + "/" + trial.trial.trial;
  std::vector<Reader::Section> sections;
  sections.push_back({"trial", trial_table(trial, findings.text()), thing});
  sections.push_back(
      {"train step", step_table(parts, step_ms, guess && guess->time.nominal), thing});
  sections.push_back({"memory", memory_table(trial, guess), thing});
  std::erase_if(sections, [](const auto& section) { return section.table.rows.empty(); });
  return sections;
}

}  // namespace shardsweep
