// SPDX-License-Identifier: Apache-2.0
// Lead, node agent and guard die at each of their windows, or while an attempt runs, and
// processes want to outlive their attempt. Whatever dies, nothing that carries our marker is
// left, and what the lead has said is true.
#include "machine/processes.hpp"
#include "programs/agent/allocation.hpp"

#include <shardsweep/record.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>

using namespace shardsweep;
using test::Allocation;
using test::wait_until;

namespace {

/// Two ranks that ignore SIGTERM, each with a detached child that does too.
const std::vector<std::string> clinging{"stubborn", "leak", "steps", "hang"};

/// Runs as soon as both ranks have made their detached child and their first train step.
struct Scene {
  Allocation allocation;
  Assign attempt;
  Scene() : attempt(allocation.assign(clinging)) {
    allocation.start();
    allocation.wait_steps(attempt, 2);
  }
};

bool is_gone(pid_t pid) {
  const auto stat = process_stat(pid);
  return !stat || stat->state == 'Z';
}

/// As at one moment: none of them sees another one die.
void kill_at_once(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids)
    ::kill(pid, SIGSTOP);
  for (const pid_t pid : pids)
    ::kill(pid, SIGKILL);
}

int sweep_leftovers(const Allocation& allocation) {
  const std::string command = std::string(SHARDSWEEP_BIN_DIR) +
      "/shardsweep-agent sweep-leftovers --token '" + allocation.spec.token + "' >>'" +
      (allocation.paths().dir / "swept").string() + "'";
  return std::system(command.c_str());
}

bool has_its_result(const Assign& attempt) {
  const auto records = read_attempt_records(AttemptPaths{attempt.dir});
  return records && has_result(records->text, attempt.nonce);
}

}  // namespace

// ---- at a window

namespace {

/// Of a lead that has died: what a daemon finds.
struct LeadDeath {
  const char* point;
  bool claimed, seen, started, ended;  ///< lines
  bool folder, pack;                   ///< of the attempt
};

void check_lead_death(const LeadDeath& death) {
  CAPTURE(std::string(death.point));
  Allocation allocation;
  allocation.fail_at(std::string(death.point) + ":kill");
  const Assign attempt = allocation.assign({"stubborn", "steps", "result"});
  allocation.start();
  CHECK(allocation.wait_exit() == -SIGKILL);
  CHECK(wait_until([&] { return allocation.agents().empty(); }));
  CHECK(allocation.wait_clean());
  CHECK(allocation.said<Claimed>() == death.claimed);
  CHECK(allocation.said<NodeSeen>() == death.seen);
  CHECK(allocation.said<Started>() == death.started);
  CHECK(allocation.said<Ended>() == death.ended);
  CHECK(!allocation.said<Bye>());
  CHECK(std::filesystem::exists(attempt.dir) == death.folder);
  CHECK(std::filesystem::exists(AttemptPaths{attempt.dir}.pack()) == death.pack);
  // Not launched, or over: in between it may have come to its result or not.
  const bool over = death.pack || std::string(death.point) == "lead.settle";
  if (over || !death.started) CHECK(has_its_result(attempt) == over);
}

}  // namespace

TEST_CASE("a lead that dies between two of its lines leaves nothing that runs") {
  for (const LeadDeath& death : {
           LeadDeath{"lead.claimed", false, false, false, false, true, false},
           LeadDeath{"lead.claimed_written", true, false, false, false, true, false},
           LeadDeath{"lead.node_seen", true, false, false, false, true, false},
           LeadDeath{"lead.started", true, true, false, false, true, false},
           LeadDeath{"lead.started_written", true, true, true, false, true, false},
           LeadDeath{"lead.launched", true, true, true, false, true, false},
           LeadDeath{"lead.settle", true, true, true, false, true, false},
           LeadDeath{"rundir.packed", true, true, true, false, true, true},
           LeadDeath{"lead.ended", true, true, true, false, false, true},
           LeadDeath{"lead.ended_written", true, true, true, true, false, true},
       })
    check_lead_death(death);
}

TEST_CASE("a lead that dies before it has given something back has said so to nobody") {
  Allocation allocation;
  allocation.fail_at("lead.revoked:kill");
  allocation.assign({"result"});
  allocation.tell(Drain{});
  allocation.start();
  CHECK(allocation.wait_exit() == -SIGKILL);
  CHECK(allocation.revoked().empty());
  CHECK(!allocation.said<Bye>());
  CHECK(wait_until([&] { return allocation.agents().empty(); }));
}

TEST_CASE("a lead that dies before its last line has told each attempt's end") {
  Allocation allocation;
  allocation.fail_at("lead.bye:kill");
  const Assign attempt = allocation.assign({"result"});
  allocation.start();
  CHECK(allocation.wait_ended(attempt.attempt).ending.outcome == Outcome::completed);
  allocation.tell(Drain{});
  CHECK(allocation.wait_exit() == -SIGKILL);
  CHECK(!allocation.said<Bye>());
  CHECK(allocation.agents().empty());
}

TEST_CASE("lead and node agent die one after the other, and the guard cleans up") {
  Allocation allocation;
  allocation.fail_at("node.launched:kill,lead.found:kill");
  allocation.assign(clinging);
  allocation.start();
  CHECK(allocation.wait_exit() == -SIGKILL);
  CHECK(allocation.findings().empty());
  CHECK(wait_until([&] { return allocation.agents().empty(); }));
  CHECK(allocation.wait_clean());
}

namespace {

/// Of node agent or guard: where, while ranks do what, and how the attempt ends. No outcome: it
/// may have begun or not.
struct NodeDeath {
  const char* points;
  std::vector<std::string> ranks;
  std::optional<Outcome> outcome;
};

void check_node_death(const NodeDeath& death) {
  CAPTURE(std::string(death.points));
  Allocation allocation;
  allocation.fail_at(death.points);
  if (std::string(death.points).starts_with("node.suspect"))
    allocation.every.limits.step_limit_s = test::at_once_s;
  allocation.every.give_up_above_ms = 1000;
  allocation.every.tokens_per_step = 1000;
  const Assign attempt = allocation.assign(death.ranks);
  const Assign next = allocation.assign({"result"});
  allocation.start();
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.bye() == "node lost");
  CHECK(allocation.marked().empty());
  CHECK(allocation.agents().empty());
  const auto ended = allocation.ended(attempt.attempt);
  CHECK(ended.has_value() == allocation.said<Started>());
  // The lead starts it if it has heard of the end before it hears of the death.
  const auto second = allocation.ended(next.attempt);
  const bool may_start = std::string(death.points).starts_with("node.ended_said");
  CHECK((!second || (may_start && second->ending.outcome == Outcome::node_failure)));
  if (!death.outcome) return;
  REQUIRE(ended);
  CHECK_MESSAGE(ended->ending.outcome == *death.outcome, ended->ending.cause);
  CHECK(has_its_result(attempt) == (*death.outcome == Outcome::completed));
}

const std::vector<std::string> measured{"leak", "steps", "result"};
const std::vector<std::string> hopeless{"leak", "step=2000", "step=2000", "hang"};

}  // namespace

TEST_CASE("a node agent that dies at any window is a lost node, and a result counts") {
  for (const NodeDeath& death : {
           NodeDeath{"node.ready:kill", clinging, std::nullopt},
           NodeDeath{"node.ready_said:kill", clinging, std::nullopt},
           NodeDeath{"node.beat:3:kill", {"leak", "hang"}, std::nullopt},
           NodeDeath{"node.spawn:1:kill", clinging, Outcome::node_failure},
           NodeDeath{"node.spawn:2:kill", clinging, Outcome::node_failure},
           NodeDeath{"node.launched:kill", clinging, Outcome::node_failure},
           NodeDeath{"node.launched_said:kill", clinging, Outcome::node_failure},
           NodeDeath{"node.rank_ended:kill", {"leak", "1:exit=3", "hang"}, Outcome::node_failure},
           NodeDeath{"node.suspect:kill", clinging, Outcome::node_failure},
           NodeDeath{"node.end_ranks:kill", {"leak", "1:exit=3", "hang"}, Outcome::node_failure},
           NodeDeath{"node.result:kill", hopeless, Outcome::node_failure},
           NodeDeath{"node.result_written:kill", hopeless, Outcome::completed},
           NodeDeath{"node.reap:kill", measured, Outcome::completed},
           NodeDeath{"node.reaped:kill", measured, Outcome::completed},
           NodeDeath{"node.ended:kill", measured, Outcome::completed},
           NodeDeath{"node.ended_said:kill", measured, Outcome::completed},
       })
    check_node_death(death);
}

TEST_CASE("a guard that dies too, or before its node agent, leaves nothing either") {
  for (const NodeDeath& death : {
           NodeDeath{"guard.start:kill", clinging, std::nullopt},
           NodeDeath{"node.launched:kill,guard.agent_ended:kill", clinging, Outcome::node_failure},
           NodeDeath{"node.launched:kill,guard.said:kill", clinging, Outcome::node_failure},
           NodeDeath{"node.launched:kill,guard.clean:kill", clinging, Outcome::node_failure},
           NodeDeath{"node.reap:kill,guard.agent_ended:kill", measured, Outcome::completed},
       })
    check_node_death(death);
}

TEST_CASE("each of them ends by itself, without a word, as well as by a signal") {
  for (const NodeDeath& death : {
           NodeDeath{"node.launched:exit", clinging, Outcome::node_failure},
           NodeDeath{"node.launched:kill,guard.agent_ended:exit", clinging, Outcome::node_failure},
       })
    check_node_death(death);
}

// ---- while an attempt runs

TEST_CASE("kill -9 of the lead: guard and node agent and everything below them end") {
  Scene scene;
  const pid_t guard = scene.allocation.guard();
  const pid_t agent = scene.allocation.node_agent();
  ::kill(scene.allocation.lead(), SIGKILL);
  CHECK(scene.allocation.wait_exit() == -SIGKILL);
  CHECK(scene.allocation.wait_clean());
  CHECK(wait_until([&] { return is_gone(guard) && is_gone(agent); }));
  CHECK(!scene.allocation.ended(scene.attempt.attempt));
  CHECK(std::filesystem::exists(scene.attempt.dir));
}

TEST_CASE("kill -9 of the node agent: the guard cleans up and the lead calls it node failure") {
  Scene scene;
  ::kill(scene.allocation.node_agent(), SIGKILL);
  CHECK(scene.allocation.wait_exit() == 0);
  CHECK(scene.allocation.marked().empty());
  const auto ended = scene.allocation.ended(scene.attempt.attempt);
  REQUIRE(ended);
  CHECK(ended->ending.outcome == Outcome::node_failure);
  CHECK(ended->ending.cause == "the node agent of local was ended by SIGKILL");
  CHECK(ended->ending.node == "local");
  CHECK(scene.allocation.bye() == "node lost");
}

TEST_CASE("kill -9 of the guard: the node agent ends its ranks and itself") {
  Scene scene;
  ::kill(scene.allocation.guard(), SIGKILL);
  CHECK(scene.allocation.wait_exit() == 0);
  CHECK(scene.allocation.marked().empty());
  const auto ended = scene.allocation.ended(scene.attempt.attempt);
  REQUIRE(ended);
  CHECK(ended->ending.outcome == Outcome::node_failure);
  CHECK(ended->ending.cause.starts_with(
      "the guard process has ended; ended leftover processes (2): "));
  CHECK(scene.allocation.bye() == "node lost");
}

TEST_CASE("kill -9 of guard and node agent at once: the lead cleans up") {
  Scene scene;
  kill_at_once({scene.allocation.node_agent(), scene.allocation.guard()});
  CHECK(scene.allocation.wait_exit() == 0);
  CHECK(scene.allocation.marked().empty());
  CHECK(scene.allocation.ended(scene.attempt.attempt)->ending.outcome == Outcome::node_failure);
}

TEST_CASE("kill -9 of lead and guard and node agent at once: the sweep finds what is left") {
  Scene scene;
  kill_at_once({scene.allocation.node_agent(), scene.allocation.guard(), scene.allocation.lead()});
  CHECK(scene.allocation.wait_exit() == -SIGKILL);
  // The ranks die with their node agent; the detached ones know no parent.
  CHECK(wait_until([&] { return scene.allocation.marked().size() <= 2; }));
  CHECK(scene.allocation.marked().size() == 2);
  CHECK(sweep_leftovers(scene.allocation) == 0);
  CHECK(scene.allocation.marked().empty());
  LineReader swept(scene.allocation.paths().dir / "swept");
  CHECK(swept.look()->size() == 2);
  CHECK(sweep_leftovers(scene.allocation) == 0);
  CHECK(swept.look()->empty());
}

TEST_CASE("kill -9 of a rank: a crash that names it and the allocation goes on") {
  Scene scene;
  const auto next = scene.allocation.assign({"result"});
  const auto ranks = children_of(scene.allocation.node_agent());
  REQUIRE(!ranks.empty());
  ::kill(ranks.front(), SIGKILL);
  const Ended ended = scene.allocation.wait_ended(scene.attempt.attempt);
  CHECK(ended.ending.outcome == Outcome::crashed);
  CHECK(ended.ending.signal == SIGKILL);
  CHECK(ended.ending.cause.find("was ended by SIGKILL; ended leftover processes (2): ") !=
      std::string::npos);
  CHECK(ended.ending.leaked == 2);
  CHECK(scene.allocation.wait_ended(next.attempt).ending.outcome == Outcome::completed);
}

// ---- standing still

TEST_CASE("a stopped node agent is a lost node after its lease") {
  // The lead stands still until the ranks run: it holds that time against nobody.
  Allocation allocation;
  allocation.fail_at("lead.launched:stop,node.launched_said:stop");
  allocation.spec.limits.node_lease_s = test::at_once_s;
  const auto attempt = allocation.assign(clinging);
  allocation.start();
  const pid_t lead = allocation.wait_at("lead.launched");
  allocation.wait_at("node.launched_said");
  allocation.wait_steps(attempt, 2);
  Allocation::let_go_on(lead);
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.marked().empty());
  const auto ended = allocation.ended(attempt.attempt);
  REQUIRE(ended);
  CHECK(ended->ending.outcome == Outcome::node_failure);
  CHECK(ended->ending.cause.starts_with("node local sent nothing for "));
}

TEST_CASE("a stopped lead takes up from where its node agent has left it") {
  Allocation allocation;
  allocation.fail_at("lead.launched:stop");
  const auto attempt = allocation.assign(clinging);
  allocation.start();
  const pid_t lead = allocation.wait_at("lead.launched");
  allocation.wait_steps(attempt, 2);
  // As after the lease, which test_leases.cpp has.
  ::kill(allocation.node_agent(), SIGKILL);
  CHECK(allocation.wait_clean());
  CHECK(!allocation.ended(attempt.attempt));
  Allocation::let_go_on(lead);
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.ended(attempt.attempt)->ending.outcome == Outcome::node_failure);
  CHECK(allocation.bye() == "node lost");
}

TEST_CASE("a result that was written before everything was killed counts") {
  Allocation allocation;
  const auto attempt = allocation.assign({"steps", "result", "hang"});
  allocation.start();
  REQUIRE(wait_until([&] { return has_its_result(attempt); }));
  ::kill(allocation.node_agent(), SIGKILL);
  CHECK(allocation.wait_exit() == 0);
  const auto ended = allocation.ended(attempt.attempt);
  REQUIRE(ended);
  CHECK(ended->ending.outcome == Outcome::completed);
  CHECK(ended->ending.cause == "after the result: the node agent of local was ended by SIGKILL");
}

// ---- what outlives its attempt

TEST_CASE("processes that leave their session are found and named before the next attempt") {
  Allocation allocation;
  const int count = test::repeats(5);
  for (int i = 0; i < count; ++i)
    allocation.assign({"leak", "result"});
  allocation.start();
  for (int i = 1; i <= count; ++i) {
    const Ended ended = allocation.wait_ended(i);
    CHECK(ended.ending.outcome == Outcome::completed);
    CHECK(ended.ending.leaked == 2);
    CHECK(ended.ending.cause.starts_with("ended leftover processes (2): '"));
    CHECK(ended.ending.cause.find("agent_test_rank leak result'") != std::string::npos);
  }
  CHECK(allocation.marked().empty());
}

TEST_CASE("a process that forks itself for ever is caught") {
  Allocation allocation;
  const auto attempt = allocation.assign({"refork", "result"}, 1);
  const auto next = allocation.assign({"result"}, 1);
  allocation.start();
  CHECK(allocation.wait_ended(attempt.attempt).ending.outcome == Outcome::completed);
  CHECK(allocation.wait_ended(next.attempt).ending.outcome == Outcome::completed);
  CHECK(allocation.marked().empty());
}

TEST_CASE("an innocent process with a similar name survives") {
  const std::string rank = std::string(SHARDSWEEP_BIN_DIR) + "/agent_test_rank";
  const pid_t innocent = ::fork();
  if (innocent == 0) {
    ::execl(rank.c_str(), rank.c_str(), "stubborn", "hang", nullptr);
    ::_exit(126);
  }
  {
    Scene scene;
    scene.allocation.tell(Cancel{scene.attempt.attempt, "enough"});
    CHECK(scene.allocation.wait_ended(scene.attempt.attempt).ending.outcome == Outcome::cancelled);
    CHECK(sweep_leftovers(scene.allocation) == 0);
  }
  CHECK(!is_gone(innocent));
  ::kill(innocent, SIGKILL);
  ::waitpid(innocent, nullptr, 0);
}

namespace {

/// What an attempt of another allocation has left when everything that knew of it is gone: its
/// environment names it, nobody is its parent. `variables` as env(1) takes them.
pid_t leave_behind(const std::string& variables, const std::string& ignoring = "") {
  const std::string script =
      "(" + ignoring + "exec env -i " + variables + " tail -f /dev/null) >/dev/null 2>&1 & echo $!";
  FILE* shell = ::popen(("setsid sh -c '" + script + "'").c_str(), "r");
  REQUIRE(shell != nullptr);
  int pid = 0;
  REQUIRE(std::fscanf(shell, "%d", &pid) == 1);
  ::pclose(shell);
  // An agent of another test may have ended by now what has nobody.
  REQUIRE(wait_until([&] { return process_cmdline(pid).starts_with("tail") || is_gone(pid); }));
  return pid;
}

void end_for_good(pid_t pid) {
  ::kill(pid, SIGKILL);
  CHECK(wait_until([&] { return is_gone(pid); }));
}

}  // namespace

TEST_CASE("what ended attempts have left is ended before the next one starts") {
  Allocation allocation;
  const std::string own = allocation.spec.token;
  // Once it lives, only our agent ends what this allocation has left; other tests' agents may
  // be the first to end what nobody answers for.
  allocation.start();
  const pid_t of_ours = leave_behind("SHARDSWEEP_MARKER=" + own + "/77/local");
  const pid_t of_another = leave_behind("SHARDSWEEP_MARKER=" + own + "gone/3/local");
  const pid_t stubborn =
      leave_behind("SHARDSWEEP_MARKER=" + own + "gone/4/local", "trap \"\" TERM; ");
  const pid_t stopped = leave_behind("SHARDSWEEP_MARKER=" + own + "gone/5/local");
  ::kill(stopped, SIGSTOP);
  const auto attempt = allocation.assign({"result"});
  CHECK(allocation.wait_ended(attempt.attempt).ending.outcome == Outcome::completed);
  for (const pid_t pid : {of_ours, of_another, stubborn, stopped})
    CHECK(is_gone(pid));
  CHECK(allocation.log().find("process " + std::to_string(of_ours) + " is left over from attempt " +
            own + "/77/local: tail -f /dev/null") != std::string::npos);
}

TEST_CASE("what is not ours, or still has somebody, is left alone before an attempt") {
  Allocation allocation;
  const std::string own = allocation.spec.token;
  // Its agents live: another test's agents, of the same user, would end what nobody answers
  // for.
  allocation.start();
  // The same name and arguments, and no marker; another node's on this host; one whose
  // allocation has an agent.
  const pid_t innocent = leave_behind("HOME=/");
  const pid_t elsewhere = leave_behind("SHARDSWEEP_MARKER=" + own + "/77/another-node");
  const pid_t agent = leave_behind("SHARDSWEEP_AGENT=" + own + "alive/agent");
  const pid_t owned = leave_behind("SHARDSWEEP_MARKER=" + own + "alive/3/local");
  const auto attempt = allocation.assign({"result"});
  CHECK(allocation.wait_ended(attempt.attempt).ending.outcome == Outcome::completed);
  for (const pid_t pid : {innocent, elsewhere, agent, owned}) {
    CAPTURE(pid == owned);
    CHECK(!is_gone(pid));
    end_for_good(pid);
  }
}
