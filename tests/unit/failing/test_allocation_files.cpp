// SPDX-License-Identifier: Apache-2.0
// Files of an allocation whose writer dies at any window, or meets a full or a broken disk: a
// reader finds what was there before or what was written, and never half of it.
#include "rundir/run_directory.hpp"
#include "unit/failing/child.hpp"
#include "unit/folder.hpp"

#include <shardsweep/allocation_files.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

constexpr int failed = 9;  // of a child whose call came back with a fault

struct Place {
  Folder folder;
  int runs = 0;
  /// Each time with points of its own.
  int run(const std::string& armed, const std::function<bool()>& body) {
    const FailPoints points(folder.path() / ("points." + std::to_string(++runs)));
    return run_at(points, armed, [&] { return body() ? 0 : failed; });
  }
  [[nodiscard]] std::vector<std::string> names(const std::filesystem::path& below) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() / below))
      found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a file has its old content until it has its new one, wherever its writer dies") {
  for (const auto& [point, text] :
      {std::pair("rundir.write", "old"), std::pair("rundir.sync", "old"),
          std::pair("rundir.rename", "old"), std::pair("rundir.renamed", "new")}) {
    CAPTURE(point);
    Place place;
    const auto file = place.folder.write("files/file", "old");
    const auto write = [&] { return write_file_durably(file, "new").has_value(); };
    CHECK(place.run(std::string(point) + ":kill", write) == -SIGKILL);
    CHECK(place.folder.read("files/file") == text);
    // What is left over under another name holds nobody up.
    CHECK(place.run("", write) == 0);
    CHECK(place.folder.read("files/file") == "new");
  }
}

TEST_CASE("a disk that takes no file leaves the old one, and nothing under another name") {
  for (const char* point : {"rundir.write", "rundir.sync", "rundir.rename"}) {
    for (const auto& [action, why] : {std::pair(":enospc", "No space left on device"),
             std::pair(":eio", "Input/output error")}) {
      CAPTURE(point);
      CAPTURE(action);
      Place place;
      const auto file = place.folder.write("files/file", "old");
      CHECK(place.run(std::string(point) + action, [&] {
        const auto written = write_file_durably(file, "new");
        return !written && written.error().what.ends_with(why);
      }) == 0);
      CHECK(place.folder.read("files/file") == "old");
      CHECK(place.names("files") == Names{"file"});
    }
  }
}

TEST_CASE("a line is there as a whole or not at all, and is written again by its number") {
  Place place;
  const auto file = place.folder.path() / "lines";
  const auto append = [&] {
    auto writer = LineWriter::open(file);
    return writer && writer->append("one", true).has_value();
  };
  CHECK(place.run("rundir.append:kill", append) == -SIGKILL);
  CHECK(place.folder.read("lines").empty());
  CHECK(place.run("rundir.append:enospc", append) == failed);
  CHECK(place.folder.read("lines").empty());
  CHECK(place.run("rundir.append_sync:eio", append) == failed);
  CHECK(place.folder.read("lines") == "one\n");
  CHECK(place.run("rundir.append_sync:kill", append) == -SIGKILL);
  CHECK(place.folder.read("lines") == "one\none\n");
}

TEST_CASE("an allocation is claimed by one lead, wherever another one dies that claims it") {
  const auto claim = [](const Place& place, const std::string& nonce, bool& won) {
    const auto claimed = claim_allocation({place.folder.path() / "allocation"}, nonce);
    won = claimed.value_or(false);
    return claimed.has_value();
  };
  for (const auto& [point, second_wins] : {std::pair("rundir.claim:kill", true),
           std::pair("rundir.claim:eio", true), std::pair("rundir.claimed:kill", false)}) {
    CAPTURE(point);
    Place place;
    std::filesystem::create_directories(place.folder.path() / "allocation");
    bool won = false;
    const int code = place.run(point, [&] { return claim(place, "first", won); });
    CHECK(code == (std::string(point).ends_with("kill") ? -SIGKILL : failed));
    CHECK(place.run("", [&] { return claim(place, "second", won) && won == second_wins; }) == 0);
    CHECK(place.run("", [&] { return claim(place, "third", won) && !won; }) == 0);
  }
}

namespace {

/// An attempt's folder with some files, packed by a child.
struct Attempt : Place {
  Attempt() {
    folder.write("attempt-1/spec.json", "{}");
    folder.write("attempt-1/rank.0.out", "printed\n");
    folder.write("attempt-1/records.jsonl", "{\"type\":\"result\"}\n");
  }
  [[nodiscard]] AttemptPaths paths() const { return {folder.path() / "attempt-1"}; }
  int pack(const std::string& armed) {
    return run(armed, [&] { return pack_attempt(paths(), 4096).has_value(); });
  }
  void check_readable() const {
    const auto records = read_attempt_records(paths());
    REQUIRE(records);
    CHECK(records->text == "{\"type\":\"result\"}\n");
  }
};

}  // namespace

TEST_CASE("an attempt can be read and packed again, wherever its packer dies") {
  for (const auto& [point, packed] : {std::pair("rundir.pack_file:1", false),
           std::pair("rundir.pack_file:3", false), std::pair("rundir.pack_sync", false),
           std::pair("rundir.pack_rename", false), std::pair("rundir.packed", true)}) {
    CAPTURE(point);
    Attempt attempt;
    CHECK(attempt.pack(std::string(point) + ":kill") == -SIGKILL);
    CHECK(std::filesystem::exists(attempt.paths().pack()) == packed);
    CHECK(std::filesystem::exists(attempt.paths().dir));
    attempt.check_readable();
    CHECK(attempt.pack("") == 0);
    CHECK(!std::filesystem::exists(attempt.paths().dir));
    attempt.check_readable();
  }
}

TEST_CASE("an attempt that a disk does not take as a pack stays a folder") {
  for (const char* point : {"rundir.pack_file:2:enospc", "rundir.pack_sync:enospc",
           "rundir.pack_sync:eio", "rundir.pack_rename:eio"}) {
    CAPTURE(point);
    Attempt attempt;
    CHECK(attempt.pack(point) == failed);
    CHECK(!std::filesystem::exists(attempt.paths().pack()));
    CHECK(std::filesystem::exists(attempt.paths().dir / "rank.0.out"));
    attempt.check_readable();
    CHECK(attempt.pack("") == 0);
    attempt.check_readable();
  }
}
