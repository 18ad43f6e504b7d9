// SPDX-License-Identifier: Apache-2.0
// A trainer's words stand in the sweep that `new` writes and in the table by which layouts are
// written and read: they have to be the same.
#include "trainer/configuration.hpp"
#include "trainer/trainer_file.hpp"
#include "trainer/trainers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

namespace shardsweep {
namespace {

/// Their placeholders stand beside the trainer's word, whatever the value is.
constexpr std::array<std::string_view, 8> plain{
    "dp", "tp", "pp", "cp", "seq_len", "micro_batch", "grad_accum", "zero"};

TEST_CASE("a new sweep has its trainer's own words for what it tells") {
  const auto trainers = configurable_trainers();
  for (const TrainerStart& start : trainer_starts()) {
    CAPTURE(start.name);
    const auto at = std::find(trainers.begin(), trainers.end(), start.name);
    REQUIRE(at != trainers.end());
    CHECK(find_trainer(start.name) != nullptr);
    // Since August 2026 it counts tokens, by options of other names; the table is of before.
    if (start.name == "torchtitan") continue;
    // Words of the start are written out of the table.
    if (start.rest.find("@LAYOUT@") != std::string::npos) continue;
    const auto models = models_of(start);
    const std::string rest = *rest_of(start, models.empty() ? "tiny" : models.front());
    // Its own program has flags for what DeepSpeed's configuration calls otherwise.
    const bool by_flags = start.name == "deepspeed";
    int told = 0;
    for (const AxisNames& axis : axis_names()) {
      if (std::find(plain.begin(), plain.end(), axis.axis) == plain.end()) continue;
      const std::string_view word = axis.names.at(static_cast<std::size_t>(at - trainers.begin()));
      const std::string placeholder = "{" + std::string(axis.axis) + "}";
      if (word.empty() || rest.find(placeholder) == std::string::npos) continue;
      CAPTURE(axis.axis);
      if (by_flags && axis.axis == "tp") continue;
      ++told;
      CHECK(rest.find(word) != std::string::npos);
    }
    CHECK(told >= 2);
  }
}

TEST_CASE("a new sweep says for which versions it is, and where its samples come from") {
  // The program is a user's own, or no start was tried.
  const std::set<std::string_view> without{"hf-trainer", "maxtext"};
  for (const std::string_view trainer : configurable_trainers()) {
    CAPTURE(trainer);
    CHECK(trainer_file(trainer).start.rest.empty() == without.contains(trainer));
  }
  for (const TrainerStart& start : trainer_starts()) {
    CAPTURE(start.name);
    CHECK_FALSE(start.written_for.empty());
    CHECK_FALSE(start.data.empty());
    // It names a folder of the user's if and only if it asks for one.
    CHECK((start.rest.find("DATA") != std::string_view::npos) ==
        (start.data.find("DATA") != std::string_view::npos));
    CHECK(start.has_recipes() == !models_of(start).empty());
    for (const std::string_view model : models_of(start)) {
      const auto rest = rest_of(start, model);
      REQUIRE(rest);
      CHECK(rest->find('@') == std::string::npos);
    }
    if (start.has_recipes()) CHECK_FALSE(rest_of(start, "tiny"));
  }
  CHECK_FALSE(find_trainer_start("nobody"));
}

}  // namespace
}  // namespace shardsweep
