// SPDX-License-Identifier: Apache-2.0
// Decision: A frontier says of each step up how sure it is: a layout that is 1 % faster in
// twice the memory may be noise.
#include "show/frontier.hpp"

#include "answer/verdict.hpp"
#include "show/rows.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

/// A layout of one group with its cost.
struct Offer {
  std::size_t row = 0;  ///< row in the table of layouts
  double cost = 0;
  LayoutSpeed ranked{};
  bool beaten = false;
};

struct Alternatives {
  std::string title;
  std::vector<Offer> offers;
};

class Layouts {
 public:
  explicit Layouts(const Table& table) : rows_(table) {
    const auto behind = std::find(table.columns.begin(), table.columns.end(), "runner_version");
    const auto runs = std::find(table.columns.begin(), table.columns.end(), "repeats");
    if (behind < runs) vars_.assign(behind + 1, runs);
  }

  [[nodiscard]] const Rows& rows() const { return rows_; }
  [[nodiscard]] const std::vector<std::string>& vars() const { return vars_; }

  /// Whole nodes, or GPUs where any world is smaller than a node.
  [[nodiscard]] std::string size_column() const {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_.integer(row, "nodes") == 0) return "gpus";
    }
    return "nodes";
  }

  /// Title of a group: the settings that its layouts have in common.
  [[nodiscard]] std::string title(std::size_t row, bool with_size) const {
    auto title = rows_.text(row, "model");
    const auto nodes = rows_.integer(row, "nodes");
    if (with_size)
      title +=
          ", " + (nodes > 0 ? counted(nodes, "node") : counted(rows_.integer(row, "gpus"), "GPU"));
    title += fmt::format(", seq_len {}", rows_.text(row, "seq_len"));
    for (const auto& var : vars_) {
      const auto value = rows_.text(row, var);  // a sweep without this var has none
      if (!value.empty()) title += fmt::format(", {} {}", var, value);
    }
    return title;
  }

  [[nodiscard]] LayoutSpeed ranked(std::size_t row, double factor) const {
    return {rows_.number(row, "tokens_per_s_per_gpu").value_or(0) * factor,
        std::max<std::int64_t>(rows_.integer(row, "repeats"), 1),
        rows_.number(row, "repeat_spread"), rows_.number(row, "resolution").value_or(0), 0,
        step_noise_of(rows_.number(row, "step_spread").value_or(0), rows_.integer(row, "steps")),
        rows_.number(row, "others_cpu").value_or(0)};
  }

 private:
  Rows rows_;
  std::vector<std::string> vars_;
};

/// Groups by model, sequence length and size: the text of a title would put 16 nodes before 2.
std::vector<Alternatives> in_order(
    const std::map<std::string, Alternatives>& groups, const Layouts& layouts) {
  std::vector<Alternatives> all;
  all.reserve(groups.size());
  for (const auto& [title, group] : groups)
    all.push_back(group);
  const auto& rows = layouts.rows();
  const auto key = [&rows](const Alternatives& group) {
    const auto row = group.offers.front().row;
    return std::tuple(
        rows.text(row, "model"), rows.integer(row, "seq_len"), rows.integer(row, "gpus"));
  };
  std::stable_sort(
      all.begin(), all.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return all;
}

std::vector<Alternatives> by_memory(const Layouts& layouts, std::int64_t& unknown) {
  std::map<std::string, Alternatives> groups;
  const auto& rows = layouts.rows();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto memory = rows.number(row, "peak_memory_bytes");
    if (!memory) {
      ++unknown;
      continue;
    }
    const auto title = layouts.title(row, true);
    auto& group = groups[title];
    group.title = title;
    group.offers.push_back({row, *memory, layouts.ranked(row, 1)});
  }
  return in_order(groups, layouts);
}

/// The winner of each world, by the tokens/s of the whole world.
std::vector<Alternatives> by_nodes(const Layouts& layouts, const std::string& column) {
  std::map<std::string, std::map<double, Offer>> fastest;
  const auto& rows = layouts.rows();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double cost = rows.number(row, column).value_or(0);
    const double gpus = rows.number(row, "gpus").value_or(1);
    const Offer offer{row, cost, layouts.ranked(row, gpus)};
    if (rows.integer(row, "rank") > 1) continue;  // the answer of its cell names another one
    auto& best = fastest[layouts.title(row, false)];
    const auto [place, fresh] = best.try_emplace(cost, offer);
    if (!fresh && offer.ranked.value > place->second.ranked.value) place->second = offer;
  }
  std::map<std::string, Alternatives> groups;
  for (auto& [title, offers] : fastest) {
    auto& group = groups[title];
    group.title = title;
    for (auto& [cost, offer] : offers)
      group.offers.push_back(offer);
  }
  return in_order(groups, layouts);
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

std::vector<std::string> columns_of(FrontierCost by, const Layouts& layouts) {
  std::vector<std::string> columns{"model", "seq_len", "nodes", "gpus"};
  columns.insert(columns.end(), layouts.vars().begin(), layouts.vars().end());
  const auto add = [&columns](std::initializer_list<const char*> more) {
    columns.insert(columns.end(), more.begin(), more.end());
  };
  add({"layout"});
  if (by == FrontierCost::memory) add({"peak_memory_bytes", "tokens_per_s_per_gpu"});
  if (by == FrontierCost::nodes)
    add({"tokens_per_s", "tokens_per_s_per_gpu", "efficiency_share",
        "gpu_hours_per_billion_tokens"});
  add({"against_the_cheaper", "repeats", "repeat_spread", "mfu", "train_step_ms", "sweep", "trial",
      "runner", "runner_version"});
  return columns;
}

class FrontierTable {
 public:
  FrontierTable(const Layouts& layouts, FrontierCost by, const std::vector<Alternatives>& groups)
      : layouts_(layouts), by_(by), table_{columns_of(by, layouts), {}} {
    std::vector<LayoutSpeed> all;
    for (const auto& group : groups) {
      for (const auto& offer : group.offers)
        all.push_back(offer.ranked);
    }
    noise_ = common_noise(all);
  }

  void add(const Alternatives& group) {
    const Offer* cheaper = nullptr;
    for (const auto& offer : group.offers) {
      if (offer.beaten) continue;
      std::vector<Value> row;
      for (const auto& column : table_.columns)
        row.push_back(value(column, offer, group.offers.front(), cheaper));
      table_.rows.push_back(std::move(row));
      cheaper = &offer;
    }
  }

  Table take() { return std::move(table_); }

 private:
  [[nodiscard]] Value value(const std::string& column, const Offer& offer, const Offer& smallest,
      const Offer* cheaper) const {
    constexpr double seconds_per_hour = 3600;
    const auto& rows = layouts_.rows();
    const auto per_gpu = [&rows](const Offer& one) {
      return rows.number(one.row, "tokens_per_s_per_gpu").value_or(0);
    };
    if (column == "against_the_cheaper") {
      if (cheaper == nullptr) return {};
      return verdict_text(compared(offer.ranked, cheaper->ranked, noise_, usual_resolve));
    }
    if (by_ == FrontierCost::nodes) {
      if (column == "tokens_per_s") return offer.ranked.value;
      if (column == "efficiency_share") return per_gpu(offer) / per_gpu(smallest);
      if (column == "gpu_hours_per_billion_tokens") return 1e9 / per_gpu(offer) / seconds_per_hour;
    }
    return rows.value(offer.row, column);
  }

  const Layouts& layouts_;
  FrontierCost by_;
  Table table_;
  Noise noise_;
};

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
        by == FrontierCost::memory ? "one that needs less memory" : "a smaller one"));
  return note;
}

}  // namespace

Frontier frontier(const Table& layouts, FrontierCost by) {
  const Layouts all(layouts);
  Frontier result;
  result.by = by;
  result.cost_column = by == FrontierCost::memory ? "peak_memory_bytes" : all.size_column();
  std::int64_t unknown = 0;
  auto groups =
      by == FrontierCost::memory ? by_memory(all, unknown) : by_nodes(all, result.cost_column);
  FrontierTable table(all, by, groups);
  std::int64_t beaten = 0;
  for (auto& group : groups) {
    find_beaten(group.offers);
    table.add(group);
    auto& shown = result.groups.emplace_back(FrontierGroup{group.title, {}});
    for (const auto& offer : group.offers) {
      shown.points.push_back(
          {offer.cost, offer.ranked.value, all.rows().text(offer.row, "layout"), offer.beaten});
      beaten += offer.beaten ? 1 : 0;
    }
  }
  result.table = table.take();
  result.table.note = note_of(layouts.note, unknown, beaten, by);
  return result;
}

}  // namespace shardsweep
