// SPDX-License-Identifier: Apache-2.0
// Each cause has a sample. tests/data/cases/logs/CAUSE.log: whole logs, rebuilt after what their
// writers print.
// tests/data/cases/logs_published/OUTCOME.RULE.what-happened.log: logs that other tools are
// known to have read wrongly.
#include "attempt/classify.hpp"
#include "attempt/step_output.hpp"
#include "causes/failed_log.hpp"
#include "text/entries.hpp"
#include "text/pieces.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

using namespace shardsweep;
namespace fs = std::filesystem;

namespace {

const fs::path cases = std::string(SHARDSWEEP_SOURCE_DIR) + "/tests/data/cases";

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

constexpr Timestamp second = 1'000'000;

Evidence crash(int rank, Timestamp at, int code = 1) {
  return evidence_of_exit(rank, code, at, "last words").value();
}

LogFinding says(const char* rule, Outcome outcome, Strength strength = Strength::cause) {
  return {rule, outcome, strength, "text", false};
}

Evidence hung(Timestamp at) {
  return {at, Outcome::hung, "no progress in phase 'train'", SaidBy::policy};
}

/// Texts that the cause must judge: one for each line of its pattern.
std::vector<std::string> samples_of(const Cause& cause) {
  if (cause.pattern.find('\n') == std::string::npos) return {cause.sample};
  const std::string end = cause.sample.find("\n\n") == std::string::npos ? "\n" : "\n\n";
  std::vector<std::string> samples;
  for (std::string rest = cause.sample + end; !rest.empty();) {
    samples.push_back(rest.substr(0, rest.find(end)));
    rest.erase(0, samples.back().size() + end.size());
  }
  return samples;
}

}  // namespace

TEST_CASE("every cause judges its sample, and every log is judged by the cause of its name") {
  std::set<std::string> names;
  for (const Cause& cause : built_in_causes().all()) {
    CAPTURE(cause.name);
    CHECK(names.insert(cause.name).second);
    CHECK(cause.pattern.size() <= most_pattern_bytes);
    // An end by a signal is known by its number, in whatever words.
    for (const std::string_view pattern : split(cause.pattern, '\n'))
      CHECK((samples_of(cause).size() == 1 || match_in(cause.sample, pattern) ||
          cause.name.starts_with("ended-")));
    CHECK(cause.source.starts_with("https://"));
    CHECK(cause.whose != Whose::nobody);
    CHECK(!cause.sample.empty());
    CHECK(judges_its_sample(cause));
    for (const std::string& sample : samples_of(cause)) {
      CAPTURE(sample);
      const auto finding = find_cause(sample, {});
      CHECK(finding.has_value() !=
          (cause.where == LinePlace::progress || cause.weight == Strength::never));
      if (!finding) continue;
      if (cause.where == LinePlace::loop) {  // it refuses nothing that would be refused before
        CHECK(finding->rule.empty());
        continue;
      }
      CHECK(finding->rule == cause.name);
      CHECK(finding->outcome == cause.outcome);
      const std::size_t from = finding->line.starts_with("… ") ? 4 : 0;
      CHECK(sample.find(finding->line.substr(from, 40)) != std::string::npos);
    }
  }
  for (const auto& file : fs::directory_iterator(cases / "logs")) {
    const std::string name = file.path().stem().string();
    CAPTURE(name);
    CHECK(names.count(name) == 1);
    const std::string log = text_of(file.path());
    const auto finding = find_cause(log, {});
    REQUIRE(finding);
    CHECK(finding->rule == name);
    CHECK(log.find(finding->line.substr(0, finding->line.find(" …"))) != std::string::npos);
  }
}

TEST_CASE("noise and the order of two sources never decide") {
  const std::vector<std::string> noise{"wandb: Currently logged in as: user",
      "/opt/x.py:1: UserWarning: Failed to import apex: ModuleNotFoundError: No module named 'a'",
      "[W socket.cpp:464] [c10d] Broken pipe", " 10%|#         | 1/10 [00:01<00:09,  1.01s/it]",
      "W1102 03:12:44.118000 281377 api.py:897] Sending process 281401 closing signal SIGTERM",
      "n1:1:2 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM", "", "done: 3 of 4",
      "n1:1:2 [0] NCCL INFO Call to ibv_reg_mr failed: out of memory, No route to host: retried",
      "[1203482.118820] usb 1-1: new device", "OMP_NUM_THREADS is set to 1"};
  const std::vector<std::string> others{
      "[rank9]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 9.",
      "srun: error: n1: task 0: Exited with exit code 1"};
  std::map<std::string, std::string> texts;
  std::set<std::string> symptoms;
  for (const Cause& cause : built_in_causes().all()) {
    for (const std::string& sample : samples_of(cause))
      if (find_cause(sample, {})) texts[cause.name + ": " + sample] = sample;
    if (cause.weight >= Strength::symptom) symptoms.insert(cause.name);
  }
  for (const auto& file : fs::directory_iterator(cases / "logs"))
    texts["a log of " + file.path().stem().string()] = text_of(file.path());
  for (const auto& [name, text] : texts) {
    CAPTURE(name);
    const auto plain = find_cause(text, {});
    REQUIRE(plain);
    std::string mixed;
    std::size_t line = 0;
    for (std::string_view rest = text; !rest.empty(); ++line) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      mixed += noise[line % noise.size()] + "\n" + std::string(rest.substr(0, end)) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    for (; line < noise.size(); ++line)
      mixed += noise[line] + "\n";
    CHECK(find_cause(mixed, {}) == plain);
    for (const std::string& other : others) {
      const auto before = find_cause(other + "\n" + mixed, {});
      CHECK(before == find_cause(mixed + other + "\n", {}));
      CHECK((symptoms.count(plain->rule) == 1 || before == plain));
    }
  }
}

TEST_CASE("of two ranks the order of their lines never decides") {
  const auto said_by = [](int rank, std::string_view text) {
    std::vector<std::string> lines;
    for (const std::string_view line : split(text, '\n'))
      lines.push_back("[rank" + std::to_string(rank) + "]: " + std::string(line) + "\n");
    return lines;
  };
  const auto joined = [](const std::vector<std::string>& lines) {
    return std::accumulate(lines.begin(), lines.end(), std::string());
  };
  const auto all = built_in_causes().all();
  for (std::size_t i = 0; i < 8 * all.size(); ++i) {
    const Cause& one = all[i % all.size()];
    const Cause& other = all[(i * 31 + i / all.size() + 17) % all.size()];
    // What names a rank itself is that rank's.
    if ((one.sample + other.sample).find("rank") != std::string::npos) continue;
    CAPTURE(one.name);
    CAPTURE(other.name);
    const auto first = said_by(0, samples_of(one)[i % samples_of(one).size()]);
    const auto second = said_by(1, samples_of(other)[i % samples_of(other).size()]);
    const auto before = find_cause(joined(first) + joined(second), {});
    CHECK(before == find_cause(joined(second) + joined(first), {}));
    std::string mixed;  // line by line
    for (std::size_t line = 0; line < std::max(first.size(), second.size()); ++line) {
      if (line < second.size()) mixed += second[line];
      if (line < first.size()) mixed += first[line];
    }
    CHECK(before == find_cause(mixed, {}));
  }
}

TEST_CASE("entries of causes are read strictly") {
  const auto read = read_entries<Cause>(
      "# a comment\n- name: a\n  pattern: 'it''s *: full'\n  outcome: oom\n"
      "  sample: |-\n    one\n    two\n");
  REQUIRE(read.size() == 1);
  CHECK(read[0].pattern == "it's *: full");
  CHECK(read[0].sample == "one\ntwo");
  const std::string whole = "- name: a\n  pattern: b\n  outcome: oom\n";
  CHECK(read_entries<Cause>(whole).size() == 1);
  // In the words that a user's file is told (sweep_errors/classify_*).
  for (const auto& [wrong, what] : std::map<std::string, const char*>{
           {whole + "  where: there\n", "line 4: expected one of line, warning, exception, class"},
           {whole + "  whenn: alone\n", "line 4: unknown key 'whenn', did you mean 'when'?"},
           {whole + whole, "line 4: two rules have the name 'a'"},
           {"- name: a\n  outcome: oom\n", "line 1: missing key 'pattern' in a rule"},
           {"- name: a b\n  pattern: b\n  outcome: oom\n", "line 1: 'a b' is not a valid name for"},
           {"- name: a\n  pattern: '* *'\n  outcome: oom\n", "line 2: this pattern matches every"},
           {"- name: a\nnothing\n", "line 2 is not 'key: value'"},
           {"name: a\n", "line 1: expected a list, each item of it a rule"}}) {
    CAPTURE(what);
    try {
      (void)read_entries<Cause>(wrong);
      FAIL("it was read");
    } catch (const std::invalid_argument& error) {
      CHECK(std::string(error.what()).starts_with(what));
    }
  }
}

TEST_CASE("the last error counts, but not one of a thread, and not what reports another's") {
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 1, in x\n";
  const std::string memory = trace + "torch.OutOfMemoryError: CUDA out of memory. Tried\n";
  const std::string unknown = trace + "AttributeError: 'NoneType' has no 'shape'\n";
  const std::string chain = "\nDuring handling of the above exception, another one occurred:\n\n";
  CHECK(find_cause(memory + unknown, {})->line.starts_with("AttributeError"));
  CHECK(find_cause(memory + chain + unknown, {})->rule == "torch-oom");
  CHECK(find_cause(memory + "Exception in thread T:\n" + unknown, {})->rule == "torch-oom");
  CHECK(find_cause(memory + trace + "a.b.ChildFailedError: \n", {})->rule == "torch-oom");
  CHECK(find_cause("\x1b[31mMemoryError\x1b[0m\n", {})->rule == "python-memory");
}

TEST_CASE("a thread's death is the cause if the main program reports no more than that") {
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 1, in x\n";
  const std::string thread = "Exception in thread Thread-4:\n" + trace + "ValueError: got 0\n";
  const std::string report = trace + "RuntimeError: Pin memory thread exited unexpectedly\n";
  CHECK(find_cause(thread + report, {})->line == "ValueError: got 0");
  CHECK(find_cause(thread + trace + "IndexError: 7\n", {})->line == "IndexError: 7");
  const std::string ignored = "Exception ignored in: <x>\n" + trace + "AttributeError: 7\n";
  CHECK(find_cause(ignored + report, {})->rule == "reported-exited-unexpectedly");
}

TEST_CASE("an error that ends with a colon is told by a line below it") {
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 1, in x\n";
  const auto of = [&](const std::string& lines) { return find_cause(trace + lines, {}); };
  const auto gpus = of("a.MisconfigurationException: \n    You requested GPUs: [0, 1]\n");
  CHECK(gpus->line == "You requested GPUs: [0, 1]");
  CHECK(gpus->rule == "misconfiguration");
  const auto memory = of("a.CompilerFailed: raised:\nOutOfResources: out of resource: 7\n");
  CHECK(memory->rule == "triton-resources");
  CHECK(of("a.CompilationError: at 1:2:\ndef f():\n    x = 1\n")->line.ends_with("at 1:2:"));
}

TEST_CASE("a loss beside how far it is tells that training has begun") {
  const std::string refused = "AssertionError: 3 layers on 2 stages\n";
  for (const char* step : {"step: 5700 loss: 0.028", "{'loss': 6.9, 'epoch': 0.1}",
           "Train Epoch: 1 [2700/246000 (18%)]\tLoss: 0.0000024",
           "completed step: 5, seconds: 1.4, loss: 10.8", "Epoch 3: 2.6it/s, loss=6.2",
           "| epoch 028 | loss 3.976 | ppl 4.61"})
    CHECK(find_cause(std::string(step) + "\n" + refused, {})->outcome == Outcome::crashed);
  for (const char* other :
      {"steps: 100, loss: cross_entropy", "z_loss: 0.001", "no loss in step 7"})
    CHECK(find_cause(std::string(other) + "\n" + refused, {})->outcome == Outcome::rejected);
}

TEST_CASE("an error of a train step behind a bar that has run for a minute refuses nothing") {
  const std::string error = "  File \"t.py\", line 2, in train_step\nFileNotFoundError: a.zst\n";
  const auto of = [&](const std::string& bar) {
    return find_cause(bar + "\n" + error, {})->outcome;
  };
  CHECK(of(" 10%|# | 64/640 [56:27<8:25:33, 38.72s/it]") == Outcome::crashed);
  CHECK(of("  0%| | 0/640 [00:00<?, ?it/s]") == Outcome::rejected);
  CHECK(of("Map: 10%|# | 64/640 [56:27<8:25:33, 38.72s/it]") == Outcome::rejected);
  CHECK(of(" 10%|# | 64/640 [56:27<8:25:33, 38.72B/s]") == Outcome::rejected);
}

TEST_CASE("an exception that another program tells of is known as one") {
  CHECK(find_cause("  \"message\": \"a.RendezvousClosedError: shut\",\n", {})->rule ==
      "rendezvous-closed");
  CHECK(find_cause("  what():  CUDA says: out of memory\n", {})->outcome == Outcome::oom);
  CHECK(find_cause("  what():  open(/x): Permission denied\n", {})->rule == "terminate-what");
  // It may have been survived, so it refuses nothing.
  CHECK(find_cause("[ERROR] skipped: ValueError: 7\n", {})->outcome == Outcome::crashed);
}

TEST_CASE("a line that may have been survived was, if its writer goes on") {
  const std::string weak = "unable to reach the cache\n";
  const std::string step = "step: 5 loss: 0.1\n";
  CHECK(find_cause(step + weak, {})->rule == "word-of-failure");
  CHECK_FALSE(find_cause(weak + step, {}));
  CHECK_FALSE(find_cause("Connection reset by peer\n" + step, {}));
  CHECK_FALSE(find_cause(weak + "Training finished\n", {}));
  CHECK_FALSE(find_cause("12:00:00 INFO loader: 3 shards have failed\n", {}));
  CHECK_FALSE(find_cause("[2022-07-13 21:09:13,651] [WARNING] [stage3.py:2391] " + weak, {}));
  CHECK(find_cause("12:00:00 INFO loader: out of memory: 7\n", {})->outcome == Outcome::oom);
  // Another's steps tell nothing of it, and neither do steps of an error, of a fact and of the
  // scheduler's word: what goes through a pipe is printed late.
  CHECK(find_cause("[rank1]: " + weak + "[rank0]: " + step, {})->rule == "word-of-failure");
  CHECK(find_cause("IndexError: 7\n" + step, {}));
  const std::string limit = "slurmstepd: error: *** JOB 7 CANCELLED AT 3 DUE TO TIME LIMIT ***\n";
  CHECK(find_cause(limit + step, {})->outcome == Outcome::timeout);
  std::string long_log = weak;
  for (int line = 0; line < 200; ++line)
    long_log += "a line\n";
  CHECK_FALSE(find_cause(long_log, {}));
}

TEST_CASE("programs and IPython print errors without what tells a Python error") {
  CHECK(find_cause("Error: the mesh is odd\n", {})->rule == "hint-error");
  CHECK(find_cause("Error: No such option: --x\n", {})->rule == "usage-error");
  const std::string broken = "ArrowInvalid: Parquet magic bytes not found in footer.\n";
  CHECK(find_cause("/lib/pyarrow/error.pxi in check_status()\n\n" + broken, {})->rule ==
      "arrow-broken");
  CHECK(find_cause("File ~/lib/x.py:7, in load(a)\n" + broken, {})->rule == "arrow-broken");
  CHECK(find_cause(broken, {})->strength == Strength::hint);
}

TEST_CASE("a long line is quoted so that all that its cause looks for is in it") {
  const std::string call = "NCCL operation f(" + std::string(180, 'x') + ") failed: invalid usage";
  const auto finding = find_cause("RuntimeError: " + call + " and more of it\n", {});
  CHECK(finding->rule == "nccl-operation-use");
  CHECK(finding->line.find("failed: invalid usage") != std::string::npos);
  CHECK(finding->line.size() <= longest_quote);
  CHECK(finding->line.starts_with("RuntimeError: "));
  const auto cut = find_cause("IndexError: " + std::string(300, 'x') + "\n", {});
  CHECK(cut->line.ends_with("x …"));
  CHECK(cut->line.size() <= longest_quote);
}

TEST_CASE("an unknown error is held against the program, and it is said when it was raised") {
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 1, in x\n";
  const auto early = find_cause(trace + "IndexError: 7\n", {});
  CHECK(early->rule.empty());
  CHECK(early->whose == Whose::program);
  CHECK(early->unknown == "an unknown error before the first train step");
  const auto late = find_cause("lm loss: 9.1\n" + trace + "IndexError: 7\n", {});
  CHECK(late->unknown == "an unknown error while it trained");
  CHECK(find_cause("IndexError: 7\n", {})->unknown == "an unknown error");
  const std::string backward = trace + "  File \"t.py\", line 2, in backward\n";
  CHECK(find_cause(backward + "ValueError: 7\n", {})->outcome == Outcome::crashed);
}

TEST_CASE("of several nodes that srun names none is accused") {
  const std::string first = "srun: error: Task launch for StepId=7.0 failed on node n3: Failed\n";
  const std::string second = "srun: error: Task launch for StepId=7.0 failed on node n4: Failed\n";
  CHECK(find_cause(first + first, {})->outcome == Outcome::node_failure);
  CHECK(find_cause(first + second, {})->outcome == Outcome::comm_error);
  CHECK(find_cause(first + second, {})->whose == Whose::network);
  CHECK(lost_node_in(first + second, 0)->ending.outcome == Outcome::comm_error);
  CHECK(node_accused_in(first) == "n3");
}

TEST_CASE("an error that wraps another's is quoted with that one's reason") {
  const std::string head = "FATAL: container creation failed: " + std::string(190, 'x');
  const auto finding = find_cause(head + ": squashfuse not found\n", {});
  CHECK(finding->line.ends_with("squashfuse not found"));
  CHECK(finding->line.size() < 200);
}

TEST_CASE("NCCL's last error is the reason of its error") {
  const auto finding = find_cause(
      "torch.distributed.DistBackendError: NCCL error in: x.hpp:275, unhandled system error\n"
      "ncclSystemError: System call or external library call failed or device error.\n"
      "Last error:\nsocketStartConnect: Connect to 10.0.0.1<4081> failed : Connection aborted\n",
      {});
  REQUIRE(finding);
  CHECK(finding->line.starts_with("socketStartConnect"));
  CHECK(finding->outcome == Outcome::comm_error);
}

TEST_CASE("an assertion is a refusal before training, if all ranks say the same") {
  const std::string refused = "[rank0]: AssertionError: 3 layers on 2 stages\n";
  CHECK(find_cause(refused, {})->outcome == Outcome::rejected);
  CHECK(find_cause(refused + "lm loss: 9.1\n", {})->outcome == Outcome::crashed);
  CHECK(find_cause(refused + "[rank1]: IndexError: 7\n", {})->outcome == Outcome::crashed);
  CHECK(find_cause("[rank0]: IndexError: 7\n[rank1]: AssertionError: 3\n", {})->outcome ==
      Outcome::crashed);
}

TEST_CASE("what an error means that no words of explain depends on its class and on its frames") {
  const auto raised = [](const std::string& frame, const std::string& error) {
    return find_cause("Traceback (most recent call last):\n  File \"/t.py\", line 1, in main\n" +
            frame + error + "\n",
        {});
  };
  const std::string step = "  File \"/t.py\", line 2, in training_step\n    loss = model(batch)\n";
  CHECK(raised("", "KeyError: 'tp'")->outcome == Outcome::rejected);
  CHECK(raised(step, "KeyError: 'tp'")->outcome == Outcome::crashed);
  CHECK(find_cause("KeyError: 'tp'\n", {})->outcome == Outcome::crashed);  // nobody says where
  CHECK(raised("", "IndexError: 7")->outcome == Outcome::crashed);
  CHECK(raised("    import apex\n", "RuntimeError: odd")->rule == "import-of-module");
  CHECK(raised("", "RuntimeError: a KeyError was seen")->rule.empty());
}

TEST_CASE("a traceback is read behind what a logger, a launcher or a host puts before its lines") {
  for (const std::string before : {"[rank1]:[rank1]: ", "E0425 19:24:56.377000 7 x.py:768] ",
           "node7: ", "stderr: [rank2]: ", "2024-01-11 05:43:11,726 | ERROR | "}) {
    CAPTURE(before);
    const auto finding = find_cause(before + "Traceback (most recent call last):\n" + before +
            "  File \"/t.py\", line 1, in main\n" + before + "ValueError: 3 is odd\n",
        {});
    REQUIRE(finding);
    CHECK(finding->rule == "refused-value-error");
  }
}

TEST_CASE("the launcher's word counts if nothing else does, and nothing of it otherwise") {
  const std::string table = "  exitcode  : 1 (pid: 14661)\n";
  const std::string agent =
      "  File \"/torch/distributed/elastic/agent/server/api.py\", line 9, in x\n";
  CHECK(find_cause(table, {})->outcome == Outcome::crashed);
  CHECK(find_cause(table, {})->strength == Strength::symptom);
  CHECK(find_cause(table + "Broken pipe\n", {})->outcome == Outcome::comm_error);
  CHECK(find_cause("MemoryError\n" + agent + "RuntimeError: Socket closed\n" + table, {})->rule ==
      "python-memory");
}

TEST_CASE("of torchrun's table only the root cause tells how a rank ended") {
  const std::string killed = "  exitcode  : -9 (pid: 2)\n  traceback : Signal 9 (SIGKILL)\n";
  const std::string root = "Root Cause (first observed failure):\n[0]:\n  rank      : 1\n";
  const auto finding = find_cause("Failures:\n[1]:\n" + killed + root + "  exitcode  : 1\n", {});
  CHECK(finding->rule == "launcher-torchrun-table");
  CHECK(finding->line == "exitcode  : 1");
  CHECK(find_cause("Failures:\n" + root + killed, {})->rule == "ended-killed");
}

TEST_CASE("what others are known to have read wrongly is read rightly") {
  int logs = 0;
  for (const auto& file : fs::directory_iterator(cases / "logs_published")) {
    const std::string name = file.path().filename().string();
    CAPTURE(name);
    const std::size_t dot = name.find('.');
    const std::string outcome = name.substr(0, dot);
    const std::string rule = name.substr(dot + 1, name.find('.', dot + 1) - dot - 1);
    const auto finding = find_cause(text_of(file.path()), {});
    ++logs;
    CHECK(finding.has_value() == (rule != "none"));
    if (!finding) continue;
    CHECK(finding->rule == rule);
    CHECK(shardsweep::name(finding->outcome) == outcome);
  }
  CHECK(logs == 8);
}

TEST_CASE("the pieces of a pattern stand one after the other anywhere in a line") {
  CHECK(match_in("abc", "b"));
  CHECK(match_in("abc", "a*c"));
  CHECK(match_in("abc", "*bc*"));
  CHECK(match_in("abc", "a**c"));
  CHECK(match_in("CANCELLED AT 03:12 DUE TO TIME LIMIT", "CANCELLED AT * DUE TO TIME"));
  CHECK_FALSE(match_in("abc", "c*a"));
  CHECK_FALSE(match_in("abc", "B"));
  CHECK_FALSE(match_in("ab", "ab*b"));
  CHECK_FALSE(match_in("abc", ""));
  CHECK_FALSE(match_in("abc", "***"));
  CHECK(match_in("abcd", "x*c\nb*d")->begin == 1);
  CHECK_FALSE(match_in("abc", "c*a\n***"));
}

TEST_CASE("a pattern of several lines has a sample for each, and all of them are tried") {
  Cause cause{"lost", "link*down\n, in fetch", Outcome::node_failure};
  cause.sample = "link 3 down\nlink 4 is down";
  CHECK(judges_its_sample(cause));
  cause.sample = "node n3\nlink 3 down\n\nlink 4 is down";
  CHECK(judges_its_sample(cause));
  CHECK(find_cause("link 3 down\n", {&cause, 1})->rule == "lost");
  CHECK(find_cause("killed, in fetch\n", {&cause, 1})->rule == "lost");
  CHECK_FALSE(find_cause("down: link 3\n", {&cause, 1}));
  cause.sample += "\n\nlink 5 is up";
  CHECK_FALSE(judges_its_sample(cause));
}

TEST_CASE("a pattern and a line made to be slow are not") {
  const std::string line(100'000, 'a');
  std::string pattern;
  while (pattern.size() + 4 < most_pattern_bytes)
    pattern += "a*";
  const Cause cause{"slow", pattern + "b", Outcome::oom};
  // Of a CPU, however long it takes to get one.
  const std::clock_t before = std::clock();
  CHECK_FALSE(find_cause(line + "\n" + line, std::span(&cause, 1)));
  CHECK(std::clock() - before < 2 * CLOCKS_PER_SEC);
}

TEST_CASE("in one log the first cause wins over all exceptions and symptoms") {
  const std::string symptom = "Connection reset by peer\n";
  const std::string caught = "ImportError: no apex\n";
  const std::string refused = "AssertionError: 3 is not divisible by 2\n";
  const std::string oom = "RuntimeError: CUDA error: out of memory\n";
  const std::string ecc = "CUDA error: uncorrectable ECC error encountered\n";
  CHECK(find_cause(symptom + caught + oom + ecc, {})->rule == "gpu-ecc");
  CHECK(find_cause(symptom + caught + oom, {})->rule == "cuda-oom");
  CHECK(find_cause(ecc + oom, {})->rule == "gpu-ecc");
  CHECK(find_cause(symptom + caught + refused + symptom, {})->rule == "not-divisible");
  CHECK(find_cause(symptom + "Broken pipe\n", {})->rule == "connection-reset");
  CHECK_FALSE(find_cause("all is well\n", {}));
  CHECK_FALSE(find_cause("", {}));
}

TEST_CASE("a line shown is short and whole UTF-8 and a carriage return ends a line") {
  const std::string log = "CUDA error: out of memory " + std::string(250, 'x') + "\n";
  CHECK(find_cause(log, {})->line.size() == 200);
  const std::string far = std::string(250, 'x') + " CUDA error: out of memory\n";
  CHECK(find_cause(far, {})->line == "… CUDA error: out of memory");
  CHECK(find_cause("10 %\r20 %\rstd::bad_alloc\r", {})->line == "std::bad_alloc");
}

TEST_CASE("a user's own rule goes before the built-in ones") {
  const std::vector<Cause> own{{"fabric", "pipeline * gave up", Outcome::node_failure}};
  const std::string log = "CUDA error: out of memory\nthe pipeline p3 gave up\n";
  const auto finding = find_cause(log, own);
  REQUIRE(finding);
  CHECK(finding->rule == "fabric");
  CHECK(finding->own);
  std::vector<Evidence> evidence{crash(0, 5, 11)};
  join_log(evidence, 0, finding, 9, true);
  CHECK(classify(evidence, false).ending.outcome == Outcome::node_failure);

  Record record;
  record.error_class = "internal";
  record.message = "pipeline 3 gave up";
  std::vector<Evidence> recorded{evidence_of_error(record, 1, 5)};
  apply_own_causes(recorded, own);
  CHECK(recorded[0].ending.outcome == Outcome::node_failure);
  CHECK(recorded[0].ending.cause == "fabric: rank 1: internal: pipeline 3 gave up");
}

TEST_CASE("a user's own cause has a place, a weight and a condition like any other") {
  const std::string trace = "Traceback (most recent call last):\n  File \"/t.py\", line 1, in x\n";
  const std::string log = "a Token of x\nMemoryError\n" + trace + "a.TokenError: 401\n";
  Cause token{.name = "token", .pattern = "Token", .where = LinePlace::error_class};
  const auto judged = [&](const std::string& text) { return find_cause(text, {&token, 1}); };
  token.remedy = "log in";
  CHECK(judged(log)->line == "a.TokenError: 401");
  CHECK(judged(log)->remedy == "log in");
  CHECK(judged("a Token of x\nMemoryError\n")->rule == "python-memory");
  token.where = LinePlace::line;
  CHECK(judged(log)->own);
  for (const Strength weak : {Strength::end, Strength::symptom, Strength::hint}) {
    token.weight = weak;
    CHECK(judged("a Token of x\nMemoryError\n")->rule == "python-memory");
    CHECK(judged("a Token of x\n")->rule == "token");
  }
  token = {.name = "token", .pattern = "TokenError", .where = LinePlace::exception};
  token.when = When::untrained;
  CHECK(judged(trace + "TokenError: 401\n")->rule == "token");
  CHECK(judged("lm loss: 9.1\n" + trace + "TokenError: 401\n")->rule.empty());
  token = {.name = "our-step", .pattern = "our step", .where = LinePlace::progress};
  CHECK(judged(trace + "AssertionError: 3 on 2\n")->outcome == Outcome::rejected);
  CHECK(judged("our step 1\n" + trace + "AssertionError: 3 on 2\n")->outcome == Outcome::crashed);
}

TEST_CASE("of two own causes in two lines the one that is written first counts") {
  const std::vector<Cause> own{{"b", "bb bb", Outcome::oom}, {"a", "a", Outcome::hung}};
  CHECK(find_cause("a\nbb bb\n", own)->rule == "b");
  CHECK(find_cause("bb bb\na\n", own)->rule == "b");
  CHECK(find_cause("a\n", own)->rule == "a");
}

TEST_CASE("the log explains an exit code that says nothing and a signal") {
  std::vector<Evidence> evidence{crash(3, 5)};
  join_log(evidence, 3, says("torch-oom", Outcome::oom), 9, true);
  const auto verdict = classify(evidence, false);
  CHECK(verdict.ending.outcome == Outcome::oom);
  CHECK(verdict.ending.cause == "rank 3: torch-oom: text");
  CHECK(verdict.ending.source == SaidBy::log);
  CHECK(verdict.ending.exit_code == 1);
  CHECK(verdict.ending.also.empty());

  std::vector<Evidence> aborted{evidence_of_signal(2, SIGABRT, 5, false)};
  join_log(aborted, 2, says("nccl-watchdog", Outcome::comm_error), 9, true);
  CHECK(classify(aborted, false).ending.outcome == Outcome::comm_error);
  CHECK(classify(aborted, false).ending.signal == SIGABRT);
}

TEST_CASE("an exit that no rule explains has the error of its log, else its last words") {
  std::vector<Evidence> evidence{crash(3, 5)};
  join_log(evidence, 3, std::nullopt, 9, true);
  const auto verdict = classify(evidence, false);
  CHECK(verdict.ending.outcome == Outcome::crashed);
  CHECK(verdict.ending.cause == "rank 3 exited with 1: last words");
  std::vector<Evidence> told{crash(3, 5)};
  join_log(told, 3, find_cause("KeyError: 'tp'\nbye\n", {}), 9, true);
  CHECK(classify(told, false).ending.cause == "rank 3 exited with 1: KeyError: 'tp'");
}

TEST_CASE("a record is believed and what its log says besides is shown") {
  Record record;
  record.error_class = "oom";
  record.message = "activations";
  std::vector<Evidence> evidence{evidence_of_error(record, 0, 4), crash(0, 5, 11)};
  join_log(evidence, 0, says("gpu-ecc", Outcome::node_failure), 9, true);
  const auto verdict = classify(evidence, false);
  CHECK(verdict.ending.outcome == Outcome::oom);
  CHECK(verdict.ending.also == "node_failure: rank 0: gpu-ecc: text");
}

TEST_CASE("an oom within a collective that then hangs is an oom") {
  std::vector<Evidence> evidence{hung(90 * second)};
  join_log(evidence, 0, std::nullopt, 91 * second, true);
  join_log(evidence, 3, says("torch-oom", Outcome::oom), 91 * second, true);
  const auto verdict = classify(evidence, false);
  CHECK(verdict.ending.outcome == Outcome::oom);
  CHECK(verdict.ending.also == "hung: no progress in phase 'train'");

  std::vector<Evidence> noise{hung(90 * second)};
  join_log(
      noise, 3, says("broken-pipe", Outcome::comm_error, Strength::symptom), 91 * second, true);
  CHECK(classify(noise, false).ending.outcome == Outcome::hung);
}

TEST_CASE("the cause of a rank that was ended for another's symptom wins") {
  std::vector<Evidence> evidence{crash(0, 5 * second)};
  join_log(evidence, 0, says("dist-backend", Outcome::comm_error, Strength::symptom), second, true);
  join_log(evidence, 3, says("torch-oom", Outcome::oom), 9 * second, true);
  CHECK(classify(evidence, false).ending.outcome == Outcome::oom);
  // On another node, which was told of it 2 s later.
  std::vector<Evidence> there{
      {7 * second, Outcome::crashed, "a rank elsewhere has failed", SaidBy::request}};
  join_log(there, 12, says("torch-oom", Outcome::oom), 9 * second, false);
  NodeEnded here_ended;
  here_ended.ending.outcome = Outcome::comm_error;
  here_ended.at = 5 * second;
  const auto there_verdict = classify(there, false, false);
  NodeEnded there_ended;
  there_ended.ending.outcome = there_verdict.ending.outcome;
  there_ended.at = there_verdict.at;
  there_ended.ending.cause = there_verdict.ending.cause;
  const auto verdict =
      classify({evidence_of_node(here_ended, "n1"), evidence_of_node(there_ended, "n2")}, false);
  CHECK(verdict.ending.outcome == Outcome::oom);
  CHECK(verdict.ending.node == "n2");
}

TEST_CASE("a measured attempt stays so and shows an oom in its log") {
  std::vector<Evidence> evidence;
  join_log(evidence, 0, says("torch-oom", Outcome::oom), 9, false);
  const auto verdict = classify(evidence, true);
  CHECK(verdict.ending.outcome == Outcome::completed);
  CHECK(verdict.ending.cause.empty());
  CHECK(verdict.ending.also == "oom: rank 0: torch-oom: text");
}

TEST_CASE("exit 0 without a result has the cause that the log tells") {
  std::vector<Evidence> evidence;
  join_log(evidence, 0, says("torch-oom", Outcome::oom), 9, true);
  CHECK(classify(evidence, false).ending.outcome == Outcome::oom);
  // Where the result is not due nothing is concluded: rank 0 may still be training.
  std::vector<Evidence> elsewhere;
  join_log(elsewhere, 9, says("torch-oom", Outcome::oom), 9, false);
  CHECK(classify(elsewhere, false, false).ending.outcome == Outcome::completed);
}

TEST_CASE("of a cancelled attempt no log is asked") {
  std::vector<Evidence> evidence{{5, Outcome::cancelled, "cancelled on request", SaidBy::request}};
  join_log(evidence, 0, says("slurm-cancelled", Outcome::reaped), 9, true);
  CHECK(classify(evidence, false).ending.outcome == Outcome::cancelled);
  CHECK(classify(evidence, false).ending.also.empty());
}

TEST_CASE("a step is explained by the logs of its ranks") {
  std::vector<Evidence> evidence{evidence_of_step("srun: error: oops\n", 1, 5, false)};
  join_log(evidence, 0, std::nullopt, 9, true);
  join_log(evidence, 1, says("torch-oom", Outcome::oom), 9, true);
  join_log(evidence, -1, std::nullopt, 9, true);
  CHECK(classify(evidence, false).ending.outcome == Outcome::oom);
  CHECK(classify(evidence, false).ending.cause == "rank 1: torch-oom: text");
}
