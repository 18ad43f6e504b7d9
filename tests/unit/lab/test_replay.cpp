// SPDX-License-Identifier: Apache-2.0
#include "predict/rates.hpp"
#include "tools/lab/replay.hpp"
#include "unit/search/simulated_machine.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

struct Made {
  int nodes = 1;
  int tp = 1;
  int pp = 1;
  int micro_batch = 1;
  Outcome outcome = Outcome::completed;
  double speed = 0;
  int zero = 1;
};

/// A table of llama-3-8b with a global batch of 256 samples.
RecordedSweep table_of(const std::vector<Made>& rows) {
  RecordedSweep sweep;
  sweep.file = "made.csv";
  sweep.models.push_back(llama3_8b());
  for (const auto& made : rows) {
    RecordedRun run;
    auto& point = run.point;
    point.nodes = run.nodes = made.nodes;
    point.gpus = 8 * made.nodes;
    point.seq_len = 4096;
    point.layout.tp = made.tp;
    point.layout.pp = made.pp;
    point.layout.dp = point.gpus / made.tp / made.pp;
    point.layout.micro_batch = made.micro_batch;
    point.layout.grad_accum = 256 / point.layout.dp / made.micro_batch;
    point.layout.zero = made.zero;
    point.layout.sequence_parallel = made.tp > 1;
    run.outcome = made.outcome;
    if (made.speed > 0) run.tokens_per_s_per_gpu = made.speed;
    run.line = static_cast<int>(sweep.runs.size()) + 2;
    sweep.runs.push_back(std::move(run));
  }
  return sweep;
}

ReplayReport replayed(const std::vector<Made>& rows, const SearchSettings& search) {
  const auto report = replay(
      table_of(rows), {.cluster = h100(), .family = *find_family("nanotron"), .search = search});
  if (!report) FAIL(report.error().what);
  return *report;
}

constexpr auto oom = Outcome::oom;
constexpr auto crashed = Outcome::crashed;

const std::vector<Made> one_cell{
    {1, 2, 2, 1, Outcome::completed, 8900},
    {1, 2, 2, 2, Outcome::completed, 9950},
    {1, 4, 2, 1, Outcome::completed, 8000},
    {1, 4, 2, 2, Outcome::completed, 10000},
    {1, 4, 2, 4, oom, 0},
    {1, 4, 2, 8, oom, 0},
    {1, 8, 1, 1, Outcome::completed, 5000},
    {1, 1, 8, 1, crashed, 0},
};

}  // namespace

TEST_CASE("a pipeline that its micro-batches do not fill is no worse than it measures") {
  struct Row {
    int tp;
    int pp;
    double speed;
  };
  RecordedSweep sweep;
  sweep.file = "late.csv";
  auto& model = sweep.models.emplace_back();
  model.name = "made";
  model.layers = 24;
  model.hidden = 1024;
  model.heads = model.kv_heads = 16;
  model.ffn = 4096;
  model.vocab = 51200;
  for (const auto& [tp, pp, speed] : {Row{2, 2, 4000}, Row{4, 1, 3000}, Row{1, 4, 4800}}) {
    RecordedRun run;
    auto& point = run.point;
    point.nodes = run.nodes = 1;
    point.gpus = 4;
    point.seq_len = 1024;
    point.layout = {.tp = tp, .pp = pp, .grad_accum = 2, .recompute = Recompute::full};
    run.outcome = Outcome::completed;
    run.tokens_per_s_per_gpu = speed;
    run.line = static_cast<int>(sweep.runs.size()) + 2;
    sweep.runs.push_back(std::move(run));
  }
  SearchSettings search{.policy = SearchPolicy::best_first};
  search.until = {.regret = 0.01, .confidence = 0.95};
  const auto report =
      replay(sweep, {.cluster = h100(), .family = *find_family("megatron"), .search = search});
  REQUIRE(report.has_value());
  CHECK(report->cells.front().regret_at_stop == 0);
}

TEST_CASE("an exhaustive replay launches each row that a rule does not leave out") {
  const auto report = replayed(one_cell, {});
  REQUIRE(report.cells.size() == 1);
  const auto& cell = report.cells.front();
  CHECK(cell.model == "llama-3-8b");
  CHECK(cell.seq_len == 4096);
  CHECK(cell.nodes == 1);
  CHECK(cell.points == 8);
  CHECK(cell.completed == 5);
  // The micro-batch of 8 follows that of 4 in its lane, which ran out of memory.
  CHECK(cell.launched == 7);
  CHECK(cell.oom_launched == 1);
  CHECK(cell.left_out == 1);
  CHECK(cell.good_left_out == 0);
  CHECK(cell.regret_at_stop == 0);
  CHECK(*cell.runs_to_1pct <= *cell.runs_to_best);
}

TEST_CASE("finals of short runs count with what is near the fastest") {
  ReplayOptions options{.cluster = h100(), .family = *find_family("nanotron"), .first = 3};
  const auto hours = [&] { return replay(table_of(one_cell), options)->cells[0].gpu_hours; };
  const double with = hours();
  options.finalists = 0;
  double finals = 0;
  for (const double speed : {10000.0, 9950.0})  // the third has 8900
    finals += (options.start_s + options.steps * 256.0 * 4096 / (8 * speed)) * 8 / 3600;
  CHECK(with - hours() == doctest::Approx(finals));
}

TEST_CASE("the rule about larger micro-batches can be switched off") {
  for (const auto policy : {SearchPolicy::exhaustive, SearchPolicy::best_first}) {
    SearchSettings search{.policy = policy};
    search.rules.micro_batch = false;
    search.rules.memory = false;  // it says the same of a best-first search's
    const auto cell = replayed(one_cell, search).cells.front();
    CHECK(cell.launched == 8);
    CHECK(cell.oom_launched == 2);
    search.rules.micro_batch = true;
    CHECK(replayed(one_cell, search).cells.front().launched <= 8);
  }
}

TEST_CASE("after an OOM what needs as much whatever the trainer does is not launched") {
  // The same without ZeRO, and with larger micro-batches; the last is no such one.
  const std::vector<Made> rows{{1, 4, 2, 4, oom, 0}, {1, 4, 2, 4, oom, 0, 0},
      {1, 4, 2, 8, oom, 0, 0}, {1, 8, 1, 1, Outcome::completed, 5000}};
  SearchSettings search{.policy = SearchPolicy::best_first};
  const auto cell = replayed(rows, search).cells.front();
  search.rules.memory = false;
  const auto without = replayed(rows, search).cells.front();
  CHECK(cell.oom_launched == 1);
  CHECK(cell.left_out == 2);
  CHECK(cell.spared == 0);
  CHECK(cell.good_left_out == 0);
  CHECK(without.oom_launched >= cell.oom_launched);
}

TEST_CASE("a good row that a rule leaves out is counted") {
  auto rows = one_cell;
  rows[5] = {1, 4, 2, 8, Outcome::completed, 7000};
  const auto cell = replayed(rows, {}).cells.front();
  CHECK(cell.launched == 7);
  CHECK(cell.good_left_out == 1);
  SearchSettings search;
  search.rules.micro_batch = false;
  CHECK(replayed(rows, search).cells.front().good_left_out == 0);
}

TEST_CASE("a row that ended in spite of an OOM is neither good nor bad where it is left out") {
  auto rows = one_cell;
  rows[5] = {1, 4, 2, 8, Outcome::completed, 7000};
  auto sweep = table_of(rows);
  sweep.runs[5].oom_error = true;
  const auto report =
      replay(sweep, {.cluster = h100(), .family = *find_family("nanotron"), .search = {}});
  REQUIRE(report);
  CHECK(report->cells.front().launched == 7);
  CHECK(report->cells.front().good_left_out == 0);
}

TEST_CASE("an OOM says nothing of a row where it is unknown what both needed") {
  // ZeRO 0 and 3 of one layout, of a table that does not say which.
  auto sweep = table_of({{1, 2, 1, 1, oom, 0}, {1, 2, 1, 2, Outcome::completed, 7000}});
  for (auto& run : sweep.runs)
    run.unknown.zero = true;
  for (const auto policy : {SearchPolicy::exhaustive, SearchPolicy::best_first}) {
    const auto report = replay(sweep,
        {.cluster = h100(), .family = *find_family("nanotron"), .search = {.policy = policy}});
    REQUIRE(report);
    CHECK(report->cells.front().launched == 2);
    CHECK(report->cells.front().good_left_out == 0);
  }
}

TEST_CASE("of rows that look alike none says what the others need") {
  // Two kernels, of a table that has no column for them: one ran out of memory, twice.
  const std::vector<Made> rows{{1, 2, 1, 1, oom, 0}, {1, 2, 1, 1, Outcome::completed, 7000},
      {1, 2, 1, 2, oom, 0}, {1, 2, 1, 2, Outcome::completed, 7500}};
  auto told = table_of(rows);
  for (auto& run : told.runs)
    run.kernel = run.outcome == oom ? "torch" : "flash_attn2";
  for (const auto policy : {SearchPolicy::exhaustive, SearchPolicy::best_first}) {
    const SearchSettings search{.policy = policy};
    CHECK(replayed(rows, search).cells.front().good_left_out == 0);
    const auto report =
        replay(told, {.cluster = h100(), .family = *find_family("nanotron"), .search = search});
    REQUIRE(report);
    CHECK(report->cells.front().good_left_out == 0);
    // With its name, what has run out of memory says so of larger micro-batches.
    CHECK(report->cells.front().left_out == 1);
  }
}

TEST_CASE("runs are counted as they are launched and regret where it stops") {
  SearchSettings search{.policy = SearchPolicy::best_first};
  search.until.runs = 1;
  const auto cell = replayed(one_cell, search).cells.front();
  CHECK(cell.launched == 1);
  CHECK(cell.spared == 7);
  CHECK(cell.good_left_out == 0);
  CHECK(*cell.regret_at_stop == doctest::Approx(1 - cell.first_choice));
  CHECK(cell.gpu_hours < cell.exhaustive_gpu_hours);
}

TEST_CASE("GPU-hours are counted until a run was within 1 % of the best and until the stop") {
  SearchSettings search{.policy = SearchPolicy::best_first};
  search.until.runs = 1;
  const ReplayOptions options{
      .cluster = h100(), .family = *find_family("nanotron"), .search = search};
  const std::vector<Made> rows{{1, 4, 2, 1, Outcome::completed, 8000}};
  const auto cell = replay(table_of(rows), options)->cells.front();
  // 60 s, and 13 train steps of a million tokens at 64,000 tokens/s, on 8 GPUs.
  const double step_s = 256.0 * 4096 / (8 * 8000);
  CHECK(*cell.gpu_hours_to_1pct == doctest::Approx((60 + 13 * step_s) * 8 / 3600));
  CHECK(cell.gpu_hours == *cell.gpu_hours_to_1pct);
}

TEST_CASE("an OOM costs what the sweep says that it costs") {
  ReplayOptions options{.cluster = h100(), .family = *find_family("nanotron"), .search = {}};
  options.start_s = 10;
  options.oom_s = 100;
  const auto cells =
      replay(table_of({{1, 4, 2, 4, oom, 0}, {1, 1, 8, 1, crashed, 0}}), options)->cells.front();
  CHECK(cells.gpu_hours == doctest::Approx((100 + 10) * 8.0 / 3600));
}

TEST_CASE("a cell without a completed row has no best to be compared with") {
  const auto cell =
      replayed({{1, 4, 2, 1, oom, 0}, {1, 4, 2, 2, oom, 0}, {1, 1, 8, 1, crashed, 0}}, {})
          .cells.front();
  CHECK_FALSE(cell.runs_to_1pct);
  CHECK_FALSE(cell.runs_to_best);
  CHECK_FALSE(cell.regret_at_stop);
  CHECK(cell.first_choice == 0);
  CHECK(cell.launched == 2);
}

TEST_CASE("what can never fit is not launched and cells are by model and nodes") {
  // 8 billion parameters with 18 bytes each on 8 GPUs are 18 GB a GPU; on one they are 145 GB.
  const auto report = replayed({{1, 1, 1, 1, oom, 0, 0}, {1, 4, 2, 1, Outcome::completed, 8000},
                                   {2, 4, 4, 1, Outcome::completed, 7000}},
      {.policy = SearchPolicy::best_first});
  REQUIRE(report.cells.size() == 2);
  CHECK(report.cells[0].nodes == 1);
  CHECK(report.cells[0].launched == 1);
  CHECK(report.cells[0].oom_launched == 0);
  CHECK(report.cells[0].left_out == 1);
  CHECK(report.cells[0].first_choice == 1);
  CHECK(report.cells[1].nodes == 2);
  CHECK(report.cells[1].runs_to_best == 1);
}

TEST_CASE("with few micro-batches for its stages a layout comes last") {
  // grad_accum is 1 on 64 stages' worth of ranks: dp 16, pp 4, micro_batch 16.
  std::vector<Made> rows{{8, 1, 4, 16, crashed, 0}, {8, 8, 4, 1, Outcome::completed, 10}};
  const auto cell = replayed(rows, {.policy = SearchPolicy::best_first}).cells.front();
  CHECK(cell.first_choice == 1);
}

TEST_CASE("a table of other nodes than the cluster's is refused") {
  auto sweep = table_of(one_cell);
  sweep.runs[2].nodes = 2;
  const auto report =
      replay(sweep, {.cluster = h100(), .family = *find_family("nanotron"), .search = {}});
  REQUIRE_FALSE(report);
  CHECK(
      report.error().what == "made.csv:4: 8 GPUs on 2 nodes, but cluster 'h100-8x' has 8 per node");
}

TEST_CASE("the same table gives the same replay") {
  const SearchSettings search{.policy = SearchPolicy::best_first, .learn_across = true};
  const auto one = replayed(one_cell, search).cells.front();
  const auto two = replayed(one_cell, search).cells.front();
  CHECK(one.runs_to_best == two.runs_to_best);
  CHECK(one.gpu_hours == two.gpu_hours);
}

TEST_CASE("what is spared, opened again and spared once more counts once") {
  SearchSettings settings{.policy = SearchPolicy::best_first};
  settings.until = {.regret = 0.05, .confidence = 0.9};
  // Their cells are opened again.
  for (const std::uint64_t seed : {10U, 15U, 29U}) {
    CAPTURE(seed);
    const auto machine = simulated_machine(seed, {.structure = 0.4, .noise = 0.1});
    RecordedSweep sweep;
    sweep.file = "made.csv";
    sweep.models.push_back(machine.runs.front().point.model);
    for (const auto& simulated : machine.runs) {
      auto& run = sweep.runs.emplace_back();
      run.point = simulated.point.point;
      run.nodes = 1;
      run.outcome = simulated.speed > 0 ? Outcome::completed : oom;
      if (simulated.speed > 0) run.tokens_per_s_per_gpu = simulated.measured;
      run.line = static_cast<int>(sweep.runs.size()) + 1;
    }
    const auto report =
        replay(sweep, {.cluster = machine.cluster, .family = machine.family, .search = settings});
    REQUIRE(report);
    const auto& cell = report->cells.front();
    CHECK(cell.left_out >= 0);
    CHECK(cell.launched + cell.spared <= cell.points);
  }
}

TEST_CASE("a replay cuts short what is slower than the best by the factor, and bills two steps") {
  const std::vector<Made> rows{{1, 4, 2, 2, Outcome::completed, 10000},
      {1, 2, 2, 2, Outcome::completed, 9950}, {1, 8, 1, 1, Outcome::completed, 5000},
      {1, 4, 1, 1, Outcome::completed, 4000}};
  SearchSettings search{.policy = SearchPolicy::best_first};
  const auto cell = replayed(rows, search).cells.front();
  search.cut_short = 0;
  const auto whole = replayed(rows, search).cells.front();
  CHECK(whole.cut_short == 0);
  CHECK(whole.gpu_hours == doctest::Approx(whole.exhaustive_gpu_hours));
  REQUIRE(cell.cut_short > 0);
  CHECK(cell.launched == 4);
  CHECK(cell.regret_at_stop == 0);
  // 8 of 13 steps are not run; of 33 s, and more than twice the bound, 11.
  const auto saved = [](double steps, double speed) { return steps * 256 * 4096 / speed / 3600; };
  const double most = saved(8, 5000) + saved(11, 4000);
  CHECK(whole.gpu_hours - cell.gpu_hours == doctest::Approx(most));
}

TEST_CASE("an exhaustive replay cuts nothing short") {
  CHECK(replayed(one_cell, {}).cells.front().cut_short == 0);
}

TEST_CASE("a replay tells each launch with its reason, and what was left out with its rule") {
  SearchSettings search{.policy = SearchPolicy::best_first};
  search.until.runs = 2;
  const auto report = replayed(one_cell, search);
  REQUIRE(report.stories.size() == 1);
  const auto& story = report.stories.front();
  REQUIRE(story.launches.size() == 2);
  CHECK(story.launches[0].why == "No layout of the cell has been measured yet.");
  for (const auto& launch : story.launches) {
    CHECK(launch.predicted_tokens_per_s_per_gpu > 0);
    CHECK(launch.fits > 0);
    CHECK(launch.row.line >= 2);
    CHECK(launch.row.gpu_hours > 0);
  }
  REQUIRE(story.left_out.size() == 6);
  for (const auto& left : story.left_out) {
    CHECK(left.rule == "until");
    CHECK(left.why.find("search.until.runs") != std::string::npos);
  }
}

TEST_CASE("layouts of two shapes under one name do not compete") {
  auto sweep = table_of(one_cell);
  auto wider = llama3_8b();
  wider.kv_heads = 32;
  sweep.models.push_back(wider);
  auto slow = table_of({{1, 2, 2, 1, Outcome::completed, 900}}).runs;
  slow.front().point.model = 1;
  slow.front().kernel = "flash_attn2";
  sweep.runs.push_back(slow.front());
  const auto report =
      replay(sweep, {.cluster = h100(), .family = *find_family("nanotron"), .search = {}});
  REQUIRE(report);
  REQUIRE(report->cells.size() == 2);
  CHECK(report->cells[0].model == llama3_8b().name + " (kv_heads 8)");
  CHECK(report->cells[0].points == 8);
  CHECK(report->cells[1].model == llama3_8b().name + " (kv_heads 32)");
  CHECK(report->cells[1].runs_to_best == 1);
  CHECK(report->cells[1].regret_at_stop == 0);
  CHECK(report->stories[1].launches.front().row.kernel == "flash_attn2");
}

TEST_CASE("a replay fits the time model to rows of other models, of other cells, or of all") {
  // One model, ten times as slow as predicted on two nodes, and as predicted on one.
  std::vector<Made> rows = one_cell;
  for (const int tp : {2, 4, 8})
    rows.push_back({2, tp, 1, 1, Outcome::completed, 900});
  const auto first_prediction = [&](ReplayFit fit) {
    const SearchSettings search{.policy = SearchPolicy::best_first, .learn_across = false};
    const auto report = replay(table_of(rows),
        {.cluster = h100(), .family = *find_family("nanotron"), .search = search, .fit = fit});
    REQUIRE(report);
    return report->stories.front().launches.front().predicted_tokens_per_s_per_gpu;
  };
  const double cold = first_prediction(ReplayFit::none);
  CHECK(first_prediction(ReplayFit::other_models) == cold);
  CHECK(first_prediction(ReplayFit::other_cells) < 0.8 * cold);
  // The cell's own rows are among them, and are no surprise.
  CHECK(first_prediction(ReplayFit::all_models) > first_prediction(ReplayFit::other_cells));
}
