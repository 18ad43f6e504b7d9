// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/sweep_folder.hpp"

#include "cli/commands/baseline.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "show/cell_text.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/random.hpp>
#include <shardsweep/results.hpp>
#include <shardsweep/sweep_lines.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view lines_ending = ".jsonl";
constexpr std::string_view file_ending = ".yaml";
constexpr std::string_view baselines_name = "baselines";
constexpr std::size_t most_of_folder = 1000;

Result<void> make_folder(const fs::path& folder) {
  std::error_code why;
  fs::create_directories(folder, why);
  if (!why) return {};
  return fault(FaultKind::unavailable, "{}: {}", folder.string(), why.message());
}

/// Refuses a link in a folder of sweeps. A checkout may hold one, but writing through it would
/// change a file elsewhere, and its contents are in no review.
Result<void> refuse_link(const fs::path& path, std::string_view what) {
  std::error_code none;
  if (!fs::is_symlink(path, none)) return {};
  return fault(FaultKind::invalid_input, "{}: a link, not a {}", path.string(), what);
}

Result<void> write_reviewed(const fs::path& file, const std::string& text) {
  SHARDSWEEP_TRY(refuse_link(file, "file"));
  return write_file_durably(file, text);
}

// ---- export

Result<std::vector<std::string>> sweeps_to_export(Reader& reader, const Options& options) {
  if (!options.names.empty()) return options.names;
  return reader.texts(Listing::exportable_sweeps);
}

Result<std::int64_t> export_baselines(const Session& session, const fs::path& folder) {
  SHARDSWEEP_ASSIGN(const auto names, baseline_names(session));
  if (names.empty()) return 0;
  SHARDSWEEP_TRY(refuse_link(folder, "folder"));
  SHARDSWEEP_TRY(make_folder(folder));
  for (const auto& name : names) {
    SHARDSWEEP_ASSIGN(const Table kept, read_baseline(session, name));
    SHARDSWEEP_TRY(
        write_reviewed(folder / (name + std::string(lines_ending)), baseline_text(kept)));
  }
  return std::ssize(names);
}

// ---- import

Result<std::string> read_reviewed(const fs::path& file, std::size_t& left) {
  SHARDSWEEP_TRY(refuse_link(file, "file"));
  std::error_code why;
  if (!fs::is_regular_file(file, why))
    return fault(FaultKind::invalid_input, "{}: not a regular file", file.string());
  auto text = read_file(file, left);
  if (!text)
    return fault(FaultKind::invalid_input, "{} (a folder may have {} MiB in all)",
        text.error().what, most_bytes_of_lines >> 20U);
  left -= text->size();
  return text;
}

struct ReadSweep {
  LinesToImport from;
  ImportedLines imported;
};
struct ReadFolder {
  std::vector<ReadSweep> sweeps;
  std::vector<std::pair<std::string, std::string>> baselines;  ///< name and text of each
};

Result<std::vector<std::string>> names_with(const fs::path& folder, std::string_view ending) {
  SHARDSWEEP_ASSIGN(
      auto names, names_in_folder(folder, most_of_folder, [&](const std::string& name) {
        return name.size() > ending.size() && name.ends_with(ending);
      }));
  for (auto& name : names)
    name.resize(name.size() - ending.size());
  return names;
}

Result<void> read_baselines(
    const Session& session, const fs::path& folder, std::size_t& left, ReadFolder& read) {
  std::error_code none;
  SHARDSWEEP_TRY(refuse_link(folder, "folder"));
  SHARDSWEEP_ASSIGN(const auto names, names_with(folder, lines_ending));
  for (const auto& name : names) {
    const auto file = folder / (name + std::string(lines_ending));
    SHARDSWEEP_ASSIGN(const auto own, baseline_file(session, name));
    SHARDSWEEP_ASSIGN(const auto text, read_reviewed(file, left));
    SHARDSWEEP_ASSIGN(const Table kept, baseline_from(text, file.string()));
    if (baseline_text(kept) != text)
      return fault(FaultKind::invalid_input, "{}: not in the form that `baseline set` writes",
          file.string());
    if (fs::exists(own, none)) {
      SHARDSWEEP_ASSIGN(const auto here, read_file(own, most_bytes_of_lines));
      if (here != text)
        return fault(FaultKind::invalid_input,
            "{}: the database has another baseline '{}': `shardsweep baseline remove {}` removes "
            "it",
            file.string(), name, name);
      continue;
    }
    read.baselines.emplace_back(name, text);
  }
  return {};
}

/// Refuses what contradicts the database, if there is one.
Result<void> hold_against(const Session& session, const ReadFolder& read) {
  std::error_code none;
  if (!fs::exists(session.home.database, none)) return {};
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto stored, reader->sweeps());
  for (const auto& sweep : read.sweeps) {
    const auto& name = sweep.imported.name;
    const auto known = std::find_if(
        stored.begin(), stored.end(), [&](const SweepRow& one) { return one.name == name; });
    if (known == stored.end()) continue;
    if (known->backend != Backend::imported)
      return fault(FaultKind::invalid_input,
          "{}: '{}' is the name of a sweep that was submitted here: import it under another "
          "--name, or into another --db",
          sweep.from.where, name);
    SHARDSWEEP_ASSIGN(const auto lines, reader->sweep_lines(name));
    SHARDSWEEP_TRY(refuse_other_lines(sweep.from, lines));
  }
  return {};
}

/// Reads all of a folder, and writes the inbox of each sweep into `inbox`.
class FolderReader {
 public:
  FolderReader(const Session& session, const std::string& as, fs::path inbox)
      : session_(session), folder_(session.options.file), as_(as), inbox_(std::move(inbox)) {}

  Result<ReadFolder> all() {
    SHARDSWEEP_ASSIGN(const auto names, names_with(folder_, lines_ending));
    SHARDSWEEP_ASSIGN(const auto files, names_with(folder_, file_ending));
    for (const auto& name : files) {
      if (std::find(names.begin(), names.end(), name) == names.end())
        return fault(FaultKind::invalid_input, "{}: there is no {}{} beside it",
            (folder_ / (name + std::string(file_ending))).string(), name, lines_ending);
    }
    if (!as_.empty() && names.size() != 1)
      return fault(FaultKind::invalid_input, "--name is for one sweep; {} has {}", folder_.string(),
          names.size());
    for (const auto& name : names)
      SHARDSWEEP_TRY(sweep(name, std::find(files.begin(), files.end(), name) != files.end()));
    SHARDSWEEP_TRY(read_baselines(session_, folder_ / baselines_name, left_, read_));
    if (read_.sweeps.empty() && read_.baselines.empty() && names.empty())
      return fault(FaultKind::invalid_input, "{}: there is no sweep in this folder (NAME{})",
          folder_.string(), lines_ending);
    return std::move(read_);
  }

 private:
  Result<void> sweep(const std::string& name, bool has_file) {
    const auto path = folder_ / (name + std::string(lines_ending));
    LinesToImport from{.name = as_, .where = path.string()};
    if (!is_name(name))
      return fault(FaultKind::invalid_input,
          "{}: the file's name is not a valid name of a sweep: {}", from.where, name_rule);
    SHARDSWEEP_ASSIGN(from.lines, read_reviewed(path, left_));
    if (has_file)
      SHARDSWEEP_SET(from.file, read_reviewed(folder_ / (name + std::string(file_ending)), left_));
    const auto number = read_.sweeps.size();
    SHARDSWEEP_ASSIGN(auto imported,
        write_inbox_of_lines(inbox_ / fmt::format("{:04}-{}.db", number, name), from));
    if (as_.empty() && imported.name != name)
      return fault(FaultKind::invalid_input,
          "{}:1: the sweep's name is '{}', which differs from the file's", from.where,
          imported.name);
    read_.sweeps.push_back({std::move(from), std::move(imported)});
    return {};
  }

  const Session& session_;
  fs::path folder_;
  const std::string& as_;
  fs::path inbox_;
  std::size_t left_ = most_bytes_of_lines;
  ReadFolder read_;
};

/// Numbers the inboxes by their last measurement, so that the latest is submitted last: views show
/// the newest software.
Result<void> put_in_order(const ReadFolder& read, const fs::path& inbox) {
  std::vector<std::tuple<Timestamp, std::size_t>> order;
  for (std::size_t i = 0; i < read.sweeps.size(); ++i)
    order.emplace_back(read.sweeps[i].imported.last, i);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto at = std::get<1>(order[i]);
    const auto stem = fs::path(read.sweeps[at].from.where).stem().string();
    std::error_code why;
    fs::rename(
        inbox / fmt::format("{:04}-{}.db", at, stem), inbox / fmt::format("{:04}.db", i), why);
    if (why) return fault(FaultKind::unavailable, "{}: {}", inbox.string(), why.message());
  }
  return {};
}

Result<void> write_baselines(const Session& session, const ReadFolder& read) {
  if (read.baselines.empty()) return {};
  for (const auto& [name, text] : read.baselines) {
    SHARDSWEEP_ASSIGN(const auto file, baseline_file(session, name));
    SHARDSWEEP_TRY(make_folder(file.parent_path()));
    SHARDSWEEP_TRY(write_file_durably(file, text, Readers::owner));
  }
  say("{} imported.", counted(std::ssize(read.baselines), "baseline"));
  return {};
}

Result<ExitCode> import_into(const Session& session, const std::string& as, const fs::path& inbox) {
  SHARDSWEEP_ASSIGN(const auto read, FolderReader(session, as, inbox).all());
  SHARDSWEEP_TRY(hold_against(session, read));
  if (!read.sweeps.empty()) {
    SHARDSWEEP_TRY(put_in_order(read, inbox));
    SHARDSWEEP_TRY(try_inbox(inbox));
    SHARDSWEEP_ASSIGN(
        const Answer answer, ask_writer(session, {.verb = Verb::submit, .inbox = inbox.string()}));
    const auto names =
        join_texts(read.sweeps, ", ", [](const ReadSweep& sweep) { return sweep.imported.name; });
    SHARDSWEEP_TRY(print_result(import_text(names, answer, session.options.format, "files")));
  }
  SHARDSWEEP_TRY(write_baselines(session, read));
  return ExitCode::done;
}

}  // namespace

bool is_sweep_folder(const fs::path& path) {
  std::error_code none;
  return !path.empty() && (path.extension().empty() || fs::is_directory(path, none));
}

Result<ExitCode> export_folder(const Session& session) {
  const Options& options = session.options;
  const fs::path folder = options.file;
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto names, sweeps_to_export(*reader, options));
  SHARDSWEEP_TRY(make_folder(folder));
  std::int64_t trials = 0;
  std::int64_t open = 0;
  for (const auto& name : names) {
    SHARDSWEEP_ASSIGN(const auto sweep, reader->sweep_lines(name));
    SHARDSWEEP_TRY(write_reviewed(folder / (name + std::string(lines_ending)), sweep.lines));
    if (!sweep.file.empty())
      SHARDSWEEP_TRY(write_reviewed(folder / (name + std::string(file_ending)), sweep.file));
    trials += sweep.trials;
    open += sweep.open;
  }
  std::int64_t baselines = 0;
  if (options.names.empty())
    SHARDSWEEP_SET(baselines, export_baselines(session, folder / baselines_name));
  say("Wrote {}: {} of {}, {}.{}", folder.string(), counted(trials, "trial"),
      counted(std::ssize(names), "sweep"), counted(baselines, "baseline"),
      open == 0 ? ""
                : fmt::format(" {} without a result {} left out.", counted(open, "trial"),
                      open == 1 ? "is" : "are"));
  return ExitCode::done;
}

Result<ExitCode> import_folder(const Session& session, const std::string& name) {
  const Options& options = session.options;
  if (!options.where.empty() || !options.asked.cluster.empty() || !options.asked.family.empty())
    return fault(FaultKind::invalid_input,
        "--where, --cluster and --family are for tables. The lines of a folder say what they are.");
  if (!name.empty() && !is_name(name))
    return fault(FaultKind::invalid_input, "--name '{}': {}", name, name_rule);
  SHARDSWEEP_TRY(make_home(session.home));
  const auto inbox = session.home.inbox() / (random_hex(16) + std::string(inboxes_ending));
  SHARDSWEEP_TRY(make_own_folder(inbox));
  auto code = import_into(session, name, inbox);
  remove_inbox(inbox);  // the daemon has, if it was asked
  return code;
}

std::string import_text(
    const std::string& name, const Answer& answer, Format format, std::string_view source) {
  const auto count = [&](const char* key) {
    const auto found = answer.counts.find(key);
    return found == answer.counts.end() ? std::int64_t{0} : found->second;
  };
  const std::vector<Value> row{
      name, count("trials"), count("fresh"), count("known"), count("gone")};
  if (format != Format::table)
    return table_text({{"sweep", "trials", "fresh", "known", "gone"}, {row}}, format);
  return fmt::format("'{}': {} trials, {} new, {} known, {} no longer in the {}\n", name,
      count("trials"), count("fresh"), count("known"), count("gone"), source);
}

}  // namespace shardsweep
