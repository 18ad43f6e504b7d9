// SPDX-License-Identifier: Apache-2.0
// How good a search is where nobody tuned it: the planner against tables of runs, with one
// piece of its knowledge taken away or made wrong at a time. Prints a line for each kind of
// ignorance: mean and worst over seeds. `tests/tools/bench/planner` calls it.
#include "tools/bench/planner_case.hpp"
#include "tools/bench/rivals.hpp"
#include "tools/lab/memory_score.hpp"
#include "tools/lab/readings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <future>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace shardsweep;
using namespace shardsweep::bench;

constexpr SearchUntil own_stop{.regret = 0.01, .confidence = 0.95};

/// What a search said at its stop, and whether it was true.
struct Claim {
  int sure = 0;  ///< in percent
  bool is_true = false;
};

/// Percents that are judged together, both included.
struct Bin {
  int from = 0;
  int to = 0;
};
constexpr std::array<Bin, 3> bins{{{95, 96}, {97, 98}, {99, 99}}};

/// One seed, all cells.
struct Score {
  double runs = 0;              ///< to within 1 %, of the points of cells with a best
  double least = 0;             ///< of them, least_runs()
  double hours = 0;             ///< to within 1 %, of those cells' exhaustive GPU-hours
  double stop = 0;              ///< GPU-hours until its own stop, of all cells' exhaustive ones
  double near_out = 0;          ///< rows within 5 % of their cell's best that no order would launch
  double good_out = 0;          ///< completed rows that no order would launch
  std::vector<double> regrets;  ///< at the stop, of each cell with a best
  std::vector<Claim> claims;    ///< of cells that spared something
  RivalScore rivals;            ///< shares as those above
};

/// A cell and what happened in it.
struct Played {
  ReplayCell cell;
  ReplayedCell story;
};

std::vector<Played> replayed(
    const Case& c, const SearchUntil& until, std::vector<Experience> remembered = {}) {
  SearchSettings search{.policy = SearchPolicy::best_first};
  search.until = until;
  ReplayOptions options{.cluster = c.cluster, .family = &c.family, .search = search, .fit = c.fit};
  options.first = c.first;
  options.remembered = std::move(remembered);
  auto report = replay(c.sweep, options);
  if (!report) {
    fmt::print(stderr, "{}\n", report.error().what);
    std::exit(1);
  }
  std::vector<Played> played;
  for (std::size_t i = 0; i < report->cells.size(); ++i)
    played.push_back({report->cells[i], std::move(report->stories[i])});
  return played;
}

/// By a model's name, the family whose memory was fitted to the other models' rows.
using Refits = std::map<std::string, Family>;

/// What is known of other models is their memory too; empty where nothing is known of them.
Refits refits_of(const Case& c) {
  Refits refits;
  if (c.fit != ReplayFit::other_models) return refits;
  for (const auto& run : c.sweep.runs) {
    const auto& name = c.sweep.model_of(run).name;
    if (!refits.contains(name))
      refits.emplace(name, refit_memory(c.sweep, c.cluster, c.family, name));
  }
  return refits;
}

/// A cell's model is told with its shape where a name has several.
bool is_of(const ReplayCell& cell, const std::string& name) {
  return cell.model == name || cell.model.starts_with(name + " (");
}

std::vector<Played> cells_of(Case c, const Refits& refits, const SearchUntil& until) {
  if (refits.empty()) return replayed(c, until);
  std::vector<Played> cells;
  for (const auto& [name, family] : refits) {
    c.family = family;
    for (auto& one : replayed(c, until)) {
      if (is_of(one.cell, name)) cells.push_back(std::move(one));
    }
  }
  return cells;
}

/// Rows that are as good as the best, left out for a reason that isn't the end of the search.
double near_left_out(const ReplayedCell& story) {
  constexpr double near = 0.95;
  double best = 0;
  for (const auto& launch : story.launches)
    best = std::max(best, launch.row.tokens_per_s_per_gpu.value_or(0));
  for (const auto& left : story.left_out)
    best = std::max(best, left.row.tokens_per_s_per_gpu.value_or(0));
  return static_cast<double>(
      std::count_if(story.left_out.begin(), story.left_out.end(), [&](const auto& left) {
        return left.rule != "until" && best > 0 &&
            left.row.tokens_per_s_per_gpu.value_or(0) >= near * best;
      }));
}

/// How sure the search was, by its own sentence; 0: it said nothing.
int sure_of(const ReplayedCell& story) {
  constexpr std::string_view head = "Search stopped: ";
  for (const auto& left : story.left_out) {
    if (left.why.starts_with(head)) return std::atoi(left.why.c_str() + head.size());
  }
  return 0;
}

/// The rows of a cell, launched or not.
std::vector<RivalRow> rival_rows(const Case& c, const ReplayedCell& story) {
  const ReplayOptions usual;
  std::vector<RivalRow> rows;
  const auto take = [&](const ReplayedRow& row) {
    const double speed = row.tokens_per_s_per_gpu.value_or(0);
    const double seconds =
        speed > 0 ? usual.start_s + usual.steps * speed_of(1, row.point) / speed : usual.oom_s;
    constexpr double hour_s = 3600;
    const auto& model = c.sweep.models.at(static_cast<std::size_t>(row.point.model));
    rows.push_back({{.model = model, .point = row.point, .traits = traits_of_kernel(row.kernel)},
        speed, seconds * row.point.gpus / hour_s});
  };
  for (const auto& launch : story.launches)
    take(launch.row);
  for (const auto& left : story.left_out)
    take(left.row);
  return rows;
}

/// The launches until one is within 1 % of the best, on average, of somebody who knows all
/// speeds, but not which of the rows that look alike has which. In a random order of `alike`
/// rows the first of `good` ones is number (alike + 1) / (good + 1).
double least_runs(const ReplayedCell& story) {
  std::vector<const ReplayedRow*> rows;
  for (const auto& launch : story.launches)
    rows.push_back(&launch.row);
  for (const auto& left : story.left_out)
    rows.push_back(&left.row);
  double best = 0;
  for (const auto* row : rows)
    best = std::max(best, row->tokens_per_s_per_gpu.value_or(0));
  struct Group {
    double alike = 0;
    double good = 0;
  };
  std::map<std::string, Group> groups;
  for (const auto* row : rows) {
    auto& [alike, good] = groups[signature_of(
        {.model = {}, .point = row->point, .traits = {}, .software = row->kernel})];
    ++alike;
    if (row->tokens_per_s_per_gpu.value_or(0) >= 0.99 * best) ++good;
  }
  auto least = static_cast<double>(rows.size());
  for (const auto& [signature, group] : groups) {
    if (group.good > 0) least = std::min(least, (group.alike + 1) / (group.good + 1));
  }
  return least;
}

/// One cell until the search's own stop, a line: what it took of its own hours and of the table's.
void print_cell(const ReplayCell& cell, const ReplayedCell& story, double all_hours) {
  fmt::print(
      "  {:<24} {:>3} nodes {:>5} rows {:>4} launched {:>3} oom {:>3} cut   {:>5.1f} % of its "
      "hours, {:>5.2f} of all   {} % sure, regret {:.1f} %\n",
      cell.model, cell.nodes, cell.points, cell.launched, cell.oom_launched, cell.cut_short,
      100 * cell.gpu_hours / std::max(cell.exhaustive_gpu_hours, 1e-9),
      100 * cell.gpu_hours / std::max(all_hours, 1e-9), sure_of(story),
      100 * cell.regret_at_stop.value_or(0));
}

Score score_of(const Case& c, const Refits& refits, bool print_cells) {
  Score score;
  double points = 0;
  double solvable_hours = 0;
  for (const auto& [cell, story] : cells_of(c, refits, {})) {
    score.good_out += static_cast<double>(cell.good_left_out);
    score.near_out += near_left_out(story);
    if (!cell.runs_to_1pct) continue;
    score.runs += static_cast<double>(*cell.runs_to_1pct);
    score.least += least_runs(story);
    const auto rivals =
        rivals_of(rival_rows(c, story), {.cluster = c.cluster, .family = &c.family});
    score.rivals.chance += rivals.chance;
    score.rivals.predicted += rivals.predicted;
    score.rivals.plain_gp += rivals.plain_gp;
    for (std::size_t i = 0; i < known_noises.size(); ++i)
      score.rivals.proof_hours.at(i) += rivals.proof_hours.at(i);
    points += static_cast<double>(cell.points);
    score.hours += *cell.gpu_hours_to_1pct;
    solvable_hours += cell.exhaustive_gpu_hours;
  }
  score.runs /= std::max(points, 1.0);
  score.least /= std::max(points, 1.0);
  score.hours /= std::max(solvable_hours, 1e-9);
  for (auto* runs : {&score.rivals.chance, &score.rivals.predicted, &score.rivals.plain_gp})
    *runs /= std::max(points, 1.0);
  for (auto& hours : score.rivals.proof_hours)
    hours /= std::max(solvable_hours, 1e-9);
  double all = 0;
  const auto stopped = cells_of(c, refits, own_stop);
  for (const auto& [cell, story] : stopped)
    all += cell.exhaustive_gpu_hours;
  for (const auto& [cell, story] : stopped) {
    score.stop += cell.gpu_hours;
    if (print_cells) print_cell(cell, story, all);
    if (!cell.regret_at_stop) continue;
    score.regrets.push_back(*cell.regret_at_stop);
    if (const int sure = sure_of(story); sure > 0)
      score.claims.push_back({sure, *cell.regret_at_stop <= own_stop.regret});
  }
  score.stop /= std::max(all, 1e-9);
  return score;
}

// ---- a sweep of one model, after sweeps of the others

/// The table's rows of this model, or of all others.
Case only(const Case& c, const std::string& model, bool others) {
  Case part = c;
  std::erase_if(part.sweep.runs,
      [&](const RecordedRun& run) { return (c.sweep.model_of(run).name == model) == others; });
  return part;
}

/// What searches of the whole table would have measured until their own stop.
std::vector<Experience> memories_of(const Case& c) {
  std::map<int, const RecordedRun*> by_line;
  for (const auto& run : c.sweep.runs)
    by_line.emplace(run.line, &run);
  std::vector<Experience> all;
  for (const auto& [cell, story] : replayed(c, own_stop)) {
    for (const auto& launch : story.launches) {
      const RecordedRun& run = *by_line.at(launch.row.line);
      if (run.outcome != Outcome::oom && (run.outcome != Outcome::completed || launch.cut_short))
        continue;
      all.push_back({{.model = c.sweep.model_of(run), .point = run.point, .traits = {}},
          {.outcome = run.outcome,
              .tokens_per_s_per_gpu = run.tokens_per_s_per_gpu.value_or(0),
              .peak_bytes = run.peak_memory_bytes.value_or(0)}});
    }
  }
  return all;
}

/// Sums over the models of a table.
struct Warmth {
  double runs = 0;   ///< to within 1 %
  double hours = 0;  ///< until the own stop
  double cells = 0;
  double missed = 0;  ///< cells whose stop is beyond 1 %
};
Warmth& operator+=(Warmth& a, const Warmth& b) {
  a = {a.runs + b.runs, a.hours + b.hours, a.cells + b.cells, a.missed + b.missed};
  return a;
}
Warmth warmth_of(const Case& c, const std::vector<Experience>& remembered) {
  Warmth warmth;
  for (const auto& [cell, story] : replayed(c, {}, remembered))
    warmth.runs += static_cast<double>(cell.runs_to_1pct.value_or(0));
  for (const auto& [cell, story] : replayed(c, own_stop, remembered)) {
    warmth.hours += cell.gpu_hours;
    if (!cell.regret_at_stop) continue;
    ++warmth.cells;
    if (*cell.regret_at_stop > own_stop.regret) ++warmth.missed;
  }
  return warmth;
}

struct MeanAndWorst {
  double mean = 0;
  double worst = 0;
};
MeanAndWorst over(const std::vector<Score>& scores, double Score::*member) {
  MeanAndWorst result;
  for (const auto& score : scores) {
    result.mean += score.*member / static_cast<double>(scores.size());
    result.worst = std::max(result.worst, score.*member);
  }
  return result;
}

double share_within(const std::vector<double>& regrets, double most) {
  const auto within =
      std::count_if(regrets.begin(), regrets.end(), [&](double regret) { return regret <= most; });
  return regrets.empty() ? 1 : static_cast<double>(within) / static_cast<double>(regrets.size());
}

/// "97/98" of a bin: so many percent of its claims were true, of so many.
std::string truth_text(const std::vector<Claim>& claims, const Bin& bin) {
  const auto is_in = [&](const Claim& claim) {
    return bin.from <= claim.sure && claim.sure <= bin.to;
  };
  const auto all = std::count_if(claims.begin(), claims.end(), is_in);
  const auto kept = std::count_if(claims.begin(), claims.end(),
      [&](const Claim& claim) { return is_in(claim) && claim.is_true; });
  if (all == 0) return "-";
  return fmt::format("{:.0f}/{}", 100 * static_cast<double>(kept) / static_cast<double>(all), all);
}

void print_scores(const std::string& name, const std::vector<Score>& scores) {
  std::vector<double> regrets;
  std::vector<Claim> claims;
  for (const auto& score : scores) {
    regrets.insert(regrets.end(), score.regrets.begin(), score.regrets.end());
    claims.insert(claims.end(), score.claims.begin(), score.claims.end());
  }
  std::sort(regrets.begin(), regrets.end());
  const auto count = regrets.size();
  const double late = count == 0 ? 0 : regrets[(count * 95 + 99) / 100 - 1];
  const double most = count == 0 ? 0 : regrets.back();
  const auto runs = over(scores, &Score::runs);
  const auto least = over(scores, &Score::least);
  const auto hours = over(scores, &Score::hours);
  const auto stop = over(scores, &Score::stop);
  const auto near_out = over(scores, &Score::near_out);
  const auto good_out = over(scores, &Score::good_out);
  fmt::print(
      "{:<26} {:>5.2f} {:>6.2f} {:>6.2f}   {:>5.2f} {:>6.2f}   {:>5.1f} {:>6.1f}   {:>5.2f} "
      "{:>6.2f} "
      "{:>6.1f}   {:>8} {:>8} {:>8}   {:>5.2f} {:>3.0f}   {:>5.1f} {:>4.0f}\n",
      name, 100 * runs.mean, 100 * runs.worst, 100 * least.mean, 100 * hours.mean,
      100 * hours.worst, 100 * stop.mean, 100 * stop.worst, 100 * late, 100 * most,
      100 * share_within(regrets, 0.02), truth_text(claims, bins[0]), truth_text(claims, bins[1]),
      truth_text(claims, bins[2]), near_out.mean, near_out.worst, good_out.mean, good_out.worst);
  std::fflush(stdout);
}

/// Rivals of all kinds of ignorance together.
void print_rivals(const std::vector<Score>& scores) {
  RivalScore mean;
  const double share = 100 / static_cast<double>(scores.size());
  for (const auto& score : scores) {
    mean.chance += share * score.rivals.chance;
    mean.predicted += share * score.rivals.predicted;
    mean.plain_gp += share * score.rivals.plain_gp;
    for (std::size_t i = 0; i < known_noises.size(); ++i)
      mean.proof_hours.at(i) += share * score.rivals.proof_hours.at(i);
  }
  fmt::print("rivals: runs to 1 %: by chance {:.2f}, as predicted {:.2f}, a plain GP {:.2f}\n",
      mean.chance, mean.predicted, mean.plain_gp);
  fmt::print("        hours until who knows all but a noise of");
  for (std::size_t i = 0; i < known_noises.size(); ++i)
    fmt::print("{} {:.0f} % has proved it: {:.1f}", i == 0 ? "" : ",", 100 * known_noises.at(i),
        mean.proof_hours.at(i));
  fmt::print("\n");
}

struct Arguments {
  std::uint64_t seeds = 20;
  std::vector<std::string_view> only;  // parts of names of kinds; none: all
  std::string folder;
  bool made = true;
  bool remember = false;
  bool cells = false;
  std::int32_t first = 0;
  TableOptions table{.presets = SHARDSWEEP_SOURCE_DIR "/sweeps"};

  [[nodiscard]] bool wants(const Ignorance& kind) const {
    return only.empty() || std::any_of(only.begin(), only.end(), [&](std::string_view part) {
      return std::string_view(kind.name).find(part) != std::string_view::npos;
    });
  }
};

/// A seed of one kind: for a table from a folder the order of its rows, for a made one the
/// machine.
Score score_seed(const Case* table, const Refits& refits, const Ignorance& kind,
    const Arguments& arguments, std::uint64_t seed) {
  Case c = table != nullptr ? *table : made_table(seed, arguments.table.presets);
  Random random(seed);
  kind.apply(c, random, seed);
  c.fit = kind.fit;
  c.first = arguments.first;
  if (seed > 0) shuffle(c.sweep.runs, random);
  return score_of(c, table != nullptr ? refits : refits_of(c), arguments.cells);
}

/// All seeds, as many at a time as there are cores.
std::vector<Score> score_seeds(
    const Case* table, const Ignorance& kind, const Arguments& arguments) {
  std::vector<Score> scores;
  // Those of a table are the same in any order of its rows.
  Refits refits;
  if (table != nullptr) {
    Case c = *table;
    c.fit = kind.fit;
    refits = refits_of(c);
  }
  const std::uint64_t at_once =
      arguments.cells ? 1 : std::max(1U, std::thread::hardware_concurrency());
  for (std::uint64_t seed = 0; seed < arguments.seeds; seed += at_once) {
    std::vector<std::future<Score>> running;
    for (auto each = seed; each < std::min(seed + at_once, arguments.seeds); ++each)
      running.push_back(std::async(std::launch::async, score_seed, table, std::cref(refits),
          std::cref(kind), std::cref(arguments), each));
    for (auto& one : running)
      scores.push_back(one.get());
  }
  return scores;
}

void print_bench(const Case* table, const Arguments& arguments) {
  fmt::print("\n{}\n", table != nullptr ? table->name : "machines that were made up");
  std::vector<Score> everything;
  for (const auto& kind : ignorances()) {
    if (!arguments.wants(kind)) continue;
    const bool has_kernels = table == nullptr ||
        std::any_of(table->sweep.runs.begin(), table->sweep.runs.end(),
            [](const auto& run) { return !run.kernel.empty(); });
    if (kind.of_kernels && !has_kernels) continue;
    auto scores = score_seeds(table, kind, arguments);
    print_scores(kind.name, scores);
    for (auto& score : scores)
      everything.push_back(std::move(score));
  }
  if (everything.empty()) return;
  print_scores("all of it", everything);
  print_rivals(everything);
}

/// Without memory, with that of the table's other models, with that of another machine.
void print_warmth(const Case* table, const Arguments& arguments) {
  std::array<Warmth, 3> all{};
  for (const auto& kind : ignorances()) {
    if (!arguments.wants(kind) || kind.fit != ReplayFit::none) continue;
    std::array<Warmth, 3> sums{};
    for (std::uint64_t seed = 0; seed < arguments.seeds; ++seed) {
      Case c = table != nullptr ? *table : made_table(seed, arguments.table.presets);
      Random random(seed);
      kind.apply(c, random, seed);
      c.first = arguments.first;
      if (seed > 0) shuffle(c.sweep.runs, random);
      const auto foreign = memories_of(made_table(1000 + seed, arguments.table.presets));
      std::set<std::string> models;
      for (const auto& run : c.sweep.runs)
        models.insert(c.sweep.model_of(run).name);
      for (const auto& model : models) {
        const Case own = only(c, model, false);
        sums[0] += warmth_of(own, {});
        sums[1] += warmth_of(own, memories_of(only(c, model, true)));
        sums[2] += warmth_of(own, foreign);
      }
    }
    fmt::print("{:<26}", kind.name);
    for (const auto& [runs, hours, cells, missed] : sums)
      fmt::print(" {:>7.0f} {:>9.1f} {:>7.1f}  ", runs, hours, 100 * missed / cells);
    fmt::print("\n");
    std::fflush(stdout);
    for (std::size_t i = 0; i < sums.size(); ++i)
      all[i] += sums[i];
  }
  fmt::print("{:<26} runs {:+.0f} %, hours {:+.0f} %; of another machine {:+.0f} %, {:+.0f} %\n",
      "", 100 * (all[1].runs / all[0].runs - 1), 100 * (all[1].hours / all[0].hours - 1),
      100 * (all[2].runs / all[0].runs - 1), 100 * (all[2].hours / all[0].hours - 1));
}

int usage() {
  fmt::print(stderr,
      "usage: bench_planner [--seeds N] [--only PART]… [--tables FOLDER] [--no-made]\n"
      "                     [--cluster PRESET] [--family NAME] [--first STEPS]\n"
      "                     [--remember] [--cells]\n");
  return 2;
}

}  // namespace

int main(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view flag = values[i];
    if (flag == "--remember") {
      arguments.remember = true;
      continue;
    }
    if (flag == "--cells") {
      arguments.cells = true;
      continue;
    }
    if (flag == "--no-made") {
      arguments.made = false;
      continue;
    }
    if (++i == count) return usage();
    if (flag == "--seeds") {
      arguments.seeds = std::strtoull(values[i], nullptr, 10);
    } else if (flag == "--only") {
      arguments.only.emplace_back(values[i]);
    } else if (flag == "--tables") {
      arguments.folder = values[i];
    } else if (flag == "--cluster") {
      arguments.table.cluster = values[i];
    } else if (flag == "--first") {
      arguments.first = std::atoi(values[i]);
    } else if (flag == "--family") {
      arguments.table.family = values[i];
    } else {
      return usage();
    }
  }
  if (arguments.seeds == 0) return usage();
  if (arguments.remember) {
    fmt::print("{:<26} {:^25}   {:^25}   {:^25}\n", "", "alone", "after the other models",
        "after another machine's");
    fmt::print(
        "{:<26} runs to 1 %  hours to stop  beyond 1 % (%), each\n", "what the planner lacks");
    if (!arguments.folder.empty()) {
      for (const auto& table : tables_of(arguments.folder, arguments.table))
        print_warmth(&table, arguments);
    }
    if (arguments.made) print_warmth(nullptr, arguments);
    return 0;
  }
  fmt::print(
      "                           runs to 1 %            hours to 1 %    hours to stop   "
      "regret at "
      "stop        true of claims, by %      good left out (%)\n"
      "what the planner lacks      mean  worst  least     mean  worst     mean  worst    95 %  "
      "worst  "
      "<=2 %      95-96    97-98       99   near max    all  max\n");
  if (!arguments.folder.empty()) {
    for (const auto& table : tables_of(arguments.folder, arguments.table))
      print_bench(&table, arguments);
  }
  if (arguments.made) print_bench(nullptr, arguments);
  return 0;
}
