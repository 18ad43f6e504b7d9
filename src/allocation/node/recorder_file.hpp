// SPDX-License-Identifier: Apache-2.0
// A rank's flight recorder, as far as an agent follows it: does it move? The format is the
// runner's (runner/src/measurement/recorder.hpp, magic SBREC03); who waits for whom is told by
// `shardbench-cpu --read-recorder`.
#pragma once

#include "attempt/hang.hpp"
#include "machine/descriptor.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace shardsweep {

/// The recorder of a rank on this host, opened once.
class RecorderFile {
 public:
  explicit RecorderFile(std::filesystem::path file) : file_(std::move(file)) {}
  /// True if the rank has begun or ended an operation or a phase since the last call. Beats do not
  /// count.
  [[nodiscard]] bool has_moved();
  /// True once the file has been seen.
  [[nodiscard]] bool is_there() const { return state_.has_value(); }

 private:
  [[nodiscard]] std::optional<std::uint64_t> read();

  std::filesystem::path file_;
  Descriptor descriptor_;
  std::optional<std::uint64_t> state_;  ///< a number for what it holds
};

/// Flight recorders of the ranks on this host: a file mapped on another host shows nothing here.
class RecorderFiles {
 public:
  void follow(int rank, std::filesystem::path file) { files_.emplace(rank, std::move(file)); }
  /// True if any of them moved since the last call.
  [[nodiscard]] bool have_moved();
  [[nodiscard]] bool any_is_there() const;
  /// True if all have been seen; false if there are none.
  [[nodiscard]] bool all_are_there() const;

 private:
  std::map<int, RecorderFile> files_;  ///< recorders by rank
};

/// The JSON object that `--read-recorder` prints.
[[nodiscard]] Result<RecorderReading> decode_recorder_reading(std::string_view text);

}  // namespace shardsweep
