// SPDX-License-Identifier: Apache-2.0
// torchtitan's trees of two forms, both of which say that they are 0.2.2.
#include "cli/passing.hpp"
#include "unit/folder.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace shardsweep;

namespace {

/// What is said of a command in a tree that has these files.
std::string said(const std::vector<std::string>& files, const std::vector<std::string>& words,
    const std::string& below = "") {
  const test::Folder tree;
  tree.write("assets/version.txt", "0.2.2\n");
  for (const auto& file : files)
    tree.write("torchtitan/config/" + file, "");
  SweepSpec sweep;
  sweep.runner.trainer.log = "torchtitan";
  sweep.runner.trainer.directory = tree.path().string() + below;
  sweep.runner.trainer.argv = {"python3", "-m", "torchtitan.train"};
  auto& argv = sweep.runner.trainer.argv;
  argv.insert(argv.end(), words.begin(), words.end());
  return wrong_tree_text(sweep);
}

}  // namespace

TEST_CASE("torchtitan's tree tells whether it reads a TOML file, and its version does not") {
  const std::vector<std::string> toml{"job_config.py", "manager.py"};
  const std::vector<std::string> registry{"configs.py", "manager.py"};
  const std::vector<std::string> file{"--job.config_file", "a.toml"};
  const std::vector<std::string> recipe{"--module", "llama3", "--config=llama3_8b"};
  CHECK(said(toml, file).empty());
  CHECK(said(registry, recipe).empty());
  CHECK(said(registry, file).find("no torchtitan/config/job_config.py. Write --module") !=
      std::string::npos);
  CHECK(said(registry, {"--job.config_file=a.toml"}) != "");
  CHECK(said(toml, recipe).find("Write --job.config_file") != std::string::npos);
  CHECK(said(toml, {"--module=llama3"}) != "");
}

TEST_CASE("what is not a tree of torchtitan here is not judged") {
  CHECK(said({}, {"--module", "llama3"}).empty());
  CHECK(said({"configs.py"}, {"--modules", "llama3"}).empty());
  CHECK(said({"configs.py"}, {"--job.config_file"}, "/nowhere").empty());
  CHECK(said({"configs.py"}, {"--job.config_file"}, "/{model}").empty());
}
