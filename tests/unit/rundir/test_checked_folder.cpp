// SPDX-License-Identifier: Apache-2.0
#include "machine/checked_folder.hpp"
#include "text/pieces.hpp"
#include "unit/folder.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

using namespace shardsweep;
namespace fs = std::filesystem;
using shardsweep::test::Folder;

namespace {

std::string refusal(const fs::path& file) {
  const auto checked = check_configuration(file);
  return checked ? std::string() : checked.error().what;
}

}  // namespace

TEST_CASE("a file whose lines run as this user is this user's or root's alone") {
  const Folder folder;
  const fs::path file = folder.write("site.yaml", "backend: local\n");
  struct stat about {};
  REQUIRE(::stat(file.c_str(), &about) == 0);
  const bool own_group = has_own_group(about.st_uid, about.st_gid);
  const auto refused_at = [&](mode_t mode) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    return refusal(file);
  };
  CHECK(refused_at(0600).empty());
  CHECK(refused_at(0644).empty());
  CHECK(refused_at(0664).empty() == own_group);
  CHECK(refused_at(0666).find("can be written by others (mode 666)") != std::string::npos);
  CHECK(refused_at(0646).find("chmod go-w " + file.string()) != std::string::npos);
  CHECK(refusal(folder.path() / "nothing").empty());
}

TEST_CASE("a group is the user's own by number or by name, and if nobody else is in it") {
  constexpr uid_t unlisted = 61002;
  CHECK(has_own_group(unlisted, unlisted));
  CHECK_FALSE(has_own_group(unlisted, unlisted + 1));
  std::map<std::string, uid_t> users;
  std::ifstream passwd("/etc/passwd");
  for (std::string line; std::getline(passwd, line);) {
    const auto fields = split(line, ':');
    if (fields.size() > 2)
      users.emplace(fields[0], static_cast<uid_t>(std::stoul(std::string(fields[2]))));
  }
  std::ifstream groups("/etc/group");
  for (std::string line; std::getline(groups, line);) {
    const auto fields = split(line, ':');
    if (fields.size() != 4) continue;
    CAPTURE(line);
    const auto group = static_cast<gid_t>(std::stoul(std::string(fields[2])));
    const std::string name(fields[0]);
    const bool alone = fields[3].empty() || fields[3] == name;
    if (users.contains(name)) CHECK(has_own_group(users[name], group) == alone);
    if (group != unlisted + 1) CHECK_FALSE(has_own_group(unlisted + 1, group));
  }
}

TEST_CASE("a link is what it leads to, and somebody else's leads nowhere") {
  const Folder folder;
  const fs::path file = folder.write("kept/site.yaml", "backend: local\n");
  const fs::path link = folder.path() / "site.yaml";
  fs::create_symlink(file, link);
  CHECK(refusal(link).empty());
  REQUIRE(::chmod(file.c_str(), 0666) == 0);
  CHECK(refusal(link).find("can be written by others") != std::string::npos);
  if (::geteuid() != 0) return;  // the rest takes two users
  constexpr uid_t other = 61002;
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  REQUIRE(::chmod(folder.path().c_str(), 01777) == 0);
  REQUIRE(::lchown(link.c_str(), other, other) == 0);
  CHECK(
      refusal(link).find("is a link that another user (uid 61002) has made") != std::string::npos);
  REQUIRE(::chown(file.c_str(), other, other) == 0);
  CHECK(refusal(file).find("belongs to another user (uid 61002)") != std::string::npos);
}

TEST_CASE("a folder that can't be had is refused in the words of the system") {
  const Folder folder;
  const auto file = folder.write("file", "text");
  const auto why = [](const auto& result) {
    REQUIRE_FALSE(result);
    return result.error().what;
  };
  const std::string below = why(CheckedFolder::make(file / "x" / "y"));
  CHECK(below == "cannot make folder '" + (file / "x" / "y").string() + "': Not a directory");
  const std::string missing = why(CheckedFolder::open(folder.path() / "nothing"));
  CHECK(missing.ends_with("nothing: No such file or directory"));
  const fs::path loop = folder.path() / "loop";
  fs::create_directory_symlink(loop, loop);
  const std::string round = why(CheckedFolder::open(loop));
  CHECK(round.ends_with("loop: Too many levels of symbolic links"));
  // Not that of the last call, which was about who owns it.
  if (::geteuid() == 0) return;
  const fs::path closed = folder.path() / "closed";
  fs::create_directory(closed);
  REQUIRE(::chmod(closed.c_str(), 0300) == 0);
  CHECK(why(CheckedFolder::open(closed)).ends_with("closed: Permission denied"));
}
