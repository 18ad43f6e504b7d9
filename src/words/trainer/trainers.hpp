// SPDX-License-Identifier: Apache-2.0
// Trainers that are known by a file of sweeps/trainers, and the keys that patterns of their logs
// may take.
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// The keys that patterns may take, with their units.
struct LogKey {
  std::string_view name;
  std::string_view help;
  bool of_run = false;  ///< true: belongs to the run, not to the train step printed last; the
                        ///< largest counts
};
[[nodiscard]] std::span<const LogKey> log_keys();

/// Files that tell a trainer's version without a start.
struct VersionProbe {
  std::string module{};        ///< Python's name of its package; empty: its own folder
  std::string files{};         ///< paths from there, with ':' between; each may hold the version
  std::string distribution{};  ///< name in pip
  /// Text before the version in its log; empty: the log does not tell it.
  std::string line{};
};

/// How a single process runs one rank of a large world without the others.
struct FakeWorld {
  std::string flag{};      ///< added to the command line
  std::string variable{};  ///< variable of the environment, with its value behind '='
  std::string world{};     ///< a variable for the size of that world, beside WORLD_SIZE
  std::string why_not{};   ///< why there is no such mode
};

/// How it writes PyTorch's memory snapshot when memory runs out.
struct MemorySnapshot {
  /// Added to the command line, with blanks between. {kept} is a folder for it, {nonce} a name that
  /// nobody else has.
  std::string words{};
  /// If one of the command's words begins with `older_word`, these are added in their place.
  std::string older_word{};
  std::string older_words{};
  std::string why_not{};  ///< the trainer's own behaviour instead, behind its title
};

/// Facts about a trainer beside its patterns, words and rules: sections of its file.
struct Trainer {
  std::string name;   ///< name as in `log`
  std::string title;  ///< title as its authors write it
  /// Versions whose format strings the patterns follow, both included; dates where its authors
  /// give no numbers. Empty: any.
  std::string from{};
  std::string to{};
  VersionProbe probe{};
  std::string prints{};      ///< rank that prints its train steps
  std::string resolution{};  ///< printed resolution of a train step's time
  std::string advice{};      ///< setting without which not every train step is printed
  FakeWorld fake{};
  MemorySnapshot snapshot{};
  std::int64_t unprinted = 0;  ///< first train steps that it may leave out whatever is set
};
/// Built-in trainers whose log is read, in alphabetical order.
[[nodiscard]] std::span<const Trainer> trainers();
/// Patterns as in log_reader.hpp: the section `log` of its file.
[[nodiscard]] std::vector<std::string_view> log_patterns(std::string_view trainer);
/// Null if there is none of that name.
[[nodiscard]] const Trainer* find_trainer(std::string_view name);
/// A sentence about a name that none has, with the one that was probably meant.
[[nodiscard]] std::string unknown_trainer(std::string_view name);

// What a new sweep of somebody else's trainer begins with: how it is started, told every axis
// of the file, and kept from what a benchmark does not want (data, evaluation, checkpoints).

/// Name of one of our models in a trainer that holds models itself.
struct StartRecipe {
  std::string model, name;
};

/// The section `start` of a trainer's file.
struct TrainerStart {
  std::string name;         ///< name as in `log`
  std::string written_for;  ///< versions
  std::string data;         ///< source of its samples
  std::string constants;    ///< lines of their own beside dtype, length and batch
  std::string zero;         ///< values of the axis
  std::string recompute;    ///< values of the axis; empty: it is none of its axes
  std::string axes;         ///< lines of their own
  /// `runner`, `env` and further lines, with @RECIPE@ if the trainer holds models itself, and
  /// @LAYOUT@ if its words of a layout have a table (layout_words.hpp).
  std::string rest;
  std::vector<StartRecipe> recipes;
  bool spreads_experts = false;  ///< a model with experts gets the axes ep, expert_tp and cp
  // Degrees that it has.
  bool has_tp = true;
  bool has_pp = true;

  [[nodiscard]] bool has_recipes() const { return !recipes.empty(); }
  /// True if each value of a degree reaches the trainer, and trains.
  [[nodiscard]] bool tells(std::string_view degree) const;
};

/// Starts that `new --trainer` knows.
[[nodiscard]] std::span<const TrainerStart> trainer_starts();
/// A fault names those that there are.
[[nodiscard]] Result<const TrainerStart*> find_trainer_start(std::string_view name);
/// Presets that it has a recipe of; empty: it takes any model.
[[nodiscard]] std::vector<std::string_view> models_of(const TrainerStart& start);
/// `rest` for a model, complete. A fault: the trainer has no recipe of it, and which it has.
[[nodiscard]] Result<std::string> rest_of(const TrainerStart& start, std::string_view model);

}  // namespace shardsweep
