// SPDX-License-Identifier: Apache-2.0
// Finals on a played site: two layouts run again in rounds, in one allocation, whatever dies.
#include "unit/daemon/daemon_case.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace shardsweep;
using shardsweep::testing::Case;
using shardsweep::testing::PlayedSweep;

namespace {

PlayedSweep with_finals(int rounds) {
  return {.settings = fmt::format("measure: {{finalists: 2, repeats: {}}}", rounds)};
}

/// Runs in finals in the order in which they were assigned: "1 2 2 1", by layout.
std::string order_of(Case& c) {
  return c.sql(
      "SELECT group_concat(layout, ' ') FROM (SELECT t.final_of AS layout FROM attempts AS a "
      "JOIN trials AS t ON t.id = a.trial WHERE t.final_of IS NOT NULL ORDER BY a.id)");
}

/// Pairs of a round that were measured in one allocation.
std::string pairs_of(Case& c) {
  return c.sql(
      "SELECT count(*) FROM trials AS a JOIN trials AS b ON a.final_round = b.final_round AND "
      "a.final_of < b.final_of JOIN attempts AS x ON x.id = a.counted_attempt JOIN attempts AS "
      "y ON y.id = b.counted_attempt WHERE x.allocation = y.allocation");
}

}  // namespace

TEST_CASE("finals run forwards and backwards in the allocation that is there") {
  Case c(with_finals(3));
  c.complete();
  CHECK(order_of(c) == "1 2 2 1 1 2");
  CHECK(c.sql("SELECT count(DISTINCT a.allocation) FROM attempts AS a JOIN trials AS t ON "
              "t.id = a.trial WHERE t.final_of IS NOT NULL") == "1");
  CHECK(pairs_of(c) == "3");
  CHECK(c.count("attempts WHERE counted = 1") == 8);
  CHECK(c.sql("SELECT group_concat(slug, ' ') FROM trials WHERE final_of = 1").find("-f1") !=
      std::string::npos);
}

TEST_CASE("at no moment a sweep with finals to come looks ended") {
  Case c(with_finals(2));
  c.pass(12);
  c.start_job(c.job());
  for (int trial = 0; trial < 6; ++trial) {
    CHECK(c.count("trials WHERE state <> 'ended'") > 0);
    c.run_attempt(c.job(), Outcome::completed);
    c.pass(2);
  }
  CHECK(c.count("trials WHERE state <> 'ended'") == 0);
  c.complete();
}

TEST_CASE("a daemon that dies in finals goes on with the same round") {
  Case c(with_finals(3));
  c.pass(12);
  c.start_job(c.job());
  for (int trial = 0; trial < 8; ++trial) {
    c.run_attempt(c.job(), Outcome::completed);
    c.die();
    c.start();
    c.pass(2);
  }
  c.complete();
  CHECK(order_of(c) == "1 2 2 1 1 2");
  CHECK(pairs_of(c) == "3");
  CHECK(c.count("trials WHERE final_of IS NOT NULL") == 6);
}

TEST_CASE("a job that ends in a round tears one pair apart and no other") {
  Case c(with_finals(3));
  c.pass(12);
  c.start_job(c.job());
  for (int trial = 0; trial < 3; ++trial) {  // the search, and one run of the first round
    c.run_attempt(c.job(), Outcome::completed);
    c.pass(2);
  }
  c.slurm.finish(c.job(), "NODE_FAIL");
  c.pass(60);
  c.complete();
  CHECK(c.count("trials WHERE final_of IS NOT NULL AND outcome = 'completed'") == 6);
  CHECK(c.count("attempts WHERE counted = 1") == 8);
  CHECK(pairs_of(c) == "2");
}

TEST_CASE("a cancelled sweep has no further round, and resume goes on") {
  Case c(with_finals(2));
  c.pass(12);
  c.start_job(c.job());
  for (int trial = 0; trial < 2; ++trial) {
    c.run_attempt(c.job(), Outcome::completed);
    c.pass(2);
  }
  CHECK(c.count("trials WHERE final_of IS NOT NULL") == 2);
  (void)c.ask(Verb::cancel, {"a"});
  c.complete();
  CHECK(c.count("trials WHERE final_of IS NOT NULL") == 2);
  (void)c.ask(Verb::resume, {"a"});
  c.tick();
  c.complete();
  CHECK(c.count("trials WHERE final_of IS NOT NULL AND outcome = 'completed'") == 4);
}

TEST_CASE("a layout that fails in the finals leaves its partner without a pair") {
  Case c(with_finals(2));
  c.pass(12);
  c.start_job(c.job());
  for (int trial = 0; trial < 3; ++trial) {
    c.run_attempt(c.job(), Outcome::completed);
    c.pass(2);
  }
  c.run_attempt(c.job(), Outcome::oom);
  c.pass(2);
  c.complete();
  CHECK(order_of(c) == "1 2 2 1");
  CHECK(pairs_of(c) == "1");
}

TEST_CASE("the same file again keeps finals, and a layout that is gone takes its runs along") {
  Case c(with_finals(2));
  c.complete();
  PlayedSweep smaller = with_finals(2);
  smaller.micro_batch = {1};
  c.submit(smaller);
  c.tick();
  CHECK(c.count("trials WHERE hidden = 1") == 3);
  c.complete();
  c.submit(with_finals(2));
  c.tick();
  c.complete();
  CHECK(c.count("trials WHERE hidden = 1") == 0);
  CHECK(c.count("trials WHERE final_of IS NOT NULL") == 4);
}

namespace {

PlayedSweep on_two_sets() {
  return {
      .settings = "measure: {finalists: 2, repeats: 3, node_sets: 2, resolve: 5%}", .nodes = {2}};
}

/// Nodes of that set's measured runs.
std::string nodes_of_set(Case& c, int set) {
  return c.sql(fmt::format(
      "SELECT group_concat(node, ' ') FROM (SELECT DISTINCT x.node FROM allocation_nodes AS x "
      "JOIN attempts AS a ON a.allocation = x.allocation JOIN trials AS t ON t.counted_attempt "
      "= "
      "a.id WHERE t.final_set = {} ORDER BY x.node)",
      set));
}

void check_two_sets(Case& c) {
  CHECK(c.count("trials WHERE final_set = 1 AND outcome = 'completed'") == 6);
  CHECK(c.count("trials WHERE final_set = 2 AND outcome = 'completed'") == 6);
  CHECK(c.count("attempts WHERE counted = 1") == 14);
  CHECK(c.count(
            "allocation_nodes AS x JOIN attempts AS a ON a.allocation = x.allocation JOIN "
            "trials AS t ON t.counted_attempt = a.id AND t.final_set = 2 WHERE x.node IN "
            "(SELECT y.node FROM allocation_nodes AS y JOIN attempts AS b ON b.allocation = "
            "y.allocation JOIN trials AS u ON u.counted_attempt = b.id AND u.final_set = 1)") == 0);
}

}  // namespace

TEST_CASE("finals are confirmed in another allocation on other nodes") {
  Case c(on_two_sets());
  c.slurm.names_nodes = true;
  c.complete();
  check_two_sets(c);
  CHECK(nodes_of_set(c, 1) != nodes_of_set(c, 2));
  CHECK(c.count("allocations WHERE final_set = 2 AND avoid <> ''") == 1);
  CHECK(pairs_of(c) == "6");
}

TEST_CASE("a daemon that dies in a confirmation goes on with it") {
  Case c(on_two_sets());
  c.slurm.names_nodes = true;
  c.pass(12);
  for (int trial = 0; trial < 14; ++trial) {
    if (c.job().pends()) c.start_job(c.job());
    c.run_attempt(c.job(), Outcome::completed);
    c.die();
    c.start();
    c.pass(30);
  }
  c.complete();
  check_two_sets(c);
}

TEST_CASE("nodes that nobody has named can't be kept out, and nothing is called confirmed") {
  Case c(on_two_sets());
  c.complete();
  CHECK(c.count("trials WHERE final_set = 2 AND outcome = 'skipped'") == 2);
  CHECK(c.sql("SELECT DISTINCT cause FROM trials WHERE final_set = 2") ==
      "The nodes of these finals' earlier runs are unknown, so other nodes can't be chosen.");
}

TEST_CASE("where the cluster has no other nodes the finals end and say so") {
  Case c(on_two_sets());
  c.slurm.names_nodes = true;
  c.pass(12);
  c.start_job(c.job());
  c.slurm.answers = {testing::Sbatch::lacks_nodes};
  c.complete();
  CHECK(c.count("trials WHERE final_set = 2") == 2);
  CHECK(c.count("trials WHERE final_set = 2 AND outcome = 'skipped'") == 2);
  CHECK(c.sql("SELECT DISTINCT cause FROM trials WHERE final_set = 2")
            .find("The cluster does not have 2 nodes besides n") == 0);
  CHECK(c.sql("SELECT state FROM sweeps") == "active");
  CHECK(c.count("attempts WHERE counted = 1") == 8);
}
