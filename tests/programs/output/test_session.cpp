// SPDX-License-Identifier: Apache-2.0
// What commands print that change something: a sweep's life from the file to its removal, with
// a real daemon and a runner whose numbers never differ.
#include "programs/output/paper.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <fstream>
#include <regex>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

namespace fs = std::filesystem;

/// A runner in bash: micro-batch 2 is twice as fast, micro-batch 8 does not fit.
constexpr auto runner = R"(#!/bin/bash
[ "$1" = --capabilities ] && { echo '{"runner":"even","version":"1.0","dtype":["fp32"]}'; exit; }
declare -A flag
while [ $# -gt 1 ]; do flag[$1]=$2; shift 2; done
echo "rank $RANK trains with micro-batch ${flag[--micro-batch]}"
[ "$RANK" = 0 ] || exit 0
[ "${flag[--micro-batch]}" = 8 ] && exit 11
printf '{"type":"%s","run_id":"%s"%s}\n' \
  phase "${flag[--run-id]}" ',"phase":"train"' \
  result "${flag[--run-id]}" ",\"tokens_per_s_per_gpu\":$((1000 * flag[--micro-batch])),\"train_step_ms\":$((256 / flag[--micro-batch])),\
\"peak_memory_bytes\":$((1000000 * flag[--micro-batch])),\"phase_ms\":{\"forward\":$((64 / flag[--micro-batch])),\
\"backward\":$((128 / flag[--micro-batch])),\"reduction\":$((32 / flag[--micro-batch])),\"optimizer\":$((32 / flag[--micro-batch]))},\
\"wait_ms\":{\"tp\":0,\"dp\":$((48 / flag[--micro-batch]))},\"peak_memory_by_class\":{\"parameters\":600000,\"activations\":400000}" \
  >>"${flag[--records]}"
)";

// What others do on this machine meanwhile is no part of the output.
constexpr auto sweep = R"(name: even
cluster: cpu-2x
runner: {program: even.sh}
constants: {model: tiny, seq_len: 32, global_batch_size: 16, dtype: fp32, gpus: 2, dp: 2}
axes:
  micro_batch: [1, 2, 8]
  grad_accum: auto
watch: {others_cpu_limit: 0}
)";

/// A folder with a sweep in it, and no database yet.
struct Newcomer {
  Newcomer() {
    std::ofstream(dir / "even.sh") << runner;
    fs::permissions(dir / "even.sh", fs::perms::owner_all);
    std::ofstream(dir / "even.yaml") << sweep;
    fs::copy(cases / "runs.csv", dir / "runs.csv");
    std::ofstream(dir / "site.yaml")
        << "backend: slurm\nslurm: {account: research, partition: h100}\n";
  }
  /// The daemon of the folder's database ends before its folder goes.
  ~Newcomer() { command("", "daemon --stop"); }

  operator Desk() const {  // NOLINT(google-explicit-constructor)
    return {dir.path(), dir / "even.db"};
  }
  std::string command(const std::string& paper, const std::string& arguments) const {
    const auto all = "cd " + dir.path().string() + " && " + environment(*this, paper) + program +
        ' ' + arguments + " 2>&1; echo \"exit code $?\"";
    return fmt::format("$ shardsweep {}\n{}", arguments, output_of(all));
  }

  TempDir dir;
};

/// Whether a daemon still runs, and a job still ends, when the next command comes is chance.
std::string without_chance(std::string text) {
  static const std::regex daemon{
      "(started a daemon: …|daemon: .*|A daemon is running\\.|[Nn]o daemon (is running|runs).*)\n"};
  static const std::regex ends{"Its trials have ended\\. Waiting for its last job to end\\.\n"};
  // Nor what it waits for when it is looked at.
  static const std::regex waits{"even: even-n1_[0-9a-f]+:[^$]*?(yet|nodes|back)\n"};
  // A rank may be gone before its environment is read: then its record is missing.
  static const std::regex records{"records\\.jsonl +[0-9.]+ (K?i?B)"};
  // A time in it may have fewer digits.
  static const std::regex code{"records\\.jsonl\\.code +[0-9.]+ B"};
  // It names programs and folders by their paths.
  static const std::regex spec{"spec\\.json +[0-9.]+ (K?i?B)"};
  text = std::regex_replace(text, records, "records.jsonl    SIZE");
  text = std::regex_replace(text, code, "records.jsonl.code    SIZE");
  text = std::regex_replace(text, spec, "spec.json        SIZE");
  text = std::regex_replace(text, daemon, "");
  text = std::regex_replace(text, waits, "");
  return std::regex_replace(text, ends, "");
}

/// What the commands print one after the other, in a folder of their own for each paper.
void check_session(const std::string& name, const std::vector<std::string>& commands) {
  std::string text;
  for (const auto& paper : papers) {
    const Newcomer newcomer;
    text += fmt::format("== {} ==\n", paper.name);
    for (const auto& command : commands)
      text += without_chance(
                  without_times(masked(newcomer, newcomer.command(paper.environment, command)))) +
          '\n';
  }
  check_text(name, text);
}

}  // namespace

TEST_CASE("a sweep's life in commands") {
  const std::string here = " --backend local --here";
  check_session("session_run",
      {"run even.yaml" + here, "run even.yaml" + here, "status even", "logs even",
          "logs tiny-g2-dp2tp1pp1-mb2ga4-s32-fp32-3283cf",
          "logs tiny-g2-dp2tp1pp1-mb2ga4-s32-fp32-3283cf --rank 1 --list", "export even.csv",
          "export even.csv", "export even.txt"});
}

TEST_CASE("where a step goes, and what more memory buys") {
  const std::string slug = "tiny-g2-dp2tp1pp1-mb";
  check_session("session_explain",
      {"run even.yaml --backend local --here", "explain " + slug + "2ga4-s32-fp32-3283cf",
          "explain " + slug + "8ga1-s32-fp32-ba2665", "explain nothere", "frontier even",
          "frontier even --by nodes --format csv", "frontier even -o even.svg",
          "frontier even -o even.pdf"});
}

TEST_CASE("verbs on a sweep that has ended") {
  const std::string here = " --backend local --here";
  check_session("session_verbs",
      {"submit even.yaml" + here, "follow even", "pause even", "resume even", "cancel even",
          "rerun even --where \"outcome = 'oom'\"", "follow even", "cancel nothere",
          "rerun even --where \"outcome = 'oom'\" --all", "rerun", "import even.csv",
          "delete even"});
}

TEST_CASE("files that commands write or print") {
  check_session("session_files",
      {"new", "new mine.yaml", "new mine.yaml", "new mine.yaml --model nothere",
          "new - --model llama-1b --cluster h100-8x --nodes 2,4",
          "render even.yaml --site site.yaml", "presets nothere"});
}

TEST_CASE("a table of somebody else") {
  check_session("session_import",
      {"import runs.csv --cluster h100-8x --name table",
          "import runs.csv --cluster h100-8x --name table", "status table", "cancel table",
          "export all.db", "report table -o table.html", "delete table"});
}

TEST_CASE("a calibration fits narrow terminals") {
  for (const auto* paper : {&papers.front(), &papers.at(4)}) {
    const Newcomer newcomer;
    const auto text =
        newcomer.command(paper->environment, "calibrate cpu-2x --backend local --here");
    check_lines(fmt::format("== {} ==\n{}", paper->name, text));
    for (const char* words : {"calibrate-cpu-2x 6/6: 6 completed", "measured", "peak_flops.fp32",
             "intra_node_bandwidth", "Wrote cpu-2x.calibrated.yaml.", "exit code 0"})
      CHECK_MESSAGE(text.find(words) != std::string::npos, text);
  }
}
