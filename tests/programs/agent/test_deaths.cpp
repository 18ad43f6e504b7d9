// SPDX-License-Identifier: Apache-2.0
// kill -9 of each of the agent's processes while an attempt runs, and processes that want to
// outlive their attempt. Whatever dies, nothing that carries our marker is left.
#include "node/processes.hpp"
#include "programs/agent/allocation.hpp"

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

void repeat(const std::function<void()>& scene) {
  for (int i = 0; i < test::repeats(2); ++i)
    scene();
}

bool is_gone(pid_t pid) {
  const auto stat = process_stat(pid);
  return !stat || stat->state == 'Z';
}

int sweep_leftovers(const Allocation& allocation) {
  const std::string command =
      std::string(SHARDSWEEP_BIN_DIR) + "/shardsweep-agent sweep-leftovers --token '" +
      allocation.spec.token + "' >>'" + (allocation.paths().dir / "swept").string() + "'";
  return std::system(command.c_str());
}

void kill_lead() {
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

void kill_all_agents() {
  Scene scene;
  const pid_t guard = scene.allocation.guard();
  const pid_t agent = scene.allocation.node_agent();
  for (const pid_t pid : {scene.allocation.lead(), guard, agent})
    ::kill(pid, SIGKILL);
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

}  // namespace

TEST_CASE("kill -9 of the lead: guard and node agent and everything below them end") {
  repeat(kill_lead);
}

TEST_CASE("kill -9 of the node agent: the guard cleans up and the lead calls it node failure") {
  repeat([] {
    Scene scene;
    ::kill(scene.allocation.node_agent(), SIGKILL);
    CHECK(scene.allocation.wait_exit() == 0);
    CHECK(scene.allocation.marked().empty());
    const auto ended = scene.allocation.ended(scene.attempt.attempt);
    REQUIRE(ended);
    CHECK(ended->outcome == Outcome::node_failure);
    CHECK(ended->cause == "the node agent of local was ended by SIGKILL");
    CHECK(ended->node == "local");
    CHECK(scene.allocation.bye() == "node lost");
  });
}

TEST_CASE("kill -9 of the guard: the node agent ends its ranks and itself") {
  repeat([] {
    Scene scene;
    ::kill(scene.allocation.guard(), SIGKILL);
    CHECK(scene.allocation.wait_exit() == 0);
    CHECK(scene.allocation.marked().empty());
    const auto ended = scene.allocation.ended(scene.attempt.attempt);
    REQUIRE(ended);
    CHECK(ended->outcome == Outcome::node_failure);
    CHECK(ended->cause.starts_with(
        "the guard process has ended; ended leftover processes (2): "));
    CHECK(scene.allocation.bye() == "node lost");
  });
}

TEST_CASE("kill -9 of guard and node agent at once: the lead cleans up") {
  repeat([] {
    Scene scene;
    const pid_t agent = scene.allocation.node_agent();
    ::kill(scene.allocation.guard(), SIGKILL);
    ::kill(agent, SIGKILL);
    CHECK(scene.allocation.wait_exit() == 0);
    CHECK(scene.allocation.marked().empty());
    CHECK(scene.allocation.ended(scene.attempt.attempt)->outcome == Outcome::node_failure);
  });
}

TEST_CASE("kill -9 of a rank: a crash that names it and the allocation goes on") {
  repeat([] {
    Scene scene;
    const auto next = scene.allocation.assign({"result"});
    const auto ranks = children_of(scene.allocation.node_agent());
    REQUIRE(!ranks.empty());
    ::kill(ranks.front(), SIGKILL);
    const Ended ended = scene.allocation.wait_ended(scene.attempt.attempt);
    CHECK(ended.outcome == Outcome::crashed);
    CHECK(ended.signal == SIGKILL);
    CHECK(ended.cause.find("was ended by SIGKILL; ended leftover processes (2): ") !=
          std::string::npos);
    CHECK(ended.leaked == 2);
    CHECK(scene.allocation.wait_ended(next.attempt).outcome == Outcome::completed);
  });
}

TEST_CASE("kill -9 of lead and guard and node agent at once: the sweep finds what is left") {
  repeat(kill_all_agents);
}

TEST_CASE("a stopped node agent is a lost node after its lease") {
  Allocation allocation;
  allocation.spec.node_lease_s = 1;
  const auto attempt = allocation.assign(clinging);
  allocation.start();
  allocation.wait_steps(attempt, 2);
  ::kill(allocation.node_agent(), SIGSTOP);
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.marked().empty());
  const auto ended = allocation.ended(attempt.attempt);
  REQUIRE(ended);
  CHECK(ended->outcome == Outcome::node_failure);
  CHECK(ended->cause.starts_with("node local sent nothing for 1."));
}

TEST_CASE("a stopped lead loses its ranks after the lease and takes up from there") {
  Allocation allocation;
  allocation.spec.agent_lease_s = 1;
  const auto attempt = allocation.assign(clinging);
  allocation.start();
  allocation.wait_steps(attempt, 2);
  ::kill(allocation.lead(), SIGSTOP);
  CHECK(allocation.wait_clean());
  CHECK(!allocation.ended(attempt.attempt));
  ::kill(allocation.lead(), SIGCONT);
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.ended(attempt.attempt)->outcome == Outcome::lost);
  CHECK(allocation.bye() == "node lost");
}

TEST_CASE("a result that was written before everything was killed counts") {
  Allocation allocation;
  const auto attempt = allocation.assign({"steps", "result", "hang"});
  allocation.start();
  REQUIRE(wait_until([&] {
    const auto records = read_attempt_records(AttemptPaths{attempt.dir});
    return records && records->text.find("result") != std::string::npos;
  }));
  ::kill(allocation.node_agent(), SIGKILL);
  CHECK(allocation.wait_exit() == 0);
  const auto ended = allocation.ended(attempt.attempt);
  REQUIRE(ended);
  CHECK(ended->outcome == Outcome::completed);
  CHECK(ended->cause == "after the result: the node agent of local was ended by SIGKILL");
}

TEST_CASE("processes that leave their session are found and named before the next attempt") {
  Allocation allocation;
  const int count = test::repeats(5);
  for (int i = 0; i < count; ++i)
    allocation.assign({"leak", "result"});
  allocation.start();
  for (int i = 1; i <= count; ++i) {
    const Ended ended = allocation.wait_ended(i);
    CHECK(ended.outcome == Outcome::completed);
    CHECK(ended.leaked == 2);
    CHECK(ended.cause.starts_with("ended leftover processes (2): '"));
    CHECK(ended.cause.find("agent_test_rank leak result'") != std::string::npos);
  }
  CHECK(allocation.marked().empty());
}

TEST_CASE("a process that forks itself for ever is caught") {
  repeat([] {
    Allocation allocation;
    const auto attempt = allocation.assign({"refork", "result"}, 1);
    const auto next = allocation.assign({"result"}, 1);
    allocation.start();
    CHECK(allocation.wait_ended(attempt.attempt).outcome == Outcome::completed);
    CHECK(allocation.wait_ended(next.attempt).outcome == Outcome::completed);
    CHECK(allocation.marked().empty());
  });
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
    CHECK(scene.allocation.wait_ended(scene.attempt.attempt).outcome == Outcome::cancelled);
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
      "(" + ignoring + "exec env -i " + variables + " sleep 1000) >/dev/null 2>&1 & echo $!";
  FILE* shell = ::popen(("setsid sh -c '" + script + "'").c_str(), "r");
  REQUIRE(shell != nullptr);
  int pid = 0;
  REQUIRE(std::fscanf(shell, "%d", &pid) == 1);
  ::pclose(shell);
  REQUIRE(wait_until([&] { return process_cmdline(pid).starts_with("sleep"); }));
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
  const pid_t of_ours = leave_behind("SHARDSWEEP_MARKER=" + own + "/77/local");
  const pid_t of_another = leave_behind("SHARDSWEEP_MARKER=" + own + "gone/3/local");
  const pid_t stubborn =
      leave_behind("SHARDSWEEP_MARKER=" + own + "gone/4/local", "trap \"\" TERM; ");
  const pid_t stopped = leave_behind("SHARDSWEEP_MARKER=" + own + "gone/5/local");
  ::kill(stopped, SIGSTOP);
  const auto attempt = allocation.assign({"result"});
  allocation.start();
  CHECK(allocation.wait_ended(attempt.attempt).outcome == Outcome::completed);
  for (const pid_t pid : {of_ours, of_another, stubborn, stopped})
    CHECK(is_gone(pid));
  CHECK(allocation.log().find("process " + std::to_string(stubborn) +
                              " is left over from attempt " + own +
                              "gone/4/local: sleep 1000") != std::string::npos);
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
  CHECK(allocation.wait_ended(attempt.attempt).outcome == Outcome::completed);
  for (const pid_t pid : {innocent, elsewhere, agent, owned}) {
    CHECK(!is_gone(pid));
    end_for_good(pid);
  }
}
