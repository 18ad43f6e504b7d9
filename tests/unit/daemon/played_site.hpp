// SPDX-License-Identifier: Apache-2.0
// A daemon with its database on a site that a test plays: a Slurm, leads, a clock. The
// database, the request files and the files between daemon and lead are real, in memory where
// the system has such a folder.
#pragma once

#include "daemon/loop.hpp"
#include "store/sqlite.hpp"
#include "unit/daemon/played_slurm.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/notifier.hpp>
#include <shardsweep/results.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace shardsweep::testing {

/// What must never be, in a sentence.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A folder in memory, gone with the test.
class MemoryFolder {
 public:
  MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  ~MemoryFolder();
  std::filesystem::path path;
};

/// What is printed on standard error goes into a file while this lives.
class CapturedLog {
 public:
  explicit CapturedLog(const std::filesystem::path& file);
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  ~CapturedLog();

 private:
  int kept_;
};

/// A sweep: one trial for each node count and micro-batch.
struct PlayedSweep {
  std::string name = "a";
  std::string settings{};  ///< lines of its file: "lane: {length: 2}"
  std::string site = "backend: slurm\n";
  Backend backend = Backend::slurm;
  std::vector<std::int32_t> nodes{1};
  std::vector<std::int32_t> micro_batch{1, 2};
  double predicted_s = 100;  ///< of one attempt
};

class PlayedSite {
 public:
  PlayedSite();

  Fate fate;
  ManualClock clock{fate};
  PlayedSlurm slurm{clock};
  std::mt19937_64 random{1};

 private:
  MemoryFolder folder_;

 public:
  CapturedLog log;
  Home home;
  MortalStore store;

  /// Told before the daemon acts and after it has, or has died.
  std::function<void(bool acts)> around_daemon;

  std::vector<Notice> notices;  ///< that users were told
  std::string tree;             ///< hash of the tree that their programs are in

  [[nodiscard]] DaemonParts parts();
  // ---- the daemon's life, as loop.cpp has it
  void start();
  /// Time passes, then the daemon makes a pass; it may die in it, or leave because nothing is
  /// left to do.
  void tick(double seconds = 0.25);
  /// A start if there is no daemon, and a pass, for a test in which calls of the daemon fail:
  /// what it says of them. A daemon that does not go on after that is dead.
  [[nodiscard]] Result<void> try_pass(double seconds);
  /// As many passes as fit into so many seconds.
  void pass(double seconds, double step = 1);
  /// As by kill -9.
  void die();
  [[nodiscard]] bool alive() const { return daemon_ != nullptr; }
  [[nodiscard]] std::int64_t deaths() const { return deaths_; }
  [[nodiscard]] std::int64_t ticks() const { return ticks_; }
  [[nodiscard]] std::chrono::milliseconds pause() const { return daemon_->pause(); }

  // ---- what users do
  Answer ask(Request request);
  Answer ask(Verb verb, std::vector<std::string> names, const std::string& where = "");
  void submit(const PlayedSweep& sweep);
  /// Asked for, and not served yet: the request's id.
  [[nodiscard]] std::string post(const PlayedSweep& sweep);
  /// A daemon is there until it has answered.
  Answer answer_to(const std::string& request);

  // ---- what jobs do
  /// The last job that was submitted.
  [[nodiscard]] PlayedJob& job() { return slurm.jobs.back(); }
  /// The job gets its nodes, its lead claims the allocation and hears what is assigned.
  void start_job(PlayedJob& job);
  /// The lead starts the next attempt and ends it so, some seconds later.
  void run_attempt(
      PlayedJob& job, Outcome outcome, double seconds = 10, const std::string& node = "");
  /// Leads that live say so.
  void beat();

  // ---- what is in the database
  /// The first value of a statement, as text; empty: no row.
  [[nodiscard]] std::string sql(const std::string& statement);
  [[nodiscard]] SweepStatus status(const std::string& sweep = "a");
  /// The trials' states and outcomes in order: "completed oom planned".
  [[nodiscard]] std::string trials(const std::string& sweep = "a");
  [[nodiscard]] sqlite::Database& reader() { return reader_; }

 private:
  [[nodiscard]] const SweepSpec& spec_of(const PlayedSweep& sweep);

  sqlite::Database reader_;
  std::map<std::string, sqlite::Statement> statements_;
  std::unique_ptr<Reader> answers_;  ///< of `status`, opened at its first question
  std::unique_ptr<shardsweep::Daemon> daemon_;
  std::map<std::string, SweepSpec> specs_;
  std::int64_t deaths_ = 0;
  std::int64_t ticks_ = 0;
  int inboxes_ = 0;
};

}  // namespace shardsweep::testing
