// SPDX-License-Identifier: Apache-2.0
// Decision: A thread reads, judges and packs an ended attempt. Over NFS that may take longer
// than the limit after which a silent lead is given up, and the lead's loop must go on beating.
#include "agent/settling.hpp"

#include "agent/recorder_reading.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/record.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace shardsweep::agent {
namespace {

std::optional<RecorderReading> recorders_of(const AttemptPaths& paths, const Log& log) {
  auto reading = read_recorders(paths);
  if (reading) return *std::move(reading);
  log.line(reading.error().what);
  return std::nullopt;
}

Settled settle(const EndedAttempt& attempt, const Log& log) {
  fail_point("lead.settle");
  const AttemptPaths paths{attempt.assign.dir};
  const auto records = read_attempt_records(paths);
  if (!records) log.line(records.error().what);
  Settled settled = judge_ended(attempt, records && has_result(records->text, attempt.assign.nonce),
      [&] { return recorders_of(paths, log); });
  const auto packed = pack_attempt(paths, attempt.spec.limits.keep_log_bytes);
  if (!packed) log.line(packed.error().what);
  settled.packed = packed.has_value();
  return settled;
}

}  // namespace

Settling::Settling(EndedAttempt attempt, const Log& log)
    : done_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this, attempt = std::move(attempt), &log] {
        settled_ = settle(attempt, log);
        const std::uint64_t one = 1;
        (void)!::write(done_.get(), &one, sizeof one);
      }) {}

Settling::~Settling() {
  if (thread_.joinable()) thread_.join();
}

std::optional<Settled> Settling::take() {
  std::uint64_t count = 0;
  if (::read(done_.get(), &count, sizeof count) != sizeof count) return std::nullopt;
  thread_.join();
  return std::move(settled_);
}

}  // namespace shardsweep::agent
