// SPDX-License-Identifier: Apache-2.0
#include "text/node_list.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;
using Names = std::vector<std::string>;

TEST_CASE("Slurm's notation of nodes is written out in its order") {
  CHECK(nodes_in("n3") == Names{"n3"});
  CHECK(nodes_in("n[1-3,7],login") == Names{"n1", "n2", "n3", "n7", "login"});
  CHECK(nodes_in("gpu-[08-11]-ib") == Names{"gpu-08-ib", "gpu-09-ib", "gpu-10-ib", "gpu-11-ib"});
  CHECK(nodes_in("r[0-1]n[5,6]") == Names{"r0n5", "r0n6", "r1n5", "r1n6"});
  CHECK(nodes_in("a,b[1-2]") == Names{"a", "b1", "b2"});
  CHECK(nodes_in("n[1-4096]").size() == 4096);
}

TEST_CASE("what names no node has none") {
  for (const char* none : {"", "(null)", "None assigned", "n[", "n[1-2", "n[2-1]", "n[]", "n[a]",
           "n[1-]", ",", "a,", "n[0-99999999]", "n[0-999]m[0-999]k[0-999]"})
    CHECK_MESSAGE(nodes_in(none).empty(), none);
}
