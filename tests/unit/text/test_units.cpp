// SPDX-License-Identifier: Apache-2.0
#include "text/characters.hpp"
#include "text/units.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <random>
#include <string>

using namespace shardsweep;
using namespace shardsweep::config;

namespace {

constexpr Range any{0, INT64_MAX, "x"};

std::int64_t count(std::string_view text) {
  return parse_count(text, any).value_or(-1);
}
std::int64_t bytes(std::string_view text) {
  return parse_bytes(text, any).value_or(-1);
}
double duration(std::string_view text) {
  return parse_duration(text).value_or(-1);
}

}  // namespace

TEST_CASE("a count is decimal with a unit or none") {
  CHECK(count("0") == 0);
  CHECK(count("4096") == 4096);
  CHECK(count("4Ki") == 4096);
  CHECK(count("1Mi") == 1048576);
  CHECK(count("1M") == 1000000);
  CHECK(count("64k") == 64000);
  CHECK(count("9223372036854775807") == INT64_MAX);
  for (const auto* text : {"", "-", "+", "1e3", "1.0", "010", "00", "0x10", "0o17", "1 Mi", "1mi",
           "Mi", "1MiMi", "9223372036854775808", "9007199254740993Ki", "1,000"})
    CHECK_MESSAGE(count(text) == -1, text);
}

TEST_CASE("a list without brackets is offered with them, if no value is missing") {
  CHECK(parse_count("1,2", any).error() == "'1,2' is not a list; write [1, 2]");
  for (const auto* text : {"1,", ",1", "1,,2"})
    CHECK_MESSAGE(parse_count(text, any).error().find('[') == std::string::npos, text);
}

TEST_CASE("a size has a unit and no fraction") {
  CHECK(bytes("80GiB") == 80LL << 30);
  CHECK(bytes("80GB") == 80'000'000'000);
  CHECK(bytes("1Mi") == 1 << 20);
  CHECK(bytes("0B") == 0);
  CHECK(bytes("1kB") == 1000);
  for (const auto* text : {"80", "80G", "80gb", "79.6GiB", "GiB", "-1GiB", "1KB", "8388608TiB"})
    CHECK_MESSAGE(bytes(text) == -1, text);
}

TEST_CASE("a duration is exact to the microsecond") {
  CHECK(duration("15min") == 900);
  CHECK(duration("250ms") == 0.25);
  CHECK(duration("2h") == 7200);
  CHECK(duration("1.5h") == 5400);
  CHECK(duration("0.1s") == 0.1);
  CHECK(duration("1d") == 86400);
  CHECK(duration("7us") == 7e-6);
  CHECK(duration("0s") == 0);
  for (const auto* text : {"15", "15m", "1h30min", "-1s", "1.s", ".5s", "0.05us", "1.00us1",
           "9999999999999d", "1e3s", "1 s", "9999999999999999s", ""})
    CHECK_MESSAGE(duration(text) == -1, text);
  CHECK(parse_duration("1.05us").error() ==
      "'1.05us' is not a whole number of microseconds, or too long");
}

TEST_CASE("rates and latencies carry their unit") {
  CHECK(parse_bandwidth("450GB/s").value() == 450e9);
  CHECK(parse_bandwidth("4.5e11B/s").value() == 450e9);
  CHECK(parse_latency("3us").value() == 3);
  CHECK(parse_latency("0.5ms").value() == 500);
  CHECK(parse_bandwidth("450").error() == "'450' is not a rate; write '450GB/s'");
  CHECK(parse_latency("3").error() == "'3' has an unknown unit; the units are us, ms");
  CHECK_FALSE(parse_bandwidth("-1GB/s").has_value());
  CHECK_FALSE(parse_bandwidth("1e308TB/s").has_value());
  CHECK_FALSE(parse_bandwidth("nanGB/s").has_value());
}

TEST_CASE("a real number is finite and not negative") {
  CHECK(parse_real("989.4e12").value() == 989.4e12);
  CHECK(parse_real("0.5").value() == 0.5);
  for (const auto* text : {"", "-1", "inf", "nan", ".5", "1e999", "01", "1x", "0x1p3"})
    CHECK_MESSAGE(!parse_real(text).has_value(), text);
}

TEST_CASE("what is printed of a size or a duration reads back to it") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const auto size = static_cast<std::int64_t>(random() >> (random() % 60 + 2));
    CHECK(bytes(config::bytes_text(size)) == size);
    const auto us = static_cast<double>(random() % 604'800'000'000ULL >> (random() % 40));
    CHECK(duration(config::duration_text(us / 1e6)) == us / 1e6);
  }
  CHECK(config::bytes_text(28 << 20) == "28MiB");
  CHECK(config::bytes_text(1000) == "1000B");
  CHECK(config::duration_text(5400) == "90min");
  CHECK(config::duration_text(0) == "0s");
}

TEST_CASE("text that a terminal must not see is escaped") {
  CHECK(escaped("a\tb\x1b[1m") == "a\\tb\\x1b[1m");
  CHECK(escaped("\xc2\x9b") == "\\u009b");
  CHECK(escaped("caf\xe9") == "caf\\xe9");
  CHECK(escaped("größe") == "größe");
  CHECK(escaped(std::string(100, 'a'), 3) == "aaa...");
  CHECK(character_length("\xed\xa0\x80") == 0);  // a surrogate
  CHECK(character_length("\xc0\x80") == 0);      // overlong
}

TEST_CASE("foreign text in a sentence is one line that a terminal does not obey") {
  CHECK(one_line("  a\tb\r\nc \n", 100) == "a b  c");
  CHECK(one_line("\x1b[2J\x1f", 100) == "\\x1b[2J\\x1f");
  CHECK(one_line("größe", 3) == "gr");  // not within a character, and too short for a mark
  CHECK(one_line("abcdefgh", 7) == "abc …");
  CHECK(one_line("abcdefgh", 8) == "abcdefgh");
  CHECK(one_line(std::string("a\0b", 3), 100) == "a\\x00b");
  CHECK(one_line("", 100).empty());
}
