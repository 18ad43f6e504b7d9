// SPDX-License-Identifier: Apache-2.0
// A node of a played allocation: its node agent with the ranks of an attempt.
#pragma once

#include "attempt/findings.hpp"
#include "unit/daemon/played_attempts.hpp"

#include <shardsweep/protocol.hpp>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::testing {

/// What becomes of an attempt's ranks.
struct RankFate {
  double seconds = 10;  ///< that they run
  Ending ending{.outcome = Outcome::completed, .cause = "played", .source = SaidBy::agent};
  double speed = 0;  ///< of its result; 0: any
  bool blames_node = false;
};

class PlayedNode {
 public:
  struct Around {
    PlayedAttempts& attempts;
    /// Drawn where rank 0 is.
    std::function<RankFate(AttemptId attempt)> fate_of;
  };
  PlayedNode(std::string name, int index, double ready_at_s, Around around)
      : name_(std::move(name)),
        index_(index),
        ready_at_s_(ready_at_s),
        around_(std::move(around)) {}

  void hear(const ToNodeBody& message, Moment now);
  void act(Moment now);
  [[nodiscard]] std::vector<FromNode> take_said() { return std::exchange(said_, {}); }
  /// As by the loss of its power: nobody says anything. Its rank may have written its result.
  void die(bool with_result);
  /// Its agent and ranks are ended by our own.
  void end() { gone_ = true; }
  void stop() { stopped_ = true; }
  void go_on() { stopped_ = false; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_gone() const { return gone_; }
  [[nodiscard]] bool is_dead() const { return dead_; }
  [[nodiscard]] bool is_stopped() const { return stopped_; }

 private:
  struct Part {
    AttemptId attempt = 0;
    std::string nonce;
    std::string dir;
    double ends_at_s = 0;
    RankFate fate;
  };
  void launch(const Launch& launch, Moment now);
  void end_part(Moment now);
  void say(FromNodeBody body) { said_.push_back({name_, std::move(body)}); }

  std::string name_;
  int index_;
  double ready_at_s_;
  Around around_;
  bool ready_ = false;
  bool gone_ = false;  ///< agent, guard and ranks
  bool dead_ = false;  ///< the node itself
  bool stopped_ = false;
  double acted_s_ = 0;
  double heard_s_ = 0;
  double beat_s_ = 0;
  std::optional<Part> part_;
  std::vector<FromNode> said_;
};

}  // namespace shardsweep::testing
