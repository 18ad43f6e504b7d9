// SPDX-License-Identifier: Apache-2.0
#include "loading.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <ostream>
#include <random>
#include <string>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

/// Sweeps of every shape that a file can have.
class RandomSweep {
 public:
  explicit RandomSweep(std::uint64_t seed) : random_(seed) {}

  SweepSpec make() {
    sweep_ = {};
    sweep_.name = "r" + std::to_string(pick(1000));
    cluster();
    for (auto count = 1 + pick(3); count > 0; --count)
      model(count);
    if (pick(2) == 0) sweep_.global_batch_samples = 1 + pick(1 << 20);
    grid();
    vars();
    for (auto count = pick(4); count > 0; --count)
      point();
    control();
    settings();
    search();
    policy();
    return sweep_;
  }

 private:
  std::int64_t pick(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(random_);
  }

  /// An exclusion has to compile: the text stands in quotes.
  std::string expression() {
    std::string all = "model <> '";
    for (const char c : text())
      all += c == '\'' ? std::string("''") : std::string(1, c);
    return all + "'";
  }

  std::string text() {
    static const std::vector<std::string> parts{"a", "B", "7", " ", "'", "\"", "\\", "#", ":", "[",
        "é", "$", ";", "{}", ", ", "- ", "null", "&x", "*", "!", "%", "@", "`", "~"};
    std::string all;
    for (auto count = pick(6); count > 0; --count)
      all += parts[static_cast<std::size_t>(pick(static_cast<std::int64_t>(parts.size())))];
    return all;
  }

  double real() { return std::ldexp(1.0 + static_cast<double>(pick(1 << 30)), int(pick(60)) - 30); }

  void cluster() {
    auto& cluster = sweep_.cluster;
    cluster.name = "c";
    cluster.gpu = text();
    cluster.gpus_per_node = static_cast<int>(1 + pick(16));
    cluster.memory_bytes = (1 << 20) + pick(std::int64_t{1} << 45);
    for (auto& peak : cluster.peak_flops) {
      if (pick(2) == 0) peak = real();
    }
    if (pick(2) == 0) cluster.memory_bandwidth = real();
    if (pick(2) == 0) cluster.inter_node_latency_us = real();
    cluster.this_machine = pick(2) == 0;
    cluster.shared_host = pick(2) == 0;
  }

  void model(std::int64_t number) {
    ModelSpec model;
    model.name = "tiny" + std::to_string(number);
    model.layers = 1 + pick(100);
    model.kv_heads = 1 + pick(8);
    model.heads = model.kv_heads * (1 + pick(8));
    model.hidden = 2 * model.heads * (1 + pick(64));
    model.ffn = 1 + pick(1 << 20);
    model.vocab = 1 + pick(1 << 20);
    model.tied_embeddings = pick(2) == 0;
    sweep_.models.push_back(model);
  }

  void search() {
    auto& measure = sweep_.measure;
    if (pick(2) == 0) measure.finalists = static_cast<int>(2 + pick(14));
    if (measure.finalists > 0) {
      measure.final_rounds = static_cast<int>(pick(50));
      measure.resolve = 1 / (1.5 + real());
      measure.repeats = 1;
    }
    auto& search = sweep_.search;
    search.policy = static_cast<SearchPolicy>(pick(2));
    if (pick(2) == 0) search.until.regret = 1 / (1.5 + real());
    if (pick(3) == 0) search.learn_from = {false, {}};
    if (pick(3) == 0) search.learn_from = {false, {"first", text()}};
    if (search.until.regret > 0 && pick(2) == 0) search.until.confidence = 1 / (1.5 + real());
    if (pick(2) == 0) search.until.runs = 1 + pick(1000);
    if (pick(2) == 0) search.until.gpu_hours = real();
    search.rules = {pick(2) == 0, pick(2) == 0};
    search.learn_across = pick(2) == 0;
  }

  std::int64_t value(const AxisInfo& axis) {
    if (axis.kind == AxisKind::model) return pick(static_cast<std::int64_t>(sweep_.models.size()));
    const auto least = std::max<std::int64_t>(axis.minimum, axis.name == "nodes" ? 1 : 0);
    return least + pick(std::min<std::int64_t>(axis.maximum - least + 1, 1000));
  }

  AxisValues values(const AxisInfo& axis, bool list) {
    AxisValues made{&axis, false, {value(axis)}};
    for (auto count = list ? pick(4) : 0; count > 0; --count) {
      const auto next = value(axis);
      if (std::find(made.values.begin(), made.values.end(), next) == made.values.end())
        made.values.push_back(next);
    }
    const bool derivable = axis.name == "dp" || sweep_.global_batch_samples.has_value();
    if (axis.allows_auto && derivable && pick(2) == 0) return {&axis, true, {}};
    return made;
  }

  void grid() {
    const auto* unset = find_axis(pick(2) == 0 ? "nodes" : "gpus");
    for (const auto& axis : axes()) {
      if (&axis == unset) continue;
      if (pick(3) == 0) {
        sweep_.axes.push_back(values(axis, true));
      } else if (pick(5) == 0) {
        sweep_.zips.push_back({{{&axis, false, {value(axis)}}}});
      } else {
        sweep_.constants.push_back(values(axis, false));
      }
    }
  }

  void vars() {
    for (auto count = pick(3); count > 0; --count) {
      VarValues var{"v" + std::to_string(count), {text()}};
      const auto other = text() + "x";
      if (other != var.values[0]) var.values.push_back(other);
      sweep_.vars.push_back(var);
    }
  }

  void point() {
    PartialPoint point;
    for (const auto* name : {"model", "gpus", "dp", "grad_accum"})
      point.settings.push_back({find_axis(name), false, {value(*find_axis(name))}});
    for (const auto& var : sweep_.vars)
      point.vars.emplace_back(var.name, var.values.back());
    inherit(point, sweep_.axes);
    for (const auto& zip : sweep_.zips)
      inherit(point, zip.axes);
    sweep_.points.push_back(point);
  }

  /// As the loader does: an axis of one value is as good as a constant.
  static void inherit(PartialPoint& point, const std::vector<AxisValues>& axes) {
    for (const auto& axis : axes) {
      const bool set = std::any_of(point.settings.begin(), point.settings.end(),
          [&](const auto& each) { return each.axis == axis.axis; });
      if (axis.values.size() == 1 && !set && axis.axis->name != "nodes")
        point.settings.push_back(axis);
    }
  }

  void control() {
    const std::int32_t unasked = sweep_.cluster.gpu.empty() ? 0 : 2;
    const bool layout = pick(2) == 0;
    sweep_.control.network_from =
        layout || pick(3) == 0 ? unasked : static_cast<std::int32_t>(pick(2));
    if (layout) control_layout();
  }

  void control_layout() {
    PartialPoint point;
    for (const auto* name : {"model", "tp", "dp", "grad_accum"})
      point.settings.push_back({find_axis(name), false, {value(*find_axis(name))}});
    for (const auto& var : sweep_.vars)
      point.vars.emplace_back(var.name, var.values.front());
    sweep_.control.layout = point;
  }

  void settings() {
    for (auto count = pick(3); count > 0; --count)
      sweep_.excludes.push_back({expression(), "x" + text() + "y", {}});
    sweep_.measure.steps = static_cast<std::int32_t>(2 + pick(1000));
    if (sweep_.measure.finalists > 0 && pick(2) == 0) sweep_.measure.first = 1;
    sweep_.runner.program = pick(2) == 0 ? "" : "/" + text();
    for (auto count = pick(3); count > 0; --count)
      sweep_.runner.args.push_back(text());
    for (auto count = pick(3); count > 0; --count)
      sweep_.env["E" + std::to_string(count)] = text();
    for (auto count = pick(3); count > 0; --count)
      sweep_.rules.push_back({"r" + std::to_string(count), "x" + text().substr(0, 90),
          cause_outcomes.at(static_cast<std::size_t>(pick(7)))});
  }

  void policy() {
    for (const auto& field : policy_fields()) {
      if (pick(2) == 0) continue;
      const double most = std::min(field.maximum, 1e9);
      const auto steps = pick(1'000'000);
      const auto scaled = field.minimum + (most - field.minimum) * double(steps) / 1e6;
      const PolicyValue value = field.in(sweep_.policy);
      if (double* const* real = std::get_if<double*>(&value)) {
        **real = static_cast<double>(std::llround(scaled * 1e6)) / 1e6;
      } else {
        *std::get<std::int64_t*>(value) = std::llround(scaled);
      }
    }
    constexpr std::int64_t minutes = 1440;  // of a day
    for (auto count = pick(3); count > 0; --count) {
      const auto from = static_cast<std::int32_t>(pick(minutes));
      const auto to = static_cast<std::int32_t>(1 + pick(minutes));
      const auto day = static_cast<std::uint8_t>(pick(2) == 0 ? 0x7f : 1U << pick(7));
      if (from != to) sweep_.policy.hours.windows.push_back({day, from, to});
    }
  }

  std::mt19937_64 random_;
  SweepSpec sweep_;
};

}  // namespace

TEST_CASE("any sweep written out loads to an equal one") {
  RandomSweep sweeps(42);
  for (int round = 0; round < 500; ++round) {
    const auto sweep = sweeps.make();
    const auto text = explain_sweep(sweep);
    const auto again = load_text(text);
    REQUIRE_MESSAGE(again.has_value(), fault_of(again) << "\n" << text);
    REQUIRE_MESSAGE(without_positions(*again) == sweep, text);
  }
}

TEST_CASE("an explained sweep names every default and its reason") {
  const auto sweep =
      load_text("name: x\ncluster: this-machine\nconstants: {model: tiny, gpus: 1}\n");
  REQUIRE(sweep.has_value());
  const auto text = explain_sweep(*sweep);
  for (const auto& field : policy_fields()) {
    CHECK(text.find(std::string(field.key) + ": ") != std::string::npos);
    CHECK(text.find("  # " + std::string(field.reason)) != std::string::npos);
  }
  for (const auto& axis : axes()) {
    if (axis.name != "nodes")
      CHECK_MESSAGE(
          text.find("  " + std::string(axis.name) + ": ") != std::string::npos, axis.name);
  }
}

TEST_CASE(
    "an explained sweep has what there is of a model's shape and the hardware that is known") {
  const auto sweep =
      load_text("name: x\ncluster: h100-8x\nconstants: {model: llama-1b, nodes: 1}\n");
  REQUIRE(sweep.has_value());
  const auto text = explain_sweep(*sweep);
  CHECK(text.find("  llama-1b: {layers: 16, hidden: 2048, ffn: 8192, heads: 32, kv_heads: 32, "
                  "vocab: 131072, tied_embeddings: true}\n") != std::string::npos);
  CHECK(text.find("  gemm_efficiency: 0.7  # share of the peak in a layer's matrix products\n") !=
      std::string::npos);
  CHECK(text.find("  this_machine: false\n  shared_host: false\n") != std::string::npos);
}
