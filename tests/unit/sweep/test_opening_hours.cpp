// SPDX-License-Identifier: Apache-2.0
#include "sweep/opening_hours.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>

using namespace shardsweep;

namespace {

constexpr std::int32_t hour = 60;
constexpr std::int32_t day = 24 * hour;

OpeningHours hours(std::string_view text) {
  const auto parsed = parse_opening_hours(text);
  REQUIRE_MESSAGE(parsed, text << ": " << parsed.error());
  return *parsed;
}
std::string wrong(std::string_view text) {
  const auto parsed = parse_opening_hours(text);
  return parsed ? "nothing" : parsed.error();
}

}  // namespace

TEST_CASE("hours are written back as they are read") {
  for (const std::string text :
      {"always", "20:00-08:00", "00:00-24:00", "mon-fri 20:00-08:00, sat-sun 00:00-24:00",
          "fri-mon 18:30-06:15", "wed 12:00-13:00", "tue-mon 01:00-02:00"}) {
    const auto back = opening_hours_text(hours(text));
    CHECK(hours(back) == hours(text));
    if (text.rfind("tue-mon", 0) != 0) CHECK(back == text);  // every day
  }
  CHECK(opening_hours_text(hours(" mon  09:00-10:00 ,20:00-21:00")) ==
      "mon 09:00-10:00, 20:00-21:00");
}

TEST_CASE("what is wrong with hours is said with what would be right") {
  CHECK(wrong("20-8") ==
      "'20-8' are not hours; write 'always', '20:00-08:00' or 'mon-fri 20:00-08:00, sat-sun "
      "00:00-24:00'");
  CHECK(wrong("mo 20:00-08:00") ==
      "'mo' is not a day of the week; write mon, tue, wed, thu, fri, sat, sun");
  CHECK(wrong("08:00-08:00") ==
      "'08:00-08:00' begins when it ends; write 00:00-24:00 for a whole day");
  for (const auto* text : {"", "24:00-08:00", "20:60-21:00", "20:00-24:01", "-", "20:00", "mon",
           "mon-fri", "20:00-08:00,", "mon-xyz 20:00-08:00", "08:00-+9:00"})
    CHECK_MESSAGE(wrong(text) != "nothing", text);
}

TEST_CASE("a window over midnight ends on the next day") {
  const auto nights = hours("mon-fri 20:00-08:00");
  CHECK(open_for_min(nights, 19 * hour) == 0);
  CHECK(opens_in_min(nights, 19 * hour) == hour);
  CHECK(open_for_min(nights, 20 * hour) == 12 * hour);
  CHECK(opens_in_min(nights, 20 * hour) == 0);
  CHECK(open_for_min(nights, day + 7 * hour + 59) == 1);
  CHECK(open_for_min(nights, day + 8 * hour) == 0);
  // Friday's window ends on Saturday, and Sunday night belongs to no day that is named.
  CHECK(open_for_min(nights, 5 * day + 7 * hour) == hour);
  CHECK(open_for_min(nights, 6 * day + 21 * hour) == 0);
  CHECK(opens_in_min(nights, 6 * day + 21 * hour) == 23 * hour);
}

TEST_CASE("windows that touch are one") {
  const auto weekend = hours("mon-fri 20:00-08:00, sat-sun 00:00-24:00");
  CHECK(open_for_min(weekend, 4 * day + 20 * hour) == 4 * hour + 2 * day);
  CHECK(open_for_min(weekend, 6 * day + 23 * hour) == hour);
  CHECK(open_for_min(hours("00:00-24:00"), 5) == minutes_of_week);
  CHECK(open_for_min(hours("00:00-12:00, 12:00-24:00"), 5) == minutes_of_week);
  CHECK(open_for_min(hours("always"), 5) == minutes_of_week);
  CHECK(opens_in_min(hours("always"), 5) == 0);
}

TEST_CASE("Sunday night's window ends on Monday") {
  const auto sunday = hours("sun 22:00-06:00");
  CHECK(open_for_min(sunday, 5 * hour) == hour);
  CHECK(open_for_min(sunday, 6 * hour) == 0);
  CHECK(week_time_text(6 * hour + opens_in_min(sunday, 6 * hour)) == "Sun 22:00");
}
