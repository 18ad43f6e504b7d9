// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/attempt_files.hpp>
#include <shardsweep/side_run.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <ostream>

using namespace shardsweep;

namespace {

namespace fs = std::filesystem;

class AttemptFolder {
 public:
  AttemptFolder() {
    std::string pattern = (fs::temp_directory_path() / "shardsweep-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
    paths.dir = root_ / "slug.1";
    fs::create_directories(paths.evidence());
  }
  AttemptFolder(const AttemptFolder&) = delete;
  AttemptFolder& operator=(const AttemptFolder&) = delete;
  ~AttemptFolder() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(paths.dir / name, std::ios::binary) << text;
  }
  [[nodiscard]] AttemptFile file(const std::string& name) const {
    const auto files = list_attempt_files(paths);
    REQUIRE(files);
    for (const AttemptFile& one : *files) {
      if (one.name == name) return one;
    }
    FAIL(name);
    return {};
  }
  AttemptPaths paths;

 private:
  fs::path root_;
};

std::string whole(const AttemptFile& file) {
  const auto reader = AttemptFileReader::open(file);
  REQUIRE(reader);
  std::string text;
  for (;;) {
    const auto bytes = reader->read(text.size(), 7);
    REQUIRE(bytes);
    if (bytes->empty()) return text;
    text += *bytes;
  }
}

}  // namespace

TEST_CASE("an attempt's files are the same in its folder and in its pack") {
  const AttemptFolder folder;
  for (const int rank : {0, 2, 10})
    folder.write("rank." + std::to_string(rank) + ".out", "rank " + std::to_string(rank));
  folder.write("evidence/n1.json", "{}");
  folder.write("records.jsonl", "");
  const auto names = [&] {
    std::string text;
    const auto files = list_attempt_files(folder.paths);
    REQUIRE(files);
    for (const AttemptFile& file : *files)
      text += file.name + '=' + whole(file) + ' ';
    return text;
  };
  const std::string wanted =
      "evidence/n1.json={} rank.0.out=rank 0 rank.2.out=rank 2 rank.10.out=rank 10 "
      "records.jsonl= ";
  CHECK(names() == wanted);
  const AttemptFile open_before = folder.file("rank.10.out");
  const auto reader = AttemptFileReader::open(open_before);
  REQUIRE(reader);
  REQUIRE(pack_attempt(folder.paths, 1 << 20));
  CHECK_FALSE(fs::exists(folder.paths.dir));
  CHECK(names() == wanted);
  CHECK(folder.file("rank.2.out").packed);
  CHECK(*reader->read(0, 100) == "rank 10");  // what was open stays whole
  CHECK_FALSE(AttemptFileReader::open(open_before));
}

TEST_CASE("without folder and pack there are no files") {
  const auto files = list_attempt_files({"/nowhere/slug.1"});
  REQUIRE(files);
  CHECK(files->empty());
}

TEST_CASE("a link in place of a log leads nobody away") {
  const AttemptFolder folder;
  fs::create_symlink("/etc/passwd", folder.paths.rank_log(0));
  const auto files = list_attempt_files(folder.paths);
  REQUIRE(files);
  CHECK(files->empty());
  CHECK_FALSE(AttemptFileReader::open({"rank.0.out", folder.paths.rank_log(0)}));
}

TEST_CASE("which rank a log is of") {
  CHECK(rank_of_log("rank.12.out") == 12);
  for (const char* other : {"rank.out", "rank.x.out", "rank.1.log", "nccl.rank.1.log",
           "rank.-1.out", "rank..out", "evidence/rank.1.out"})
    CHECK_FALSE(rank_of_log(other));
}

TEST_CASE("the last lines are found from the end") {
  const AttemptFolder folder;
  const auto last = [&](const std::string& text, std::uint64_t lines) {
    folder.write("rank.0.out", text);
    const auto reader = AttemptFileReader::open(folder.file("rank.0.out"));
    REQUIRE(reader);
    const auto begin = begin_of_last_lines(*reader, lines);
    REQUIRE(begin);
    return text.substr(*begin);
  };
  CHECK(last("a\nb\nc\n", 0) == "");
  CHECK(last("a\nb\nc\n", 1) == "c\n");
  CHECK(last("a\nb\nc", 1) == "c");
  CHECK(last("a\nb\nc", 2) == "b\nc");
  CHECK(last("a\nb\n\n", 2) == "b\n\n");
  CHECK(last("a\nb\nc\n", 3) == "a\nb\nc\n");
  CHECK(last("a\nb\nc\n", 9) == "a\nb\nc\n");
  CHECK(last("", 5) == "");
  CHECK(last("\n", 1) == "\n");
  // Lines beyond a block.
  const std::string line = std::string(70'000, 'x') + '\n';
  CHECK(last(line + line + line, 2) == line + line);
  std::string many;
  for (int i = 0; i < 50'000; ++i)
    many += std::to_string(i) + '\n';
  CHECK(last(many, 3) == "49997\n49998\n49999\n");
}

TEST_CASE("what a tool has written is packed whole, or its size is") {
  const AttemptFolder folder;
  fs::create_directories(folder.paths.kept() / "deep");
  const std::string report(3000, 'r');
  folder.write("kept/deep/report", report);
  folder.write("rank.0.out", report);
  folder.write("kept/too_large", "");
  fs::resize_file(folder.paths.kept() / "too_large", most_kept_bytes);
  const auto names = [&] {
    std::vector<std::string> all;
    for (const AttemptFile& file : kept_files_of(folder.paths))
      all.push_back(file.name);
    return all;
  };
  const std::vector<std::string> both{"kept/deep/report", "kept/too_large"};
  CHECK(names() == both);
  REQUIRE(pack_attempt(folder.paths, 100));
  CHECK(names() == both);
  CHECK(whole(folder.file("kept/deep/report")) == report);
  CHECK(whole(folder.file("rank.0.out")).size() < 200);
  CHECK(
      whole(folder.file("kept/too_large")).find("left out 1073741824 bytes") != std::string::npos);
  CHECK(kept_files_of({folder.paths.dir / "nowhere"}).empty());
}
