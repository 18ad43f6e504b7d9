// SPDX-License-Identifier: Apache-2.0
#include "attempt/classify.hpp"
#include "causes/failed_log.hpp"
#include "causes/fragmentation.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace shardsweep;

namespace {

/// As PyTorch 2 says it.
std::string out_of_memory(const char* tried, const char* unused) {
  return std::string("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate ") + tried +
      ". GPU 0 has a total capacity of 79.11 GiB of which 1.05 GiB is free. Including "
      "non-PyTorch memory, this process has 78.05 GiB memory in use. Of the allocated "
      "memory "
      "70.12 GiB is allocated by PyTorch, and " +
      unused +
      " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
      "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";
}

}  // namespace

TEST_CASE("memory that is held in pieces is told from memory that is used up") {
  const auto pieces = fragmentation_in(out_of_memory("2.00 GiB", "6.36 GiB"));
  REQUIRE(pieces);
  CHECK(
      *pieces == "PyTorch held 6.36 GiB that nobody used, in pieces, and 2.00 GiB were asked for");
  CHECK(fragmentation_in(out_of_memory("512.00 MiB", "512.00 MiB")));
  CHECK(fragmentation_in(out_of_memory("20.00 KiB", "1.00 MiB")));
  CHECK(!fragmentation_in(out_of_memory("2.00 GiB", "1.99 GiB")));
  CHECK(!fragmentation_in(out_of_memory("2.00 GiB", "0 bytes")));
  CHECK(!fragmentation_in("CUDA error: out of memory"));
  CHECK(!fragmentation_in("Tried to allocate much; a lot is reserved by PyTorch but unallocated"));
}

TEST_CASE("older versions tell what was reserved and what of it was allocated") {
  const auto old = [](const char* allocated, const char* reserved) {
    return fragmentation_in(
        std::string("RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 15.78 "
                    "GiB total capacity; ") +
        allocated + " already allocated; 300.00 MiB free; " + reserved +
        " reserved in total by PyTorch)");
  };
  CHECK(old("11.00 GiB", "14.50 GiB"));
  CHECK(!old("14.00 GiB", "14.50 GiB"));
}

TEST_CASE("the cause of such an attempt says so, and the finding carries it") {
  const auto finding = find_cause("step 1\n" + out_of_memory("2.00 GiB", "6.36 GiB") + "\n", {});
  REQUIRE(finding);
  CHECK(finding->outcome == Outcome::oom);
  CHECK(finding->fragmentation ==
      "PyTorch held 6.36 GiB that nobody used, in pieces, and 2.00 GiB were asked for");
  const auto plain = find_cause(out_of_memory("2.00 GiB", "1.00 GiB"), {});
  REQUIRE(plain);
  CHECK(plain->fragmentation.empty());

  std::vector<Evidence> evidence;
  evidence.push_back(*evidence_of_exit(3, 1, 5, "", ExitCodes::any));
  join_log(evidence, 3, finding, 6, true);
  const Evidence verdict = classify(evidence, false);
  CHECK(verdict.ending.outcome == Outcome::oom);
  CHECK(verdict.ending.fragmented);
  CHECK(verdict.ending.cause.starts_with("rank 3: torch-oom by fragmentation: PyTorch held"));

  Record record;
  record.type = RecordType::error;
  record.error_class = "oom";
  record.message = out_of_memory("2.00 GiB", "6.36 GiB");
  CHECK(evidence_of_error(record, 0, 7).ending.fragmented);
  record.error_class = "internal";
  CHECK(!evidence_of_error(record, 0, 7).ending.fragmented);
}

TEST_CASE("segments that grow are added to the user's own value") {
  CHECK(with_expandable_segments("") == "expandable_segments:True");
  CHECK(with_expandable_segments("max_split_size_mb:128") ==
      "max_split_size_mb:128,expandable_segments:True");
  CHECK(with_expandable_segments("expandable_segments:False,roundup_power2_divisions:4") ==
      "roundup_power2_divisions:4,expandable_segments:True");
}
