// SPDX-License-Identifier: Apache-2.0
#include "sweep/fake_rank.hpp"

#include <array>

namespace shardsweep {
namespace {

constexpr std::array<std::string_view, 3> stage_words{"first", "middle", "last"};

}  // namespace

std::span<const std::string_view> proof_stage_words() {
  return stage_words;
}

std::int32_t first_rank_of_stage(const Layout& layout, std::int32_t stage) {
  return stage * static_cast<std::int32_t>(layout.world() / layout.pp);
}

std::int32_t stage_of_word(std::size_t word, std::int32_t stages) {
  if (word == 0) return 0;
  return word == 1 ? stages / 2 : stages - 1;
}

std::int32_t fake_rank_of(const SweepSpec& proof, const Point& point) {
  const auto word = proof.vars.empty() || point.vars.size() != proof.vars.size()
                        ? std::size_t{0}
                        : static_cast<std::size_t>(point.vars.back());
  return first_rank_of_stage(point.layout, stage_of_word(word, point.layout.pp));
}

}  // namespace shardsweep
