// SPDX-License-Identifier: Apache-2.0
#include "cli/printing.hpp"

#include "cli/terminal.hpp"
#include "plan/proof.hpp"
#include "show/cell_text.hpp"
#include "show/exit_code.hpp"
#include "show/status_view.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/copied.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

namespace shardsweep {

Selection selection_of(const Options& options) {
  return {.names = options.names,
      .where = options.where,
      .hidden = options.hidden,
      .all_versions = options.all_versions,
      .at = *from_word<RankedAt>(options.at)};
}

void mean_last_sweep(Session& session) {
  Options& options = session.options;
  if (!options.names.empty() || !options.where.empty() || options.all_sweeps) return;
  const auto reader = Reader::open(session.home.database);
  if (!reader) return;  // the command says why
  auto sweeps = (*reader)->sweeps();
  if (!sweeps) return;
  std::stable_sort(sweeps->begin(), sweeps->end(), [](const SweepRow& a, const SweepRow& b) {
    return std::pair(a.submitted_at, a.id) > std::pair(b.submitted_at, b.id);
  });
  const auto is_proof = [&](const SweepRow& sweep) {
    return std::any_of(sweeps->begin(), sweeps->end(),
        [&](const SweepRow& of) { return proof_name(of.name) == sweep.name; });
  };
  const auto last = std::find_if_not(sweeps->begin(), sweeps->end(), is_proof);
  if (last == sweeps->end() || sweeps->size() == 1) return;
  options.names = {last->name};
  say("Sweep '{}' alone, the last of {}. --all-sweeps shows all.", last->name, sweeps->size());
}

TableStyle table_style(const Session& session, std::vector<std::string_view> important) {
  constexpr std::size_t width_in_a_pipe = 120;
  return {.format = session.options.format,
      .terminal = terminal_of(STDOUT_FILENO),
      .important = std::move(important),
      .wide = session.options.wide,
      .usual_width = width_in_a_pipe};
}

void drop_nodes_where_none(Table& table) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), "nodes");
  if (found == table.columns.end()) return;
  const auto at = found - table.columns.begin();
  const bool none = std::all_of(table.rows.begin(), table.rows.end(), [at](const auto& row) {
    return row[static_cast<std::size_t>(at)] == Value(std::int64_t{0});
  });
  if (!none) return;
  table.columns.erase(found);
  for (auto& row : table.rows)
    row.erase(row.begin() + at);
}

namespace {

/// Options in the form that -o or --format names.
Result<Options> formed_by_output(
    const Options& options, const std::vector<std::string_view>& pictures) {
  Options formed = options;
  const bool to_terminal = options.out.empty() && ::isatty(STDOUT_FILENO) == 1;
  if (formed.picture == PictureForm::png && to_terminal)
    return fault(FaultKind::invalid_input,
        "A PNG can't be printed on a terminal. Name a file with -o FILE.");
  if (options.out.empty() || options.format_given) return formed;
  const auto ending = std::filesystem::path(options.out).extension().string();
  const auto form = ending == ".md" ? "markdown" : ending.empty() ? "" : ending.substr(1);
  const bool is_picture = std::find(pictures.begin(), pictures.end(), form) != pictures.end();
  if ((is_picture || format_from(form)) && formed.set_form(form)) return formed;
  std::string endings = ".csv, .json, .md";
  for (const auto picture : pictures)
    endings += fmt::format("{}.{}", picture == pictures.back() ? " or " : ", ", picture);
  return fault(FaultKind::invalid_input, "'{}': unknown file ending. Use {}, or add --format.",
      options.out, endings);
}

}  // namespace

Result<Options> with_form(const Options& options, const std::vector<std::string_view>& pictures) {
  SHARDSWEEP_ASSIGN(Options formed, formed_by_output(options, pictures));
  if (formed.png_width > 0 && formed.picture != PictureForm::png)
    return fault(
        FaultKind::invalid_input, "--width is that of a PNG. Add -o FILE.png, or --format png.");
  return formed;
}

std::string literal_of(const Value& value) {
  struct Literal {
    std::string operator()(std::monostate) const { return "NULL"; }
    std::string operator()(std::int64_t integer) const { return fmt::to_string(integer); }
    std::string operator()(double real) const { return fmt::format("{}", real); }
    std::string operator()(const std::string& text) const {
      std::string quoted = "'";
      for (const char c : text)
        quoted += c == '\'' ? "''" : std::string(1, c);
      return quoted + "'";
    }
  };
  return std::visit(Literal{}, value);
}

void each_text(Table& table, std::string_view column,
    const std::function<void(Value&, const std::string&)>& take) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), column);
  if (found == table.columns.end()) return;
  for (auto& row : table.rows) {
    auto& value = row[static_cast<std::size_t>(found - table.columns.begin())];
    if (const auto* text = std::get_if<std::string>(&value)) take(value, std::string(*text));
  }
}

void find_folders(const Home& home, Table& table) {
  each_text(table, "dir",
      [&](Value& value, const std::string& dir) { value = folder_here(home, dir).string(); });
}

Result<void> check_output(const Home& home, const std::filesystem::path& file) {
  if (file.empty()) return {};
  std::error_code ignored;
  // weakly_canonical() leaves a relative path of which no part exists as it is.
  const auto canonical = [&](const std::filesystem::path& path) {
    const auto absolute = std::filesystem::absolute(path, ignored);
    const auto found = std::filesystem::weakly_canonical(absolute, ignored);
    // Empty: a folder of it can't be entered, or its name is too long.
    return (found.empty() ? absolute.lexically_normal() : found).string();
  };
  const std::string written = canonical(file);
  const std::string database = canonical(home.database);
  const std::string folder = canonical(home.dir());
  const bool kept = written == folder || written.starts_with(folder + "/") || written == database ||
      written == database + "-wal" || written == database + "-shm" ||
      written == database + "-journal";
  if (!kept) return {};
  return fault(
      FaultKind::rejected, "{} belongs to the database: write another file.", file.string());
}

Result<bool> create_file(const std::string& file, const std::string& text) {
  std::FILE* const out = std::fopen(file.c_str(), "wxe");
  if (out == nullptr && errno == EEXIST) return false;
  const bool written =
      out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if ((out != nullptr && std::fclose(out) != 0) || !written)
    return fault(FaultKind::unavailable, "cannot write '{}': {}", file, std::strerror(errno));
  return true;
}

Result<void> write_new_file(const std::string& file, const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored))
    return fault(FaultKind::rejected, "{} exists already. Give another name.", file);
  return write_file_durably(file, text);
}

Result<ExitCode> print_table(const Table& table, const TableStyle& style) {
  if (!table.note.empty()) say(table.note);
  return deliver(table_text(table, style));
}

Result<ExitCode> deliver(std::string_view text, const std::string& file, Readers readers) {
  if (file.empty()) {
    SHARDSWEEP_TRY(print_result(text));
  } else {
    SHARDSWEEP_TRY(write_file_durably(file, text, readers));
    say("Wrote {}.", file);
  }
  return ExitCode::done;
}

Result<std::string> why_empty(Reader& reader, const Options& options) {
  Selection selection{.names = options.names, .where = options.where, .hidden = options.hidden};
  SHARDSWEEP_ASSIGN(const auto matching, reader.count(selection));
  if (matching == 0) {
    if (options.where.empty()) return "There is no trial. `shardsweep run SWEEP.yaml` makes some.";
    selection.where.clear();
    SHARDSWEEP_ASSIGN(const auto all, reader.count(selection));
    return fmt::format("0 of {} match.", counted(all, "trial"));
  }
  std::string outcomes;
  SHARDSWEEP_ASSIGN(const auto sweeps, reader.status(options.names));
  for (const auto& sweep : sweeps) {
    const auto text = outcomes_and_cause(sweep);
    if (!text.empty())
      outcomes += fmt::format("{}{}: {}", outcomes.empty() ? "" : "; ", sweep.name, text);
  }
  return fmt::format(
      "No trial has a measurement that is ranked{}{}.", outcomes.empty() ? "" : ". ", outcomes);
}

Result<void> say_why_empty(Reader& reader, const Options& options) {
  SHARDSWEEP_ASSIGN(const auto why, why_empty(reader, options));
  say(why);
  return {};
}

Result<std::string> changed_since(Reader& reader, const Selection& selection) {
  if (selection.at != RankedAt::sweep) return std::string();
  SHARDSWEEP_ASSIGN(const auto regressions, reader.regressions(selection.names));
  auto text = regressions_text(regressions);
  if (!text.empty())
    text +=
        "\nThe ranking uses the sweep's own runs. --at now uses those measured again; `shardsweep "
        "history` shows both.";
  return text;
}

Spool::~Spool() {
  if (file_ != nullptr) std::fclose(file_);
}

void Spool::add(fmt::memory_buffer& text) {
  if (file_ == nullptr) file_ = std::tmpfile();
  failed_ =
      failed_ || file_ == nullptr || std::fwrite(text.data(), 1, text.size(), file_) != text.size();
  text.clear();
}

namespace {

/// Whole lines alone, since a part may end within a character; `held` is what is left.
Result<void> print_lines(std::FILE* file, std::string& held) {
  std::vector<char> part(std::size_t{64} * 1024);
  while (const auto count = std::fread(part.data(), 1, part.size(), file)) {
    held.append(part.data(), count);
    const std::size_t end = held.rfind('\n') + 1;
    SHARDSWEEP_TRY(print_result(std::string_view(held).substr(0, end)));
    held.erase(0, end);
  }
  return {};
}

}  // namespace

Result<void> Spool::print(std::string_view rest) {
  const auto lost = [] {
    return fault(FaultKind::unavailable, "the answer cannot be kept in a temporary file: {}",
        std::strerror(errno));
  };
  if (failed_) return lost();
  std::string held;
  if (file_ != nullptr) {
    std::rewind(file_);
    SHARDSWEEP_TRY(print_lines(file_, held));
    if (std::ferror(file_) != 0) return lost();
  }
  held += rest;
  return print_result(held);
}

Result<void> print_result(std::string_view text) {
  ProgressLine::end();
  // A file gets the data; what others wrote into it must not act on a terminal.
  const std::string shown = ::isatty(STDOUT_FILENO) == 1 ? for_terminal(text) : std::string();
  if (!shown.empty()) text = shown;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    // The reader has seen enough (`results | head`): leave as every command does.
    if (errno == EPIPE) {
      std::signal(SIGPIPE, SIG_DFL);
      std::raise(SIGPIPE);
    }
    return fault(FaultKind::unavailable, "standard output: {}", std::strerror(errno));
  }
  return {};
}

void say(std::string_view text) {
  static const Terminal terminal = terminal_of(STDERR_FILENO);
  // A line and a caret below it stay as they are.
  const bool points = text.ends_with('^') || text.find("^\n") != std::string_view::npos;
  const bool fold = terminal.width && !points;
  std::string shown;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    // Names, causes and what other programs said may hold codes that a terminal obeys.
    const auto line = in_charset(printable(text.substr(at, end - at)), terminal.utf8);
    for (const auto& part : fold ? folded(line, *terminal.width) : std::vector{line})
      shown += part + '\n';
    at = end + 1;
  }
  ProgressLine::step_aside();
  std::fwrite(shown.data(), 1, shown.size(), stderr);
}

}  // namespace shardsweep
