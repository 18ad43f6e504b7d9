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

TEST_CASE("a key that is made of known ones names these") {
  CHECK(unknown_key("gpu_memory", "'cluster'", {"memory", "gpu", "name"})
            .ends_with("'gpu' or 'memory'?"));
  CHECK(unknown_key("n_layers", "a model", {"ffn_layers", "layers"}).ends_with("'layers'?"));
  const std::vector<std::string_view> many{"aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff", "gggg",
      "hhhh", "iiii", "jjjj", "kkkk", "llll", "mmmm", "nnnn", "oooo", "pppp", "qqqq"};
  CHECK(unknown_key("zz", "'cluster'", many).find("help cluster") != std::string::npos);
  CHECK(unknown_key("zz", "the sweep file", many).find("help keys") != std::string::npos);
}
