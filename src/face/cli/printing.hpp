// SPDX-License-Identifier: Apache-2.0
// How a command's tables stand on its standard output.
#pragma once

#include "cli/session.hpp"
#include "show/table_view.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Selection that a command over results is asked for: names, --where and --hidden.
[[nodiscard]] Selection selection_of(const Options& options);

/// Selects the sweep that was submitted last if no names, --where or --all-sweeps are given. Sweeps
/// that `prove` made are passed over. A sentence on standard error names it if there are others.
void mean_last_sweep(Session& session);

/// Style of a table by the session's --format and --wide, and by what standard output is.
[[nodiscard]] TableStyle table_style(
    const Session& session, std::vector<std::string_view> important = {});

/// Sweeps over `gpus` have 0 nodes everywhere: for people that is no column.
void drop_nodes_where_none(Table& table);

/// Options with the form that `--format` says, or else the ending of the file. `pictures`: the
/// forms that the command has beside those of tables. A PNG on a terminal is a fault.
[[nodiscard]] Result<Options> with_form(
    const Options& options, const std::vector<std::string_view>& pictures);

/// A value in an expression of `--where`, or in SQL.
[[nodiscard]] std::string literal_of(const Value& value);

/// take(value, its text) for each text in the column.
void each_text(Table& table, std::string_view column,
    const std::function<void(Value&, const std::string&)>& take);
/// Replaces the folders in the column `dir` by what is in this home, if the database was moved.
void find_folders(const Home& home, Table& table);

/// Refuses a file to write that is the database, lies beside it as SQLite's, or in its folder.
[[nodiscard]] Result<void> check_output(const Home& home, const std::filesystem::path& file);

/// A new file, made in one step, so that nobody's is written over. False: there is one already.
[[nodiscard]] Result<bool> create_file(const std::string& file, const std::string& text);
/// Never over a file that is there.
[[nodiscard]] Result<void> write_new_file(const std::string& file, const std::string& text);

/// A long answer, kept in a file without a name until all of it is there: who reads standard
/// output slowly, as a pager does, must not hold the database's writer up.
class Spool {
 public:
  Spool() = default;
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  ~Spool();
  /// Takes the text out of the buffer.
  void add(fmt::memory_buffer& text);
  /// Prints to standard output: the added text, then `rest`.
  [[nodiscard]] Result<void> print(std::string_view rest);

 private:
  std::FILE* file_ = nullptr;
  bool failed_ = false;
};

/// The table to standard output, its note to standard error.
[[nodiscard]] Result<ExitCode> print_table(const Table& table, const TableStyle& style);

/// Sentence that says what became slower since the ranked runs, and how to see it; empty if nothing
/// did.
[[nodiscard]] Result<std::string> changed_since(Reader& reader, const Selection& selection);

/// Why a command over results has nothing to show, as one sentence: nothing is there, nothing
/// matches `--where`, or nothing was measured.
[[nodiscard]] Result<std::string> why_empty(Reader& reader, const Options& options);
/// Says the sentence of why_empty() on standard error.
[[nodiscard]] Result<void> say_why_empty(Reader& reader, const Options& options);

}  // namespace shardsweep
