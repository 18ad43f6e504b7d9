// SPDX-License-Identifier: Apache-2.0
// Measuring again on a played site: when it is due, what it costs, what is said, and that a
// death repeats neither a run nor a word.
#include "unit/daemon/daemon_case.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

using namespace shardsweep;
using shardsweep::testing::Case;
using shardsweep::testing::PlayedSweep;

namespace {

constexpr std::int64_t day = 86'400'000'000;

PlayedSweep daily(const std::string& more = "") {
  return {.settings = more + "remeasure: {every: 1d}\n",
      .site = "backend: slurm\nnotify: {url: 'https://hooks.example/x'}\n"};
}

/// The program is in a tree that git tracks; its snapshot of the first day is called "old".
PlayedSweep nightly() {
  return {.settings =
              "runner: {program: /bin/true, snapshot: git, snapshot_hash: old, "
              "snapshot_root: /bin}\n"
              "remeasure: {every: 1d, on: runner, layouts: best 1}\n",
      .site = "backend: slurm\nnotify: {url: 'https://hooks.example/x'}\n"};
}

/// All jobs to the daemon's end. `speed` by the slug of a trial.
void run_all(Case& c, const std::function<double(const std::string&)>& speed, bool dies = false) {
  for (int turns = 0; turns < 80 && (c.alive() || turns == 0); ++turns) {
    for (auto& job : c.slurm.jobs) {
      if (job.pends()) c.start_job(job);
      if (job.runs()) job.lead->hear(c.random, c.slurm.lead_time(job));
      while (job.runs() && job.lead->start_next(c.slurm.lead_time(job))) {
        c.clock.advance(10'000'000);
        if (!job.lead->runs()) continue;
        const auto slug =
            c.sql(fmt::format("SELECT t.slug FROM attempts AS a JOIN trials AS t ON t.id = a.trial "
                              "WHERE a.id = {}",
                job.lead->running()));
        const double fast = speed(slug);
        job.lead->end(Ended{.ending = {.outcome = fast > 0 ? Outcome::completed : Outcome::crashed,
                                .cause = "played",
                                .source = SaidBy::agent}},
            c.slurm.lead_time(job), fast);
      }
      if (job.runs() && job.lead->draining()) {
        job.lead->leave("drained", c.slurm.lead_time(job));
        c.slurm.finish(job, "COMPLETED");
      }
    }
    if (dies) c.die();
    c.start();
    c.pass(12);
  }
  CHECK_FALSE(c.alive());
}

/// Speeds that differ from run to run as they do.
double about(double speed) {
  static int count = 0;
  return speed * (1 + 0.001 * (count++ % 3));
}

std::vector<std::string> regressions(const Case& c) {
  std::vector<std::string> told;
  for (const Notice& notice : c.notices)
    if (notice.event == NotifyEvent::regression) told.push_back(notice.text);
  return told;
}

bool is_again(const std::string& slug) {
  return slug.find("-again") != std::string::npos;
}

}  // namespace

TEST_CASE("a date to come is no open work and status knows it") {
  Case c(daily());
  run_all(c, [](const std::string&) { return about(1000); });
  CHECK(c.count("trials") == 2);
  CHECK(c.status().remeasure_at > c.clock.now());
  CHECK(c.status().remeasure_at <= c.clock.now() + day);
  // A daemon that starts before the date finds nothing to do.
  run_all(c, [](const std::string&) { return about(1000); });
  CHECK(c.count("trials") == 2);
  CHECK(c.count("attempts") == 2);
}

TEST_CASE("what is due is measured once more and counts as a measurement") {
  Case c(daily());
  run_all(c, [](const std::string&) { return about(1000); });
  c.clock.advance(day);
  run_all(c, [](const std::string&) { return about(1000); });
  CHECK(c.count("trials WHERE again = 1 AND outcome = 'completed'") == 2);
  CHECK(c.count("attempts WHERE counted = 1") == 4);
  CHECK(c.count("results") == 4);
  CHECK(c.sql("SELECT remeasured FROM sweeps") == "1");
  CHECK(c.count("events WHERE kind = 'remeasured'") == 2);
  CHECK(regressions(c).empty());
  // It is no end of the sweep that anybody is told of.
  CHECK(std::count_if(c.notices.begin(), c.notices.end(),
            [](const Notice& notice) { return notice.event == NotifyEvent::sweep_ended; }) == 1);
}

TEST_CASE("a drop is said once after runs that confirm it, whoever dies") {
  for (const bool dies : {false, true}) {
    CAPTURE(dies);
    Case c(daily());
    run_all(c, [](const std::string&) { return about(1000); });
    const auto slow = [](const std::string& slug) {
      return about(is_again(slug) && slug.find("mb1") != std::string::npos ? 900 : 1000);
    };
    c.clock.advance(day);
    run_all(c, slow, dies);
    CHECK(c.count("events WHERE kind = 'regressed'") == 1);
    CHECK(c.count("trials WHERE again = 1") == 3 + 1);
    if (!dies) {
      REQUIRE(regressions(c).size() == 1);
      CHECK(regressions(c)[0].find("sweep 'a' became slower: ") == 0);
      CHECK(regressions(c)[0].find("3 runs now") != std::string::npos);
    }
    c.clock.advance(day);
    run_all(c, slow, dies);
    CHECK(c.sql("SELECT remeasured FROM sweeps") == "2");
    CHECK(c.count("events WHERE kind = 'regressed'") == 1);
    CHECK(c.count("attempts") == c.count("attempts WHERE counted = 1"));
  }
}

TEST_CASE("an image is measured again if its file is another one") {
  const std::string image = "/tmp/shardsweep-test-" + std::to_string(::getpid()) + ".sqsh";
  // Of a squashfs's superblock that tells images apart: the bytes from 8 on.
  const auto put_image = [&](char made) {
    std::ofstream(image, std::ios::binary) << "hsqs" + std::string(4, 'i') + std::string(88, made);
  };
  put_image('a');
  Case c({.settings = "container: {runtime: apptainer, image: " + image +
          "}\nremeasure: {every: 1d, on: image, layouts: best 1}\n",
      .site = "backend: slurm\nnotify: {url: 'https://hooks.example/x'}\n"});
  const auto speed = [](const std::string& slug) { return about(is_again(slug) ? 900 : 1000); };
  run_all(c, speed);
  c.clock.advance(day);
  run_all(c, speed);
  CHECK(c.count("trials WHERE again <> 0") == 0);
  put_image('b');
  c.clock.advance(day);
  run_all(c, speed);
  CHECK(c.count("trials WHERE again = 1") == 3);
  REQUIRE(regressions(c).size() == 1);
  CHECK(regressions(c)[0].find("image sqsh:62626262") != std::string::npos);
  CHECK(regressions(c)[0].find("in place of sqsh:61616161") != std::string::npos);
  c.clock.advance(day);
  run_all(c, speed);
  CHECK(c.count("trials WHERE again <> 0") == 3);
  // What can't be read is told, and measures nothing.
  std::filesystem::remove(image);
  c.clock.advance(day);
  run_all(c, speed);
  CHECK(c.count("trials WHERE again <> 0") == 3);
  const auto log =
      shardsweep::testing::must(read_file(c.home.database.parent_path() / "log", 1 << 20));
  CHECK(log.find("trouble: Sweep 'a' is not measured again: ") != std::string::npos);
  CHECK(log.find(image) != std::string::npos);
}

TEST_CASE("a program that has not changed is not measured again") {
  Case c(nightly());
  c.tree = "old";
  run_all(c, [](const std::string&) { return about(1000); });
  c.clock.advance(day);
  run_all(c, [](const std::string&) { return about(1000); });
  CHECK(c.count("trials WHERE again > 0") == 0);
  CHECK(c.status().remeasure_at > c.clock.now());
}

TEST_CASE("a changed program runs beside the one before in one allocation") {
  Case c(nightly());
  c.tree = "old";
  run_all(c, [](const std::string&) { return about(1000); });
  c.tree = "new";
  const auto slow = [](const std::string& slug) {
    return about(is_again(slug) && slug.find("-before") == std::string::npos ? 950 : 1000);
  };
  c.clock.advance(day);
  run_all(c, slow);
  REQUIRE(regressions(c).size() == 1);
  CHECK(regressions(c)[0].find("SLOWER by ") != std::string::npos);
  CHECK(regressions(c)[0].find("in one allocation") != std::string::npos);
  CHECK(c.count("trials WHERE again = 1 AND software = 'old'") ==
      c.count("trials WHERE again = 1 AND software = 'new'"));
  CHECK(c.sql("SELECT count(DISTINCT a.allocation) FROM attempts AS a JOIN trials AS t ON t.id "
              "= a.trial WHERE t.again = 1") == "1");
  // From now on it is the program that the next one is held against.
  c.clock.advance(day);
  run_all(c, slow);
  CHECK(c.count("trials WHERE again > 1") == 0);
  CHECK(regressions(c).size() == 1);
  CHECK(c.sql("SELECT remeasured_was FROM sweeps") == "new");
}

TEST_CASE("limits hold for what is measured again") {
  Case c(daily("limits: {max_gpu_hours: 0.0001}\n"));
  run_all(c, [](const std::string&) { return about(1000); });
  const auto attempts = c.count("attempts");
  c.clock.advance(day);
  run_all(c, [](const std::string&) { return about(1000); });
  CHECK(c.count("attempts") == attempts);
  CHECK(c.count("trials WHERE again > 0") == 0);
}

TEST_CASE("a sweep that no longer asks for it is not measured again") {
  Case c(daily());
  run_all(c, [](const std::string&) { return about(1000); });
  c.submit(PlayedSweep{});
  c.tick();
  run_all(c, [](const std::string&) { return about(1000); });
  CHECK(c.status().remeasure_at == 0);
  c.clock.advance(2 * day);
  run_all(c, [](const std::string&) { return about(1000); });
  CHECK(c.count("trials WHERE again > 0") == 0);
}
