// SPDX-License-Identifier: Apache-2.0
// A trainer's log as the records that a runner of ours would have written: phases and train
// steps while it runs, one result or the reasons why there is none.
#pragma once

#include "trainer/judge_log.hpp"
#include "trainer/log_reader.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/protocol.hpp>
#include <shardsweep/record.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

class LogRecords {
 public:
  /// A log or a pattern that is not known is a fault.
  [[nodiscard]] static Result<LogRecords> make(const TrainerRun& run, std::int64_t gpus);

  /// One line of any rank, read at `now_s`.
  [[nodiscard]] std::vector<WrittenRecord> read(std::string_view line, double now_s);

  /// Takes a line with a version from a probe or the trainer itself; the first one counts. A fault:
  /// the log of this version is not known.
  [[nodiscard]] Result<void> see_version(std::string_view line);
  /// Version that was found; empty: none.
  [[nodiscard]] const std::string& version() const { return version_; }

  /// Facts of the run, from lines read here, for the reader of other nodes' lines.
  [[nodiscard]] std::string facts_text() const;
  /// A fault as of see_version().
  [[nodiscard]] Result<void> add_facts(std::string_view text);

  /// A train step has been seen.
  [[nodiscard]] bool has_steps() const { return reader_.steps() > 0; }
  /// All train steps that were asked for have been seen.
  [[nodiscard]] bool is_complete() const { return more_than_asked() >= 0 || knows_memory(); }
  /// The run has trained longer than asked; its further output is ignored.
  [[nodiscard]] bool is_past() const { return more_than_asked() > 0; }
  /// One result, or one error with all that is wrong. Lines were read
  /// every `look_s`: a log that tells no time is measured by when its train steps were read.
  [[nodiscard]] WrittenRecord finish(double look_s) const;
  /// Error with the contradictions in the log of a run that was ended early; empty: there are none.
  [[nodiscard]] std::optional<WrittenRecord> contradiction() const;

 private:
  explicit LogRecords(LogReader reader) : reader_(std::move(reader)) {}
  [[nodiscard]] std::int64_t more_than_asked() const;
  [[nodiscard]] std::int64_t left_out() const;
  /// True for a rank that runs alone and has told its memory. Such a rank prints no train steps.
  [[nodiscard]] bool knows_memory() const;
  [[nodiscard]] WrittenRecord proof() const;
  [[nodiscard]] bool wants_version() const;
  [[nodiscard]] Result<void> check_found_version() const;
  /// Says that the version is newer than tested; empty: it is not.
  [[nodiscard]] std::string version_note() const;
  [[nodiscard]] WrittenRecord error_of(std::string_view what, JudgedLog judged) const;
  struct ReadTime {
    double train_step_ms = 0;
    std::int64_t steps = 0;
    double resolution = 0;
    double span_s = 0;
  };
  [[nodiscard]] std::optional<ReadTime> read_time(double look_s) const;
  void time_by_reading(JudgedLog& judged, double look_s) const;
  void put_version(WrittenRecord& record, std::vector<std::string> notes = {}) const;
  [[nodiscard]] WrittenRecord result_of(
      const LogMeasurement& measured, std::vector<std::string> notes) const;

  LogReader reader_;
  const Trainer* trainer_ = nullptr;  ///< null: patterns alone
  std::string version_;
  bool alone_ = false;  ///< one rank of a world that its trainer pretends
  ExpectedRun expected_;
  std::map<std::int64_t, double> read_at_s_;  ///< times by train step
};

}  // namespace shardsweep
