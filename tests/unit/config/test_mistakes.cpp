// SPDX-License-Identifier: Apache-2.0
// All mistakes of a file at once, in plain words, whatever the parser's version calls them.
#include "loading.hpp"
#include "yaml/mistakes.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>

using namespace shardsweep;
using namespace shardsweep::config;
using namespace shardsweep::test;

namespace {

std::string words_for(std::string_view text, std::string_view message, int line, int column) {
  const Source source("f", std::string(text));
  return syntax_mistake(source, message, line, column).what;
}

}  // namespace

TEST_CASE("words of yaml-cpp 0.7 and 0.8 become the same sentence") {
  const auto* const anchor =
      "no anchor with this name precedes; put the value in quotes if '*' is part of it";
  CHECK(words_for("a: *model", "the referenced anchor is not defined", 1, 4) == anchor);
  CHECK(words_for("a: *model", "the referenced anchor is not defined: model", 1, 4) == anchor);
  CHECK(
      words_for("a:\n\tb: 1", "illegal map value", 2, 3) == "tab used for indentation; use spaces");
  CHECK(words_for("a:\n\tb: 1", "illegal tab when looking for indentation", 2, 1) ==
      "tab used for indentation; use spaces");
}

TEST_CASE("what no version is known to say is shown as it is") {
  CHECK(words_for("a: 1", "quite \x1b[1m new", 1, 1) == "not valid YAML: quite \\x1b[1m new");
}

TEST_CASE("an open bracket is found past quotes and comments") {
  const Source source("f", "a: [1, 2]  # [ no bracket\nb: \"[\"\nc: {d: ']',\n  e: [1\nf: 2\n");
  const auto list = syntax_mistake(source, "end of sequence flow not found", 5, 2);
  CHECK(list.line == 4);
  CHECK(list.column == 6);
  // One that is not the innermost is not blamed: the parser's place is.
  const auto map = syntax_mistake(source, "end of map flow not found", 5, 2);
  CHECK(map.line == 5);
}

TEST_CASE("a point inherits axes of one value, and its own nodes or gpus win") {
  const auto sweep = load_text(
      "name: x\n"
      "cluster: h100-8x\n"
      "constants: {seq_len: 4096}\n"
      "axes: {model: [llama-1b], nodes: [2], tp: [1, 2], micro_batch: [4]}\n"
      "zip: [{zero: [1], recompute: [full]}]\n"
      "points: [{tp: 8}, {tp: 4, micro_batch: 1}, {gpus: 4, tp: 4}]\n");
  REQUIRE_MESSAGE(sweep, fault_of(sweep));
  const auto value = [&](std::size_t point, std::string_view name) -> std::int64_t {
    for (const auto& setting : sweep->points.at(point).settings) {
      if (setting.axis->name == name) return setting.values.at(0);
    }
    return -1;
  };
  CHECK(value(0, "nodes") == 2);
  CHECK(value(0, "micro_batch") == 4);
  CHECK(value(0, "zero") == 1);
  CHECK(value(0, "recompute") == 2);
  CHECK(value(1, "micro_batch") == 1);
  CHECK(value(2, "nodes") == -1);
  CHECK(value(2, "gpus") == 4);
  CHECK(value(0, "tp") == 8);
}

TEST_CASE("a site file tells all its mistakes") {
  const auto site = load_site_text(
      "backend: slrum\n"
      "templte: /x\n"
      "launch: mpirun\n"
      "env: {A-B: 1, CUDA_VISIBLE_DEVICES: 0}\n"
      "slurm: {job-name: x, --account: y, partition: {1-2: a, 2-3: b}}\n"
      "slurmrestd: {token_file: tok}\n"
      "notify: {url: ftp://x, events: [boredom]}\n",
      "site.yaml");
  REQUIRE_FALSE(site);
  const auto& what = site.error().what;
  for (const auto* expected : {
           "site.yaml:1:10: expected local or slurm for 'backend', got 'slrum'\n",
           "site.yaml:2:1: unknown key 'templte', did you mean 'template'?\n",
           "site.yaml:3:9: expected agents or srun for 'launch', got 'mpirun'\n",
           "site.yaml:4:7: 'A-B' is not a valid name for an environment variable; ",
           "site.yaml:4:15: 'CUDA_VISIBLE_DEVICES' cannot be set; ",
           "site.yaml:5:9: 'job-name' cannot be set; ",
           "site.yaml:5:22: '--account' is not a long option of sbatch; write 'account'\n",
           "site.yaml:5:56: '2-3' overlaps with a range before it\n",
           "site.yaml:6:13: missing key 'url' in 'slurmrestd'\n",
           "site.yaml:6:26: 'tok' is not absolute; ",
           "site.yaml:7:15: 'ftp://x' is neither https nor http on this machine; ",
           "site.yaml:7:32: unknown event 'boredom' in 'events'; ",
           "12 mistakes in site.yaml",
       })
    CHECK_MESSAGE(what.find(expected) != std::string::npos, expected, what);
}
