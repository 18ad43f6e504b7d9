// SPDX-License-Identifier: Apache-2.0
// What every command works with, and how it answers.
#pragma once

#include "cli/options.hpp"
#include "show/exit_code.hpp"
#include "sweep/passed_variables.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/capabilities.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/requests.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/results.hpp>
#include <shardsweep/sweep.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

struct LifeOptions;

struct Session {
  Options options;
  Home home;
  Installation installation;
  const Clock& clock;
};

// ---- planning.cpp ---------------------------------------------------------------------------

/// A sweep file, judged.
struct PlannedSweep {
  SweepSpec sweep;
  Capabilities capabilities;
  Plan plan;
  std::string source;
  std::vector<std::string> notes;  ///< messages for stderr
  /// Why none of it may be submitted: what its trainer is not told. Empty: it may.
  std::string refusal{};
  /// Variables of the site that belong to the identity of its trials (add_site).
  std::map<std::string, std::string> site_env{};
  /// Values of secrets, which `sweep` has no more, and what this shell lacks of them.
  PassedVariables passed{};
};
[[nodiscard]] Result<PlannedSweep> plan_file(const Session& session);
/// Plans a sweep that has no file: `source` stays empty.
[[nodiscard]] Result<PlannedSweep> plan_sweep(const Session& session, SweepSpec sweep);
/// The sweep of the session's file; `-` is standard input. `source` becomes its text.
[[nodiscard]] Result<SweepSpec> load_sweep_file(
    const Session& session, std::string* source = nullptr);

/// Trials of the plan that `text` means, in its order. A number (from 1) means one trial, axes and
/// vars (tp=2,micro_batch=4) all that have these values. An empty text means all trials; a text
/// that no trial matches is a fault.
[[nodiscard]] Result<std::vector<const PlannedTrial*>> points_meant(
    const PlannedSweep& planned, const std::string& text);

/// --site, else the file in the user's configuration folder.
[[nodiscard]] std::filesystem::path site_file_of(const Session& session);

/// How a sweep's cluster is reached, complete: nothing of it is read again later.
struct SiteAccess {
  Backend backend = Backend::none;
  SiteSpec site;
  std::string job_template;                           ///< text of the template
  std::string job_template_name;                      ///< name for messages
  std::map<std::string, std::string> identity_env{};  ///< variables of a trial's identity
  std::map<std::string, std::string> secrets{};       ///< secrets of the site, taken out of `site`
  std::vector<std::string> passed{};                  ///< names in its `pass_env`
  std::vector<std::string> notes{};                   ///< messages for stderr
};
/// The site file and the job template, whatever the backend.
[[nodiscard]] Result<SiteAccess> read_site(const Session& session);
/// Never a silent fallback: what is not said is an error that says what to do.
[[nodiscard]] Result<SiteAccess> choose_backend(const Session& session, const SweepSpec& sweep);
/// The site as submit would find it, without asking a scheduler; none: the sweep stays on this
/// machine, or `planned` is refused for a mistake in the site file.
[[nodiscard]] std::optional<SiteAccess> site_of_plan(const Session& session, PlannedSweep& planned);
/// Where to run, as far as flags, site file and PATH say.
[[nodiscard]] Backend stated_backend(const Options& options, const SiteSpec& site);
/// Adds what the site says about how ranks run: their container, causes of failures, and variables
/// in their identity.
[[nodiscard]] Result<void> add_site(PlannedSweep& planned, const SiteAccess& access);

/// A note for each kind of point that no partition of the site can hold. Slurm is asked once in ten
/// minutes, if there is a database to keep its answer.
[[nodiscard]] std::vector<std::string> beyond_partitions(
    const Session& session, const PlannedSweep& planned, const SiteAccess& access);

// ---- code_identity.cpp ----------------------------------------------------------------------

enum class Taking : std::uint8_t { hash_alone, snapshot };

/// Notes what the sweep's own programs are. Without a snapshot: the hashes of `program` or of the
/// first word of `argv`, if they are paths. Further words count if they name a script, a program or
/// a file of settings. Programs of an image are known by its digest. With a snapshot: the hash of
/// their tree, of which a copy is made.
[[nodiscard]] Result<void> note_code(const Session& session, SweepSpec& sweep, Taking taking);

/// The snapshot of the tree that these programs are in now, by its hash; taken unless it is
/// `known`.
[[nodiscard]] Result<std::string> tree_of_now(
    const Session& session, const SweepSpec& sweep, const std::string& known);

// ---- submitting.cpp -------------------------------------------------------------------------

/// Hands the trials of a plan to the daemon, in the plan's order. A sweep of its name is
/// edited.
[[nodiscard]] Result<Answer> submit_plan(const Session& session, PlannedSweep planned);
/// Hands the session's sweep file to the daemon; `sweep` becomes its name.
[[nodiscard]] Result<Answer> submit_file(const Session& session, std::string& sweep);
/// Submits as submit_file() does, and runs trials again if all were known. Returns the sweep's
/// name.
[[nodiscard]] Result<std::string> submit_anew(const Session& session);
/// Submits anew, as submit_anew() does, a sweep that a command has made; its file lies in the home.
[[nodiscard]] Result<std::string> submit_own_sweep(
    const Session& session, const std::string& name, const std::string& text);
/// `--nodes` of a command that makes one; 1 without it.
[[nodiscard]] Result<std::int32_t> asked_nodes(const Options& options);
/// Cluster of a sweep that a command makes. Without a preset, each node of a cluster has two ranks,
/// and this machine has as many as its preset says. A named preset has its own number, at most
/// `most` over all nodes.
struct OwnCluster {
  std::string text;        ///< value of the key `cluster`
  std::int32_t slots = 0;  ///< slots of a node
};
[[nodiscard]] Result<OwnCluster> own_cluster(
    const Session& session, std::int32_t nodes, std::int32_t most);
/// Warnings, one line each.
void say_notes(const std::vector<std::string>& notes);

/// Predicted seconds, in all and of the longest attempt.
struct Work {
  double predicted_s = 0;
  double longest_s = 0;
};
[[nodiscard]] std::map<std::int32_t, Work> work_by_nodes(const Plan& plan);
/// The script of a sweep's first allocation with so many nodes.
[[nodiscard]] Result<std::string> script_for(const Session& session, const SweepSpec& sweep,
    const SiteAccess& access, std::int32_t nodes, const Work& work);
/// Script that is submitted in place of `script` if jobs go in arrays; else empty.
[[nodiscard]] std::string array_around(
    const Session& session, const SweepSpec& sweep, const std::string& script);

// ---- asking.cpp -----------------------------------------------------------------------------

/// Trials that a request in pieces is about: those that the sweep will have, or those that will go.
/// While the daemon serves it, the terminal shows how many there are now.
struct RequestExtent {
  std::string sweep;
  std::int64_t trials = 0;  ///< 0: there is nothing to tell
  bool go = false;
};

/// Posts the request, starts a daemon if none runs, waits for the answer.
[[nodiscard]] Result<Answer> ask_daemon(
    const Session& session, Request request, const RequestExtent& expected = {});
/// The two halves of ask_daemon().
[[nodiscard]] Result<std::string> post_to_daemon(const Session& session, Request request);
[[nodiscard]] Result<Answer> await_answer(
    const Session& session, const std::string& id, const RequestExtent& expected = {});
/// Sentence about a database whose live jobs are another one's, which makes it a copy (copied.hpp);
/// none otherwise.
[[nodiscard]] std::optional<std::string> copy_of_another(const Session& session);
/// Tells if a daemon has the database: by its lock, or by a fresh lease from another host.
[[nodiscard]] bool daemon_runs(const Session& session);

/// Is the daemon for as long as `life` says. True if nothing was left to do.
[[nodiscard]] Result<bool> be_daemon(
    const Session& session, const LifeOptions& life, const Policy& policy);
/// Asks as ask_daemon() does. If no daemon runs, this process writes by itself and starts none.
[[nodiscard]] Result<Answer> ask_writer(const Session& session, Request request);

/// Output of shell lines that ran on a node. Their log lies in the database's folder: a node that
/// does not see the folder is a fault that says so.
[[nodiscard]] Result<std::string> run_on_a_node(
    const Session& session, const SiteSpec& site, const std::string& script);

// ---- following.cpp --------------------------------------------------------------------------

/// End of what is followed: `answer` names winners and a verdict, with `trials` the caller does.
enum class FollowedTo { answer, trials };

/// Shows progress until every trial of the sweeps has ended. If none is named, it follows those
/// that have not ended.
[[nodiscard]] Result<ExitCode> follow_sweeps(const Session& session,
    const std::vector<std::string>& sweeps, FollowFrom from = FollowFrom::now,
    FollowedTo to = FollowedTo::answer);

// ---- printing.cpp ---------------------------------------------------------------------------

/// Results to stdout; a write error (closed pipe, full disk) is a fault.
[[nodiscard]] Result<void> print_result(std::string_view text);
/// Results into a file, as a whole, or to stdout if none is named.
[[nodiscard]] Result<ExitCode> deliver(
    std::string_view text, const std::string& file = {}, Readers readers = Readers::all);
/// Talk to stderr. Control characters but line ends are made visible.
void say(std::string_view text);
template <class First, class... Rest>
void say(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  say(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

}  // namespace shardsweep
