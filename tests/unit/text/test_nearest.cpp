// SPDX-License-Identifier: Apache-2.0
#include "text/nearest.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

TEST_CASE("the nearest word is near") {
  CHECK(nearest("micro_batches", {"micro_batch", "measure"}) == "micro_batch");
  CHECK(nearest("mesure", {"micro_batch", "measure"}) == "measure");
  CHECK(nearest("pt", {"tp", "pp"}) == "tp");
  CHECK(nearest("xy", {"tp", "pp"}).empty());
  CHECK(nearest("", {"tp"}).empty());
  CHECK(nearest("temperature", {"steps"}).empty());
  // As far from both, but nothing in it is wrong for the second.
  CHECK(nearest("llama-3-405b", {"llama-3-70b", "llama-3.1-405b"}) == "llama-3.1-405b");
}

TEST_CASE("a hint is there where a word is near") {
  CHECK(did_you_mean("statsu", {"status", "show"}) == ", did you mean 'status'?");
  CHECK(did_you_mean("frobnicate", {"status", "show"}).empty());
}
