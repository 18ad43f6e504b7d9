// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/point.hpp>
#include <shardsweep/policy.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace shardsweep;

TEST_CASE("every axis sets and gets its own field") {
  for (const auto& axis : axes()) {
    Point point;
    const auto value = axis.maximum;
    axis.set(point, value);
    CHECK(axis.get(point) == value);
    for (const auto& other : axes()) {
      if (&other == &axis) continue;
      Point untouched;
      CHECK_MESSAGE(other.get(point) == other.get(untouched), axis.name << " moved " << other.name);
    }
  }
}

TEST_CASE("no name or alias of an axis stands twice") {
  std::set<std::string> seen;
  for (const auto& axis : axes()) {
    CHECK(seen.insert(std::string(axis.name)).second);
    for (const auto alias : axis.aliases)
      CHECK(seen.insert(std::string(alias)).second);
  }
}

TEST_CASE("every policy field has its own member and a default within its bounds") {
  Policy defaults;
  std::set<const void*> members;
  for (const auto& field : policy_fields()) {
    const double value = std::visit(
        [&](auto* member) {
          CHECK(members.insert(member).second);
          return static_cast<double>(*member);
        },
        field.in(defaults));
    CHECK_MESSAGE(value >= field.minimum, field.section << '.' << field.key);
    CHECK_MESSAGE(value <= field.maximum, field.section << '.' << field.key);
  }
}
