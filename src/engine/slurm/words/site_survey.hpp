// SPDX-License-Identifier: Apache-2.0
// What Slurm and a node say of a cluster, as a commented site file to start from.
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::slurm {

struct Partition {
  std::string name;
  bool is_default = false;
  bool up = true;
  std::int64_t nodes = 0;
  std::string time_limit;  ///< time limit in sinfo's form: "infinite", "1-00:00:00"
  std::int64_t cpus = 0;   ///< figure of the smallest node, as the next two
  std::int64_t memory_mb = 0;
  std::string gres;       ///< "gpu:h100:8"; empty: none
  std::int64_t idle = 0;  ///< nodes on which nothing runs, and that can start a job now
  friend bool operator==(const Partition&, const Partition&) = default;
};
/// Reads the output of partitions_command() (survey.hpp): one partition for each group of equal
/// nodes in one state. A line of another form is a fault.
[[nodiscard]] Result<std::vector<Partition>> parse_partitions(std::string_view text);
/// Groups of unequal nodes as one partition.
[[nodiscard]] std::vector<Partition> joined(const std::vector<Partition>& groups);
/// Seconds of a time limit as sinfo writes it, such as 1:00 or 1-00:00:00; 0: no limit.
[[nodiscard]] double seconds_of(std::string_view time_limit);
/// MiB of a size as Slurm takes it: 64G, 512 (these are MiB), 1T.
[[nodiscard]] std::int64_t mebibytes_of(std::string_view size);
/// GPUs per node of `gpu:h100:8(S:0-1),nvme:1`.
[[nodiscard]] std::int64_t gpus_of(std::string_view gres);

struct Association {
  std::string account;
  std::string partition;  ///< empty: all
  std::string qos;        ///< several with commas
  friend bool operator==(const Association&, const Association&) = default;
};
/// Reads `sacctmgr --noheader --parsable2 show associations format=account,partition,qos`.
[[nodiscard]] std::vector<Association> parse_associations(std::string_view text);

/// Facts that machine_script() finds on a machine.
struct Machine {
  std::string kind;  ///< x86_64, aarch64
  std::int64_t cpus = 0;
  std::int64_t memory_kib = 0;
  std::vector<std::string> gpus;
  std::vector<std::string> containers;  ///< pyxis, enroot, apptainer, …
  std::vector<std::string> nccl;
  std::vector<std::string> cuda;
  std::vector<std::string> shared;  ///< "/home (nfs4)"
  bool sees_home = false;
  friend bool operator==(const Machine&, const Machine&) = default;
};
/// Lines for a POSIX shell. `home`: a file of the database's folder, quoted for the shell.
[[nodiscard]] std::string machine_script(const std::string& home);
/// Reads the script's output; empty if it is not complete.
[[nodiscard]] std::optional<Machine> parse_machine(std::string_view text);

struct Cluster {
  std::string name;
  std::string version;
  std::string login_host;
  std::vector<Partition> partitions;
  std::vector<Association> associations;
  std::optional<Machine> login;
  std::optional<Machine> node;
};
/// The default partition; one with GPUs where the default has none. None: there is none.
[[nodiscard]] const Partition* partition_to_use(const Cluster& cluster);
[[nodiscard]] std::string site_file_text(const Cluster& cluster);

}  // namespace shardsweep::slurm
