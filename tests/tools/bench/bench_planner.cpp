// SPDX-License-Identifier: Apache-2.0
// How good a search is where nobody tuned it: the planner against a published table, with one
// piece of its knowledge taken away or made wrong at a time. Prints a line for each kind of
// ignorance: mean and worst over seeds. `tests/tools/bench/planner` calls it.
#include "predict/memory_score.hpp"
#include "replay/replay.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/recorded.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardsweep;

/// The same numbers from the same seed with every library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  /// In [0, 1).
  double uniform() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return static_cast<double>((z ^ (z >> 31U)) >> 11U) * 0x1.0p-53;
  }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  bool one_in(double share) { return uniform() < share; }

 private:
  std::uint64_t state_;
};

/// What a planner is told, and the table that tells the truth.
struct Case {
  RecordedSweep sweep;
  ClusterSpec cluster;
  Family family;
  ReplayFit fit = ReplayFit::none;
};

using Perturb = void (*)(Case&, Random&, std::uint64_t seed);

void leave_as_is(Case&, Random&, std::uint64_t) {}

/// The first two seeds move all constants one way, the others each by itself.
void perturb_memory(Case& c, Random& random, std::uint64_t seed) {
  constexpr double by = 0.15;
  using Constant = double MemoryFamily::*;
  constexpr std::array<Constant, 15> constants{&MemoryFamily::bf16_gradient_bytes,
                                               &MemoryFamily::overhead_bytes,
                                               &MemoryFamily::between_rows,
                                               &MemoryFamily::query_rows,
                                               &MemoryFamily::key_rows,
                                               &MemoryFamily::ffn_rows,
                                               &MemoryFamily::norm_row_bytes,
                                               &MemoryFamily::probability_bytes,
                                               &MemoryFamily::logits_bytes,
                                               &MemoryFamily::working_layers,
                                               &MemoryFamily::allocator_bytes,
                                               &MemoryFamily::bucket_bytes,
                                               &MemoryFamily::step_gather_bytes,
                                               &MemoryFamily::tp_buffer_rows,
                                               &MemoryFamily::tp_retained_rows};
  for (const auto constant : constants) {
    const double drawn = random.between(1 - by, 1 + by);
    const double factor = seed == 0 ? 1 - by : seed == 1 ? 1 + by : drawn;
    c.family.memory.*constant *= factor;
    c.family.least.*constant *= factor;
  }
}

/// As if every estimate were off by one factor: a device of another size.
void perturb_device(Case& c, Random& random, std::uint64_t seed) {
  constexpr double by = 0.15;
  const double drawn = random.between(1 - by, 1 + by);
  const double factor = seed == 0 ? 1 - by : seed == 1 ? 1 + by : drawn;
  c.cluster.memory_bytes =
      static_cast<std::int64_t>(factor * static_cast<double>(c.cluster.memory_bytes));
}

/// The cluster file says a quarter of what some links carry.
void perturb_links(Case& c, Random& random, std::uint64_t seed) {
  const std::array<double*, 3> links{&c.cluster.intra_node_bandwidth,
                                     &c.cluster.inter_node_bandwidth,
                                     &c.cluster.inter_node_group_bandwidth};
  for (auto* link : links) {
    if (random.one_in(0.5) || seed == 0) *link /= 4;
  }
}

void perturb_kernel(Case& c, Random& random, std::uint64_t seed) {
  const std::array<double*, 3> rates{
      &c.cluster.gemm_efficiency, &c.cluster.attention_efficiency, &c.cluster.memory_bandwidth};
  constexpr double by = 0.3;
  const bool slower = random.one_in(0.5);
  *rates.at(seed % rates.size()) *= slower ? 1 - by : 1 + by;
}

void crash_some(Case& c, Random& random, std::uint64_t) {
  for (auto& run : c.sweep.runs) {
    if (!random.one_in(0.1)) continue;
    run.outcome = Outcome::crashed;
    run.tokens_per_s_per_gpu.reset();
    run.peak_memory_bytes.reset();
  }
}

/// The column is not there: the point has what is usual.
void forget_zero(Case& c, Random&, std::uint64_t) {
  for (auto& run : c.sweep.runs) {
    run.unknown.zero = true;
    run.point.layout.zero = 0;
  }
}

void shuffle(RecordedSweep& sweep, Random& random) {
  for (std::size_t i = sweep.runs.size(); i > 1; --i) {
    const auto other = static_cast<std::size_t>(random.uniform() * static_cast<double>(i));
    std::swap(sweep.runs[i - 1], sweep.runs[other]);
  }
}

struct Kind {
  const char* name;
  Perturb perturb;
  bool leave_model_out = false;
};

constexpr std::array<Kind, 8> kinds{{{"as it is", leave_as_is},
                                     {"without this model's rows", leave_as_is, true},
                                     {"memory constants +-15 %", perturb_memory},
                                     {"all memory +-15 % of the GPU", perturb_device},
                                     {"links / 4", perturb_links},
                                     {"one kernel +-30 %", perturb_kernel},
                                     {"10 % crashes", crash_some},
                                     {"ZeRO unknown", forget_zero}}};

/// One seed, all cells.
struct Score {
  double runs = 0;         ///< to within 1 %, of the points of cells with a best
  double hours = 0;        ///< to within 1 %, of those cells' exhaustive GPU-hours
  double stop = 0;         ///< GPU-hours until its own stop, of all cells' exhaustive ones
  double regret = 0;       ///< at the stop, 95th percentile of cells
  double caught = 0;       ///< OOM rows never launched, of all
  double good_out = 0;     ///< rows
  double late = 0;         ///< runs to within 1 % of the worst cell
  double misled = 0;       ///< launches until the last OOM that was taken to fit, all cells
  double misled_most = 0;  ///< of the worst cell
};
constexpr std::size_t score_count = 9;
using ScoreMember = double Score::*;
constexpr std::array<ScoreMember, score_count> members{
    &Score::runs,     &Score::hours, &Score::stop,   &Score::regret,     &Score::caught,
    &Score::good_out, &Score::late,  &Score::misled, &Score::misled_most};

/// A cell and what happened in it.
struct Played {
  ReplayCell cell;
  ReplayedCell story;
};

/// How many were launched until the search had corrected itself: until the last OOM that it
/// had held likelier to fit than not.
std::int64_t launched_misled(const ReplayedCell& story) {
  std::int64_t count = 0;
  std::int64_t misled = 0;
  for (const auto& launch : story.launches) {
    ++count;
    if (launch.row.outcome == Outcome::oom && launch.fits > 0.5) misled = count;
  }
  return misled;
}

std::vector<Played> replayed(const Case& c, const SearchUntil& until) {
  SearchSettings search{.policy = SearchPolicy::best_first};
  search.until = until;
  auto report = replay(
      c.sweep, {.cluster = c.cluster, .family = &c.family, .search = search, .fit = c.fit});
  if (report) {
    std::vector<Played> played;
    for (std::size_t i = 0; i < report->cells.size(); ++i)
      played.push_back({report->cells[i], std::move(report->stories[i])});
    return played;
  }
  fmt::print(stderr, "{}\n", report.error().what);
  std::exit(1);
}

std::vector<Played> cells_of(Case c, const Kind& kind, const SearchUntil& until) {
  if (!kind.leave_model_out) return replayed(c, until);
  std::set<std::string> names;
  for (const auto& run : c.sweep.runs)
    names.insert(c.sweep.model_of(run).name);
  c.fit = ReplayFit::other_models;
  const auto family = c.family;
  std::vector<Played> cells;
  for (const auto& name : names) {
    c.family = refit_memory(c.sweep, c.cluster, family, name);
    for (auto& one : replayed(c, until)) {
      if (one.cell.model == name) cells.push_back(std::move(one));
    }
  }
  return cells;
}

double percentile_95(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[(values.size() * 95 + 99) / 100 - 1];
}

Score score_of(const Case& c, const Kind& kind) {
  Score score;
  double runs = 0;
  double points = 0;
  double hours = 0;
  double solvable_hours = 0;
  double oom_launched = 0;
  for (const auto& [cell, story] : cells_of(c, kind, {})) {
    const auto misled = static_cast<double>(launched_misled(story));
    score.misled += misled;
    score.misled_most = std::max(score.misled_most, misled);
    score.good_out += static_cast<double>(cell.good_left_out);
    oom_launched += static_cast<double>(cell.oom_launched);
    if (!cell.runs_to_1pct) continue;
    runs += static_cast<double>(*cell.runs_to_1pct);
    points += static_cast<double>(cell.points);
    hours += *cell.gpu_hours_to_1pct;
    solvable_hours += cell.exhaustive_gpu_hours;
    score.late = std::max(score.late, static_cast<double>(*cell.runs_to_1pct));
  }
  score.runs = runs / points;
  score.hours = hours / solvable_hours;
  const auto ooms = std::count_if(c.sweep.runs.begin(), c.sweep.runs.end(),
                                  [](const auto& run) { return run.outcome == Outcome::oom; });
  score.caught = 1 - oom_launched / static_cast<double>(ooms);
  double used = 0;
  double all = 0;
  std::vector<double> regrets;
  for (const auto& [cell, story] : cells_of(c, kind, {.regret = 0.01, .confidence = 0.95})) {
    used += cell.gpu_hours;
    all += cell.exhaustive_gpu_hours;
    if (cell.regret_at_stop) regrets.push_back(*cell.regret_at_stop);
  }
  score.stop = used / all;
  score.regret = percentile_95(std::move(regrets));
  return score;
}

void print_kind(const Kind& kind, const std::vector<Score>& scores) {
  Score mean;
  Score worst = scores.front();
  for (const auto& score : scores) {
    for (const auto member : members) {
      mean.*member += score.*member / static_cast<double>(scores.size());
      worst.*member = member == &Score::caught ? std::min(worst.*member, score.*member)
                                               : std::max(worst.*member, score.*member);
    }
  }
  fmt::print(
      "{:<29} {:>5.2f} {:>6.2f}   {:>5.2f} {:>6.2f}   {:>5.1f} {:>6.1f}   {:>5.2f} {:>6.2f}   "
      "{:>5.1f} {:>5.1f}   {:>4.1f} {:>4.0f}   {:>4.0f}   {:>5.1f} {:>5.0f} {:>5.0f}\n",
      kind.name, 100 * mean.runs, 100 * worst.runs, 100 * mean.hours, 100 * worst.hours,
      100 * mean.stop, 100 * worst.stop, 100 * mean.regret, 100 * worst.regret,
      100 * mean.caught, 100 * worst.caught, mean.good_out, worst.good_out, worst.late,
      mean.misled, worst.misled, worst.misled_most);
}

Result<Case> published(const std::string& folder, const std::string& presets) {
  Case c;
  SHARDSWEEP_ASSIGN(c.sweep,
                    read_recorded(folder + "/playbook_sweep_1b_9b_469b.csv",
                                  {.format = RecordedFormat::nanotron, .gpus_per_node = 8}));
  // One software state: rows before and after a fix of the pipeline can't be compared.
  SHARDSWEEP_TRY(
      keep_where(c.sweep,
                 "(pp = 1 OR software_version = 'after_pp_fix' OR outcome <> 'completed') "
                 "AND dp*micro_batch*grad_accum = 256"));
  SHARDSWEEP_ASSIGN(c.cluster, load_cluster("h100-8x", presets));
  SHARDSWEEP_ASSIGN(const auto* family, find_family("nanotron"));
  c.family = *family;
  return c;
}

}  // namespace

// Arguments: seeds (20); a part of a kind's name (all).
int main(int count, char** arguments) {
  const auto* folder = std::getenv("SHARDSWEEP_PUBLISHED_DATA");
  if (folder == nullptr) {
    fmt::print(stderr, "set SHARDSWEEP_PUBLISHED_DATA to the folder of the published tables\n");
    return 2;
  }
  const auto seeds = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 20;
  const std::string only = count > 2 ? arguments[2] : "";
  const auto base = published(folder, SHARDSWEEP_SOURCE_DIR "/sweeps");
  if (!base) {
    fmt::print(stderr, "{}\n", base.error().what);
    return 1;
  }
  fmt::print(
      "                              runs to 1 %    hours to 1 %   hours to stop  regret at "
      "stop  OOM caught    good out  runs  launched misled\n"
      "what the planner does not know  mean  worst    mean  worst    mean  worst    mean  "
      "worst    mean worst   mean  max   max   mean worst  cell\n");
  for (const auto& kind : kinds) {
    if (std::string(kind.name).find(only) == std::string::npos) continue;
    std::vector<Score> scores;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      auto c = *base;
      Random random(seed);
      kind.perturb(c, random, seed);
      if (seed > 0) shuffle(c.sweep, random);
      scores.push_back(score_of(c, kind));
    }
    print_kind(kind, scores);
  }
  return 0;
}
