// SPDX-License-Identifier: Apache-2.0
// Whether one layout is faster than another, or only luckier.
#pragma once

#include <shardsweep/table.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// The value of a layout: the median of its runs.
struct Ranked {
  double value = 0;  ///< higher is faster
  std::int64_t runs = 0;
  std::optional<double> spread{};  ///< (most - least) / median of these runs
  double resolution = 0;           ///< share of the value that its log rounds away
  double sm_clock_mhz = 0;         ///< while it trained; 0: not known
};

/// Standard deviation of a single run, as a share of its value, from the spread of several.
[[nodiscard]] std::optional<double> noise_of_run(const Ranked& layout);

/// The median over all layouts that ran more than once: how noisy these measurements are.
[[nodiscard]] std::optional<double> common_noise(const std::vector<Ranked>& layouts);

/// Standard deviations of the relative difference of two layouts.
struct DifferenceNoise {
  double of_one_run_each = 0;
  double of_medians = 0;  ///< of as many runs as each has
};

/// `common` stands in where a layout ran once. Two runs may agree by chance: no layout is less
/// noisy than `common`.
[[nodiscard]] std::optional<DifferenceNoise> noise_of_difference(const Ranked& a,
                                                                 const Ranked& b,
                                                                 std::optional<double> common);

enum class Certainty : std::uint8_t {
  faster,     ///< by `clear_difference` units of noise at least
  undecided,  ///< by less
  unknown,    ///< nothing ran twice: the noise is not known
};

inline constexpr double clear_difference = 2;

struct Comparison {
  Certainty certainty = Certainty::unknown;
  double gap_share = 0;                 ///< by how much the slower one is behind
  std::optional<double> noise_units{};  ///< the gap in standard deviations of the difference
  std::int64_t runs_needed = 0;         ///< of each, for a clear difference; 0: not known
  double hidden_share = 0;  ///< the gap is below what their logs round away; 0: it is not
};

/// `common` stands in where a layout ran once.
[[nodiscard]] Comparison compared(const Ranked& faster, const Ranked& slower,
                                  std::optional<double> common);

/// `the 0.8 % that their logs round away`
[[nodiscard]] std::string rounding_text(double share);

/// `can't tell apart: 0.4 % is within the 0.8 % that their logs round away`,
/// `faster by 3.4 % (5.1 x noise)`, `can't tell apart: 0.4 % is 0.3 x noise; about 60 runs of
/// each would`, `1.2 % ahead; noise unknown: each ran once`, `tied: to the last digit the
/// same`.
[[nodiscard]] std::string comparison_text(const Comparison& verdict);

/// Adds to a table of `best` the column `certainty`: its sentence about winner and runner-up.
void add_certainty(Table& best);

}  // namespace shardsweep
