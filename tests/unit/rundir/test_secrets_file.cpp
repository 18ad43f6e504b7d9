// SPDX-License-Identifier: Apache-2.0
#include "unit/folder.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/secrets_file.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

using namespace shardsweep;
namespace fs = std::filesystem;
using shardsweep::test::Folder;

namespace {

AttemptSpec wanting(const fs::path& file, std::vector<std::string> names) {
  AttemptSpec spec;
  spec.secrets = std::move(names);
  spec.secrets_file = file.string();
  return spec;
}

}  // namespace

TEST_CASE("values come back as they were, from a file for its owner alone") {
  const Folder folder;
  const auto file = folder.path() / "secrets" / "a.env";
  CHECK(read_secrets(file).value().empty());
  const Secrets secrets{{"A", "b=c\nd\xff"}, {"EMPTY", ""}};
  REQUIRE(write_secrets(file, secrets));
  CHECK(read_secrets(file).value() == secrets);
  CHECK((fs::status(file).permissions() & (fs::perms::group_all | fs::perms::others_all)) ==
      fs::perms::none);
  CHECK((fs::status(file.parent_path()).permissions() & fs::perms::others_all) == fs::perms::none);
  REQUIRE(write_secrets(file, {}));
  CHECK_FALSE(fs::exists(file));
}

TEST_CASE("a file that was cut is damaged, and no value is made up") {
  const Folder folder;
  CHECK_FALSE(read_secrets(folder.write("cut", "A=1234")));
  CHECK_FALSE(read_secrets(folder.write("none", std::string("A\0", 2))));
}

TEST_CASE("ranks get the values, and what is missing is named") {
  const Folder folder;
  const auto file = folder.path() / "a.env";
  REQUIRE(write_secrets(file, {{"A", "1234"}, {"B", "5678"}}));
  auto spec = wanting(file, {"A"});
  spec.env = {{"OTHER", "x"}};
  const auto full = with_secrets(spec);
  REQUIRE(full);
  CHECK(full->env == Secrets{{"A", "1234"}, {"OTHER", "x"}});
  const auto lacking = with_secrets(wanting(file, {"A", "C"}));
  REQUIRE_FALSE(lacking);
  CHECK(lacking.error().what.find("the value of C") != std::string::npos);
  CHECK(lacking.error().what.find("1234") == std::string::npos);
  CHECK(with_secrets(AttemptSpec{}));
}

TEST_CASE("what ranks have printed is kept without the values") {
  const Folder folder;
  const auto file = folder.path() / "a.env";
  const std::string value = "a long value that lies across the end of a piece";
  REQUIRE(write_secrets(file, {{"A", value}}));
  const AttemptPaths attempt{folder.path() / "1"};
  fs::create_directories(attempt.dir / "evidence");
  const auto spec = wanting(file, {"A"});
  REQUIRE(write_file_durably(attempt.spec(), encode(spec)));
  const std::string before((std::size_t{1} << 20) - 7, '.');
  REQUIRE(write_file_durably(attempt.rank_log(0), before + value + "\nend\n" + value));
  REQUIRE(write_file_durably(attempt.evidence() / "n.json", "{\"seen\": \"" + value + "\"}"));
  REQUIRE(pack_attempt(attempt, std::int64_t{8} << 20));
  const auto pack = read_file(attempt.pack());
  REQUIRE(pack);
  CHECK(pack->find(value) == std::string::npos);
  CHECK(pack->find(std::string(value.size(), '*') + "\nend\n") != std::string::npos);
}
