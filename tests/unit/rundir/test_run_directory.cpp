// SPDX-License-Identifier: Apache-2.0
#include "rundir/run_directory.hpp"
#include "rundir/tar.hpp"
#include "unit/folder.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/attempt_files.hpp>
#include <shardsweep/storage.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

using namespace shardsweep;
using test::Folder;
namespace fs = std::filesystem;

namespace {

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr)
    text += buffer.data();
  ::pclose(pipe);
  return text;
}

std::vector<std::string> lines_of(LineReader& reader, std::size_t limit = 10'000) {
  auto lines = reader.look(limit);
  REQUIRE(lines);
  return *lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a file of a terabyte without a line does not keep its reader") {
  const Folder folder;
  const auto path = folder.write("records.jsonl", "first\n");
  REQUIRE(::truncate(path.c_str(), off_t{1} << 40) == 0);
  LineReader reader(path);
  const auto lines = lines_of(reader);
  CHECK(lines.front() == "first");
  CHECK(lines.size() <= 2);
  CHECK(lines_of(reader).empty());
}

TEST_CASE("what stands in the place of a new file is never written into") {
  const Folder folder;
  const auto path = folder.path() / "report.html";
  const auto fresh = path.string() + ".new." + std::to_string(::getpid());
  const auto other = folder.write("other", "mine");
  fs::create_symlink(other, fresh);
  REQUIRE(write_file_durably(path, "answer", Readers::owner));
  CHECK(read_file(other).value() == "mine");
  CHECK(fs::is_regular_file(fs::symlink_status(path)));
  folder.write(fs::path(fresh).filename().string(), "of somebody");
  fs::permissions(fresh, fs::perms::all);
  REQUIRE(write_file_durably(path, "answer", Readers::owner));
  CHECK((fs::status(path).permissions() & fs::perms::all) ==
      (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("lines are written behind no link") {
  const Folder folder;
  const auto other = folder.write("other", "mine");
  fs::create_symlink(other, folder.path() / "from_lead");
  CHECK(!LineWriter::open(folder.path() / "from_lead"));
  CHECK(read_file(other).value() == "mine");
}

TEST_CASE("a file written durably replaces the old one and leaves nothing beside it") {
  const Folder folder;
  const auto path = folder.path() / "file";
  REQUIRE(write_file_durably(path, "one"));
  REQUIRE(write_file_durably(path, "two"));
  CHECK(read_file(path).value() == "two");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  REQUIRE(write_file_durably(path, "two", Readers::owner));
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(!write_file_durably(folder.path() / "no" / "file", "x"));
  CHECK(!read_file(path, 2));
  CHECK(!read_file(folder.path() / "none"));
}

TEST_CASE("a link is followed, and what is no regular file is written into") {
  const Folder folder;
  const auto target = folder.write("target", "old");
  const auto link = folder.path() / "link";
  fs::create_symlink("target", link);
  REQUIRE(write_file_durably(link, "new"));
  CHECK(fs::is_symlink(link));
  CHECK(read_file(target).value() == "new");
  fs::create_symlink(folder.path() / "later", folder.path() / "dangling");
  REQUIRE(write_file_durably(folder.path() / "dangling", "made"));
  CHECK(read_file(folder.path() / "later").value() == "made");
  fs::create_symlink("circle", folder.path() / "circle");
  CHECK(!write_file_durably(folder.path() / "circle", "x"));

  const auto fifo = folder.path() / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(write_file_durably(fifo, "x").error().what.find("it is a pipe that no program reads") !=
      std::string::npos);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(write_file_durably(fifo, "text"));
  CHECK(fs::is_fifo(fifo));
  std::array<char, 8> read{};
  CHECK(::read(reader, read.data(), read.size()) == 4);
  ::close(reader);

  int ends[2]{};
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  REQUIRE(write_file_durably("/dev/fd/" + std::to_string(ends[1]), "piped"));
  CHECK(::read(ends[0], read.data(), read.size()) == 5);
  for (const int end : ends)
    ::close(end);
  CHECK(!write_file_durably(folder.path(), "x"));
}

TEST_CASE("a reader hands out whole lines once and waits for the end of a torn one") {
  const Folder folder;
  LineReader reader(folder.path() / "lines");
  CHECK(lines_of(reader).empty());
  folder.append("lines", "one\ntw");
  CHECK(lines_of(reader) == Lines{"one"});
  CHECK(lines_of(reader).empty());
  folder.append("lines", "o\nthree\n\n");
  CHECK(lines_of(reader) == Lines{"two", "three", ""});
  CHECK(lines_of(reader).empty());
}

TEST_CASE("a reader of logs takes what a progress bar writes over as lines of their own") {
  const Folder folder;
  LineReader reader(folder.path() / "lines", "\r\n");
  folder.append("lines", " 1%| 1/100\r 2%| 2/100\r");
  CHECK(lines_of(reader) == Lines{" 1%| 1/100", " 2%| 2/100"});
  folder.append("lines", "\r{'loss': 1}\nnext");
  CHECK(lines_of(reader) == Lines{"", "{'loss': 1}"});
}

TEST_CASE("a reader keeps to its limit and goes on where it stopped") {
  const Folder folder;
  folder.write("lines", "1\n2\n3\n4\n5\n");
  LineReader reader(folder.path() / "lines");
  CHECK(lines_of(reader, 2) == Lines{"1", "2"});
  CHECK(lines_of(reader, 2) == Lines{"3", "4"});
  CHECK(lines_of(reader, 2) == Lines{"5"});
}

TEST_CASE("a reader passes over a line without an end in bounded memory") {
  const Folder folder;
  folder.write("lines", "first\n" + std::string(3'000'000, 'x'));
  LineReader reader(folder.path() / "lines");
  const auto lines = lines_of(reader);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "first");
  CHECK(lines[1].size() <= 1000);
  folder.append("lines", "yyy\nnext\n");
  CHECK(lines_of(reader) == Lines{"next"});
}

TEST_CASE("a reader hands out a long line of many keys whole") {
  const Folder folder;
  const std::string longest(900'000, 'x');
  folder.write("lines", "first\n" + longest + "\nlast\n");
  LineReader reader(folder.path() / "lines");
  CHECK(lines_of(reader) == Lines{"first", longest, "last"});
}

TEST_CASE("a reader that is far behind goes on with the last lines") {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "line " + std::to_string(i) + "\n";
  folder.write("lines", text);
  LineReader reader(folder.path() / "lines");
  reader.pass_over_all_but(25);
  CHECK(lines_of(reader) == Lines{"line 998", "line 999"});
  folder.append("lines", "more\n");
  reader.pass_over_all_but(25);
  CHECK(lines_of(reader) == Lines{"more"});
}

TEST_CASE("a writer closes the torn line that a crash has left") {
  const Folder folder;
  folder.write("lines", "one\n{\"to");
  auto writer = LineWriter::open(folder.path() / "lines");
  REQUIRE(writer);
  REQUIRE(writer->append("two", true));
  REQUIRE(writer->append("three", false));
  CHECK(folder.read("lines") == "one\n{\"to\ntwo\nthree\n");
  CHECK(!writer->append("a\nb", false));
  CHECK(!LineWriter::open(folder.path() / "no" / "lines"));
}

TEST_CASE("a pack opens with tar and reads back the same records") {
  const Folder folder;
  const AttemptPaths attempt{folder.path() / "attempt-7"};
  folder.write("attempt-7/spec.json", "{}\n");
  folder.write("attempt-7/records.jsonl", "a\nb\ntorn");
  folder.write("attempt-7/records.jsonl.10", "ten\n");
  folder.write("attempt-7/records.jsonl.2", "two\n");
  folder.write("attempt-7/rank.0.out", std::string(500, 'h') + std::string(9000, 'm') + "tail");
  folder.write("attempt-7/recorder/rank.0", "r");
  const std::string deep = "attempt-7/" + std::string(90, 'd') + "/" + std::string(90, 'f');
  folder.write(deep, "deep");
  REQUIRE(::mkfifo((attempt.dir / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("/etc/passwd", attempt.dir / "link");
  const auto before = read_attempt_records(attempt);
  REQUIRE(before);
  CHECK(before->text == "a\nb\ntwo\nten\n");
  CHECK(!before->packed);

  REQUIRE(pack_attempt(attempt, 100));
  CHECK(!fs::exists(attempt.dir));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  const auto after = read_attempt_records(attempt);
  REQUIRE(after);
  CHECK(after->text == before->text);
  CHECK(after->packed);
  REQUIRE(pack_attempt(attempt, 100));

  const std::string tar = "cd '" + folder.path().string() + "' && tar ";
  CHECK(output_of(tar + "tf attempt-7.tar 2>&1") ==
      deep +
          "\nattempt-7/rank.0.out"
          "\nattempt-7/recorder/rank.0"
          "\nattempt-7/records.jsonl"
          "\nattempt-7/records.jsonl.10"
          "\nattempt-7/records.jsonl.2"
          "\nattempt-7/spec.json\n");
  CHECK(output_of(tar + "xf attempt-7.tar 2>&1").empty());
  CHECK(folder.read(deep) == "deep");
  CHECK(folder.read("attempt-7/records.jsonl") == "a\nb\ntorn");
  const std::string log = folder.read("attempt-7/rank.0.out");
  CHECK(log ==
      std::string(50, 'h') + "\n[shardsweep left out 9404 bytes here]\n" + std::string(46, 'm') +
          "tail");
}

TEST_CASE("a link, a fifo or a folder in place of a file of a database is refused by its name") {
  const Folder folder;
  const AttemptPaths attempt{folder.path() / "1"};
  folder.write("elsewhere", "forged\n");
  folder.write("1/spec.json", "{}");
  const auto path = attempt.records();
  const auto all_refuse = [&](const std::string& why) {
    CAPTURE(why);
    const std::string expected = "'" + path.string() + "' is " + why +
        ", where a file of the database is expected. Remove it.";
    CHECK(read_own_file(path).error().what == expected);
    CHECK(read_attempt_records(attempt).error().what == expected);
    CHECK(LineReader(path).look().error().what == expected);
    CHECK(LineWriter::open(path).error().what == expected);
    CHECK(AttemptFileReader::open({.name = "", .path = path}).error().what == expected);
  };
  std::filesystem::create_symlink(folder.path() / "elsewhere", path);
  all_refuse("a link");
  // What is written whole takes its place.
  REQUIRE(write_own_file(path, "ours\n"));
  CHECK(folder.read("elsewhere") == "forged\n");
  CHECK(read_own_file(path).value() == "ours\n");
  std::filesystem::create_hard_link(path, folder.path() / "second");
  CHECK(LineWriter::open(path).error().what.find("has 2 names") != std::string::npos);
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  all_refuse("a fifo");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  all_refuse("a folder");
}

TEST_CASE("of records of 250 MB the first and the last lines are read") {
  const Folder folder;
  const AttemptPaths attempt{folder.path() / "1"};
  const auto path = folder.write("1/records.jsonl", "first\nhalf a li");
  REQUIRE(::truncate(path.c_str(), 250'000'000) == 0);
  folder.append("1/records.jsonl", "\nlast\n");
  const auto read = read_attempt_records(attempt);
  REQUIRE(read.has_value());
  CHECK(read->text == "first\nlast\n");
}

TEST_CASE("packing that was interrupted is finished by doing it again") {
  const Folder folder;
  const AttemptPaths attempt{folder.path() / "a"};
  SUBCASE("while the pack was written") {
    folder.write("a/records.jsonl", "x\n");
    folder.write("a.tar.new", "half a pack");
  }
  SUBCASE("while the folder was removed") {
    folder.write("a/records.jsonl", "x\n");
    REQUIRE(pack_attempt(attempt, 100));
    folder.write("a/spec.json", "{}");
  }
  REQUIRE(pack_attempt(attempt, 100));
  CHECK(!fs::exists(attempt.dir));
  CHECK(!fs::exists(folder.path() / "a.tar.new"));
  CHECK(read_attempt_records(attempt)->text == "x\n");
}

TEST_CASE("a cut or changed pack is a fault and nothing worse") {
  const Folder folder;
  const AttemptPaths attempt{folder.path() / "a"};
  folder.write("a/records.jsonl", "x\n");
  REQUIRE(pack_attempt(attempt, 100));
  const std::string whole = folder.read("a.tar");
  for (std::size_t size = 0; size < 1500; size += 100) {
    folder.write("a.tar", whole.substr(0, size));
    const auto records = read_attempt_records(attempt);
    CHECK(!records);
  }
  std::string changed = whole;
  changed[5] = '!';
  folder.write("a.tar", changed);
  CHECK(!read_attempt_records(attempt));
}

TEST_CASE("an attempt that is neither folder nor pack is a fault") {
  const Folder folder;
  CHECK(!read_attempt_records(AttemptPaths{folder.path() / "none"}));
  CHECK(!pack_attempt(AttemptPaths{folder.path() / "none"}, 100));
}

TEST_CASE("what can't be seen is neither there nor missing") {
  const Folder folder;
  const auto loop = folder.path() / "loop";
  fs::create_symlink(loop.filename(), loop);
  CHECK(!look_for(loop));
  CHECK(!look_for(loop / "file"));
  CHECK(!is_there(loop));
  CHECK(look_for(folder.path()).value_or(false));
  CHECK(!look_for(folder.path() / "none").value_or(true));
  CHECK(!look_for(folder.path() / "none" / "file").value_or(true));
}

TEST_CASE("a pack that can't be seen is not replaced by what is left of its folder") {
  const Folder folder;
  const AttemptPaths attempt{folder.path() / "1"};
  fs::create_directory(attempt.dir);
  std::ofstream(attempt.records()) << "{}\n";
  fs::create_symlink(attempt.pack().filename(), attempt.pack());
  CHECK(!pack_attempt(attempt, 100));
  CHECK(fs::is_symlink(attempt.pack()));
  CHECK(fs::exists(attempt.records()));
  CHECK(!read_attempt_records(attempt));
}

TEST_CASE("of eight processes that claim at once one wins") {
  const char* repeats = std::getenv("SHARDSWEEP_TEST_REPEATS");
  const int rounds = repeats != nullptr ? std::atoi(repeats) : 10;
  for (int round = 0; round < rounds; ++round) {
    const Folder folder;
    std::array<int, 2> gate{};
    REQUIRE(::pipe2(gate.data(), O_CLOEXEC) == 0);
    std::array<pid_t, 8> children{};
    for (auto& child : children) {
      child = ::fork();
      if (child == 0) {
        char byte = 0;
        ::close(gate[1]);
        (void)!::read(gate[0], &byte, 1);  // all start when the gate closes
        const auto nonce = random_nonce();
        const auto won = claim_allocation({folder.path()}, nonce.value_or("x"));
        ::_exit(won ? (*won ? 0 : 1) : 2);
      }
    }
    ::close(gate[0]);
    ::close(gate[1]);
    std::array<int, 3> count{};
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      REQUIRE(WIFEXITED(status));
      ++count.at(static_cast<std::size_t>(WEXITSTATUS(status)));
    }
    CHECK(count == std::array<int, 3>{1, 7, 0});
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  }
}
