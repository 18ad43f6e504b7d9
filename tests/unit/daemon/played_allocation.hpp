// SPDX-License-Identifier: Apache-2.0
// An allocation that a test plays: the production lead (attempt/lead_machine.hpp) on played
// nodes, each with the production node agent and guard. Its files are real; processes, channel
// and time are not. What goes wrong in it is drawn: lines are late, torn, written twice, can't
// be written, or are lost with the memory of their node; files can't be read for a while;
// agents are killed; nodes are slow, stop, come back and die.
#pragma once

#include "attempt/lead_machine.hpp"
#include "unit/daemon/mortal.hpp"
#include "unit/daemon/played_node.hpp"

#include <shardsweep/allocation_files.hpp>

#include <csignal>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

namespace shardsweep::testing {

/// How often something goes wrong, once in so many times; 0: never.
struct AllocationTroubles {
  std::uint64_t slow_channel = 0;  ///< of messages
  std::uint64_t late_orders = 0;   ///< of looks at the daemon's file
  std::uint64_t unwritten = 0;     ///< of lines for the daemon
  std::uint64_t unsynced = 0;      ///< of lines that nobody has asked to be durable
  std::uint64_t unreadable = 0;    ///< of looks at files: the next ones fail, too
  std::uint64_t late_records = 0;  ///< of looks at what ranks have written
  std::uint64_t full_disk = 0;     ///< of looks at the storage
  std::uint64_t slow_settling = 0;
};

class PlayedAllocation final : private LeadOutside {
 public:
  struct Site {
    const ManualClock& clock;
    std::mt19937_64& random;
    PlayedAttempts& attempts;
    std::vector<std::string>& violations;
    const AllocationTroubles& troubles;
    std::function<RankFate(AttemptId attempt)> fate_of;
  };
  PlayedAllocation(
      std::filesystem::path dir, std::string job_id, std::vector<std::string> nodes, Site site);

  /// False where another job of this token has the claim.
  [[nodiscard]] bool claim();
  [[nodiscard]] bool claimed() const { return machine_.has_value(); }
  /// One round of everybody, if time has passed. The lead may be stopped.
  void pass(bool lead_acts);
  /// To everybody, as Slurm does it: ranks and agents before the lead.
  void signal(int number);
  /// All of its processes at once. A rank may have written its result.
  void kill();
  /// The same, as by the end of all nodes: what was not synced is gone, or torn.
  void lose_power();
  /// The lead alone, as by kill -9.
  void kill_lead();
  /// One of its nodes, without a word; or its agent, its guard, as by kill -9.
  void lose_node();
  void kill_agent();
  void kill_guard();
  /// A node stands still, or goes on.
  void stop_node();
  void stop_nodes(bool stop);
  /// A node says it of itself.
  void find(const std::string& node, EvidenceKind kind);
  /// Adds a line as its lead would say it.
  void add_line(FromLeadBody body) { (void)say(std::move(body), true); }
  /// Its clock is wrong by so much.
  void set_clock_ahead(Timestamp by);

  /// Its lead is.
  [[nodiscard]] bool over() const { return killed_ || (machine_ && machine_->over()); }
  /// Nobody of it is left that could do anything.
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] bool is_draining() const { return machine_ && machine_->is_draining(); }
  /// Nothing holds it up from leaving when it is told to. What troubles have made late stays so
  /// when they are over.
  [[nodiscard]] bool is_quick() const {
    return !settled_ && to_nodes_.empty() && from_nodes_.empty() &&
        site_.troubles.slow_settling == 0 && site_.troubles.slow_channel == 0 &&
        site_.troubles.unwritten == 0 && at_fault_.empty();
  }
  [[nodiscard]] bool is_leaving() const { return machine_ && machine_->is_leaving(); }
  [[nodiscard]] bool runs() const { return machine_ && machine_->running() != 0; }

 private:
  template <class Message>
  struct Late {
    double due_s = 0;
    Message message;
  };

  /// Of one who reads files.
  struct Sight {
    double blind_until_s = 0;
  };

  [[nodiscard]] bool one_in(std::uint64_t n) { return n != 0 && site_.random() % n == 0; }
  [[nodiscard]] double delay_s();
  [[nodiscard]] RankFate fate_of(AttemptId attempt, int index);
  void let_nodes_act();
  [[nodiscard]] PlayedNode& drawn_node() { return *nodes_[site_.random() % nodes_.size()]; }
  void hold_owners(double passed_s);
  [[nodiscard]] LeadSenses look();
  void write();
  void append(const std::string& line);
  void flush();
  [[nodiscard]] bool is_blind(Sight& sight);
  [[nodiscard]] LastWrite drawn_last_write();

  [[nodiscard]] Moment now() const override;
  void log(const std::string& line) override;
  bool say(FromLeadBody line, bool durable) override;
  void tell(const ToNodeBody& message) override;
  [[nodiscard]] bool leave_pairs(int, const std::vector<NodePair>&) override { return true; }
  [[nodiscard]] std::vector<ToLead> orders() override;
  [[nodiscard]] Result<ReadyAttempt> prepare(const Assign& assign) override;
  [[nodiscard]] bool pack(const Assign& assign) override;
  void settle(EndedAttempt attempt) override;
  void ask_about_job(const Assign&) override {}
  void stop_asking() override {}
  [[nodiscard]] std::optional<std::map<std::string, std::string>> topology() override {
    return std::nullopt;
  }
  [[nodiscard]] bool topology_is_due() const override { return false; }
  [[nodiscard]] std::string storage_fault(bool doubted) override;
  [[nodiscard]] bool agents_were_killed() override { return false; }
  [[nodiscard]] std::optional<Evidence> lost_by_launcher() override { return std::nullopt; }
  [[nodiscard]] bool end_all() override;
  void check_blame(const std::string& node);

  AllocationPaths paths_;
  std::string job_id_;
  Site site_;
  Timestamp ahead_ = 0;
  bool clock_was_set_ = false;  ///< since it began
  AllocationSpec spec_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<PlayedNode>> nodes_;
  double ownerless_s_ = 0;  ///< for so long processes run without a lead
  double unguarded_s_ = 0;  ///< the same of an agent without its guard

  std::set<std::string> at_fault_;                      ///< nodes with which something was wrong
  std::optional<std::pair<AttemptId, RankFate>> fate_;  ///< of the attempt that runs
  std::optional<LeadMachine> machine_;
  bool killed_ = false;
  double passed_s_ = 0;
  std::vector<int> signals_;
  LineReader orders_;
  std::optional<LineWriter> from_lead_;
  struct Line {
    std::string text;
    bool durable = false;
  };
  std::deque<Line> unwritten_;
  std::deque<std::string> unsynced_;  ///< written, and in the memory of the lead's node alone
  double flush_at_s_ = 0;
  Sight sight_;  ///< the lead's
  std::map<std::string, Sight> sight_of_nodes_;
  double write_again_s_ = 0;
  std::int64_t line_ = 0;
  std::deque<Late<ToNodeBody>> to_nodes_;
  std::deque<Late<FromNode>> from_nodes_;
  std::optional<Late<Settlement>> settled_;
};

}  // namespace shardsweep::testing
