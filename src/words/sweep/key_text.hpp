// SPDX-License-Identifier: Apache-2.0
// Values of described keys as files hold them: read back, they are the same.
#pragma once

#include <shardsweep/described.hpp>
#include <shardsweep/model.hpp>

#include <cstdint>
#include <string>

namespace shardsweep::config {

[[nodiscard]] std::string value_text(KeyType type, double value);
[[nodiscard]] std::string value_text(KeyType type, std::int64_t value);
[[nodiscard]] std::string value_text(KeyType type, std::int32_t value);
[[nodiscard]] std::string value_text(KeyType type, bool value);

/// "bf16: 989.4e12, fp8: …", without the peaks that are unknown.
[[nodiscard]] std::string peaks_text(const ClusterSpec& cluster);

/// A model, or a cluster, as the map of a sweep file: {layers: 32, hidden: 4096, …}. A model's
/// name is the key above it, and is left out.
[[nodiscard]] std::string map_text(const ModelSpec& model);
[[nodiscard]] std::string map_text(const ClusterSpec& cluster);

}  // namespace shardsweep::config
