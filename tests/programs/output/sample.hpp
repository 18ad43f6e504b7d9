// SPDX-License-Identifier: Apache-2.0
// A database that holds some of everything, and nothing that differs from run to run.
#pragma once

#include "programs/output/paper.hpp"
#include "unit/store/support.hpp"

#include <filesystem>
#include <string>

namespace shardsweep::testing {

/// A sweep with some of everything, and times that do not change.
class SampleDatabase {
 public:
  SampleDatabase() : file(dir / "sample.db") {
    Daemon daemon(file);
    fill(daemon);
    must(daemon.store->release_lease());
    finish();
  }

  operator Desk() const { return {dir.path(), file}; }  // NOLINT(google-explicit-constructor)

  TempDir dir;
  std::filesystem::path file;
  std::string slug;

 protected:
  explicit SampleDatabase(const char* name) : file(dir / name) {}

  void fill(Daemon& daemon) {
    daemon.submit(dir, {.gpus = {1, 2}, .vars = {0, 1}, .repeats = 2});
    const auto run = [&](const std::string& where, Outcome outcome, double tokens = 0) {
      daemon.run(daemon.trial(where), outcome, tokens);
    };
    const std::string tiny = "model = 'tiny' and nvls = 0 and repeat = 1 and ";
    run(tiny + "gpus = 1 and micro_batch = 1", Outcome::completed, 12345.6);
    run(tiny + "gpus = 1 and micro_batch = 2", Outcome::completed, 12001.25);
    run(tiny + "gpus = 2 and micro_batch = 1", Outcome::completed, 987.65);
    run(tiny + "gpus = 2 and micro_batch = 2", Outcome::oom);
    run("model = 'tiny' and nvls = 0 and repeat = 2 and gpus = 1 and micro_batch = 1",
        Outcome::completed, 12222);
    const std::string small = "model = 'small' and nvls = 1 and repeat = 1 and ";
    run(small + "gpus = 1 and micro_batch = 1", Outcome::crashed);
    run(small + "gpus = 1 and micro_batch = 2", Outcome::skipped);
    run(small + "gpus = 2 and micro_batch = 1", Outcome::completed, 0.5);
    hostile(daemon);
    nodes(daemon);
  }
  void finish() {
    sqlite::Database(file, sqlite::OpenMode::existing, 1000)
        .execute(
            "UPDATE attempts SET environment = "
            "'{\"NCCL_DEBUG\":\"WARN\",\"MASTER_ADDR\":\"n2\"}' WHERE outcome = 'oom'");
    slug = rows_of(file, "SELECT slug FROM trials WHERE outcome = 'oom'");
    slug.erase(slug.find('\n'));
  }

 private:
  /// One in use, one that is out for what was seen on it.
  static void nodes(Daemon& daemon) {
    const TrialId trial = daemon.trial("outcome = 'oom'");
    const NodeCharge charge{.at = daemon.now,
        .kind = EvidenceKind::hardware,
        .trial = trial,
        .detail = "Xid 79: the GPU has fallen off the bus"};
    daemon.commit({SeenNode{"node-with-a-rather-long-name-017", "n17", daemon.now, 1},
        SeenNode{"n2", "n2", daemon.now, 1}, AddNodeEvidence{"n2", charge},
        SetNode{{.node = "n2",
            .state = NodeState::quarantined,
            .since = daemon.now,
            .until = daemon.now + 3'600'000'000,
            .reason = "hardware: Xid 79: the GPU has fallen off the bus"}}});
  }
  /// Names and causes that a terminal would obey, wide characters, and long sentences.
  void hostile(Daemon& daemon) {
    daemon.commit({AddEvent{.at = daemon.now,
        .sweep = 1,
        .trial = daemon.trial("outcome = 'oom'"),
        .kind = EventKind::lost,
        .detail = "\x1b[31mrank 3 on n2: shows no sign of life\x1b[0m (0, "
                  "1, 2 wait in dp all_reduce 41, which 模型 never "
                  "entered × é)"}});
  }
};

/// The same with what only some views tell apart: a later sweep under another version of the
/// runner, marked runs, peaks, spreads and clocks, and words that CSV and Markdown have to quote.
class RichDatabase : public SampleDatabase {
 public:
  RichDatabase() : SampleDatabase("rich.db") {
    Daemon daemon(file);
    fill(daemon);
    later(daemon);
    must(daemon.store->release_lease());
    finish();
    sqlite::Database database(file, sqlite::OpenMode::existing, 1000);
    database.execute(
        "UPDATE measurements SET peak_memory_bytes = 1000000000 + 7777777 * attempt, resolution = "
        "0.001, train_step_ms_spread = 0.25, sm_clock_mhz = 1980, steps = 10");
    database.execute(
        "UPDATE measurements SET runner_version = '2.0' WHERE trial IN (SELECT id FROM trials "
        "WHERE "
        "sweep = 2)");
    database.execute(
        "UPDATE trials SET cause = 'out of memory: 3 |of| 4, \"asked\" for <1 GiB>' WHERE "
        "outcome = 'oom'");
  }

 private:
  static void later(Daemon& daemon) {
    const TempDir inbox;
    daemon.submit(
        inbox, {.gpus = {1, 2}, .vars = {0, 1}, .runner_version = "2.0", .name = "later"});
    const auto run = [&](const std::string& where, Outcome outcome, double tokens, Mark mark) {
      daemon.run(daemon.trial("sweep = 'later' and " + where), outcome, tokens, mark);
    };
    const std::string tiny = "model = 'tiny' and nvls = 0 and ";
    run(tiny + "gpus = 1 and micro_batch = 1", Outcome::completed, 11111.1, Mark::none);
    run(tiny + "gpus = 1 and micro_batch = 2", Outcome::completed, 12800.5, Mark::none);
    run(tiny + "gpus = 2 and micro_batch = 1", Outcome::completed, 1001, Mark::contaminated);
    run(tiny + "gpus = 2 and micro_batch = 2", Outcome::hung, 0, Mark::none);
  }
};

}  // namespace shardsweep::testing
