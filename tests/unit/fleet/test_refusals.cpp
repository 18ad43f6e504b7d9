// SPDX-License-Identifier: Apache-2.0
// What a trainer has refused twice with equal words: what is started no more, and what is.
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <utility>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

int number_in(const std::string& slug, const std::string& name) {
  const std::size_t at = slug.find(name);
  return at == std::string::npos ? 1 : std::stoi(slug.substr(at + name.size()));
}

struct Refusing : Case {
  TrialRow& layout(TrialId id, const std::string& slug, int micro_batch = 1) {
    TrialRow& row = trial(id, micro_batch, slug.substr(0, slug.find("-mb")));
    row.slug = slug + "-" + "ab12c" + std::to_string(id % 10);
    row.gpus = number_in(slug, "-g");
    row.degrees.dp = number_in(slug, "-dp");
    row.degrees.tp = number_in(slug, "tp");
    row.degrees.pp = number_in(slug, "pp");
    row.degrees.grad_accum = number_in(slug, "ga");
    return rows.trials[id] = row;
  }
  void refuse(TrialId trial, const std::string& words) {
    for (const auto& [id, attempt] : rows.attempts) {
      if (attempt.trial != trial) continue;
      line(Started{.attempt = id});
      return line(Ended{.attempt = id, .ending = {.outcome = Outcome::rejected, .cause = words}},
          RecordsSummary{});
    }
    FAIL("it was not started");
  }
  std::string skipped(TrialId id) {
    const TrialRow& row = rows.trials.at(id);
    return row.outcome == Outcome::skipped ? row.cause : "";
  }
};

const std::string heads = "ValueError: 4 query groups are not divisible by tensor parallel size 8";

/// Three layouts with tp 8, of which one waits, and one with tp 4.
struct Heads : Refusing {
  Heads() {
    input.sweeps[1].policy.lane_ahead_s = 15;  // two at a time
    layout(1, "m-g8-dp1tp8pp1-mb1ga8");
    layout(2, "m-g8-dp1tp8pp2-mb1ga8");
    layout(3, "m-g8-dp2tp8pp4-mb2ga8", 2);
    layout(4, "m-g8-dp2tp4pp1-mb1ga8");
    decide();
    REQUIRE(rows.attempts.size() == 2);
  }
};

}  // namespace

TEST_CASE("no third layout is started that has what two refusals name by its number") {
  Heads c;
  c.refuse(1, "rank 0: " + heads);
  c.refuse(2, "rank 5: " + heads);
  c.decide();
  CHECK(c.skipped(3) ==
      "each layout with tp 8 is refused (m-g8-dp1tp8pp1-mb1ga8-ab12c1, "
      "m-g8-dp1tp8pp2-mb1ga8-ab12c2): " +
          heads);
  CHECK(c.rows.trials[4].state == State::queued);
}

TEST_CASE("one refusal, two of different words, or a number that no layout shares skip nobody") {
  const std::string other = "ValueError: 4 query groups are not divisible by 3";
  for (const auto& [first, second] : std::initializer_list<std::pair<std::string, std::string>>{
           {heads, ""}, {heads, heads + "0"}, {other, other}, {"x 1.8", "x 1.8"}, {"a", "a"}}) {
    CAPTURE(first);
    Heads c;
    c.refuse(1, first);
    if (!second.empty()) c.refuse(2, second);
    c.decide();
    CHECK(c.skipped(3).empty());
    CHECK(c.skipped(4).empty());
  }
}

TEST_CASE("a number without its axis rules out only what has all in common with the refused") {
  Heads c;
  c.layout(5, "m-g8-dp1tp8pp4-mb1ga8");
  const std::string words = "ValueError: 12 heads are not divisible by 8";
  c.refuse(1, words);
  c.refuse(2, words);
  c.decide();
  CHECK(c.skipped(3).empty());
  CHECK(c.skipped(5).starts_with(
      "each layout with dp 1, gpus 8, grad_accum 8, micro_batch 1, tp 8 is refused ("));
}

TEST_CASE("a layout that was not refused ends the rule, and a rerun is not held up by it") {
  Heads c;
  c.layout(5, "m-g8-dp4tp8pp1-mb1ga8").state = State::ended;
  c.rows.trials[5].outcome = Outcome::oom;
  c.refuse(1, heads);
  c.refuse(2, heads);
  c.decide();
  CHECK(c.skipped(3).empty());

  Heads again;
  again.rows.trials[3].prior = Outcome::skipped;
  again.refuse(1, heads);
  again.refuse(2, heads);
  again.decide();
  CHECK(again.skipped(3).empty());
}

TEST_CASE("two micro-batches that are refused alike speak for the others, if not of batches") {
  for (const bool of_batches : {false, true}) {
    Refusing c;
    c.input.sweeps[1].policy.lane_ahead_s = 15;
    for (const TrialId id : {1, 2, 3})
      c.layout(id, "m-g8-dp1tp2pp1-mb" + std::to_string(id), static_cast<int>(id));
    c.layout(4, "m-g8-dp2tp1pp1-mb1");
    c.decide();
    const std::string words = of_batches ? "ValueError: odd global batch" : "ValueError: experts";
    c.refuse(1, words);
    c.refuse(2, words);
    c.decide();
    CHECK(c.skipped(3).empty() == of_batches);
    CHECK(c.skipped(4).empty());
  }
}
