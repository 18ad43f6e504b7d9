// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainer_file.hpp"

#include "builtin/files.hpp"
#include "text/characters.hpp"
#include "text/expression.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"
#include "text/placeholders.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/sweep.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::string_view folder = "sweeps/trainers/";
constexpr std::string_view ending = ".yaml";

/// Names of the files that are built in.
const std::vector<std::string_view>& served() {
  static const auto names = [] {
    std::vector<std::string_view> all;
    for (const builtin::File& file : builtin::files()) {
      std::string_view name = file.path;
      if (!name.starts_with(folder) || !name.ends_with(ending)) continue;
      name.remove_prefix(folder.size());
      name.remove_suffix(ending.size());
      all.push_back(name);
    }
    std::sort(all.begin(), all.end());
    return all;
  }();
  return names;
}
TrainerFile read_built_in(std::string_view trainer);

template <class Item>
void append(std::vector<Item>& to, const std::vector<Item>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Section {
  std::string_view name;
  SectionKind kind;
};
/// Keys of sections that are no plain texts.
struct OtherKey {
  std::string_view section, key;
};
constexpr auto other_keys =
    std::to_array<OtherKey>({{"layout", "form"}, {"layout", "also_read"}, {"prints", "unprinted"},
        {"start", "spreads_experts"}, {"start", "without"}, {"start", "recipes"}});
/// Sections of habits, whose keys are those of trainer/habits.hpp.
constexpr auto habit_sections =
    std::to_array<std::string_view>({"planner", "planner_least", "profile"});
constexpr std::string_view like = "like";
constexpr auto sections = std::to_array<Section>({{"title", SectionKind::text},
    {"versions", SectionKind::maps}, {"prints", SectionKind::maps}, {"alone", SectionKind::maps},
    {"snapshot", SectionKind::maps}, {"trees", SectionKind::maps}, {"log", SectionKind::list},
    {"log_of", SectionKind::text}, {"rules", SectionKind::maps}, {"rules_of", SectionKind::text},
    {"refuses", SectionKind::maps}, {"refuses_of", SectionKind::text},
    {"copies_kv_heads", SectionKind::text}, {"ends_count_as_layers", SectionKind::text},
    {"tested", SectionKind::maps}, {"layout", SectionKind::maps}, {"values", SectionKind::list},
    {"words", SectionKind::list}, {"lacks", SectionKind::list}, {"reads", SectionKind::list},
    {"also", SectionKind::list}, {"start", SectionKind::maps}, {"planner", SectionKind::map},
    {"planner_least", SectionKind::map}, {"profile", SectionKind::map}});

/// Fills a TrainerFile value by value. What is wrong is noted, and left out.
class FileReader {
 public:
  explicit FileReader(std::vector<TrainerMistake>& mistakes) : mistakes_(mistakes) {
    for (const AxisInfo& axis : axis_table)
      names_.emplace_back(axis.name);
    for (const std::string_view name : {"experts", "layers", "global_batch"})
      names_.emplace_back(name);
  }

  /// Keys of a section of maps, or of the lines of `reads` that are more than a name and a text.
  std::vector<std::string_view> keys_of(std::string_view section) {
    if (is_one_of(section, habit_sections)) return habits_of(section);
    section_ = section;
    begin_item();
    std::vector<std::string_view> all;
    for (const auto& [name, field] : fields())
      all.push_back(name);
    for (const OtherKey& other : other_keys)
      if (other.section == section) all.push_back(other.key);
    return all;
  }

  TrainerFile read(std::span<const TableValue> values) {
    for (; at_ < values.size(); ++at_)
      take(values[at_]);
    read_family(values);
    for (const TrainerRule& rule : file_.rules) {
      if (rule.when.empty()) note({rule.at, Blamed::item, "missing key 'when' in a rule"});
      if (rule.why.empty()) note({rule.at, Blamed::item, "missing key 'why' in a rule"});
    }
    check_start();
    file_.layout.deciding = deciding_words(file_.layout);
    return std::move(file_);
  }

 private:
  /// A start without {hidden} trains one model under all names, unless it has a recipe for each.
  void check_start() {
    const TrainerStart& start = file_.start;
    const auto names = placeholders_in(start.rest);
    if (start.rest.empty() || !start.recipes.empty() || is_one_of("hidden", names)) return;
    note({start_at_, Blamed::key,
        "names no {hidden}, and 'start' has no 'recipes': every model would be trained as the same "
        "one"});
  }

  void note(TrainerMistake mistake) { mistakes_.push_back(std::move(mistake)); }
  void note(std::string what, Blamed blamed = Blamed::value) {
    note({at_, blamed, std::move(what)});
  }
  void note_unknown(std::string_view what, std::string_view name, std::string_view where,
      const std::vector<std::string_view>& known) {
    const std::string meant = did_you_mean(name, known);
    const std::string all = fmt::format(" in {}; there are {}", where, fmt::join(known, ", "));
    note(fmt::format("unknown {} {}{}", what, in_quotes(name), meant.empty() ? all : meant),
        Blamed::key);
  }
  void note_unknown_section() {
    std::vector<std::string_view> known;
    known.reserve(sections.size());
    for (const Section& section : sections)
      known.push_back(section.name);
    note_unknown("key", section_, "a trainer's file", known);
  }
  void note_fault(const Result<void>& checked) {
    if (!checked) note(checked.error().what);
  }

  void take(const TableValue& value) {
    section_ = value.section;
    const auto* section = std::find_if(
        sections.begin(), sections.end(), [&](const Section& one) { return one.name == section_; });
    const bool is_head = value.key.empty() && !value.fresh;
    if (section == sections.end()) {
      if (is_head) note_unknown_section();
      return;
    }
    const bool is_text = section->kind == SectionKind::text;
    if (is_head) {
      if (is_text)
        begin(value.text);
      else if (!value.text.empty())
        note(section->kind == SectionKind::list ? "expected a list" : "expected a map");
    } else if (section_ == "log" || section_ == "also") {
      (section_ == "log" ? file_.patterns : file_.layout.also).push_back(value.text);
    } else if (is_text || value.key.empty() || (section->kind == SectionKind::map && value.fresh)) {
      note(is_text ? "expected a text" : "expected a map");
    } else if (is_one_of(section_, habit_sections)) {
      check_habit(value.key);
    } else if (section_ == "words") {
      add_word(value.key, value.text);
    } else if (section_ == "values") {
      note_fault(check_placeholders(value.text, known_names()));
      file_.layout.values.push_back({std::string(value.key), value.text});
      names_.emplace_back(value.key);
    } else if (section_ == "lacks") {
      check_condition(value.text, true);
      file_.layout.lacks.push_back({std::string(value.key), value.text});
    } else if (section_ == "reads" && value.fresh && value.key != "when") {
      note_fault(check_placeholders(value.text, placeholders_in(value.text)));
      file_.layout.reads.push_back({.name = std::string(value.key), .text = value.text});
    } else {
      set(value.key, value.text, value.fresh);
    }
  }

  void begin(const std::string& value) {
    if (section_ == "title") {
      file_.about.title = value;
    } else if (section_ == "copies_kv_heads") {
      set_flag(file_.copies_kv_heads, value);
    } else if (section_ == "ends_count_as_layers") {
      set_flag(file_.ends_count_as_layers, value);
    } else if (!is_one_of(value, served())) {
      note(fmt::format(
          "no trainer is called {}{}", in_quotes(value), did_you_mean(value, served())));
    } else if (section_ == "rules_of") {
      for (TrainerRule rule : read_built_in(value).rules) {
        rule.at = at_;
        file_.rules.push_back(std::move(rule));
      }
    } else if (section_ == "refuses_of") {
      append(file_.refuses, read_built_in(value).refuses);
    } else {
      file_.log_of = value;
    }
  }

  [[nodiscard]] std::vector<std::string_view> known_names() const {
    return {names_.begin(), names_.end()};
  }
  void check_condition(std::string_view condition, bool of_layout) {
    const auto names = names_of_expression(condition);
    if (!names) return note(names.error().what);
    for (const std::string_view name : *names)
      if (of_layout && !is_one_of(name, known_names()))
        note(fmt::format("unknown name {}{}", in_quotes(name), did_you_mean(name, known_names())));
  }

  void add_word(std::string_view key, const std::string& text) {
    LayoutWord word = layout_word(key, text);
    std::vector<std::string_view> axes{batch_name};
    for (const AxisInfo& axis : axis_table)
      axes.push_back(axis.name);
    if (!is_one_of(word.axis, axes)) return note_unknown("axis", word.axis, "'words'", axes);
    note_fault(check_placeholders(text, known_names()));
    file_.layout.words.push_back(std::move(word));
  }

  static std::vector<std::string_view> habits_of(std::string_view section) {
    if (section != "planner") return habits_of_memory();
    auto keys = habits_of_families();
    keys.push_back(like);
    return keys;
  }
  void check_habit(std::string_view key) {
    const auto keys = habits_of(section_);
    if (!is_one_of(key, keys)) note_unknown("key", key, in_quotes(section_), keys);
  }
  /// Calls `one` for the values of a section; it returns what is wrong with one, if anything.
  template <class One>
  void each_habit(std::span<const TableValue> values, std::string_view section, const One& one) {
    for (at_ = 0; at_ < values.size(); ++at_) {
      const TableValue& value = values[at_];
      if (value.section != section || value.key.empty()) continue;
      if (std::optional<std::string> mistake = one(value)) note(*std::move(mistake));
    }
  }
  /// Reads keys in any order: first the family that it is like, then its differences, then its
  /// best.
  void read_family(std::span<const TableValue> values) {
    auto& family = file_.family;
    each_habit(values, "planner", [&](const TableValue& value) -> std::optional<std::string> {
      if (!family) family.emplace();
      if (value.key != like) return std::nullopt;
      auto other = is_one_of(value.text, served()) ? read_built_in(value.text).family
                                                   : std::optional<Family>();
      if (!other)
        return fmt::format("no trainer {} has a section 'planner'", in_quotes(value.text));
      family = like_another(*std::move(other));
      return std::nullopt;
    });
    each_habit(values, "planner", [&](const TableValue& value) {
      if (family->least) set_habit(*family->least, value.key, value.text);
      return set_habit(*family, value.key, value.text);
    });
    each_habit(values, "planner_least", [&](const TableValue& value) {
      if (!family) return std::optional<std::string>("needs a section 'planner'");
      if (!family->least) family->least = family->memory;
      return set_habit(*family->least, value.key, value.text);
    });
    each_habit(values, "profile", [&](const TableValue& value) {
      file_.profile.push_back({std::string(value.key), value.text});
      MemoryFamily any;
      return set_habit(any, value.key, value.text);
    });
  }
  /// Copy of a family under a name of its own, which counts as unmeasured.
  static Family like_another(Family family) {
    const Family unnamed;
    family.name = family.trainer = family.title = unnamed.name;
    family.fitted_to = unnamed.fitted_to;
    family.usual_on = unnamed.usual_on;
    return family;
  }

  void begin_item() {
    if (section_ == "rules") file_.rules.push_back({.at = at_});
    if (section_ == "refuses") file_.refuses.emplace_back();
    if (section_ == "trees") file_.trees.emplace_back();
    if (section_ == "tested") file_.tested.emplace_back();
    if (section_ == "reads") file_.layout.reads.emplace_back();
  }
  void set(std::string_view key, const std::string& value, bool fresh) {
    if (fresh) begin_item();
    TrainerStart& start = file_.start;
    if (section_ == "start" && key == "spreads_experts") {
      set_flag(start.spreads_experts, value);
    } else if (section_ == "start" && key == "without") {
      start.has_tp = value.find("tp") == std::string::npos;
      start.has_pp = value.find("pp") == std::string::npos;
    } else if (section_ == "start" && key == "recipes") {
      read_recipes(value);
    } else if (section_ == "prints" && key == "unprinted") {
      const auto count = number_from<std::int64_t>(value);
      if (count && *count >= 0)
        file_.about.unprinted = *count;
      else
        note(fmt::format("expected a number of train steps, found {}", in_quotes(value)));
    } else if (section_ == "layout" && (key == "form" || key == "also_read")) {
      if (const auto form = form_of_words(value))
        (key == "form" ? file_.layout.form : file_.layout.also_read) = *form;
      else
        note(fmt::format(
            "no form is called {}; the forms are {}", in_quotes(value), forms_of_words));
    } else if (const auto known = fields(); known.contains(key)) {
      if (key == "when") check_condition(value, false);
      if (section_ == "start" && key == "text") start_at_ = at_;
      *known.find(key)->second = value;
    } else {
      std::vector<std::string_view> all;
      for (const auto& [name, field] : known)
        all.push_back(name);
      for (const OtherKey& other : other_keys)
        if (other.section == section_) all.push_back(other.key);
      note_unknown("key", key, in_quotes(section_), all);
    }
  }
  void set_flag(bool& flag, std::string_view value) {
    flag = value == "true";
    if (!flag && value != "false")
      note(fmt::format("expected true or false, found {}", in_quotes(value)));
  }
  void read_recipes(std::string_view text) {
    for (const std::string_view line : split(text, '\n')) {
      const auto colon = line.find(": ");
      if (colon != std::string_view::npos)
        file_.start.recipes.push_back(
            {std::string(line.substr(0, colon)), std::string(line.substr(colon + 2))});
    }
  }

  using Fields = std::map<std::string_view, std::string*>;
  /// Texts of the section, or of the item of it that was begun last.
  Fields fields() {
    Trainer& about = file_.about;
    if (section_ == "versions")
      return {{"from", &about.from}, {"to", &about.to}, {"module", &about.probe.module},
          {"files", &about.probe.files}, {"distribution", &about.probe.distribution},
          {"line", &about.probe.line}};
    if (section_ == "prints")
      return {{"by", &about.prints}, {"resolution", &about.resolution}, {"set", &about.advice}};
    if (section_ == "alone")
      return {{"flag", &about.fake.flag}, {"variable", &about.fake.variable},
          {"world", &about.fake.world}, {"why_not", &about.fake.why_not}};
    if (section_ == "snapshot")
      return {{"words", &about.snapshot.words}, {"older_word", &about.snapshot.older_word},
          {"older_words", &about.snapshot.older_words}, {"why_not", &about.snapshot.why_not}};
    if (section_ == "layout")
      return {{"ignores", &file_.layout.ignores}, {"own", &file_.layout.own}};
    if (section_ == "start") {
      TrainerStart& start = file_.start;
      return {{"written_for", &start.written_for}, {"data", &start.data}, {"zero", &start.zero},
          {"recompute", &start.recompute}, {"constants", &start.constants}, {"axes", &start.axes},
          {"text", &start.rest}};
    }
    if (section_ == "rules" && !file_.rules.empty()) {
      TrainerRule& rule = file_.rules.back();
      return {{"when", &rule.when}, {"why", &rule.why}, {"source", &rule.source}};
    }
    if (section_ == "refuses" && !file_.refuses.empty()) {
      RefusedWord& refused = file_.refuses.back();
      return {{"word", &refused.word}, {"why", &refused.why}};
    }
    if (section_ == "trees" && !file_.trees.empty()) {
      TrainerTree& tree = file_.trees.back();
      return {{"file", &tree.file}, {"word", &tree.word}, {"advice", &tree.advice}};
    }
    if (section_ == "tested" && !file_.tested.empty()) {
      TestedCommit& tested = file_.tested.back();
      return {{"commit", &tested.commit}, {"date", &tested.date}, {"ran", &tested.ran},
          {"broken", &tested.broken}};
    }
    if (section_ == "reads" && !file_.layout.reads.empty()) {
      LayoutReading& line = file_.layout.reads.back();
      return {
          {"when", &line.when}, {"why", &line.why}, {"of", &line.of}, {"without", &line.without}};
    }
    return {};
  }

  TrainerFile file_;
  std::vector<std::string> names_;  // names that texts and conditions may use
  std::vector<TrainerMistake>& mistakes_;
  std::string_view section_;
  std::size_t at_ = 0;
  std::size_t start_at_ = 0;  // place of the text of `start`
};

/// Fills open names of its family with the trainer's.
void name_family(TrainerFile& file) {
  if (!file.family) return;
  Family& family = *file.family;
  if (family.name.empty()) family.name = file.about.name;
  if (family.title.empty()) family.title = file.about.title;
  if (family.title.empty()) family.title = family.name;
  if (family.trainer.empty()) family.trainer = family.title;
  if (file.layout.form != WordsForm::none) family.words = file.about.name;
}

TrainerFile read_built_in(std::string_view trainer) {
  TrainerFile file = read_trainer_file(
      builtin::text_of(fmt::format("{}{}{}", folder, trainer, ending)).value_or(""));
  file.start.name = file.about.name = trainer;
  if (!file.log_of.empty()) {
    const auto its = read_built_in(file.log_of).patterns;
    file.patterns.insert(file.patterns.begin(), its.begin(), its.end());
  }
  name_family(file);
  return file;
}

using Files = std::map<std::string, TrainerFile, std::less<>>;
Files& all_files() {
  static Files files = [] {
    Files all;
    for (const std::string_view name : served())
      all.emplace(name, read_built_in(name));
    return all;
  }();
  return files;
}

}  // namespace

TrainerFile read_trainer_file(
    std::span<const TableValue> values, std::vector<TrainerMistake>& mistakes) {
  return FileReader(mistakes).read(values);
}
TrainerFile read_trainer_file(std::string_view yaml) {
  const auto values = read_table(yaml);
  std::vector<TrainerMistake> mistakes;
  TrainerFile file = read_trainer_file(values, mistakes);
  if (!mistakes.empty())
    throw std::invalid_argument(
        fmt::format("line {}: {}", values.at(mistakes.front().at).line, mistakes.front().what));
  return file;
}

std::vector<TrainerSection> trainer_sections() {
  std::vector<TrainerMistake> none;
  std::vector<TrainerSection> all;
  all.reserve(sections.size());
  for (const Section& section : sections)
    all.push_back({section.name, section.kind, FileReader(none).keys_of(section.name)});
  return all;
}

std::span<const std::string_view> trainers_with_files() {
  return served();
}

const TrainerFile& trainer_file(std::string_view trainer) {
  static const TrainerFile none;
  const auto found = all_files().find(trainer);
  return found == all_files().end() ? none : found->second;
}

const TrainerFile& add_trainer_file(const std::string& name, TrainerFile file) {
  file.start.name = file.about.name = name;
  if (file.family) file.family->name = name;
  name_family(file);
  return all_files().insert_or_assign(name, std::move(file)).first->second;
}

const Family* own_family(std::string_view name) {
  const TrainerFile& file = trainer_file(name);
  return file.family && !is_one_of(name, served()) ? &*file.family : nullptr;
}

std::span<const std::string_view> shardbench_profiles() {
  static const auto words = [] {
    std::vector<std::string_view> all{own_profile};
    for (const std::string_view name : served())
      if (!trainer_file(name).profile.empty()) all.push_back(name);
    return all;
  }();
  return words;
}

std::string_view rule_against(std::string_view trainer, const Placeholders& values) {
  const TextOfName text_of = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional<std::string_view>(found->second);
  };
  for (const TrainerRule& rule : trainer_file(trainer).rules) {
    const auto holds = computed(rule.when, text_of);
    if (holds && *holds == "1") return rule.why;
  }
  return {};
}

}  // namespace shardsweep
