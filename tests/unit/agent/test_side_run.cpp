// SPDX-License-Identifier: Apache-2.0
// What a side run changes in a rank's command, and where a trainer's snapshots go.
#include "agent/side_run.hpp"
#include "unit/folder.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::agent;

namespace {

AttemptSpec of(SideRun side, const std::string& trainer = "") {
  AttemptSpec spec;
  spec.side = side;
  spec.nonce = "cafe";
  if (!trainer.empty()) spec.trainer.emplace().log = trainer;
  return spec;
}

/// What stands around the words "train x".
std::string command(const AttemptSpec& spec, int rank = 0, const std::string& more = "x") {
  const auto words = side_command({"train", more}, spec, AttemptPaths{"/a"}, rank);
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

TEST_CASE("a measured run and the other ranks of a profile have their own command") {
  CHECK(command(of(SideRun::none, "megatron")) == "train x");
  CHECK(command(of(SideRun::profile, "megatron"), 1) == "train x");
  CHECK(command(of(SideRun::profile)) ==
      "nsys profile --output=/a/kept/profile --force-overwrite=true --trace=cuda,nvtx,osrt "
      "--sample=none --cpuctxsw=none train x");
}

TEST_CASE("words are added before a last choice, behind which a program takes no options") {
  const auto added = [](std::vector<std::string> argv) {
    add_words(argv, {"--more"});
    return fmt::format("{}", fmt::join(argv, " "));
  };
  CHECK(added({"train", "--steps=5", "activation-checkpoint:full"}) ==
      "train --steps=5 --more activation-checkpoint:full");
  CHECK(added({"train", "--kind", "layer:full"}) == "train --kind layer:full --more");
  for (const char* word : {"x", ":", "a:", ":a", "host:29500", "/a:/b", "--a:b", "a:b:c"})
    CHECK(added({"train", "a=b", word}) == fmt::format("train a=b {} --more", word));
  CHECK(added({"a:b"}) == "a:b --more");
  CHECK(added({}) == "--more");
}

// Megatron-LM: gpt_builders.py and model_provider.py, oom_observer; torchtitan:
// tools/profiler.py and, at v0.2.2, tools/profiling.py; llm-foundry: callbacks/__init__.py,
// composer's callbacks/oom_observer.py.
TEST_CASE("a memory snapshot is asked for in the words of each trainer, on each rank") {
  for (const int rank : {0, 3}) {
    CHECK(command(of(SideRun::memory, "megatron"), rank) ==
        "train x --record-memory-history --memory-snapshot-path cafe.pickle");
    CHECK(command(of(SideRun::memory, "torchtitan"), rank) ==
        "train x --profiler.enable_memory_snapshot "
        "--profiler.save_memory_snapshot_folder=/a/kept");
  }
  CHECK(command(of(SideRun::memory, "torchtitan"), 0, "--job.config_file=a.toml") ==
      "train --job.config_file=a.toml --profiling.enable_memory_snapshot "
      "--profiling.save_memory_snapshot_folder=/a/kept");
  CHECK(command(of(SideRun::memory, "llm-foundry")) ==
      "train x callbacks.oom_observer.folder=/a/kept "
      "callbacks.oom_observer.remote_file_name=null callbacks.oom_observer.overwrite=true");
}

TEST_CASE("snapshots of this attempt are collected where its trainer ran, and no others") {
  const test::Folder folder;
  const AttemptPaths paths{folder.path() / "attempt"};
  const auto code = folder.path() / "code";
  std::filesystem::create_directories(paths.kept());
  for (const char* name :
      {"oom_rank-3_cafe.pickle", "cafe.pickle", "oom_rank-3_beef.pickle", "train.py"})
    folder.write(std::filesystem::path("code") / name, name);
  AttemptSpec spec = of(SideRun::memory, "megatron");
  spec.trainer->directory = code;
  collect_snapshots(spec, paths);
  collect_snapshots(spec, paths);
  std::vector<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(paths.kept()))
    kept.push_back(entry.path().filename().string());
  std::sort(kept.begin(), kept.end());
  CHECK(kept == std::vector<std::string>{"oom_rank-3.pickle", "snapshot.pickle"});
  CHECK(std::filesystem::exists(code / "oom_rank-3_beef.pickle"));
  CHECK(std::filesystem::exists(code / "train.py"));
  CHECK_FALSE(std::filesystem::exists(code / "cafe.pickle"));
}
