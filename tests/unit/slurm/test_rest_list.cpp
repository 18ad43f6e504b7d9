// SPDX-License-Identifier: Apache-2.0
#include "slurm/rest_list.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::slurm;

namespace {

std::string filtered(std::string_view document, std::size_t piece, JobListFilter filter) {
  std::string kept;
  for (std::size_t at = 0; at < document.size(); at += piece) {
    const auto stays = filter.take(document.substr(at, piece));
    REQUIRE(stays.has_value());
    kept += *stays;
  }
  return kept;
}

}  // namespace

TEST_CASE("of a list of jobs ours stay, however its bytes arrive") {
  const std::string document = R"({"meta": {"jobs": [1, 2]}, "jobs": [
    {"name": "a", "x": [1, {"y": "],}"}]} , {"name": "s-n1_3f", "tres": ["\"", "}"]},
    {"name": "s-n1_3f0"},{"name":"s-n2_4a"}
  ], "errors": [{"jobs": ["b", "c"]}]})";
  for (const std::size_t piece : {1U, 2U, 3U, 7U, 64U, 4096U}) {
    CAPTURE(piece);
    CHECK(filtered(document, piece, JobListFilter(jobs_named({"s-n1_3f", "s-n2_4a"}))) ==
        R"({"meta": {"jobs": [1, 2]}, "jobs": [{"name": "s-n1_3f", "tres": ["\"", "}"]},)"
        R"({"name":"s-n2_4a"}], "errors": [{"jobs": ["b", "c"]}]})");
  }
}

TEST_CASE("what is no list of jobs stays as it is") {
  for (const std::string document : {"", "<html>[,]", "{\"jobs\": {\"a\": [1, 2]}}",
           "[[1, 2], [3]]", "}]}", "{\"jobs\": []}", "{\"a\": \"jobs\", \"b\": [1, 2]}"}) {
    CAPTURE(document);
    CHECK(filtered(document, 3, JobListFilter(jobs_named({"s"}))) == document);
  }
}
