// SPDX-License-Identifier: Apache-2.0
// tests/data/cases/sweep_errors/NAME/: sweep.yaml (with `set`, a line per --set, and files that
// it names) and the whole message that it has to give. UPDATE_GOLDEN=1 writes the messages
// anew.
#include "loading.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <set>
#include <string>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> lines(const fs::path& file) {
  std::vector<std::string> all;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    all.push_back(line);
  return all;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// Messages name files as they were given: relative to the case, on every machine the same.
class InFolder {
 public:
  explicit InFolder(const fs::path& folder) : before_(fs::current_path()) {
    fs::current_path(folder);
  }
  ~InFolder() { fs::current_path(before_); }
  InFolder(const InFolder&) = delete;
  InFolder& operator=(const InFolder&) = delete;

 private:
  fs::path before_;
};

std::string message_of(const fs::path& folder) {
  const InFolder inside(folder);
  auto options = with_presets(lines("set"));
  options.programs = "/nowhere";  // runners are looked for, and none is ours
  const auto loaded = load_sweep("sweep.yaml", options);
  return fault_of(loaded) + "\n";
}

}  // namespace

TEST_CASE("every bad sweep file gives its exact message") {
  const fs::path root = std::string(SHARDSWEEP_SOURCE_DIR) + "/tests/data/cases/sweep_errors";
  const bool update = is_set("UPDATE_GOLDEN");
  REQUIRE_MESSAGE(!(update && is_set("CI")), "UPDATE_GOLDEN is not for CI");
  std::set<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root))
    folders.insert(entry.path());
  CHECK(folders.size() >= 40);
  for (const auto& folder : folders) {
    const auto message = message_of(folder);
    if (update) std::ofstream(folder / "expected.txt", std::ios::binary) << message;
    CHECK_MESSAGE(message == contents(folder / "expected.txt"), folder.filename().string());
  }
}
