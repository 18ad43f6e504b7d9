// SPDX-License-Identifier: Apache-2.0
// Whether an attempt's programs are those that its sweep was submitted with.
#include "agent/reap.hpp"
#include "agent/running_attempt.hpp"
#include "text/content_hash.hpp"

#include <shardsweep/program_files.hpp>

#include <fmt/format.h>

namespace shardsweep::agent {

/// A program that is not there can't be started, and its start says so.
bool RunningAttempt::has_its_programs() {
  auto found = spec_.programs;
  std::string changes;
  for (auto& [path, hash] : found) {
    auto now = file_hash(path);
    if (!now || *now == hash) continue;
    changes += fmt::format(
        "{}the program {} has changed on {}: it was {} at submission, and is {}",
        changes.empty() ? "" : "; ", path, node_.name, short_hash(hash), short_hash(*now));
    hash = *std::move(now);
  }
  if (changes.empty()) return true;
  found_code_ = hash_of_programs(found);
  Ending ending{Outcome::lost, std::move(changes), SaidBy::agent};
  ending.found_code = found_code_;
  evidence_.push_back({clock_.now(), std::move(ending)});
  return false;
}

/// Once more when they have surely been read: one may be replaced between the first look and
/// its start, and an interpreter reads its script later still.
void RunningAttempt::look_at_programs() {
  const bool were_read = watch_.step() > 0 || stage_ == Stage::reaping;
  if (knows_programs_ || spec_.programs.empty() || !were_read) return;
  knows_programs_ = true;
  if (found_code_.empty() && has_its_programs()) return note_programs("code");
  if (stage_ == Stage::running) begin_ending();
}

/// A snapshot never changes. Other programs may, until they have been read: whoever finds a
/// result has to find too that they were looked at then.
void RunningAttempt::announce_programs() {
  if (!spec_.code_hash.empty()) note_programs(spec_.programs.empty() ? "code" : "programs");
}

/// Of the node of rank 0, durable before a result can count. The runner's own file is the
/// runner's alone while it writes.
void RunningAttempt::note_programs(const std::string& type) {
  if (!has_rank_zero()) return;
  code_records_ +=
      encode_record({type, {{"code_hash", spec_.code_hash}}, {}}, spec_.nonce, clock_.now()) +
      "\n";
  const auto written = write_file_durably(paths_.code_records(), code_records_);
  if (!written) log_.line(written.error().what);
}

}  // namespace shardsweep::agent
