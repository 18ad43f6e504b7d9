// SPDX-License-Identifier: Apache-2.0
// doctor: what a sweep needs of this machine, of its home and of a cluster, before it is
// needed.

#include "cli/commands/doctor.hpp"

#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "slurm/words/script.hpp"
#include "slurm/words/settings.hpp"
#include "text/secrets.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/attempt_files.hpp>
#include <shardsweep/backends.hpp>
#include <shardsweep/bundle.hpp>
#include <shardsweep/command.hpp>
#include <shardsweep/copied.hpp>
#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/random.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

/// One finding of `doctor`.
struct Finding {
  std::string check;
  std::string status;  ///< ok, note, bad
  std::string detail;
};

struct DoctorOptions {
  bool on_a_node = false;
};

Finding program_runs(const std::string& what, const fs::path& program) {
  const auto output = run_command({program.string(), "--version"}, {});
  if (!output) return {what, "bad", output.error().what};
  if (output->exit_code != 0) {
    return {what, "bad",
        fmt::format("'{} --version' ended with {}", program.string(), output->exit_code)};
  }
  return {what, "ok",
      fmt::format("{} ({})", output->out.substr(0, output->out.find('\n')), program.string())};
}

Finding job_template(const Session& session) {
  const auto found = read_job_template(session.installation.templates, "lane.sbatch");
  if (!found) return {"templates", "bad", found.error().what};
  return {"templates", "ok", found->where()};
}

Finding presets_found(const Session& session) {
  const fs::path& folder = session.installation.presets;
  std::size_t built_in = 0;
  std::size_t own = 0;
  for (const auto kind : {PresetKind::model, PresetKind::cluster}) {
    for (const std::string& name : preset_names(folder, kind)) {
      const auto found = read_preset(folder, kind, name);
      if (!found) return {"presets", "bad", found.error().what};
      ++(found->file.empty() ? built_in : own);
    }
  }
  const std::string beside = own == 0 ? "" : fmt::format("{} in {}, ", own, folder.string());
  return {"presets", "ok", fmt::format("{}{} built in", beside, built_in)};
}

/// Locks and WAL are only sure if the kernel itself keeps the files.
Finding file_system_of(const Home& home) {
  struct statfs info = {};
  fs::path folder = home.database.parent_path();
  std::error_code ignored;
  while (!folder.empty() && !fs::exists(folder, ignored))
    folder = folder.parent_path();
  if (::statfs(folder.c_str(), &info) != 0) {
    return {"home's file system", "bad", "cannot be asked: " + folder.string()};
  }
  constexpr std::uint64_t nfs = 0x6969;
  constexpr std::uint64_t lustre = 0x0BD00BD0;
  const auto magic = static_cast<std::uint64_t>(info.f_type);
  const double free_gib =
      static_cast<double>(info.f_bavail) * static_cast<double>(info.f_bsize) / (1 << 30);
  if (free_gib < 1) {
    return {"home's file system", "bad",
        fmt::format("{:.2f} GiB free in {}", free_gib, folder.string())};
  }
  const char* kind = magic == nfs ? "NFS: the database uses a rollback journal"
      : magic == lustre           ? "Lustre: needs the mount option flock for the daemon's lock"
                                  : "";
  return {"home's file system", *kind == '\0' ? "ok" : "note",
      fmt::format("{:.0f} GiB free in {} {}", free_gib, folder.string(), kind)};
}

Finding home_writable(const Home& home) {
  if (const auto made = make_home(home); !made) return {"home", "bad", made.error().what};
  return {"home", "ok", home.dir().string()};
}

Finding database_state(const Session& session) {
  std::error_code ignored;
  if (!fs::exists(session.home.database, ignored)) {
    return {"database", "ok", session.home.database.string() + " (made by the first submit)"};
  }
  const auto reader = Reader::open(session.home.database);
  if (!reader) return {"database", "bad", reader.error().what};
  const auto check = (*reader)->count({});
  if (!check) return {"database", "bad", check.error().what};
  return {"database", "ok", session.home.database.string()};
}

Finding daemon_state(const Session& session) {
  if (const auto pid = lock_holder(session.home.lock())) {
    const std::string other = other_version_of_holder(session.home.lock());
    return {"daemon", other.empty() ? "ok" : "note",
        fmt::format("pid {}, log {}{}", *pid, session.home.log().string(),
            other.empty() ? "" : ", of version " + other)};
  }
  return {"daemon", "ok", "none runs; submit, run and resume start one"};
}

/// systemd may end the processes of a user who logs out; a daemon is one of them.
Finding outlives_login() {
  std::error_code ignored;
  if (!fs::exists("/run/systemd/system", ignored)) {
    return {"after logout", "ok", "this machine has no systemd, so a logout ends no process"};
  }
  const auto output = run_command({"loginctl", "show-user", "--property=Linger", "--value"}, {});
  if (output && output->exit_code == 0 && output->out.rfind("yes", 0) == 0) {
    return {"after logout", "ok", "lingering is on"};
  }
  return {"after logout", "note",
      "a daemon ends at logout if logind has KillUserProcesses=yes. Use 'loginctl enable-linger', "
      "'shardsweep tick' from cron, or 'shardsweep daemon --in-slurm'. Nodes must see the home for "
      "--in-slurm: --on-a-node checks it."};
}

/// Findings from scontrol's settings of the cluster, and what follows for us.
std::vector<Finding> slurm_settings() {
  const auto output = run_command({"scontrol", "show", "config"}, {});
  if (!output || output->exit_code != 0) {
    return {{"slurm", "bad", "'scontrol show config' does not answer"}};
  }
  const auto settings = slurm::parse_settings(output->out);
  if (!settings) return {{"slurm", "bad", settings.error().what}};
  std::vector<Finding> findings{{"slurm", "ok",
      fmt::format("{} {}, MaxJobCount {}, MaxArraySize {}", settings->cluster, settings->version,
          settings->max_jobs, settings->max_array_size)}};
  const double look_s = Policy{}.look_s;
  if (settings->accounting) {
    findings.push_back({"accounting", "ok", "on: ended jobs can be looked up"});
  } else {
    const bool seldom = settings->min_job_age_s < 2 * look_s;
    findings.push_back({"accounting", seldom ? "bad" : "note",
        fmt::format("off: ended jobs can be looked up only for MinJobAge = {:g} s{}",
            settings->min_job_age_s,
            seldom
                ? fmt::format("; set slurm.look to less than {:g} s", settings->min_job_age_s / 2)
                : "; measurements of older jobs are read from their files")});
  }
  findings.push_back({"dead nodes", settings->slurmd_timeout_s > 600 ? "note" : "ok",
      fmt::format("Slurm notices a dead node after {:g} s, shardsweep after {:g} s",
          settings->slurmd_timeout_s, Policy{}.lane.node_lease_s)});
  return findings;
}

/// MaxSubmitJobs of our associations: beyond it sbatch refuses, and we wait.
Finding submit_limit() {
  const auto output =
      run_command({"sacctmgr", "--noheader", "--parsable2", "show", "associations", "where",
                      "user=" + user_name(), "format=account,maxsubmitjobs"},
          {});
  if (!output || output->exit_code != 0) {
    return {"submit limit", "note", "unknown: sacctmgr does not answer"};
  }
  std::string limits;
  for (std::size_t at = 0; at < output->out.size();) {
    const std::size_t end = output->out.find('\n', at);
    const std::string line = output->out.substr(at, end - at);
    at = end == std::string::npos ? output->out.size() : end + 1;
    const std::size_t bar = line.find('|');
    if (bar == std::string::npos || bar + 1 == line.size()) continue;
    limits += fmt::format("{}{} jobs for account '{}'", limits.empty() ? "" : ", ",
        line.substr(bar + 1), line.substr(0, bar));
  }
  return {"submit limit", "ok", limits.empty() ? "your accounts set no MaxSubmitJobs" : limits};
}

std::vector<Finding> slurm_findings(const SiteSpec& site) {
  if (!site.rest.url.empty()) {
    return {{"slurm", "note",
        "by slurmrestd at " + site.rest.url + ": not checked here, the daemon asks it"}};
  }
  if (find_on_path("sbatch").empty()) return {{"slurm", "note", "no sbatch on PATH"}};
  if (const auto probed = probe_slurm(); !probed) return {{"slurm", "bad", probed.error().what}};
  auto findings = slurm_settings();
  findings.push_back(submit_limit());
  return findings;
}

/// A job of one node reads a file that we have just written and runs what an allocation runs.
Finding job_on_a_node(const Session& session, const SiteSpec& site) {
  const fs::path probe = session.home.dir() / fmt::format("doctor.{}", random_hex(8));
  const std::string word = random_hex(16);
  if (const auto written = write_own_file(probe, word + "\n"); !written)
    return {"a node", "bad", written.error().what};
  const std::string script = fmt::format("set -e; cat {}; {} --version; {} --version",
      shell_quote(probe.string()), shell_quote(session.installation.agent.string()),
      shell_quote(session.installation.runner.string()));
  const auto output = run_on_a_node(session, site, script);
  std::error_code ignored;
  fs::remove(probe, ignored);
  if (!output) return {"a node", "bad", output.error().what};
  if (output->compare(0, word.size(), word) == 0)
    return {"a node", "ok", "the node sees your home and runs the agent and shardbench"};
  return {"a node", "bad", "the job failed: " + output->substr(0, 400)};
}

std::vector<Finding> all_findings(const Session& session, const SiteSpec& site) {
  std::vector<Finding> findings{
      program_runs("agent", session.installation.agent),
      program_runs("shardbench", session.installation.runner),
      job_template(session),
      presets_found(session),
      home_writable(session.home),
      file_system_of(session.home),
      database_state(session),
      daemon_state(session),
      outlives_login(),
  };
  for (Finding& finding : slurm_findings(site))
    findings.push_back(std::move(finding));
  return findings;
}

Table findings_table(const std::vector<Finding>& findings) {
  Table table{{"check", "status", "detail"}, {}};
  for (const Finding& finding : findings)
    table.rows.push_back({finding.check, finding.status, finding.detail});
  return table;
}

Result<ExitCode> run_doctor(const Session& session) {
  SHARDSWEEP_ASSIGN(const SiteAccess access, read_site(session));
  auto findings = all_findings(session, access.site);
  for (const std::string& note : access.notes)
    findings.push_back({"site file", "note", note});
  if (session.options.of<DoctorOptions>().on_a_node)
    findings.push_back(job_on_a_node(session, access.site));
  const Table table = findings_table(findings);
  const bool healthy = std::none_of(findings.begin(), findings.end(),
      [](const Finding& finding) { return finding.status == "bad"; });
  SHARDSWEEP_TRY(
      print_result(table_text(table, table_style(session, {"check", "status", "detail"}))));
  return healthy ? ExitCode::done : ExitCode::failed;
}

}  // namespace

Table doctor_table(const Session& session, const SiteSpec& site) {
  return findings_table(all_findings(session, site));
}

extern const Command command_doctor{.name = "doctor",
    .help = "Check this installation, its home and its backends.",
    .examples =
        "shardsweep doctor\n"
        "shardsweep doctor --on-a-node",
    .declare =
        [](Grammar& grammar) {
          grammar.format();
          grammar.site();
          grammar.flag("--on-a-node", grammar.own<DoctorOptions>().on_a_node,
              "Submit a small job that checks the home and shardbench on a node.");
        },
    .run = run_doctor};

// bundle: what a bug report needs, in one text file that can be shown to others.

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
