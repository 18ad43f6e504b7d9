// SPDX-License-Identifier: Apache-2.0
#include "sweep/launch.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

TEST_CASE("paths into a tree lead into its copy, and no others do") {
  const auto to_copy = [](std::string_view text) { return moved(text, "/home/me/run", "/s"); };
  CHECK(to_copy("/home/me/run") == "/s");
  CHECK(to_copy("/home/me/run/train.py") == "/s/train.py");
  CHECK(to_copy("--config=/home/me/run/a.yaml") == "--config=/s/a.yaml");
  CHECK(to_copy("/opt/lib:/home/me/run/lib:/home/me/run") == "/opt/lib:/s/lib:/s");
  CHECK(to_copy("/home/me/running/train.py") == "/home/me/running/train.py");
  CHECK(to_copy("/data/home/me/run/x") == "/data/home/me/run/x");
  CHECK(to_copy("train.py") == "train.py");
  CHECK(moved("/x", "", "/s") == "/x");
}

TEST_CASE("a sweep without a snapshot stays where it is") {
  SweepSpec sweep;
  sweep.runner.program = "/home/me/run/own";
  sweep.runner.snapshot_root = "/home/me/run";
  sweep.env = {{"PYTHONPATH", "/home/me/run/lib"}};
  CHECK(in_snapshot(sweep, "/s").runner.program == "/home/me/run/own");
  sweep.runner.snapshot_hash = "0123";
  const auto inside = in_snapshot(sweep, "/s");
  CHECK(inside.runner.program == "/s/own");
  CHECK(inside.env.at("PYTHONPATH") == "/s/lib");
}
