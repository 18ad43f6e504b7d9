// SPDX-License-Identifier: Apache-2.0
// An allocation of a test's own as a job of a real Slurm (scripts/slurm-cluster, several nodes
// on this machine), and its processes on each of the nodes. The test runs as root, what it
// submits as the cluster's ordinary user.
#pragma once

#include "programs/agent/daemon_side.hpp"

#include <string>
#include <vector>

namespace shardsweep::test {

/// Leases of a test that is about none.
inline constexpr double no_lease_s = 600;

/// What a command says on stdout; it has to succeed.
std::string output_of(const std::string& command);

/// What a rank in mode "place" says of itself.
struct TaskPlace {
  int local_rank = -1;
  std::string device;
  std::string node;
  int inherited = -1;  ///< descriptors above stderr
  std::string scheduler;
};

class Job : public DaemonSide {
 public:
  /// Two ranks per node, and no lease that runs out.
  explicit Job(int nodes);
  ~Job() override;

  std::vector<std::string> options;  ///< more of sbatch's
  std::string prolog;                ///< shell lines before the lead

  /// A second call submits the same script again.
  std::string submit();
  /// Until all node agents are there; the nodes' names in their order.
  std::vector<std::string> wait_nodes();
  /// As squeue says it; "" where it knows the job no more.
  [[nodiscard]] std::string state(const std::string& id = "") const;
  bool wait_state(const std::string& word);

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] pid_t lead();
  [[nodiscard]] pid_t srun();
  [[nodiscard]] pid_t guard(const std::string& node) const;
  [[nodiscard]] pid_t node_agent(const std::string& node) const;
  /// Of the step that the node agents are.
  [[nodiscard]] pid_t stepd(const std::string& node) const;
  /// Ranks and what they have started there.
  [[nodiscard]] std::vector<pid_t> ranks(const std::string& node) const;

  /// Of all ranks of an attempt that has ended.
  [[nodiscard]] std::vector<TaskPlace> places(const Assign& attempt) const;
  /// Until no process of this allocation is left on any node.
  bool wait_gone();
  /// Every attempt was started at most once and has exactly one end; the lead said why it left.
  void check_account(const std::string& bye);

 protected:
  void hand_over(const std::filesystem::path& path) const override;

 private:
  std::string id_;
};

/// slurmd of a node, by the cluster's own list.
[[nodiscard]] pid_t slurmd(const std::string& node);
/// slurmctld has written the job of that name to its state files.
[[nodiscard]] bool is_saved(const std::string& job_name);
/// scripts/slurm-cluster of the cluster under test.
void slurm_cluster(const std::string& arguments);

}  // namespace shardsweep::test
