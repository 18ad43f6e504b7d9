// SPDX-License-Identifier: Apache-2.0
// A rank's flight recorder, as far as an agent follows it: does it move? The format is the
// runner's (runner/src/recorder.hpp, magic SBREC01); who waits for whom is told by
// `shardbench-cpu --read-recorder`.
#pragma once

#include "attempt/hang.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace shardsweep {

/// A number that changes whenever the rank begins or ends an operation or a phase, and not with
/// its beats. None where there is no such file (yet).
[[nodiscard]] std::optional<std::uint64_t> recorder_state(const std::filesystem::path& file);

/// The JSON object that `--read-recorder` prints.
[[nodiscard]] Result<RecorderReading> decode_recorder_reading(std::string_view text);

}  // namespace shardsweep
