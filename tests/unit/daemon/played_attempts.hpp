// SPDX-License-Identifier: Apache-2.0
// What was really done on a played site, whatever anybody writes about it.
#pragma once

#include <shardsweep/protocol.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace shardsweep::testing {

struct PlayedAttempt {
  AttemptId id = 0;
  std::string nonce;
  Timestamp started = 0;           ///< by the lead's clock
  Timestamp ended = 0;             ///< by the same; 0: it runs, or nobody knows when it died
  std::optional<Outcome> said{};   ///< as its lead has said it
  std::optional<double> result{};  ///< what its records hold
  bool marked = false;
  bool clock_was_set = false;  ///< of its lead, while its allocation lived
  bool late = false;           ///< its result came after the daemon had booked its end
};
struct PlayedAttempts {
  std::int64_t rounds = 0;  ///< that leads and node agents have taken
  std::map<std::string, PlayedAttempt> by_nonce;
  /// The daemon has booked its end; none: nobody asks.
  std::function<bool(const std::string& nonce)> booked{};
  /// Told of each line that a lead reads or writes.
  std::function<void(const ToLead&)> heard{};
  std::function<void(const FromLeadBody&)> said{};

  /// Its rank writes its result; `speed`: 0: any.
  void write_result(const std::string& nonce, const std::string& dir, double speed = 0);
  /// The beginning of it, which says nothing.
  void tear_result(const std::string& nonce, const std::string& dir) const;
};

}  // namespace shardsweep::testing
