// SPDX-License-Identifier: Apache-2.0
// How a point becomes a command line of the runner. The flags are shardbench's contract; a
// runner of another name gets the same ones and takes what it knows. A sweep with a snapshot
// starts its programs out of that copy, whatever becomes of their folder meanwhile; a trial of
// a proof stands in for one rank of its layout.
#pragma once

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Facts about one attempt beside its point.
struct LaunchContext {
  AttemptId attempt = 0;
  std::string trial;  ///< slug
  std::string nonce;
  std::string token;    ///< token of the allocation
  std::string program;  ///< the runner, where the sweep names none
  AttemptPaths paths;
  std::int32_t slots_per_node = 1;
  std::string lane{};                  ///< lane_key; empty: like no other
  double predicted_s = 0;              ///< time from start to result; 0: not known
  double give_up_above_ms = 0;         ///< a train step; 0: it runs to its end
  bool expandable = false;             ///< PyTorch's growing segments are on
  std::int64_t parameters = 0;         ///< parameters of the point's model; 0: not known
  std::vector<std::string> secrets{};  ///< names in `secrets_file` for the ranks
  std::string secrets_file{};          ///< empty: the sweep has no secrets
};

/// NCCL_NVLS for nccl_nvls: a var is an environment variable of the ranks.
[[nodiscard]] std::string variable_of(const std::string& var);

/// Path of a sweep's runner: an absolute path, or a name beside `installed`. Without a name it is
/// shardbench's program for the cluster: shardbench-cuda beside `installed` if there are GPUs, else
/// `installed`, shardbench-cpu.
[[nodiscard]] std::string runner_program(const SweepSpec& sweep, const std::string& installed);

// Commands for the check of nodes (check.hpp); `installed` as above.

/// Absolute paths that every node has to see.
[[nodiscard]] std::vector<std::string> programs_of(
    const SweepSpec& sweep, const std::string& installed);
/// shardbench's matrix products on one GPU, or on the CPUs of a node: about a second.
[[nodiscard]] std::vector<std::string> gemm_command(
    const SweepSpec& sweep, const std::string& installed);
/// An all-reduce between two ranks; rank and meeting place are still to come.
[[nodiscard]] std::vector<std::string> allreduce_command(
    const SweepSpec& sweep, const std::string& installed);

/// argv as words: nothing in it is ever read by a shell.
[[nodiscard]] std::vector<std::string> runner_command(
    const SweepSpec& sweep, const Point& point, const LaunchContext& context);

[[nodiscard]] AttemptSpec attempt_spec(
    const SweepSpec& sweep, const Point& point, const LaunchContext& context);

// Rank of a layout that a trial of a proof runs (plan/proof.hpp).

/// The var that says it: the last one of such a sweep.
inline constexpr std::string_view proof_stage_var = "proof_stage";
[[nodiscard]] std::span<const std::string_view> proof_stage_words();

/// The rank that a trial of a proof stands for: the first one of its pipeline stage, in
/// trainers whose stages are the slowest dimension.
[[nodiscard]] std::int32_t fake_rank_of(const SweepSpec& proof, const Point& point);

// A sweep's command, folder and environment, moved into the snapshot that was taken of them.

/// `from`, and what is below it, becomes `to`: where it is the text, or an element of a list
/// (`:`, `,`) or the value of an option (`=`).
[[nodiscard]] std::string moved(std::string_view text, std::string_view from, std::string_view to);

/// `tree`: where the sweep's snapshot is. A sweep without one stays as it is.
[[nodiscard]] SweepSpec in_snapshot(SweepSpec sweep, const std::string& tree);

// The container of an attempt: what sweep and site file say, and what ranks of ours need in
// it besides.

/// The site's container under that of the sweep: a key of the sweep wins, mounts and variables
/// are those of both. What reaches ranks through the site's `env` is named for the container.
[[nodiscard]] ContainerSpec joined(const ContainerSpec& sweep, const SiteSpec& site);

/// A fault if a runtime has no image, or an image no runtime; and where a container must be
/// made on each node and no agent is there to do so.
[[nodiscard]] Result<void> check_container(const ContainerSpec& container, LaunchMode launch);

/// Check for `remeasure: {on: image}`: a fault unless all ranks run in one image that is a file.
/// Only a node's runtime knows which image a name stands for today.
[[nodiscard]] Result<void> check_watched_image(const ContainerSpec& container);

/// Container of one attempt, whose program, folder and trainer are in `spec`; empty: its ranks run
/// on the host. `image` has its placeholders filled in.
[[nodiscard]] std::optional<ContainerSpec> container_of(const ContainerSpec& container,
    const AttemptSpec& spec, std::string image, const std::string& attempt_dir);

}  // namespace shardsweep
