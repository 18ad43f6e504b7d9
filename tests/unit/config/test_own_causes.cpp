// SPDX-License-Identifier: Apache-2.0
// `classify` of sweep and site files: the same form as sweeps/causes.yaml.
#include "causes/causes.hpp"
#include "loading.hpp"
#include "text/entries.hpp"

#include <shardsweep/load.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

/// Entries of sweeps/causes.yaml as their text, but for its head.
std::vector<std::string> built_in_entries() {
  std::ifstream stream(std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps/causes.yaml");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::vector<std::string> entries;
  for (std::size_t at = text.find("\n- ") + 1; at < text.size();) {
    const std::size_t end = std::min(text.find("\n- ", at), text.size() - 1) + 1;
    entries.push_back(text.substr(at, end - at));
    at = end;
  }
  return entries;
}

}  // namespace

TEST_CASE("what sweeps/causes.yaml has, a user's file may have") {
  std::size_t read = 0;
  for (const std::string& entry : built_in_entries()) {
    const std::vector<Cause> built_in = read_entries<Cause>(entry);
    REQUIRE(built_in.size() == 1);
    const auto& known = cause_outcomes;
    if (std::find(known.begin(), known.end(), built_in[0].outcome) == known.end()) continue;
    const auto site = load_site_text("classify:\n" + entry, "site.yaml");
    REQUIRE_MESSAGE(site, site.error().what);
    CHECK(site->rules == built_in);
    CHECK(load_site_text(explain_site(*site), "site.yaml")->rules == built_in);
    ++read;
  }
  CHECK(read > 400);
}

TEST_CASE("the sample of a user's cause is tried with all that the cause says") {
  const std::string head = "name: x\ncluster: this-machine\nconstants: {model: tiny, gpus: 1}\n";
  const std::string cause =
      "classify:\n  - name: ours\n    pattern: TokenServerError\n    where: class\n"
      "    outcome: crashed\n    whose: user\n    remedy: log in again\n    sample: ";
  const auto sweep = load_text(head + cause + "'company.net.TokenServerError: 401'\n");
  REQUIRE_MESSAGE(sweep, sweep.error().what);
  CHECK(sweep->rules[0].whose == Whose::user);
  CHECK(sweep->rules[0].where == LinePlace::error_class);
  const auto wrong = load_text(head + cause + "'RuntimeError: TokenServerError'\n");
  REQUIRE(!wrong);
  CHECK(wrong.error().what.find(":11:13: rule 'ours' does not match its own sample") !=
      std::string::npos);
}
