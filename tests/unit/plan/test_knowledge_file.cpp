// SPDX-License-Identifier: Apache-2.0
// What one database has learnt, as a file that another one imports.
#include "plan/knowledge_file.hpp"
#include "predict/family.hpp"
#include "text/checked_line.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr Timestamp late = 1'000'000;

SweepSpec measured_sweep() {
  SweepSpec sweep = sweep_of(llama3_8b(), {});
  sweep.name = "secret-sweep";
  sweep.cluster.name = "secret-cluster";
  sweep.cluster.note = "secret-note";
  sweep.models.front().name = "secret-model";
  sweep.models.front().note = "secret-remark";
  sweep.models.push_back(small_model());
  sweep.runner.name = "megatron-secret";
  return sweep;
}

SearchRow row(std::int32_t tp, std::int32_t nodes, double speed, Timestamp ended_at) {
  SearchRow row;
  row.point.nodes = nodes;
  row.point.gpus = 8 * std::max(nodes, 1);
  row.point.seq_len = 4096;
  row.point.layout.tp = tp;
  row.point.layout.dp = row.point.gpus / tp;
  row.point.layout.grad_accum = 4;
  row.point.layout.zero = 1;
  row.point.layout.recompute = Recompute::selective;
  row.outcome = speed > 0 ? Outcome::completed : Outcome::oom;
  row.tokens_per_s_per_gpu = speed;
  row.peak_memory_bytes = speed > 0 ? 40'000'000'000 + tp : 0;
  row.ended_at = ended_at;
  row.runner_version = "0.8.1";
  return row;
}

std::vector<SearchRow> rows() {
  std::vector<SearchRow> all{
      row(1, 1, 0, 10), row(2, 1, 9000.125, 20), row(8, 2, 1.0 / 3, 15), row(4, 2, 9000.125, 30)};
  all[2].point.model = 1;
  all[2].point.repeat = 2;
  all[3].runner_version = "0.9rc1";
  return all;
}

std::string exported(const SweepSpec& sweep, const std::vector<SearchRow>& rows) {
  KnowledgeWriter writer;
  writer.add(sweep, earlier_runs(sweep, rows, late));
  return knowledge_text(writer.file());
}

std::vector<EarlierRun> own(const SweepSpec& sweep) {
  EarlierRuns all;
  all.add(earlier_runs(sweep, rows(), late));
  return all.latest();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return text.replace(at, from.size(), to);
}

/// The file with another text in one line (from 1), which has the check that belongs to it.
std::string with(
    const std::string& text, std::size_t number, const std::string& from, const std::string& to) {
  std::string result;
  const auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto object = take_apart(lines[i])->object;
    result += checked_line(i + 1 == number ? replaced(object, from, to) : object);
  }
  return result;
}

std::string refusal(const std::string& text) {
  const auto read = read_knowledge(text, "k.jsonl");
  REQUIRE_FALSE(read);
  return read.error().what;
}

}  // namespace

TEST_CASE("a search hears of no run in another dtype, and how many those are") {
  const auto sweep = measured_sweep();
  EarlierRuns none({Dtype::fp64});
  none.add(earlier_runs(sweep, rows(), late));
  CHECK(none.latest().empty());
  CHECK(none.of_other_dtype() == std::ssize(own(sweep)));
  EarlierRuns all({rows().front().point.dtype});
  all.add(earlier_runs(sweep, rows(), late));
  CHECK(all.latest().size() == own(sweep).size());
  CHECK(all.of_other_dtype() == 0);
}

TEST_CASE("a search that begins with a file of knowledge hears what the sweeps would have told") {
  const auto sweep = measured_sweep();
  const auto file = read_knowledge(exported(sweep, rows()), "k.jsonl");
  REQUIRE_MESSAGE(file, file.error().what);
  auto other = measured_sweep();
  other.cluster.name = "elsewhere";
  EarlierRuns imported;
  imported.add_file(earlier_runs(other, *file));
  const auto theirs = imported.latest();
  const auto ours = own(sweep);
  REQUIRE(theirs.size() == ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    auto point = theirs[i].is.point.point;
    point.model = ours[i].is.point.point.model;  // places in two lists
    CHECK(point == ours[i].is.point.point);
    CHECK(same_shape(theirs[i].is.point.model, ours[i].is.point.model));
    CHECK(theirs[i].is.news.outcome == ours[i].is.news.outcome);
    CHECK(theirs[i].is.news.tokens_per_s_per_gpu == ours[i].is.news.tokens_per_s_per_gpu);
    CHECK(theirs[i].is.news.peak_bytes == ours[i].is.news.peak_bytes);
    CHECK(theirs[i].version == ours[i].version);
  }
  CHECK(knowledge_text(*file) == exported(sweep, rows()));
}

TEST_CASE("a file of knowledge has no names") {
  auto measured = rows();
  for (const auto* version :
      {"secret-branch", "1.0@secret", "/home/secret", "2.0 secret", "1.0-secret", "1.0+a.secret"}) {
    measured[0].runner_version = version;
    CHECK(exported(measured_sweep(), measured).find("secret") == std::string::npos);
  }
  auto unknown = measured_sweep();
  CHECK(KnowledgeWriter::may_have(unknown));
  unknown.runner.name = "secret-trainer";
  CHECK_FALSE(KnowledgeWriter::may_have(unknown));
}

TEST_CASE("a later export adds lines to that of before") {
  const auto sweep = measured_sweep();
  auto some = rows();
  some.pop_back();
  const auto before = lines_of(exported(sweep, some));
  const auto after = lines_of(exported(sweep, rows()));
  std::vector<std::string> kept;
  for (const auto& line : after) {
    if (std::find(before.begin(), before.end(), line) != before.end()) kept.push_back(line);
  }
  CHECK(kept.size() == before.size() - 1);  // the head has the counts
}

TEST_CASE("what a sweep and a file both have is one run, and what a file has twice are two") {
  const auto sweep = measured_sweep();
  auto twice = rows();
  twice.push_back(twice.back());
  const auto file = read_knowledge(exported(sweep, twice), "k.jsonl");
  REQUIRE(file);
  EarlierRuns all;
  all.add(earlier_runs(sweep, rows(), late));
  all.add_file(earlier_runs(sweep, *file));
  CHECK(all.latest().size() == 5);
  all.add_file(earlier_runs(sweep, *file));
  CHECK(all.latest().size() == 5);
}

TEST_CASE("what was measured later, cut short or ended otherwise is not learnt from") {
  auto measured = rows();
  measured[0].outcome = Outcome::crashed;
  measured[1].cut_short = true;
  measured[2].ended_at = late + 1;
  CHECK(earlier_runs(measured_sweep(), measured, late).size() == 1);
}

TEST_CASE("knowledge of other hardware, links of another class or another trainer says nothing") {
  const auto file = read_knowledge(exported(measured_sweep(), rows()), "k.jsonl");
  REQUIRE(file);
  const auto learnt = [&](const std::function<void(SweepSpec&)>& change) {
    auto sweep = measured_sweep();
    change(sweep);
    return earlier_runs(sweep, *file).size();
  };
  CHECK(learnt([](SweepSpec&) {}) == 4);
  CHECK(learnt([](SweepSpec& sweep) { sweep.runner.name = "megatron"; }) == 4);
  // `calibrate` writes what links reach.
  CHECK(learnt([](SweepSpec& sweep) { sweep.cluster.inter_node_bandwidth *= 0.7; }) == 4);
  CHECK(learnt([](SweepSpec& sweep) { sweep.cluster.inter_node_bandwidth = 0; }) == 4);
  CHECK(learnt([](SweepSpec& sweep) { sweep.cluster.inter_node_bandwidth *= 0.25; }) == 0);
  CHECK(learnt([](SweepSpec& sweep) { sweep.cluster.memory_bytes *= 2; }) == 0);
  CHECK(learnt([](SweepSpec& sweep) { sweep.cluster.gpu = "NVIDIA A100"; }) == 0);
  CHECK(learnt([](SweepSpec& sweep) { sweep.runner.name = "nanotron"; }) == 0);
  CHECK(learnt([](SweepSpec& sweep) { sweep.proof_of = "another"; }) == 0);
}

TEST_CASE("a file that was edited, torn or made by hand is refused by its line") {
  const auto text = exported(measured_sweep(), rows());
  CHECK(refusal("") == "k.jsonl:1: the file is empty");
  CHECK(refusal(text.substr(0, text.size() - 1)) == "k.jsonl:9: the last line is incomplete");
  CHECK(refusal(text.substr(0, text.rfind('{'))).find("lines are missing or were added") !=
      std::string::npos);
  auto edited = text;
  edited.replace(edited.rfind("9000.125"), 1, "8");
  CHECK(refusal(edited).starts_with("k.jsonl:9: the line was edited"));
  CHECK(refusal("[1, 2]\n")
            .starts_with("k.jsonl:1: the line is incomplete or not of a knowledge file"));
  CHECK(refusal(checked_line(R"({"shardsweep_sweep":1})"))
            .starts_with("k.jsonl:1: the file is not a knowledge file"));
  std::string deep(100'000, '[');
  CHECK(refusal(checked_line("{\"a\":" + deep + "}")).starts_with("k.jsonl:1: "));
  CHECK(refusal(std::string(most_bytes_of_knowledge + 1, ' ')) == "k.jsonl:1: more than 8 MiB");
  const auto newer = read_knowledge(
      with(text, 1, "\"shardsweep_knowledge\":1", "\"shardsweep_knowledge\":2"), "k.jsonl");
  REQUIRE_FALSE(newer);
  CHECK(newer.error().kind == FaultKind::rejected);
}

TEST_CASE("a value that no export writes is refused by its line") {
  const auto text = exported(measured_sweep(), rows());
  struct Case {
    std::size_t line;
    const char* from;
    const char* to;
    const char* why;
  };
  // 1 head, 2 and 3 sources, 4 and 5 models, 6 to 9 runs.
  const std::vector<Case> cases{
      {1, "\"runs\":4", "\"runs\":-1", "'runs' takes 0 to 20000, not -1"},
      {1, "\"runs\":4", "\"runs\":4,\"sweep\":\"mine\"", "unknown key 'sweep'"},
      {2, "\"source\":0", "\"source\":7", "'source' is 7, but the next number is 0"},
      {2, "NVIDIA", "N\\u001b[31m", "'gpu' is no name of a GPU"},
      {2, "\"megatron\"", "\"mine\"", "unknown family 'mine'"},
      {2, "0.8.1", "my-branch", "'version' is no version: 'my-branch'"},
      {2, "\"family\":\"megatron\"", "\"family\":\"megatron\",\"profile\":\"own\"",
          "'profile' is no profile of megatron"},
      {2, "\"gpus_per_node\":8", "\"gpus_per_node\":0", "gpus_per_node takes 1 to 1024, not 0"},
      {4, "\"layers\":32", "\"name\":\"mine\",\"layers\":32", "only its shape; remove 'name'"},
      {4, "\"heads\":32", "\"heads\":7", ""},
      {6, "\"model\":0", "\"model\":2", "a measured run has model 2 of 2 models"},
      {6, "\"source\":0", "\"source\":2", "a run has source 2 of 2"},
      {6, "\"nodes\":1", "\"nodes\":2", "2 nodes with 8 GPUs each do not make 8 GPUs"},
      {6, "dp8", "dp9", "has the layout 'dp9"},
      {6, "dp8 tp1", "tp1 dp8", "'layout' must be written 'dp8 tp1"},
      {6, "\"oom\"", "\"crashed\"", "outcome takes completed or oom, not 'crashed'"},
      {6, "\"oom\"", "\"completed\"", "'tokens_per_s_per_gpu' must be above 0 in a run"},
      {7, "\"bf16\"", "\"int3\"", ""},
      {7, "\"gpus\":16", "\"gpus\":1e30", ""},
  };
  for (const auto& one : cases) {
    const auto why = refusal(with(text, one.line, one.from, one.to));
    CHECK_MESSAGE(why.starts_with(fmt::format("k.jsonl:{}: ", one.line)), why);
    CHECK_MESSAGE(why.find(one.why) != std::string::npos, why);
  }
}
