// SPDX-License-Identifier: Apache-2.0
// torchtitan's trees of two forms, both of which say that they are 0.2.2.
#include "cli/trainer_tree.hpp"
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

TEST_CASE("a script that is not in the runner's folder is warned of, unless it may be elsewhere") {
  const test::Folder tree;
  tree.write("train.py", "");
  SweepSpec sweep;
  TrainerSpec& trainer = sweep.runner.trainer;
  trainer.directory = tree.path().string();
  const auto warning = [&](std::vector<std::string> argv) {
    trainer.argv = std::move(argv);
    return missing_script_text(sweep);
  };
  CHECK(warning({"python3", "train.py"}).empty());
  CHECK(warning({"torchrun", "--nproc-per-node", "8", "trian.py", "--x"}).find("trian.py") !=
      std::string::npos);
  CHECK(warning({"python3", "-m", "megatron.train"}).empty());
  CHECK(warning({"python3", "{model}.py"}).empty());
  CHECK(warning({"bash", "-c", "cd /tmp && python3 no.py"}).empty());
  trainer.directory = "/no/such/folder";
  CHECK(!warning({"python3", "train.py"}).empty());
  sweep.container.runtime = ContainerRuntime::pyxis;
  CHECK(warning({"python3", "train.py"}).empty());
}

TEST_CASE("a launcher of a node's ranks is warned of if it is started once per rank") {
  SweepSpec sweep;
  TrainerSpec& trainer = sweep.runner.trainer;
  trainer.argv = {"torchrun", "--nproc_per_node=8", "train.py"};
  CHECK(launcher_text(sweep).find("--nproc_per_node=8") != std::string::npos);
  trainer.per_node = true;
  CHECK(launcher_text(sweep).empty());
  trainer.per_node = false;
  trainer.argv = {"python3", "train.py", "--num-layers", "8"};
  CHECK(launcher_text(sweep).empty());
}
