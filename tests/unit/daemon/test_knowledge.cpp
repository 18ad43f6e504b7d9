// SPDX-License-Identifier: Apache-2.0
// Files of knowledge: imported once, whenever the daemon dies, and refused if they are none.
#include "plan/knowledge_file.hpp"
#include "unit/daemon/played_site.hpp"
#include "unit/store/support.hpp"

#include <shardsweep/allocation_files.hpp>

#include <string>

namespace shardsweep::testing {
namespace {

/// Without a run: what is in a file is the reader's affair (unit_plan).
std::string empty_file() {
  return knowledge_text({});
}

Answer learn(PlayedSite& site, const std::string& text) {
  Request request;
  request.verb = Verb::learn;
  request.inbox = (site.home.inbox() / "knowledge.jsonl").string();
  must(make_home(site.home));
  must(write_own_file(request.inbox, text));
  return site.ask(request);
}

TEST_CASE("a daemon that dies at any call imports and forgets a file once") {
  bool died = true;
  for (int n = 1; died && n < 400; ++n) {
    PlayedSite site;
    site.submit({});
    const auto deaths = site.deaths();
    site.fate.kill_at(n);
    const Answer answer = learn(site, empty_file());
    CAPTURE(n);
    REQUIRE_FALSE(answer.fault);
    CHECK(answer.counts.at("fresh") == 1);
    CHECK(site.sql("SELECT count(*) FROM knowledge WHERE forgotten_at = 0") == "1");
    CHECK(learn(site, empty_file()).counts.at("fresh") == 0);
    CHECK(site.sql("SELECT count(*) FROM knowledge") == "1");
    CHECK_FALSE(site.ask(Verb::forget, {knowledge_name(empty_file())}).fault);
    site.fate.live();
    died = site.deaths() > deaths;
    CHECK(site.sql("SELECT count(*) FROM knowledge") == "0");
  }
  CHECK_FALSE(died);
}

TEST_CASE("what is no knowledge is refused, and nothing is kept of it") {
  PlayedSite site;
  site.submit({});
  const Answer answer = learn(site, empty_file() + "more");
  REQUIRE(answer.fault);
  CHECK(answer.fault->what.find("jsonl:2: the last line is incomplete") != std::string::npos);
  CHECK(site.sql("SELECT count(*) FROM knowledge") == "0");
  CHECK(site.ask(Verb::forget, {"imported:00000000"}).fault);
}

}  // namespace
}  // namespace shardsweep::testing
