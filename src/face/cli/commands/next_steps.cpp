// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/next_steps.hpp"

#include "show/cell_text.hpp"
#include "show/exit_code.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

namespace shardsweep {
namespace {

struct Step {
  std::string line;  ///< of a command
  std::string does{};
  bool writes = false;  ///< it asks the daemon
};

/// A sentence, and below it command lines, each with what it does.
std::string with_steps(
    const std::string& sentence, const std::vector<Step>& steps, const NextStepsForm& form) {
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

bool is_open(const SweepStatus& sweep) {
  return !is_over(sweep) && sweep.state != "imported";
}

std::vector<Step> steps_of_open(const SweepStatus& sweep) {
  const auto& name = sweep.name;
  return {{"shardsweep status " + name, "progress, and why it waits"},
      {"shardsweep follow " + name, "watch it until it ends"},
      {"shardsweep best " + name, "the fastest layouts so far"},
      {"shardsweep ui", "the same in a browser"},
      sweep.state == "active" ? Step{"shardsweep cancel " + name, "end it", true}
                              : Step{"shardsweep resume " + name, "continue", true}};
}

}  // namespace

const SweepStatus& sweep_to_go_on_with(const std::vector<SweepStatus>& sweeps) {
  const auto rank = [](const SweepStatus& one) {
    return std::tuple(is_open(one) && one.state == "active", one.submitted_at, one.id);
  };
  return *std::max_element(sweeps.begin(), sweeps.end(),
      [&](const SweepStatus& a, const SweepStatus& b) { return rank(a) < rank(b); });
}

std::string next_steps(const SweepStatus& sweep, const NextStepsForm& form) {
  const auto& name = sweep.name;
  if (is_open(sweep))
    return with_steps(fmt::format("'{}' {}: {} of {} trials have ended.", name,
                          sweep.state == "active" ? "runs" : "is " + sweep.state,
                          ended_trials(sweep), sweep.trials),
        steps_of_open(sweep), form);
  if (sweep.state == "cancelled" && sweep.undecided > 0)
    return with_steps(fmt::format("'{}' was cancelled: {} of {} trials have no result.", name,
                          sweep.undecided, sweep.trials),
        {{"shardsweep resume " + name, "continue", true},
            {"shardsweep best " + name, "the fastest layouts of what has run"},
            {"shardsweep delete " + name, "remove it, with all that it has measured", true}},
        form);
  return with_steps(
      fmt::format("'{}' {}: {}.", name, sweep.state == "imported" ? "was imported" : "has ended",
          counted(sweep.trials, "trial")),
      {{"shardsweep best " + name, "the fastest layout of each model and size"},
          {"shardsweep heatmap " + name, "all cells in one table"},
          {"shardsweep results " + name, "every trial; 'shardsweep show TRIAL' explains one"},
          {fmt::format("shardsweep report {0} -o {0}.html", name), "a page to share"},
          {"shardsweep ui", "the same in a browser"}},
      form);
}

std::string first_steps(const Session& session, const NextStepsForm& form) {
  auto text = with_steps("No sweep yet. On this machine, in four minutes and without a GPU:",
      {{"shardsweep presets quickstart >quickstart.yaml"}, {"shardsweep run quickstart.yaml"}},
      form);
  std::error_code ignored;
  if (stated_backend(session.options, {}) == Backend::slurm &&
      !std::filesystem::exists(site_file_of(session), ignored))
    text += with_steps("\nOn the Slurm cluster that this machine belongs to:",
        {{"shardsweep init --on-a-node", "asks Slurm and one node how jobs are sent"}}, form);
  return text +
      with_steps("\nWith your model and GPUs:",
          {{"shardsweep suggest --model llama-3-8b --cluster h100-8x --gpus 64"},
              {"shardsweep new my.yaml --model llama-3-8b --cluster h100-8x"}},
          form);
}

}  // namespace shardsweep
