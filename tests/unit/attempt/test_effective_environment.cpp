// SPDX-License-Identifier: Apache-2.0
#include "attempt/effective_environment.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace shardsweep;

namespace {

AttemptSpec in_a_container() {
  AttemptSpec spec;
  spec.env = {{"NCCL_ALGO", "Ring"}, {"PATH", "/opt/bin"}};
  spec.container.emplace();
  spec.container->image = "a.sif";
  spec.container->env = {{"HF_HOME", "/data"}, {"NCCL_ALGO", "Tree"}};
  return spec;
}

const Variables given{{"NCCL_ALGO", "Ring"}, {"PATH", "/opt/bin"}, {"RANK", "3"},
    {"WORLD_SIZE", "8"}, {"MASTER_PORT", "2950"}, {"HOME", "/home/me"}};

}  // namespace

TEST_CASE("the world and the sweep's variables must arrive, and the rest may be the image's") {
  const Variables wanted = wanted_inside(in_a_container(), given);
  CHECK(wanted ==
      Variables{{"NCCL_ALGO", "Ring"}, {"PATH", "/opt/bin"}, {"HF_HOME", "/data"}, {"RANK", "3"},
          {"WORLD_SIZE", "8"}, {"MASTER_PORT", "2950"}});
  AttemptSpec launcher = in_a_container();
  launcher.trainer.emplace().per_node = true;
  CHECK(!wanted_inside(launcher, given).contains("RANK"));
}

TEST_CASE("what an image or a hook has changed is named with both values") {
  const Variables wanted = wanted_inside(in_a_container(), given);
  Variables found = wanted;
  found["HOME"] = "/root";
  found["PATH"] = "/.runtime/bin:/opt/bin:/bin";
  CHECK(overridden(wanted, found).empty());
  found["RANK"] = "0";
  found.erase("NCCL_ALGO");
  const auto changes = overridden(wanted, found);
  CHECK(changes ==
      std::vector<VariableOverride>{{"NCCL_ALGO", "Ring", "nothing"}, {"RANK", "3", "0"}});
  const std::string text = describe(changes, "a.sif");
  CHECK(text.find("NCCL_ALGO is 'nothing', but the sweep set 'Ring'") != std::string::npos);
  CHECK(text.find("RANK is '0', but the sweep set '3'") != std::string::npos);
  CHECK(text.find("a.sif") != std::string::npos);
  CHECK(describe({{"HF_TOKEN", "a", "b"}}, "x").find("'a'") == std::string::npos);
}

TEST_CASE("secrets and a user's own environment are not kept") {
  const Variables found{{"HF_TOKEN", "hf_abc"}, {"aws_secret_access_key", "x"},
      {"MY_NOTE", "private"}, {"NCCL_ALGO", "Ring"}, {"RANK", "3"}, {"LD_PRELOAD", "x.so"}};
  CHECK(for_keeping(found, {}, Keeping::of_the_rank) ==
      Variables{{"NCCL_ALGO", "Ring"}, {"RANK", "3"}, {"LD_PRELOAD", "x.so"}});
  const Variables all = for_keeping(found, {}, Keeping::all);
  CHECK(all.at("HF_TOKEN") == "(hidden)");
  CHECK(all.at("aws_secret_access_key") == "(hidden)");
  CHECK(all.at("MY_NOTE") == "private");
  Variables large;
  for (int i = 0; i < 1000; ++i)
    large["V" + std::to_string(i)] = std::string(100'000, 'x');
  std::size_t bytes = 0;
  for (const auto& [name, value] : for_keeping(large, {}, Keeping::all))
    bytes += name.size() + value.size();
  CHECK(bytes <= 12 * 1024);
}

TEST_CASE("the environment of a process is read to its end") {
  const std::string raw("A=1\0B=x=y\0C\0=D\0E=", 16);
  CHECK(variables_in(raw) == Variables{{"A", "1"}, {"B", "x=y"}});
  CHECK(variables_of({"A=1", "B="}) == Variables{{"A", "1"}, {"B", ""}});
}

TEST_CASE("a command behind the one that tells the environment runs as it would alone") {
  const auto file =
      std::filesystem::temp_directory_path() / ("shardsweep-told-" + std::to_string(::getpid()));
  const auto run = [](const std::vector<std::string>& argv) {
    std::vector<char*> words;
    words.reserve(argv.size() + 1);
    for (const auto& word : argv)
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("TOLD", "two\nlines", 1);
      ::execvp(words[0], words.data());
      ::_exit(99);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const std::vector<std::string> command{
      "sh", "-c", "[ \"$0 $1\" = 'a b $HOME' ] && exit 7", "a b", "$HOME"};
  CHECK(run(telling_environment(command, file.string())) == 7);
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK(told_environment(text).at("TOLD") == "two\nlines");
  CHECK((std::filesystem::status(file).permissions() & std::filesystem::perms(077)) ==
      std::filesystem::perms::none);
  // Half of it is none of it.
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK(told_environment(std::string_view(text).substr(0, size)).empty());
  // Where it can't be written the command runs all the same.
  CHECK(run(telling_environment(command, "/nowhere/at/all")) == 7);
  CHECK(told_environment(told_text({"A=1", "B="})) == Variables{{"A", "1"}, {"B", ""}});
  std::filesystem::remove(file);
}

TEST_CASE("a rank's own process is told from the runtime that is about to start it") {
  using Words = std::vector<std::string>;
  const Words command{"train.py", "--mbs", "4"};
  CHECK(is_command_of_rank({"train.py", "--mbs", "4"}, command));
  CHECK(is_command_of_rank({"/usr/bin/python3", "/scratch/train.py", "--mbs", "4"}, command));
  CHECK(!is_command_of_rank({"env", "RANK=1", "WORLD_SIZE=2", "train.py", "--mbs", "4"}, command));
  CHECK(!is_command_of_rank({"/usr/bin/python3", "train.py", "--mbs", "8"}, command));
  CHECK(!is_command_of_rank({}, command));
}
