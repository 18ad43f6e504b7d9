// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/command.hpp>

#include <doctest/doctest.h>

#include <chrono>

using namespace shardsweep;

TEST_CASE("a program has answered when it ends, whatever it has left behind") {
  const auto began = std::chrono::steady_clock::now();
  const auto output = run_command({"/bin/sh", "-c", "echo answer; sleep 8 & exit 3"},
                                  {.deadline = std::chrono::seconds(6)});
  REQUIRE(output);
  CHECK(output->out == "answer\n");
  CHECK(output->exit_code == 3);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(4));
}
