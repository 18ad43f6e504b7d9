// SPDX-License-Identifier: Apache-2.0
#include "agent/trainer_logs.hpp"

#include "agent/reap.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace shardsweep::agent {

Result<TrainerLogs> TrainerLogs::make(const AttemptSpec& spec, AttemptPaths paths) {
  SHARDSWEEP_ASSIGN(LogRecords records, LogRecords::make(*spec.trainer, spec.world));
  return TrainerLogs(std::move(records), std::move(paths), spec.nonce);
}

void TrainerLogs::begin(const Clock& clock) {
  write({{"phase", {{"phase", "init"}}, {}}}, clock);
}

/// True where something new was there.
bool TrainerLogs::read_lines(const Clock& clock, bool all) {
  const double now_s = seconds_of(clock);
  if (records_.has_steps() && looked_at_s_ > 0)
    longest_look_s_ = std::max(longest_look_s_, now_s - looked_at_s_);
  looked_at_s_ = now_s;
  bool any = false;
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    if (all || i == printing_) any = read_log(i, now_s, clock) || any;
  }
  return any;
}

bool TrainerLogs::read_log(std::size_t index, double now_s, const Clock& clock) {
  const auto lines = logs_[index].look();
  if (!lines) return false;  // looked at again; silence has its limit
  for (const auto& line : *lines) {
    const auto made = records_.read(line, now_s);
    if (made.empty()) continue;
    printing_ = index;
    if (claim()) write(made, clock);
  }
  return !lines->empty();
}

void TrainerLogs::look(const Clock& clock, bool all) {
  if (finished_) return;
  const bool any = read_lines(clock, all);
  const bool quiet = all && !any && records_.is_complete();
  if (quiet || records_.is_past()) finish(clock, false);
}

void TrainerLogs::finish(const Clock& clock, bool failed) {
  if (finished_) return;
  // A trainer that trains on prints for ever.
  while (read_lines(clock, true) && !records_.is_past()) {
  }
  finished_ = true;
  if (is_elsewhere() || (failed && !records_.is_complete())) return;
  if (!claim()) return;
  const WrittenRecord last = records_.finish(longest_look_s_);
  write({last}, clock);
  has_result_ = fault_.empty() && last.type == "result";
}

/// link(2) would do as well; the file's name is new in each attempt, and one of several hosts
/// creates it.
bool TrainerLogs::claim() {
  if (owner_ != Owner::unknown) return owner_ == Owner::here;
  const int file = ::open(claim_file().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  if (file < 0 && errno != EEXIST) return false;
  owner_ = file >= 0 ? Owner::here : Owner::elsewhere;
  return owner_ == Owner::here;
}

bool TrainerLogs::is_elsewhere() const {
  if (owner_ != Owner::unknown) return owner_ == Owner::elsewhere;
  return ::access(claim_file().c_str(), F_OK) == 0;
}

void TrainerLogs::write(const std::vector<WrittenRecord>& records, const Clock& clock) {
  auto writer = LineWriter::open(paths_.records());
  if (!writer) {
    fault_ = writer.error().what;
    return;
  }
  for (const auto& record : records) {
    const bool durable = record.type == "result" || record.type == "error";
    const auto line = encode_record(record, nonce_, clock.now());
    if (const auto written = writer->append(line, durable); !written)
      fault_ = written.error().what;
  }
}

}  // namespace shardsweep::agent
