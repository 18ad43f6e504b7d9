// SPDX-License-Identifier: Apache-2.0
// Every kernel against an fp64 reference. Usage: [--seed N] [--full] [--json FILE]
#include "checks.hpp"

int main(int argc, char** argv) {
  shardbench::Checks checks(argc, argv);
  shardbench::check_elementwise(checks);
  shardbench::check_norms(checks);
  shardbench::check_losses(checks);
  shardbench::check_training(checks);
  shardbench::check_attention(checks);
  return checks.finish();
}
