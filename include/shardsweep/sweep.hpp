// SPDX-License-Identifier: Apache-2.0
// The three files as values: sweep (shared, committed), cluster (model.hpp), site (yours
// alone).
#pragma once

#include <shardsweep/backend.hpp>
#include <shardsweep/cause.hpp>
#include <shardsweep/container.hpp>
#include <shardsweep/described.hpp>
#include <shardsweep/library_gaps.hpp>
#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/policy.hpp>
#include <shardsweep/remeasure.hpp>
#include <shardsweep/search.hpp>
#include <shardsweep/side_run.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

/// Position of a value in a user's file; line and column count from 1, 0 if unknown.
struct SourcePosition {
  std::string file;
  int line = 0;
  int column = 0;
  friend bool operator==(const SourcePosition&, const SourcePosition&) = default;
};

/// The values one axis takes. `automatic`: derived from the others; `values` is empty then.
struct AxisValues {
  const AxisInfo* axis = nullptr;
  bool automatic = false;
  std::vector<std::int64_t> values;
  friend bool operator==(const AxisValues&, const AxisValues&) = default;
};

/// A free axis: it reaches template, environment, results and filters, not the planner.
struct VarValues {
  std::string name;
  std::vector<std::string> values;
  friend bool operator==(const VarValues&, const VarValues&) = default;
};

/// Axes that advance together; all lists have one length.
struct ZipGroup {
  std::vector<AxisValues> axes;
  friend bool operator==(const ZipGroup&, const ZipGroup&) = default;
};

/// A hand-picked point. An axis that it does not set comes from the constants, which hold every
/// axis that is neither in `axes` nor in a zip, then from the axis's default; `nodes` here
/// takes the place of a constant `gpus`, and the other way round. Where `dp` varies, a point
/// without it has it automatic, and so `grad_accum` if there is a global batch. A var that
/// it does not set takes each of its values.
struct PartialPoint {
  std::vector<AxisValues> settings;  ///< one value each, or automatic
  std::vector<std::pair<std::string, std::string>> vars;
  SourcePosition position;
  friend bool operator==(const PartialPoint&, const PartialPoint&) = default;
};

struct ExcludeRule {
  std::string when;  ///< an SQL expression over axes, vars and model columns
  std::string why;   ///< may be empty
  SourcePosition position;
  friend bool operator==(const ExcludeRule&, const ExcludeRule&) = default;
};

/// Control that every allocation runs first and last, on all its slots (fleet/control.hpp).
struct ControlSpec {
  /// Layout without a world; none: no layout. Vars that it does not set take their first value.
  std::optional<PartialPoint> layout;
  /// Allocations of at least so many nodes time an all-reduce over all ranks; 0: none does.
  std::int32_t network_from = 0;

  [[nodiscard]] bool probes_network(std::int32_t nodes, std::int32_t slots) const {
    return network_from > 0 && nodes >= network_from && nodes * slots > 1;
  }
  [[nodiscard]] bool runs_on(std::int32_t nodes, std::int32_t slots) const {
    return layout.has_value() || probes_network(nodes, slots);
  }
  friend bool operator==(const ControlSpec&, const ControlSpec&) = default;
};

struct Measure {
  std::int32_t warmup = 3;
  std::int32_t steps = 10;
  std::int32_t first = 0;         ///< timed steps of each trial, before its finals; 0: `steps`
  std::int32_t repeats = 1;       ///< trials of each point
  std::int32_t finalists = 0;     ///< layouts of a cell that its finals run again; 0: no finals
  std::int32_t final_rounds = 0;  ///< rounds of finals; 0: until all is resolved
  double resolve = 0.01;          ///< a difference of less does not matter
  std::int32_t node_sets = 1;     ///< number of sets of nodes on which a choice is confirmed, one
                                  ///< by one
  /// `first` of a search with finals that leaves it open.
  static constexpr std::int32_t first_of_search = 3;
  /// `finalists` if one is proposed.
  static constexpr std::int32_t usual_finalists = 3;
  /// A finalist is at most so much slower than its cell's fastest: runs of one layout in two
  /// allocations differ by a few percent.
  static constexpr double slower_at_most = 0.1;
  /// Timed steps of a trial that is no run of finals.
  [[nodiscard]] constexpr std::int32_t steps_of_trial() const { return first > 0 ? first : steps; }
  /// Settings of a trial that is no run of finals, and of a sweep that has no finals.
  [[nodiscard]] constexpr Measure without_finals() const {
    return {.warmup = warmup, .steps = steps_of_trial(), .repeats = repeats};
  }
  /// Upper limit of how many times longer a run in the finals takes than a trial.
  [[nodiscard]] constexpr double finals_longer() const {
    return static_cast<double>(warmup + steps) / (warmup + steps_of_trial());
  }
  friend bool operator==(const Measure&, const Measure&) = default;
};
static_assert(Measure::first_of_search == 3 && Measure::slower_at_most == 0.1,
    "the meanings of 'first' and 'finalists' say so");
// clang-format off
template <>
inline constexpr auto described<Measure> = Entries{
    Key{"warmup", &Measure::warmup, {KeyType::count, "train steps before the timed ones", 0, 1'000'000}},
    Key{"steps", &Measure::steps, {KeyType::count, "timed train steps", 1, 1'000'000}},
    Key{"first", &Measure::first, {KeyType::count, "timed train steps of each trial in place of 'steps', which the finals then run; needs 'finalists', and is 3 in a search that has them; 0: all", 0, 1'000'000}, Flag::optional},
    Key{"repeats", &Measure::repeats, {.meaning = "trials of each point, a search needs 1; with 'finalists' the rounds of the finals, by default until_resolved", .takes = "a whole number or until_resolved"}},
    Key{"finalists", &Measure::finalists, {KeyType::count, "layouts of each cell, at most 10 % slower than its fastest, that run again in one allocation when the cell has ended; without it none do", 2, 16, {}, "a whole number from 2"}},
    Key{"node_sets", &Measure::node_sets, {KeyType::count, "by default 1: sets of nodes that a choice of finals is held against; from 2 on the first two layouts of a cell run once more on other nodes", 1, 4, {}, {}, ""}},
    Key{"resolve", &Measure::resolve, {.type = KeyType::percent, .meaning = "a difference of less does not matter, by default 1%; ends finals", .otherwise = ""}},
};
// clang-format on

/// A trainer as it is: started by its own command line, measured by its log.
struct TrainerSpec {
  std::vector<std::string> argv;      ///< words with placeholders; empty: none
  std::string log;                    ///< trainer whose log it prints; empty: `patterns` alone
  std::vector<std::string> patterns;  ///< further lines of its log
  bool per_node = false;              ///< one process on each node starts the ranks itself
  std::string directory;              ///< working folder, with placeholders
  /// Files of each attempt: a name in its folder, and a text with placeholders.
  std::map<std::string, std::string> files;
  std::string version;
  std::vector<std::string> unchecked;  ///< truth checks of its log that are left out
  /// Axes of one value that the program sets by itself, without its command line.
  std::vector<std::string> told;
  /// User's trainer file with the words for a layout, as long as the sweep file is at hand: it is
  /// neither stored nor compared.
  std::string words{};
  /// Name of the trainer in whose words it is told a layout (trainer_file.hpp).
  [[nodiscard]] const std::string& told_as() const { return words.empty() ? log : words; }
  [[nodiscard]] auto tied() const {
    return std::tie(argv, log, patterns, per_node, directory, files, version, unchecked, told);
  }
  friend bool operator==(const TrainerSpec& a, const TrainerSpec& b) {
    return a.tied() == b.tied();
  }
};

/// Profile of a shardbench without any trainer's habits (runner/README.md).
inline constexpr std::string_view own_profile = "own";

/// Copy that a sweep keeps of the tree that its programs are in.
enum class SnapshotKind : std::uint8_t {
  none,  ///< programs are started where they are
  copy,  ///< the tree as it is
  git,   ///< files that git tracks, with changes that are not committed
};
inline constexpr std::array<std::string_view, 3> snapshot_words{"none", "copy", "git"};

struct RunnerSpec {
  std::string name = "shardbench";  ///< empty: the file names a program and gives no name
  std::string program;  ///< absolute path, or a name beside our own executable; empty: default
  std::vector<std::string> args;     ///< appended to the flags that the layout gives
  TrainerSpec trainer;               ///< trainer in place of a program that keeps to our contract
  std::string profile{own_profile};  ///< a trainer whose habits shardbench takes on
  bool gives_up = false;             ///< takes --give-up-above, and ends early by itself
  /// The user's own programs by absolute path, with the hashes of their content when the sweep
  /// was submitted.
  std::map<std::string, std::string> programs{};
  SnapshotKind snapshot = SnapshotKind::none;
  // Snapshot that was taken at submission; empty: there is none.
  std::string snapshot_hash{};
  std::string snapshot_root{};  ///< the folder that it was taken of
  /// Name as far as the sweep file tells it: without `name` it is the program's file name. The
  /// program's own name (Capabilities) is known when a sweep is submitted.
  [[nodiscard]] std::string_view known_as() const {
    if (!name.empty()) return name;
    if (is_trainer() && !trainer.log.empty()) return trainer.log;
    const std::string_view path = is_trainer() ? trainer.argv.front() : program;
    return path.substr(path.rfind('/') + 1);
  }
  [[nodiscard]] bool is_trainer() const { return !trainer.argv.empty(); }
  [[nodiscard]] bool is_shardbench() const { return known_as().starts_with("shardbench"); }
  friend bool operator==(const RunnerSpec&, const RunnerSpec&) = default;
};

/// A sweep file, checked and with every default filled in.
struct SweepSpec {
  std::string name;
  ClusterSpec cluster;
  std::vector<ModelSpec> models;
  std::vector<AxisValues> axes;  ///< the product's axes, in the file's order
  /// One value each, or automatic: the file's own, then the defaults of all others (but
  /// `model`, `nodes` and `gpus`, which have none).
  std::vector<AxisValues> constants;
  std::vector<ZipGroup> zips;
  std::vector<PartialPoint> points;
  ControlSpec control;
  std::vector<VarValues> vars;
  std::vector<ExcludeRule> excludes;
  std::optional<std::int64_t> global_batch_tokens;  ///< global batch in tokens; at most one of
                                                    ///< these two is set
  std::optional<std::int64_t> global_batch_samples;
  Measure measure;
  RunnerSpec runner;
  std::map<std::string, std::string> env;  ///< reaches every rank, recorded
  /// Reaches every rank, and its values are recorded nowhere: identities have the names alone,
  /// and a sweep that was stored has its values in a file (secrets_file.hpp) and texts that are
  /// empty here. The reader moves whatever may_be_secret() from `env` to it.
  std::map<std::string, std::string> secrets{};
  /// Variables of the submitting shell that reach every rank as secrets do: names, or their
  /// beginnings with a star.
  std::vector<std::string> pass_env{};
  ContainerSpec container;   ///< container in which ranks run
  std::vector<Cause> rules;  ///< causes that lines of the ranks' output mean
  Policy policy;
  SearchSettings search;
  SideRuns side_runs;
  Remeasure remeasure;
  /// Ranks of the fastest predicted layouts run alone on one GPU before anything else does.
  bool prove = false;
  /// The sweep that this one proves: each trial is one rank of one of its layouts; empty: none.
  std::string proof_of;
  SourcePosition position;

  /// False if there are hand-picked points alone: nothing varies, so the product would be one
  /// unwanted point more.
  [[nodiscard]] bool has_product() const {
    const auto varies = [](const AxisValues& values) { return !values.automatic; };
    return std::any_of(axes.begin(), axes.end(), varies) || !zips.empty() || points.empty();
  }
  friend bool operator==(const SweepSpec&, const SweepSpec&) = default;
};

/// A value of an sbatch option for allocations of `from` to `to` nodes.
struct SlurmValue {
  std::int32_t from = 1;
  std::int32_t to = std::numeric_limits<std::int32_t>::max();
  std::string value;  ///< empty: an option that takes none
  friend bool operator==(const SlurmValue&, const SlurmValue&) = default;
};

/// True for https, and for http to this very machine: third parties can't read either.
[[nodiscard]] constexpr bool keeps_secrets(std::string_view url) {
  constexpr std::string_view https = "https://";
  constexpr std::string_view http = "http://";
  if (url.starts_with(https)) return url.size() > https.size() && url[https.size()] != '/';
  if (!url.starts_with(http)) return false;
  const std::string_view rest = url.substr(http.size());
  std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  // user@evil.example:80 and 127.0.0.1.evil.example are not this machine.
  if (host.find('@') != std::string_view::npos) return false;
  host =
      host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

/// How slurmrestd is reached; without a URL Slurm's commands are used.
struct RestSettings {
  std::string url;          ///< http://host:port, https://host or unix:/path
  std::string token_file;   ///< mode 0600; empty: `scontrol token` (a unix socket needs none)
  std::string user;         ///< empty: who runs the daemon
  bool plain_http = false;  ///< the token may go to another machine unencrypted
  std::string ca_file;      ///< certificates of the site's own authority; empty: this machine's
  [[nodiscard]] auto tied() const { return std::tie(url, token_file, user, plain_http, ca_file); }
  friend bool operator==(const RestSettings&, const RestSettings&) = default;
  friend auto operator<=>(const RestSettings& a, const RestSettings& b) {
    return compared(a.tied(), b.tied());
  }
};
// clang-format off
template <>
inline constexpr auto described<RestSettings> = Entries{
    Key{"url", &RestSettings::url, {.meaning = "http://host:port, https://host or unix:/path", .takes = "an address"}},
    Key{"ca_file", &RestSettings::ca_file, {.meaning = "certificates of the site's own authority, as PEM", .takes = "an absolute path", .otherwise = "what this machine trusts"}, Flag::optional},
    Key{"plain_http", &RestSettings::plain_http, {KeyType::boolean, "the token may go unencrypted to another machine"}, Flag::optional},
    Key{"token_file", &RestSettings::token_file, {.meaning = "file with the token, mode 0600", .takes = "an absolute path", .otherwise = "scontrol token"}, Flag::optional},
    Key{"user", &RestSettings::user, {.type = KeyType::name, .meaning = "user of the requests", .otherwise = "you"}, Flag::optional},
};
// clang-format on

/// Events that a webhook may be told.
enum class NotifyEvent : std::uint8_t { sweep_ended, stalled, node_quarantined, blind, regression };
inline constexpr std::array<std::string_view, 5> notify_words{
    "sweep_ended", "stalled", "node_quarantined", "blind", "regression"};

/// Settings of notices; without an address none are sent.
struct NotifySettings {
  std::string url;          ///< address that is no secret, or
  std::string url_file;     ///< absolute path of a file, mode 0600, that holds it
  std::string header_file;  ///< absolute path, mode 0600: "Authorization: Bearer …"; may be empty
  std::vector<NotifyEvent> events;
  [[nodiscard]] bool wanted() const { return !url.empty() || !url_file.empty(); }
  [[nodiscard]] auto tied() const { return std::tie(url, url_file, header_file, events); }
  friend bool operator==(const NotifySettings&, const NotifySettings&) = default;
  friend auto operator<=>(const NotifySettings& a, const NotifySettings& b) {
    return compared(a.tied(), b.tied());
  }
};
// clang-format off
template <>
inline constexpr auto described<NotifySettings> = Entries{
    Key{"url", &NotifySettings::url, {.meaning = "https, or http on this machine", .takes = "an address"}, Flag::optional},
    Key{"url_file", &NotifySettings::url_file, {.meaning = "file that holds a secret address, mode 0600", .takes = "an absolute path"}, Flag::optional},
    Key{"header_file", &NotifySettings::header_file, {.meaning = "file with one header line, mode 0600", .takes = "an absolute path"}, Flag::optional},
    Key{"events", &NotifySettings::events, {.meaning = "sweep_ended, stalled, node_quarantined, blind, regression", .takes = "a list", .otherwise = "all"}},
};
// clang-format on

/// How this user reaches the cluster. From site.yaml; never part of a trial's identity but
/// `env`.
struct SiteSpec {
  Backend backend = Backend::none;
  std::map<std::string, std::string> env;
  ContainerSpec container;     ///< container of all sweeps that set none
  std::vector<Cause> rules{};  ///< causes, behind those of each sweep
  /// Variables of the login shell that `env` is given at submission besides.
  std::vector<std::string> pass_env;
  std::vector<std::string> modules;
  std::vector<std::string> prolog;  ///< shell lines of the user's own, put in as they are
  /// Shell lines that each node runs before the first and after the last attempt of an
  /// allocation; what does not end with 0 speaks against the node.
  std::vector<std::string> before{};
  std::vector<std::string> after{};
  /// sbatch's long options by their own names. The ranges of one option don't overlap; if
  /// none holds the node count, the option is not given.
  std::map<std::string, std::vector<SlurmValue>> slurm;
  /// Options that the template gives and this site must not have: `gpus-per-node: false`.
  std::vector<std::string> slurm_without;
  std::string job_template;  ///< absolute path of the user's own; empty: lane.sbatch
  LaunchMode launch = LaunchMode::agents;
  RestSettings rest;
  bool strict = false;  ///< submitted held and released when the job id is committed
  NotifySettings notify{};
  SourcePosition position;
  friend bool operator==(const SiteSpec&, const SiteSpec&) = default;
};
// clang-format off
template <>
inline constexpr auto described<SiteSpec> = Entries{
    Key{"backend", &SiteSpec::backend, {.meaning = "where sweeps run", .takes = "local or slurm", .otherwise = "slurm where sbatch is on PATH"}, Flag::optional},
    Key{"env", &SiteSpec::env, {.meaning = "environment variables of the ranks; part of a trial's identity", .takes = "a map of texts"}, Flag::optional},
    Key{"container", &SiteSpec::container, {.meaning = "the container of all sweeps; keys as in a sweep file", .takes = "a map"}, Flag::optional},
    Key{"classify", &SiteSpec::rules, {.meaning = "the meaning of lines of the ranks' output in all sweeps; keys as in a sweep file", .takes = "a list of maps"}, Flag::optional},
    Key{"pass_env", &SiteSpec::pass_env, {.meaning = "variables of your shell that the ranks get", .takes = "a list of names"}},
    Key{"modules", &SiteSpec::modules, {KeyType::texts, "modules to load, in order"}},
    Key{"prolog", &SiteSpec::prolog, {KeyType::texts, "shell lines of your own in the job script"}},
    Key{"before", &SiteSpec::before, {KeyType::texts, "shell lines that each node runs before the first attempt of an allocation (dcgmi diag -r 1); one that fails leaves the node out"}},
    Key{"after", &SiteSpec::after, {KeyType::texts, "the same after the last attempt"}},
    Key{"template", &SiteSpec::job_template, {.meaning = "job script template: your own, or lane-sbcast.sbatch, which is built in", .takes = "an absolute path or a name", .otherwise = "lane.sbatch"}, Flag::optional},
    Key{"launch", &SiteSpec::launch, {.meaning = "one srun per allocation, or one per attempt (for PMI or MPI)", .takes = "agents or srun", .otherwise = "agents"}},
    Key{"strict", &SiteSpec::strict, {KeyType::boolean, "submit held, and release once the job id is stored"}},
    Key{"slurm", &SiteSpec::slurm, {.meaning = "long options of sbatch, see below", .takes = "a map of sbatch options"}, Flag::optional},
    Key{"slurmrestd", &SiteSpec::rest, {.meaning = "reach Slurm over REST, see slurmrestd", .takes = "a map"}, Flag::optional},
    Key{"notify", &SiteSpec::notify, {.meaning = "tell a webhook, see notify", .takes = "a map"}, Flag::optional},
};
// clang-format on

}  // namespace shardsweep
