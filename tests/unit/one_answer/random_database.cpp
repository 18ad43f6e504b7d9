// SPDX-License-Identifier: Apache-2.0
#include "unit/one_answer/random_database.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

namespace shardsweep::testing {
namespace {

Grid grid(std::string name, std::vector<std::int32_t> gpus, std::vector<std::int32_t> micro_batch,
    std::vector<std::int32_t> vars, std::int32_t repeats, std::string version = "1.0") {
  Grid one;
  one.name = std::move(name);
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
  Daemon daemon(file_);
  for (const Grid& sweep : Templates::kinds()[kind].sweeps)
    sweeps_.push_back(sweep.name);
  for (std::size_t sweep = 1; sweep <= sweeps_.size(); ++sweep) {
    const auto id = static_cast<SweepId>(sweep);
    const auto trials = planned(id);
    run(daemon, trials);
    if (chance(0.5)) hold_finals(daemon, id, trials);
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
  if (chance(0.1)) put.row.code_hash = "other";
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
    if (chance(0.1)) continue;  // still to come
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

/// Of some cells, over two or three of what was planned, in which order and how often ever.
void RandomDatabase::hold_finals(
    Daemon& daemon, SweepId sweep, const std::vector<Planned>& trials) {
  std::set<TrialId> measured;
  {
    sqlite::Database database(file_, sqlite::OpenMode::existing, 1000);
    sqlite::Statement select(database,
        "SELECT id FROM trials WHERE sweep = ? AND counted_speed IS NOT "
        "NULL AND counted_mark IS NULL");
    auto row = select.use(sweep);
    while (row.next())
      measured.insert(row.integer(0));
  }
  run_beside(daemon, sweep, trials);
  std::map<std::string, std::vector<Planned>> cells;
  for (const Planned& one : trials) {
    if (measured.contains(one.id)) cells[one.cell].push_back(one);
  }
  std::vector<NewFinal> finals;
  std::map<TrialId, Planned> layout_of;
  for (auto& [cell, layouts] : cells) {
    if (layouts.size() < 2 || chance(0.5)) continue;
    std::shuffle(layouts.begin(), layouts.end(), random_);
    layouts.resize(std::min<std::size_t>(layouts.size(), 2 + random_() % 2));
    const auto rounds = static_cast<std::int32_t>(1 + random_() % 8);
    for (const Planned& layout : layouts) {
      layout_of[layout.id] = layout;
      for (std::int32_t round = 1; round <= rounds; ++round)
        finals.push_back({layout.id, round, 0.01});
    }
  }
  if (finals.empty()) return;
  std::vector<Planned> runs;
  for (const TrialRow& row : must(daemon.store->add_finals(sweep, finals))) {
    const Planned& layout = layout_of.at(row.final_of);
    runs.push_back({row.id, layout.cell, layout.speed});
  }
  run(daemon, runs);
}

}  // namespace shardsweep::testing
