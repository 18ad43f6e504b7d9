// SPDX-License-Identifier: Apache-2.0
// What is done with the files of an attempt whose ranks have ended: its records are read, its
// end is judged, its folder is packed. On a network file system this takes minutes for a
// thousand ranks, and node agents leave a lead that is silent for seconds: so a thread does it.
#pragma once

#include "agent/log.hpp"
#include "attempt/ended_attempt.hpp"
#include "attempt/hang.hpp"
#include "machine/descriptor.hpp"

#include <shardsweep/allocation_files.hpp>

#include <optional>
#include <thread>

namespace shardsweep::agent {

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
// program of ours beside this one. The runner that wrote them reads them: a program of ours beside
// this one.

/// Takes at most half a minute. The copies that were made before the ranks were ended, if
/// there are any; what was read is kept beside them as recorder.json.
[[nodiscard]] Result<RecorderReading> read_recorders(const AttemptPaths& attempt);

}  // namespace shardsweep::agent
