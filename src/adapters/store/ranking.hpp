// SPDX-License-Identifier: Apache-2.0
// What `best` and heatmaps have in common: which runner version counts, and what a layout that
// was measured several times is worth.
#pragma once

#include "adapters/store/reader.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardsweep::sqlite {

/// One measured run of a layout.
struct Run {
  double tokens_per_s_per_gpu = 0;
  std::optional<double> value;
  std::int64_t trial = 0;
};

/// By tokens_per_s_per_gpu; of an even number the lower of the middle two, so that all numbers
/// that are shown together are of one run.
[[nodiscard]] const Run& median(std::vector<Run>& runs);

/// Runner versions of one model are not mixed unasked: the newest that has measured something
/// counts ("newest": submitted last), or the newest of all where none has.
class Versions {
 public:
  /// A number for (model, version); `measured` and the trial's id tell how new it is.
  std::size_t see(std::string_view model, std::string_view version, bool measured,
                  std::int64_t trial);
  [[nodiscard]] bool counts(std::size_t number) const;
  [[nodiscard]] const std::string& version(std::size_t number) const {
    return seen_[number].version;
  }
  [[nodiscard]] std::size_t size() const { return seen_.size(); }
  /// One sentence about what does not count; empty where all does.
  [[nodiscard]] std::string note() const;

 private:
  struct Seen {
    std::string model;
    std::string version;
    std::pair<bool, std::int64_t> newness;
    std::int64_t trials = 0;
  };
  std::vector<Seen> seen_;
};

/// True where the selection itself says which versions it wants.
[[nodiscard]] bool names_runner_version(const Selection& selection);

/// An expression that is the same for repeats of one layout; NULL where nothing is repeated,
/// because it costs.
[[nodiscard]] std::string group_expression(Database& database);

}  // namespace shardsweep::sqlite
