// SPDX-License-Identifier: Apache-2.0
// The daemon on a Slurm where everything goes wrong at random. More of it:
// SHARDSWEEP_RANDOM_STEPS, and SHARDSWEEP_RANDOM_SEED for others. A failure is found again at
// once from its SHARDSWEEP_RANDOM_DATABASE on.
#include "unit/daemon/random_run.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <ostream>

using namespace shardsweep;
using shardsweep::testing::MortalStore;
using shardsweep::testing::RandomCounts;
using shardsweep::testing::RandomRun;
using shardsweep::testing::Violation;

namespace {

std::int64_t random_setting(const char* name, std::int64_t usual) {
  const char* text = std::getenv(name);
  return text == nullptr ? usual : std::atoll(text);
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
  const std::int64_t steps = random_setting("SHARDSWEEP_RANDOM_STEPS", 100'000);
  const std::int64_t seed = random_setting("SHARDSWEEP_RANDOM_SEED", 1);
  constexpr int sequences_per_database = 10;
  RandomCounts counts;
  const std::int64_t first = random_setting("SHARDSWEEP_RANDOM_DATABASE", 0);
  for (std::int64_t database = first; counts.steps < steps; ++database) {
    RandomRun run(static_cast<std::uint64_t>(seed * 1'000'003 + database));
    int sequence = 0;
    try {
      for (; sequence < sequences_per_database && counts.steps + run.counts().steps < steps;
           ++sequence)
        run.sequence();
    } catch (const Violation& violation) {
      FAIL(fmt::format("{} (seed {}, database {}, sequence {}, step {})\n{}\n{}",
                       violation.what(), seed, database, sequence, run.counts().steps,
                       run.state(), run.log_tail()));
    }
    counts += run.counts();
  }
  MESSAGE(
      fmt::format("{} steps, {:.0f} h of simulated time, {} deaths, {} jobs, {} attempts, "
                  "{} results, {} commits, {} looks",
                  counts.steps, counts.simulated_s / 3600, counts.deaths, counts.jobs,
                  counts.attempts, counts.results, counts.commits, counts.looks));
  CHECK(counts.deaths > steps / 100);
  CHECK(counts.results > steps / 100);
}

// Six mistakes, put between the daemon and what it works with: each has to be found.

TEST_CASE("a change that is forgotten is found") {
  expect_found([](RandomRun& run) {
    run.site.store.mistake_in_commit = [&run](std::span<const Change> changes) {
      std::vector<Change> kept(changes.begin(), changes.end());
      if (run.site.random() % 20 == 0)
        std::erase_if(kept, [](const Change& one) {
          return std::holds_alternative<PutAttempt>(one) &&
                 std::get<PutAttempt>(one).row.outcome;
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
