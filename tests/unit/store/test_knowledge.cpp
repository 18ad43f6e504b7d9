// SPDX-License-Identifier: Apache-2.0
// Files of knowledge: a sweep learns from those that were there when it was submitted.
#include "unit/store/support.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

std::string names_at(Daemon& daemon, Timestamp submitted) {
  std::string names;
  for (const auto& one : must(daemon.store->knowledge(submitted)))
    names += one.name + "=" + one.text + " ";
  return names;
}

std::string kept(const TempDir& dir) {
  return rows_of(dir / "a.db", "SELECT count(*) FROM knowledge");
}

}  // namespace

TEST_CASE("a sweep learns from the files that were there when it was submitted") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  const Timestamp start = daemon.now;
  daemon.commit({AddKnowledge{"imported:1", start + 10, "one"}});
  daemon.commit({AddKnowledge{"imported:2", start + 20, "two"}});
  CHECK(names_at(daemon, start + 9).empty());
  CHECK(names_at(daemon, start + 10) == "imported:1=one ");
  CHECK(names_at(daemon, start + 20) == "imported:1=one imported:2=two ");

  // Twice is once.
  daemon.commit({AddKnowledge{"imported:1", start + 30, "one"}});
  CHECK(names_at(daemon, start + 40) == "imported:1=one imported:2=two ");
}

TEST_CASE("what is forgotten stays for the sweeps that have begun with it, and goes with them") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.commit({AddKnowledge{"imported:1", daemon.now, "one"},
      AddKnowledge{"imported:2", daemon.now, "two"}});
  const auto report = daemon.submit(dir, {});
  const auto submitted = std::stoll(rows_of(dir / "a.db", "SELECT submitted_at FROM sweeps"));
  daemon.commit({ForgetKnowledge{"imported:1", submitted + 1}});
  CHECK(names_at(daemon, submitted) == "imported:1=one imported:2=two ");
  CHECK(names_at(daemon, submitted + 1) == "imported:2=two ");
  // Imported again, it is there for later sweeps.
  daemon.commit({AddKnowledge{"imported:1", submitted + 5, "one"}});
  CHECK(names_at(daemon, submitted) == "imported:1=one imported:2=two ");
  CHECK(names_at(daemon, submitted + 5) == "imported:2=two imported:1=one ");
  CHECK(kept(dir) == "3\n");
  // No sweep has begun with it: it goes at once.
  daemon.commit({ForgetKnowledge{"imported:1", submitted + 6}});
  CHECK(kept(dir) == "2\n");

  while (!must(
      daemon.store->delete_sweep(report.sweep, 100, [](Store::Folder, const std::string&) {}))) {
  }
  CHECK(kept(dir) == "1\n");
  CHECK(names_at(daemon, submitted + 6) == "imported:2=two ");
}
