// SPDX-License-Identifier: Apache-2.0
// bundle: what a bug report needs, in one text file that can be shown to others.
#include "cli/command.hpp"
#include "cli/commands/doctor.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "text/secrets.hpp"

#include <shardsweep/attempt_files.hpp>
#include <shardsweep/bundle.hpp>
#include <shardsweep/copied.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

struct BundleOptions {
  std::string sweep;
};

constexpr std::uint64_t most_log_bytes = 32 << 10;  // bytes at the end of one log
constexpr std::size_t most_logs = 16;               // logs of attempts that failed last

constexpr std::array<std::pair<const char*, Listing>, 7> listings{{
    {"Sweep", Listing::bundle_sweep},
    {"Trials by state and outcome", Listing::bundle_counts},
    {"Trials that have not completed", Listing::bundle_incomplete_trials},
    {"Allocations", Listing::bundle_allocations},
    {"Attempts", Listing::bundle_attempts},
    {"Nodes in question", Listing::bundle_nodes},
    {"Events", Listing::bundle_events},
}};

/// The end of a file; empty if it can't be read, since most of them need not be there.
std::string end_of(const AttemptFile& file) {
  const auto reader = AttemptFileReader::open(file);
  const auto size = reader ? reader->size() : Result<std::uint64_t>(0);
  if (!size) return {};
  const std::uint64_t from = *size > most_log_bytes ? *size - most_log_bytes : 0;
  auto text = reader ? reader->read(from, most_log_bytes) : Result<std::string>();
  if (!text || from == 0) return text.value_or("");
  // Half a line may have half a secret.
  return text->substr(std::min(text->find('\n'), text->size() - 1) + 1);
}

void add_file(std::vector<BundlePart>& parts, const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return;
  parts.push_back(
      {path.string(), end_of({.name = path.filename().string(), .path = path, .size = size})});
}

/// Reports of daemons that stopped here; their names begin with the time.
void add_stops(const Session& session, std::vector<BundlePart>& parts) {
  constexpr std::ptrdiff_t most_stops = 2;
  std::vector<fs::path> reports;
  std::error_code error;
  for (fs::directory_iterator entry(session.home.faults(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".txt") reports.push_back(entry->path());
  }
  std::sort(reports.rbegin(), reports.rend());
  std::for_each_n(reports.begin(), std::min(most_stops, std::ssize(reports)),
      [&](const fs::path& report) { add_file(parts, report); });
}

/// Adds the logs of the daemon, of the last leads, and of ranks whose attempts failed last.
Result<void> add_logs(
    const Session& session, Reader& reader, SweepId sweep, std::vector<BundlePart>& parts) {
  add_file(parts, session.home.log());
  add_file(parts, session.home.trouble());
  add_stops(session, parts);
  SHARDSWEEP_ASSIGN(const auto leads, reader.texts(Listing::bundle_job_folders, {sweep}));
  for (const std::string& dir : leads)
    add_file(parts, AllocationPaths{folder_here(session.home, dir)}.log());
  SHARDSWEEP_ASSIGN(const auto attempts, reader.texts(Listing::bundle_attempt_folders, {sweep}));
  std::size_t logs = 0;
  for (const std::string& named : attempts) {
    const auto dir = folder_here(session.home, named);
    const auto files = list_attempt_files({dir});
    if (!files) continue;
    for (const AttemptFile& file : *files) {
      if (!rank_of_log(file.name) || file.size == 0 || logs++ >= most_logs) continue;
      parts.push_back({fmt::format("{}/{}", dir.string(), file.name), end_of(file)});
    }
  }
  return {};
}

/// Secrets of this sweep, and secrets of the shell: a program may have printed either.
Result<Secrets> known_secrets(const Session& session, const std::string& sweep) {
  SHARDSWEEP_ASSIGN(Secrets secrets, read_secrets(session.home.secrets_of(sweep)));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.size() == text.size()) continue;
    const std::string_view value = text.substr(name.size() + 1);
    if (is_secret(name, value)) secrets.emplace(name, value);
  }
  return secrets;
}

Result<std::string> make_bundle(const Session& session, const std::string& name) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto sweeps, reader->status({name}));
  if (sweeps.size() != 1) return fault(FaultKind::invalid_input, "'{}' is not one sweep.", name);
  const SweepId id = sweeps.front().id;
  SHARDSWEEP_ASSIGN(const SiteAccess access, read_site(session));
  SHARDSWEEP_ASSIGN(Secrets secrets, known_secrets(session, name));
  secrets.insert(access.secrets.begin(), access.secrets.end());
  std::vector<BundlePart> parts{
      {"doctor", table_text(doctor_table(session, access.site), Format::csv)}};
  SHARDSWEEP_ASSIGN(const std::string resolved, reader->resolved(name));
  parts.push_back({"Sweep file", without_secret_values(resolved), false});
  for (const auto& [title, listing] : listings) {
    SHARDSWEEP_ASSIGN(const Table table,
        listing == Listing::bundle_nodes ? reader->list(listing) : reader->list(listing, {id}));
    parts.push_back({title, table_text(table, Format::csv)});
  }
  SHARDSWEEP_TRY(add_logs(session, *reader, id, parts));
  return bundle_text(
      fmt::format("What a bug report about the sweep '{}' needs. Values of secrets are hidden; "
                  "host names, paths and the ends of logs are here.\n\nversion    {}\n",
          name, version_and_system()),
      parts, secrets);
}

Result<ExitCode> run_bundle(const Session& session) {
  SHARDSWEEP_ASSIGN(
      const std::string text, make_bundle(session, session.options.of<BundleOptions>().sweep));
  return deliver(text, session.options.out, Readers::owner);
}

}  // namespace

extern const Command command_bundle{.name = "bundle",
    .heading = Heading::other,
    .help = "Write what a bug report needs as one file, without secrets.",
    .examples = "shardsweep bundle my-sweep -o bundle.txt",
    .declare =
        [](Grammar& grammar) {
          grammar.option("sweep", grammar.own<BundleOptions>().sweep, "SWEEP", "Name of the sweep.")
              .required();
          grammar.option("-o,--output", grammar.options().out, "FILE",
              "File to write, for its owner alone. Default: standard output.");
          grammar.site();
        },
    .run = run_bundle};

}  // namespace shardsweep
