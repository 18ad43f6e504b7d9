// SPDX-License-Identifier: Apache-2.0
// A swarm: each sequence of a random run has its own faults, drawn from the seed. Every other
// one has a few kinds of them alone: some mistakes show only where nothing else goes wrong,
// others only where one thing goes wrong again and again. (Groce et al., Swarm Testing, 2012)
#pragma once

#include "unit/daemon/played_site.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::testing {

/// Kinds of one thing, each as likely as its weight in this sequence.
template <class Kind>
class Dice {
 public:
  using Faces = std::vector<std::pair<Kind, std::uint64_t>>;
  /// `faces`: with their usual weights.
  explicit Dice(Faces faces) : usual_(std::move(faces)), faces_(usual_) {}

  void draw(std::mt19937_64& random, bool few) {
    faces_.clear();
    all_ = 0;
    for (auto [kind, weight] : usual_) {
      if (few && random() % 4 != 0) continue;
      if (!few && random() % 4 == 0) weight *= 3;
      faces_.emplace_back(kind, weight);
      all_ += weight;
    }
  }
  /// None: nothing of this kind happens in this sequence.
  [[nodiscard]] std::optional<Kind> roll(std::mt19937_64& random) const {
    if (all_ == 0) return std::nullopt;
    std::uint64_t at = random() % all_;
    for (const auto& [kind, weight] : faces_) {
      if (at < weight) return kind;
      at -= weight;
    }
    return std::nullopt;
  }

 private:
  Faces usual_;
  Faces faces_;
  std::uint64_t all_ = 0;
};

/// Once in so many times; 0: never.
class Often {
 public:
  explicit Often(std::uint64_t usual) : usual_(usual) {}
  void draw(std::mt19937_64& random, bool few) {
    const auto drawn = random() % 4;
    every_ = few && drawn == 0 ? 0 : drawn == 1 ? usual_ * 4 : drawn == 2 ? usual_ / 2 : usual_;
  }
  [[nodiscard]] bool now(std::mt19937_64& random) const {
    return every_ != 0 && random() % every_ == 0;
  }

 private:
  std::uint64_t usual_;
  std::uint64_t every_ = 0;
};

/// Of Slurm, of the machine and of the people around it.
enum class Trouble : std::uint8_t {
  unreachable,
  lists_nothing,
  accounting_lags,
  look_is_slow,
  job_hidden,
  clock_set,
  daemon_ended,
  answer_odd,
  node_found,
  others_wait,
  reads_fail,  ///< of the daemon, of what jobs write, for a while
};
/// Of a job in the queue.
enum class QueueEnd : std::uint8_t { held, held_after_launch, cancelled, failed };
/// Of a job that runs.
enum class JobFate : std::uint8_t {
  node_failed,
  host_given_up,  ///< and the lead lives on
  preempted,
  timed_out,
  cancelled,
  requeued,
  silent,
  suspended,
  failed,
  node_lost,     ///< one of its nodes, without a word
  node_stopped,  ///< one of them stands still, or goes on
  agent_killed,
  guard_killed,
  lead_killed,
  clock_jumps,
};
/// What users do.
enum class Wish : std::uint8_t { pause, resume, cancel, rerun, edit, clear_node };
/// How the lead ends an attempt beside its outcome.
enum class Oddity : std::uint8_t {
  none,
  marked,
  fragmented,
  not_started,
  other_programs,
  leaks,  ///< a child outlives the ranks
  ignores_term,
  exits_early,  ///< with 0, without a result
};

struct Swarm {
  bool few = false;
  AllocationTroubles in_allocations{};
  Often deaths{12};
  Often troubles{20};
  Often queue_ends{25};
  Often fates{25};
  Often wishes{50};
  Often slow_prologs{8};
  Dice<Trouble> trouble;
  Dice<Sbatch> answer;
  Dice<QueueEnd> queue_end;
  Dice<JobFate> fate;
  Dice<Outcome> outcome;
  Dice<Oddity> oddity;
  Dice<Wish> wish;

  Swarm();
  void draw(std::mt19937_64& random);
};

/// A sweep of any shape, with limits and timeouts from a tenth of the usual ones to several
/// times them.
[[nodiscard]] PlayedSweep drawn_sweep(const std::string& name, std::mt19937_64& random);

}  // namespace shardsweep::testing
