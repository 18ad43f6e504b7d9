// SPDX-License-Identifier: Apache-2.0
#include "unit/folder.hpp"

#include <shardsweep/copied.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

using namespace shardsweep;
namespace fs = std::filesystem;

namespace {

struct MovedPlace {
  test::Folder folder;
  Home home{folder.path() / "here" / "x.db"};
  fs::path before = folder.path() / "before" / "x.db";
  fs::path attempt = fs::path(before.string() + ".d") / "attempts" / "1.slug.1.token";

  MovedPlace() {
    fs::create_directories(home.attempts());
    fs::create_directories(before.parent_path());
    std::ofstream(home.database) << "rows";
  }
};

}  // namespace

TEST_CASE("a folder of a database that was moved is looked for in its home") {
  MovedPlace place;
  CHECK(folder_here(place.home, place.attempt) == place.attempt);
  const fs::path here = place.home.attempts() / "1.slug.1.token";
  std::ofstream(here.string() + ".tar") << "packed";
  CHECK(folder_here(place.home, place.attempt) == here);
  fs::remove(here.string() + ".tar");
  fs::create_directories(here);
  CHECK(folder_here(place.home, place.attempt) == here);
  CHECK(folder_here(place.home, here) == here);
  CHECK(folder_here(place.home, "").empty());
  // A job that went on has its files where it began.
  fs::create_directories(place.attempt);
  CHECK(folder_here(place.home, place.attempt) == place.attempt);
  // Unless another database is there by now.
  std::ofstream(place.before) << "rows";
  CHECK(folder_here(place.home, place.attempt) == here);
}

TEST_CASE("another database is one that is there, and is not this one behind a link") {
  MovedPlace place;
  CHECK_FALSE(other_database(place.home, place.attempt));
  fs::create_directories(place.attempt);
  CHECK_FALSE(other_database(place.home, place.attempt));  // jobs of before write there still
  fs::create_symlink(place.home.database, place.before);
  CHECK_FALSE(other_database(place.home, place.attempt));
  fs::remove(place.before);
  std::ofstream(place.before) << "rows";
  CHECK(other_database(place.home, place.attempt) == place.before);
}
