// SPDX-License-Identifier: Apache-2.0
// This process as the daemon: `daemon`, `tick`, and a command that writes the database by
// itself. An import, `next` and `record` need a writer for a moment. To start a daemon for it
// would also run what waits in the database, which nobody has asked for; so the command takes
// the lock, serves its own request, and gives the lock back.
#include "cli/session.hpp"
#include "daemon/loop.hpp"

#include <shardsweep/backends.hpp>
#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/log.hpp>
#include <shardsweep/notifier.hpp>
#include <shardsweep/random.hpp>
#include <shardsweep/results.hpp>
#include <shardsweep/storage.hpp>

#include <poll.h>

#include <chrono>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

/// Opening a database to write undoes an unfinished transaction. Over a network that may be one
/// which a daemon on another host is about to finish: its lease is read first, without writing.
Result<void> refuse_foreign_writer(const Session& session, const Policy& policy) {
  std::error_code error;
  const fs::path& file = session.home.database;
  if (is_local_file_system(file) || !fs::exists(file, error)) return {};
  const auto found = Reader::holder_in(file);
  if (!found && found.error().kind == FaultKind::busy) return tl::unexpected<Fault>(found.error());
  if (!found) return {};  // no daemon is at it; what it is is told by who opens it
  const auto& holder = *found;
  if (!holder || holder->host == this_process().host) return {};
  const double silent_s = to_seconds(session.clock.now() - holder->renewed);
  if (silent_s > policy.lease_ttl_s) return {};
  return fault(FaultKind::busy, "another daemon has this database: " + describe(*holder));
}

/// The same, tried again for as long as `life` has patience.
Result<void> await_foreign_writer(
    const Session& session, const LifeOptions& life, const Policy& policy) {
  constexpr int pause_ms = 500;
  const auto until = session.clock.steady() + std::chrono::duration<double>(life.patience_s);
  while (!life.take_over) {
    auto free = refuse_foreign_writer(session, policy);
    const bool wait = !free && free.error().kind == FaultKind::busy;
    if (!wait || session.clock.steady() >= until) return free;
    ::poll(nullptr, 0, pause_ms);
  }
  return {};
}

}  // namespace

Result<bool> be_daemon(const Session& session, const LifeOptions& life, const Policy& policy) {
  SHARDSWEEP_TRY(make_home(session.home));
  SHARDSWEEP_TRY(await_foreign_writer(session, life, policy));
  SHARDSWEEP_ASSIGN(const auto store, Store::open(session.home.database));
  const auto make_scheduler = [&](Backend backend, const SiteSpec& site) {
    if (backend == Backend::local) return make_local_scheduler(session.installation.agent);
    return site.rest.url.empty() ? make_slurm_cli_scheduler(policy, session.clock)
                                 : make_slurm_rest_scheduler(site.rest, policy, session.clock);
  };
  return run_daemon(
      {.home = session.home,
          .installation = session.installation,
          .store = *store,
          .clock = session.clock,
          .make_scheduler = make_scheduler,
          .make_notifier =
              [&session](
                  const NotifySettings& settings) { return make_webhook(settings, session.clock); },
          .take_tree = [&session](const SweepSpec& sweep,
                           const std::string& known) { return tree_of_now(session, sweep, known); },
          .random_hex = random_hex,
          .policy = policy},
      life);
}

Result<Answer> ask_writer(const Session& session, Request request) {
  // A point is asked for, and told, many times.
  const bool says = request.verb != Verb::next && request.verb != Verb::record;
  if (daemon_runs(session)) return ask_daemon(session, std::move(request));
  SHARDSWEEP_ASSIGN(const std::string id, post_to_daemon(session, std::move(request)));
  log_warnings_alone();
  const auto written = be_daemon(session, {.serve_only = true}, {});
  // A daemon that has started meanwhile (`busy`) answers the request.
  if (!written && written.error().kind != FaultKind::busy) {
    SHARDSWEEP_TRY(withdraw_request(session.home, id));
    return tl::unexpected<Fault>(written.error());
  }
  if (written && says)
    say("No daemon runs: this command has written the database, and started none.");
  return await_answer(session, id);
}

}  // namespace shardsweep
