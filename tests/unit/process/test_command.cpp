// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/command.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <ostream>
#include <string>

using namespace shardsweep;

TEST_CASE("a program has answered when it ends, whatever it has left behind") {
  std::string folder = (std::filesystem::temp_directory_path() / "command-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string fifo = folder + "/held";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  // What is left behind keeps the program's output open until somebody opens the fifo.
  const auto output = run_command({"/bin/sh", "-c", "echo answer; cat \"$0\" & exit 3", fifo},
      {.deadline = std::chrono::minutes(2)});
  const int release = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  CHECK(release >= 0);
  ::close(release);
  std::filesystem::remove_all(folder);
  REQUIRE(output);
  CHECK(output->out == "answer\n");
  CHECK(output->exit_code == 3);
}
