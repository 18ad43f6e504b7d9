// SPDX-License-Identifier: Apache-2.0
// What trainers print of their train steps, as a table of patterns. Each was written after the
// trainer's own format strings, in the versions that `versions` names.
#pragma once

#include <span>
#include <string_view>

namespace shardsweep {

/// The keys that patterns may take, with their units.
struct LogKey {
  std::string_view name;
  std::string_view help;
};
[[nodiscard]] std::span<const LogKey> log_keys();

struct Trainer {
  std::string_view name;      ///< as in `--log`
  std::string_view versions;  ///< whose format strings the patterns follow
  std::string_view prints;    ///< which rank prints its train steps
  std::string_view advice;    ///< what must be set so that each train step is printed
  std::span<const std::string_view> patterns;  ///< as in capture.hpp
};
[[nodiscard]] std::span<const Trainer> trainers();
/// Null where there is none of that name.
[[nodiscard]] const Trainer* find_trainer(std::string_view name);

}  // namespace shardsweep
