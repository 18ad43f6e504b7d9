// SPDX-License-Identifier: Apache-2.0
// `container:` of a sweep or site file.
#pragma once

#include "yaml/mistakes.hpp"
#include "yaml/yaml_tree.hpp"

#include <shardsweep/container.hpp>

#include <filesystem>
#include <string>

namespace shardsweep::config {

/// A list of images: the variable by which points tell them apart, and its place in `image`.
inline constexpr std::string_view image_variable = "image";
inline constexpr std::string_view image_placeholder = "{image}";

/// Images that are files lie at absolute paths, or in `folder`. Without a folder nothing is
/// looked for on this machine.
[[nodiscard]] ContainerSpec read_container(
    const YamlNode& map, Mistakes& mistakes, const std::filesystem::path& folder);
/// Reads one image. `runtime` decides the form of an image; none if the other file names it.
[[nodiscard]] Result<std::string> read_image(const YamlNode& node,
    std::optional<ContainerRuntime> runtime, const std::filesystem::path& folder);
/// The runtime of the map, as far as it names one.
[[nodiscard]] std::optional<ContainerRuntime> runtime_in(const YamlNode& map);

/// Lines of a sweep or site file; empty if it sets nothing.
[[nodiscard]] std::string container_lines(const ContainerSpec& container);

}  // namespace shardsweep::config
