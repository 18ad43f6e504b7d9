// SPDX-License-Identifier: Apache-2.0
// show: trials and sweeps with their attempts, causes and files.
#include "cli/command.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "report/page.hpp"
#include "show/show_view.hpp"

#include <shardsweep/attempt_files.hpp>
#include <shardsweep/results.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

/// An attempt's folder is packed when it has ended, and both may be gone.
void name_files(Table& table) {
  each_text(table, "dir", [](Value& value, const std::string& dir) {
    if (dir.empty()) return;
    std::error_code ignored;
    const auto pack = dir + ".tar";
    if (std::filesystem::exists(pack, ignored)) {
      value = pack;
    } else if (!std::filesystem::exists(dir, ignored)) {
      value = Value();
    }
  });
  std::replace(
      table.columns.begin(), table.columns.end(), std::string("dir"), std::string("files"));
}

/// Table of the files that tools have left of a trial's attempts. It is made before `name_files`
/// renames the column of folders.
Table kept_files(Table& attempts) {
  Table kept{{"file", "size_bytes", "in"}, {}};
  each_text(attempts, "dir", [&](Value&, const std::string& dir) {
    if (dir.empty()) return;
    for (const AttemptFile& file : kept_files_of({dir}))
      kept.rows.push_back({file.name, static_cast<std::int64_t>(file.size),
          file.packed ? file.path.string() : dir});
  });
  return kept;
}

/// Adds tables of kept files behind the attempts of a trial, and behind the side runs of a trial or
/// sweep.
void add_kept_files(std::vector<Reader::Section>& sections) {
  std::vector<Reader::Section> all;
  for (auto& section : sections) {
    const bool has_folders = section.title == "attempts" || section.title == "side runs";
    auto kept = has_folders ? kept_files(section.table) : Table();
    const bool of_attempts = section.title == "attempts";
    auto thing = section.thing;
    all.push_back(std::move(section));
    if (!kept.rows.empty())
      all.push_back(
          {of_attempts ? "kept files" : "files of side runs", std::move(kept), std::move(thing)});
  }
  sections = std::move(all);
}

/// `unknown`: what is wrong with names that name nothing.
Result<std::vector<Reader::Section>> sections_of(const Session& session, std::string& unknown) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  std::vector<Reader::Section> sections;
  for (const auto& name : session.options.names) {
    auto found = reader->show(name);
    if (!found && found.error().kind != FaultKind::invalid_input)
      return tl::unexpected(found.error());
    if (!found) {
      unknown += (unknown.empty() ? "" : "\n") + found.error().what;
      continue;
    }
    std::move(found->begin(), found->end(), std::back_inserter(sections));
  }
  for (auto& section : sections)
    find_folders(session.home, section.table);
  add_kept_files(sections);
  for (auto& section : sections)
    name_files(section.table);
  return sections;
}

Result<ExitCode> run_show(const Session& session) {
  std::string unknown;
  SHARDSWEEP_ASSIGN(const auto sections, sections_of(session, unknown));
  if (!sections.empty())
    SHARDSWEEP_TRY(print_result(sections_text(sections, table_style(session))));
  if (!unknown.empty()) return fault(FaultKind::invalid_input, unknown);
  return ExitCode::done;
}

}  // namespace

Result<std::string> show_html(const Session& session) {
  std::string unknown;
  SHARDSWEEP_ASSIGN(const auto sections, sections_of(session, unknown));
  if (!unknown.empty()) return fault(FaultKind::invalid_input, unknown);
  std::string html;
  for (const auto& section : sections_for_people(sections))
    html += html_table(section.table, section.title);
  return html;
}

extern const Command command_show{.name = "show",
    .heading = Heading::daily,
    .help = "Show trials or sweeps: attempts, causes, files.",
    .examples =
        "shardsweep show my-sweep\n"
        "shardsweep show 4711",
    .declare =
        [](Grammar& grammar) {
          grammar
              .option(
                  "names", grammar.options().names, "NAME", "Sweeps, slugs, attempts or job ids.")
              .required();
          grammar.format();
        },
    .run = run_show};

}  // namespace shardsweep
