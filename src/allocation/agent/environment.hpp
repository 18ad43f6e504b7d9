// SPDX-License-Identifier: Apache-2.0
// What a rank finds in its environment, and what srun must not find in ours. Pure.
#pragma once

#include "agent/attempt_here.hpp"
#include "attempt/container.hpp"
#include "attempt/effective_environment.hpp"

#include <shardsweep/protocol.hpp>

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

using Environment = std::vector<std::string>;  ///< "NAME=value"

/// Position of a rank.
struct RankPlace {
  int rank = 0;
  int local_rank = 0;
  int local_world = 1;
  std::string node;
};

/// Devices for CUDA_VISIBLE_DEVICES: those that Slurm gave to the job, else one number per slot if
/// there are GPUs.
[[nodiscard]] std::vector<std::string> visible_devices(
    const Environment& own, int slots, bool has_gpus);

/// Variables of the daemon's shell that ranks on this machine may have (rank_variables.hpp);
/// secrets are left out.
[[nodiscard]] Environment passed_on(const Environment& shell);

/// `devices`: the node's, one for each slot; empty without GPUs.
[[nodiscard]] Environment rank_environment(const Environment& own, const AttemptSpec& spec,
    const RankPlace& place, const std::vector<std::string>& devices);

/// The value of a variable; none if it is not set.
[[nodiscard]] std::optional<std::string> value_in(
    const Environment& environment, std::string_view name);

/// Environment of a rank that is a task of a Slurm step: keeps variables that PMI and MPI have set.
[[nodiscard]] Environment step_rank_environment(const Environment& own, const AttemptSpec& spec,
    const RankPlace& place, const std::vector<std::string>& devices);

/// NCCL writes what it does into `log`: set-up, bootstrap and network, not each collective.
/// What the sweep or the site says about NCCL_DEBUG and its subsystems holds.
void ask_nccl(Environment& environment, const AttemptSpec& spec, const std::filesystem::path& log);

/// One srun for the allocation's life (notes in the .cpp): the whole argument vector.
[[nodiscard]] std::vector<std::string> srun_command(const std::string& srun,
    const AllocationSpec& spec, const std::vector<std::string>& node_command);
/// One srun for an attempt: `rank_command` is what each task runs.
[[nodiscard]] std::vector<std::string> step_command(const std::string& srun,
    const AttemptSpec& spec, const std::vector<std::string>& rank_command,
    bool by_hostfile = false);
/// Our environment without every variable that sets an option of srun.
[[nodiscard]] Environment srun_environment(const Environment& own);

/// `agent node …` as the lead starts it. `name` is empty under srun: each node knows its own.
[[nodiscard]] std::vector<std::string> node_command(
    const std::string& agent, const AllocationSpec& spec, const std::string& name);

// Reads back what the first rank of an attempt found in its environment: what was written for
// it when it began, and what /proc shows of it until a train step has begun.

struct FirstRank {
  /// Process that was started for the rank: itself, or its container's runtime. 0: not ours.
  pid_t pid = 0;
  int rank = 0;
  std::vector<std::string> command;  ///< command as it runs inside
  std::vector<std::string> given;    ///< environment that the rank was given
  /// File into which the rank writes its environment when it begins (telling_environment).
  std::filesystem::path told;
};

/// Writes the environment of a rank on the host, in the process that becomes the rank.
void tell_environment(
    const std::filesystem::path& file, const std::vector<std::string>& environment);

class EnvironmentReading {
 public:
  EnvironmentReading(const AttemptSpec& spec, FirstRank rank, double now_s);

  /// Looks less and less often; `is_training`: for the last time.
  void look(bool is_training, double now_s);
  /// Ends the reading when the rank is gone, perhaps before any look. Removes the file.
  void finish();
  /// Sentence on what the container has changed; empty: nothing.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  /// Environment at the last look; empty if nothing could be read.
  [[nodiscard]] const Variables& found() const { return found_; }
  /// Environment in the form that is stored.
  [[nodiscard]] Variables kept() const {
    return for_keeping(
        found_, wanted_, image_.empty() ? Keeping::of_the_rank : Keeping::all, secrets_);
  }

 private:
  void judge(const Variables& own, const Variables& last);
  void read_told();
  void take(Variables own, Variables last);

  Variables wanted_;
  std::vector<std::string> secrets_;  ///< variables whose values are kept nowhere
  std::string image_;                 ///< empty: no container, and nothing is held against anybody
  FirstRank rank_;
  Variables told_;
  Variables found_;
  std::vector<VariableOverride> changes_;  ///< changes at the last look
  std::string fault_;
  double next_s_;
  double pause_s_;
  bool done_ = false;
};

// Environment of an attempt's first rank. It is compared with the given one while the rank runs. At
// the end it is written beside the runner's records, for every reader of the result. A container
// that has changed what counts would do so on every node and at every try, so the attempt is
// rejected.

class EnvironmentRecord {
 public:
  /// `pid`: 0 for a step, whose ranks are slurmstepd's: the first one may be on another host.
  /// `inside`: the rank as it runs in its container, if it has one.
  EnvironmentRecord(const AttemptHere& here, pid_t pid, RankStart inside);

  /// `is_training`: for the last time. What speaks against the attempt, once.
  [[nodiscard]] std::optional<Evidence> look(bool is_training);
  /// The ranks are gone. Writes the records.
  [[nodiscard]] std::optional<Evidence> finish(const std::string& image_digest);

 private:
  [[nodiscard]] std::optional<Evidence> judge();
  void write(const WrittenRecord& record) const;

  const AttemptHere& here_;
  EnvironmentReading reading_;
  Timestamp since_;  ///< start of the rank: its environment dates from before
  bool is_judged_ = false;
};

}  // namespace shardsweep::agent
