// SPDX-License-Identifier: Apache-2.0
// read-log: a trainer's log as a measurement, or the reasons why it is none.
#include "cli/commands/read_log.hpp"

#include "causes/failed_log.hpp"
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "machine/file_ends.hpp"
#include "text/pieces.hpp"
#include "text/units.hpp"
#include "trainer/judge_log.hpp"
#include "trainer/log_reader.hpp"
#include "trainer/trainer_file.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

struct ReadLogOptions {
  std::string log;  ///< the trainer; empty: found out
  std::vector<std::string> patterns;
  std::string gpus;
  std::string seq_len;
  std::string batch_tokens;
  std::string vocab;
};

struct Candidate {
  std::string name;
  LogReader reader;
  std::vector<std::string_view> patterns{};  ///< patterns of a built-in trainer

  /// True if this trainer is built on the other one: their patterns begin alike.
  [[nodiscard]] bool is_on(const Candidate& base) const {
    return !base.patterns.empty() && patterns.size() >= base.patterns.size() &&
        std::equal(base.patterns.begin(), base.patterns.end(), patterns.begin());
  }
};

Result<std::vector<Candidate>> candidates_of(const ReadLogOptions& own) {
  std::vector<Candidate> all;
  if (!own.patterns.empty()) {
    const std::vector<std::string_view> patterns(own.patterns.begin(), own.patterns.end());
    SHARDSWEEP_ASSIGN(LogReader reader, LogReader::make(patterns));
    all.push_back({"patterns", std::move(reader)});
    return all;
  }
  if (!own_trainer_file(own.log).empty()) {
    SHARDSWEEP_ASSIGN(const auto file, load_trainer(own.log));
    const std::vector<std::string_view> patterns(file.patterns.begin(), file.patterns.end());
    SHARDSWEEP_ASSIGN(LogReader reader, LogReader::make(patterns));
    all.push_back({own.log, std::move(reader)});
    return all;
  }
  for (const Trainer& trainer : trainers()) {
    if (!own.log.empty() && trainer.name != own.log) continue;
    auto patterns = log_patterns(trainer.name);
    SHARDSWEEP_ASSIGN(LogReader reader, LogReader::make(patterns));
    all.push_back({std::string(trainer.name), std::move(reader), std::move(patterns)});
  }
  if (!all.empty()) return all;
  return fault(FaultKind::invalid_input, unknown_trainer(own.log));
}

/// Reads a line. The rest of an overlong one is passed over: a log may be one endless line.
bool next_line(std::istream& in, std::string& line) {
  line.resize(longest_log_line);
  in.getline(line.data(), static_cast<std::streamsize>(line.size()));
  const auto count = in.gcount();
  if (in.bad() || (in.eof() && count == 0)) return false;
  const bool cut = in.fail();
  line.resize(line.find('\0') == std::string::npos ? line.size() : line.find('\0'));
  if (cut && !in.eof()) {
    in.clear();
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return true;
}

// Bytes of a log that are read: of a longer one its beginning and its end.
constexpr std::size_t most_of_log = std::size_t{64} << 20;

/// Offset at which the part ends that is left out of a log; 0: all of it is read.
std::streamoff end_of_gap(const std::string& file) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(file, error);
  const std::uintmax_t size = is_file ? std::filesystem::file_size(file, error) : 0;
  return error || size <= most_of_log ? 0 : static_cast<std::streamoff>(size - most_of_log / 4 * 3);
}

/// Goes on behind the gap once the beginning has been read.
void pass_gap(std::istream& in, std::streamoff& gap, const std::string& file) {
  constexpr std::size_t beginning = most_of_log / 4;
  if (gap == 0 || in.tellg() < static_cast<std::streamoff>(beginning)) return;
  say("{}: its first {} MiB and its last {} MiB are read, and the {:.0f} MiB between them are not.",
      file, beginning >> 20U, 3 * beginning >> 20U,
      static_cast<double>(gap - in.tellg()) / (1U << 20U));
  in.seekg(gap);
  in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  gap = 0;
}

std::size_t numbers_in(const TrainerLog& log) {
  std::size_t count = log.steps.empty() ? 0 : log.facts.size();
  for (const LoggedStep& step : log.steps)
    count += step.values.size();
  return count;
}

/// The reader that understood most of it. Of two that understood the same, the one on which the
/// other is built.
std::pair<std::string, TrainerLog> best_reading(const std::vector<Candidate>& all) {
  const Candidate* best = &all.front();
  for (const Candidate& one : all) {
    const auto more = numbers_in(one.reader.finish());
    const auto most = numbers_in(best->reader.finish());
    if (more > most || (more == most && best->is_on(one))) best = &one;
  }
  return {best->name, best->reader.finish()};
}

Result<std::int64_t> number(const std::string& text, std::string_view option) {
  if (text.empty()) return 0;
  const auto read =
      config::parse_count(text, {1, std::numeric_limits<std::int64_t>::max(), option});
  if (!read) return fault(FaultKind::invalid_input, read.error());
  return *read;
}

Result<ExpectedRun> expected_of(const ReadLogOptions& own) {
  ExpectedRun run;
  SHARDSWEEP_ASSIGN(run.gpus, number(own.gpus, "--gpus"));
  SHARDSWEEP_ASSIGN(run.seq_len, number(own.seq_len, "--seq-len"));
  SHARDSWEEP_ASSIGN(run.tokens_per_step, number(own.batch_tokens, "--batch-tokens"));
  SHARDSWEEP_ASSIGN(run.vocab, number(own.vocab, "--vocab"));
  return run;
}

Value value_of(const std::optional<double>& value) {
  return value ? Value(*value) : Value();
}

Table table_of(std::string_view trainer, const LogMeasurement& found) {
  Table table;
  std::vector<Value> row;
  const auto add = [&](const char* column, Value value) {
    table.columns.emplace_back(column);
    row.push_back(std::move(value));
  };
  add("trainer", std::string(trainer));
  add("steps", found.steps);
  add("train_step_ms", value_of(found.train_step_ms));
  add("train_step_ms_spread", value_of(found.train_step_ms_spread));
  add("tokens_per_s_per_gpu", value_of(found.tokens_per_s_per_gpu));
  add("tflops_per_gpu", value_of(found.tflops_per_gpu));
  add("peak_allocated_bytes", value_of(found.allocated_bytes));
  add("peak_reserved_bytes", value_of(found.reserved_bytes));
  add("first_loss", value_of(found.first_loss));
  add("last_loss", value_of(found.last_loss));
  add("resolution", found.resolution);
  table.rows.push_back(std::move(row));
  return table;
}

void say_resolution(const LogMeasurement& found) {
  constexpr double coarse = 0.001;
  if (found.resolution < coarse) return;
  say("The log's numbers are rounded: differences below {:.1f} % can't be seen.",
      200 * found.resolution);
}

/// "train.log:124: " of the first line with such a quote; empty if none has it as it stands.
std::string place_of(const std::vector<std::string>& files, std::string_view quote) {
  constexpr std::size_t telling = 60;
  if (quote.starts_with("… ")) quote.remove_prefix(4);
  const std::string_view words = quote.substr(0, std::min(quote.find(" …"), telling));
  for (const std::string& file : files) {
    std::int64_t line = 0;
    std::int64_t found = 0;
    const auto read = each_log_line(file, [&](std::string_view text) {
      ++line;
      if (found == 0 && text.find(words) != std::string_view::npos) found = line;
    });
    if (read && found > 0) return fmt::format("{}:{}: ", file, found);
  }
  return "";
}

/// Remedy of a cause; one for its kind if it has none.
std::string_view next_step(const LogFinding& finding) {
  if (!finding.remedy.empty()) return finding.remedy;
  if (finding.strength == Strength::hint)
    return "this line does not say why: read the lines around it, and logs of other ranks";
  if (finding.strength == Strength::symptom)
    return "read the log of the rank or process that failed first: this line only follows from it";
  if (!finding.unknown.empty())
    return "read the traceback that ends with this line; `classify` can name its cause";
  switch (finding.outcome) {
    case Outcome::oom:
      if (finding.strength == Strength::fact)
        return "host memory ran out: ask for more (--mem), or use fewer data workers or less "
               "offload";
      return "take a layout that needs less memory: a smaller micro-batch, recomputation, more "
             "GPUs";
    case Outcome::comm_error:
      return "see which rank or node did not answer, and read its own log";
    case Outcome::node_failure:
      return "run elsewhere, and tell whoever looks after this node";
    case Outcome::preempted:
      return "start it again: its nodes were taken back, and the run is not to blame";
    case Outcome::rejected:
      return "correct what this line names; started again unchanged, it fails the same way";
    default:
      return "read the traceback or the lines above this one: they tell where it happened";
  }
}

/// Verdict of the ends of the logs on a run that failed: its outcome, whose fault it was, the line
/// and what to do. Empty: no error was found, or in a run that was `measured` no more than a hint.
std::string failure_in(const std::vector<std::string>& files, bool measured) {
  std::string text;
  for (const std::string& file : files)
    text += file_ends(file, most_of_log / files.size()).text + "\n";
  const auto finding = find_cause(text, {});
  if (!finding || (measured && finding->strength == Strength::hint)) return "";
  std::string told = fmt::format("the run failed: {}", name(finding->outcome));
  const std::string_view whose = word_of(finding->whose);
  if (finding->rule.empty())
    told +=
        fmt::format(" ({}; no rule matches, so it counts against the {})", finding->unknown, whose);
  else
    told += fmt::format(" ({}; {} of the {})", finding->rule,
        finding->strength == Strength::hint ? "most likely a fault" : "fault", whose);
  told += "\n  " + place_of(files, finding->line) + finding->line;
  if (const auto next = next_step(*finding); !next.empty())
    told += fmt::format("\n  next: {}", next);
  return told;
}

constexpr std::string_view pattern_hint =
    "\n  next: name its trainer (--log), or write how its lines read: --pattern 'step {iteration} "
    "took {step_ms} ms'";

Result<ExitCode> run_read_log(const Session& session) {
  const Options& options = session.options;
  const auto& own = options.of<ReadLogOptions>();
  if (options.names.empty())
    return fault(FaultKind::invalid_input,
        "read-log: name a log. `shardsweep trainers` lists the trainers.");
  SHARDSWEEP_ASSIGN(const ExpectedRun expected, expected_of(own));
  SHARDSWEEP_ASSIGN(auto all, candidates_of(own));
  for (const std::string& file : options.names)
    SHARDSWEEP_TRY(each_log_line(file, [&](std::string_view line) {
      for (Candidate& one : all)
        one.reader.read(line);
    }));
  const auto [trainer, log] = best_reading(all);
  const JudgedLog judged = judge_log(log, expected);
  const LogMeasurement& found = judged.measurement;
  const bool measured =
      judged.faults.empty() && (found.train_step_ms || found.tokens_per_s_per_gpu);
  const std::string failure = failure_in(options.names, measured);
  if (!failure.empty() && log.steps.empty())
    return fault(FaultKind::rejected,
        failure +
            "\nno measurement: the run failed, and its log has no train step that could be read");
  if (!measured)
    return fault(FaultKind::rejected, "{}{}no measurement: {}{}", failure,
        failure.empty() ? "" : "\n",
        fmt::join(judged.faults.empty() ? judged.notes : judged.faults, "\n"),
        log.steps.empty() && own.patterns.empty() ? pattern_hint : "");
  if (!failure.empty()) say(failure);
  for (const std::string& note : judged.notes)
    say(note);
  say_resolution(judged.measurement);
  return print_table(table_of(trainer, judged.measurement),
      table_style(session,
          {"trainer", "tokens_per_s_per_gpu", "train_step_ms", "peak_allocated_bytes", "steps"}));
}

}  // namespace

Result<void> each_log_line(
    const std::string& file, const std::function<void(std::string_view)>& take) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  // A folder opens, and its first read fails.
  if (!in || (in.peek() == std::ifstream::traits_type::eof() && in.bad()))
    return fault(FaultKind::invalid_input, "'{}' can't be read", file);
  bool any = false;
  std::streamoff gap = end_of_gap(file);
  while (next_line(in, line)) {
    // A copy of a log that was cut may end within a number.
    if (any && in.eof()) break;
    any = true;
    // Lines end at \r, too, as an agent reads them: a progress bar ends its lines by it.
    for (const std::string_view part : split(line, '\r'))
      take(part);
    pass_gap(in, gap, file);
  }
  return {};
}

extern const Command command_read_log{.name = "read-log",
    .help = "Read speed and memory out of a log, or why its run failed.",
    .examples = "shardsweep read-log train.log --gpus 64",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<ReadLogOptions>();
          Words names;
          for (const Trainer& trainer : trainers())
            names.emplace_back(trainer.name);
          grammar.option("files", grammar.options().names, "FILE",
              "Logs of one run, such as those of its ranks.");
          grammar
              .option("--log", own.log, "TRAINER",
                  "Trainer that wrote the log, or a trainer's file of yours (./mine.yaml). "
                  "Default: found out.")
              .offers(names);
          grammar
              .option("--pattern", own.patterns, "PATTERN",
                  "Your own pattern, such as 'step {iteration} took {step_ms} ms'; * is any text. "
                  "Repeatable.")
              .one_at_a_time();
          grammar.option(
              "--gpus", own.gpus, "N", "GPUs of the run, where the log leaves them out.");
          grammar.option("--seq-len", own.seq_len, "TOKENS", "Tokens per sample.");
          grammar.option("--batch-tokens", own.batch_tokens, "TOKENS", "Tokens per train step.");
          grammar.option(
              "--vocab", own.vocab, "N", "Entries of the vocabulary, to check the first loss.");
          grammar.format();
        },
    .run = run_read_log,
    .database = false};

}  // namespace shardsweep
