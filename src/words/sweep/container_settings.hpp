// SPDX-License-Identifier: Apache-2.0
// Which container an attempt has: what sweep and site file say, and what ranks of ours need in
// it besides.
#pragma once

#include <shardsweep/protocol.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <optional>
#include <string>

namespace shardsweep {

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
