// SPDX-License-Identifier: Apache-2.0
#include "unit/store/support.hpp"

#include "sweep/identity.hpp"

#include <fmt/format.h>

namespace shardsweep::testing {

namespace {

/// Every combination, micro-batch by micro-batch and repeat by repeat.
std::vector<Point> points_of(const Grid& grid) {
  std::vector<Point> points;
  Point point;
  point.nodes = 0;
  point.seq_len = 128;
  const auto vars = grid.vars.empty() ? std::vector<std::int32_t>{-1} : grid.vars;
  const auto add_repeats = [&] {
    for (point.repeat = 1; point.repeat <= grid.repeats; ++point.repeat) {
      for (const auto var : vars) {
        if (var >= 0) point.vars = {var};
        points.push_back(point);
      }
    }
  };
  for (point.model = 0; point.model < 2; ++point.model) {
    for (const auto gpus : grid.gpus) {
      point.gpus = point.layout.dp = gpus;
      for (const auto micro_batch : grid.micro_batch) {
        point.layout.micro_batch = micro_batch;
        add_repeats();
      }
    }
  }
  return points;
}

/// The first point, split in ways that its heads don't allow.
std::vector<LeftOut> left_out_of(const Grid& grid, Point point) {
  std::vector<LeftOut> points;
  for (std::int32_t i = 0; i < grid.left_out; ++i) {
    point.layout.tp = 3 + i;
    point.gpus = 8;
    points.push_back({point, {false, "heads", fmt::format("tp {} splits heads", 3 + i)}});
  }
  return points;
}

}  // namespace

SweepFile::SweepFile(const Grid& grid) {
  sweep.name = grid.name;
  sweep.cluster.name = grid.cluster;
  sweep.cluster.gpus_per_node = 8;
  for (const auto* name : {"tiny", "small"}) {
    ModelSpec model;
    model.name = name;
    model.layers = sweep.models.empty() ? 2 : 4;
    model.hidden = 64;
    model.ffn = 128;
    model.heads = model.kv_heads = 4;
    model.vocab = 256;
    sweep.models.push_back(model);
  }
  if (!grid.vars.empty()) sweep.vars.push_back({"nvls", {"0", "1", "0.50", "it's"}});
  sweep.measure.repeats = grid.repeats;
  capabilities.runner = grid.runner;
  capabilities.version = grid.runner_version;
  const auto points = points_of(grid);
  for (const auto& point : points)
    plan.trials.push_back({point, {1 << 20, 0.1, 2.0, 100.0 * point.gpus}, 0});
  plan.left_out = left_out_of(grid, points.front());
  plan.left_out_by_constraint["heads"] = grid.left_out;
  plan.points = static_cast<std::int64_t>(plan.trials.size() + plan.left_out.size());
}

SubmittedSweep SweepFile::submitted() const {
  return {&sweep, &plan, &capabilities, "name: " + sweep.name + "\n", "resolved\n", "hash",
      Backend::local};
}

TrialNames SweepFile::names(const Point& point) const {
  return {identity(sweep, capabilities, point), slug(sweep, capabilities, point),
      lane_key(sweep, capabilities, point)};
}

void SweepFile::write(const std::filesystem::path& file) const {
  must(write_inbox(file, submitted(), [&](const Point& point) { return names(point); }));
}

SetTrial set_trial(TrialId id, State state, std::optional<Outcome> outcome, std::string cause,
    std::int32_t attempts) {
  SetTrial set{{.id = id}};
  set.row.state = state;
  set.row.outcome = outcome;
  set.row.cause = std::move(cause);
  set.row.attempts = attempts;
  return set;
}

Daemon::Daemon(const std::filesystem::path& file) : store(must(Store::open(file))) {
  LeaseHolder holder;
  holder.host = "login1";
  holder.pid = ::getpid();
  holder.since = holder.renewed = now;
  must(store->take_lease(holder));
}

SubmitReport Daemon::submit(const std::filesystem::path& inbox, std::int64_t rows) {
  while (true) {
    auto progress = must(store->accept_inbox(inbox, ++now, rows));
    if (progress.done) return progress.report;
  }
}

SubmitReport Daemon::submit(const TempDir& dir, const Grid& grid) {
  const auto inbox = dir / fmt::format("inbox-{}-{}", ::getpid(), ++inboxes_);
  SweepFile(grid).write(inbox);
  return submit(inbox);
}

AttemptId Daemon::run(TrialId trial, Outcome outcome, double tokens_per_s_per_gpu, Mark mark) {
  const auto world = must(store->load_world());
  PutAllocation allocation;
  if (allocation_ == 0) allocation_ = world.next_allocation;
  allocation.row.id = allocation_;
  allocation.row.token = fmt::format("token{}", allocation_);
  allocation.row.job_id = fmt::format("{}", 4000 + allocation_);
  allocation.row.backend = Backend::local;
  allocation.row.state = State::running;
  PutAttempt attempt;
  const std::int32_t number = ++attempts_[trial];
  attempt.row = {world.next_attempt, trial, number, allocation_, {}, "/dir", State::ended, false};
  attempt.row.nonce = fmt::format("nonce{}", attempt.row.id);
  attempt.row.ending = {.outcome = outcome};
  attempt.row.counted = outcome == Outcome::completed;
  attempt.row.started_at = now;
  now += 4'000'000;
  attempt.row.ended_at = now;
  attempt.row.ending->cause = "seen";
  const SetTrial set = set_trial(trial, State::ended, outcome, "seen", number);
  std::vector<Change> changes{allocation, attempt, set};
  if (outcome == Outcome::completed) {
    AddMeasurement measurement;
    measurement.attempt = attempt.row.id;
    measurement.trial = trial;
    measurement.metrics = {{"tokens_per_s_per_gpu", tokens_per_s_per_gpu}, {"train_step_ms", 12.5},
        {"peak_memory_bytes", 3.0 * (1 << 20)}};
    measurement.runner_version = "1.0";
    measurement.cut_short = mark == Mark::cut_short;
    if (!measurement.cut_short) measurement.mark = mark;
    measurement.samples = {{1, 12.0, 5.5}, {2, 13.0, 5.25}};
    changes.emplace_back(measurement);
  }
  changes.emplace_back(AddEvent{
      now, 0, trial, attempt.row.id, allocation_, EventKind::finding, std::string(name(outcome))});
  commit(changes);
  return attempt.row.id;
}

TrialId Daemon::trial(const std::string& where) {
  const auto rows = must(store->select_trials({}, where)).trials;
  REQUIRE(rows.size() == 1);
  return rows.front().id;
}

std::string rows_of(const Table& table) {
  std::string text;
  for (const auto& row : table.rows) {
    std::string line;
    for (const auto& value : row) {
      if (!line.empty()) line += '|';
      if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        line += fmt::format("{}", *integer);
      } else if (const auto* real = std::get_if<double>(&value)) {
        line += fmt::format("{}", *real);
      } else if (const auto* words = std::get_if<std::string>(&value)) {
        line += *words;
      } else {
        line += "NULL";
      }
    }
    text += line + '\n';
  }
  return text;
}

std::string rows_of(const std::filesystem::path& database, const std::string& sql) {
  sqlite::Database connection(database, sqlite::OpenMode::existing, 1000);
  sqlite::Statement statement(connection, sql);
  auto row = statement.use();
  Table table;
  while (row.next()) {
    table.rows.emplace_back();
    for (int column = 0; column < statement.columns(); ++column)
      table.rows.back().push_back(row.value(column));
  }
  return rows_of(table);
}

}  // namespace shardsweep::testing
