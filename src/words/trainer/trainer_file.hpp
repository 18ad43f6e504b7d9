// SPDX-License-Identifier: Apache-2.0
// Knowledge of a trainer as data: sweeps/trainers/NAME.yaml, which is built in, or a file of a
// user's in the same sections.
#pragma once

#include "text/entries.hpp"
#include "text/placeholders.hpp"
#include "trainer/habits.hpp"
#include "trainer/layout_words.hpp"
#include "trainer/trainers.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct TrainerRule {
  std::string when;  ///< expression that is true if it does not start
  std::string why;
  std::string source;  ///< place that says so: file, line, commit
  std::size_t at = 0;  ///< index of the value that begins it, or that names the trainer it is of
};

/// A word that changes memory or speed, and that no axis says.
struct RefusedWord {
  std::string word, why;
};

/// A form of its command line, which the tree tells that the trainer is in.
struct TrainerTree {
  std::string file;    ///< file that trees of this form have
  std::string word;    ///< word that commands of this form have
  std::string advice;  ///< how such a command is written
};

/// A commit of the trainer at which what `new` writes was started for real (tests/soak/trainers).
struct TestedCommit {
  std::string commit, date;
  std::string ran;     ///< layouts that trained
  std::string broken;  ///< layouts that it can't start; empty: none is known
};

struct TrainerFile {
  Trainer about;
  std::string log_of;  ///< a trainer that is built in, whose lines it prints too; empty: none
  bool copies_kv_heads = false;  ///< true if tp may have more ranks than there are such heads
  /// True if the embedding and the head may each count as a layer, so that the first and the last
  /// of all virtual stages have one less.
  bool ends_count_as_layers = false;
  std::vector<std::string> patterns;  ///< patterns of its log, as in log_reader.hpp
  std::vector<TrainerRule> rules;
  std::vector<RefusedWord> refuses;
  std::vector<TrainerTree> trees;    ///< the first that fits counts
  std::vector<TestedCommit> tested;  ///< the newest first
  LayoutWords layout;
  TrainerStart start;
  std::optional<Family> family;    ///< habits, for predictions
  std::vector<NamedText> profile;  ///< habits of memory that shardbench takes on in its place
};

/// `maps`: a map, or a list of maps.
enum class SectionKind : std::uint8_t { text, list, map, maps };
/// Section that a trainer's file may have, for the schema and the reference.
struct TrainerSection {
  std::string_view name;
  SectionKind kind;
  std::vector<std::string_view> keys;  ///< keys of its maps; empty: texts, or names of the user's
};
[[nodiscard]] std::vector<TrainerSection> trainer_sections();

/// The part of a value that has a mistake: its key, itself, or the item of a list that it begins.
enum class Blamed : std::uint8_t { key, value, item };
struct TrainerMistake {
  std::size_t at;  ///< index of the value
  Blamed blamed;
  std::string what;
};
/// The file of these values without those that have a mistake. Patterns are not compiled here.
[[nodiscard]] TrainerFile read_trainer_file(
    std::span<const TableValue> values, std::vector<TrainerMistake>& mistakes);
/// Reads a built-in file. Throws std::invalid_argument with the line: a test reads each.
[[nodiscard]] TrainerFile read_trainer_file(std::string_view yaml);

/// The file of a trainer that is built in or was added; one without a file has an empty one.
[[nodiscard]] const TrainerFile& trainer_file(std::string_view trainer);
/// Makes a user's file known by `name`, such as its path, until the program ends. It belongs to
/// the thread that reads the command line; a file of that name that was added before is replaced.
const TrainerFile& add_trainer_file(const std::string& name, TrainerFile file);

/// The family that a user's file says, if one was added under this name; null: none.
[[nodiscard]] const Family* own_family(std::string_view name);

/// Trainers that shardbench stands in for (`profile`), and before them `own`: none.
[[nodiscard]] std::span<const std::string_view> shardbench_profiles();

/// Names of those that are built in, in the order of the alphabet.
[[nodiscard]] std::span<const std::string_view> trainers_with_files();

/// Why it does not start with these values, by its first rule that holds; empty: it does. A rule
/// that names what has no value does not hold.
[[nodiscard]] std::string_view rule_against(std::string_view trainer, const Placeholders& values);

}  // namespace shardsweep
