// SPDX-License-Identifier: Apache-2.0
#include "show/log_text.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

TEST_CASE("a log on a terminal has no codes, into a pipe it is as it was") {
  LogText shown("", true);
  CHECK(shown.take("a\tb\x1b[2J\r\nprogress 1\rprogress 2\r") ==
      "a\tb\\x1b[2J\nprogress 1\nprogress 2\n");
  CHECK(shown.take("\nnext") == "");
  CHECK(shown.take(" part\n\nlast") == "next part\n\n");
  CHECK(shown.rest() == "last\n");
  CHECK(shown.rest() == "");
  LogText raw("", false);
  CHECK(raw.take("\x1b[2J\r\nx") == "\x1b[2J\r\nx");
  CHECK(raw.rest() == "");
}

TEST_CASE("a prefix stands before each line, also of a line in pieces") {
  LogText all("[rank 3] ", false);
  CHECK(all.take("one\ntw") == "[rank 3] one\n");
  CHECK(all.take("o\r\n") == "[rank 3] two\r\n");
  CHECK(all.take("three") == "");
  CHECK(all.rest() == "[rank 3] three\n");
  // A line without an end does not fill the memory.
  const std::string endless(1 << 20, 'x');
  LogText bounded("", true);
  CHECK(bounded.take(endless).size() + bounded.rest().size() >= endless.size());
}
