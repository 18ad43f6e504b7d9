// SPDX-License-Identifier: Apache-2.0
// How a rank gets into its container: the command line of each runtime, and which variables
// are named on it. Each runtime lets the image's variables win over those of the host, so all
// of ours are named; those that ranks find each other by are set once more inside, behind
// whatever a hook of the site has done. Pure.
#pragma once

#include <shardsweep/container.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// A rank as it would run on the host.
struct RankStart {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  ///< "NAME=value", complete
  std::string directory;
};

/// Facts of the node and the allocation that a container's command needs.
struct ContainerPlace {
  std::string token;  ///< token of the allocation
  std::string job;    ///< Slurm's number of it; empty outside of Slurm
  std::string node;   ///< Slurm's name of this one
  bool has_gpus = false;
  /// Variables of the rank that no command line may show: everybody on the node can read it.
  /// They are named there at most, and have their values in the environment.
  std::vector<std::string> secrets{};
  std::string name{};   ///< name of the rank's container, if its runtime records containers
  std::string owner{};  ///< label by which remains of the containers are found
};

/// Start of the rank through its runtime: the command on the host.
[[nodiscard]] RankStart entered(
    const ContainerSpec& container, const RankStart& rank, const ContainerPlace& place);

/// Makes the container on a node, once for each image; empty if nothing is to be made.
[[nodiscard]] std::vector<std::string> make_command(
    const ContainerSpec& container, const ContainerPlace& place);
/// Removes it when the allocation ends; empty if its runtime or Slurm does.
[[nodiscard]] std::vector<std::string> remove_command(
    const ContainerSpec& container, const ContainerPlace& place);

/// Removes what the runtime still records of an owner's ranks once their processes have been
/// killed: podman's record of a running container, and its mounts. Empty: it records none.
[[nodiscard]] std::vector<std::string> remove_left_command(
    const ContainerSpec& container, const std::string& owner);
/// Prints the owner of each container that is recorded on this node, one a line; empty as above.
[[nodiscard]] std::vector<std::string> list_owners_command(const ContainerSpec& container);

/// A process that answers for containers on its node: "HOST/NAMESPACE/PID/START".
struct ContainerOwner {
  std::string host;
  std::string pid_namespace;
  std::int32_t pid = 0;
  std::int64_t start = 0;  ///< start time in /proc, because process numbers are reused
  [[nodiscard]] std::string text() const;
};
/// Owners in the list who are gone, each once. Those of other hosts and process namespaces can't
/// be judged from here.
[[nodiscard]] std::vector<std::string> gone_owners(std::string_view list,
    const ContainerOwner& self, const std::function<bool(const ContainerOwner&)>& lives);

/// Asks the runtime which image a name stands for; empty if it knows no digests.
[[nodiscard]] std::vector<std::string> digest_command(const ContainerSpec& container);
/// The digest at the end of NAME@sha256:DIGEST; empty: there is none.
[[nodiscard]] std::string digest_in_name(std::string_view image);
/// Identifies an image by the first bytes of its file: "sif:…" for apptainer, "sqsh:…" for a
/// squashfs as enroot has it; empty: neither.
[[nodiscard]] std::string digest_in_file(std::string_view beginning);
inline constexpr std::size_t image_header_bytes = 96;

/// True for variables by which ranks find each other. The attempt sets them, whatever image and
/// site say.
[[nodiscard]] bool is_of_the_world(std::string_view name);
/// True for variables of libraries that ranks use: passed into containers, and kept with an
/// attempt.
[[nodiscard]] bool is_of_the_libraries(std::string_view name);
/// True for variables of Slurm, PMI and MPI. They describe a task of a step, which a rank is not.
[[nodiscard]] bool is_of_a_task(std::string_view name);

}  // namespace shardsweep
