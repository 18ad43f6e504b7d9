// SPDX-License-Identifier: Apache-2.0
#include "text/characters.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/bundle.hpp>
#include <shardsweep/stop_report.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_reports = 100;
constexpr std::size_t longest_line = 2000;
constexpr std::string_view report_ending = ".txt";
constexpr std::string_view note_ending = ".new";

/// Names begin with the time: in order they are in the order of time.
std::vector<fs::path> files_with(const Home& home, std::string_view ending) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(home.faults(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ending) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string text_of(const StopReport& report, const Secrets& secrets) {
  const std::string head = fmt::format(
      "shardsweep's daemon stopped here: it found that something does not hold on which its\n"
      "next step depends. That is a defect of shardsweep. Please attach this file to a bug\n"
      "report. Nothing was stored since the last commit, and the next daemon goes on from "
      "there.\n\n"
      "place      {}\nmust hold  {}\ncondition  {}\nvalues     {}\nsweep      {}\n"
      "time       {}\nversion    {}\n",
      report.place, report.what, one_line(report.condition, longest_line),
      report.values.empty() ? "none" : one_line(report.values, longest_line),
      report.sweep == 0 ? std::string("not known")
                        : fmt::format("{} ({})", report.sweep_name, report.sweep),
      utc_in_sentence(report.at), version_and_system());
  std::string events;
  for (const std::string& event : report.events)
    events += one_line(event, longest_line) + "\n";
  return bundle_text(
      head, {{"What was observed and decided last, the oldest first", std::move(events)}}, secrets);
}

std::optional<StopNote> read_note(const fs::path& path) {
  const auto text = read_own_file(path, std::size_t{64} << 10);
  if (!text) return std::nullopt;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text->size();) {
    const auto end = std::min(text->find('\n', at), text->size());
    lines.push_back(text->substr(at, end - at));
    at = end + 1;
  }
  if (lines.size() < 3) return std::nullopt;
  StopNote note{.file = path.parent_path() / path.stem().concat(report_ending),
      .place = lines[0],
      .what = lines[2]};
  const char* end = lines[1].data() + lines[1].size();
  if (std::from_chars(lines[1].data(), end, note.sweep).ptr != end) return std::nullopt;
  return note;
}

void drop_oldest(const Home& home) {
  auto reports = files_with(home, report_ending);
  if (reports.size() <= most_reports) return;
  reports.resize(reports.size() - most_reports);
  std::error_code ignored;
  for (const fs::path& one : reports)
    fs::remove(one, ignored);
}

}  // namespace

Result<std::string> write_stop(const Home& home, const StopReport& report) {
  SHARDSWEEP_TRY(make_own_folder(home.faults()));
  const fs::path base = home.faults() / fmt::format("{:020}-{}", report.at, ::getpid());
  fs::path file = base;
  file.concat(report_ending);
  fs::path note = base;
  note.concat(note_ending);
  // Secrets that can't be read are unknown to this process, so the report has none of them.
  const auto secrets = read_secrets(home.secrets_of(report.sweep_name));
  SHARDSWEEP_TRY(write_own_file(file, text_of(report, secrets.value_or(Secrets()))));
  SHARDSWEEP_TRY(write_own_file(note,
      fmt::format(
          "{}\n{}\n{}\n", report.place, report.sweep, one_line(report.what, longest_line))));
  drop_oldest(home);
  return file.string();
}

std::vector<StopNote> untold_stops(const Home& home) {
  std::vector<StopNote> notes;
  for (const fs::path& path : files_with(home, note_ending)) {
    if (auto note = read_note(path)) notes.push_back(std::move(*note));
  }
  return notes;
}

void forget_note(const StopNote& note) {
  std::error_code ignored;
  fs::remove(fs::path(note.file).replace_extension(note_ending), ignored);
}

bool has_stopped(const Home& home) {
  return !files_with(home, report_ending).empty();
}

}  // namespace shardsweep
