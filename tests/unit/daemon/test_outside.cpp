// SPDX-License-Identifier: Apache-2.0
// A sweep that somebody outside measures: points that are handed out, their leases, their one
// counted result, and a daemon that dies at every call meanwhile.
#include "unit/daemon/played_site.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace shardsweep::testing {
namespace {

using Json = nlohmann::json;

const PlayedSweep handed{.backend = Backend::outside, .micro_batch = {1, 2, 4}};
constexpr double hour = 3600;
constexpr double tokens = 256 * 4096;  // of a train step

struct OutsideCase : PlayedSite {
  explicit OutsideCase(const PlayedSweep& sweep = handed) { submit(sweep); }

  Request next_request(const std::string& worker, std::int64_t points = 1) {
    Request request;
    request.verb = Verb::next;
    request.names = {"a"};
    request.hand_out = {points, hour, worker, {}};
    return request;
  }
  Json next(const std::string& worker = "", std::int64_t points = 1) {
    const Answer answer = ask(next_request(worker, points));
    if (answer.fault) FAIL(answer.fault->what);
    return Json::parse(answer.document);
  }
  std::string id_of_next(const std::string& worker = "") {
    const Json all = next(worker);
    REQUIRE(all["points"].size() == 1);
    return all["points"][0]["id"].get<std::string>();
  }
  static Request record_request(const std::string& id, OutsideResult result) {
    Request request;
    request.verb = Verb::record;
    request.names = {id};
    request.result = std::move(result);
    return request;
  }
  Answer record(const std::string& id, OutsideResult result = {.step_ms = 500}) {
    return ask(record_request(id, std::move(result)));
  }
  std::string number(const std::string& what) { return sql("SELECT count(*) FROM " + what); }
};

TEST_CASE("a point is handed out with its command, and its result counts once") {
  OutsideCase site;
  const Json all = site.next("", 2);
  CHECK(all["sweep"] == "a");
  CHECK(all["state"] == "active");
  CHECK(all["waiting"] == 1);
  CHECK(all["out"] == 2);
  REQUIRE(all["points"].size() == 2);
  const Json& point = all["points"][0];
  CHECK(point["world"] == 8);
  CHECK(point["values"]["micro_batch"] == "1");
  CHECK_FALSE(point["argv"].empty());
  CHECK(site.trials() == "running running planned");
  // Nobody here has to be there while somebody else measures.
  site.pass(12);
  CHECK_FALSE(site.alive());
  CHECK(site.slurm.jobs.empty());
  const auto id = point["id"].get<std::string>();
  Answer answer = site.record(id, {.tokens_per_s = 2 * tokens, .peak_memory_bytes = 1e9});
  REQUIRE_FALSE(answer.fault);
  CHECK(answer.counts.at("counted") == 1);
  CHECK(site.trials() == "completed running planned");
  CHECK(site.sql("SELECT tokens_per_s_per_gpu FROM results WHERE outcome = 'completed'") ==
      fmt::format("{:.1f}", 2 * tokens / 8));
  CHECK(site.sql("SELECT hosts FROM measurements") == R"(["outside"])");
  // Once more, as somebody who has not read the answer: nothing changes.
  answer = site.record(id, {.step_ms = 1});
  REQUIRE_FALSE(answer.fault);
  CHECK(answer.counts.at("counted") == 1);
  CHECK(answer.counts.at("again") == 1);
  CHECK(site.number("measurements") == "1");
  CHECK(site.sql("SELECT train_step_ms FROM measurements") == "500.0");
}

TEST_CASE("a worker is given again what it holds, and nobody else is") {
  OutsideCase site;
  const std::string first = site.id_of_next("w1");
  CHECK(site.id_of_next("w1") == first);
  const std::string second = site.id_of_next("w2");
  CHECK(second != first);
  CHECK(site.id_of_next("") != second);
  const Json none = site.next("w3");
  CHECK(none["points"].empty());
  CHECK(none["out"] == 3);
  CHECK(none["state"] == "active");
  CHECK(site.sql("SELECT host FROM allocations ORDER BY id LIMIT 1") == "outside w1");
  CHECK_FALSE(site.record(first).fault);
  CHECK(site.next("w1")["points"].empty());
}

TEST_CASE("when a lease is over its trial is handed out again, and a late result is kept") {
  OutsideCase site;
  const Json first = site.next("w1")["points"][0];
  site.clock.advance(static_cast<Timestamp>((hour + 1) * 1e6));
  const Json second = site.next("w1")["points"][0];
  CHECK(second["trial"] == first["trial"]);
  CHECK(second["id"] != first["id"]);
  Answer late = site.record(first["id"].get<std::string>(), {.step_ms = 400});
  REQUIRE_FALSE(late.fault);
  CHECK(late.counts.at("late") == 1);
  CHECK(late.counts.at("counted") == 0);
  CHECK(late.text.find("the point was handed out again") != std::string::npos);
  late = site.record(first["id"].get<std::string>(), {.step_ms = 300});
  REQUIRE_FALSE(late.fault);
  CHECK(late.counts.at("again") == 1);
  CHECK(site.sql("SELECT train_step_ms FROM measurements") == "400.0");
  CHECK(site.number("results WHERE outcome = 'completed'") == "0");
  CHECK(site.number("events WHERE kind = 'record'") == "1");
  CHECK(site.record(second["id"].get<std::string>()).counts.at("counted") == 1);
  CHECK(site.sql("SELECT train_step_ms FROM results WHERE outcome = 'completed'") == "500.0");
  CHECK(site.number("attempts WHERE counted") == "1");
}

TEST_CASE("a result that comes in time counts although nobody had looked at the lease") {
  OutsideCase site;
  const std::string id = site.id_of_next();
  site.clock.advance(static_cast<Timestamp>((hour - 60) * 1e6));
  CHECK(site.record(id).counts.at("counted") == 1);
}

TEST_CASE("a late result counts as long as nobody else has the point") {
  for (const bool noticed : {false, true}) {
    CAPTURE(noticed);
    OutsideCase site;
    const std::string id = site.id_of_next("w1");
    site.clock.advance(static_cast<Timestamp>((hour + 1) * 1e6));
    if (noticed) site.next("w2", 1);  // takes it back, and is given it: w2's lease ends too
    if (noticed) site.clock.advance(static_cast<Timestamp>((hour + 1) * 1e6));
    Answer answer = site.record(id, {.step_ms = 400});
    REQUIRE_FALSE(answer.fault);
    CHECK(answer.counts.at("counted") == 1);
    CHECK(answer.counts.at("late") == 1);
    CHECK(site.trials() == "completed planned planned");
    CHECK(site.sql("SELECT train_step_ms FROM results WHERE outcome = 'completed'") == "400.0");
    CHECK(site.sql("SELECT hosts FROM measurements") == R"(["outside w1"])");
    answer = site.record(id, {.step_ms = 300});
    CHECK(site.sql("SELECT train_step_ms FROM results WHERE outcome = 'completed'") == "400.0");
    CHECK(answer.counts.at("again") == (noticed ? 0 : 1));
  }
}

TEST_CASE("a late result of a point that was given up counts, also after a restart of the daemon") {
  PlayedSweep given_up = handed;
  given_up.settings = "retry: {elsewhere: 1}";
  given_up.micro_batch = {1};
  for (const bool same_daemon : {true, false}) {
    CAPTURE(same_daemon);
    OutsideCase site(given_up);
    const std::string id = site.id_of_next("w1");
    for (int lease = 0; lease < 2; ++lease) {
      site.next("w1");
      site.clock.advance(static_cast<Timestamp>((hour + 1) * 1e6));
    }
    CHECK(site.next("w1")["points"].empty());
    CHECK(site.trials() == "lost");
    if (!same_daemon) site.die();
    const Answer answer = site.record(id, {.step_ms = 400});
    REQUIRE_FALSE(answer.fault);
    CHECK(answer.counts.at("counted") == 1);
    CHECK(site.trials() == "completed");
    CHECK(site.sql("SELECT train_step_ms FROM results WHERE outcome = 'completed'") == "400.0");
  }
}

/// What two workers and the time can do, one sequence on one site. Each number is one of its own.
struct LateSequence : OutsideCase {
  std::vector<std::string> ids;
  double step_ms = 400;

  void hand_to(const std::string& worker) {
    for (const Json& point : next(worker)["points"])
      ids.push_back(point["id"].get<std::string>());
  }
  /// What is answered is what is stored: a number that is new is there, and counts if it said so.
  void record_held(const std::string& id) {
    ++step_ms;
    const Answer answer = record(id, {.step_ms = step_ms});
    REQUIRE_FALSE(answer.fault);
    const auto where = fmt::format("WHERE train_step_ms = {}", step_ms);
    CHECK(number("measurements " + where) == (answer.counts.at("again") != 0 ? "0" : "1"));
    if (answer.counts.at("again") == 0)
      CHECK(number("results " + where) == (answer.counts.at("counted") != 0 ? "1" : "0"));
  }
  void step(int which) {
    if (which == 0) hand_to("w1");
    if (which == 1) hand_to("w2");
    if (which == 2 && !ids.empty()) record_held(ids.front());
    if (which == 3 && !ids.empty()) record_held(ids.back());
    if (which == 4) clock.advance(static_cast<Timestamp>((hour + 1) * 1e6));
    if (which == 5) tick();
    if (which == 6) die();
  }
};

TEST_CASE("all sequences of three steps, then both results: leases, two workers, a dead daemon") {
  constexpr int kinds = 7;
  constexpr int all = kinds * kinds * kinds;
  for (int sequence = 0; sequence < all; ++sequence) {
    const int first = sequence % kinds;
    const int second = sequence / kinds % kinds;
    const int third = sequence / kinds / kinds;
    if (first == second || second == third) continue;  // twice is as once, but for results
    CAPTURE(sequence);
    LateSequence site;
    site.hand_to("w1");
    for (const int which : {first, second, third, 2, 3})
      site.step(which);
    CHECK(site.number("(SELECT trial FROM attempts WHERE counted GROUP BY trial HAVING count(*) > "
                      "1)") == "0");
    CHECK(
        site.number("attempts WHERE counted") == site.number("trials WHERE outcome = 'completed'"));
  }
}

TEST_CASE("out of memory is a verdict, and a crash is tried once more") {
  OutsideCase site;
  const Json point = site.next()["points"][0];
  const Answer crashed = site.record(
      point["id"].get<std::string>(), {.outcome = Outcome::crashed, .evidence = "SIGSEGV"});
  CHECK(crashed.text.find("tried once more") != std::string::npos);
  CHECK(site.next("", 3)["points"].dump().find(point["trial"].get<std::string>()) !=
      std::string::npos);
  const std::string again =
      site.sql("SELECT nonce FROM attempts WHERE number = 2 AND state = 'running'");
  CHECK_FALSE(
      site.record(again, {.outcome = Outcome::oom, .evidence = "CUDA out of memory."}).fault);
  CHECK(site.trials().starts_with("oom"));
  CHECK(site.sql("SELECT cause FROM trials WHERE outcome = 'oom'") == "CUDA out of memory.");
}

TEST_CASE("what is cancelled is taken back, and can be deleted") {
  OutsideCase site;
  const std::string id = site.id_of_next();
  CHECK_FALSE(site.ask(Verb::cancel, {"a"}).fault);
  CHECK(site.number("allocations WHERE state <> 'ended'") == "0");
  const Answer late = site.record(id);
  REQUIRE_FALSE(late.fault);
  CHECK(late.counts.at("counted") == 0);
  CHECK(site.number("results WHERE outcome = 'completed'") == "0");
  CHECK(site.next()["state"] == "cancelled");
  CHECK_FALSE(site.ask(Verb::remove, {"a"}).fault);
  CHECK(site.number("sweeps") == "0");
}

TEST_CASE("a paused sweep hands out nothing new, and takes results") {
  OutsideCase site;
  const std::string id = site.id_of_next("w1");
  CHECK_FALSE(site.ask(Verb::pause, {"a"}).fault);
  CHECK(site.id_of_next("w1") == id);
  CHECK(site.next("w2")["points"].empty());
  CHECK(site.record(id).counts.at("counted") == 1);
}

TEST_CASE("a late result of a sweep that is paused is kept, and the answer says so") {
  OutsideCase site;
  const std::string id = site.id_of_next("w1");
  site.clock.advance(static_cast<Timestamp>((hour + 1) * 1e6));
  site.tick();
  CHECK_FALSE(site.ask(Verb::pause, {"a"}).fault);
  const Answer late = site.record(id);
  REQUIRE_FALSE(late.fault);
  CHECK(late.counts.at("counted") == 0);
  CHECK_MESSAGE(late.text.find("is paused") != std::string::npos, late.text);
}

TEST_CASE("what can't be is refused, and changes nothing") {
  OutsideCase site;
  const std::string id = site.id_of_next();
  const std::vector<std::pair<OutsideResult, std::string>> wrong{{{}, "speed is missing"},
      {{.tokens_per_s = 2 * tokens, .step_ms = 1000}, "tokens per train step"},
      {{.step_ms = -1}, "must be a number from 0"},
      {{.step_ms = 500, .peak_memory_bytes = 1e15}, "one has"},
      {{.step_ms = 500, .evidence = "it went well"}, "--evidence belongs to"},
      {{.outcome = Outcome::oom}, "needs --evidence"},
      {{.outcome = Outcome::oom, .step_ms = 500, .evidence = "CUDA out of memory"}, "has no speed"},
      {{.outcome = Outcome::hung, .evidence = "it stood still"}, "can't be recorded"}};
  for (const auto& [result, why] : wrong) {
    const Answer answer = site.record(id, result);
    REQUIRE(answer.fault);
    CHECK(answer.fault->what.find(why) != std::string::npos);
  }
  CHECK(site.record("0123").fault);
  CHECK(site.trials().starts_with("running"));
  Request request = site.next_request("no blanks, please");
  CHECK(site.ask(request).fault);
  request = site.next_request("", most_handed_out + 1);
  CHECK(site.ask(request).fault);
  request = site.next_request("w9");
  request.hand_out.trial = "nobody";
  CHECK(site.ask(request).fault);
  CHECK(site.number("attempts") == "1");
  CHECK_FALSE(site.record(id).fault);
}

TEST_CASE("points of a sweep that shardsweep runs itself are not handed out") {
  PlayedSite site;
  site.submit({});
  Request request;
  request.verb = Verb::next;
  request.names = {"a"};
  request.hand_out = {1, hour, {}, {}};
  const Answer answer = site.ask(request);
  REQUIRE(answer.fault);
  CHECK(answer.fault->what.find("--backend outside") != std::string::npos);
}

/// Dies at its n-th call and is started again, for each n at which there is a call.
TEST_CASE("a daemon that dies at any call hands nothing out twice, and counts nothing twice") {
  bool died = true;
  for (int n = 1; died && n < 400; ++n) {
    OutsideCase site;
    const auto deaths = site.deaths();
    site.fate.kill_at(n);
    const std::string first = site.id_of_next("w1");
    const Answer answer = site.record(first);
    REQUIRE_FALSE(answer.fault);
    CHECK(answer.counts.at("counted") == 1);
    site.fate.live();
    died = site.deaths() > deaths;
    CAPTURE(n);
    CHECK(site.number("attempts") == "1");
    CHECK(site.number("attempts WHERE counted") == "1");
    CHECK(site.number("allocations WHERE state <> 'ended'") == "0");
    CHECK(site.trials() == "completed planned planned");
  }
  CHECK_FALSE(died);
}

}  // namespace
}  // namespace shardsweep::testing
