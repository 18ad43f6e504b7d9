// SPDX-License-Identifier: Apache-2.0
// A folder that can't be read to its end is a fault, and never a shorter list or an exception.
#include "cli/commands/baseline.hpp"
#include "unit/folder.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

using namespace shardsweep;
using shardsweep::test::Folder;

namespace {

namespace fs = std::filesystem;

void put(const fs::path& file) {
  std::ofstream out(file);
}

/// Puts /dev/null in the place of the descriptor by which this process reads a folder.
void break_reading_of(const fs::path& folder) {
  const auto real = fs::canonical(folder);
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    std::error_code none;
    if (fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), none) != real) continue;
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, descriptor);
    ::close(nothing);
  }
}

const auto all = [](const std::string&) { return true; };

}  // namespace

TEST_CASE("names of a folder are sorted and those that are kept") {
  const Folder folder;
  const auto& dir = folder.path();
  for (const auto* name : {"b.x", "a.x", "c.y"})
    put(dir / name);
  const auto names =
      names_in_folder(dir, 10, [](const auto& name) { return name.ends_with(".x"); });
  REQUIRE(names);
  CHECK(*names == std::vector<std::string>{"a.x", "b.x"});
  CHECK(names_in_folder(dir / "nowhere", 10, all)->empty());
  const auto many = names_in_folder(dir, 2, all);
  REQUIRE_FALSE(many);
  CHECK(many.error().what.find("more than 2 files") != std::string::npos);
  const auto file = names_in_folder(dir / "a.x", 10, all);
  REQUIRE_FALSE(file);
  CHECK(file.error().kind == FaultKind::unavailable);
}

TEST_CASE("a folder that stops to be readable half-way is a fault") {
  const Folder folder;
  const auto& dir = folder.path();
  // More than the system gives at once.
  for (int i = 0; i < 5000; ++i)
    put(dir / fmt::format("a-name-that-is-as-long-as-those-of-people-{}", i));
  bool broken = false;
  const auto names = names_in_folder(dir, 100'000, [&](const std::string&) {
    if (!std::exchange(broken, true)) break_reading_of(dir);
    return true;
  });
  REQUIRE_FALSE(names);
  CHECK(names.error().kind == FaultKind::unavailable);
  CHECK(names.error().what.find(": ") != std::string::npos);
}
