// SPDX-License-Identifier: Apache-2.0
#include "trainer/judge_log.hpp"

#include "text/median.hpp"
#include "text/numbers.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/model.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::int64_t fewest_timed = 2;
constexpr double fsdp_of_its_own = 1;  // a value of the fact fsdp
constexpr double speed_slack = 0.03;
constexpr double clock_doubt = 0.1;  // tolerance between a step time and the clock of its lines
constexpr double clock_contradiction = 1.0 / 3;
constexpr double loss_slack = 0.02;  // between layouts: 1.3 % at the first train step

/// A metric of a train step under any of the keys by which trainers print it.
struct Source {
  std::string_view key;
  double factor;
  bool inverse;  ///< a rate: the value is factor / printed
};
constexpr auto step_ms_sources = std::to_array<Source>(
    {{"step_ms", 1, false}, {"step_s", 1e3, false}, {"steps_per_s", 1e3, true}});

/// Value in axis_text()'s form; patterns count words and switches from 0, too.
std::string echo_text(const AxisInfo& axis, double value) {
  const auto number = static_cast<std::size_t>(std::max(0.0, value));
  if (axis.kind == AxisKind::toggle) return number != 0 ? "true" : "false";
  if (axis.kind == AxisKind::word && number < axis.words.size())
    return std::string(axis.words[number]);
  return fmt::format("{:.0f}", value);
}

class Judge {
 public:
  Judge(const TrainerLog& log, const ExpectedRun& expected) : log_(log), expected_(expected) {
    const std::span all(log.steps);
    if (!all.empty()) left_out_ = left_out_before(all.front().iteration, expected.unprinted);
    const auto warmup = static_cast<std::size_t>(
        std::max<std::int64_t>(left_out_ > 0 ? 0 : 1, expected.warmup - left_out_));
    window_ = all.subspan(std::min(warmup, all.size()));
    if (expected.steps > 0)
      window_ = window_.first(std::min(window_.size(), static_cast<std::size_t>(expected.steps)));
    for (const LoggedStep& step : window_)
      if (!is_skipped(step)) timed_.push_back(&step);
    batch_is_samples_ = counts_samples();
  }

  std::vector<std::string> judge_facts() {
    check_run();
    return std::move(judged_.faults);
  }

  JudgedLog judge() {
    if (log_.steps.empty()) {
      fault(log_.uncounted
              ? "No pattern takes which train step a line is of. Write {iteration} for its number, "
                "or {iteration:next} into one of the lines that have none."
              : "The log has no train step that this reader knows.");
      judged_.will_repeat = true;
      measure_memory();
      return std::move(judged_);
    }
    check_run();
    judged_.will_repeat = !judged_.faults.empty();
    check_steps();
    check_all_consumed();
    check_first_loss();
    measure_time();
    measure_speed();
    check_clock();
    measure_rest();
    return std::move(judged_);
  }

 private:
  void fault(std::string sentence) { judged_.faults.push_back(std::move(sentence)); }

  [[nodiscard]] double fact(std::string_view key) const {
    if (batch_is_samples_ && key == "tokens_per_step") return 0;
    if (batch_is_samples_ && key == "global_batch") key = "tokens_per_step";
    const auto found = log_.facts.find(key);
    return found == log_.facts.end() ? 0 : found->second.value;
  }
  [[nodiscard]] double rounding_of(std::string_view key) const {
    const auto found = log_.facts.find(key);
    return found == log_.facts.end() ? 0 : found->second.half_unit;
  }
  /// Value of the run: the expected one, else the log's.
  [[nodiscard]] double known(std::int64_t expected, std::string_view key) const {
    return expected > 0 ? static_cast<double>(expected) : fact(key);
  }

  /// True if a batch counts samples, as in older versions of a trainer that now counts tokens. Then
  /// the batch is shorter than a sample, or too small for the speed.
  [[nodiscard]] bool counts_samples() const {
    const double batch = fact("tokens_per_step");
    if (batch <= 0 || fact("global_batch") > 0) return false;
    if (const double length = known(expected_.seq_len, "seq_len"); length > 0)
      return batch < length;
    auto speeds = series("tokens_per_s");
    auto ms = series("step_ms");
    if (speeds.empty() || ms.empty()) return false;
    constexpr double far = 2;
    return batch * far <
        quantile_of(std::move(speeds), 0.5) * quantile_of(std::move(ms), 0.5) * 1e-3;
  }

  void check_one(std::string_view what, std::int64_t expected, std::string_view key) {
    const double logged = fact(key);
    if (expected <= 0 || logged <= 0) return;
    if (std::abs(static_cast<double>(expected) - logged) > rounding_of(key))
      fault(fmt::format("The log says {} {}, but {} was asked for.", what, logged, expected));
  }
  /// Value of an axis that the log echoes; empty: none. Megatron-LM's stage is on several lines.
  [[nodiscard]] std::optional<double> echoed(std::string_view axis) const {
    if (const auto found = log_.facts.find(axis); found != log_.facts.end())
      return found->second.value;
    if (axis == "micro_batch" && fact("micro_batch_tokens") > 0 && expected_.seq_len > 0)
      return fact("micro_batch_tokens") / static_cast<double>(expected_.seq_len);
    const bool is_stage = axis == "zero" && log_.facts.contains("distributed_optimizer");
    if (!is_stage || fact("fsdp") > fsdp_of_its_own) return std::nullopt;
    if (fact("fsdp") < fsdp_of_its_own) return fact("distributed_optimizer");
    if (!log_.facts.contains("fsdp_stage")) return std::nullopt;
    return fact("fsdp_stage");
  }
  /// True if the log's value means what was asked in other words.
  [[nodiscard]] bool means_asked(
      const AxisInfo& axis, std::string_view asked, double logged) const {
    if (axis.name == "expert_tp" && asked == "0") return logged == known(expected_.tp, "tp");
    return axis.name == "recompute" && Modules(asked).any() &&
        logged == static_cast<double>(Recompute::selective);
  }
  /// Checks axes that no other check covers.
  void check_axis(const std::string& name, const std::string& asked) {
    const auto value = echoed(name);
    const bool is_shape = std::any_of(shape_fields.begin(), shape_fields.end(),
        [&](const ShapeField& field) { return field.name == name; });
    if (value && is_shape && fmt::format("{:.0f}", *value) != asked)
      return contradict(name, *value, asked);
    const auto* axis = std::find_if(axis_table.begin(), axis_table.end(),
        [&](const AxisInfo& one) { return one.name == name; });
    if (!value || axis == axis_table.end()) return;
    if (*value > static_cast<double>(axis->maximum)) return;
    const std::string logged = echo_text(*axis, *value);
    if (logged == asked || means_asked(*axis, asked, *value)) return;
    contradict(name, logged, asked);
  }
  void contradict(std::string_view name, const auto& logged, std::string_view asked) {
    const std::string tp = fmt::format("tp, which is {:.0f},", known(expected_.tp, "tp"));
    fault(fmt::format(
        "The log says {} {}, but {} was asked for. If this is right, write 'unchecked: [axes]'.",
        name, logged, name == "expert_tp" && asked == "0" ? tp : asked));
  }

  /// dp, or its product with any of the other degrees: those that a trainer was not told of.
  [[nodiscard]] bool may_divide_samples(double ranks) const {
    if (expected_.dp <= 0)
      return expected_.gpus <= 0 || std::fmod(static_cast<double>(expected_.gpus), ranks) == 0;
    std::vector<double> products{static_cast<double>(expected_.dp)};
    for (const std::int64_t degree : {expected_.tp, expected_.pp, expected_.cp}) {
      const auto count = products.size();
      for (std::size_t i = 0; degree > 1 && i < count; ++i)
        products.push_back(products[i] * static_cast<double>(degree));
    }
    return std::find(products.begin(), products.end(), ranks) != products.end() ||
        ranks == static_cast<double>(expected_.gpus);
  }
  void check_data_ranks() {
    const double ranks = fact("data_ranks");
    if (ranks <= 0 || may_divide_samples(ranks)) return;
    fault(expected_.dp > 0
            ? fmt::format(
                  "The log says that samples are divided among {} ranks, but dp {} was asked for.",
                  ranks, expected_.dp)
            : fmt::format("The log says that samples are divided among {} ranks, which does not "
                          "divide {} GPUs.",
                  ranks, expected_.gpus));
  }
  void check_run() {
    check_data_ranks();
    check_one("gpus", expected_.gpus, "gpus");
    check_one("dp", expected_.dp, "dp");
    check_one("tp", expected_.tp, "tp");
    check_one("pp", expected_.pp, "pp");
    check_one("cp", expected_.cp, "cp");
    check_one("seq_len", expected_.seq_len, "seq_len");
    check_one("tokens per train step", expected_.tokens_per_step, "tokens_per_step");
    if (wants("axes")) {
      for (const auto& [axis, value] : expected_.axes)
        check_axis(axis, value);
    }
    check_batch();
    check_parameters();
    const double product = fact("dp") * fact("tp") * fact("pp") * std::max(1.0, fact("cp"));
    if (product > 0 && fact("gpus") > 0 && product != fact("gpus"))
      fault(fmt::format(
          "The log's parallel degrees make {} ranks, but the log says that it ran on {}.", product,
          fact("gpus")));
  }

  /// Where tokens are not printed, samples times their length are.
  void check_batch() {
    const double samples = fact("global_batch");
    const double length = known(expected_.seq_len, "seq_len");
    const auto expected = static_cast<double>(expected_.tokens_per_step);
    if (fact("tokens_per_step") > 0 || samples <= 0 || length <= 0 || expected <= 0) return;
    if (samples * length != expected)
      fault(
          fmt::format("The log says a global batch of {} samples of {} tokens, but {} tokens per "
                      "train step were asked for.",
              samples, length, expected_.tokens_per_step));
  }

  [[nodiscard]] bool wants(std::string_view check) const {
    return std::find(expected_.unchecked.begin(), expected_.unchecked.end(), check) ==
        expected_.unchecked.end();
  }

  /// Parameters of all experts by their shape, in so many matrices each; 0: it is not printed.
  [[nodiscard]] double expert_parameters(double matrices) const {
    const double width = fact("expert_ffn") > 0 ? fact("expert_ffn") : fact("ffn");
    const double layers = fact("layers") / std::max(1.0, fact("expert_period"));
    return layers * fact("experts") * matrices * fact("hidden") * width;
  }

  /// Parameters of the whole model: at least, and at most. Printed counts of model parallel ranks
  /// add up to it, except for experts: each rank holds a share of them, and the other shares are
  /// not printed.
  [[nodiscard]] std::pair<double, double> whole_parameters() const {
    constexpr double plain = 2;
    constexpr double gated = 3;
    const double tp = known(expected_.tp, "tp");
    const double expert_tp = fact("expert_tp") > 0 ? fact("expert_tp") : tp;
    const double shares = std::max(1.0, fact("ep")) * expert_tp / tp;
    const double printed = log_.parameters;
    if (fact("experts") <= 0 || shares == 1) return {printed, printed};
    if (expert_parameters(plain) <= 0)
      return {printed * std::min(1.0, shares), printed * std::max(1.0, shares)};
    const auto [low, high] = std::minmax({printed + expert_parameters(plain) * (1 - 1 / shares),
        printed + expert_parameters(gated) * (1 - 1 / shares)});
    return {low, high};
  }

  /// Checks parameters of the whole model if they are printed: its shape gives them.
  void check_all_parameters() {
    constexpr double slack = 0.05;  // padding, biases
    const double printed = fact("all_parameters");
    const auto expected = static_cast<double>(expected_.parameters);
    if (!wants("parameters") || printed <= 0 || expected <= 0) return;
    if (std::abs(printed - expected) <= slack * expected + rounding_of("all_parameters")) return;
    fault(
        fmt::format("The log's model has {:.0f} parameters, but the sweep's has {:.0f}. If this is "
                    "right, write 'unchecked: [parameters]'.",
            printed, expected));
  }

  /// Each model parallel rank prints its own number of parameters. A factor of two is allowed:
  /// architectures of one shape differ by less, a wrong number of layers by more.
  void check_parameters() {
    constexpr double slack = 2;
    check_all_parameters();
    const double ranks = known(expected_.tp, "tp") * known(expected_.pp, "pp");
    const auto expected = static_cast<double>(expected_.parameters);
    const bool whole = ranks > 0 && static_cast<double>(log_.parameter_lines) == ranks;
    if (!wants("parameters") || !whole || expected <= 0) return;
    const auto [low, high] = whole_parameters();
    if (high >= expected / slack && low <= expected * slack) return;
    const std::string found = low == high
        ? fmt::format("{:.0f} parameters", low)
        : fmt::format("{:.0f} to {:.0f} parameters with all of its experts", std::max(0.0, low),
              std::max(0.0, high));
    fault(
        fmt::format("The log's model has {}, but the sweep's has {:.0f}. If this is right, write "
                    "'unchecked: [parameters]'.",
            found, expected));
  }

  /// Checks that the consumed amount grows by one batch a train step.
  void check_consumed(std::string_view key, double per_step, double rounding) {
    const auto grown = growth_of(key, log_.steps);
    if (!grown || per_step <= 0) return;
    const double asked = grown->steps * per_step;
    if (std::abs(grown->value - asked) > grown->rounding + grown->steps * rounding + 1)
      fault(
          fmt::format("The log counts {:.0f} {} in {:.0f} train steps, but {:.0f} were asked for.",
              grown->value, key == "consumed_samples" ? "samples" : "tokens", grown->steps, asked));
  }
  void check_all_consumed() {
    const double length = known(expected_.seq_len, "seq_len");
    const auto tokens = static_cast<double>(expected_.tokens_per_step);
    const double batch = tokens > 0 && length > 0 ? tokens / length : fact("global_batch");
    check_consumed("consumed_samples", batch, 0);
    check_consumed("consumed_tokens", tokens > 0 ? tokens : fact("tokens_per_step"),
        tokens > 0 ? 0 : rounding_of("tokens_per_step"));
  }

  void check_count() {
    const auto timed = static_cast<std::int64_t>(timed_.size());
    const auto skipped = static_cast<std::int64_t>(window_.size()) - timed;
    const auto all_skipped = std::count_if(log_.steps.begin(), log_.steps.end(),
        [this](const LoggedStep& step) { return is_skipped(step); });
    if (skipped > 0)
      judged_.notes.push_back(fmt::format("{} of {} skipped and left out.", all_skipped,
          counted(static_cast<std::int64_t>(log_.steps.size()), "train step")));
    if (!wants("count") && skipped > 0)  // a run cut short has none to spare
      fault(fmt::format("{} skipped.", counted(skipped, "timed train step")));
    if (!wants("count") || timed >= fewest_timed) return;
    judged_.will_repeat = judged_.will_repeat || skipped > 0;
    if (skipped > 0)
      return fault(
          fmt::format("{} of its {} skipped, and at least {} others are needed: raise 'warmup' of "
                      "'measure' to {} or more.",
              skipped, counted(static_cast<std::int64_t>(window_.size()), "timed train step"),
              fewest_timed, std::max<std::int64_t>(1, expected_.warmup) + skipped));
    if (left_out_ > expected_.warmup)
      return fault(
          fmt::format("The log leaves out its first {} train steps, and has {} timed one{}. At "
                      "least {} are needed: raise 'warmup' of 'measure' to {}.",
              left_out_, timed, timed == 1 ? "" : "s", fewest_timed, left_out_));
    fault(fmt::format(
        "The log has {} train steps. At least {} are needed, because the first {} not timed.",
        static_cast<std::int64_t>(log_.steps.size()) + left_out_,
        fewest_timed + std::max<std::int64_t>(1, expected_.warmup),
        expected_.warmup > 1 ? fmt::format("{} are", expected_.warmup) : "is"));
  }
  void check_steps() {
    check_count();
    if (!wants("losses")) return;
    double nans = 0;
    bool finite = true;
    for (const LoggedStep* step : timed_) {
      nans += value(*step, "nans").value_or(0);
      finite = finite && std::isfinite(value(*step, "loss").value_or(0));
    }
    judged_.has_nan = nans > 0 || !finite;
    if (nans > 0)
      fault(fmt::format("{} with a loss that is no number.",
          counted(static_cast<std::int64_t>(nans), "timed train step")));
    if (!finite && nans == 0) fault("The loss of a timed train step is not finite.");
  }

  /// True if the step's line says that it was skipped, or if the run's count of skipped steps grew
  /// by one.
  [[nodiscard]] bool is_skipped(const LoggedStep& step) const {
    if (value(step, "skipped").value_or(0) > 0) return true;
    const auto total = value(step, "skipped_total");
    if (!total) return false;
    if (&step == log_.steps.data()) return *total >= static_cast<double>(step.iteration);
    const auto before = value(*(&step - 1), "skipped_total");
    return before && *total > *before;
  }

  /// From one line to the next, over the timed train steps: the median if lines were read often
  /// enough, else the mean. None: too coarse, or lines that came in bursts.
  struct LineClock {
    double step_ms = 0, resolution = 0;
  };
  [[nodiscard]] std::optional<LineClock> line_clock() const {
    const auto first = static_cast<std::size_t>(window_.data() - log_.steps.data());
    const auto lines =
        std::span(log_.steps)
            .subspan(first > 0 ? first - 1 : 0)
            .first(std::min(window_.size() + (first > 0 ? 1 : 0), log_.steps.size()));
    std::vector<double> gaps;
    double span_s = 0;
    double unit_s = expected_.look_s;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      if (!lines[i - 1].at_s || !lines[i].at_s) return std::nullopt;
      const double gap = seconds_between(lines[i - 1].at_s->value, lines[i].at_s->value);
      unit_s = std::max(unit_s, 2 * lines[i].at_s->half_unit);
      span_s += gap;
      gaps.push_back(gap / static_cast<double>(lines[i].iteration - lines[i - 1].iteration));
    }
    constexpr std::size_t fewest = 2;
    if (gaps.size() < fewest || !(span_s > 0)) return std::nullopt;
    const double mean =
        span_s / static_cast<double>(lines.back().iteration - lines.front().iteration);
    const double median = quantile_of(gaps, 0.5);
    const bool is_fine = unit_s <= clock_doubt * median;
    // Stamps of whole seconds are trusted for train steps of ten.
    if (!is_fine && expected_.look_s <= 0) return std::nullopt;
    const LineClock clock{
        1e3 * (is_fine ? median : mean), is_fine ? unit_s / median : unit_s / span_s};
    const auto at_once = std::count_if(
        gaps.begin(), gaps.end(), [&](double gap) { return gap < clock_doubt * mean; });
    const bool bursts = unit_s < mean && 4 * static_cast<std::size_t>(at_once) > gaps.size();
    if (clock.resolution > clock_doubt || bursts) return std::nullopt;
    return clock;
  }
  /// Stamps of lines may have no day.
  static double seconds_between(double from, double to) {
    constexpr double day = 86400;
    return to >= from ? to - from : to + day - from;
  }
  /// Compares step times with the lines' clock: a printed time may cover a part of a train step, or
  /// all since the start.
  void check_clock() {
    const auto& found = judged_.measurement;
    const auto clock = line_clock();
    if (!found.train_step_ms || !clock || !judged_.faults.empty()) return;
    const double gap = std::abs(clock->step_ms / *found.train_step_ms - 1);
    const double slack = clock->resolution + found.resolution;
    if (gap <= clock_doubt + slack) return;
    std::string said = fmt::format(
        "The log prints {:.1f} ms per train step, but by the times of its lines a step takes "
        "{:.1f} ms",
        *found.train_step_ms, clock->step_ms);
    if (gap <= clock_contradiction + slack) return judged_.notes.push_back(said + ".");
    judged_.will_repeat = true;
    fault(said + ": the printed number leaves out a part of the step, or is an average.");
  }

  /// A model that has learnt nothing finds every entry of its vocabulary equally likely.
  void check_first_loss() {
    const LoggedStep& first = log_.steps.front();
    const double vocab = known(expected_.vocab, "vocab");
    const auto loss = value(first, "loss");
    if (!wants("first_loss") || first.iteration > 1 || vocab <= 1 || !loss) return;
    const double wanted = std::log(vocab);
    if (!(std::abs(*loss - wanted) <= loss_slack * wanted))
      fault(
          fmt::format("The first loss is {:.3f}. An untrained model with vocabulary {} begins near "
                      "{:.3f}.",
              *loss, vocab, wanted));
  }

  static std::optional<double> value(const LoggedStep& step, std::string_view key) {
    const auto found = step.values.find(key);
    if (found == step.values.end()) return std::nullopt;
    return found->second.value;
  }

  /// Values of the timed train steps under one key; the coarsest rounding goes to `resolution`.
  std::vector<double> series(std::string_view key, double* resolution = nullptr) const {
    std::vector<double> values;
    for (const LoggedStep* step : timed_) {
      const auto found = step->values.find(key);
      if (found == step->values.end() || !(found->second.value > 0)) continue;
      values.push_back(found->second.value);
      if (resolution != nullptr)
        *resolution = std::max(*resolution, found->second.half_unit / found->second.value);
    }
    return values;
  }

  void set_times(const std::vector<double>& ms, double resolution) {
    auto& to = judged_.measurement;
    to.steps = static_cast<std::int64_t>(ms.size());
    to.train_step_ms = quantile_of(ms, 0.5);
    to.train_step_ms_spread = (quantile_of(ms, 0.75) - quantile_of(ms, 0.25)) / *to.train_step_ms;
    to.resolution = resolution;
  }

  /// Times of the timed train steps by what was printed of the time since the start. Of such a time
  /// only differences count: it has the warm-up, too. Between two lines may lie several train
  /// steps. Some are printed without their last zeros, so the usual number of digits tells how they
  /// are rounded. Nothing if that is too coarse.
  std::vector<double> elapsed_ms(double* resolution) const {
    std::vector<double> ms;
    std::vector<double> rounding_ms;
    for (const LoggedStep* step : timed_) {
      if (step == &log_.steps.front()) continue;
      const LoggedStep& before = *(step - 1);
      const auto to = step->values.find("elapsed_s");
      const auto from = before.values.find("elapsed_s");
      const bool both = from != before.values.end() && to != step->values.end();
      const auto steps = static_cast<double>(step->iteration - before.iteration);
      const double took_s = both ? to->second.value - from->second.value : 0;
      if (!(took_s > 0)) continue;
      ms.push_back(1e3 * took_s / steps);
      rounding_ms.push_back(2e3 * to->second.half_unit / steps);
    }
    if (ms.empty()) return ms;
    *resolution = quantile_of(rounding_ms, 0.5) / quantile_of(ms, 0.5);
    return *resolution > clock_doubt ? std::vector<double>() : ms;
  }

  void measure_time() {
    for (const Source& source : step_ms_sources) {
      double resolution = 0;
      auto ms = series(source.key, &resolution);
      if (ms.empty()) continue;
      for (double& one : ms)
        one = source.inverse ? source.factor / one : source.factor * one;
      return set_times(ms, resolution);
    }
    double resolution = 0;
    if (const auto ms = elapsed_ms(&resolution); !ms.empty()) return set_times(ms, resolution);
    resolution = 0;
    auto rate = series("samples_per_s", &resolution);
    const double batch = fact("global_batch");
    if (rate.empty() || batch <= 0) return;
    for (double& one : rate)
      one = 1e3 * batch / one;
    set_times(rate, resolution);
  }

  /// Time between the stamps of lines, for an old log that prints no other. While a run is followed
  /// its reader has a finer clock. A line without a number may stand for several train steps.
  void measure_time_by_stamps() {
    auto& to = judged_.measurement;
    if (to.train_step_ms || to.tokens_per_s_per_gpu || expected_.look_s > 0) return;
    const auto clock = log_.numbered ? line_clock() : std::nullopt;
    if (!clock) return measure_mean_elapsed();
    to.train_step_ms = clock->step_ms;
    to.steps = static_cast<std::int64_t>(timed_.size());
    to.resolution = clock->resolution;
    judged_.notes.emplace_back(
        "The log prints no time per train step; it was computed from the times of the lines.");
  }

  /// Seconds since the start that are too coarse for a train step may tell the mean of many.
  void measure_mean_elapsed() {
    const auto grown = growth_of("elapsed_s", window_);
    if (!grown || grown->rounding > clock_doubt * grown->value) return;
    auto& to = judged_.measurement;
    to.steps = static_cast<std::int64_t>(grown->steps);
    to.train_step_ms = 1e3 * grown->value / grown->steps;
    to.resolution = grown->rounding / grown->value;
  }

  /// Expected value, else the log's, else samples times length, else what its count grows by.
  [[nodiscard]] double tokens_per_step() const {
    if (const double said = known(expected_.tokens_per_step, "tokens_per_step"); said > 0)
      return said;
    const double samples = fact("global_batch") * known(expected_.seq_len, "seq_len");
    const auto counted = growth_of("consumed_tokens", log_.steps);
    const bool is_sharp = counted && counted->rounding <= clock_doubt * counted->value;
    return samples > 0 ? samples : is_sharp ? counted->value / counted->steps : 0;
  }

  /// Tokens of a GPU in a train step by its own speed and time; 0: no step prints both.
  [[nodiscard]] double tokens_by_speed(double gpus) const {
    std::vector<double> tokens;
    for (const LoggedStep* step : timed_) {
      const double all = value(*step, "tokens_per_s").value_or(0) / gpus;
      const double speed = value(*step, "tokens_per_s_per_gpu").value_or(all);
      if (const auto ms = value(*step, "step_ms"); ms && speed > 0)
        tokens.push_back(speed * *ms * 1e-3);
    }
    return tokens.empty() ? 0 : quantile_of(std::move(tokens), 0.5);
  }
  void measure_speed() {
    auto& to = judged_.measurement;
    const double tokens = tokens_per_step();
    const double gpus = known(expected_.gpus, "gpus");
    std::optional<double> from_time;
    if (to.train_step_ms && tokens > 0 && gpus > 0) {
      from_time = tokens / gpus / (*to.train_step_ms * 1e-3);
      if (expected_.tokens_per_step == 0) to.resolution += rounding_of("tokens_per_step") / tokens;
    }
    double resolution = 0;
    const auto printed = printed_speed(gpus, &resolution);
    // The finer of two sources counts.
    const bool by_time = from_time && (!printed || to.resolution <= resolution);
    to.tokens_per_s_per_gpu = by_time ? from_time : printed;
    if (!by_time && printed) {
      to.resolution = resolution;
      if (to.steps == 0) to.steps = static_cast<std::int64_t>(timed_.size());
    }
    if (speeds_agree(gpus) && from_time && printed) {
      const double by_speed = tokens_by_speed(gpus) * gpus / tokens;
      compare(*from_time, by_speed > 0 ? *from_time * by_speed : *printed, resolution);
    }
    if (!to.train_step_ms && printed && tokens > 0 && gpus > 0)
      to.train_step_ms = 1e3 * tokens / gpus / *printed;
    measure_time_by_stamps();
    if (!printed && !from_time && to.train_step_ms && tokens > 0 && gpus > 0)
      to.tokens_per_s_per_gpu = tokens / gpus / (*to.train_step_ms * 1e-3);
    if (!to.tokens_per_s_per_gpu) say_missing(tokens, gpus);
  }
  void say_missing(double tokens, double gpus) {
    const bool has_time = judged_.measurement.train_step_ms.has_value();
    const bool has_tokens = !series("tokens_per_s").empty();
    std::vector<std::string_view> options;
    if (gpus <= 0) options.emplace_back("--gpus");
    if (has_time && tokens <= 0)
      options.emplace_back(fact("global_batch") > 0 ? "--seq-len" : "--batch-tokens");
    if (!has_time && !has_tokens && known(expected_.seq_len, "seq_len") <= 0)
      options.emplace_back("--seq-len");
    if (!has_time && (has_tokens || !series("samples_per_s").empty())) {
      judged_.notes.push_back(fmt::format("The log has {} of all GPUs together. Also give {}.",
          has_tokens ? "tokens/s" : "samples/s", fmt::join(options, " and ")));
    } else if (!has_time) {
      judged_.notes.emplace_back(
          "The log has neither the time of a train step nor tokens/s in a known form.");
    } else {
      judged_.notes.push_back(
          fmt::format("tokens/s can't be computed from the log alone. Also give {}.",
              fmt::join(options, " and ")));
    }
  }
  std::optional<double> printed_speed(double gpus, double* resolution) {
    if (auto per_gpu = series("tokens_per_s_per_gpu", resolution); !per_gpu.empty())
      return quantile_of(std::move(per_gpu), 0.5);
    if (gpus <= 0) return std::nullopt;
    if (auto all = series("tokens_per_s", resolution); !all.empty())
      return quantile_of(std::move(all), 0.5) / gpus;
    const double length = known(expected_.seq_len, "seq_len");
    if (judged_.measurement.train_step_ms || length <= 0) return std::nullopt;
    auto samples = series("samples_per_s", resolution);
    if (samples.empty()) return std::nullopt;
    if (tokens_per_step() <= 0)
      judged_.notes.emplace_back(
          "The log does not say its batch, so its speed can't be checked against the times of its "
          "lines.");
    return quantile_of(std::move(samples), 0.5) * length / gpus;
  }
  /// Compares the number of GPUs that the two printed speeds give with the real one.
  [[nodiscard]] bool speeds_agree(double gpus) {
    double rounding = 0;
    double rounding_of_all = 0;
    auto one = series("tokens_per_s_per_gpu", &rounding);
    auto all = series("tokens_per_s", &rounding_of_all);
    if (one.empty() || all.empty() || expected_.gpus <= 0) return true;
    const double counted = quantile_of(std::move(all), 0.5) / quantile_of(std::move(one), 0.5);
    if (std::abs(counted / gpus - 1) <= speed_slack + rounding + rounding_of_all) return true;
    judged_.will_repeat = true;
    fault(
        fmt::format("The log's tokens/s and tokens/s/GPU mean {:.0f} GPUs, but {} were asked for.",
            counted, expected_.gpus));
    return false;
  }
  void compare(double from_time, double printed, double rounding) {
    const double gap = std::abs(from_time / printed - 1);
    if (gap > speed_slack + rounding + judged_.measurement.resolution)
      fault(fmt::format("The log's step time means {:.0f} tokens/s/GPU, but the log prints {:.0f}.",
          from_time, printed));
  }

  void measure_memory() {
    auto& to = judged_.measurement;
    constexpr double mib = 1024.0 * 1024.0;
    constexpr double gib = 1024.0 * mib;
    const auto bytes = [&](std::string_view in_mib, std::string_view in_gib, std::string_view in_gb,
                           std::string_view plain) -> std::optional<double> {
      const double most =
          std::max({fact(plain), fact(in_mib) * mib, fact(in_gib) * gib, fact(in_gb) * 1e9});
      return most > 0 ? std::optional(most) : std::nullopt;
    };
    to.allocated_bytes = bytes("allocated_mib", "allocated_gib", "allocated_gb", "allocated_bytes");
    to.reserved_bytes = bytes("reserved_mib", "reserved_gib", "reserved_gb", "reserved_bytes");
  }

  void measure_rest() {
    auto& to = judged_.measurement;
    measure_memory();
    if (auto tflops = series("tflops_per_gpu"); !tflops.empty())
      to.tflops_per_gpu = quantile_of(std::move(tflops), 0.5);
    to.first_loss = value(log_.steps.front(), "loss");
    for (const LoggedStep& step : log_.steps) {
      if (const auto loss = value(step, "loss")) to.last_loss = loss;
    }
  }

  const TrainerLog& log_;
  const ExpectedRun& expected_;
  std::span<const LoggedStep> window_;    ///< all train steps behind the warm-up that count
  std::vector<const LoggedStep*> timed_;  ///< train steps that were not skipped
  bool batch_is_samples_ = false;
  std::int64_t left_out_ = 0;  ///< train steps of the warm-up that were not printed
  JudgedLog judged_;
};

}  // namespace

std::int64_t left_out_before(std::int64_t first_iteration, std::int64_t at_most) {
  return std::clamp<std::int64_t>(first_iteration - 1, 0, at_most);
}

std::span<const std::string_view> optional_checks() {
  static constexpr std::array<std::string_view, 4> names{
      "first_loss", "parameters", "version", "axes"};
  return names;
}

std::vector<std::string> judge_facts(const TrainerLog& log, const ExpectedRun& expected) {
  return Judge(log, expected).judge_facts();
}

JudgedLog judge_log(const TrainerLog& log, const ExpectedRun& expected) {
  return Judge(log, expected).judge();
}

}  // namespace shardsweep
