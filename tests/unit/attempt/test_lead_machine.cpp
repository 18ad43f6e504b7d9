// SPDX-License-Identifier: Apache-2.0
// The lead without processes: what it asks for when something is seen. The simulator of
// tests/unit/daemon plays whole allocations.
#include "attempt/lead_machine.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <ostream>

using namespace shardsweep;

namespace {

class Noted final : public LeadOutside {
 public:
  double now_s = 100;
  std::vector<FromLeadBody> said;
  std::vector<ToNodeBody> told;
  std::vector<ToLead> to_read;
  std::optional<EndedAttempt> settled;
  std::optional<Evidence> by_srun;
  int ends = 0;

  [[nodiscard]] Moment now() const override { return {now_s, static_cast<Timestamp>(now_s * 1e6)}; }
  void log(const std::string&) override {}
  bool say(FromLeadBody line, bool) override {
    said.push_back(std::move(line));
    return true;
  }
  void tell(const ToNodeBody& message) override { told.push_back(message); }
  [[nodiscard]] bool leave_pairs(int, const std::vector<NodePair>&) override { return true; }
  [[nodiscard]] std::vector<ToLead> orders() override { return std::exchange(to_read, {}); }
  [[nodiscard]] Result<ReadyAttempt> prepare(const Assign& assign) override {
    AttemptSpec spec;
    spec.attempt = assign.attempt;
    spec.nonce = assign.nonce;
    return ReadyAttempt{spec, ""};
  }
  [[nodiscard]] bool pack(const Assign&) override { return true; }
  void settle(EndedAttempt attempt) override { settled = std::move(attempt); }
  void ask_about_job(const Assign&) override {}
  void stop_asking() override {}
  [[nodiscard]] std::optional<std::map<std::string, std::string>> topology() override {
    return std::nullopt;
  }
  [[nodiscard]] bool topology_is_due() const override { return false; }
  [[nodiscard]] std::string storage_fault(bool) override { return ""; }
  [[nodiscard]] bool agents_were_killed() override { return false; }
  [[nodiscard]] std::optional<Evidence> lost_by_launcher() override { return by_srun; }
  [[nodiscard]] bool end_all() override {
    ++ends;
    return true;
  }

  template <class Body, class From>
  [[nodiscard]] static int count(const std::vector<From>& all) {
    int found = 0;
    for (const From& one : all)
      found += std::holds_alternative<Body>(one) ? 1 : 0;
    return found;
  }
};

struct OneNode {
  Noted outside;
  LeadMachine lead{
      "/folder", {.token = "t", .launch = LaunchMode::agents, .limits = {}}, {"n1"}, outside};

  void round(LeadSenses senses = {}) {
    outside.now_s += 1;
    lead.round(std::move(senses));
  }
  void start() {
    round({.heard = {{"n1", NodeReady{.node = "n1", .host = "n1", .pid = 1, .index = 0}}}});
    outside.to_read = {{1, 1, Assign{.attempt = 7, .dir = "/folder/7", .nonce = "x"}},
        {2, 1, Assign{.attempt = 8, .dir = "/folder/8", .nonce = "y"}}};
    round();
  }
};

}  // namespace

TEST_CASE("a lead runs one attempt after the other, and waits until each is settled") {
  OneNode one;
  one.start();
  CHECK(one.lead.running() == 7);
  CHECK(Noted::count<Started>(one.outside.said) == 1);
  CHECK(Noted::count<Launch>(one.outside.told) == 1);
  one.round({.heard = {{"n1", NodeEnded{.attempt = 7, .ending = {Outcome::completed}}}}});
  REQUIRE(one.outside.settled.has_value());
  one.round();
  CHECK(Noted::count<Launch>(one.outside.told) == 1);
  Settlement settled = judge_ended(*one.outside.settled, true, {});
  settled.packed = true;
  one.round({.settled = settled});
  CHECK(Noted::count<Ended>(one.outside.said) == 1);
  CHECK(one.lead.running() == 8);
}

TEST_CASE("a lead that is told to stop ends what runs, gives back what waits and leaves") {
  OneNode one;
  one.start();
  one.round({.signals = {SIGCONT, SIGTERM}});
  CHECK(one.lead.is_leaving());
  CHECK(Noted::count<EndAttempt>(one.outside.told) == 1);
  CHECK(Noted::count<Revoked>(one.outside.said) == 1);
  one.round({.heard = {{"n1", NodeEnded{.attempt = 7, .ending = {Outcome::preempted}}}}});
  one.round({.settled = judge_ended(*one.outside.settled, false, {})});
  CHECK(Noted::count<Quit>(one.outside.told) == 1);
  CHECK_FALSE(one.lead.over());
  one.round({.closed = true});
  CHECK(one.outside.ends == 1);
  CHECK(Noted::count<Bye>(one.outside.said) == 1);
  CHECK(one.lead.over());
}

TEST_CASE("a lead that stood still for longer than its agents wait blames none of them") {
  OneNode one;
  one.start();
  one.outside.now_s += 60;
  one.round({.closed = true});
  CHECK(Noted::count<FoundOnNode>(one.outside.said) == 0);
  REQUIRE(one.outside.settled.has_value());
  CHECK(one.outside.settled->own->ending.node.empty());
  CHECK(one.outside.settled->own->ending.cause ==
      "the lead stood still for so long that its node agents have ended");
}

TEST_CASE("the node that srun names is lost, if it is one of the job, and no other is blamed") {
  for (const char* named : {"n2", "n9"}) {
    Noted outside;
    LeadMachine lead{"/folder",
        {.token = "t", .nodes = 2, .launch = LaunchMode::agents, .limits = {}}, {"n1", "n2"},
        outside};
    lead.round({.heard = {{"n1", NodeReady{.node = "n1", .host = "n1", .pid = 1, .index = 0}}}});
    outside.by_srun = Evidence{};
    outside.by_srun->ending.node = named;
    outside.now_s += 1;
    lead.round({.closed = true});
    std::vector<std::string> blamed;
    for (const FromLeadBody& one : outside.said) {
      if (const auto* found = std::get_if<FoundOnNode>(&one)) blamed.push_back(found->node);
    }
    CHECK(
        blamed == (named[1] == '2' ? std::vector<std::string>{"n2"} : std::vector<std::string>{}));
  }
}
