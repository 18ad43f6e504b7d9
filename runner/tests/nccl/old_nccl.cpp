// SPDX-License-Identifier: Apache-2.0
// A library that says it is NCCL 2.17.1, for the refusal of versions that are too old.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version);

int ncclGetVersion(int* version) {
  *version = 21701;
  return 0;
}
