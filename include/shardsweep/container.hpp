// SPDX-License-Identifier: Apache-2.0
// In which container ranks run. The agent stays on the host and enters it for each rank.
#pragma once

#include <shardsweep/described.hpp>
#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Stored text.
enum class ContainerRuntime : std::uint8_t { none, pyxis, enroot, apptainer, podman_hpc, shifter };
SHARDSWEEP_WORDS(ContainerRuntime, "none", "pyxis", "enroot", "apptainer", "podman-hpc", "shifter");

/// `container:` of a sweep or site file; what it does not say is empty.
struct ContainerSpec {
  std::optional<ContainerRuntime> runtime{};
  std::string image{};                       ///< image; a sweep's may have placeholders
  std::vector<std::string> mounts{};         ///< SOURCE:TARGET, with :ro for reading alone
  std::string workdir{};                     ///< inside; empty: as without a container
  std::map<std::string, std::string> env{};  ///< the sweep's own `env` wins
  std::vector<std::string> options{};        ///< options of the runtime, in front of the image

  [[nodiscard]] bool empty() const { return *this == ContainerSpec{}; }
  /// Ranks run in one.
  [[nodiscard]] bool is_used() const {
    return runtime.value_or(ContainerRuntime::none) != ContainerRuntime::none;
  }
  friend bool operator==(const ContainerSpec&, const ContainerSpec&) = default;
};
SHARDSWEEP_DESCRIBE(ContainerSpec, runtime, image, mounts, workdir, env, options);

/// A mount taken apart.
struct ContainerMount {
  std::string_view source;
  std::string_view target;
  bool read_only = false;
};
/// Parses a mount that the loader has checked; a path alone has the same place inside.
[[nodiscard]] constexpr ContainerMount mount_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, text, false};
  const std::string_view rest = text.substr(colon + 1);
  const std::size_t second = rest.find(':');
  return {text.substr(0, colon), rest.substr(0, second),
      second != std::string_view::npos && rest.substr(second + 1) == "ro"};
}

}  // namespace shardsweep
