// SPDX-License-Identifier: Apache-2.0
#include "unit/config/loading.hpp"

#include <shardsweep/load.hpp>

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

using Pairs = std::map<std::string, std::string>;

const std::string of_secrets =
    "name: x\ncluster: this-machine\nconstants: {model: tiny, gpus: 1}\n";

std::string secrets_fault(const std::string& lines) {
  const auto sweep = load_text(of_secrets + lines);
  REQUIRE_FALSE(sweep);
  return sweep.error().what;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a variable whose name says so is a secret, wherever the file has it") {
  const auto sweep = load_text(of_secrets +
      "env: {WANDB_API_KEY: planted1, NCCL_ALGO: Ring}\n"
      "secrets: {PLAIN: planted2, TAKEN: ''}\n"
      "pass_env: [AWS_PROFILE, MLFLOW_*, '*']\n"
      "container: {env: {HF_TOKEN: planted3, LANG: C}}\n");
  REQUIRE(sweep);
  CHECK(sweep->env == Pairs{{"NCCL_ALGO", "Ring"}});
  CHECK(sweep->container.env == Pairs{{"LANG", "C"}});
  CHECK(sweep->secrets ==
      Pairs{{"HF_TOKEN", "planted3"}, {"PLAIN", "planted2"}, {"TAKEN", ""},
          {"WANDB_API_KEY", "planted1"}});
  CHECK(sweep->pass_env == std::vector<std::string>{"AWS_PROFILE", "MLFLOW_*", "*"});
  // As it is stored and printed.
  const auto text = explain_sweep(*sweep);
  CHECK_FALSE(holds(text, "planted"));
  const auto again = load_text(text);
  REQUIRE(again);
  CHECK(again->secrets ==
      Pairs{{"HF_TOKEN", ""}, {"PLAIN", ""}, {"TAKEN", ""}, {"WANDB_API_KEY", ""}});
  CHECK(again->pass_env == sweep->pass_env);
}

TEST_CASE("a variable has one place") {
  CHECK(holds(secrets_fault("env: {A: x}\nsecrets: {A: planted}\n"),
      "A stands in 'env' and in 'secrets'; write it in one of them"));
  CHECK(
      holds(secrets_fault("env: {A: x}\npass_env: [A]\n"), "A stands in 'env' and in 'pass_env'"));
  CHECK(holds(secrets_fault("secrets: {A: ''}\npass_env: [A]\n"),
      "A stands in 'secrets' and in 'pass_env'"));
  CHECK(holds(secrets_fault("secrets: {A: planted}\ncontainer: {env: {A: x}}\n"),
      "A stands in 'container.env' and in 'secrets'"));
  CHECK(holds(
      secrets_fault("pass_env: ['A*B']\n"), "is not a valid name for an environment variable"));
}

TEST_CASE("no message shows the value of a secret") {
  for (const std::string lines :
      {"env: {RANK: 1, WANDB_API_KEY: planted}\n", "env: {WANDB_API_KEY: planted, RANK: 1}\n",
          "env:\n  WANDB_API_KEY: \"planted\\u0001\"\n", "secrets:\n  PLAIN: \"planted\\u0001\"\n",
          "secrets:\n  1BAD: planted\n", "secrets: {1BAD: planted}\n",
          "secrets:\n  # mine\n  PLAIN: {a: planted}\n", "env: {WANDB_API_KEY: planted, }}\n",
          "secrets: {A: planted}\nenv: {A: x}\n"}) {
    const auto fault = secrets_fault(lines);
    CHECK_MESSAGE(!holds(fault, "planted"), fault);
  }
}
