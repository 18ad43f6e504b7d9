// SPDX-License-Identifier: Apache-2.0
// What every command works with, and how it answers.
#pragma once

#include "cli/options.hpp"
#include "show/exit_code.hpp"

#include <shardsweep/capabilities.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/requests.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/results.hpp>
#include <shardsweep/sweep.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

[[nodiscard]] ExitCode exit_code_of(const Fault& fault);

struct Session {
  Options options;
  Home home;
  Installation installation;
  const Clock& clock;
};

// ---- planning.cpp ---------------------------------------------------------------------------

/// A sweep file, judged.
struct Planned {
  SweepSpec sweep;
  Capabilities capabilities;
  Plan plan;
  std::string source;
  std::vector<std::string> notes;  ///< for stderr
  /// Of the site, in the identity of its trials (add_site).
  std::map<std::string, std::string> site_env{};
};
[[nodiscard]] Result<Planned> plan_file(const Session& session);
/// The same without a file: `source` stays empty.
[[nodiscard]] Result<Planned> plan_sweep(const Session& session, SweepSpec sweep);
/// The sweep of the session's file; `-` is standard input. `source` becomes its text.
[[nodiscard]] Result<SweepSpec> load_sweep_file(const Session& session,
                                                std::string* source = nullptr);

/// --site, else the file in the user's configuration folder.
[[nodiscard]] std::filesystem::path site_file_of(const Session& session);

/// How a sweep's cluster is reached, complete: nothing of it is read again later.
struct SiteAccess {
  Backend backend = Backend::none;
  SiteSpec site;
  std::string job_template;                           ///< its text
  std::string job_template_name;                      ///< for messages
  std::map<std::string, std::string> identity_env{};  ///< what of `site.env` makes trials new
};
/// The site file and the job template, whatever the backend.
[[nodiscard]] Result<SiteAccess> read_site(const Session& session);
/// Never a silent fallback: what is not said is an error that says what to do.
[[nodiscard]] Result<SiteAccess> choose_backend(const Session& session, const SweepSpec& sweep);
/// What the site says about how ranks run: their container, and variables in their identity.
[[nodiscard]] Result<void> add_site(Planned& planned, const SiteAccess& access);

// ---- commands_sweep.cpp ---------------------------------------------------------------------

/// Hands the session's sweep file to the daemon; `sweep` becomes its name.
[[nodiscard]] Result<Answer> submit_file(const Session& session, std::string& sweep);
/// As submit_file(), and trials that were all known run again. Returns the sweep's name.
[[nodiscard]] Result<std::string> submit_anew(const Session& session);

// ---- asking.cpp -----------------------------------------------------------------------------

/// Posts the request, starts a daemon where none runs, waits for the answer.
[[nodiscard]] Result<Answer> ask_daemon(const Session& session, Request request);
/// As ask_daemon(); where no daemon runs this process writes by itself, and starts none.
[[nodiscard]] Result<Answer> ask_writer(const Session& session, Request request);
/// The two halves of ask_daemon().
[[nodiscard]] Result<std::string> post_to_daemon(const Session& session, Request request);
[[nodiscard]] Result<Answer> await_answer(const Session& session, const std::string& id);
/// Nothing where a daemon has the database; else what is known of the last one.
[[nodiscard]] bool daemon_runs(const Session& session);

// ---- following.cpp --------------------------------------------------------------------------

/// Shows progress until every trial of the sweeps has ended. Where none is named: of those that
/// have not ended.
[[nodiscard]] Result<ExitCode> follow_sweeps(const Session& session,
                                             const std::vector<std::string>& sweeps,
                                             FollowFrom from = FollowFrom::now);

// ---- commands -------------------------------------------------------------------------------

using Command = Result<ExitCode> (*)(const Session&);
/// nullptr where there is no such command.
[[nodiscard]] Command find_command(const std::string& name);

[[nodiscard]] Result<ExitCode> command_plan(const Session& session);
[[nodiscard]] Result<ExitCode> command_calibrate(const Session& session);
[[nodiscard]] Result<ExitCode> command_suggest(const Session& session);
[[nodiscard]] Result<ExitCode> command_extrapolate(const Session& session);
[[nodiscard]] Result<ExitCode> command_submit(const Session& session);
[[nodiscard]] Result<ExitCode> command_run(const Session& session);
[[nodiscard]] Result<ExitCode> command_render(const Session& session);
[[nodiscard]] Result<ExitCode> command_status(const Session& session);
[[nodiscard]] Result<ExitCode> command_follow(const Session& session);
[[nodiscard]] Result<ExitCode> command_logs(const Session& session);
[[nodiscard]] Result<ExitCode> command_control(const Session& session);
[[nodiscard]] Result<ExitCode> command_show(const Session& session);
[[nodiscard]] Result<ExitCode> command_results(const Session& session);
[[nodiscard]] Result<ExitCode> command_query(const Session& session);
[[nodiscard]] Result<ExitCode> command_best(const Session& session);
[[nodiscard]] Result<ExitCode> command_explain(const Session& session);
[[nodiscard]] Result<ExitCode> command_compare(const Session& session);
[[nodiscard]] Result<ExitCode> command_frontier(const Session& session);
[[nodiscard]] Result<ExitCode> command_nodes(const Session& session);
[[nodiscard]] Result<ExitCode> command_heatmap(const Session& session);
[[nodiscard]] Result<ExitCode> command_report(const Session& session);
[[nodiscard]] Result<ExitCode> command_export(const Session& session);
[[nodiscard]] Result<ExitCode> command_import(const Session& session);
[[nodiscard]] Result<ExitCode> command_replay(const Session& session);
[[nodiscard]] Result<ExitCode> command_evaluate_memory(const Session& session);
[[nodiscard]] Result<ExitCode> command_daemon(const Session& session);
[[nodiscard]] Result<ExitCode> command_tick(const Session& session);
[[nodiscard]] Result<ExitCode> command_doctor(const Session& session);
[[nodiscard]] Result<ExitCode> command_selftest(const Session& session);
[[nodiscard]] Result<ExitCode> command_init(const Session& session);
[[nodiscard]] Result<ExitCode> command_gc(const Session& session);
[[nodiscard]] Result<ExitCode> command_new(const Session& session);
[[nodiscard]] Result<ExitCode> command_presets(const Session& session);
[[nodiscard]] Result<ExitCode> command_names(const Session& session);
[[nodiscard]] Result<ExitCode> command_read_log(const Session& session);
[[nodiscard]] Result<ExitCode> command_help(const Session& session);

/// Results to stdout; a write error (closed pipe, full disk) is a fault.
[[nodiscard]] Result<void> print_result(std::string_view text);
/// Results into a file, as a whole, or to stdout where none is named.
[[nodiscard]] Result<ExitCode> deliver(std::string_view text, const std::string& file);
/// Talk to stderr. Control characters but line ends are made visible.
void say(std::string_view text);

}  // namespace shardsweep
