// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/script.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

TEST_CASE("a template replaces, drops and repeats lines") {
  const auto text = render_template("a {{x}}\n{{?no}}b\n{{?x}}c\nd {{*list}};\n", "t",
      {.values = {{"x", "1"}}, .lists = {{"list", {"p", "q"}}}, .optional = {"no"}});
  REQUIRE(text);
  CHECK(*text == "a 1\nc\nd p;\nd q;\n");
}

TEST_CASE("an unknown key names template and line") {
  const auto text = render_template("ok\n{{nods}}\n", "lane.sbatch", {});
  REQUIRE_FALSE(text);
  CHECK(text.error().what == "lane.sbatch:2: unknown key 'nods'");
}

TEST_CASE("a value that no line uses is an error") {
  const auto text = render_template("ok\n", "lane.sbatch", {.values = {{"x", "1"}}});
  REQUIRE_FALSE(text);
  CHECK(text.error().what == "lane.sbatch:1: no line uses the key 'x'");
}

TEST_CASE("a tag that is not closed is an error") {
  const auto text = render_template("{{x\n", "t", {.values = {{"x", "1"}}});
  REQUIRE_FALSE(text);
  CHECK(text.error().what == "t:1: '{{' without '}}'");
}

TEST_CASE("what a value holds is never a template again") {
  const auto text = render_template("{{x}}\n", "t", {.values = {{"x", "{{x}}"}}});
  REQUIRE(text);
  CHECK(*text == "{{x}}\n");
}

TEST_CASE("every word is one word for a shell") {
  CHECK(shell_quote("plain-1.2/x") == "plain-1.2/x");
  CHECK(shell_quote("") == "''");
  CHECK(shell_quote("a b") == "'a b'");
  CHECK(shell_quote("$(id);`x`\n\"") == "'$(id);`x`\n\"'");
  CHECK(shell_quote("it's") == "'it'\\''s'");
}
