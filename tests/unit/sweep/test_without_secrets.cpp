// SPDX-License-Identifier: Apache-2.0
#include "sweep/without_secrets.hpp"
#include "text/secrets.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

TEST_CASE("a sweep that is shown has the names of its secrets, and not their values") {
  SweepSpec sweep;
  sweep.env = {{"WANDB_API_KEY", "1234"}, {"NCCL_ALGO", "Ring"}};
  sweep.container.env = {{"HF_TOKEN", "hf_abc"}, {"LANG", "C"}};
  const auto shown = without_secrets(sweep);
  CHECK(shown.env.at("WANDB_API_KEY") == hidden_value);
  CHECK(shown.env.at("NCCL_ALGO") == "Ring");
  CHECK(shown.container.env.at("HF_TOKEN") == hidden_value);
  CHECK(shown.container.env.at("LANG") == "C");
}
