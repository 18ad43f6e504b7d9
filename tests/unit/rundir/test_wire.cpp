// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/protocol.hpp>
#include <shardsweep/record.hpp>

#include <doctest/doctest.h>

#include <random>

using namespace shardsweep;

namespace {

const std::string nasty = "q\"uote \\ back\nnew\ttab \x01 ünïcode € $(rm) ; '";

AttemptSpec some_spec() {
  AttemptSpec spec;
  spec.attempt = 42;
  spec.trial = "llama1b-n8-42";
  spec.nonce = "abc";
  spec.token = "3f9a01";
  spec.world = 16;
  spec.ranks_per_node = 8;
  spec.argv = {"/opt/x y/shardbench-cpu", "--dp", "2", nasty};
  spec.env = {{"A", "1"}, {"B", nasty}};
  spec.limits.start_limit_s = 0.1;
  spec.limits.step_limit_s = 120.25;
  spec.limits.attempt_limit_s = 7200;
  spec.limits.keep_log_bytes = 1 << 18;
  spec.limits.gdb_s = 10;
  spec.nccl_debug = true;
  spec.rules = {{"own", nasty, Outcome::comm_error}, {"other", "a*b", Outcome::oom}};
  return spec;
}

}  // namespace

TEST_CASE("every message from daemon to lead reads back equal") {
  const std::vector<ToLeadBody> bodies{
      Assign{7, nasty, "/a/b c", "n", "lane", 4, 12.5}, Revoke{7}, Cancel{7, nasty}, Drain{}};
  std::int64_t n = 0;
  for (const auto& body : bodies) {
    const ToLead message{++n, 3, body};
    const auto back = decode_to_lead(encode(message));
    REQUIRE(back);
    CHECK(*back == message);
  }
}

TEST_CASE("every message from lead to daemon reads back equal") {
  const std::vector<FromLeadBody> bodies{Claimed{"t", "c", "host", 1, 2, "job"},
      Beat{7, "train", 3}, Started{7, "n"},
      Ended{7, "n", {Outcome::oom, nasty, SaidBy::runner, 11, 9, 2}, "x.tar"}, Revoked{7},
      Ended{.attempt = 7,
          .nonce = "n",
          .ending = {.outcome = Outcome::completed,
              .source = SaidBy::runner,
              .node = "n3",
              .also = nasty,
              .mark = Mark::contaminated},
          .nodes = {"n3", "n4"}},
      NodeSeen{"local", "host", 12}, FoundOnNode{"n3", EvidenceKind::dirty, nasty},
      Checked{"n3", {.device = "H100", .gemm_flops = 1e12, .wrong = {"home: no"}}, nasty, true},
      Bye{"drained"}};
  std::int64_t n = 0;
  for (const auto& body : bodies) {
    const FromLead message{++n, 1'700'000'000'000'000, body};
    const auto back = decode_from_lead(encode(message));
    REQUIRE(back);
    CHECK(*back == message);
  }
}

TEST_CASE("every channel message reads back equal") {
  const std::vector<ToNodeBody> to{Launch{1, "/d"}, EndAttempt{1, Outcome::timeout, nasty, true},
      Place{nasty, 3}, TimedSteps{1}, LeadBeat{}, Quit{}, CheckNode{"/d", CheckTime::after}};
  for (const auto& body : to) {
    const auto back = decode_to_node(encode(body));
    REQUIRE(back);
    CHECK(*back == body);
  }
  const std::vector<FromNodeBody> from{NodeReady{"local", "h", 5, 1, "NVIDIA H100"},
      NodeBeat{1, "init", 0, true}, NodeLaunched{1},
      NodeEnded{1, {Outcome::hung, nasty, SaidBy::agent, -1, 9, 1}, 55},
      NodeEnded{.attempt = 1,
          .ending = {.outcome = Outcome::completed,
              .source = SaidBy::runner,
              .also = nasty,
              .mark = Mark::contaminated},
          .at = 55},
      NodeFinding{EvidenceKind::dirty, nasty},
      NodeChecked{CheckTime::after, 0, {.device = nasty, .host_free = 0.5, .unmade = {nasty}}}};
  for (const auto& body : from) {
    const FromNode message{"node-1", body};
    const auto back = decode_from_node(encode(message));
    REQUIRE(back);
    CHECK(*back == message);
  }
}

TEST_CASE("specs read back equal") {
  const auto back = decode_attempt_spec(encode(some_spec()));
  REQUIRE(back);
  CHECK(*back == some_spec());
  auto trained = some_spec();
  trained.trainer = TrainerRun{.log = "megatron",
      .patterns = {nasty},
      .per_node = true,
      .directory = nasty,
      .warmup = 3,
      .steps = 9,
      .dp = 4,
      .tokens_per_step = 1 << 20};
  const auto read = decode_attempt_spec(encode(trained));
  REQUIRE(read);
  CHECK(*read == trained);
  AllocationSpec spec;
  spec.token = "3f9a01";
  spec.job_name = nasty;
  spec.nodes = 4;
  spec.limits.beat_s = 0.5;
  spec.limits.time_margin = 2;
  spec.grace_s = 7;
  spec.limits.stop_before_end_s = 30;
  spec.gpu = "NVIDIA H100 80GB HBM3";
  spec.limits.check_gemm = 0.8;
  spec.check = {.programs = {"/x"}, .before = {nasty}, .usual_gemm = {{"H100", 7e14}}};
  const auto allocation = decode_allocation_spec(encode(spec));
  REQUIRE(allocation);
  CHECK(*allocation == spec);
}

TEST_CASE("what was written before a key was added reads with its default") {
  const auto assign = decode_to_lead(
      R"({"n":1,"epoch":1,"type":"assign","attempt":7,"trial":"t","dir":"/d","nonce":"n",)"
      R"("lane":"l","micro_batch":4})");
  REQUIRE(assign);
  CHECK(std::get<Assign>(assign->body) == Assign{7, "t", "/d", "n", "l", 4, 0});
  CHECK(!decode_to_lead(
      R"({"n":1,"epoch":1,"type":"assign","attempt":7,"trial":"t","dir":"/d","nonce":"n",)"
      R"("lane":"l","micro_batch":4,"predicted_s":"long"})"));
  const auto allocation = decode_allocation_spec(
      R"({"token":"t","job_name":"j","nodes":1,"slots_per_node":1,"launch":"local","beat_s":1,)"
      R"("agent_lease_s":1,"node_lease_s":1,"file_beat_s":1,"watch_interval_s":1,)"
      R"("idle_limit_s":1})");
  REQUIRE(allocation);
  CHECK(allocation->limits.time_margin == 1.5);
  CHECK(allocation->limits.stop_before_end_s == 60);
}

TEST_CASE("a channel line fits the limit whatever its cause holds") {
  for (const std::string& piece : {std::string("x"), std::string("\n"), std::string("€"),
           std::string("\x01"), std::string("\xff")}) {
    std::string cause;
    while (cause.size() < 20'000)
      cause += piece;
    const std::string line =
        encode(FromNode{"n", NodeEnded{1, {Outcome::crashed, cause, SaidBy::exit, 1}, 5}});
    CHECK(line.size() < max_line);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(decode_from_node(line));
    CHECK(encode(ToNodeBody{EndAttempt{1, Outcome::cancelled, cause}}).size() < max_line);
    CHECK(encode(FromNode{"n", NodeFinding{EvidenceKind::dirty, cause}}).size() < max_line);
    NodeEnded contradicted{1, {Outcome::oom, cause, SaidBy::log, 1}, 5};
    contradicted.ending.also = cause;
    const auto back = decode_from_node(encode(FromNode{"n", contradicted}));
    REQUIRE(back);
    CHECK_FALSE(std::get<NodeEnded>(back->body).ending.also.empty());
  }
}

TEST_CASE("no line holds a newline") {
  CHECK(encode(ToLead{1, 1, Cancel{1, "a\nb"}}).find('\n') == std::string::npos);
}

TEST_CASE("foreign and broken lines are faults that quote their beginning") {
  for (const char* line : {"", "NCCL INFO x", "{}", "[]", "{\"type\":\"assign\"}",
           "{\"n\":1,\"epoch\":1}", "{\"n\":1,\"epoch\":1,\"type\":\"nothing\"}",
           "{\"n\":1,\"epoch\":1,\"type\":7}", "{\"n\":1.5,\"epoch\":1,\"type\":\"drain\"}",
           "{\"n\":\"1\",\"epoch\":1,\"type\":\"drain\"}",
           "{\"n\":99999999999999999999,\"epoch\":1,\"type\":\"drain\"}",
           "{\"n\":18446744073709551615,\"epoch\":1,\"type\":\"drain\"}",
           "{\"n\":1,\"epoch\":1,\"type\":\"drain\""}) {
    CHECK_MESSAGE(!decode_to_lead(line), line);
  }
  const auto fault = decode_to_lead("\x1b[31mhello");
  REQUIRE(!fault);
  CHECK(fault.error().what == "malformed line (not a JSON object): '\\x1b[31mhello'");
}

TEST_CASE("a deeply nested line is refused without harm") {
  CHECK(!decode_to_lead(std::string(500'000, '[')));
  CHECK(!decode_from_node(std::string(900, '[')));
}

TEST_CASE("changed and cut lines never decode to something else than a message or a fault") {
  std::mt19937 random(1);  // NOLINT: the same lines in every run
  const std::string whole =
      encode(FromNode{"n", NodeEnded{1, {Outcome::crashed, "rank 1 exited", SaidBy::exit, 1}, 5}});
  for (int i = 0; i < 20'000; ++i) {
    std::string line = whole;
    const auto changes = random() % 4;
    for (unsigned k = 0; k <= changes; ++k)
      line[random() % line.size()] = static_cast<char>(random() % 256);
    line.resize(random() % (line.size() + 1));
    const auto message = decode_from_node(line);
    if (message) CHECK(encode(*message).size() < max_line);
    (void)decode_record(line);
    (void)decode_to_lead(line);
  }
}

TEST_CASE("records are read by what an agent needs of them") {
  const auto step = decode_record(R"({"type":"train_step","run_id":"n1","step":7,"loss":1.5})");
  REQUIRE(step);
  CHECK(step->type == RecordType::train_step);
  CHECK(step->nonce == "n1");
  CHECK(step->step == 7);
  const auto error = decode_record(
      R"({"type":"error","class":"oom","message":"no","nonce":"n","t":1700000000.5})");
  REQUIRE(error);
  CHECK(error->error_class == "oom");
  CHECK(error->t == 1'700'000'000'500'000);
  CHECK(decode_record(R"({"type":"phase","phase":"train","t":1700000000500000})")->t ==
      1'700'000'000'500'000);
  CHECK(decode_record(R"({"type":"extra"})")->type == RecordType::other);
  CHECK(!decode_record("{\"typ"));
  CHECK(!decode_record("\xff\xfe garbage"));
}
