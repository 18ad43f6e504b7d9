// SPDX-License-Identifier: Apache-2.0
// What is done with the files of an attempt whose ranks have ended: its records are read, its
// end is judged, its folder is packed. On a network file system this takes minutes for a
// thousand ranks, and node agents leave a lead that is silent for seconds: so a thread does it.
#pragma once

#include "agent/log.hpp"
#include "attempt/classify.hpp"
#include "attempt/pace.hpp"
#include "machine/descriptor.hpp"

#include <shardsweep/protocol.hpp>

#include <map>
#include <optional>
#include <string>
#include <thread>

namespace shardsweep::agent {

/// What lead and nodes know of it.
struct EndedAttempt {
  Assign assign;
  AttemptSpec spec;
  std::optional<Evidence> own;             ///< what the lead itself holds against it
  std::map<std::string, NodeEnded> nodes;  ///< by name; those that told
  std::map<std::int32_t, std::string> names;
  bool is_step = false;     ///< its ranks are a step's: the one agent does not know their nodes
  bool time_is_up = false;  ///< of the job
};

struct Settled {
  Assign assign;
  Ending ending;
  bool node_failed = false;
  bool told_to_stop = false;
  bool packed = false;
  Pace pace{};  ///< of its GPUs, where the node agents have looked
};

class Settling {
 public:
  Settling(EndedAttempt attempt, const Log& log);
  Settling(const Settling&) = delete;
  Settling& operator=(const Settling&) = delete;
  ~Settling();

  /// Readable when it is done.
  [[nodiscard]] int descriptor() const { return done_.get(); }
  /// None while it is not done.
  [[nodiscard]] std::optional<Settled> take();

 private:
  Descriptor done_;
  std::optional<Settled> settled_;
  std::thread thread_;
};

}  // namespace shardsweep::agent
