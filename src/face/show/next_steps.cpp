// SPDX-License-Identifier: Apache-2.0
#include "show/next_steps.hpp"

#include "show/cell_text.hpp"
#include "show/exit_code.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace shardsweep {
namespace {

std::string words_of(const SweepStatus& sweep, Standing standing) {
  switch (standing) {
    case Standing::runs:
      return "runs";
    case Standing::waits:
      return "waits";
    case Standing::paused:
      return "is " + sweep.state;
    case Standing::outside:
      return "is measured outside";
    case Standing::unattended:
      return "has no daemon, so nothing new starts";
    case Standing::imported:
      return "was imported";
    case Standing::cancelled:
      return "was cancelled";
    case Standing::ended:
      return "has ended";
  }
  return "";
}

bool is_open(Standing standing) {
  return standing != Standing::ended && standing != Standing::cancelled &&
      standing != Standing::imported;
}

std::string facts_of(const SweepStatus& sweep, Standing standing) {
  const auto of_all = [&](std::int64_t count) {
    return fmt::format("{} of {} {}", grouped(count), counted(sweep.trials, "trial"),
        sweep.trials == 1 ? "has" : "have");
  };
  if (standing == Standing::cancelled) return of_all(sweep.undecided) + " no result";
  if (is_open(standing)) return of_all(ended_trials(sweep)) + " ended";
  if (nothing_measured(sweep)) return "no trial was measured: " + outcomes_and_cause(sweep);
  return fmt::format("{}, {}", counted(sweep.trials, "trial"), outcomes_text(sweep));
}

/// A sentence ends with a full stop, whoever wrote it.
std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.' && text.back() != '!' && text.back() != '?') text += '.';
  return text;
}

}  // namespace

Standing standing_of(const SweepStatus& sweep, bool daemon_runs) {
  if (sweep.state == "imported") return Standing::imported;
  if (is_over(sweep))
    return sweep.state == "cancelled" && sweep.undecided > 0 ? Standing::cancelled
                                                             : Standing::ended;
  if (sweep.state != "active") return Standing::paused;
  if (sweep.outside) return Standing::outside;
  if (!daemon_runs) return Standing::unattended;
  return count_of(sweep.by_state, name(State::running)) > 0 ? Standing::runs : Standing::waits;
}

std::string why_it_waits(const SweepStatus& sweep) {
  if (!sweep.waiting.empty() || standing_of(sweep, true) != Standing::outside) return sweep.waiting;
  return fmt::format("measured outside; `shardsweep next {}` hands its points out", sweep.name);
}

std::string time_left(const SweepStatus& sweep) {
  if (ended_trials(sweep) >= sweep.trials) return "";
  if (!(sweep.remaining_s > 0)) return "unknown";
  const bool waits = sweep.running.empty() && !why_it_waits(sweep).empty();
  return duration_text(std::max(1.0, std::round(sweep.remaining_s))) + (waits ? " of runs" : "");
}

std::string standing_text(const SweepStatus& sweep, bool daemon_runs) {
  const Standing standing = standing_of(sweep, daemon_runs);
  auto text = sentence(
      fmt::format("'{}' {}: {}", sweep.name, words_of(sweep, standing), facts_of(sweep, standing)));
  if (is_open(standing) && !sweep.waiting.empty()) text += ' ' + sentence(sweep.waiting);
  return text;
}

namespace {

struct NextStep {
  std::string line;  ///< command line
  std::string does{};
  bool writes = false;  ///< a daemon is asked
};

/// A sentence, and below it command lines, each with what it does.
std::string with_steps(
    const std::string& sentence, const std::vector<NextStep>& steps, const NextStepsForm& form) {
  constexpr std::size_t narrowest = 16;
  std::size_t column = 2;
  for (const auto& step : steps)
    column = std::max(column, step.line.size() + 4);
  std::string text = sentence;
  for (const auto& step : steps) {
    if (form.only_reading && step.writes) continue;
    const bool fold = form.width && *form.width >= column + narrowest;
    const auto does = fold ? folded(step.does, *form.width - column) : std::vector{step.does};
    text += "\n  " + step.line;
    if (step.does.empty()) continue;
    text.append(column - 2 - step.line.size(), ' ');
    text += fmt::format("{}", fmt::join(does, "\n" + std::string(column, ' ')));
  }
  return text;
}

/// A cause may hold what a rank has printed.
std::string standing_line(const SweepStatus& sweep, const NextStepsForm& form) {
  if (form.answer_was_told && is_over(sweep))
    return fmt::format("Next with '{}':", printable(sweep.name));
  const auto text = printable(standing_text(sweep, form.daemon_runs));
  return fmt::format(
      "{}", fmt::join(form.width ? folded(text, *form.width) : std::vector{text}, "\n"));
}

/// Commands over what is there already; `best` and pictures only if something was measured.
std::vector<NextStep> steps_of_results(const SweepStatus& sweep, const NextStepsForm& form) {
  const auto& name = sweep.name;
  const bool measured = count_of(sweep.by_outcome, shardsweep::name(Outcome::completed)) > 0;
  if (!measured)
    return {{"shardsweep results " + name, "every trial with its outcome"},
        {"shardsweep show " + name, "the causes, and the files of each attempt"},
        {"shardsweep rerun " + name, "measure it again, once the cause is mended", true}};
  std::vector<NextStep> steps;
  if (!form.answer_was_told)
    steps.push_back({"shardsweep best " + name, "the fastest layout of each model and size"});
  steps.insert(steps.end(),
      {{"shardsweep heatmap " + name, "all cells in one table"},
          {"shardsweep results " + name, "every trial; 'shardsweep show TRIAL' explains one"},
          {fmt::format("shardsweep report {0} -o {0}.html", name), "a page to share"},
          {"shardsweep ui", "the same in a browser"}});
  return steps;
}

std::vector<NextStep> steps_of(const SweepStatus& sweep, const NextStepsForm& form) {
  const auto& name = sweep.name;
  const NextStep progress{"shardsweep status " + name, "progress, and why it waits"};
  const NextStep best{"shardsweep best " + name, "the fastest layouts so far"};
  const NextStep resume{"shardsweep resume " + name, "continue", true};
  const NextStep follow{"shardsweep follow " + name, "watch it until it ends"};
  const NextStep cancel{"shardsweep cancel " + name, "end it", true};
  const bool measured = count_of(sweep.by_outcome, shardsweep::name(Outcome::completed)) > 0;
  std::vector<NextStep> steps;
  switch (standing_of(sweep, form.daemon_runs)) {
    case Standing::runs:
    case Standing::waits:
      steps = {progress, follow, best, {"shardsweep ui", "the same in a browser"}, cancel};
      break;
    case Standing::paused:
    case Standing::unattended:
      steps = {resume, progress, best, cancel};
      break;
    case Standing::outside:
      steps = {{"shardsweep next " + name, "hands out points to measure, each with an id", true},
          {"shardsweep record ID --step-ms MS", "brings back the result of one", true}, progress,
          best, cancel};
      break;
    case Standing::cancelled:
      steps = {resume, best,
          {"shardsweep delete " + name, "remove it, with all that it has measured", true}};
      break;
    case Standing::imported:
    case Standing::ended:
      return steps_of_results(sweep, form);
  }
  if (!measured) std::erase_if(steps, [&](const NextStep& step) { return step.line == best.line; });
  return steps;
}

}  // namespace

const SweepStatus& sweep_to_go_on_with(const std::vector<SweepStatus>& sweeps, bool daemon_runs) {
  const auto rank = [&](const SweepStatus& one) {
    return std::tuple(standing_of(one, daemon_runs) == Standing::runs,
        std::max(one.submitted_at, one.last_end_at), one.id);
  };
  return *std::max_element(sweeps.begin(), sweeps.end(),
      [&](const SweepStatus& a, const SweepStatus& b) { return rank(a) < rank(b); });
}

std::string next_steps(const std::vector<SweepStatus>& sweeps, const NextStepsForm& form) {
  constexpr std::ptrdiff_t most_others = 3;
  const SweepStatus& first = sweep_to_go_on_with(sweeps, form.daemon_runs);
  auto text = with_steps(standing_line(first, form), steps_of(first, form), form);
  std::ptrdiff_t others = 0;
  for (const SweepStatus& sweep : current_of(sweeps)) {
    if (sweep.id == first.id || sweep.state == "imported") continue;
    if (++others > most_others) continue;
    text += '\n' + standing_line(sweep, form);
  }
  if (others > most_others)
    text += fmt::format(
        "\n{} more; `shardsweep status` lists them.", counted(others - most_others, "sweep"));
  return text;
}

std::string first_steps(SlurmHere slurm, const NextStepsForm& form) {
  auto text = with_steps("No sweep yet. On this machine, in four minutes and without a GPU:",
      {{"shardsweep presets quickstart >quickstart.yaml"}, {"shardsweep run quickstart.yaml"}},
      form);
  if (slurm == SlurmHere::answers)
    text += with_steps("\nOn the Slurm cluster that this machine belongs to:",
        {{"shardsweep init --on-a-node", "asks Slurm and one node how jobs are sent"}}, form);
  if (slurm == SlurmHere::silent)
    text += with_steps("\nSlurm's commands are here, and no cluster answers:",
        {{"shardsweep doctor", "says why"}}, form);
  return text +
      with_steps("\nWith your model and GPUs:",
          {{"shardsweep suggest --model llama-3-8b --cluster h100-8x --gpus 64"},
              {"shardsweep new my.yaml --model llama-3-8b --cluster h100-8x"}},
          form);
}

}  // namespace shardsweep
