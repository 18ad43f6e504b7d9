// SPDX-License-Identifier: Apache-2.0
// What commands print, whole, on terminals of several widths: compared with tests/cases/output.
// The database is made by the store; the programs are the ones that users run. With
// SHARDSWEEP_REGENERATE=1 (scripts/regenerate-output) the files are written instead.
#include "show/cell_text.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

namespace fs = std::filesystem;

const fs::path source = SHARDSWEEP_SOURCE_DIR;
const std::string program = std::string(SHARDSWEEP_BIN_DIR) + "/shardsweep";

/// A sweep with some of everything, and times that do not change.
class SampleDatabase {
 public:
  SampleDatabase() : file(dir / "sample.db") {
    Daemon daemon(file);
    daemon.submit(dir, {.gpus = {1, 2}, .vars = {0, 1}, .repeats = 2});
    const auto run = [&](const std::string& where, Outcome outcome, double tokens = 0) {
      daemon.run(daemon.trial(where), outcome, tokens);
    };
    const std::string tiny = "model = 'tiny' and nvls = 0 and repeat = 1 and ";
    run(tiny + "gpus = 1 and micro_batch = 1", Outcome::completed, 12345.6);
    run(tiny + "gpus = 1 and micro_batch = 2", Outcome::completed, 12001.25);
    run(tiny + "gpus = 2 and micro_batch = 1", Outcome::completed, 987.65);
    run(tiny + "gpus = 2 and micro_batch = 2", Outcome::oom);
    run("model = 'tiny' and nvls = 0 and repeat = 2 and gpus = 1 and micro_batch = 1",
        Outcome::completed, 12222);
    const std::string small = "model = 'small' and nvls = 1 and repeat = 1 and ";
    run(small + "gpus = 1 and micro_batch = 1", Outcome::crashed);
    run(small + "gpus = 1 and micro_batch = 2", Outcome::skipped);
    run(small + "gpus = 2 and micro_batch = 1", Outcome::completed, 0.5);
    hostile(daemon);
    nodes(daemon);
    must(daemon.store->release_lease());
    slug = rows_of(file, "SELECT slug FROM trials WHERE outcome = 'oom'");
    slug.erase(slug.find('\n'));
  }

  TempDir dir;
  fs::path file;
  std::string slug;

 private:
  /// One in use, one that is out for what was seen on it.
  static void nodes(Daemon& daemon) {
    const TrialId trial = daemon.trial("outcome = 'oom'");
    const NodeCharge charge{.at = daemon.now,
                            .kind = "hardware",
                            .trial = trial,
                            .detail = "Xid 79: the GPU has fallen off the bus"};
    daemon.commit({SeenNode{"node-with-a-rather-long-name-017", "n17", daemon.now, 1},
                   SeenNode{"n2", "n2", daemon.now, 1}, AddNodeEvidence{"n2", charge},
                   SetNode{{.node = "n2",
                            .state = NodeState::quarantined,
                            .since = daemon.now,
                            .until = daemon.now + 3'600'000'000,
                            .reason = "hardware: Xid 79: the GPU has fallen off the bus"}}});
  }
  /// Names and causes that a terminal would obey, wide characters, and long sentences.
  void hostile(Daemon& daemon) {
    daemon.commit({AddEvent{.at = daemon.now,
                            .sweep = 1,
                            .trial = daemon.trial("outcome = 'oom'"),
                            .kind = "note",
                            .detail = "\x1b[31mrank 3 on n2: shows no sign of life\x1b[0m (0, "
                                      "1, 2 wait in dp all_reduce 41, which 模型 never "
                                      "entered × é)"}});
  }
};

struct Paper {
  std::string name;
  std::string environment;
};

const std::array<Paper, 6> papers{{{"60 columns", "COLUMNS=60"},
                                   {"80 columns", "COLUMNS=80"},
                                   {"120 columns", "COLUMNS=120"},
                                   {"200 columns", "COLUMNS=200"},
                                   {"80 columns, LANG=C", "COLUMNS=80 LC_ALL=C"},
                                   {"a pipe", ""}}};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// The sample is as old as it is; how long ago that was says the clock.
std::string without_age(std::string text) {
  const std::string end = " ago)";
  const std::string_view age = "AGE";
  for (auto at = text.find(end); at != std::string::npos; at = text.find(end, at + 1)) {
    const auto begin = text.rfind('(', at) + 1;
    text.replace(begin, at - begin, age);
    at = begin + age.size();
  }
  return text;
}

std::string environment(const SampleDatabase& sample, const std::string& more) {
  return fmt::format(
      "env -i PATH=/usr/bin:/bin HOME={0} TZ=UTC TERM=xterm LC_ALL=C.UTF-8 SHARDSWEEP_DB={1} "
      "{2} ",
      (sample.dir / "home").string(), sample.file.string(), more);
}

std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> part{};
  while (const auto count = std::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), count);
  ::pclose(pipe);
  return text;
}

enum class Streams : std::uint8_t { both, results };

std::string on_all_papers(const SampleDatabase& sample, const std::string& arguments,
                          Streams streams) {
  std::string text;
  for (const auto& paper : papers) {
    text += fmt::format("== {} ==\n", paper.name);
    text += output_of(environment(sample, paper.environment) + program + ' ' + arguments +
                      (streams == Streams::both ? " 2>&1" : " 2>/dev/null"));
  }
  return without_age(replaced(text, sample.dir.path().string(), "DIR"));
}

/// No line is wider than COLUMNS says; with LANG=C everything is ASCII.
void check_lines(const std::string& text) {
  std::istringstream lines(text);
  std::size_t width = std::string::npos;
  bool ascii = false;
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    if (line.starts_with("== ")) {
      const auto number = std::strtoul(line.c_str() + 3, nullptr, 10);
      width = number == 0 ? std::string::npos : number;
      ascii = line.find("LANG=C") != std::string::npos;
      continue;
    }
    CHECK(width_of(line) <= width);
    CHECK(line.find('\x1b') == std::string::npos);
    if (!ascii) continue;
    CHECK(std::all_of(line.begin(), line.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  }
}

void check_output(const SampleDatabase& sample, const std::string& name,
                  const std::string& arguments, Streams streams = Streams::both) {
  INFO(name);
  const auto text = on_all_papers(sample, arguments, streams);
  if (arguments.find("--format") == std::string::npos) check_lines(text);
  const auto file = source / "tests" / "cases" / "output" / (name + ".txt");
  if (::getenv("SHARDSWEEP_REGENERATE") != nullptr) {
    std::ofstream(file, std::ios::binary) << text;
    return;
  }
  std::ifstream in(file, std::ios::binary);
  const std::string wanted{std::istreambuf_iterator<char>(in), {}};
  CHECK(text == wanted);
}

/// Fits every width too, and says the same things everywhere; the words differ from machine to
/// machine.
void check_fit(const SampleDatabase& sample, const std::string& arguments,
               const std::vector<std::string>& words) {
  INFO(arguments);
  const auto text = on_all_papers(sample, arguments, Streams::both);
  check_lines(text);
  for (const auto& word : words)
    CHECK_MESSAGE(text.find(word) != std::string::npos, word);
}

/// What the command prints on a terminal of its own.
std::string on_a_terminal(const std::string& command) {
  int terminal = -1;
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 80;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(terminal, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(count));
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return text;
}

}  // namespace

TEST_CASE("tables of results fit every width") {
  const SampleDatabase sample;
  check_output(sample, "results", "results");
  check_output(sample, "results_columns", "results --columns trial,model,vars,cause --limit 2");
  check_output(sample, "results_csv", "results --limit 2 --format csv");
  check_output(sample, "best", "best");
  check_output(sample, "heatmap", "heatmap");
  check_output(sample, "heatmap_mixed", "heatmap --rows tp --cols micro_batch");
  check_output(sample, "heatmap_outcome", "heatmap --value outcome");
  check_output(sample, "query",
               "query 'SELECT trial, state, outcome, cause FROM results LIMIT 2'");
}

TEST_CASE("what is known of a trial and a sweep fits every width") {
  const SampleDatabase sample;
  check_output(sample, "show_trial", "show " + sample.slug);
  check_output(sample, "show_sweep", "show demo");
  check_output(sample, "show_unknown", "show demo nothere");
  check_output(sample, "show_json", "show --format json " + sample.slug);
  check_output(sample, "nodes", "nodes");
}

TEST_CASE("what waits and what goes on fits every width") {
  const SampleDatabase sample;
  check_output(sample, "status", "status");
  check_output(sample, "status_sweep", "status demo");
  check_output(sample, "names", "names sweeps");
}

TEST_CASE("what the programs bring along fits every width") {
  const SampleDatabase sample;
  check_output(sample, "presets", "presets");
  check_fit(sample, "doctor", {"shardbench", "templates", "home", "database", "daemon"});
  for (const char* topic : {"keys", "axes", "units", "site"})
    check_fit(sample, fmt::format("help {}", topic), {});
  for (const char* command :
       {"plan",   "submit", "run",    "render",  "status",          "follow",  "pause",
        "resume", "cancel", "rerun",  "show",    "results",         "query",   "best",
        "export", "daemon", "tick",   "heatmap", "doctor",          "gc",      "replay",
        "nodes",  "import", "logs",   "suggest", "evaluate-memory", "presets", "calibrate",
        "new",    "names",  "delete", "help"})
    check_fit(sample, fmt::format("help {}", command), {"Usage: shardsweep "});
}

TEST_CASE("show takes several names, and an unknown one is exit code 2") {
  const SampleDatabase sample;
  const auto show = environment(sample, "") + program + " show ";
  const auto both = output_of(show + "demo " + sample.slug + " --format json");
  CHECK(both.starts_with("[\n{\"name\":\"demo\",\"sweep\":{"));
  CHECK(both.find("},\n{\"name\":\"demo/" + sample.slug + "\",\"trial\":{") !=
        std::string::npos);
  CHECK(output_of(show + "demo nothere >/dev/null 2>&1; echo $?") == "2\n");
  const auto skipped =
      rows_of(sample.file, "SELECT slug FROM trials WHERE outcome = 'skipped'");
  CHECK(output_of(show + skipped.substr(0, skipped.find('\n'))).find(" d ") ==
        std::string::npos);
}

TEST_CASE("plans and predictions fit every width") {
  const SampleDatabase sample;
  const auto cases = (source / "tests" / "cases" / "output").string();
  // Which runners there are differs from machine to machine: that is said on standard error.
  check_output(sample, "plan", "plan " + cases + "/sweep.yaml", Streams::results);
  check_output(sample, "suggest",
               "suggest --model llama-1b --cluster h100-8x --nodes 2 --batch-tokens 1Mi");
  check_output(sample, "replay",
               "replay " + cases + "/runs.csv --cluster h100-8x --family nanotron");
  check_output(sample, "evaluate_memory",
               "evaluate-memory " + cases + "/runs.csv --cluster h100-8x --family nanotron");
}

TEST_CASE("a suggestion becomes a sweep file that can be planned") {
  const SampleDatabase sample;
  const auto file = (sample.dir / "next.yaml").string();
  const auto suggest = environment(sample, "") + program +
                       " suggest --model llama-1b --cluster h100-8x --nodes 2 --write " + file +
                       " 2>&1 >/dev/null";
  CHECK(output_of(suggest) == fmt::format("Wrote {0}. Next: shardsweep plan {0}\n", file));
  CHECK(output_of(suggest).find("exists already") != std::string::npos);
  const auto plan = output_of(environment(sample, "") + program + " plan " + file + " 2>&1");
  CHECK_MESSAGE(plan.find("sweep 'suggested-llama-1b' on h100-8x: ") != std::string::npos,
                plan);
  CHECK(plan.find(" 0 feasible") == std::string::npos);
}

TEST_CASE("files that can go are counted, and listed where that is asked for") {
  const SampleDatabase sample;
  const auto attempts = sample.dir / "sample.db.d" / "attempts";
  fs::create_directories(attempts);
  fs::create_directories(sample.dir / "sample.db.d" / "answers");
  for (int i = 0; i < 3; ++i)
    std::ofstream(attempts / fmt::format("demo.some-trial.{}.tar", i))
        << std::string(2048, 'x');
  check_output(sample, "gc", "gc --older-than 0s");
  check_output(sample, "gc_age", "gc --older-than 5m");
}

TEST_CASE("colours stand on a terminal alone, unless NO_COLOR refuses them") {
  const SampleDatabase sample;
  const auto coloured = on_a_terminal(environment(sample, "") + program + " heatmap");
  CHECK(coloured.find("\x1b[48;5;") != std::string::npos);
  const auto plain = on_a_terminal(environment(sample, "NO_COLOR=1") + program + " heatmap");
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK(plain.find("12,222") != std::string::npos);
}
