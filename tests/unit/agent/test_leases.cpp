// SPDX-License-Identifier: Apache-2.0
// Lead and node agent each hold a lease on the other. With a clock moved by hand: when a lease
// is over, what is said then, and that standing still oneself is held against nobody.
#include "agent/lead.hpp"
#include "agent/node_agent.hpp"
#include "machine/processes.hpp"
#include "unit/agent/hand_clock.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>

using namespace shardsweep;
using test::Played;
using test::wait_until;

namespace {

// The clock moves by steps: at each there is a beat, and two of them are no standstill.
constexpr double step_s = 0.01;
constexpr double beat_s = 0.8 * step_s;
constexpr double lease_s = 9.5 * step_s;

// ---- a node agent whose lead is this test

struct Node : Played {
  Node() {
    start([this](Descriptor in, Descriptor out) {
      ::dup2(in.get(), STDIN_FILENO);
      ::dup2(out.get(), STDOUT_FILENO);
      out.reset();
      NodeOptions options;
      options.node.name = "n1";
      options.node.token = token;
      options.lease_s = lease_s;
      options.beat_s = options.watch_s = beat_s;
      return agent::NodeAgent(std::move(options), clock, ::getppid()).run();
    });
    REQUIRE(says<NodeReady>());
  }
  template <class Body>
  bool says(const std::function<bool(const Body&)>& wanted = {}) {
    return hears([&](const std::string& line) {
      const auto message = decode_from_node(line);
      const auto* body = message ? std::get_if<Body>(&message->body) : nullptr;
      return body != nullptr && (!wanted || wanted(*body));
    });
  }
  /// It has beaten at the time that the clock has now.
  void pass(int beats) {
    for (int i = 0; i < beats; ++i) {
      clock.advance(step_s);
      REQUIRE(says<NodeBeat>());
    }
  }
  /// The lead is heard, at the time that the clock has now.
  void hear_lead() {
    say(encode(ToNodeBody{LeadBeat{}}));
    say(encode(ToNodeBody{AskProgress{1}}));
    REQUIRE(says<NoProgress>());
  }
  const std::string token = "leases" + std::to_string(::getpid());
};

/// Agents of other tests on this machine end a rank whose allocation has no agent. This node
/// agent was forked and not executed: nobody sees what it is.
struct LivingAgent {
  explicit LivingAgent(const std::string& token) : pid(::fork()) {
    if (pid != 0) {
      REQUIRE(wait_until([this] { return process_cmdline(pid).starts_with("tail"); }));
      return;
    }
    const std::string variable = std::string(agent_variable) + "=" + token + "/agent";
    ::execl("/usr/bin/env", "env", variable.c_str(), "tail", "-f", "/dev/null", nullptr);
    ::_exit(126);
  }
  LivingAgent(const LivingAgent&) = delete;
  LivingAgent& operator=(const LivingAgent&) = delete;
  ~LivingAgent() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  pid_t pid;
};

/// A rank that stands still for ever.
struct NodeWithAttempt : Node {
  LivingAgent agent{token};
  NodeWithAttempt() {
    AttemptSpec spec;
    spec.attempt = 1;
    spec.nonce = "nonce";
    spec.token = token;
    spec.argv = {"/usr/bin/tail", "-f", "/dev/null"};
    spec.limits.grace_s = 1000;
    const AttemptPaths paths{folder.path() / "attempts" / "attempt-1"};
    std::filesystem::create_directories(paths.dir);
    REQUIRE(write_file_durably(paths.spec(), encode(spec)));
    say(encode(ToNodeBody{Launch{1, paths.dir.string(), ""}}));
    REQUIRE(says<NodeLaunched>());
  }
};

}  // namespace

TEST_CASE("a node agent hears its lead for as long as its lease, and leaves after it") {
  Node node;
  for (int i = 0; i < 3; ++i) {
    node.pass(9);
    node.hear_lead();
  }
  node.pass(9);
  CHECK(node.lives());
  node.clock.advance(2 * step_s);
  CHECK(node.exit_code() == 71);
  CHECK(node.log().find("leaving: the lead sent nothing for 0.") != std::string::npos);
}

TEST_CASE("a node agent ends its ranks before it leaves without a lead") {
  NodeWithAttempt node;
  const auto ranks = children_of(node.pid());
  REQUIRE(ranks.size() == 1);
  node.pass(9);
  node.clock.advance(2 * step_s);
  CHECK(node.says<NodeEnded>([](const NodeEnded& ended) {
    return ended.attempt == 1 && ended.ending.outcome == Outcome::lost &&
        ended.ending.cause.starts_with("the lead sent nothing for 0.");
  }));
  CHECK(node.exit_code() == 71);
  CHECK(!process_stat(ranks.front()));
}

TEST_CASE("a node agent that stood still itself goes on, and its lease begins anew") {
  Node node;
  node.pass(5);
  node.clock.advance(100 * lease_s);
  REQUIRE(node.says<NodeBeat>());
  CHECK(node.log().find("stood still for 9.5 s") != std::string::npos);
  node.pass(4);
  CHECK(node.lives());
  node.clock.advance(2 * step_s);
  CHECK(node.exit_code() == 71);
}

// ---- a lead whose node agents are this test

namespace {

struct PlayedLead : Played {
  PlayedLead() {
    spec.token = "leases";
    spec.nodes = 2;
    spec.launch = LaunchMode::agents;
    spec.limits.beat_s = spec.limits.file_beat_s = spec.limits.watch_interval_s = beat_s;
    spec.limits.node_lease_s = lease_s;
    spec.limits.agents_limit_s = 3 * lease_s;
    spec.limits.idle_limit_s = 1000 * lease_s;
  }
  void run() {
    start([this](Descriptor in, Descriptor out) {
      ::setenv("SLURM_JOB_NODELIST", "n[7-8]", 1);
      auto file = LineWriter::open(paths.from_lead());
      if (!file) return -1;
      agent::Lead lead(paths, spec, *std::move(file), clock,
          agent::PipedChild{0, std::move(out), std::move(in)}, agent::JobEnd({}));
      lead.say_claimed({});
      return lead.run();
    });
    // Its clock counts from here.
    REQUIRE(wait_until([&] { return !said<Claimed>().empty(); }));
  }
  void node_says(const std::string& node, const FromNodeBody& body) {
    say(encode(FromNode{node, body}));
  }
  void ready(const std::string& node, std::int32_t index) {
    node_says(node, NodeReady{node, "host", 1, index});
  }
  template <class Body>
  bool tells() {
    return hears([](const std::string& line) {
      const auto message = decode_to_node(line);
      return message && std::holds_alternative<Body>(*message);
    });
  }
  /// Steps of the clock in which n7 beats, and n8 as well or not.
  void pass(int beats, bool both) {
    for (int i = 0; i < beats; ++i) {
      node_says("n7", NodeBeat{});
      if (both) node_says("n8", NodeBeat{});
      clock.advance(step_s);
      REQUIRE(tells<LeadBeat>());
    }
  }
  /// Of a training attempt on both nodes, until they are told to launch it.
  Assign launched() {
    AttemptSpec attempt;
    attempt.attempt = 1;
    attempt.nonce = "nonce";
    attempt.world = 2;
    Assign assign{.attempt = 1, .nonce = "nonce"};
    assign.dir = (folder.path() / "attempts" / "attempt-1").string();
    std::filesystem::create_directories(assign.dir);
    REQUIRE(write_file_durably(AttemptPaths{assign.dir}.spec(), encode(attempt)));
    auto to_lead = LineWriter::open(paths.to_lead());
    REQUIRE(to_lead);
    REQUIRE(to_lead->append(encode(ToLead{1, 1, assign}), false));
    run();
    ready("n7", 0);
    ready("n8", 1);
    REQUIRE(tells<Launch>());
    return assign;
  }
  template <class Body>
  std::vector<Body> said() {
    LineReader reader(paths.from_lead());
    std::vector<Body> found;
    const auto lines = reader.look();
    REQUIRE(lines);
    for (const auto& line : *lines) {
      const auto message = decode_from_lead(line);
      const auto* body = message ? std::get_if<Body>(&message->body) : nullptr;
      if (body != nullptr) found.push_back(*body);
    }
    return found;
  }

  AllocationSpec spec;
  AllocationPaths paths{folder.path()};
};

}  // namespace

TEST_CASE("a node that is silent for its lease is lost, and the others are not") {
  PlayedLead lead;
  (void)lead.launched();
  lead.pass(12, true);
  lead.pass(8, false);
  CHECK(lead.said<Ended>().empty());
  lead.node_says("n7", NodeBeat{});
  lead.clock.advance(2 * step_s);
  REQUIRE(wait_until([&] { return !lead.said<Ended>().empty(); }));
  const Ended ended = lead.said<Ended>().front();
  CHECK(ended.ending.outcome == Outcome::node_failure);
  CHECK(ended.ending.node == "n8");
  CHECK(ended.ending.cause.starts_with("node n8 sent nothing for 0."));
  lead.close();
  CHECK(lead.exit_code() == 0);
  CHECK(lead.said<Bye>().front().why == "node lost");
}

TEST_CASE("a node that has said why it leaves is lost for that, when its lease is over") {
  PlayedLead lead;
  (void)lead.launched();
  lead.pass(3, true);
  lead.node_says("n8", NodeFinding{EvidenceKind::leaving, "its agent was killed"});
  REQUIRE(wait_until([&] { return !lead.said<FoundOnNode>().empty(); }));
  lead.pass(8, false);
  CHECK(lead.said<Ended>().empty());
  lead.node_says("n7", NodeBeat{});
  lead.clock.advance(2 * step_s);
  REQUIRE(wait_until([&] { return !lead.said<Ended>().empty(); }));
  CHECK(lead.said<Ended>().front().ending.cause.starts_with(
      "its agent was killed; node n8 sent nothing for 0."));
  CHECK(lead.said<FoundOnNode>().front().kind == EvidenceKind::leaving);
}

TEST_CASE("a lead that stood still goes on, and the leases begin anew") {
  PlayedLead lead;
  (void)lead.launched();
  lead.pass(3, true);
  lead.clock.advance(100 * lease_s);
  REQUIRE(lead.tells<LeadBeat>());
  lead.pass(5, true);
  CHECK(lead.said<Ended>().empty());
  CHECK(lead.log().find("stood still for 9.5 s") != std::string::npos);
}

TEST_CASE("node agents that start after their nodes' prologs are waited for, within their limit") {
  PlayedLead lead;
  lead.run();
  for (int i = 0; i < 28; ++i) {
    lead.clock.advance(step_s);
    REQUIRE(lead.tells<LeadBeat>());
  }
  CHECK(lead.lives());
  SUBCASE("all of them come") {
    lead.ready("n7", 0);
    lead.ready("n8", 1);
    lead.pass(8, true);
    CHECK(lead.lives());
    CHECK(lead.said<NodeSeen>().size() == 2);
    CHECK(lead.said<FoundOnNode>().empty());
  }
  SUBCASE("one of them does not: it is named") {
    lead.ready("n7", 0);
    lead.node_says("n7", NodeBeat{});
    REQUIRE(wait_until([&] { return lead.said<NodeSeen>().size() == 1; }));
    lead.clock.advance(2 * step_s);
    REQUIRE(wait_until([&] { return !lead.said<FoundOnNode>().empty(); }));
    CHECK(lead.said<FoundOnNode>().front().node == "n8");
    CHECK(lead.said<FoundOnNode>().front().kind == EvidenceKind::silent);
  }
  SUBCASE("none does: nobody is blamed") {
    lead.clock.advance(2 * step_s);
    REQUIRE(wait_until(
        [&] { return lead.log().find("2 of 2 node agents did not start") != std::string::npos; }));
    lead.close();
    CHECK(lead.exit_code() == 0);
    CHECK(lead.said<FoundOnNode>().empty());
  }
}
