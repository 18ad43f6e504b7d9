// SPDX-License-Identifier: Apache-2.0
// The daemon on a Slurm where everything goes wrong at random: kept seeds first, then others,
// SHARDSWEEP_RANDOM_STEPS in all. SHARDSWEEP_RANDOM_SEED repeats one, and replays no others;
// `fresh` draws one.
#include "tools/lib/seeds.hpp"
#include "unit/daemon/random_run.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

using namespace shardsweep;
using shardsweep::testing::KeptSeed;
using shardsweep::testing::Marks;
using shardsweep::testing::MortalStore;
using shardsweep::testing::RandomCounts;
using shardsweep::testing::RandomRun;
using shardsweep::testing::Seeds;
using shardsweep::testing::setting;
using shardsweep::testing::Violation;

namespace {

constexpr int sequences_per_database = 10;

/// One database, as far as `steps` and `sequences` go.
RandomCounts counts_of(
    const Seeds& seeds, std::uint64_t seed, std::int64_t sequences, std::int64_t steps) {
  RandomRun run(seed);
  std::int64_t sequence = 0;
  try {
    for (; sequence < sequences && run.counts().steps < steps; ++sequence)
      run.sequence();
  } catch (const Violation& violation) {
    FAIL(fmt::format("{} (seed {}, sequence {}, step {})\n{}\n{}\n{}\n", violation.what(), seed,
        sequence, run.counts().steps, run.state(), run.log_tail(),
        seeds.advice(seed, sequence + 1, run.counts().steps)));
  }
  return run.counts();
}

/// Kinds that can't come up on the played site, and why.
struct NotHere {
  Marks::Kind kind;
  const char* why;
};
const std::vector<NotHere> not_here{
    {{"event", "submit"}, "the inbox writes it, beside commits: unit_store, test_inbox"},
    {{"event", "delete"}, "it goes with its sweep"},
    {{"event", "stop"}, "ends the loop around the passes: programs/e2e"},
    {{"event", "stopped"}, "a daemon that contradicts itself tells it: test_stops.cpp"},
    {{"event", "clear_node"}, "the node's own event tells it"},
    {{"event", "node probation"}, "begins with an allocation, whose event tells it"},
    {{"event", "remeasured"}, "needs a date to come: test_remeasure"},
    {{"event", "regressed"}, "the same"},
    {{"event", "still regressed"}, "the same"},
    {{"event", "node slow"}, "needs busy times of ranks: unit_fleet, test_stragglers"},
    {{"event", "look failed"}, "the daemon tells it as a trouble"},
    {{"event", "next"}, "what is handed out is told as started"},
    {{"event", "record"}, "of what is measured outside: unit_daemon, test_outside"},
    {{"change", "AddKnowledge"}, "unit_daemon, test_knowledge"},
    {{"change", "ForgetKnowledge"}, "the same"},
    {{"allocation's end", "completed"}, "no word of Slurm's says more than that it is over"},
    {{"allocation's end", "hung"}, "no word of Slurm's"},
    {{"allocation's end", "comm_error"}, "no word of Slurm's"},
    {{"allocation's end", "crashed"}, "no word of Slurm's"},
    {{"allocation's end", "rejected"}, "no word of Slurm's"},
    {{"allocation's end", "lost"}, "no word of Slurm's"},
    {{"allocation's end", "skipped"}, "no word of Slurm's"},
};

/// Why a kind can't come up; null: it can.
const char* excuse_of(const Marks::Kind& kind) {
  const auto found = std::find_if(not_here.begin(), not_here.end(), [&](const NotHere& one) {
    return one.kind.group == kind.group && one.kind.word == kind.word;
  });
  return found == not_here.end() ? nullptr : found->why;
}

bool lacks_a_kind(const Marks& marks) {
  const auto kinds = Marks::kinds();
  return std::any_of(kinds.begin(), kinds.end(), [&](const Marks::Kind& kind) {
    return excuse_of(kind) == nullptr && marks.count(kind) == 0;
  });
}

/// Which of them has never come up, or has no need of its excuse.
std::string wrong_kinds(const Marks& marks) {
  std::string wrong;
  for (const Marks::Kind& kind : Marks::kinds()) {
    const char* const excuse = excuse_of(kind);
    if (excuse == nullptr && marks.count(kind) == 0)
      wrong += fmt::format("{} {}: it has never come up\n", kind.group, kind.word);
    if (excuse != nullptr && marks.count(kind) > 0)
      wrong += fmt::format(
          "{} {}: it comes up, so that '{}' is no exception\n", kind.group, kind.word, excuse);
  }
  return wrong;
}

/// What is found against a daemon with a mistake in it, and after how many steps; empty:
/// nothing.
std::string found_with(const std::function<void(RandomRun&)>& put_mistake) {
  constexpr int databases = 20;
  std::int64_t steps = 0;
  for (int database = 0; database < databases; ++database) {
    RandomRun run(static_cast<std::uint64_t>(database));
    put_mistake(run);
    try {
      for (int sequence = 0; sequence < 5; ++sequence)
        run.sequence();
    } catch (const Violation& violation) {
      return fmt::format("{} (step {})", violation.what(), steps + run.counts().steps);
    }
    steps += run.counts().steps;
  }
  return "";
}

void expect_found(const std::function<void(RandomRun&)>& put_mistake) {
  const std::string found = found_with(put_mistake);
  MESSAGE(found);
  CHECK_FALSE(found.empty());
}

}  // namespace

TEST_CASE("whatever goes wrong everything is counted once and comes to its end") {
  constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
  const std::int64_t steps = setting("SHARDSWEEP_RANDOM_STEPS", 100'000);
  const Seeds seeds({.file = "random_slurm",
                        .test = "whatever goes wrong*",
                        .variable = "SHARDSWEEP_RANDOM_SEED",
                        .budget = "SHARDSWEEP_RANDOM_STEPS"},
      steps);
  RandomCounts counts;
  for (const KeptSeed& one : seeds.kept())
    counts += counts_of(seeds, one.seed, one.length, all);
  // Most of the budget is for what nobody has seen yet.
  CHECK_MESSAGE(counts.steps <= steps / 2, "kept seeds take over half of the steps: allow more");
  constexpr std::int64_t enough_for_all_kinds = 50'000;
  const bool all_kinds = steps >= enough_for_all_kinds;
  std::uint64_t seed = seeds.first();
  for (; counts.steps < steps; ++seed)
    counts += counts_of(seeds, seed, sequences_per_database, steps - counts.steps);
  // The rarest kinds come up five to ten times: one may be late, and hardly as late as this.
  for (; all_kinds && lacks_a_kind(counts.marks) && counts.steps < 2 * steps; ++seed)
    counts += counts_of(seeds, seed, sequences_per_database, 2 * steps - counts.steps);
  MESSAGE(
      fmt::format("{} steps, {} rounds of leads and node agents, {} kept seeds, {:.0f} h of "
                  "simulated time, {} deaths, {} jobs, "
                  "{} attempts, {} results, {} commits, {} looks, {} reads that failed",
          counts.steps, counts.rounds, seeds.kept().size(), counts.simulated_s / 3600,
          counts.deaths, counts.jobs, counts.attempts, counts.results, counts.commits, counts.looks,
          counts.failed_reads));
  if (!all_kinds) return;
  MESSAGE(counts.marks.text());
  const std::string wrong = wrong_kinds(counts.marks);
  CHECK_MESSAGE(wrong.empty(), wrong);
}

// Six mistakes, put between the daemon and what it works with: each has to be found.

TEST_CASE("a change that is forgotten is found") {
  expect_found([](RandomRun& run) {
    run.site.store.mistake_in_commit = [&run](std::span<const Change> changes) {
      std::vector<Change> kept(changes.begin(), changes.end());
      if (run.site.random() % 20 == 0)
        std::erase_if(kept, [](const Change& one) {
          return std::holds_alternative<PutAttempt>(one) && std::get<PutAttempt>(one).row.outcome();
        });
      return MortalStore::Tampered(std::move(kept));
    };
  });
}

TEST_CASE("a commit that is missing is found") {
  expect_found([](RandomRun& run) {
    run.site.store.mistake_in_commit = [&run](std::span<const Change> changes) {
      if (run.site.random() % 20 == 0) return MortalStore::Tampered();
      return MortalStore::Tampered(std::vector<Change>(changes.begin(), changes.end()));
    };
  });
}

TEST_CASE("a job that is submitted twice is found") {
  expect_found([](RandomRun& run) {
    run.site.slurm.mistake_in_submit = [&run](const AllocationRequest&) {
      return run.site.random() % 20 == 0 ? 2 : 1;
    };
  });
}

TEST_CASE("an answer that is lost is found") {
  expect_found([](RandomRun& run) {
    run.site.slurm.mistake_in_events = [](std::vector<SchedulerEvent>& events) {
      std::erase_if(events, [](const SchedulerEvent& event) {
        const auto* seen = std::get_if<JobSeen>(&event);
        return seen != nullptr && seen->state == JobState::ended;
      });
    };
  });
}

TEST_CASE("a wrong clock is found") {
  expect_found([](RandomRun& run) {
    run.site.store.mistake_in_commit = [&run](std::span<const Change> changes) {
      std::vector<Change> changed(changes.begin(), changes.end());
      for (Change& one : changed) {
        auto* attempt = std::get_if<PutAttempt>(&one);
        if (attempt != nullptr && attempt->row.ended_at != 0)
          attempt->row.ended_at = run.site.clock.time();
      }
      return MortalStore::Tampered(std::move(changed));
    };
  });
}

TEST_CASE("a stale flag is found") {
  expect_found([](RandomRun& run) {
    run.site.slurm.mistake_in_events = [](std::vector<SchedulerEvent>& events) {
      for (SchedulerEvent& event : events) {
        if (auto* seen = std::get_if<JobSeen>(&event)) seen->after_claim = true;
      }
    };
  });
}
