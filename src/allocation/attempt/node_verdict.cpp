// SPDX-License-Identifier: Apache-2.0
#include "attempt/node_verdict.hpp"

#include "text/median.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

constexpr double giga = 1e9;
constexpr double gibibyte = 1 << 30;

/// A figure in which a node is compared with others.
struct Speed {
  std::string_view name;
  std::string_view unit;
  double scale;
  double NodeFacts::*value;
  double LaneLimits::*least;
  std::map<std::string, double> CheckOrder::*usual;
  double CheckOrder::*stated;  ///< null: a cluster file does not say it
};
constexpr Speed gemm{"gemm", "GFLOP/s", giga, &NodeFacts::gemm_flops, &LaneLimits::check_gemm,
    &CheckOrder::usual_gemm, &CheckOrder::stated_gemm};
constexpr Speed clocks{"clocks", "MHz", 1, &NodeFacts::sm_clock_mhz, &LaneLimits::check_clocks,
    &CheckOrder::usual_clock, nullptr};
constexpr Speed allreduce{"allreduce", "GB/s", giga, &NodeFacts::busbw_bytes_per_s,
    &LaneLimits::check_allreduce, &CheckOrder::usual_busbw, &CheckOrder::stated_busbw};

using AllFacts = std::map<std::string, NodeFacts>;

double usual_here(
    const Speed& speed, const CheckOrder& order, const AllFacts& all, const std::string& device) {
  const auto known = (order.*speed.usual).find(device);
  if (known != (order.*speed.usual).end()) return known->second;
  std::vector<double> values;
  for (const auto& [name, facts] : all) {
    if (facts.device == device && facts.*speed.value > 0) values.push_back(facts.*speed.value);
  }
  const double here = usual_of(std::move(values));
  return here > 0 || speed.stated == nullptr ? here : order.*speed.stated;
}

void judge_speed(const Speed& speed, const LaneLimits& limits, const CheckOrder& order,
    const AllFacts& all, const NodeFacts& facts, NodeVerdict& verdict) {
  const double least = limits.*speed.least;
  const double value = facts.*speed.value;
  if (least <= 0 || value <= 0) return;
  const double usual = usual_here(speed, order, all, facts.device);
  if (usual <= 0) {
    verdict.unmade.push_back(fmt::format(
        "{}: {:.4g} {}, not judged, because fewer than {} nodes with this device were measured",
        speed.name, value / speed.scale, speed.unit, least_checked));
    return;
  }
  if (value >= least * usual) return;
  verdict.failed.push_back(
      fmt::format("{}: {:.4g} {}, {:.2f} of the usual {:.4g} (at least {:.2f} is required)",
          speed.name, value / speed.scale, speed.unit, value / usual, usual / speed.scale, least));
}

void judge_memory(const LaneLimits& limits, const CheckOrder& order, const NodeFacts& facts,
    NodeVerdict& verdict) {
  if (limits.check_memory <= 0) return;
  // Memory that other services of a node always hold is no fault of the node.
  const auto usual = order.usual_free.find(facts.device);
  const double least = limits.check_memory * (usual == order.usual_free.end() ? 1 : usual->second);
  if (facts.host_free >= 0 && facts.host_free < least)
    verdict.failed.push_back(
        fmt::format("memory: {:.0f}% of the host's memory is free, at least {:.0f}% is required",
            facts.host_free * 100, least * 100));
  if (facts.gpu_used_bytes > order.gpu_slack_bytes)
    verdict.failed.push_back(
        fmt::format("gpu memory: {:.1f} GiB of a GPU's memory are in use before anything runs",
            facts.gpu_used_bytes / gibibyte));
}

std::string_view check_of(std::string_view sentence) {
  return sentence.substr(0, sentence.find(':'));
}

bool fails(const NodeVerdict& verdict, std::string_view check) {
  return std::any_of(verdict.failed.begin(), verdict.failed.end(),
      [&](const std::string& one) { return check_of(one) == check; });
}

/// Checks that all of several nodes fail; the sentence is the first node's.
std::string shared_by_all(const std::map<std::string, NodeVerdict>& nodes) {
  if (nodes.size() < 2) return {};
  std::vector<std::string> shared;
  const auto& [first, its] = *nodes.begin();
  for (const std::string& sentence : its.failed) {
    const bool all = std::all_of(nodes.begin(), nodes.end(),
        [&](const auto& entry) { return fails(entry.second, check_of(sentence)); });
    if (all) shared.push_back(sentence);
  }
  if (shared.empty()) return {};
  return fmt::format("all {} nodes fail their check, so no node is to blame: {} (on {})",
      nodes.size(), sentences(shared), first);
}

/// Suspects both nodes of a slow pair: other partners will show which of the two is at fault.
void suspect_both(CheckVerdict& all) {
  if (all.nodes.size() != 2) return;
  for (auto& [name, verdict] : all.nodes)
    verdict.suspected =
        !verdict.blamed && verdict.failed.size() == 1 && fails(verdict, allreduce.name);
  const auto& [first, its] = *all.nodes.begin();
  const auto& [second, others] = *all.nodes.rbegin();
  if (its.suspected && others.suspected)
    all.site = fmt::format(
        "the network between {} and {} is slow; which of the two is to blame is unknown: {}", first,
        second, its.failed.front());
}

}  // namespace

double usual_of(std::vector<double> values) {
  return values.size() < least_checked ? 0 : median_of(std::move(values), Even::mean);
}

bool CheckVerdict::passed() const {
  return std::all_of(
      nodes.begin(), nodes.end(), [](const auto& entry) { return entry.second.failed.empty(); });
}

std::string CheckVerdict::why() const {
  std::vector<std::string> all;
  if (!site.empty()) all.push_back(site);
  for (const auto& [name, verdict] : nodes) {
    if (verdict.blamed)
      all.push_back(fmt::format("node {} fails its check: {}", name, sentences(verdict.failed)));
  }
  return sentences(all);
}

CheckVerdict judge_checks(
    const LaneLimits& limits, const CheckOrder& order, const AllFacts& facts) {
  CheckVerdict all;
  for (const auto& [name, of_node] : facts) {
    NodeVerdict& verdict = all.nodes[name];
    verdict.failed = of_node.wrong;
    verdict.unmade = of_node.unmade;
    judge_memory(limits, order, of_node, verdict);
    judge_speed(gemm, limits, order, facts, of_node, verdict);
    judge_speed(clocks, limits, order, facts, of_node, verdict);
    judge_speed(allreduce, limits, order, facts, of_node, verdict);
  }
  all.site = shared_by_all(all.nodes);
  for (auto& [name, verdict] : all.nodes) {
    verdict.blamed =
        std::any_of(verdict.failed.begin(), verdict.failed.end(), [&](const std::string& sentence) {
          return all.nodes.size() < 2 ||
              !std::all_of(all.nodes.begin(), all.nodes.end(),
                  [&](const auto& entry) { return fails(entry.second, check_of(sentence)); });
        });
  }
  suspect_both(all);
  return all;
}

std::string sentences(const std::vector<std::string>& all) {
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace shardsweep
