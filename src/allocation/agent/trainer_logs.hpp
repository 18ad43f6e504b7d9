// SPDX-License-Identifier: Apache-2.0
// Reads what the ranks of a trainer print, and writes the records that it does not write. One
// node agent writes the train steps and the result: the first whose ranks print a train step.
// The others tell it what their ranks have said of the run (records.facts.NODE).
#pragma once

#include "agent/spawn.hpp"
#include "attempt/cut_short.hpp"
#include "trainer/log_records.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/protocol.hpp>

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::agent {

/// A program beside the first rank that prints the trainer's version, which not all logs tell:
/// same environment, same folder, over within a second or so.
class TrainerProbe {
 public:
  /// `like`: the first rank's process, whose environment and folder it gets. If it does not
  /// start there is no version.
  void start(const AttemptSpec& spec, RankProcess like, const std::filesystem::path& output);
  /// True from its start to its end.
  [[nodiscard]] bool runs() const;
  /// The ranks are gone: true while it has to be waited for. Ends it after its limit.
  [[nodiscard]] bool is_awaited(double now_s);
  void end() const;

 private:
  pid_t pid_ = 0;
  std::optional<double> awaited_since_s_;
};

class TrainerLogs {
 public:
  /// `spec` has a trainer. A log that is not known is a fault.
  /// `nodes`: whose node agents read the ranks' output, this one being number `index`.
  [[nodiscard]] static Result<TrainerLogs> make(
      const AttemptSpec& spec, AttemptPaths paths, int nodes, int index);

  /// Reads the output of this rank, too.
  void follow(int rank) { logs_.emplace_back(paths_.rank_log(rank), "\r\n"); }
  /// Output file of the program that tells the trainer's version.
  [[nodiscard]] std::filesystem::path probe_output() const { return paths_.dir / "records.probe"; }
  /// The node of rank 0 says that it has begun: a trainer is silent until its first train step.
  void begin(const Clock& clock);
  /// Reads what is new: of all ranks, or of the one that prints train steps. When nothing more
  /// comes after the last train step that was asked for, the result is written. `probing`: the
  /// program that tells the version has not ended; the result waits for it a while.
  void look(const Clock& clock, bool all, bool probing = false);
  /// Judges the complete output. `failed`: an output without train steps then writes no record.
  void finish(const Clock& clock, bool failed);
  /// Judges the output of an attempt that was cut short: what contradicts its log is error(),
  /// or refuses the result if another node measured it.
  void finish_cut(const Clock& clock, CutBy by);
  /// True for a few seconds while facts are missing that the ranks of other nodes have printed:
  /// they belong to the result.
  [[nodiscard]] bool waits_for_facts(const Clock& clock);

  /// True if another node agent writes the records.
  [[nodiscard]] bool is_elsewhere() const;
  /// The result has been written here.
  [[nodiscard]] bool has_result() const { return has_result_; }
  /// The record that says why the log is no measurement, where this node has written one.
  [[nodiscard]] const std::optional<Record>& error() const { return error_; }
  /// Why the log of this version is not read; empty: it is.
  [[nodiscard]] const std::string& refused() const { return refused_; }
  /// Fault in reading the output or in writing a record; empty: none.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  TrainerLogs(LogRecords records, AttemptPaths paths, std::string nonce)
      : records_(std::move(records)), paths_(std::move(paths)), nonce_(std::move(nonce)) {
    probe_ = LineReader(probe_output());
  }
  void read_probe();
  [[nodiscard]] bool waits_for_probe(const Clock& clock, bool probing);
  void see_version(std::string_view line);
  void tell_facts(bool last);
  void take_facts();
  void write_error(const WrittenRecord& record, const Clock& clock);
  [[nodiscard]] std::filesystem::path facts_file(int node) const {
    return paths_.dir / ("records.facts." + std::to_string(node));
  }
  /// The node agent that writes the result has seen all train steps.
  [[nodiscard]] std::filesystem::path complete_file() const {
    return paths_.dir / "records.complete";
  }
  [[nodiscard]] bool read_lines(const Clock& clock, bool all);
  [[nodiscard]] bool read_log(std::size_t index, double now_s, const Clock& clock);
  void write(const std::vector<WrittenRecord>& records, const Clock& clock);
  [[nodiscard]] bool claim();
  [[nodiscard]] std::filesystem::path claim_file() const { return paths_.dir / "records.owner"; }

  LogRecords records_;
  AttemptPaths paths_;
  std::string nonce_;
  std::vector<LineReader> logs_;
  LineReader probe_{""};
  int nodes_ = 1;
  int index_ = 0;
  std::string told_facts_;
  std::optional<double> asked_for_facts_s_;
  std::optional<double> asked_for_version_s_;
  std::string refused_;
  std::size_t printing_ = 0;  ///< index of the log with the train steps
  enum class Owner : std::uint8_t { unknown, here, elsewhere };
  Owner owner_ = Owner::unknown;
  double looked_at_s_ = 0;
  double longest_look_s_ = 0;  ///< longest time between two looks while train steps were seen
  bool finished_ = false;
  bool has_result_ = false;
  std::optional<Record> error_;
  std::string fault_;
};

}  // namespace shardsweep::agent
