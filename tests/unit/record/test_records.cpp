// SPDX-License-Identifier: Apache-2.0
// What is read of a runner's records beside its metrics.
#include <shardsweep/record.hpp>
#include <shardsweep/records.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

using namespace shardsweep;

namespace {

OwnWork own_work(const std::string& keys) {
  const std::string line =
      R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":1)" + keys + "}\n";
  const auto summary = summarise_records(line, "n");
  REQUIRE(summary.result);
  return summary.own_work;
}

}  // namespace

namespace {

/// What is wrong with a result that has these keys beside its type and nonce.
std::string flaw_of(const std::string& keys) {
  const auto summary = summarise_records(R"({"type":"result","run_id":"n")" + keys + "}\n", "n");
  CHECK(summary.result.has_value() == summary.flaw.empty());
  CHECK(summary.owns_flaw == !summary.flaw.empty());
  return summary.flaw;
}

}  // namespace

TEST_CASE("a result record without a usable metric is told by its name") {
  CHECK(flaw_of("") == "The result record lacks tokens_per_s_per_gpu.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":"fast")") ==
      "In the result record, tokens_per_s_per_gpu is text ('fast'), not a number.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":null)") ==
      "In the result record, tokens_per_s_per_gpu is null, not a number.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":-5)") ==
      "In the result record tokens_per_s_per_gpu is -5; it has to be above 0.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":0)") ==
      "In the result record tokens_per_s_per_gpu is 0; it has to be above 0.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":NaN)") ==
      "In the result record, tokens_per_s_per_gpu is NaN, not a number.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":-Infinity)") ==
      "In the result record, tokens_per_s_per_gpu is -Infinity, not a number.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":1,"peak_memory_bytes":[1])") ==
      "In the result record, peak_memory_bytes is a list, not a number.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":1,"train_step_ms":-1)") ==
      "In the result record train_step_ms is -1; it may not be negative.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":1,"n_params":1e300)") ==
      "In the result record n_params is 1e+300, which is too large.");
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":1,"mine":"NaN","other":NaN)") ==
      "The result record has NaN or Infinity, which are not valid JSON.");
}

TEST_CASE("a text that ends in a backslash hides no number behind it") {
  CHECK(flaw_of(R"(,"place":"C:\\","tokens_per_s_per_gpu":NaN)") ==
      "In the result record, tokens_per_s_per_gpu is NaN, not a number.");
  CHECK(flaw_of(R"(,"said":"\"NaN\"","tokens_per_s_per_gpu":Infinity)") ==
      "In the result record, tokens_per_s_per_gpu is Infinity, not a number.");
}

TEST_CASE("a train step without a loss has none") {
  const auto summary =
      summarise_records(R"({"type":"train_step","run_id":"n","step":1,"step_ms":5})"
                        "\n"
                        R"({"type":"train_step","run_id":"n","step":2,"step_ms":5,"loss":0})"
                        "\n"
                        R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":1})"
                        "\n",
          "n");
  REQUIRE(summary.result);
  REQUIRE(summary.result->samples.size() == 2);
  CHECK(std::isnan(summary.result->samples[0].loss));
  CHECK(summary.result->samples[1].loss == 0);
}

TEST_CASE("a train step that no step on record was is a doubt") {
  const auto doubt = [](const char* result_ms) {
    std::string text;
    for (int step = 1; step <= 4; ++step)
      text += fmt::format(R"({{"type":"train_step","run_id":"n","step":{},"step_ms":{}}})"
                          "\n",
          step, step == 1 ? 5000 : 1000);
    text += fmt::format(
        R"({{"type":"result","run_id":"n","tokens_per_s_per_gpu":1,"train_step_ms":{}}})"
        "\n",
        result_ms);
    return summarise_records(text, "n").doubt;
  };
  CHECK(doubt("1000").empty());
  CHECK(doubt("1100").empty());
  CHECK(doubt("0.001") ==
      "train_step_ms is 0.001, but the train steps on record took 1000 to 5000 ms");
  CHECK_FALSE(doubt("9000").empty());
}

TEST_CASE("a start record tells which runner it is") {
  const auto summary =
      summarise_records(R"({"type":"start","run_id":"n","runner":"mine","version":"1.2"})"
                        "\n",
          "n");
  CHECK(summary.runner == "mine");
  CHECK(summary.runner_version == "1.2");
}

TEST_CASE("the profile of the start record is kept with the result") {
  const auto summary = summarise_records(
      R"({"type":"start","run_id":"n","runner":"shardbench","version":"1","profile":"own"})"
      "\n"
      R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":1})"
      "\n",
      "n");
  REQUIRE(summary.result.has_value());
  CHECK(summary.result->software == R"({"profile":"own"})");
}

TEST_CASE("clock, power and what held them back are kept with the result") {
  const auto summary = summarise_records(
      R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":1,"sm_clock_mhz":1755,)"
      R"("power_w":612.5,"throttled":"power cap"})"
      "\n",
      "n");
  REQUIRE(summary.result.has_value());
  CHECK(summary.result->metrics.at("sm_clock_mhz") == 1755);
  CHECK(summary.result->metrics.at("power_w") == 612.5);
  CHECK(summary.result->throttled == "power cap");
}

TEST_CASE("what may be missing is no flaw") {
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":1)").empty());
  CHECK(flaw_of(R"(,"tokens_per_s_per_gpu":0.5,"mfu":null,"loss":-0.25)").empty());
}

TEST_CASE("a result that is not this attempt's, or no JSON, is told") {
  const std::string good = R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":1})";
  const auto flaw = [](const std::string& text) {
    const auto summary = summarise_records(text, "n");
    CHECK_FALSE(summary.owns_flaw);
    return summary.flaw;
  };
  CHECK(flaw(R"({"type":"result","run_id":"other","tokens_per_s_per_gpu":1})"
             "\n") == "The result record has the run_id 'other'; this attempt's --run-id is 'n'.");
  CHECK(flaw(R"({"type":"result","tokens_per_s_per_gpu":1})"
             "\n") == "The result record lacks run_id, the value of --run-id.");
  CHECK(flaw(R"({"type":"start","run_id":"n"})"
             "\nresult: 12 tokens\x1b[0m\n") ==
      "There is no result record; line 2 of the records is not a record in JSON: 'result: 12 "
      "tokens\\x1b[0m'.");
  CHECK(flaw(good).empty());  // torn: its newline is missing
  const auto later = summarise_records("no JSON\n" + good + "\n", "n");
  CHECK(later.result.has_value());
}

TEST_CASE("what each rank needed for its own work is read where it is told") {
  const auto told = own_work(R"(,"busy_ms_by_rank":[1.5,2,0.25e1],"stage_by_rank":[0,0,1])");
  CHECK(told.busy_ms == std::vector<double>{1.5, 2, 2.5});
  CHECK(told.stages == std::vector<std::int32_t>{0, 0, 1});
  CHECK(own_work("").busy_ms.empty());
}

TEST_CASE("times that are none are as good as not told") {
  for (const char* times : {"3", "[1,\"2\"]", "[1,null]", "[-1]", "[1e300]", "{\"0\":1}"}) {
    CAPTURE(times);
    CHECK(own_work(std::string(",\"busy_ms_by_rank\":") + times).busy_ms.empty());
  }
}

TEST_CASE("a foreign run_id is quoted without what a terminal obeys") {
  const auto summary = summarise_records("{\"type\":\"result\",\"run_id\":\"\\u001b[2J\"}\n", "n");
  CHECK(summary.flaw ==
      "The result record has the run_id '\\x1b[2J'; this attempt's --run-id is 'n'.");
}

TEST_CASE("what the first rank found stands beside the result, with its settings by name") {
  const std::string environment =
      R"({"type":"environment","run_id":"n","env.RANK":"0","env.NCCL_ALGO":"Ring",)"
      R"("env.NCCL_DEBUG":"INFO","env.PYTORCH_CUDA_ALLOC_CONF":"expandable_segments:True",)"
      R"("image_digest":"unknown"})"
      "\n";
  const std::string other = R"({"type":"environment","run_id":"other","env.RANK":"9"})"
                            "\n";
  const std::string result =
      R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":10,"peak_memory_bytes":5,)"
      R"("peak_allocated_bytes":5,"peak_reserved_bytes":7,"steps":2,"warmup":1})"
      "\n";
  const auto summary = summarise_records(other + result + environment, "n");
  CHECK(summary.image_digest == "unknown");
  CHECK(summary.environment.find(R"("RANK":"0")") != std::string::npos);
  REQUIRE(summary.result);
  CHECK(summary.result->settings ==
      "NCCL_ALGO=Ring PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  CHECK(summary.result->metrics.at("peak_reserved_bytes") == 7);
  // Of a failed attempt too.
  CHECK(summarise_records(environment, "n").environment == summary.environment);
}

TEST_CASE("what a node agent refuses is no result, wherever it stands") {
  const std::string result = R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":10})"
                             "\n";
  const std::string refusal =
      R"({"type":"refusal","run_id":"n","class":"usage","message":"RANK is '1'"})"
      "\n";
  for (const std::string& text : {result + refusal, refusal + result}) {
    const auto summary = summarise_records(text, "n");
    CHECK_FALSE(summary.result);
    CHECK(summary.refusal == Outcome::rejected);
    CHECK(summary.refusal_message == "RANK is '1'");
    CHECK_FALSE(has_result(text, "n"));
  }
  const std::string other = R"({"type":"refusal","run_id":"other","class":"usage"})"
                            "\n";
  CHECK(summarise_records(other + result, "n").result);
  CHECK(has_result(other + result, "n"));
}

TEST_CASE("a peak of one train step is not believed") {
  const auto peaks = [](const char* steps) {
    const auto summary =
        summarise_records(std::string(R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":10,)"
                                      R"("peak_memory_bytes":5,"peak_reserved_bytes":7)") +
                steps + "}\n",
            "n");
    return summary.result ? summary.result->metrics.count("peak_memory_bytes") : 9;
  };
  CHECK(peaks(R"(,"steps":1,"warmup":0)") == 0);
  CHECK(peaks(R"(,"steps":1,"warmup":1)") == 1);
  CHECK(peaks("") == 1);  // of a runner that does not tell
}

TEST_CASE("a result of programs that nobody has looked at again is none") {
  const std::string programs = R"({"type":"programs","run_id":"n","code_hash":"c1"})"
                               "\n";
  const std::string result = R"({"type":"result","run_id":"n","tokens_per_s_per_gpu":1})"
                             "\n";
  const std::string code = R"({"type":"code","run_id":"n","code_hash":"c1"})"
                           "\n";
  const auto unknown = summarise_records(result + programs, "n");
  CHECK(unknown.code_unknown);
  CHECK_FALSE(unknown.result.has_value());
  const auto known = summarise_records(result + programs + code, "n");
  CHECK_FALSE(known.code_unknown);
  CHECK(known.result.has_value());
  CHECK(known.code_hash == "c1");
  // Of a snapshot, which never changes.
  CHECK(summarise_records(result + code, "n").code_hash == "c1");
  // Programs that are not the user's own.
  CHECK_FALSE(summarise_records(result, "n").code_unknown);
}

namespace {

RecordsSummary summary_of(const std::vector<std::string>& bodies) {
  std::string text;
  for (const std::string& body : bodies)
    text += R"({"run_id":"n",)" + body + "}\n";
  return summarise_records(text, "n");
}

std::string result_of(const std::string& speed, const std::string& more = "") {
  return R"("type":"result","tokens_per_s_per_gpu":)" + speed + more;
}

}  // namespace

TEST_CASE("of two results that contradict each other the first one counts and is marked") {
  const auto summary = summary_of({result_of("5"), result_of("7")});
  REQUIRE(summary.result);
  CHECK(summary.result->metrics.at("tokens_per_s_per_gpu") == 5);
  CHECK(summary.result->mark == Mark::implausible);
  CHECK(summary.doubt ==
      "two result records contradict each other: tokens_per_s_per_gpu is 5 in the first one "
      "and 7 "
      "in another");
  SUBCASE("unless they say the same") {
    for (const char* speed : {"5", "5.04"}) {
      const auto same = summary_of({result_of("5"), result_of(speed)});
      CHECK(same.doubt.empty());
      CHECK(same.result->mark == Mark::none);
    }
  }
  SUBCASE("or one was written for a run that was cut short") {
    const std::string cut = R"(,"gave_up_above_ms":100)";
    CHECK(summary_of({result_of("5"), result_of("7", cut)}).doubt.empty());
    CHECK(summary_of({result_of("5", cut), result_of("7")}).doubt.empty());
  }
}

TEST_CASE("a result between start records of two versions is marked") {
  const auto start = [](const std::string& version) {
    return R"("type":"start","version":")" + version + '"';
  };
  const auto summary = summary_of({start("1"), result_of("5"), start("2")});
  REQUIRE(summary.result);
  CHECK(summary.result->mark == Mark::implausible);
  CHECK(summary.doubt == "its start records name two versions: '1' and '2'");
  for (const char* version : {"1", "unknown", ""})
    CHECK(summary_of({start("1"), start(version), result_of("5")}).doubt.empty());
  CHECK(summary_of({start("unknown"), start("2"), result_of("5")}).doubt.empty());
}
