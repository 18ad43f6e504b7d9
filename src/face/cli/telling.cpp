// SPDX-License-Identifier: Apache-2.0
#include "cli/telling.hpp"

#include "cli/emitting.hpp"
#include "sweep/layout_text.hpp"
#include "sweep/trainer_command.hpp"
#include "text/characters.hpp"
#include "text/pieces.hpp"
#include "text/placeholders.hpp"
#include "trainer/configuration.hpp"
#include "trainer/settings.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

/// Trials whose command is looked at; of more, so many that lie evenly among them.
constexpr std::size_t most_looked_at = 2048;
/// Points at which a placeholder is tried: a conditional word may hide it at one of them.
constexpr std::size_t most_tried = 8;

/// Axes of sizes. A trainer can't begin without them, under whatever label, and its log's sizes are
/// compared with the sweep's.
constexpr std::array<std::string_view, 5> sizes{
    "model", "seq_len", "dtype", "micro_batch", "grad_accum"};
static_assert(names_axes(sizes));

constexpr std::array<std::string_view, 6> degrees_and_sizes{
    "tp", "pp", "cp", "ep", "seq_len", "micro_batch"};
static_assert(names_axes(degrees_and_sizes));

bool is_in(std::span<const std::string_view> names, const AxisInfo& axis) {
  return std::find(names.begin(), names.end(), axis.name) != names.end();
}

template <class Item>
std::vector<const Item*> evenly(std::span<const Item> all, std::size_t most) {
  std::vector<const Item*> some;
  const std::size_t count = std::min(all.size(), most);
  for (std::size_t i = 0; i < count; ++i)
    some.push_back(&all[i * all.size() / count]);
  return some;
}

std::string value_text(const SweepSpec& sweep, const AxisInfo& axis, std::int64_t value) {
  if (axis.kind == AxisKind::model) return sweep.models.at(static_cast<std::size_t>(value)).name;
  return axis_text(axis, value);
}

/// Texts of a trainer. Its own reader reads either the command line or the files.
struct Words {
  std::vector<std::string> argv;
  std::vector<std::string> others;  ///< files, image and folder
  friend bool operator==(const Words&, const Words&) = default;
};

bool is_shape(std::string_view name) {
  return std::any_of(shape_fields.begin(), shape_fields.end(),
      [&](const ShapeField& field) { return field.name == name; });
}

class UntoldFinder {
 public:
  UntoldFinder(const SweepSpec& sweep, std::span<const PlannedTrial> trials)
      : sweep_(sweep), trainer_(sweep.runner.trainer), looked_at_(evenly(trials, most_looked_at)) {
    for (const AxisInfo& axis : axes()) {
      auto& values = values_.emplace_back();
      for (const PlannedTrial& trial : trials)
        values.insert(axis.get(trial.point));
    }
    for (const PlannedTrial& trial : trials) {
      const std::int64_t samples = trial.point.layout.global_batch();
      batches_.insert(samples);
      batch_tokens_.insert(samples * trial.point.seq_len);
    }
    for (const PlannedTrial* trial : evenly(trials, most_tried))
      tried_.push_back(values_at(trial->point));
    read_back();
  }

  std::vector<Untold> find() const {
    std::vector<Untold> found;
    for (const AxisInfo& axis : axes()) {
      if (axis.is(AxisUse::world)) continue;
      const auto& values = values_of(axis);
      Untold one{&axis, {values.begin(), values.end()}, contradiction(axis)};
      const bool given = is_given(axis);
      if (given || (one.said.empty() && is_told(axis) && !is_overruled(axis))) continue;
      found.push_back(std::move(one));
    }
    return found;
  }

  /// Sizes of one value that nothing in the command names, nor the user.
  std::vector<const AxisInfo*> believed() const {
    std::vector<const AxisInfo*> found;
    for (const AxisInfo& axis : axes()) {
      const auto& values = values_of(axis);
      if (!is_in(sizes, axis) || values.size() != 1 || follows(axis) || is_given(axis)) continue;
      const std::int64_t value = *values.begin();
      if (is_named_in(axis) || stands_there(axis, value)) continue;
      found.push_back(&axis);
    }
    return found;
  }

 private:
  using ReadBack = std::optional<TrainerLayout>;

  [[nodiscard]] Placeholders values_at(const Point& point) const {
    return placeholder_values(sweep_, point, "attempt", sweep_.cluster.gpus_per_node);
  }
  [[nodiscard]] const std::set<std::int64_t>& values_of(const AxisInfo& axis) const {
    return values_[static_cast<std::size_t>(&axis - axes().data())];
  }
  [[nodiscard]] bool is_single(std::string_view axis) const {
    return values_of(*find_axis(axis)).size() == 1;
  }
  /// The user says that the program does it by itself, which one value allows.
  [[nodiscard]] bool is_given(const AxisInfo& axis) const {
    return values_of(axis).size() == 1 &&
        std::find(trainer_.told.begin(), trainer_.told.end(), axis.name) != trainer_.told.end();
  }

  [[nodiscard]] Words words(const Placeholders& values) const {
    Words words{filled_words(trainer_.argv, values, DoubleBraces::make_single), {}};
    for (const auto& [name, text] : trainer_.files)
      words.others.push_back(filled(text, values, DoubleBraces::make_single));
    words.others.push_back(filled(sweep_.container.image, values, DoubleBraces::make_single));
    words.others.push_back(filled(trainer_.directory, values, DoubleBraces::make_single));
    for (const auto& [name, text] : sweep_.env)
      words.others.push_back(filled(text, values, DoubleBraces::make_single));
    return words;
  }

  /// Tells if each of these sets of placeholders, put over a point's, gives a text of its own.
  [[nodiscard]] bool tells_apart(const std::vector<Placeholders>& settings) const {
    return std::all_of(tried_.begin(), tried_.end(), [&](const Placeholders& at) {
      std::set<std::pair<std::vector<std::string>, std::vector<std::string>>> texts;
      for (const Placeholders& setting : settings) {
        Placeholders values = setting;
        values.insert(at.begin(), at.end());  // insert() keeps values that are set already
        Words said = words(values);
        texts.emplace(std::move(said.argv), std::move(said.others));
      }
      return texts.size() == settings.size();
    });
  }
  [[nodiscard]] bool tells_apart(
      std::string_view name, const std::set<std::int64_t>& values, const AxisInfo* axis) const {
    std::vector<Placeholders> settings;
    for (const std::int64_t value : values) {
      Placeholders one{{std::string(name),
          axis != nullptr ? value_text(sweep_, *axis, value) : std::to_string(value)}};
      if (axis != nullptr && axis->kind == AxisKind::model) {
        const ModelSpec& model = sweep_.models.at(static_cast<std::size_t>(value));
        for (const auto& field : shape_fields)
          one.emplace(field.name, std::to_string(model.*field.member));
      }
      settings.push_back(std::move(one));
    }
    return tells_apart(settings);
  }
  [[nodiscard]] bool is_named(std::string_view name) const {
    const AxisInfo& axis = *find_axis(name);
    return tells_apart(name, values_of(axis), &axis);
  }
  /// Tells if a word has the axis's placeholder or, of a model, one of its sizes.
  [[nodiscard]] bool is_named_in(const AxisInfo& axis) const {
    Placeholders values;
    for (auto& [name, text] : tried_.front())
      if (name != axis.name && (axis.kind != AxisKind::model || !is_shape(name)))
        values.emplace(name, text);
    return words(values) != words(tried_.front());
  }
  [[nodiscard]] bool is_known(std::string_view name) const {
    return is_single(name) || is_named(name);
  }
  [[nodiscard]] bool is_batch_known() const {
    return batches_.size() == 1 || batch_tokens_.size() == 1 ||
        tells_apart(batch_name, batches_, nullptr);
  }

  /// dp is what the other degrees leave of the world, and one of three that make a batch
  /// follows from the two others.
  [[nodiscard]] bool follows(const AxisInfo& axis) const {
    if (axis.name == "dp") return true;
    // A micro-batch that is not told is named itself.
    if (axis.name == "grad_accum") return is_batch_known();
    if (axis.name == "micro_batch") return is_known("grad_accum") && is_batch_known();
    return false;
  }

  [[nodiscard]] bool is_told(const AxisInfo& axis) const {
    const auto& values = values_of(axis);
    if (values.empty() || says_each_value(axis)) return true;
    const bool is_dtype = axis.name == "dtype";
    if (values.size() > 1)
      return (is_named(axis.name) || follows(axis)) &&
          (!is_dtype || std::all_of(values.begin(), values.end(), [&](std::int64_t value) {
            return is_usual(axis, value) || is_dtype_apart(axis, value);
          }));
    const std::int64_t value = *values.begin();
    if (axis.name == "dp" || is_usual(axis, value)) return true;
    const std::int64_t other = value != axis.default_value ? axis.default_value : value + 1;
    return (is_dtype ? is_dtype_apart(axis, value)
                     : tells_apart(axis.name, {value, other}, &axis)) ||
        stands_there(axis, value) || has_flags_of(axis, value);
  }
  /// Tells if the texts differ from those of bf16 and of fp32. If words tell bf16 alone, whatever
  /// else is asked for trains in fp32.
  [[nodiscard]] bool is_dtype_apart(const AxisInfo& axis, std::int64_t value) const {
    const std::array others{Dtype::bf16, Dtype::fp32};
    return std::all_of(others.begin(), others.end(), [&](Dtype one) {
      const auto other = static_cast<std::int64_t>(one);
      return value == other || tells_apart(axis.name, {value, other}, &axis);
    });
  }
  /// Tells if the trainer uses this value without being told, or can't begin without being told.
  [[nodiscard]] bool is_usual(const AxisInfo& axis, std::int64_t value) const {
    const LayoutWords& words = layout_words_of(trainer_.told_as());
    if (words.chooses_another(axis.name, value_text(sweep_, axis, value))) return false;
    return is_in(sizes, axis) || value == axis.default_value;
  }
  /// Tells if another setting overrules the axis. A word beside the axis's own stands there with
  /// its value, and the trainer's reader does not take it for the axis.
  [[nodiscard]] bool is_overruled(const AxisInfo& axis) const {
    const std::string text = all_words(tried_.front());
    const auto& words = layout_words_of(trainer_.told_as()).words;
    const bool has_beside = std::any_of(words.begin(), words.end(), [&](const LayoutWord& word) {
      return word.axis == axis.name && word.is_beside && word.is_as_it_stands() &&
          text.find(word.word + "=") != std::string::npos;
    });
    return has_beside && !says_each_value(axis);
  }
  /// Tells if all words that the trainer's file has for this value stand there. They are flags
  /// without a value of their own, which no reader turns into a value of the axis.
  [[nodiscard]] bool has_flags_of(const AxisInfo& axis, std::int64_t value) const {
    if (axis_text_of(TrainerLayout(), axis)) return false;  // a reader finds its value
    std::vector<std::string> flags;
    for (const LayoutWord& word : layout_words_of(trainer_.told_as()).words)
      if (word.axis == axis.name && !word.condition.empty()) flags.push_back(word.text);
    const Placeholders values{{std::string(axis.name), value_text(sweep_, axis, value)}};
    flags = filled_words(flags, values, DoubleBraces::keep);
    const std::string text = all_words(tried_.front());
    return !flags.empty() && std::all_of(flags.begin(), flags.end(), [&](std::string_view flag) {
      return text.find(flag.substr(0, flag.find('='))) != std::string::npos;
    });
  }

  [[nodiscard]] std::string all_words(const Placeholders& values) const {
    const Words said = words(values);
    std::string text = fmt::format("{}", fmt::join(said.argv, "\n"));
    for (const auto& other : said.others)
      text += "\n" + other;
    return text;
  }
  /// A word of the command or of a file that is called as the axis is, with this value.
  [[nodiscard]] bool stands_there(const AxisInfo& axis, std::int64_t value) const {
    const std::string wanted = value_text(sweep_, axis, value);
    const std::string text = all_words(tried_.front());
    std::string_view key;
    for (const std::string_view word : pieces_of(text)) {
      if (word == wanted && find_axis(last_name(key)) == &axis) return true;
      key = word;
    }
    return false;
  }
  /// Names and values, without what stands between them.
  static std::vector<std::string_view> pieces_of(std::string_view text) {
    constexpr std::string_view between = " \t\r\n=:,\"'{}[]";
    std::vector<std::string_view> pieces;
    while (!text.empty()) {
      const auto begin = std::min(text.find_first_not_of(between), text.size());
      text.remove_prefix(begin);
      const auto length = std::min(text.find_first_of(between), text.size());
      if (length > 0) pieces.push_back(text.substr(0, length));
      text.remove_prefix(length);
    }
    return pieces;
  }
  /// --context-parallel-size and model.context_parallel_size as context_parallel_size.
  static std::string last_name(std::string_view key) {
    key.remove_prefix(std::min(key.find_first_not_of('-'), key.size()));
    if (const auto dot = key.rfind('.'); dot != std::string_view::npos) key.remove_prefix(dot + 1);
    return underscored(key);
  }

  // ---- the trainer's own words, read back

  [[nodiscard]] std::vector<std::string> texts_to_read(const Placeholders& values) const {
    Words said = words(values);
    if (is_command_line(layout_words_of(trainer_.told_as()).form)) {
      // A table behind its option is one word, whatever blanks it has; a script of bash -c is many.
      for (std::string& word : said.argv)
        if (word.find("={") < std::min(word.find(' '), word.size())) word = shell_quoted(word);
      return {fmt::format("{}", fmt::join(said.argv, " "))};
    }
    said.others.resize(trainer_.files.size());
    return said.others;
  }
  void read_back() {
    if (layout_words_of(trainer_.told_as()).form == WordsForm::none) return;
    for (const PlannedTrial* trial : looked_at_) {
      std::vector<ReadBack> all;
      for (const std::string& text : texts_to_read(values_at(trial->point))) {
        const auto layout = layout_of(trainer_.told_as(), text, trial->point.layout.world());
        all.push_back(layout ? ReadBack(*layout) : std::nullopt);
      }
      read_.push_back(std::move(all));
    }
  }
  /// Tells if one of the texts says, at each trial, the value that the trial has.
  [[nodiscard]] bool says_each_value(const AxisInfo& axis) const {
    const std::size_t texts = read_.empty() ? 0 : read_.front().size();
    for (std::size_t text = 0; text < texts; ++text) {
      bool all = true;
      for (std::size_t i = 0; all && i < read_.size(); ++i)
        all = read_[i][text] && says(*read_[i][text], axis, looked_at_[i]->point);
      if (all) return true;
    }
    return false;
  }
  static bool says(const TrainerLayout& read, const AxisInfo& axis, const Point& point) {
    const auto told = axis_text_of(read, axis);
    return told && *told == axis_text(axis, axis.get(point));
  }
  /// A word of its trainer for this axis stands there with another value than a trial's.
  [[nodiscard]] std::string contradiction(const AxisInfo& axis) const {
    const LayoutWords& words = layout_words_of(trainer_.told_as());
    const LayoutWord* told = words.word_of(axis.name);
    if (told == nullptr || !told->is_as_it_stands() || !is_in(degrees_and_sizes, axis)) return {};
    const std::string_view word = words.name_of(*told);
    for (std::size_t i = 0; i < read_.size(); ++i) {
      const Point& point = looked_at_[i]->point;
      const auto texts = texts_to_read(values_at(point));
      for (std::size_t text = 0; text < texts.size(); ++text) {
        if (!read_[i][text] || says(*read_[i][text], axis, point)) continue;
        const Settings settings = Settings::of(words, texts[text]);
        if (!settings.has(word)) continue;
        return fmt::format("{} {} for {} {}", word, settings.text(word), axis.name,
            value_text(sweep_, axis, axis.get(point)));
      }
      if (i >= most_tried) break;
    }
    return {};
  }

  const SweepSpec& sweep_;
  const TrainerSpec& trainer_;
  std::vector<const PlannedTrial*> looked_at_;
  std::vector<Placeholders> tried_;
  std::vector<std::set<std::int64_t>> values_;  // values of each axis, by its number
  std::set<std::int64_t> batches_;              // samples
  std::set<std::int64_t> batch_tokens_;
  std::vector<std::vector<ReadBack>> read_;  // layouts by the trial looked at, then by text
};

/// Tells if a word is kept at some value of the axis and some model of the sweep.
bool is_said(const SweepSpec& sweep, const Untold& untold, const std::string& word) {
  for (const std::int64_t value : untold.values) {
    for (const ModelSpec& model : sweep.models) {
      const Placeholders values{
          {std::string(untold.axis->name), value_text(sweep, *untold.axis, value)},
          {"experts", std::to_string(model.experts)}};
      if (!filled_words({word}, values, DoubleBraces::keep).empty()) return true;
    }
  }
  return false;
}

/// Words for a command line, without those for values that the sweep has not.
std::string argv_advice(const SweepSpec& sweep, const Untold& untold) {
  const std::string_view axis = untold.axis->name;
  std::vector<std::string> words = words_of_argv(
      layout_words_of(sweep.runner.trainer.told_as()), {axis == "grad_accum" ? batch_name : axis});
  const auto unsaid = std::stable_partition(words.begin(), words.end(),
      [&](const std::string& word) { return is_said(sweep, untold, word); });
  if (unsaid != words.begin()) words.erase(unsaid, words.end());
  for (std::string& word : words)
    if (word.find('{') != std::string::npos) word = fmt::format("\"{}\"", word);
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Advice on what to write so that the trainer is told an axis.
std::string advice(const SweepSpec& sweep, const Untold& untold) {
  const AxisInfo& axis = *untold.axis;
  const std::string_view trainer = sweep.runner.trainer.told_as();
  if (const std::string own = argv_advice(sweep, untold); !own.empty())
    return fmt::format("Add {} to 'argv'", own);
  const LayoutWords& words = layout_words_of(trainer);
  if (axis.name == "dtype" || axis.kind == AxisKind::model || words.form == WordsForm::none)
    return fmt::format("Put {{{}}} into 'argv', 'env' or one of 'files'",
        axis.kind == AxisKind::model ? "hidden" : axis.name);
  const LayoutWord* word = words.word_of(axis.name);
  if (word == nullptr && axis.name == "grad_accum") word = words.word_of(batch_name);
  const Trainer* known = find_trainer(trainer);
  if (word == nullptr || !word->value)
    return fmt::format("{} has no setting for it: take it out of the sweep",
        known == nullptr ? trainer : known->title);
  return fmt::format("Add '{}: {}', as its configuration writes it, to one of 'files'",
      words.name_of(*word), *word->value);
}

std::string sentence(const SweepSpec& sweep, const Untold& one) {
  const AxisInfo& axis = *one.axis;
  if (!one.said.empty()) return fmt::format("The trainer is told {}.", one.said);
  constexpr std::size_t most_named = 4;
  std::vector<std::string> values;
  for (const std::int64_t value : one.values) {
    if (values.size() == most_named) {
      values.emplace_back("...");
      break;
    }
    values.push_back(value_text(sweep, axis, value));
  }
  const std::string what = advice(sweep, one);
  if (one.values.size() > 1)
    return fmt::format("The trainer is not given {} ({}), so all of these would run alike. {}.",
        axis.name, fmt::join(values, ", "), what);
  return fmt::format(
      "The trainer is not given {} {}. {}, or, if the program sets it by itself, 'told: [{}]'.",
      axis.name, values.front(), what, axis.name);
}

}  // namespace

std::string uncomputed_text(const SweepSpec& sweep, std::span<const PlannedTrial> trials) {
  if (!computes(sweep)) return {};
  for (const PlannedTrial& trial : trials) {
    const auto checked = check_computed(sweep, trial.point, sweep.cluster.gpus_per_node);
    if (!checked) return fmt::format("At {}: {}.", layout_text(trial.point), checked.error().what);
  }
  return {};
}

std::string untold_model_text(const SweepSpec& sweep) {
  const std::string what = untold_shape(sweep);
  if (what.empty()) return {};
  const std::string name = what.substr(0, what.find(' '));
  return fmt::format(
      "The trainer is not given {}, so it would train another model under that name. Put {{{}}} "
      "into 'argv' or one of 'files', or write 'told: [{}]' if the program sets it by itself; a "
      "trainer that has no setting for it can't train this model.",
      what, name, name);
}

std::vector<Untold> untold_axes(const SweepSpec& sweep, std::span<const PlannedTrial> trials) {
  if (!sweep.runner.is_trainer() || trials.empty()) return {};
  return UntoldFinder(sweep, trials).find();
}

std::string believed_text(const SweepSpec& sweep, std::span<const PlannedTrial> trials) {
  // The log of a known trainer tells its sizes, which are compared.
  if (!sweep.runner.is_trainer() || !sweep.runner.trainer.told_as().empty() || trials.empty())
    return {};
  const auto believed = UntoldFinder(sweep, trials).believed();
  if (believed.empty()) return {};
  const Point& point = trials.front().point;
  return fmt::format(
      "The trainer is not given {}: results are stored under these, whatever it trains. "
      "Put {} into 'argv', or, if it does so by itself, write 'told: [{}]'.",
      join_texts(believed, ", ",
          [&](const AxisInfo* axis) {
            return fmt::format("{} {}", axis->name, value_text(sweep, *axis, axis->get(point)));
          }),
      join_texts(
          believed, ", ", [](const AxisInfo* axis) { return fmt::format("{{{}}}", axis->name); }),
      join_texts(believed, ", ", [](const AxisInfo* axis) { return axis->name; }));
}

std::string untold_text(const SweepSpec& sweep, std::span<const Untold> untold) {
  return join_texts(untold, " ", [&](const Untold& one) { return sentence(sweep, one); });
}

}  // namespace shardsweep
