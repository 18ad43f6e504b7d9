// SPDX-License-Identifier: Apache-2.0
// The GPUs of a node against the cluster's, with the driver of tests/tools/fakes: no GPU was
// met here.
#include "programs/agent/allocation.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <ostream>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

struct Node : Allocation {
  Node() {
    spec.gpu = "NVIDIA H100 80GB HBM3";
    environment["LD_LIBRARY_PATH"] = SHARDSWEEP_FAKES_DIR "/new";
    environment["FAKE_NVML"] = (folder().path() / "gpus").string();
    environment["CUDA_VISIBLE_DEVICES"] = "0,1";
  }
  void gpus(const std::string& first, const std::string& second) {
    std::ofstream(folder().path() / "gpus")
        << "device|" << first << "|GPU-aa|0|1|0|0\ndevice|" << second << "|GPU-bb|0|1|0|0\n";
  }
};

}  // namespace

TEST_CASE("a lane does not start on another GPU than the cluster's") {
  Node node;
  SUBCASE("all of them") {
    node.gpus("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB");
  }
  SUBCASE("one of them") {
    node.gpus("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB");
  }
  node.assign({"result"}, 1);
  node.start();
  CHECK(node.wait_exit() == 0);
  CHECK(node.bye().find("A100-SXM4-80GB', but the sweep's cluster has 'NVIDIA H100 80GB HBM3'") !=
      std::string::npos);
  CHECK(!node.ended(1));
}

TEST_CASE("a lane starts on the cluster's GPU or where nobody can tell") {
  Node node;
  SUBCASE("the same") {
    node.gpus("nvidia h100 80gb hbm3", "nvidia h100 80gb hbm3");
  }
  SUBCASE("the one that ranks get") {
    node.gpus("NVIDIA T400", "NVIDIA H100 80GB HBM3");
    node.environment["CUDA_VISIBLE_DEVICES"] = "GPU-bb";
  }
  SUBCASE("no driver") {
    node.environment["LD_LIBRARY_PATH"] = "/nowhere";
  }
  SUBCASE("no GPU") {
    node.environment["CUDA_VISIBLE_DEVICES"] = "NoDevFiles";
  }
  node.assign({"result"}, 1);
  node.start();
  CHECK(node.wait_ended(1).ending.outcome == Outcome::completed);
}
