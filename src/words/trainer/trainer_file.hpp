// SPDX-License-Identifier: Apache-2.0
// Knowledge of a trainer as data: sweeps/trainers/NAME.yaml, which is built in.
#pragma once

#include "text/placeholders.hpp"
#include "trainer/layout_words.hpp"
#include "trainer/starts.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct TrainerRule {
  std::string when;  ///< expression that is true where it does not start
  std::string why;
  std::string source;  ///< where it says so: file, line, commit
};

/// A word that changes memory or speed, and that no axis says.
struct RefusedWord {
  std::string word, why;
};

/// A commit of the trainer at which what `new` writes was started for real (tests/soak/trainers).
struct TestedCommit {
  std::string commit, date;
  std::string ran;     ///< layouts that trained
  std::string broken;  ///< those that it can't start; empty: none is known
};

struct TrainerFile {
  bool copies_kv_heads = false;       ///< where tp has more ranks than there are such heads
  std::vector<std::string> patterns;  ///< of its log, as in capture.hpp
  std::vector<TrainerRule> rules;
  std::vector<RefusedWord> refuses;
  std::vector<TestedCommit> tested;  ///< the newest first
  LayoutWords layout;
  TrainerStart start;
};

/// Throws std::invalid_argument with the line: the file is built in, and a test reads each.
[[nodiscard]] TrainerFile read_trainer_file(std::string_view yaml);

/// The file of a trainer; one without a file has an empty one.
[[nodiscard]] const TrainerFile& trainer_file(std::string_view trainer);

/// Names of those that have one, in the order of the alphabet.
[[nodiscard]] std::span<const std::string_view> trainers_with_files();

/// Why it does not start with these values, by its first rule that holds; empty: it does. A rule
/// that names what has no value does not hold.
[[nodiscard]] std::string_view rule_against(std::string_view trainer, const Placeholders& values);

}  // namespace shardsweep
