// SPDX-License-Identifier: Apache-2.0
// slurmrestd's JSON: the shapes of v0.0.38 and of later versions; whole answers of two
// versions are in test_recorded_answers.cpp.
#include "slurm/rest_json.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ostream>
#include <variant>

using namespace shardsweep;
using namespace shardsweep::slurm;
using Json = nlohmann::json;

namespace {

const std::vector<std::string> queued_names{"s-n2_3f9a01ab"};

AllocationRequest request() {
  AllocationRequest wanted;
  wanted.job_name = queued_names[0];
  wanted.dir = "/shared/a";
  return wanted;
}

const char* const script =
    "#!/bin/bash\n#SBATCH --job-name=s-n2_3f9a01ab\n#SBATCH --nodes=2\n#SBATCH --no-requeue\n"
    "#SBATCH --exclusive\n#SBATCH --mem=0\n#SBATCH --gpus-per-node=2\n#SBATCH --time=1:30:00\n"
    "#SBATCH --partition=main\nexec true\n";

Json body_for(int version) {
  const auto body = submission_body(request(), script, {version, false}, {"PATH=/bin"}, 0);
  REQUIRE_MESSAGE(body.has_value(), body.error().what);
  return Json::parse(*body);
}

std::string refusal(const std::string& directive) {
  const auto body = submission_body(request(), "#SBATCH " + directive + "\n", {38, false}, {}, 0);
  return body ? "accepted" : body.error().what;
}

}  // namespace

TEST_CASE("a job over REST is not started where it could not end before its hours do") {
  AllocationRequest wanted = request();
  wanted.deadline_in_s = 3600;
  constexpr Timestamp now = 1'700'000'000'000'000;
  const auto deadline = [&](int version) {
    return Json::parse(submission_body(wanted, script, {version, false}, {}, now).value())["job"]
        .value("deadline", Json());
  };
  CHECK(deadline(38) == "now+3600seconds");
  CHECK(deadline(40) == 1'700'003'600);
  wanted.deadline_in_s = 0;
  CHECK(deadline(40).is_null());
}

TEST_CASE("the newest version that both sides know is chosen") {
  const auto api =
      choose_api(R"({"paths": {"/slurm/v0.0.37/jobs": {}, "/slurm/v0.0.37/job/submit": {},
      "/slurm/v0.0.38/jobs": {}, "/slurm/v0.0.38/job/submit": {}, "/slurmdb/v0.0.38/jobs": {}}})");
  REQUIRE(api);
  CHECK(api->version == 38);
  CHECK(api->accounting);
  CHECK(api->path("jobs") == "/slurm/v0.0.38/jobs");
  const auto newer =
      choose_api(R"({"paths": {"/slurm/v0.0.40/jobs/": {}, "/slurm/v0.0.40/job/submit": {},
      "/slurm/v0.0.99/jobs/": {}, "/slurm/v0.0.99/job/submit": {}}})");
  REQUIRE(newer);
  CHECK(newer->version == 40);
  CHECK_FALSE(newer->accounting);
  CHECK_FALSE(choose_api(R"({"paths": {"/slurm/v0.0.36/jobs": {}}})"));
  CHECK_FALSE(choose_api("<html>"));
}

TEST_CASE("the script's directives become a job description of each version's shape") {
  const Json old = body_for(38)["job"];
  CHECK(old["name"] == "s-n2_3f9a01ab");
  CHECK(old["nodes"] == "2-2");
  CHECK(old["time_limit"] == 90);
  CHECK(old["memory_per_node"] == 0);
  CHECK(old["gpus_per_node"] == "2");
  CHECK(old["requeue"] == false);
  CHECK(old["no_kill"] == "set");
  CHECK(old["partition"] == "main");
  CHECK(old["environment"] == Json{{"PATH", "/bin"}});
  const Json later = body_for(41)["job"];
  CHECK(later["time_limit"]["number"] == 90);
  CHECK(later["environment"] == Json::array({"PATH=/bin"}));
  CHECK(later["tres_per_node"] == "gres/gpu:2");
  CHECK(later["kill_on_node_fail"] == false);
}

TEST_CASE("leaf switches are asked for where slurmrestd knows them") {
  const auto body_of = [](const char* directive, int version) {
    return submission_body(request(), directive, {version, false}, {}, 0);
  };
  const auto body = body_of("#SBATCH --switches=1@30:00\n", 40);
  REQUIRE(body);
  const Json job = Json::parse(*body)["job"];
  CHECK(job["required_switches"]["number"] == 1);
  CHECK(job["wait_for_switch"] == 1800);
  const auto patient = body_of("#SBATCH --switches=2\n", 42);
  REQUIRE(patient);
  CHECK_FALSE(Json::parse(*patient)["job"].contains("wait_for_switch"));
  // v0.0.38 and 39 start the job wherever there are nodes.
  for (const auto& refused :
      {body_of("#SBATCH --switches=1\n", 38), body_of("#SBATCH --switches=near\n", 42)}) {
    REQUIRE_FALSE(refused);
    CHECK(refused.error().what.find("has no translation for slurmrestd: leave it out") !=
        std::string::npos);
  }
}

TEST_CASE("generic resources are asked for by the fields that each version knows") {
  const auto body_of = [](const char* directives, int version) {
    const auto body = submission_body(request(), directives, {version, false}, {}, 0);
    REQUIRE(body);
    return Json::parse(*body)["job"];
  };
  const char* const all =
      "#SBATCH --gres=gpu:h100:2,shm:1\n#SBATCH --gpus=8\n#SBATCH --gpus-per-task=1\n"
      "#SBATCH --cpus-per-gpu=12\n";
  const Json old = body_of(all, 38);
  CHECK(old["gres"] == "gpu:h100:2,shm:1");
  CHECK(old["gpus"] == "8");
  const Json later = body_of(all, 42);
  CHECK(later["tres_per_node"] == "gres/gpu:h100:2,gres/shm:1");
  CHECK(later["tres_per_job"] == "gres/gpu:8");
  CHECK(later["tres_per_task"] == "gres/gpu:1");
  CHECK(later["cpus_per_tres"] == "gres/gpu:12");
  for (const char* gone : {"gres", "gpus", "gpus_per_node", "gpus_per_task", "cpus_per_gpu"})
    CHECK_FALSE(later.contains(gone));
  const Json both = body_of("#SBATCH --gpus-per-node=4\n#SBATCH --gres=shm:1\n", 42);
  CHECK(both["tres_per_node"] == "gres/gpu:4,gres/shm:1");
}

TEST_CASE("a job that lacks an ignored field is refused, and its id is known") {
  const char* const answer =
      R"({"job_id": 31, "errors": [], "warnings": [{"description":
      "Ignoring unknown field \"gres\" of type string in DATA_PARSER->JOB_DESC_MSG"}]})";
  const auto event = read_rest_submission("t", 200, answer);
  REQUIRE(std::holds_alternative<SubmitRefused>(event));
  CHECK(submitted_job(answer) == "31");
  CHECK(submitted_job("<html>") == "");
  CHECK(std::holds_alternative<SubmitAccepted>(read_rest_submission(
      "t", 200, R"({"job_id": 31, "warnings": [{"description": "time limit rounded"}]})")));
}

TEST_CASE("what slurmrestd has not done is told, and a field that it ignores is not done") {
  CHECK(Json::parse(release_body) == Json{{"hold", false}});
  CHECK(why_refused(200, R"({"errors": []})").empty());
  CHECK(why_refused(200, R"({"errors": [], "warnings": [{"description":
      "Ignoring unknown field \"job\" of type dictionary"}]})") ==
      "Ignoring unknown field \"job\" of type dictionary");
  CHECK(why_refused(500, R"({"errors": [{"description": "Unknown key \"job\""}]})") ==
      "Unknown key \"job\"");
  CHECK(why_refused(404, "{}") == "HTTP 404");
  CHECK_FALSE(why_refused(200, "<html>").empty());
}

TEST_CASE("times as sbatch takes them") {
  for (const auto& [text, minutes] : std::vector<std::pair<std::string, int>>{
           {"90", 90}, {"30:01", 31}, {"4:00:00", 240}, {"1-12", 2160}, {"1-12:30", 2190}}) {
    const auto body =
        submission_body(request(), "#SBATCH --time=" + text + "\n", {38, false}, {}, 0);
    REQUIRE(body);
    CHECK(Json::parse(*body)["job"]["time_limit"] == minutes);
  }
  CHECK(refusal("--time=soon").find("'#SBATCH --time=soon' has no translation") == 0);
}

TEST_CASE("what slurmrestd cannot be told is refused by name, never dropped") {
  CHECK(refusal("--bb=capacity=1G").find("'#SBATCH --bb=capacity=1G' has no translation") == 0);
  CHECK(refusal("-p main").find("'#SBATCH -p main' has no translation") == 0);
  CHECK(refusal("--overcommit").find("'#SBATCH --overcommit' has no translation") == 0);
}

TEST_CASE("jobs of the queue, in the shapes of old and new versions") {
  const auto old = read_jobs(R"({"errors": [], "jobs": [
      {"job_id": 7, "name": "s-n2_3f9a01ab", "job_state": "RUNNING", "state_reason": "None", "nodes": "n[1-2]"},
      {"job_id": 8, "name": "another", "job_state": "RUNNING"}]})",
      queued_names);
  REQUIRE(old);
  REQUIRE(old->size() == 1);
  CHECK((*old)[0].id == "7");
  CHECK((*old)[0].nodes == "n[1-2]");
  const auto later =
      read_jobs(R"({"jobs": [{"job_id": {"set": true, "infinite": false, "number": 9},
      "name": "s-n2_3f9a01ab", "job_state": ["RUNNING", "COMPLETING"]}]})",
          queued_names);
  REQUIRE(later);
  CHECK((*later)[0].id == "9");
  CHECK((*later)[0].state == "COMPLETING");
  CHECK_FALSE(
      read_jobs(R"({"errors": [{"error": "Unable to contact slurm controller"}]})", queued_names));
  CHECK_FALSE(
      read_jobs(R"({"jobs": [{"name": "s-n2_3f9a01ab", "job_state": "RUNNING"}]})", queued_names));
  CHECK_FALSE(read_jobs("", queued_names));
}

TEST_CASE("accounted jobs") {
  const auto jobs = read_accounted_jobs(R"({"jobs": [{"job_id": 7, "name": "s-n2_3f9a01ab",
      "state": {"current": ["NODE_FAIL"], "reason": "NodeDown"}, "nodes": "n1"}]})",
      queued_names);
  REQUIRE(jobs);
  CHECK((*jobs)[0].state == "NODE_FAIL");
  CHECK((*jobs)[0].source == Source::accounting);
}

TEST_CASE("answers to a submission") {
  const auto answer = [](long status, const char* body) {
    return read_rest_submission("t", status, body);
  };
  CHECK(std::get<SubmitAccepted>(answer(200, R"({"job_id": 12, "errors": []})")).job_id == "12");
  CHECK(std::holds_alternative<SubmitRefused>(
      answer(400, R"({"errors": [{"description": "Invalid partition"}]})")));
  CHECK(std::holds_alternative<SubmitUnknown>(
      answer(500, R"({"errors": [{"error": "Socket timed out on send/recv operation"}]})")));
  CHECK(std::holds_alternative<SubmitUnknown>(answer(502, "<html>Bad Gateway</html>")));
  CHECK(std::holds_alternative<SubmitUnknown>(
      answer(500, R"({"errors": [{"error": "Unexpected missing socket error"}]})")));
  CHECK(std::holds_alternative<SubmitRefused>(
      answer(500, R"({"errors": [{"error": "Invalid partition name specified"}]})")));
  CHECK(std::holds_alternative<SubmitDeferred>(
      answer(401, R"({"errors": [{"error": "Authentication failure"}]})")));
  CHECK(std::holds_alternative<SubmitDeferred>(answer(429, R"({"errors": []})")));
  CHECK(std::holds_alternative<SubmitDeferred>(
      answer(500, R"({"errors": [{"error": "AssocMaxSubmitJobLimit"}]})")));
}

TEST_CASE("partitions with their sizes, in the shapes of old and new versions") {
  SiteFacts facts;
  facts.partitions["main"] = {.nodes = 3, .others_waiting = 2};
  REQUIRE(read_rest_partitions(R"({"partitions": [
      {"name": "main", "flags": ["default"], "nodes": "n[1-8]", "total_nodes": 8},
      {"name": "long", "nodes": {"configured": "n[1-4]", "total": 4}}]})",
      facts));
  CHECK(facts.partitions_known);
  CHECK(facts.default_partition == "main");
  CHECK(facts.partitions["main"] == PartitionFacts{8, 2});
  CHECK(facts.partitions["long"].nodes == 4);
  // Nothing is taken of an answer that is none.
  SiteFacts before = facts;
  CHECK_FALSE(read_rest_partitions(R"({"partitions": [{"name": "new"}, {}]})", facts));
  CHECK_FALSE(read_rest_partitions(R"({"errors": [{"error": "no"}]})", facts));
  CHECK(facts == before);
}

TEST_CASE("who waits for nodes, and is somebody else") {
  SiteFacts facts;
  facts.partitions["main"].others_waiting = 7;
  REQUIRE(read_rest_waiting(R"({"jobs": [
      {"user_id": 7, "job_state": "PENDING", "state_reason": "Resources", "partition": "main,long"},
      {"user_id": 7, "job_state": ["PENDING"], "state_reason": "Priority", "partition": "main"},
      {"user_id": 7, "job_state": "PENDING", "state_reason": "Dependency", "partition": "main"},
      {"user_id": 7, "job_state": "RUNNING", "state_reason": "Resources", "partition": "main"},
      {"user_id": 1000, "job_state": "PENDING", "state_reason": "Priority", "partition": "main"}]})",
      1000, facts));
  CHECK(facts.others_known);
  CHECK(facts.partitions["main"].others_waiting == 2);
  CHECK(facts.partitions["long"].others_waiting == 1);
  CHECK_FALSE(read_rest_waiting("[]", 1000, facts));
}

TEST_CASE("an answer of slurmrestd is quoted without what a terminal obeys") {
  CHECK(choose_api("\x1b[2J<html>").error().what ==
      "slurmrestd's answer is not a JSON object: '\\x1b[2J<html>'");
  CHECK(why_refused(500, R"({"errors": [{"error": "\u001b[2J no"}]})").find('\x1b') ==
      std::string::npos);
  CHECK(why_refused(200, R"({"warnings": [{"description":
      "Ignoring unknown field \u001b[2J\ry"}]})") == "Ignoring unknown field \\x1b[2J y");
}

TEST_CASE("A number that no integer holds is no number") {
  for (const char* const number : {"3e102", "-3e102", "18446744073709551615", "1e400"}) {
    CAPTURE(number);
    CHECK(submitted_job(fmt::format(R"({{"job_id": {}}})", number)).empty());
    CHECK(submitted_job(fmt::format(R"({{"job_id": {{"set": true, "number": {}}}}})", number))
              .empty());
  }
  CHECK(submitted_job(R"({"job_id": 31.0})") == "31");
}
