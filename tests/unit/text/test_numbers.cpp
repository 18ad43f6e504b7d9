// SPDX-License-Identifier: Apache-2.0
#include "text/numbers.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <ostream>

using namespace shardsweep;

TEST_CASE("bytes have one decimal and a binary unit") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1024) == "1.0 KiB");
  CHECK(bytes_text(17.0 * 1024 * 1024) == "17.0 MiB");
  CHECK(bytes_text(1024.0 * 1024 * 1024 - 1) == "1.0 GiB");
  CHECK(bytes_text(79.64 * 1024 * 1024 * 1024) == "79.6 GiB");
}

TEST_CASE("durations have at most two units") {
  CHECK(duration_text(0) == "0 s");
  CHECK(duration_text(0.0125) == "12.5 ms");
  CHECK(duration_text(0.9999) == "1 s");
  CHECK(duration_text(9.84) == "9.84 s");
  CHECK(duration_text(53) == "53 s");
  CHECK(duration_text(59.97) == "1 min 0 s");
  CHECK(duration_text(293.4) == "4 min 53 s");
  CHECK(duration_text(3599.6) == "1 h 0 min");
  CHECK(duration_text(3 * 3600 + 7 * 60) == "3 h 7 min");
  CHECK(duration_text(53 * 3600) == "2 d 5 h");
  CHECK(duration_text(-90) == "-1 min 30 s");
  CHECK(duration_text(std::numeric_limits<double>::infinity()) == "inf s");
}

TEST_CASE("a time for machines is RFC 3339 in UTC") {
  CHECK(utc_text(1'700'000'000'250'000) == "2023-11-14T22:13:20.250000Z");
  CHECK(utc_text(-1) == "1969-12-31T23:59:59.999999Z");
  CHECK(utc_text(0).empty());
  CHECK(utc_text(std::numeric_limits<std::int64_t>::max()).empty());
}
