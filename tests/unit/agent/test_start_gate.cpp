// SPDX-License-Identifier: Apache-2.0
#include "attempt/assignments.hpp"
#include "attempt/classify.hpp"
#include "tools/lib/small_disk.hpp"

#include <shardsweep/storage.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

using namespace shardsweep;

namespace {

void quiet(const std::string&) {}
std::string works(bool) {
  return "";
}

Ending not_started() {
  return evidence_of_no_start(0, ENOENT, "cannot start /x: No such file", 1).ending;
}

}  // namespace

TEST_CASE("programs that do not start are tried more and more rarely, then given up") {
  StartGate gate;
  CHECK(gate.is_open(10, works, quiet));
  gate.note_end(not_started(), 10);
  CHECK_FALSE(gate.is_open(14, works, quiet));
  CHECK(gate.is_open(15, works, quiet));
  gate.note_end(not_started(), 15);
  CHECK_FALSE(gate.is_open(24, works, quiet));
  CHECK(gate.is_open(25, works, quiet));
  CHECK(gate.start_fault().empty());
  gate.note_end(not_started(), 25);
  CHECK(gate.start_fault() ==
      "no program could be started: rank 0 did not start: cannot start /x: No such file");
}

TEST_CASE("one that starts makes the others forgotten") {
  StartGate gate;
  gate.note_end(not_started(), 10);
  gate.note_end(not_started(), 20);
  gate.note_end(Ending{Outcome::completed}, 40);
  gate.note_end(not_started(), 50);
  CHECK(gate.start_fault().empty());
  CHECK(gate.is_open(55, works, quiet));
}

TEST_CASE("nothing is started where nothing can be stored, and it goes on by itself") {
  const test::SmallDisk disk("256k");
  if (!disk.mounted()) {
    MESSAGE("skipped: mounting needs root");
    return;
  }
  StartGate gate;
  const auto look = [&](bool doubted) {
    const auto fault = doubted ? try_storage(disk.path()) : look_at_storage(disk.path());
    return fault ? describe(*fault, disk.path()) : "";
  };
  CHECK(gate.is_open(1, look, quiet));
  disk.fill();
  CHECK_FALSE(gate.is_open(2, look, quiet));
  CHECK(gate.storage_fault().find("is full (No space left on device)") != std::string::npos);
  disk.empty();
  CHECK_FALSE(gate.is_open(2.5, look, quiet));  // once a second
  CHECK(gate.is_open(4, look, quiet));
  CHECK(gate.storage_fault().empty());
}
