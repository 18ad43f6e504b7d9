// SPDX-License-Identifier: Apache-2.0
// Decision: A frontier says of each step up how sure it is: a layout that is 1 % faster in
// twice the memory may be noise.
#include "show/frontier.hpp"

#include "answer/verdict.hpp"
#include "show/column.hpp"
#include "show/ranked_layouts.hpp"
#include "text/numbers.hpp"

#include <shardsweep/typed_rows.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

/// A layout of one group with its cost.
struct Offer {
  const RankedLayout* layout = nullptr;
  double cost = 0;
  LayoutSpeed ranked{};
  bool beaten = false;
};

struct Alternatives {
  std::string title;
  std::vector<Offer> offers;
};
using ByTitle = std::map<std::string, Alternatives>;

/// Title of a group: the settings that its layouts have in common.
std::string title_of_group(const RankedLayouts& all, const RankedLayout& layout, bool with_size) {
  std::string title = layout.model;
  if (with_size)
    title +=
        ", " + (layout.nodes > 0 ? counted(layout.nodes, "node") : counted(layout.gpus, "GPU"));
  title += fmt::format(", seq_len {}", layout.seq_len);
  for (std::size_t i = 0; i < all.settings.size(); ++i) {
    std::string value;  // a sweep without this var has none
    fill_field(value, layout.settings[i]);
    if (!value.empty()) title += fmt::format(", {} {}", all.settings[i], value);
  }
  return title;
}

/// Groups by model, sequence length and size: the text of a title would put 16 nodes before 2.
std::vector<Alternatives> in_order(ByTitle&& groups) {
  std::vector<Alternatives> all;
  all.reserve(groups.size());
  for (auto& [title, group] : groups) {
    group.title = title;
    all.push_back(std::move(group));
  }
  const auto key = [](const Alternatives& group) {
    const RankedLayout& first = *group.offers.front().layout;
    return std::tie(first.model, first.seq_len, first.gpus);
  };
  std::stable_sort(
      all.begin(), all.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return all;
}

std::vector<Alternatives> by_memory(const RankedLayouts& all, std::int64_t& unknown) {
  ByTitle groups;
  for (const RankedLayout& one : all.rows) {
    if (one.peak_memory_bytes)
      groups[title_of_group(all, one, true)].offers.push_back(
          {&one, static_cast<double>(*one.peak_memory_bytes), one.speed()});
    else
      ++unknown;
  }
  return in_order(std::move(groups));
}

/// The winner of each world, by the tokens/s of the whole world.
std::vector<Alternatives> by_worlds(const RankedLayouts& all, bool by_nodes) {
  std::map<std::string, std::map<std::int64_t, Offer>> fastest;
  for (const RankedLayout& one : all.rows) {
    if (one.rank > 1) continue;  // the answer of its cell names another one
    const std::int64_t size = by_nodes ? one.nodes : one.gpus;
    const Offer offer{&one, static_cast<double>(size), one.speed(static_cast<double>(one.gpus))};
    auto& best = fastest[title_of_group(all, one, false)];
    const auto [place, fresh] = best.try_emplace(size, offer);
    if (!fresh && offer.ranked.value > place->second.ranked.value) place->second = offer;
  }
  ByTitle groups;
  for (const auto& [title, offers] : fastest) {
    for (const auto& [size, offer] : offers)
      groups[title].offers.push_back(offer);
  }
  return in_order(std::move(groups));
}

/// Sorted by cost; whoever is not faster than a cheaper one is beaten.
void find_beaten(std::vector<Offer>& offers) {
  std::stable_sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
    return std::pair(a.cost, -a.ranked.value) < std::pair(b.cost, -b.ranked.value);
  });
  double fastest = 0;
  for (auto& offer : offers) {
    offer.beaten = offer.ranked.value <= fastest;
    fastest = std::max(fastest, offer.ranked.value);
  }
}

/// A layout that is not beaten, beside the smallest of its group and the next cheaper one.
struct Step {
  const Offer* offer = nullptr;
  const Offer* smallest = nullptr;
  const Offer* cheaper = nullptr;  ///< nullptr: none

  [[nodiscard]] double per_gpu() const { return offer->layout->tokens_per_s_per_gpu; }
};

View<Step> columns_of(FrontierCost by, const RankedLayouts& all, const Noise& noise) {
  constexpr double seconds_per_hour = 3600;
  View<Step> columns;
  const auto add = [&columns](std::initializer_list<std::string_view> names) {
    for (auto& column : field_columns<RankedLayout>(names))
      columns.push_back({column.name,
          [value = column.value](const Step& step) { return value(*step.offer->layout); }});
  };
  add({"model", "seq_len", "nodes", "gpus"});
  for (std::size_t i = 0; i < all.settings.size(); ++i)
    columns.push_back(
        {all.settings[i], [i](const Step& step) { return step.offer->layout->settings[i]; }});
  add({"layout"});
  if (by == FrontierCost::memory) {
    add({"peak_memory_bytes", "tokens_per_s_per_gpu"});
  } else {
    columns.push_back({"tokens_per_s", [](const Step& step) { return step.offer->ranked.value; }});
    add({"tokens_per_s_per_gpu"});
    columns.push_back({"efficiency_share", [](const Step& step) {
                         return step.per_gpu() / step.smallest->layout->tokens_per_s_per_gpu;
                       }});
    columns.push_back({"gpu_hours_per_billion_tokens",
        [](const Step& step) { return 1e9 / step.per_gpu() / seconds_per_hour; }});
  }
  columns.push_back({"against_the_cheaper", [noise](const Step& step) {
                       if (step.cheaper == nullptr) return Value();
                       return Value(verdict_text(compared(
                           step.offer->ranked, step.cheaper->ranked, noise, usual_resolve)));
                     }});
  add({"repeats", "repeat_spread", "mfu", "train_step_ms", "sweep", "trial", "runner",
      "runner_version"});
  return columns;
}

Noise noise_of(const std::vector<Alternatives>& groups) {
  std::vector<LayoutSpeed> all;
  for (const auto& group : groups) {
    for (const auto& offer : group.offers)
      all.push_back(offer.ranked);
  }
  return common_noise(all);
}

std::vector<Step> steps_of(const std::vector<Alternatives>& groups) {
  std::vector<Step> steps;
  for (const auto& group : groups) {
    const Offer* cheaper = nullptr;
    for (const auto& offer : group.offers) {
      if (offer.beaten) continue;
      steps.push_back({&offer, &group.offers.front(), cheaper});
      cheaper = &offer;
    }
  }
  return steps;
}

std::string note_of(
    const std::string& before, std::int64_t unknown, std::int64_t beaten, FrontierCost by) {
  std::string note = before;
  const auto add = [&note](const std::string& sentence) {
    note += (note.empty() ? "" : "\n") + sentence;
  };
  if (unknown > 0)
    add(fmt::format("Left out: {} without peak_memory_bytes.", counted(unknown, "layout")));
  if (beaten > 0)
    add(fmt::format("Hidden: {} that {} no faster than {}.",
        counted(beaten, by == FrontierCost::memory ? "layout" : "GPU count"),
        beaten == 1 ? "is" : "are",
        by == FrontierCost::memory ? "a layout that needs less memory" : "a smaller one"));
  return note;
}

}  // namespace

Frontier frontier(const Table& layouts, FrontierCost by) {
  const RankedLayouts all = ranked_layouts(layouts);
  const bool by_nodes = std::all_of(
      all.rows.begin(), all.rows.end(), [](const RankedLayout& one) { return one.nodes > 0; });
  Frontier result;
  result.by = by;
  result.cost_column = by == FrontierCost::memory ? "peak_memory_bytes"
      : by_nodes                                  ? "nodes"
                                                  : "gpus";
  std::int64_t unknown = 0;
  auto groups = by == FrontierCost::memory ? by_memory(all, unknown) : by_worlds(all, by_nodes);
  std::int64_t beaten = 0;
  for (auto& group : groups) {
    find_beaten(group.offers);
    auto& shown = result.groups.emplace_back(FrontierGroup{group.title, {}});
    for (const auto& offer : group.offers) {
      shown.points.push_back({offer.cost, offer.ranked.value, offer.layout->layout, offer.beaten});
      beaten += offer.beaten ? 1 : 0;
    }
  }
  result.table = view_table(columns_of(by, all, noise_of(groups)), steps_of(groups));
  result.table.note = note_of(layouts.note, unknown, beaten, by);
  return result;
}

}  // namespace shardsweep
