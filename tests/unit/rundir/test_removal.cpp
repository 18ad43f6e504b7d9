// SPDX-License-Identifier: Apache-2.0
// Folders that a run has locked. For root no folder is locked, so these tests do not use its
// rights on files.
#include "unit/folder.hpp"

#include <shardsweep/removal.hpp>

#include <doctest/doctest.h>

#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

using namespace shardsweep;
using shardsweep::test::Folder;

namespace {

namespace fs = std::filesystem;

constexpr uid_t somebody = 31002;

/// Files are reached with an ordinary user's rights while it lives.
class AsOrdinaryUser {
 public:
  explicit AsOrdinaryUser(const fs::path& owns) {
    if (::geteuid() != 0) return;
    REQUIRE(::chown(owns.c_str(), somebody, somebody) == 0);
    ::setfsuid(somebody);
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;
  ~AsOrdinaryUser() { ::setfsuid(::geteuid()); }
};

/// An attempt with a folder of mode 000 in it, and a file that can't be read.
AttemptPaths locked_attempt(const fs::path& place) {
  const AttemptPaths attempt{place / "slug.1"};
  fs::create_directories(attempt.dir / "sub" / "inner");
  std::ofstream(attempt.dir / "sub" / "inner" / "kept.txt") << "here\n";
  std::ofstream(attempt.records()) << "{}\n";
  REQUIRE(::chmod((attempt.dir / "sub" / "inner" / "kept.txt").c_str(), 0) == 0);
  REQUIRE(::chmod((attempt.dir / "sub").c_str(), 0) == 0);
  return attempt;
}

}  // namespace

TEST_CASE("a folder that a run has locked is removed") {
  const Folder folder;
  const AsOrdinaryUser user(folder.path());
  const AttemptPaths attempt = locked_attempt(folder.path());
  std::ofstream(attempt.pack().string() + ".new") << "half";
  const auto removed = remove_attempt(attempt);
  if (!removed) FAIL(removed.error().what);
  CHECK(fs::is_empty(folder.path()));
  CHECK(remove_attempt(attempt));
}

TEST_CASE("a folder that a run has locked is packed with what is in it") {
  const Folder folder;
  const AsOrdinaryUser user(folder.path());
  const AttemptPaths attempt = locked_attempt(folder.path());
  const auto packed = pack_attempt(attempt, 1 << 20);
  if (!packed) FAIL(packed.error().what);
  CHECK_FALSE(fs::exists(attempt.dir));
  std::ifstream pack(attempt.pack(), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(pack), {}};
  CHECK(text.find("slug.1/sub/inner/kept.txt") != std::string::npos);
}

TEST_CASE("what can't be removed is named, and a link leads nobody away") {
  const Folder folder;
  const Folder elsewhere;
  const AsOrdinaryUser user(folder.path());
  const fs::path held = folder.path() / "held";
  fs::create_directories(held / "file");
  fs::create_directory_symlink(elsewhere.path(), held / "link");
  const auto mode = fs::status(elsewhere.path()).permissions();
  REQUIRE(::chmod(folder.path().c_str(), 0555) == 0);  // the parent: not ours to open
  const auto removed = remove_tree(held);
  REQUIRE_FALSE(removed);
  CHECK(removed.error().what.find("cannot remove '" + held.string() + "': Permission denied") !=
      std::string::npos);
  CHECK(fs::status(elsewhere.path()).permissions() == mode);
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  CHECK(remove_tree(held));
  CHECK(fs::exists(elsewhere.path()));
}
