// SPDX-License-Identifier: Apache-2.0
// Every kernel against an fp64 reference. Usage: [--seed N] [--full] [--json FILE]
// [--only attention] [--long]
#include "checks.hpp"

int main(int argc, char** argv) {
  shardbench::Checks checks(argc, argv);
  if (checks.wants("elementwise")) shardbench::check_elementwise(checks);
  if (checks.wants("experts")) shardbench::check_experts(checks);
  if (checks.wants("fp8")) shardbench::check_fp8(checks);
  if (checks.wants("norms")) shardbench::check_norms(checks);
  if (checks.wants("losses")) shardbench::check_losses(checks);
  if (checks.wants("training")) shardbench::check_training(checks);
  if (checks.wants("attention")) shardbench::check_attention(checks);
  return checks.finish();
}
