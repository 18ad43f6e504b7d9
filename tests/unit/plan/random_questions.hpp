// SPDX-License-Identifier: Apache-2.0
// Random questions to `suggest`, and tries to beat its answers by holding axes: some at one value,
// or all of them as a layout has them that differs from the answer.
#pragma once

#include "plan/suggest.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

namespace shardsweep::testing {

/// Steps that differ by a smaller share are equally long: `suggest` says so too.
inline constexpr double tie = 0.0005;

/// Of one question the fastest layout that a lock has found.
struct Tried {
  int locks = 0;         ///< with which a layout fits
  double gap = 0;        ///< share by which its step is shorter than the answer's; 1: no answer
  std::string locked{};  ///< that layout
};

class RandomQuestions {
 public:
  explicit RandomQuestions(std::uint64_t seed) : random_(seed) {}

  /// Dense models, models with experts and latent attention, long samples; 1 to `most_gpus` GPUs,
  /// of all families.
  SuggestRequest next(std::int32_t most_gpus);
  /// Holds `axes` random axes, one after the other, and `layouts` whole layouts.
  Tried try_to_beat(const SuggestRequest& request, int axes, int layouts);
  /// Holds each axis at each value that some layout of the question may have, one after the other.
  [[nodiscard]] static Tried try_each_lock(const SuggestRequest& request);

 private:
  std::size_t below(std::size_t end) { return random_() % end; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + below(values.size()));
  }
  [[nodiscard]] ModelSpec model();
  [[nodiscard]] ClusterSpec cluster();
  [[nodiscard]] const AxisInfo& some_axis();
  [[nodiscard]] std::int64_t some_value(const AxisInfo& axis);

  std::mt19937_64 random_;
};

[[nodiscard]] std::string question_text(const SuggestRequest& request);

}  // namespace shardsweep::testing
