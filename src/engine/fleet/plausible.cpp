// SPDX-License-Identifier: Apache-2.0
#include "fleet/plausible.hpp"

#include "text/median.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardsweep {
namespace {

// Orders of summation differ between layouts: bf16 keeps 8 bits, and some train steps amplify
// that. A loss from other samples or without a gradient is further off.
constexpr double loss_tolerance = 0.02;
constexpr std::size_t least_others = 2;

std::optional<double> metric(
    const std::map<std::string, double, std::less<>>& metrics, std::string_view name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

std::string differs(
    std::string_view what, std::optional<double> got, std::optional<std::int64_t> wanted) {
  if (!got || !wanted || std::llround(*got) == *wanted) return "";
  return fmt::format("{} is {}, but the plan has {}", what, std::llround(*got), *wanted);
}

/// Speed, time and tokens of a train step: two of them tell the third.
std::string contradicts_itself(
    const std::map<std::string, double, std::less<>>& metrics, const ExpectedValues& expected) {
  constexpr double rounding = 0.1;
  const double step_ms = metric(metrics, "train_step_ms").value_or(0);
  const double all = metric(metrics, "tokens_per_s").value_or(0);
  const double of_gpu = metric(metrics, "tokens_per_s_per_gpu").value_or(0);
  const double tokens = static_cast<double>(expected.tokens_per_step.value_or(0));
  if (const auto other = other_tokens(all, step_ms, tokens, rounding))
    return fmt::format(
        "tokens_per_s and train_step_ms together mean {} tokens per train step, but the plan has "
        "{}",
        grouped(std::llround(*other)), grouped(std::llround(tokens)));
  if (const auto other = other_tokens(of_gpu * expected.gpus, step_ms, tokens, rounding))
    return fmt::format(
        "tokens_per_s_per_gpu and train_step_ms together mean {} tokens per train step on {}, but "
        "the plan has {}",
        grouped(std::llround(*other)), counted(expected.gpus, "GPU"),
        grouped(std::llround(tokens)));
  if (other_tokens(of_gpu * expected.gpus, 1e3, all, rounding))
    return fmt::format("tokens_per_s is {:.6g}, but {} with {:.6g} tokens/s each make {:.6g}", all,
        counted(expected.gpus, "GPU"), of_gpu, of_gpu * expected.gpus);
  return "";
}

bool agree(double a, double b) {
  return std::abs(a - b) <= loss_tolerance * std::max(std::abs(a), std::abs(b));
}

std::string loss_alone(std::optional<double> loss, std::vector<double> others) {
  if (!loss) return "";
  if (!std::isfinite(*loss)) return "the loss is not finite";
  if (others.size() < least_others) return "";
  const double middle = median_of(others, Even::upper);
  const auto with_middle =
      std::count_if(others.begin(), others.end(), [&](double one) { return agree(one, middle); });
  // The other losses disagree among themselves, so none can be called wrong.
  if (with_middle < static_cast<std::ptrdiff_t>(least_others) ||
      2 * with_middle <= static_cast<std::ptrdiff_t>(others.size()))
    return "";
  if (agree(*loss, middle)) return "";
  return fmt::format(
      "the loss is {:.4g}, but {} other layouts have {:.4g} after the same train step", *loss,
      with_middle, middle);
}

}  // namespace

std::string why_other_runner(const RunnerName& trials, const RunnerName& said) {
  const bool known = trials.version != "unknown" && said.version != "unknown" &&
      !trials.version.empty() && !said.version.empty();
  if (!known || trials.name != said.name || trials.version == said.version) return "";
  return fmt::format(
      "measured by {} {}, but the trial belongs to version {}; the runner's 'start' record and "
      "its --capabilities have to name one version",
      said.name, said.version, trials.version);
}

std::optional<double> other_tokens(
    double tokens_per_s, double step_ms, double tokens, double rounding) {
  if (tokens_per_s <= 0 || step_ms <= 0 || tokens <= 0) return std::nullopt;
  const double told = tokens_per_s * step_ms / 1e3;
  return std::abs(told - tokens) <= rounding * tokens ? std::nullopt : std::optional(told);
}

std::string why_implausible(
    const std::map<std::string, double, std::less<>>& metrics, const ExpectedValues& expected) {
  const auto mfu = metric(metrics, "mfu");
  if (mfu && *mfu > 1)
    return fmt::format("MFU {:.1f} %: faster than the hardware's peak", *mfu * 100);
  for (const char* name : {"tokens_per_s_per_gpu", "train_step_ms"}) {
    const auto value = metric(metrics, name);
    if (value && *value <= 0) return fmt::format("{} is {:g}", name, *value);
  }
  std::string why = differs("n_params", metric(metrics, "n_params"), expected.n_params);
  if (why.empty())
    why = differs("tokens_per_step", metric(metrics, "tokens_per_step"), expected.tokens_per_step);
  if (why.empty()) why = contradicts_itself(metrics, expected);
  return why.empty() ? loss_alone(metric(metrics, "loss"), expected.losses) : why;
}

}  // namespace shardsweep
