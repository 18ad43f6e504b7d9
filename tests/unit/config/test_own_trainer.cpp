// SPDX-License-Identifier: Apache-2.0
#include "loading.hpp"
#include "trainer/trainer_file.hpp"
#include "trainer/trainers.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>

using namespace shardsweep;

namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  fs::path path_ = fs::temp_directory_path() / ("own-trainer-" + std::to_string(::getpid()));
};

constexpr const char* sweep =
    "name: x\ncluster: cpu-2x\nconstants: {model: tiny, gpus: 1}\n"
    "runner: {argv: [python3, t.py, \"{tp}\"], log: ./mine.yaml}\n";

}  // namespace

TEST_CASE("a trainer's file becomes patterns, a name and exclusions of the sweep that names it") {
  const Folder folder;
  const auto file = folder.write("mine.yaml",
      "log: ['step: {iteration} took {step_s} s', \"loss={loss}\"]   # a comment\n"
      "rules:\n- {when: tp > 2, why: it splits no further, source: \"layers.py:7\"}\n"
      "start: {zero: [0, 1], recipes: {tiny: its-tiny}, without: [pp], text: \"runner: {}\\n\"}\n");
  const auto name = folder.write("x.yaml", sweep);
  const auto loaded = load_sweep(name, {});
  REQUIRE_MESSAGE(loaded, loaded.error().what);
  const auto& trainer = loaded->runner.trainer;
  CHECK(trainer.log.empty());
  CHECK(loaded->runner.known_as() == "mine");
  CHECK(trainer.patterns ==
      std::vector<std::string>{"step: {iteration} took {step_s} s", "loss={loss}"});
  REQUIRE(loaded->excludes.size() == 1);
  CHECK(loaded->excludes.front().when == "tp > 2");
  CHECK(loaded->excludes.front().why == "it splits no further (layers.py:7)");
  // Stored, it needs the file no more.
  const auto text = explain_sweep(*loaded);
  CHECK(text.find("mine.yaml") == std::string::npos);
  const auto again = load_sweep_text(text, "stored", {});
  REQUIRE_MESSAGE(again, again.error().what);
  CHECK(again->runner == loaded->runner);

  const auto read = load_trainer(file);
  REQUIRE(read);
  CHECK(read->start.zero == "[0, 1]");
  CHECK(read->start.recipes.front().name == "its-tiny");
  CHECK_FALSE(read->start.has_pp);
  CHECK(read->start.has_tp);
}

TEST_CASE("a fork begins with the lines and rules of a trainer that is served") {
  const Folder folder;
  const auto file = folder.write("fork.yaml",
      "log_of: megatron\nlog: ['my loss {loss}']\nrules_of: nanotron\nrules: [{when: cp > 1, why: "
      "no}]\n");
  const auto fork = load_trainer(file);
  REQUIRE_MESSAGE(fork, fork.error().what);
  CHECK(fork->patterns.size() == log_patterns("megatron").size() + 1);
  CHECK(fork->patterns.back() == "my loss {loss}");
  CHECK(fork->rules.size() == trainer_file("nanotron").rules.size() + 1);
}

TEST_CASE("each trainer's file that is built in is read as a user's copy of it is") {
  int files = 0;
  for (const auto& entry :
      fs::directory_iterator(fs::path(SHARDSWEEP_SOURCE_DIR) / "sweeps" / "trainers")) {
    const auto read = load_trainer(entry.path().string());
    const std::string what = read ? "" : read.error().what;
    // shardbench prints records, which need no patterns.
    const bool is_right = read || what.find("missing key 'log'") != std::string::npos;
    CHECK_MESSAGE(is_right, entry.path().filename().string(), ": ", what);
    ++files;
  }
  CHECK(files >= static_cast<int>(trainers_with_files().size()));
}

TEST_CASE("each mistake in a trainer's file is told with its line, in one go") {
  const Folder folder;
  const auto file = folder.write("mine.yaml",
      "log: ['{iteraton} {step_s}']\nlogs_of: megatron\nrules:\n- {when: tp > 2}\n- 7\n"
      "rules_of: megatorn\nstart: {txt: x}\n");
  const auto loaded = load_sweep(folder.write("x.yaml", sweep), {});
  REQUIRE_FALSE(loaded);
  const auto& what = loaded.error().what;
  for (const auto* said : {"mine.yaml:1:7: pattern '{iteraton} {step_s}': unknown key 'iteraton'",
           "mine.yaml:2:1: unknown key 'logs_of', did you mean 'log_of'?",
           "mine.yaml:4:3: missing key 'why' in a rule", "mine.yaml:5:3: expected a map",
           "mine.yaml:6:11: no trainer is called 'megatorn', did you mean 'megatron'?",
           "mine.yaml:7:9: unknown key 'txt', did you mean 'text'?"})
    CHECK_MESSAGE(what.find(said) != std::string::npos, said, " in ", what);
  const auto empty = load_trainer(folder.write("empty.yaml", "rules: []\n"));
  REQUIRE_FALSE(empty);
  CHECK(empty.error().what.find("missing key 'log'") != std::string::npos);
  const auto none = load_trainer("./none-there.yaml");
  REQUIRE_FALSE(none);
  CHECK(none.error().what.find("none-there.yaml") != std::string::npos);
}
