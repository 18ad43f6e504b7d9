// SPDX-License-Identifier: Apache-2.0
// The lead: claims its allocation, takes assignments from the daemon's file, has the node
// agents run them one after the other, and writes down how each ended.
//
// It has effects and no opinions: each round it gathers what there is to be seen, gives it to
// LeadMachine (attempt/lead_machine.hpp), which decides, and does what that asks for. If it
// dies, its node agents hear nothing more and end what they run; nobody takes its place, and
// the daemon gives its allocation up.
#pragma once

#include "agent/channel.hpp"
#include "agent/environment.hpp"
#include "agent/log.hpp"
#include "agent/signals.hpp"
#include "agent/slurm_step.hpp"
#include "agent/spawn.hpp"
#include "attempt/ended_attempt.hpp"
#include "attempt/hang.hpp"
#include "attempt/lead_machine.hpp"
#include "machine/descriptor.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/protocol.hpp>

#include <cstddef>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace shardsweep::agent {

// Work on the files of an attempt whose ranks have ended: its records are read, its
// end is judged, its folder is packed. On a network file system this takes minutes for a
// thousand ranks, and node agents leave a lead that is silent for seconds: so a thread does it.

class Settling {
 public:
  Settling(EndedAttempt attempt, const Log& log);
  Settling(const Settling&) = delete;
  Settling& operator=(const Settling&) = delete;
  ~Settling();

  /// Readable when it is done.
  [[nodiscard]] int descriptor() const { return done_.get(); }
  /// Empty while it is not done.
  [[nodiscard]] std::optional<Settlement> take();

 private:
  Descriptor done_;
  std::optional<Settlement> settled_;
  std::thread thread_;
};

// Joint reading of an ended attempt's flight recorders. The runner that wrote them reads them: a
// program of ours beside this one.

/// Takes at most half a minute. The copies that were made before the ranks were ended, if
/// there are any; what was read is kept beside them as recorder.json.
[[nodiscard]] Result<RecorderReading> read_recorders(const AttemptPaths& attempt);

// The lead's lines for the daemon. What can't be written now (the disk is full) is kept and
// written later, in the same order: without its line a result would have no end, and an
// allocation no lead.

class SaidLines {
 public:
  SaidLines(std::filesystem::path path, LineWriter file)
      : path_(std::move(path)), file_(std::move(file)) {}

  void say(std::string line, bool durable, double now_s, const Log& log);
  /// Tries again what is left, once a second, in the file as it is then: to one that was open
  /// a restarted file server may answer with ESTALE for ever.
  void step(double now_s, const Log& log);
  [[nodiscard]] bool all_written() const { return unwritten_.empty(); }

 private:
  struct Line {
    std::string text;
    bool durable = false;
  };
  void write(double now_s, const Log& log);

  std::filesystem::path path_;
  LineWriter file_;
  std::deque<Line> unwritten_;  ///< oldest first
  double again_s_ = 0;
  bool told_ = false;  ///< an unwritten line has been reported
};

class Lead final : private LeadOutside {
 public:
  /// `nodes`: the one child, a guard or srun, with its pipes. After block_signals().
  Lead(AllocationPaths paths, const AllocationSpec& spec, LineWriter from_lead, const Clock& clock,
      PipedChild nodes, JobEnd job_end);
  void say_claimed(Claimed claimed) { say(std::move(claimed), true); }
  /// Runs until there is nothing more to do; returns the exit code.
  [[nodiscard]] int run();

 private:
  [[nodiscard]] LeadSenses look();
  [[nodiscard]] std::vector<FromNode> heard();
  void wait();

  [[nodiscard]] Moment now() const override;
  void log(const std::string& line) override { log_.line(line); }
  bool say(FromLeadBody line, bool durable) override;
  void tell(const ToNodeBody& message) override;
  [[nodiscard]] bool leave_pairs(int round, const std::vector<NodePair>& pairs) override;
  [[nodiscard]] std::vector<ToLead> orders() override;
  [[nodiscard]] Result<ReadyAttempt> prepare(const Assign& assign) override;
  [[nodiscard]] bool pack(const Assign& assign) override;
  void settle(EndedAttempt attempt) override { settling_.emplace(std::move(attempt), log_); }
  void ask_about_job(const Assign& assign) override;
  void stop_asking() override { job_report_.end(); }
  [[nodiscard]] std::optional<std::map<std::string, std::string>> topology() override {
    return topology_.step(clock_, log_);
  }
  [[nodiscard]] bool topology_is_due() const override { return topology_.is_due(); }
  [[nodiscard]] std::string storage_fault(bool doubted) override;
  [[nodiscard]] bool agents_were_killed() override;
  [[nodiscard]] std::optional<Evidence> lost_by_launcher() override;
  [[nodiscard]] bool end_all() override;

  AllocationPaths paths_;
  LaunchMode launch_;
  double watch_interval_s_;
  SaidLines from_lead_;
  LineReader to_lead_;
  std::string unread_;  // why the last look at the orders failed; empty: it did not
  const Clock& clock_;
  Log log_;
  PipedChild child_;
  Channel channel_;
  SignalSource signals_;
  std::optional<Settling> settling_;
  JobEnd job_end_;
  JobReport job_report_;
  TopologyReport topology_;
  std::int64_t line_ = 0;  ///< number of the last line for the daemon
  LeadMachine machine_;
};

// The body of `shardsweep-agent lead`: claim first, then start the node agents.

inline constexpr int exit_not_claimed = 75;  // EX_TEMPFAIL: somebody else runs this allocation

/// The exit code.
[[nodiscard]] int run_lead(const std::string& dir, const Clock& clock);

}  // namespace shardsweep::agent
