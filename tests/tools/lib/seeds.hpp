// SPDX-License-Identifier: Apache-2.0
// Seeds of random tests. A test takes the same one each time, so that a commit passes or fails
// for everybody alike; with the word "fresh" in its variable a new one. It prints it before
// anything else, as the command that repeats it, and stays within a budget of steps. A seed
// that has failed becomes a line of tests/data/seeds/NAME and is replayed in every run, so that
// what it found stays found:
//
//   SEED LENGTH  # what it found
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep::testing {

/// The setting of a test that its user may give in the environment.
inline std::int64_t setting(const char* variable, std::int64_t usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::atoll(text);
}

struct KeptSeed {
  std::uint64_t seed = 0;
  std::int64_t length = 0;  ///< as far as it has to be replayed
  std::string found;
};

class Seeds {
 public:
  struct Names {
    std::string file;      ///< below tests/data/seeds
    std::string test;      ///< a pattern of doctest that fits this test case alone
    std::string variable;  ///< of the environment, with a seed
    std::string budget;    ///< the same, with the budget
  };
  /// Prints what repeats the run. If its user has given a number, nothing else is replayed.
  Seeds(Names names, std::int64_t budget) : names_(std::move(names)) {
    constexpr std::uint64_t usual = 1;
    const char* given = std::getenv(names_.variable.c_str());
    if (given == nullptr) {
      first_ = usual;
    } else if (std::string_view(given) == "fresh") {
      first_ = std::random_device{}();
      given = nullptr;
    } else {
      first_ = std::strtoull(given, nullptr, 10);
    }
    std::printf("seed: %s\n", command(first_, budget).c_str());
    std::fflush(stdout);
    if (given == nullptr) read();
  }
  /// The first run takes it, each later run the next number.
  [[nodiscard]] std::uint64_t first() const { return first_; }
  [[nodiscard]] const std::vector<KeptSeed>& kept() const { return kept_; }

  [[nodiscard]] std::string command(std::uint64_t seed, std::int64_t budget) const {
    std::error_code ignored;
    return fmt::format("{}={} {}={} {} -tc='{}'", names_.variable, seed, names_.budget, budget,
        std::filesystem::read_symlink("/proc/self/exe", ignored).string(), names_.test);
  }
  /// What is to be done about a run that has failed.
  [[nodiscard]] std::string advice(
      std::uint64_t seed, std::int64_t length, std::int64_t budget) const {
    return fmt::format("again: {}\nkeep:  echo '{} {}  # WHAT IT FOUND' >> tests/data/seeds/{}",
        command(seed, budget), seed, length, names_.file);
  }

 private:
  void read() {
    const auto path =
        std::filesystem::path(SHARDSWEEP_SOURCE_DIR) / "tests" / "data" / "seeds" / names_.file;
    std::ifstream file(path);
    REQUIRE_MESSAGE(file, "cannot read " << path.string());
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line.front() == '#') continue;
      const auto mark = line.find('#');
      std::istringstream numbers(line.substr(0, mark));
      KeptSeed one;
      numbers >> one.seed >> one.length;
      const bool right = !numbers.fail() && one.length > 0 && mark != std::string::npos;
      REQUIRE_MESSAGE(right, path.string() << ": not 'SEED LENGTH  # what it found': " << line);
      one.found = line.substr(mark + 1);
      kept_.push_back(std::move(one));
    }
  }

  Names names_;
  std::uint64_t first_ = 0;
  std::vector<KeptSeed> kept_;
};

}  // namespace shardsweep::testing
