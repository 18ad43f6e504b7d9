// SPDX-License-Identifier: Apache-2.0
// The sweep file wins over the site file key by key; mounts and options of both add up. What
// ranks need of ours, the attempt's folder and the program, is mounted at its own path, unless
// the user has put something else there: then that was meant.
#include "sweep/container_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

bool has_target(const ContainerSpec& container, std::string_view target) {
  return std::any_of(container.mounts.begin(), container.mounts.end(),
      [target](const std::string& one) { return mount_of(one).target == target; });
}

/// Mounts a folder under its own path, unless the user has put something else there.
void mount_as_it_is(ContainerSpec& container, const std::string& folder, bool read_only) {
  if (!folder.starts_with('/') || folder == "/" || has_target(container, folder)) return;
  container.mounts.push_back(
      read_only ? fmt::format("{0}:{0}:ro", folder) : fmt::format("{0}:{0}", folder));
}

std::string folder_of(const std::string& program) {
  return program.substr(0, std::min(program.rfind('/'), program.size()));
}

}  // namespace

ContainerSpec joined(const ContainerSpec& sweep, const SiteSpec& site) {
  ContainerSpec all = sweep;
  const ContainerSpec& given = site.container;
  if (!all.runtime) all.runtime = given.runtime;
  if (all.image.empty()) all.image = given.image;
  // A site may say how containers are started without saying that all sweeps run in one.
  if (all.image.empty() || !all.is_used()) return sweep;
  if (all.workdir.empty()) all.workdir = given.workdir;
  for (const auto& mount : given.mounts) {
    if (!has_target(all, mount_of(mount).target)) all.mounts.push_back(mount);
  }
  all.options.insert(all.options.begin(), given.options.begin(), given.options.end());
  all.env.insert(given.env.begin(), given.env.end());
  all.env.insert(site.env.begin(), site.env.end());
  return all;
}

Result<void> check_container(const ContainerSpec& container, LaunchMode launch) {
  const bool has_image = !container.image.empty();
  if (container.is_used() && !has_image)
    return fault(FaultKind::invalid_input,
        "'container' has the runtime {} but no image; write 'image' into the sweep file",
        word_of(*container.runtime));
  if (has_image && !container.runtime)
    return fault(FaultKind::invalid_input,
        "'container' has an image but no runtime; write 'runtime' into the sweep file or into the "
        "site file: pyxis, enroot, apptainer, podman-hpc or shifter");
  const bool is_file = container.image.ends_with(".sqsh") || container.image.ends_with(".squashfs");
  const bool is_made = container.runtime == ContainerRuntime::pyxis ||
      (container.runtime == ContainerRuntime::enroot && is_file);
  if (is_made && launch == LaunchMode::srun)
    return fault(FaultKind::invalid_input,
        "with 'launch: srun' nothing creates the {} container on each node; write 'launch: "
        "agents', or name an enroot container that already exists there",
        word_of(*container.runtime));
  return {};
}

Result<void> check_watched_image(const ContainerSpec& container) {
  const bool is_one_file = container.is_used() && container.image.starts_with('/') &&
      container.image.find('{') == std::string::npos;
  if (is_one_file) return {};
  return fault(FaultKind::invalid_input,
      "'remeasure: {{on: image}}' needs 'image' to be one file with its path from '/', such as "
      "/images/train.sqsh, but {}. Or leave 'on' out: the layouts are then measured again in the "
      "image as it is then",
      container.is_used() ? fmt::format("'image' is '{}'", container.image)
                          : std::string("no container is used"));
}

std::optional<ContainerSpec> container_of(const ContainerSpec& container, const AttemptSpec& spec,
    std::string image, const std::string& attempt_dir) {
  if (!container.is_used()) return std::nullopt;
  ContainerSpec filled = container;
  filled.image = std::move(image);
  mount_as_it_is(filled, attempt_dir, false);
  if (spec.trainer) {
    mount_as_it_is(filled, spec.trainer->directory, false);
  } else if (!spec.argv.empty()) {
    // Ours lies beside the agent, and no image has it.
    mount_as_it_is(filled, folder_of(spec.argv.front()), true);
  }
  return filled;
}

}  // namespace shardsweep
