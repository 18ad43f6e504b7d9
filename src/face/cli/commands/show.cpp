// SPDX-License-Identifier: Apache-2.0
// show: trials and sweeps with their attempts, causes and files.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/show_view.hpp"

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
  const auto found = std::find(table.columns.begin(), table.columns.end(), "dir");
  if (found == table.columns.end()) return;
  const auto at = static_cast<std::size_t>(found - table.columns.begin());
  *found = "files";
  for (auto& row : table.rows) {
    const auto* dir = std::get_if<std::string>(&row[at]);
    if (dir == nullptr || dir->empty()) continue;
    std::error_code ignored;
    const auto pack = *dir + ".tar";
    if (std::filesystem::exists(pack, ignored)) {
      row[at] = pack;
    } else if (!std::filesystem::exists(*dir, ignored)) {
      row[at] = Value();
    }
  }
}

Result<ExitCode> run_show(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  std::vector<Reader::Section> sections;
  std::string unknown;
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
    name_files(section.table);
  if (!sections.empty())
    SHARDSWEEP_TRY(print_result(sections_text(sections, table_style(session))));
  if (!unknown.empty()) return fault(FaultKind::invalid_input, unknown);
  return ExitCode::done;
}

}  // namespace

extern const Command command_show{.name = "show",
                                  .heading = Heading::daily,
                                  .help = "Show trials or sweeps: attempts, causes, files.",
                                  .examples =
                                      "shardsweep show my-sweep\n"
                                      "shardsweep show 4711",
                                  .declare =
                                      [](Grammar& grammar) {
                                        grammar
                                            .option("names", grammar.options().names, "NAME",
                                                    "Sweeps, slugs, attempts or job ids.")
                                            .required();
                                        grammar.format();
                                      },
                                  .run = run_show};

}  // namespace shardsweep
