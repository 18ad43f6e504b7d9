// SPDX-License-Identifier: Apache-2.0
// What two versions of Slurm answered to the same questions about the same jobs, as
// tests/clusters/slurm/record has stored it: both mean the same.
#include "slurm/rest_json.hpp"
#include "slurm/words/look.hpp"
#include "slurm/words/settings.hpp"
#include "slurm/words/submission.hpp"
#include "slurm/words/survey.hpp"

#include <shardsweep/allocation_files.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <variant>

using namespace shardsweep;
using namespace shardsweep::slurm;

namespace {

constexpr std::int64_t own_uid = 65534;

struct Recorded {
  std::string version;  ///< of Slurm
  int api;
  [[nodiscard]] std::string operator()(const std::string& file) const {
    const auto text =
        read_file(SHARDSWEEP_SOURCE_DIR "/tests/data/cases/slurm/" + version + "/" + file);
    REQUIRE_MESSAGE(text.has_value(), text.error().what);
    return *text;
  }
};

const std::vector<Recorded> both{{"22.05", 38}, {"24.11", 42}};

const std::vector<std::string> names{"s-n1_failed", "s-n1_completed", "s-n1_lost", "s-n1_running",
    "s-n1_waiting", "s-n1_held", "s-n1_cancelled"};

using Words = std::map<std::string, std::string>;

/// By the end of each job's name: its state, why it waits and its nodes.
Words words_of(const Result<std::vector<Job>>& jobs) {
  REQUIRE_MESSAGE(jobs.has_value(), jobs.error().what);
  Words words;
  for (const Job& job : *jobs) {
    if (std::find(names.begin(), names.end(), job.name) == names.end()) continue;
    const bool none = job.nodes.empty() || job.nodes == "None assigned";
    words[job.name.substr(5)] = job.state + (none ? "" : " on " + job.nodes);
    if (job.source == Source::queue && job.reason != "None")
      words[job.name.substr(5)] += ", " + job.reason;
  }
  return words;
}

const Words queue{{"failed", "FAILED on n1, NonZeroExitCode"}, {"completed", "COMPLETED on n1"},
    {"lost", "NODE_FAIL on n2, NodeDown"}, {"running", "RUNNING on n1"},
    {"waiting", "PENDING, Resources"}, {"held", "PENDING, JobHeldUser"},
    {"cancelled", "CANCELLED, JobHeldUser"}};
// Slurm keeps no account of a job that was held when it ended.
const Words accounts{{"failed", "FAILED on n1"}, {"completed", "COMPLETED on n1"},
    {"lost", "NODE_FAIL on n2"}, {"running", "RUNNING on n1"}, {"waiting", "PENDING"}};

template <class Event>
bool is_event(const SchedulerEvent& event) {
  return std::holds_alternative<Event>(event);
}

SchedulerEvent by_rest(const Recorded& recorded, const std::string& file, long status) {
  return read_rest_submission("t", status, recorded(file + ".json"));
}
SchedulerEvent by_command(const Recorded& recorded, const std::string& file) {
  return read_submission("t", 1, "", recorded(file));
}

}  // namespace

TEST_CASE("both versions list the same jobs, by commands and by REST") {
  for (const Recorded& recorded : both) {
    CAPTURE(recorded.version);
    CHECK(words_of(parse_queue(recorded("squeue"))) == queue);
    CHECK(words_of(read_jobs(recorded("jobs.json"), names)) == queue);
    CHECK(words_of(parse_accounting(recorded("sacct"))) == accounts);
    CHECK(words_of(read_accounted_jobs(recorded("accounts.json"), names)) == accounts);
    const auto accounted = parse_accounting(recorded("sacct"));
    CHECK(accounted->front().exit_code == 3);
  }
}

TEST_CASE("the version of each server is the newest that both sides know") {
  for (const Recorded& recorded : both) {
    CAPTURE(recorded.version);
    const auto api = choose_api(recorded("openapi.json"));
    REQUIRE(api);
    CHECK(api->version == recorded.api);
    CHECK(api->accounting);
  }
}

TEST_CASE("both versions tell sizes, limits and who waits; the newer REST no default partition") {
  for (const Recorded& recorded : both) {
    CAPTURE(recorded.version);
    SiteFacts commands;
    // What sinfo is asked for has been recorded of one version alone, of the same cluster.
    REQUIRE(read_partitions(both.front()("sinfo"), commands));
    REQUIRE(read_accounts(recorded("accounts"), commands));
    REQUIRE(read_qos(recorded("qos"), commands));
    CHECK(commands.default_partition == "main");
    CHECK(commands.partitions.at("spare-cancel").nodes == 3);
    CHECK(commands.accounts.at("lab").most_jobs == 99);
    CHECK(commands.most_jobs_by_qos == std::map<std::string, std::int64_t>{{"few", 9}});
    SiteFacts rest;
    REQUIRE(read_rest_partitions(recorded("partitions.json"), rest));
    REQUIRE(rest.partitions.size() == commands.partitions.size());
    for (const auto& [name, partition] : commands.partitions) {
      CHECK(rest.partitions.at(name).nodes == partition.nodes);
      std::int64_t nodes = 0;
      for (const NodesAlike& alike : partition.alike) {
        nodes += alike.nodes;
        CHECK(alike == NodesAlike{alike.nodes, 2, 32000, alike.idle});
      }
      CHECK(nodes == partition.nodes);
    }
    // n1 and n3 had jobs.
    CHECK(commands.partitions.at("main").alike.back().idle == 1);
    CHECK(commands.partitions.at("others").alike.back().idle == 0);
    CHECK(commands.partitions.at("short").longest_s == 60);
    CHECK(rest.default_partition == (recorded.api < 40 ? "main" : ""));
    REQUIRE(read_waiting(recorded("waiting"), own_uid, commands));
    REQUIRE(read_rest_waiting(recorded("jobs.json"), own_uid, rest));
    CHECK(commands.partitions.at("others").others_waiting == 1);
    CHECK(rest.partitions.at("others").others_waiting == 1);
    const auto settings = parse_settings(recorded("config"));
    REQUIRE(settings);
    CHECK(settings->version.starts_with(recorded.version));
    CHECK(settings->accounting);
    CHECK(settings->min_job_age_s == 300);
  }
}

TEST_CASE("what one version refuses the other does too, whatever it answers") {
  for (const Recorded& recorded : both) {
    CAPTURE(recorded.version);
    CHECK(is_event<SubmitAccepted>(by_rest(recorded, "accepted", 200)));
    CHECK(is_event<SubmitRefused>(by_rest(recorded, "refused-partition", 500)));
    // 22.05 starts no job with a field that it does not know, 24.11 one without the field.
    CHECK(is_event<SubmitRefused>(by_rest(recorded, "unknown-field", 500)));
    CHECK(why_refused(200, recorded("released.json")).empty());
    CHECK_FALSE(why_refused(200, recorded("not-released.json")).empty());
    for (const char* refused : {"refused-partition", "refused-gres", "refused-account"})
      CHECK_MESSAGE(is_event<SubmitRefused>(by_command(recorded, refused)), refused);
  }
  // 22.05 takes both, and the jobs never start.
  CHECK(is_event<SubmitRefused>(by_rest(both[1], "refused-dependency", 500)));
  CHECK(is_event<SubmitRefused>(by_command(both[1], "refused-dependency")));
  CHECK(is_event<SubmitRefused>(by_command(both[1], "refused-nodes")));
}
