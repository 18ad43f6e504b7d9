// SPDX-License-Identifier: Apache-2.0
// Commands as a user types them, on terminals of several widths, and the files that hold what
// they print: tests/data/cases/output. With SHARDSWEEP_REGENERATE=1 (scripts/regenerate-output)
// the files are written instead.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::testing {

inline const std::filesystem::path source = SHARDSWEEP_SOURCE_DIR;
inline const std::filesystem::path cases = source / "tests" / "data" / "cases" / "output";
inline const std::string program = std::string(SHARDSWEEP_BIN_DIR) + "/shardsweep";
inline const std::string lab = std::string(SHARDSWEEP_BIN_DIR) + "/shardsweep-lab";

/// What a command's output goes to.
struct Paper {
  std::string name;
  std::string environment;
};
extern const std::vector<Paper> papers;

/// A database and the folder that it lies in.
struct Desk {
  std::filesystem::path folder;
  std::filesystem::path database;
};

enum class Streams : std::uint8_t { both, results };

/// `env -i …`, to be followed by a command.
std::string environment(const Desk& desk, const std::string& more = "");
/// What a shell's command prints.
std::string output_of(const std::string& command);
/// The same on a terminal of its own, 80 columns wide.
std::string on_a_terminal(const std::string& command);
std::string on_all_papers(const Desk& desk, const std::string& arguments, Streams streams,
    const std::string& of = program);

std::string replaced(std::string text, const std::string& from, const std::string& to);
/// With the codes of a terminal as characters that people read, and without them.
std::string visible_codes(std::string text);
std::string without_codes(const std::string& text);
/// Folders, ages, process ids and the host become words: they differ from run to run.
std::string masked(const Desk& desk, std::string text);
/// Of what has only just happened.
std::string without_times(const std::string& text);

/// No line is wider than COLUMNS says; with LANG=C everything is ASCII; no control characters.
void check_lines(const std::string& text);
/// The text is that of tests/data/cases/output/NAME.txt.
void check_text(const std::string& name, const std::string& text);
/// A command's output on all papers is that of the file, and fits them.
void check_output(const Desk& desk, const std::string& name, const std::string& arguments,
    Streams streams = Streams::both, const std::string& of = program);
/// Fits every width too, and says the same things everywhere; the words differ from machine to
/// machine.
void check_fit(
    const Desk& desk, const std::string& arguments, const std::vector<std::string>& words);

}  // namespace shardsweep::testing
