// SPDX-License-Identifier: Apache-2.0
// trainers: what is known of each; trainers check: what a trainer's file says, tried on layouts and
// on a log before anything runs.
#include "trainer/trainers.hpp"

#include "cli/command.hpp"
#include "cli/commands/read_log.hpp"
#include "cli/emitting.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/cell_text.hpp"
#include "show/column.hpp"
#include "sweep/layout_text.hpp"
#include "text/characters.hpp"
#include "text/expression.hpp"
#include "text/numbers.hpp"
#include "text/placeholders.hpp"
#include "trainer/configuration.hpp"
#include "trainer/judge_log.hpp"
#include "trainer/point_words.hpp"
#include "trainer/trainer_file.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/model.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

Result<ExitCode> list_trainers(const Session& session) {
  Table table;
  table.columns = {"trainer", "versions", "printed_by", "resolution", "set", "one_gpu"};
  for (const Trainer& one : trainers()) {
    const std::string versions =
        one.from.empty() ? "any" : fmt::format("{} {} to {}", one.title, one.from, one.to);
    const FakeWorld& fake = one.fake;
    table.rows.push_back({one.name, versions, one.prints, one.resolution, one.advice,
        !fake.flag.empty()           ? fake.flag
            : !fake.variable.empty() ? fake.variable
                                     : std::string("none")});
  }
  return print_table(table, table_style(session));
}

/// One thing that a file says or does not say.
struct FileFinding {
  std::string part;  ///< axis, reads, model, rule, layout, log
  std::string name;
  std::string state;
  std::string how;
  bool is_wrong = false;
};

/// One reason of many that differ by their numbers alone.
std::string without_numbers(std::string_view why) {
  std::string text;
  for (const char c : why) {
    if (!is_digit(c))
      text += c;
    else if (!text.ends_with('N'))
      text += 'N';
  }
  return text;
}

class FileCheck {
 public:
  FileCheck(std::string name, const TrainerFile& file, ModelSpec model)
      : name_(std::move(name)), file_(file), model_(std::move(model)) {}

  std::vector<FileFinding> check() {
    if (file_.layout.form != WordsForm::none) add_axes();
    add_other_words();
    if (!file_.start.rest.empty()) add_model();
    for (const TrainerRule& rule : file_.rules)
      said_.push_back({"rule", rule.when, "left out", rule.why});
    if (file_.layout.form != WordsForm::none) add_layouts();
    return std::move(said_);
  }

 private:
  [[nodiscard]] bool is_told(const AxisInfo& axis) const {
    const auto& words = file_.layout.words;
    const auto& reads = file_.layout.reads;
    return std::any_of(words.begin(), words.end(),
               [&](const LayoutWord& word) { return word.axis == axis.name; }) ||
        std::any_of(reads.begin(), reads.end(),
            [&](const LayoutReading& line) { return line.name == axis.name; });
  }
  void add_axes() {
    for (const AxisInfo& axis : axis_table) {
      const auto usual = axis_text_of(TrainerLayout(), axis);
      std::vector<std::string> texts;
      for (const LayoutWord& word : file_.layout.words)
        if (word.axis == axis.name) texts.push_back(word.text);
      if (!usual && texts.empty()) continue;
      const bool follows = axis.name == "dp" || axis.name == "grad_accum";
      if (is_told(axis))
        said_.push_back({"axis", std::string(axis.name), "told",
            texts.empty() ? "by other words" : fmt::format("{}", fmt::join(texts, " "))});
      else
        said_.push_back({"axis", std::string(axis.name), follows ? "follows" : "has no word",
            follows ? "from the other numbers" : fmt::format("{} alone", *usual)});
    }
  }

  /// Names that lines of `reads` give no value: other words of the configuration, or a slip of the
  /// pen, after which the line is passed over.
  void add_other_words() {
    std::set<std::string, std::less<>> known{"gpus", "true", "false", std::string(batch_name)};
    for (const LayoutWord& word : file_.layout.words) {
      known.insert(bare_name(word.word));
      known.insert(bare_name(file_.layout.name_of(word)));
    }
    for (const AxisInfo& axis : axis_table)
      known.emplace(axis.name);
    for (const LayoutReading& line : file_.layout.reads)
      known.insert(line.name);
    for (const LayoutReading& line : file_.layout.reads) {
      auto names = placeholders_in(line.text);
      if (const auto more = names_of_expression(line.when); more && !line.when.empty())
        names.insert(names.end(), more->begin(), more->end());
      for (std::string_view name : names) {
        for (const std::string_view asks : {asks_if_there, asks_if_on})
          if (name.starts_with(asks)) name.remove_prefix(asks.size());
        if (known.emplace(name).second)
          said_.push_back({"reads", std::string(name), "looked for",
              "neither an axis nor a word or line above"});
      }
    }
  }

  void add_model() {
    const auto names = placeholders_in(file_.start.rest);
    for (const ShapeField& field : shape_fields) {
      const bool told = std::find(names.begin(), names.end(), field.name) != names.end();
      if (told || file_.start.has_recipes() || field.name == "heads" || field.name == "hidden")
        said_.push_back({"model", std::string(field.name),
            told                            ? "told"
                : file_.start.has_recipes() ? "in a recipe"
                                            : "not told",
            ""});
    }
  }

  /// Layouts by chance, always the same ones; how many of them are left out, by the reason.
  void add_layouts() {
    constexpr int most_tried = 400;
    constexpr int layouts = 20;
    std::map<std::string, std::int64_t> left_out;
    for (int tried = 0, written = 0; tried < most_tried && written < layouts; ++tried) {
      const Point point = random_point();
      const auto text = configuration_of_point(name_, point, model_);
      if (text) {
        add_layout(point, *text);
        ++written;
      } else {
        ++left_out[without_numbers(text.error().what)];
      }
    }
    for (const auto& [why, count] : left_out)
      said_.push_back({"layout", counted(count, "layout"), "left out", why});
  }
  Point random_point() {
    Point point;
    point.seq_len = 2048;
    for (const AxisInfo& axis : axis_table) {
      const bool plain = !axis.of_layout() || axis.name == "overlap" || !is_told(axis);
      if ((plain && axis.name != "dp" && axis.name != "grad_accum") || pick(2) == 0) continue;
      if (axis.kind == AxisKind::word)
        axis.set(point, pick(static_cast<std::int64_t>(axis.words.size())));
      else if (axis.kind == AxisKind::toggle || axis.name == "zero")
        axis.set(point, pick(axis.kind == AxisKind::toggle ? 2 : 4));
      else
        axis.set(point, std::int64_t{1} << pick(4));
    }
    if (point.layout.tp == 1) point.layout.sequence_parallel = false;
    return point;
  }
  std::int64_t pick(std::int64_t count) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count));
  }
  void add_layout(const Point& point, const std::string& text) {
    const TrainerLayout layout = layout_of_point(point, model_);
    const auto again = read_and_written(text, layout);
    const bool same = again && *again == text;
    std::string how = on_one_line(text);
    if (!again) how += " -> " + again.error().what;
    if (again && !same) how += " -> " + on_one_line(*again);
    said_.push_back({"layout", layout_text(layout), same ? "read back" : "READ AS ANOTHER",
        std::move(how), !same});
  }
  /// The words of what is read in these words.
  [[nodiscard]] Result<std::string> read_and_written(
      std::string_view text, const TrainerLayout& layout) const {
    SHARDSWEEP_ASSIGN(TrainerLayout read, layout_of(name_, text, layout.gpus()));
    // No configuration says these of the model.
    read.layers = layout.layers;
    read.experts = layout.experts;
    return configuration_of(name_, read);
  }

  std::string name_;
  const TrainerFile& file_;
  ModelSpec model_;
  std::vector<FileFinding> said_;
  std::minstd_rand random_{1};
};

/// Findings about a log: the lines that each pattern reads, and what is measured by all of them.
Result<std::vector<FileFinding>> check_log(const TrainerFile& file, const std::string& log) {
  struct Pattern {
    CapturePattern capture;
    std::int64_t lines = 0;
    std::string first{};
  };
  std::vector<Pattern> patterns;
  for (const std::string& text : file.patterns) {
    SHARDSWEEP_ASSIGN(auto capture, CapturePattern::parse(text));
    patterns.push_back({std::move(capture)});
  }
  const std::vector<std::string_view> texts(file.patterns.begin(), file.patterns.end());
  SHARDSWEEP_ASSIGN(LogReader reader, LogReader::make(texts));
  std::int64_t number = 0;
  SHARDSWEEP_TRY(each_log_line(log, [&](std::string_view line) {
    ++number;
    reader.read(line);
    for (Pattern& pattern : patterns) {
      const auto found = pattern.capture.capture(line);
      if (found.empty() || ++pattern.lines > 1) continue;
      pattern.first = fmt::format("line {}:", number);
      for (const auto& [key, printed] : found)
        pattern.first += fmt::format(" {}={}", key, printed.value);
    }
  }));
  std::vector<FileFinding> said;
  for (std::size_t i = 0; i < patterns.size(); ++i)
    said.push_back(
        {"log", file.patterns[i], counted(patterns[i].lines, "line"), patterns[i].first});
  const JudgedLog judged = judge_log(reader.finish(), {});
  const LogMeasurement& found = judged.measurement;
  const bool measured =
      judged.faults.empty() && (found.train_step_ms || found.tokens_per_s_per_gpu);
  const auto& why = judged.faults.empty() ? judged.notes : judged.faults;
  said.push_back({"log", log, measured ? "measured" : "NO MEASUREMENT",
      !measured ? fmt::format("{}", fmt::join(why, " "))
          : found.tokens_per_s_per_gpu
          ? fmt::format("{} timed, {:.0f} tokens/s/GPU", counted(found.steps, "train step"),
                *found.tokens_per_s_per_gpu)
          : fmt::format("{} timed, {:.1f} ms each", counted(found.steps, "train step"),
                *found.train_step_ms),
      !measured});
  return said;
}

/// Text for people, in whole lines whatever the terminal's width, since words of a layout are long.
std::string said_text(const std::vector<FileFinding>& said) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> headings{
      {{"axis", "Axes"}, {"reads", "Other words that it reads"}, {"model", "Model"},
          {"rule", "Layouts that it does not start"}, {"layout", "Layouts in its words"},
          {"log", "Log"}}};
  std::string text;
  for (const auto& [part, heading] : headings) {
    std::string lines;
    std::vector<std::string> alone;  // names that need no line of their own
    for (const FileFinding& one : said) {
      if (one.part != part) continue;
      if (one.state == "has no word")
        alone.push_back(fmt::format("{} ({})", one.name, one.how));
      else if (one.how.empty())
        alone.push_back(fmt::format("{} {}", one.name, one.state));
      else
        lines +=
            fmt::format("  {}\n    {}: {}\n", printable(one.name), one.state, printable(one.how));
    }
    if (!alone.empty())
      lines += fmt::format("  {}{}\n", part == "axis" ? "no word: " : "", fmt::join(alone, ", "));
    if (!lines.empty()) text += fmt::format("{}\n{}", heading, lines);
  }
  return text;
}

Result<ExitCode> check_trainer(const Session& session) {
  const auto& names = session.options.names;
  if (names.size() < 2 || names.size() > 3)
    return fault(FaultKind::invalid_input,
        "trainers check takes a trainer's file, and a log of it if there is one");
  const std::string& name = names[1];
  if (own_trainer_file(name).empty() && find_trainer(name) == nullptr)
    return fault(FaultKind::invalid_input, unknown_trainer(name));
  if (!own_trainer_file(name).empty()) {
    SHARDSWEEP_ASSIGN(TrainerFile own, load_trainer(name));
    add_trainer_file(name, std::move(own));
  }
  const TrainerFile& file = trainer_file(name);
  SHARDSWEEP_ASSIGN(const ModelSpec model, load_model("llama-3-8b", session.installation.presets));
  auto said = FileCheck(name, file, model).check();
  if (names.size() == 3) {
    SHARDSWEEP_ASSIGN(const auto of_log, check_log(file, names[2]));
    said.insert(said.end(), of_log.begin(), of_log.end());
  }
  const View<FileFinding> view{{"part", [](const FileFinding& one) { return one.part; }},
      {"name", [](const FileFinding& one) { return one.name; }},
      {"state", [](const FileFinding& one) { return one.state; }},
      {"how", [](const FileFinding& one) { return one.how; }}};
  const TableStyle style = table_style(session);
  SHARDSWEEP_TRY(
      print_result(style.format == Format::table ? said_text(said) : view_text(view, said, style)));
  const auto wrong =
      std::count_if(said.begin(), said.end(), [](const FileFinding& one) { return one.is_wrong; });
  if (file.layout.form == WordsForm::none)
    say("{} has no sections 'layout' and 'words': --emit and --from-args can't use it.", name);
  if (wrong > 0)
    say("{} of these {} wrong: words in capitals mark {}.", wrong, wrong == 1 ? "is" : "are",
        wrong == 1 ? "it" : "them");
  return wrong > 0 ? ExitCode::failed : ExitCode::done;
}

Result<ExitCode> run_trainers(const Session& session) {
  const auto& names = session.options.names;
  if (names.empty()) return list_trainers(session);
  if (names.front() == "check") return check_trainer(session);
  return fault(FaultKind::invalid_input,
      "'{}' is not 'check'. 'shardsweep trainers check {}' tries a trainer's file.", names.front(),
      names.front());
}

}  // namespace

extern const Command command_trainers{.name = "trainers",
    .help = "List known trainers, or check a trainer's file of yours.",
    .examples =
        "shardsweep trainers\n"
        "shardsweep trainers check ./mine.yaml train.log",
    .declare =
        [](Grammar& grammar) {
          grammar.option("words", grammar.options().names, "check FILE LOG",
              "With check: a trainer's file, or a trainer that is known, is tried on 20 layouts; "
              "and on a log, if one is named.");
          grammar.format();
        },
    .run = run_trainers,
    .database = false};

}  // namespace shardsweep
