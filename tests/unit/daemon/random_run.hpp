// SPDX-License-Identifier: Apache-2.0
// A played site where everything happens at random: jobs pend, start, are refused, put off,
// held and requeued, vanish from the queue, time out; nodes die, answers are lost or late,
// clocks jump, users ask for things, and the daemon dies at any call. Which of it, and how
// often, each sequence draws anew (swarm.hpp). What must hold is looked at after each step.
#pragma once

#include "unit/daemon/marks.hpp"
#include "unit/daemon/played_site.hpp"
#include "unit/daemon/swarm.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace shardsweep::testing {

struct RandomCounts {
  std::int64_t steps = 0;   ///< passes of a daemon
  std::int64_t rounds = 0;  ///< of leads and node agents
  std::int64_t deaths = 0;
  std::int64_t jobs = 0;
  std::int64_t attempts = 0;
  std::int64_t results = 0;
  std::int64_t commits = 0;
  std::int64_t looks = 0;
  std::int64_t failed_reads = 0;
  double simulated_s = 0;
  Marks marks{};
  RandomCounts& operator+=(const RandomCounts& other);
};

class RandomRun {
 public:
  explicit RandomRun(std::uint64_t seed);
  /// A sweep or two, some hundred steps, then the faults end and everything has to come to its
  /// end. Throws a Violation.
  void sequence();
  [[nodiscard]] RandomCounts counts() const;
  /// The last lines of the daemon's log.
  [[nodiscard]] std::string log_tail();
  /// What is not over, and the last events.
  [[nodiscard]] std::string state();

  /// To put a mistake into.
  PlayedSite site;

 private:
  [[nodiscard]] bool one_in(std::uint64_t n) { return site.random() % n == 0; }
  void watch();
  void submit_sweeps();
  void step();
  void pass_time();
  void make_trouble();
  void draw_answer();
  void begin_unreadable();
  void let_daemon_read(bool acts);
  void make_wish();
  void ask(Request request);
  // what happens to jobs
  void play();
  [[nodiscard]] PlayedJob& drawn_job();
  void play_pending(PlayedJob& job);
  void play_running(PlayedJob& job);
  [[nodiscard]] RankFate drawn_fate(AttemptId attempt);
  void play_fate(PlayedJob& job);
  // what must hold
  void look();
  void none(const char* what, const char* sql);
  void check_preempted();
  void bound_calls(
      std::int64_t commits, std::int64_t changes, std::int64_t looks, std::int64_t submissions);
  void heal();
  void remove_held();
  void finish();
  void check_explained();
  void check_told();
  void check_black_hole();
  void check_attempt(const sqlite::Statement::Use& row);
  void clean_up();

  Swarm swarm_;
  Marks marks_;
  std::int64_t steps_ = 0;
  std::int64_t looked_at_ = -1;  ///< commits at the last look
  bool faults_ = false;
  std::size_t unreadable_files_ = 0;  ///< of the daemon: which ones; 0: all
  int read_error_ = 0;                ///< of reads of the daemon
  Timestamp readable_since_ = 0;      ///< the first pass after that, and the last one
  Timestamp readable_at_ = 0;
  Timestamp unreadable_until_ = 0;  ///< the same: until then
  int starts_in_black_hole_ = 0;    ///< since nobody else has failed, and its node was trusted
  std::int64_t jobs_ = 0;
  std::int64_t attempts_ = 0;
  std::int64_t results_ = 0;
  std::int64_t failed_reads_before_ = 0;
  std::int64_t started_at_ = 0;
};

}  // namespace shardsweep::testing
