// SPDX-License-Identifier: Apache-2.0
// Values of the job script's template: what a shell reads is quoted, what sbatch reads is
// checked.
#include "slurm/words/script.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

namespace {

ScriptContext context() {
  return {
      .job_name = "sweep-n2_3f9a01", .agent = "/opt/agent", .paths = {"/home/a/TOKEN"}, .nodes = 2};
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
  CHECK(values->lists.at("env") == std::vector<std::string>{"GREETING='it'\\''s $(id); `x`\n\"'"});
  REQUIRE(values->lists.at("modules").size() == 2);
  CHECK(values->lists.at("modules")[1] == "module load 'cuda/12; rm -rf /'");
  CHECK(values->values.at("lead_command") == "'/opt/my agent/$(id)' lead --dir /home/a/TOKEN");
}

TEST_CASE("what would end or escape a directive line is refused and named") {
  for (const char* bad :
      {"a b", "a\nb", "a'b", "a\"b", "a#b", "a$b", "a`b", "a;b", "", "\xc3\xa9"}) {
    SiteSpec site;
    site.slurm["partition"] = {{.value = std::string("x") + bad + " "}};
    const auto values = script_values({.name = "sweep"}, site, context());
    REQUIRE_FALSE(values);
    CHECK(values.error().kind == FaultKind::invalid_input);
    CHECK(values.error().what.find("site option partition") == 0);
  }
}

TEST_CASE("a value that sbatch parses stands as it is: no shell sees it") {
  for (const char* good :
      {"[rack1|rack2]", "a|b", "a&b", "[rack1*2&rack2*4]", "intel&!old", "x;y", "$A"}) {
    SiteSpec site;
    site.slurm["constraint"] = {{.value = good}};
    const auto values = script_values({.name = "sweep"}, site, context());
    REQUIRE(values);
    CHECK(values->lists.at("slurm_options").front() == std::string("--constraint=") + good);
  }
  SiteSpec site;
  site.slurm["comment"] = {{.value = "my sweep"}};
  CHECK(script_values({.name = "sweep"}, site, context())->lists.at("slurm_options").front() ==
      "--comment=\"my sweep\"");
  for (const char* bad : {"a#b", "a\\b", "a\nb", "it's", " a"}) {
    site.slurm["comment"] = {{.value = bad}};
    CHECK_FALSE(script_values({.name = "sweep"}, site, context()));
  }
}

TEST_CASE("a folder with % in its name keeps it: Slurm would take it for a field") {
  ScriptContext odd = context();
  odd.paths.dir = "/home/100%j/TOKEN";
  const auto values = script_values({.name = "sweep"}, {}, odd);
  REQUIRE(values);
  CHECK(values->values.at("output").find("/home/100%%j/TOKEN/") == 0);
  CHECK(values->values.at("lead_command").find("--dir /home/100%j/TOKEN") != std::string::npos);
}

TEST_CASE("options of the site stand in the order of their names") {
  SiteSpec site;
  site.slurm = {{"partition", {{.value = "gpu"}}}, {"account", {{.value = "lab"}}},
      {"nice", {{.value = ""}}}};
  const auto values = script_values({.name = "sweep"}, site, context());
  REQUIRE(values);
  CHECK(values->lists.at("slurm_options") ==
      std::vector<std::string>{"--account=lab", "--nice", "--partition=gpu"});
}

TEST_CASE("an option may depend on the node count") {
  SiteSpec site;
  site.slurm["qos"] = {{.from = 1, .to = 1, .value = "debug"}, {.from = 4, .value = "large"}};
  ScriptContext allocation = context();
  const auto options = [&](std::int32_t nodes) {
    allocation.nodes = nodes;
    return script_values({.name = "sweep"}, site, allocation)->lists.at("slurm_options");
  };
  CHECK(options(1) == std::vector<std::string>{"--qos=debug"});
  CHECK(options(2).empty());
  CHECK(options(4) == std::vector<std::string>{"--qos=large"});
  CHECK(options(1000) == std::vector<std::string>{"--qos=large"});
}

TEST_CASE("what the site says takes the place of what is asked for by default") {
  ScriptContext allocation = context();
  allocation.time_limit_s = 61;
  SweepSpec sweep{.name = "sweep"};
  sweep.cluster.gpus_per_node = 8;
  SiteSpec site;
  const auto defaults = [&] {
    return script_values(sweep, site, allocation)->lists.at("default_options");
  };
  CHECK(defaults() ==
      std::vector<std::string>{"--gpus-per-node=8", "--exclusive", "--mem=0", "--time=2"});
  site.slurm["gres"] = {{.value = "gpu:h100:8"}};
  site.slurm["time"] = {{.value = "1:00:00"}};
  site.slurm_without = {"exclusive"};
  CHECK(defaults() == std::vector<std::string>{"--mem=0"});
}

TEST_CASE("nodes that are out join what the site excludes and a probe asks for its node alone") {
  SiteSpec site;
  site.slurm = {{"exclude", {{.value = "bad[1-2]"}}}, {"nodelist", {{.value = "n[1-8]"}}}};
  ScriptContext out = context();
  out.exclude = {"n3", "n5"};
  const auto values = script_values({.name = "sweep"}, site, out);
  REQUIRE(values);
  CHECK(values->lists.at("slurm_options") ==
      std::vector<std::string>{"--exclude=bad[1-2],n3,n5", "--nodelist=n[1-8]"});
  out.only_node = "n3";
  const auto probe = script_values({.name = "sweep"}, site, out);
  REQUIRE(probe);
  CHECK(probe->lists.at("slurm_options") == std::vector<std::string>{"--nodelist=n3"});
  out.only_node = "n3 --wrap=x";
  CHECK_FALSE(script_values({.name = "sweep"}, site, out));
}
