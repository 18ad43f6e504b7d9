// SPDX-License-Identifier: Apache-2.0
#include "trainer/log_records.hpp"
#include "trainer/version.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

using namespace shardsweep;

namespace fs = std::filesystem;

namespace {

std::string why(const char* trainer, std::string_view version) {
  const auto known = check_version(*find_trainer(trainer), version);
  return known ? std::string() : known.error().what;
}

/// A folder of this test, with one file in it.
fs::path folder_with(const std::string& name, const std::string& file, const std::string& text) {
  fs::path folder = fs::temp_directory_path() / ("shardsweep-probe-" + name);
  fs::remove_all(folder);
  fs::create_directories((folder / file).parent_path());
  std::ofstream(folder / file) << text;
  return folder;
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// What the probe prints in a folder, by a real python3.
std::string probed(const char* trainer, const fs::path& folder) {
  std::string line = "cd " + quoted(folder.string()) + " &&";
  for (const auto& word : probe_command(*find_trainer(trainer), "python3"))
    line += " " + quoted(word);
  std::FILE* pipe = ::popen(line.c_str(), "r");  // NOLINT(cert-env33-c): of the test's own words
  REQUIRE(pipe != nullptr);
  std::string text(512, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  ::pclose(pipe);
  return text.substr(0, text.find('\n'));
}

}  // namespace

TEST_CASE("versions are compared as far as a bound says") {
  CHECK(compare_version("0.18.2", "0.18") == 0);
  CHECK(compare_version("0.18.0rc3", "0.18") == 0);
  CHECK(compare_version("0.9", "0.18") == -1);
  CHECK(compare_version("0.19", "0.18") == 1);
  CHECK(compare_version("1.0", "0.18") == 1);
  CHECK(compare_version("2026.5.19", "2026.8") == -1);
  CHECK(compare_version("", "0.1") == -1);
}

TEST_CASE("a version older than the range is refused with both") {
  CHECK(why("megatron", "0.13.0rc2") == "");
  CHECK(why("megatron", "0.4.1") ==
      "Version '0.4.1' of Megatron-LM was found. The reader 'megatron' knows the log of "
      "versions 0.5 to 0.20. To read it all the same, write 'unchecked: [version]'.");
  CHECK(why("records", "99") == "");
}

TEST_CASE("a newer version than those tested is no fault, and is said") {
  for (const auto& [trainer, version] :
      {std::pair{"megatron", "0.21.0rc1"}, std::pair{"megatron-bridge", "0.8.0"},
          std::pair{"torchtitan", "0.4.0"}, std::pair{"picotron", "2027.1.5"}}) {
    CAPTURE(trainer);
    CHECK(why(trainer, version) == "");
    CHECK(is_newer_than_tested(*find_trainer(trainer), version));
  }
  CHECK_FALSE(is_newer_than_tested(*find_trainer("megatron"), "0.20.3"));
  CHECK_FALSE(is_newer_than_tested(*find_trainer("megatron"), "0.3"));
  CHECK_FALSE(is_newer_than_tested(*find_trainer("records"), "99"));
}

TEST_CASE("each trainer has a range, and says how it runs on one GPU or why not") {
  for (const Trainer& one : trainers()) {
    CAPTURE(one.name);
    CHECK(one.from.empty() == one.to.empty());
    CHECK((one.from.empty() || compare_version(one.from, one.to) <= 0));
    CHECK(!one.resolution.empty());
    const bool fake = !one.fake.flag.empty() || !one.fake.variable.empty();
    CHECK(fake == one.fake.why_not.empty());
  }
}

TEST_CASE("a line says the version") {
  CHECK(version_in(*find_trainer("megatron"), "shardsweep-probe: 0.13.0rc2") == "0.13.0rc2");
  CHECK_FALSE(version_in(*find_trainer("megatron"), "shardsweep-probe: unknown"));
  CHECK(version_in(*find_trainer("deepspeed"),
            "[Rank 0] DeepSpeed info: version=0.16.4, git-hash=unknown") == "0.16.4");
}

TEST_CASE("the probe finds the version of a source tree, and starts no trainer") {
  const auto megatron = folder_with("megatron", "megatron/core/package_info.py",
      "MAJOR = 0\nMINOR = 12\nPATCH = 3\nPRE_RELEASE = 'rc1'\nVERSION = (MAJOR,)\n");
  std::ofstream(megatron / "megatron/core/__init__.py") << "raise SystemExit('imported')\n";
  CHECK(probed("megatron", megatron) == "shardsweep-probe: 0.12.3");
  const auto titan = folder_with("titan", "assets/version.txt", "0.2.2\n");
  fs::create_directories(titan / "torchtitan");
  std::ofstream(titan / "torchtitan/__init__.py") << "raise SystemExit('imported')\n";
  CHECK(probed("torchtitan", titan) == "shardsweep-probe: 0.2.2");
  const auto foundry =
      folder_with("foundry", "llmfoundry/_version.py", "__version__ = '0.16.0.dev0'\n");
  std::ofstream(foundry / "llmfoundry/__init__.py") << "";
  CHECK(probed("llm-foundry", foundry) == "shardsweep-probe: 0.16.0.dev0");
  const auto nothing = folder_with("nothing", "train.py", "");
  CHECK(probed("megatron", nothing) == "shardsweep-probe: unknown");
  CHECK(probed("picotron", nothing) == "shardsweep-probe: unknown");
  for (const auto& folder : {megatron, titan, foundry, nothing})
    fs::remove_all(folder);
}

TEST_CASE("a log of a newer version counts as long as nothing contradicts it") {
  const auto measured = [](std::int64_t dp, const char* loss) {
    TrainerRun run{.log = "megatron", .warmup = 1, .steps = 2, .dp = dp, .tokens_per_step = 8};
    auto log = LogRecords::make(run, 2);
    REQUIRE(log);
    CHECK(log->see_version("shardsweep-probe: 0.21.0"));
    (void)log->read("using world size: 2, data-parallel size: 2", 0);
    for (int i = 1; i < 4; ++i)
      (void)log->read(fmt::format(" iteration {}/ 3 | elapsed time per iteration (ms): 100.0 | "
                                  "lm loss: {} |",
                          i, loss),
          0.1 * i);
    return log->finish(0.01);
  };
  const auto taken = measured(2, "6.0");
  CHECK(taken.type == "result");
  CHECK(taken.texts.at("trainer_version") == "0.21.0");
  CHECK(taken.texts.at("trainer_note") ==
      "Version '0.21.0' of Megatron-LM is newer than tested: the reader 'megatron' was "
      "tested with versions 0.5 to 0.20.");
  const auto refused = measured(1, "6.0");
  CHECK(refused.type == "error");
  CHECK(refused.texts.at("class") == "usage");
  CHECK(refused.texts.at("message") ==
      "its log is no measurement: Version '0.21.0' of Megatron-LM is newer than tested: the "
      "reader 'megatron' was tested with versions 0.5 to 0.20. The log says dp 2, but 1 was asked "
      "for.");
  CHECK(measured(2, "nan").texts.at("class") == "nan");
}

TEST_CASE("a log of another version is no measurement, unless its user says so") {
  TrainerRun run{.log = "megatron", .warmup = 1, .steps = 2, .tokens_per_step = 800};
  const auto measured = [&] {
    auto log = LogRecords::make(run, 2);
    REQUIRE(log);
    const auto known = log->see_version("shardsweep-probe: 0.3.0");
    CHECK(known.has_value() == !run.unchecked.empty());
    for (int i = 1; i < 4; ++i)
      (void)log->read(
          fmt::format(" iteration {}/ 3 | elapsed time per iteration (ms): 100.0 |", i), 0.1 * i);
    return log->finish(0.01);
  };
  const auto refused = measured();
  CHECK(refused.type == "error");
  CHECK(refused.texts.at("class") == "usage");
  CHECK(refused.texts.at("message").find("'0.3.0' of Megatron-LM") != std::string::npos);
  run.unchecked = {"version"};
  const auto taken = measured();
  CHECK(taken.type == "result");
  CHECK(taken.texts.at("trainer_version") == "0.3.0");
}
