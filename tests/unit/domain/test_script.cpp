// SPDX-License-Identifier: Apache-2.0
// Values of the job script's template: what a shell reads is quoted, what sbatch reads is
// checked.
#include "domain/script.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

namespace {

ScriptContext context() {
  return {.job_name = "sweep-n2_3f9a01",
          .agent = "/opt/agent",
          .paths = {"/home/a/TOKEN"},
          .nodes = 2};
}

}  // namespace

TEST_CASE("every word of the body is quoted for a shell") {
  SiteSpec site;
  site.env["GREETING"] = "it's $(id); `x`\n\"";
  site.modules = {"cuda/12; rm -rf /"};
  ScriptContext odd = context();
  odd.agent = "/opt/my agent/$(id)";
  const auto values = script_values({.name = "sweep"}, site, odd);
  REQUIRE(values);
  CHECK(values->lists.at("env") ==
        std::vector<std::string>{"GREETING='it'\\''s $(id); `x`\n\"'"});
  CHECK(values->lists.at("modules") ==
        std::vector<std::string>{"module load 'cuda/12; rm -rf /'"});
  CHECK(values->values.at("lead_command") == "'/opt/my agent/$(id)' lead --dir /home/a/TOKEN");
}

TEST_CASE("what would end or escape a directive line is refused and named") {
  for (const char* bad :
       {"a b", "a\nb", "a'b", "a\"b", "a#b", "a$b", "a`b", "a;b", "", "\xc3\xa9"}) {
    SiteSpec site;
    site.slurm["partition"] = std::string("x") + bad + " ";
    const auto values = script_values({.name = "sweep"}, site, context());
    REQUIRE_FALSE(values);
    CHECK(values.error().kind == FaultKind::invalid_input);
    CHECK(values.error().what.find("site option partition") == 0);
  }
}

TEST_CASE("options of the site stand in the order of their names") {
  SiteSpec site;
  site.slurm = {{"partition", "gpu"}, {"account", "lab"}, {"exclusive", ""}};
  const auto values = script_values({.name = "sweep"}, site, context());
  REQUIRE(values);
  CHECK(values->lists.at("slurm_options") ==
        std::vector<std::string>{"--account=lab", "--exclusive", "--partition=gpu"});
}
