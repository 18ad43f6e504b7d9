// SPDX-License-Identifier: Apache-2.0
// A folder of its own per test, a small sweep, and what a daemon would commit.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/results.hpp>
#include <shardsweep/store.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace shardsweep::testing {

/// Gone with the test, unless it failed.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardsweep-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The value, or a failed test that says the fault.
template <class T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().what);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

struct Grid {
  std::vector<std::int32_t> gpus{1, 2, 4};
  std::vector<std::int32_t> micro_batch{1, 2};
  std::vector<std::int32_t> vars{};  ///< indices of the one var's values; empty: no var
  std::int32_t repeats = 1;
  std::int32_t left_out = 2;
  std::string runner = "shardbench";
  std::string runner_version = "1.0";
  std::string name = "demo";
  std::string cluster = "this-machine";
};

/// Two models, and every trial of the grid.
class SweepFile {
 public:
  explicit SweepFile(const Grid& grid = {});
  [[nodiscard]] SubmittedSweep submitted() const;
  [[nodiscard]] TrialNames names(const Point& point) const;
  void write(const std::filesystem::path& file) const;

  SweepSpec sweep;
  Plan plan;
  Capabilities capabilities;
};

/// A trial as a daemon leaves it: what a submission has written stays.
[[nodiscard]] SetTrial set_trial(TrialId id, State state,
    std::optional<Outcome> outcome = std::nullopt, std::string cause = "",
    std::int32_t attempts = 0);

/// A store with the lease, and what a daemon does to it.
class Daemon {
 public:
  explicit Daemon(const std::filesystem::path& file);
  SubmitReport submit(const std::filesystem::path& inbox, std::int64_t rows = 1000);
  SubmitReport submit(const TempDir& dir, const Grid& grid);
  /// Assigns, runs and ends an attempt at `trial`.
  AttemptId run(
      TrialId trial, Outcome outcome, double tokens_per_s_per_gpu = 0, Mark mark = Mark::none);
  [[nodiscard]] TrialId trial(const std::string& where);
  void commit(std::vector<Change> changes) { must(store->commit(changes)); }

  /// The next run is in an allocation of its own.
  void leave_allocation() { allocation_ = 0; }

  std::unique_ptr<Store> store;
  Timestamp now = 1'700'000'000'000'000;

 private:
  AllocationId allocation_ = 0;
  std::map<TrialId, std::int32_t> attempts_;  ///< that were run
  int inboxes_ = 0;
};

/// Rows of a statement as text, '|' between columns, one line each.
[[nodiscard]] std::string rows_of(const std::filesystem::path& database, const std::string& sql);
[[nodiscard]] std::string rows_of(const Table& table);

}  // namespace shardsweep::testing
