// SPDX-License-Identifier: Apache-2.0
#include "unit/one_answer/random_database.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

namespace shardsweep::testing {
namespace {

Grid grid(std::string name, std::vector<std::int32_t> gpus, std::vector<std::int32_t> micro_batch,
    std::vector<std::int32_t> vars, std::int32_t repeats, std::string version = "1.0") {
  Grid one;
  one.name = std::move(name);
  one.cluster = "this-machine";
  one.gpus = std::move(gpus);
  one.micro_batch = std::move(micro_batch);
  one.vars = std::move(vars);
  one.repeats = repeats;
  one.runner_version = std::move(version);
  return one;
}

}  // namespace

const std::vector<Templates::Kind>& Templates::kinds() {
  static const std::vector<Kind> all{
      {"plain", {grid("a", {1, 2}, {1, 2, 4, 8}, {}, 1)}},
      {"repeats", {grid("a", {1, 2}, {1, 2, 4}, {}, 3)}},
      {"vars", {grid("a", {1, 2}, {1, 2}, {0, 1, 3}, 2)}},
      {"two sweeps", {grid("a", {1, 2}, {1, 2, 4}, {}, 1), grid("b", {2, 4}, {2, 4, 8}, {}, 2)}},
      {"two versions",
          {grid("a", {1, 2}, {1, 2, 4}, {}, 1), grid("b", {1, 2}, {1, 2, 4}, {}, 1, "1.1")}},
  };
  return all;
}

const std::filesystem::path& Templates::file(std::size_t kind) {
  auto& path = made_[kind];
  if (!path.empty()) return path;
  path = dir_ / fmt::format("template{}.db", kind);
  const TempDir inboxes;
  Daemon daemon(path);
  for (const Grid& sweep : kinds()[kind].sweeps)
    daemon.submit(inboxes, sweep);
  must(daemon.store->release_lease());
  return path;
}

RandomDatabase::RandomDatabase(Templates& templates, std::uint64_t seed) : random_(seed) {
  const auto kind = random_() % Templates::kinds().size();
  kind_ = Templates::kinds()[kind].name;
  file_ = templates.dir() / "random.db";
  for (const char* tail : {"", "-wal", "-shm"}) {
    auto old = file_;
    old += tail;
    std::filesystem::remove(old);
  }
  std::filesystem::copy_file(templates.file(kind), file_);
  constexpr std::array<double, 4> noises{0, 0.002, 0.02, 0.2};
  noise_ = noises.at(random_() % noises.size());
  open_ = chance(0.5) ? 0.1 : 0;
  programs_ = chance(0.4) ? 2 : 1;
  Daemon daemon(file_);
  for (const Grid& sweep : Templates::kinds()[kind].sweeps)
    sweeps_.push_back(sweep.name);
  for (std::size_t sweep = 1; sweep <= sweeps_.size(); ++sweep) {
    const auto id = static_cast<SweepId>(sweep);
    const auto trials = planned(id);
    run(daemon, trials);
    if (chance(0.5)) hold_finals(daemon, id, trials);
    if (chance(0.3)) measure_again(daemon, id, trials);
  }
}

bool RandomDatabase::chance(double share) {
  return std::uniform_real_distribution<double>()(random_) < share;
}

double RandomDatabase::around(double value, double share) {
  return value * (1 + share * (2 * std::uniform_real_distribution<double>()(random_) - 1));
}

std::vector<RandomDatabase::Planned> RandomDatabase::planned(SweepId sweep) {
  // A repeat has the speed of its layout.
  std::map<std::string, double> speeds;
  std::vector<Planned> trials;
  sqlite::Database database(file_, sqlite::OpenMode::existing, 1000);
  sqlite::Statement select(database,
      "SELECT id, model || '/' || gpus || '/' || vars, lane || '/' || micro_batch FROM trials "
      "WHERE sweep = ? AND final_of IS NULL ORDER BY id");
  auto row = select.use(sweep);
  while (row.next()) {
    auto [speed, fresh] = speeds.try_emplace(row.text(2), 0);
    // Some are equal: then the older one is before.
    if (fresh) speed->second = 1000 + 100 * static_cast<double>(random_() % 8);
    trials.push_back({row.integer(0), row.text(1), speed->second});
  }
  return trials;
}

std::vector<Change> RandomDatabase::ended(
    const Planned& trial, AllocationId allocation, AttemptId attempt) {
  const bool measured = chance(0.9);
  PutAttempt put;
  put.row = {attempt, trial.id, 1, allocation, {}, "/dir", State::ended, false};
  put.row.nonce = fmt::format("nonce{}", attempt);
  const Outcome outcome = measured ? Outcome::completed : Outcome::oom;
  put.row.ending = {.outcome = outcome, .cause = "seen"};
  put.row.counted = measured;
  put.row.started_at = now_ += 1'000'000;
  put.row.ended_at = now_ += 3'000'000;
  if (programs_ > 1 && chance(0.1)) put.row.code_hash = "other";
  std::vector<Change> changes{put, set_trial(trial.id, State::ended, outcome, "seen", 1)};
  if (!measured) return changes;
  AddMeasurement measurement;
  measurement.attempt = attempt;
  measurement.trial = trial.id;
  const double speed = noise_ > 0 ? around(trial.speed, noise_) : trial.speed;
  measurement.metrics = {{"tokens_per_s_per_gpu", speed}, {"train_step_ms", 1e6 / speed},
      {"peak_memory_bytes", 3.0 * (1 << 20)}};
  if (chance(0.5)) {
    measurement.metrics["train_step_ms_spread"] = std::abs(around(noise_, 1));
    measurement.metrics["steps"] = 5;
  }
  if (chance(0.2)) measurement.metrics["resolution"] = 0.01;
  if (chance(0.2)) measurement.metrics["sm_clock_mhz"] = chance(0.5) ? 1980 : 1500;
  measurement.runner_version = "1.0";
  measurement.cut_short = chance(0.05);
  if (!measurement.cut_short && chance(0.1))
    measurement.mark = chance(0.5) ? Mark::contaminated : Mark::implausible;
  if (chance(0.1)) measurement.settings = "NCCL_NVLS_ENABLE=0";
  changes.emplace_back(std::move(measurement));
  return changes;
}

void RandomDatabase::run(Daemon& daemon, const std::vector<Planned>& trials) {
  const auto world = must(daemon.store->load_world());
  PutAllocation allocation;
  allocation.row.id = world.next_allocation;
  allocation.row.token = fmt::format("token{}", allocation.row.id);
  allocation.row.job_id = fmt::format("{}", 4000 + allocation.row.id);
  allocation.row.backend = Backend::local;
  allocation.row.state = State::running;
  std::vector<Change> changes{allocation};
  AttemptId attempt = world.next_attempt;
  for (const Planned& trial : trials) {
    if (chance(open_)) continue;  // still to come
    for (Change& change : ended(trial, allocation.row.id, attempt++))
      changes.push_back(std::move(change));
  }
  daemon.commit(std::move(changes));
}

/// Of any layouts, whoever won: no answer knows of them.
void RandomDatabase::run_beside(Daemon& daemon, SweepId sweep, const std::vector<Planned>& trials) {
  std::vector<NewFinal> side;
  for (const Planned& one : trials) {
    const auto tool = chance(0.5) ? SideRun::profile : SideRun::memory;
    if (chance(0.2)) side.push_back({.of = one.id, .round = 0, .set = 0, .side = tool});
  }
  std::vector<Change> changes;
  for (const TrialRow& row : must(daemon.store->add_finals(sweep, side))) {
    if (chance(0.7))
      changes.emplace_back(
          set_trial(row.id, State::ended, chance(0.5) ? Outcome::completed : Outcome::oom));
  }
  daemon.commit(std::move(changes));
}

/// Trials among these with a speed that is ranked.
std::vector<RandomDatabase::Planned> RandomDatabase::measured_of(
    SweepId sweep, const std::vector<Planned>& trials) const {
  std::set<TrialId> measured;
  sqlite::Database database(file_, sqlite::OpenMode::existing, 1000);
  sqlite::Statement select(database,
      "SELECT id FROM trials WHERE sweep = ? AND counted_speed IS NOT "
      "NULL AND counted_mark IS NULL");
  auto row = select.use(sweep);
  while (row.next())
    measured.insert(row.integer(0));
  std::vector<Planned> found;
  std::copy_if(trials.begin(), trials.end(), std::back_inserter(found),
      [&](const Planned& one) { return measured.contains(one.id); });
  return found;
}

/// Adds runs of these trials' layouts, and runs them.
void RandomDatabase::run_more(Daemon& daemon, SweepId sweep, const std::vector<NewFinal>& more,
    const std::vector<Planned>& trials) {
  if (more.empty()) return;
  std::vector<Planned> runs;
  for (const TrialRow& row : must(daemon.store->add_finals(sweep, more))) {
    const auto layout = std::find_if(
        trials.begin(), trials.end(), [&](const Planned& one) { return one.id == row.final_of; });
    runs.push_back({row.id, layout->cell, layout->speed});
  }
  run(daemon, runs);
}

/// Holds finals in some cells, between two or three of their layouts, on one set of nodes or two.
void RandomDatabase::hold_finals(
    Daemon& daemon, SweepId sweep, const std::vector<Planned>& trials) {
  run_beside(daemon, sweep, trials);
  std::map<std::string, std::vector<Planned>> cells;
  for (const Planned& one : measured_of(sweep, trials))
    cells[one.cell].push_back(one);
  std::vector<NewFinal> finals;
  for (auto& [cell, layouts] : cells) {
    if (layouts.size() < 2 || chance(0.5)) continue;
    std::shuffle(layouts.begin(), layouts.end(), random_);
    layouts.resize(std::min<std::size_t>(layouts.size(), 2 + random_() % 2));
    const auto rounds = static_cast<std::int32_t>(1 + random_() % 8);
    const std::int32_t sets = chance(0.2) ? 2 : 1;
    for (const Planned& layout : layouts) {
      for (std::int32_t round = 1; round <= rounds; ++round) {
        const std::int32_t set = round * 2 > rounds ? sets : 1;
        finals.push_back({.of = layout.id,
            .round = round,
            .resolve = 0.01,
            .set = set,
            .sets = sets,
            .avoid = set > 1 ? "n1,n2" : ""});
      }
    }
  }
  run_more(daemon, sweep, finals, trials);
}

/// Some layouts, once or twice, perhaps after a change of the program and a slower machine.
void RandomDatabase::measure_again(
    Daemon& daemon, SweepId sweep, const std::vector<Planned>& trials) {
  auto again = measured_of(sweep, trials);
  std::shuffle(again.begin(), again.end(), random_);
  again.resize(std::min<std::size_t>(again.size(), 1 + random_() % 3));
  const std::int32_t times = chance(0.5) ? 2 : 1;
  const bool changed = chance(0.3);
  if (chance(0.3)) {
    for (Planned& one : again)
      one.speed *= 0.8;
  }
  for (std::int32_t time = 1; time <= times; ++time) {
    std::vector<NewFinal> runs;
    for (const Planned& one : again) {
      runs.push_back({.of = one.id, .again = time, .software = changed ? "abc" : ""});
      if (changed)
        runs.push_back({.of = one.id, .again = time, .software = "before", .before = true});
    }
    run_more(daemon, sweep, runs, again);
  }
}

}  // namespace shardsweep::testing
