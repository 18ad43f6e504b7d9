// SPDX-License-Identifier: Apache-2.0
#include "sweep/axis_setting.hpp"
#include "text/characters.hpp"
#include "text/expression.hpp"
#include "text/pieces.hpp"
#include "text/placeholders.hpp"
#include "trainer/configuration.hpp"
#include "trainer/point_words.hpp"
#include "trainer/settings.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace shardsweep {
namespace {

/// Values by which trainers write out that they take their default.
bool is_unset(std::string_view value) {
  return value == "-1" || value == "null" || value == "None";
}

/// Variables of a shell or of OmegaConf have no value in this text.
bool has_variable(std::string_view value) {
  return value.find('$') != std::string_view::npos;
}
tl::unexpected<Fault> no_value(std::string_view word, std::string_view value) {
  return fault(FaultKind::invalid_input, "{}: {} has no value in this text; write it", word,
      in_quotes(value));
}

/// The product of degrees or sizes that somebody wrote; one beyond 2^63 is a fault.
Result<std::int64_t> product(std::initializer_list<std::int64_t> factors) {
  std::int64_t all = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(all, factor, &all))
      return fault(
          FaultKind::invalid_input, "{} is more than any run has", fmt::join(factors, " x "));
  }
  return all;
}

/// Parses `AXIS`, `AXIS=VALUE` or `AXIS='VALUE'`; empty if the condition says more.
std::optional<NamedText> value_given_by(std::string_view condition) {
  const auto equals = condition.find('=');
  const std::string_view axis = condition.substr(0, equals);
  std::string_view value = "true";
  if (equals != std::string_view::npos) {
    value = condition.substr(equals + 1);
    if (value.size() > 1 && value.front() == '\'') value = value.substr(1, value.size() - 2);
  }
  if (find_axis(axis) == nullptr || value.find_first_of(" '=<>") != std::string_view::npos)
    return std::nullopt;
  return NamedText{std::string(axis), std::string(value)};
}

/// The word of `recompute` for the modules of a list: "a b" or "[a,b]".
Result<std::string> recompute_of(std::string_view list, std::string_view without) {
  std::string blanks(list);
  std::replace_if(
      blanks.begin(), blanks.end(),
      [](char c) { return std::string_view(",[]'\"").find(c) != std::string_view::npos; }, ' ');
  std::set<std::string_view> modules;
  for (const auto word : split(blanks, ' '))
    if (!word.empty() && word != without) modules.insert(word);
  if (modules.empty()) return std::string();
  for (const std::string_view word : recompute_words) {
    const auto parts = split(word, '+');
    if (std::set<std::string_view>(parts.begin(), parts.end()) == modules) return std::string(word);
  }
  return fault(FaultKind::invalid_input,
      "no value of recompute means {} together; its values are {}", fmt::join(modules, " "),
      fmt::join(std::span(recompute_words).subspan(3), ", "));
}

class LayoutReader {
 public:
  LayoutReader(const LayoutWords& words, const Settings& said, std::int64_t gpus)
      : words_(words), said_(said), gpus_(gpus) {
    const LayoutWord* dp = words.word_of("dp");
    has_dp_ = dp != nullptr && dp->is_as_it_stands();
  }

  Result<TrainerLayout> read() {
    // A line that refuses says more than that a word is no number.
    const auto told = take_words();
    SHARDSWEEP_TRY(take_readings());
    SHARDSWEEP_TRY(told);
    SHARDSWEEP_ASSIGN(layout_.dp, dp());
    SHARDSWEEP_TRY(divide_batch());
    if (layout_.expert_tp == layout_.tp) layout_.expert_tp = 0;
    // One rank splits no sequence, whatever it is told; trainers switch it off by themselves.
    if (layout_.tp == 1) layout_.sequence_parallel = false;
    // These products are checked here, so that gpus() and global_batch() never overflow.
    SHARDSWEEP_TRY(product({layout_.dp, layout_.tp, layout_.pp, layout_.cp}));
    SHARDSWEEP_TRY(product({layout_.dp, layout_.micro_batch, layout_.grad_accum}));
    return layout_;
  }

 private:
  /// The setting for a word: by its nested name, or else by its own name alone.
  [[nodiscard]] const Setting* told(const LayoutWord& word) const {
    const Setting* there = said_.plain(bare_name(word.word));
    return there != nullptr ? there : said_.plain(bare_name(words_.name_of(word)));
  }
  [[nodiscard]] bool is_flags() const {
    return words_.form == WordsForm::flags && !said_.is_nested();
  }
  [[nodiscard]] bool is_set(std::string_view value) const { return is_flags() || says_true(value); }

  Result<void> take_words() {
    for (const LayoutWord& word : words_.words)
      if (const Setting* there = told(word); there != nullptr && !word.is_beside)
        SHARDSWEEP_TRY(take_word(word, *there));
    return {};
  }
  Result<void> take_word(const LayoutWord& word, const Setting& there) {
    if (is_unset(there.value) && !(is_flags() && !word.value)) return {};
    if (word.is_as_it_stands()) return set(word.axis, there.value, there.word);
    const auto given = value_given_by(word.condition);
    if (!given) return {};
    if (has_variable(there.value)) return no_value(there.word, there.value);
    const bool is_switch = !word.value || word.value == "true";
    const bool holds = is_switch ? is_set(there.value) : there.value == *word.value;
    return holds ? set(given->name, given->text, there.word) : Result<void>();
  }

  Result<void> set(std::string_view name, std::string_view text, std::string_view word) {
    if (name == "dp") has_dp_ = true;
    if (name == "micro_batch") has_size_ = true;
    if (name == "grad_accum") has_steps_ = true;
    if (name == batch_name) {
      const auto number = number_from<std::int64_t>(text);
      if (!number && has_variable(text)) return no_value(word, text);
      if (!number || *number < 0)
        return fault(
            FaultKind::invalid_input, "{}: {} is not a whole number", word, in_quotes(text));
      batch_ = *number;
      return {};
    }
    const AxisInfo* axis = find_axis(name);
    if (axis->kind == AxisKind::toggle) text = says_true(text) ? "true" : "false";
    const auto value = axis_value_from(*axis, text);
    if (!value && has_variable(text)) return no_value(word, text);
    // A sentence about the axis holds for its word, too.
    if (!value)
      return fault(
          FaultKind::invalid_input, "{}{}", word, value.error().what.substr(axis->name.size()));
    set_axis(layout_, *axis, *value);
    return {};
  }

  // ---- the lines of `reads`

  [[nodiscard]] std::optional<std::string> value_of(std::string_view name) const {
    if (name == "true" || name == "false") return std::string(name);
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    if (name == "dp") {
      const auto ranks = dp();
      return ranks ? std::optional(std::to_string(*ranks)) : std::nullopt;
    }
    if (name == batch_name && batch_ > 0) return std::to_string(batch_);
    if (const AxisInfo* axis = find_axis(name); axis != nullptr && axis->name == name)
      if (auto text = axis_text_of(layout_, *axis)) return text;
    if (name == "gpus") return std::to_string(gpus_);
    // A name of the lines above that none has given a value.
    if (is_given_by_lines(name)) return std::nullopt;
    const bool asks_has = name.starts_with(asks_if_there);
    const bool asks_is = name.starts_with(asks_if_on);
    if (asks_has) name.remove_prefix(asks_if_there.size());
    if (asks_is) name.remove_prefix(asks_if_on.size());
    const Setting* there = said_.plain(name);
    if (asks_has || asks_is)
      return there != nullptr && (asks_has || is_set(there->value)) ? "1" : "0";
    if (there == nullptr || there->value.empty() || is_unset(there->value) ||
        has_variable(there->value))
      return std::nullopt;
    return there->value;
  }
  [[nodiscard]] bool is_given_by_lines(std::string_view name) const {
    return std::any_of(words_.reads.begin(), words_.reads.end(),
        [&](const LayoutReading& line) { return line.name == name; });
  }
  /// Values of all these names; none if one of them has no value.
  [[nodiscard]] std::optional<Placeholders> values_of(
      const std::vector<std::string_view>& names) const {
    Placeholders values;
    for (const std::string_view name : names) {
      auto value = value_of(name);
      if (!value) return std::nullopt;
      values.insert_or_assign(std::string(name), std::move(*value));
    }
    return values;
  }

  Result<void> take_readings() {
    for (const LayoutReading& line : words_.reads) {
      if (line.when.empty())
        SHARDSWEEP_TRY(take(line));
      else
        SHARDSWEEP_TRY(refuse(line));
    }
    return {};
  }
  Result<void> refuse(const LayoutReading& line) const {
    SHARDSWEEP_ASSIGN(const auto names, names_of_expression(line.when));
    auto known = values_of(names);
    if (!known) return {};
    // A number is not equal to a word, which is no mistake of the line.
    const auto holds = computed(line.when, [&](std::string_view name) {
      return std::optional<std::string_view>(known->find(name)->second);
    });
    if (!holds || *holds == "0") return {};
    const auto values = values_of(placeholders_in(line.why));
    return fault(FaultKind::invalid_input,
        values ? filled(line.why, *values, DoubleBraces::make_single) : line.why);
  }
  Result<void> take(const LayoutReading& line) {
    const auto names = placeholders_in(line.text);
    const Setting* there = names.empty() ? nullptr : said_.plain(names.back());
    const std::string_view word = there == nullptr ? std::string_view(line.name) : there->word;
    if (there != nullptr && there->value.empty() && !line.of.empty())
      return fault(FaultKind::invalid_input, "{} has no value", word);
    if (there != nullptr && has_variable(there->value) &&
        (find_axis(line.name) != nullptr || !is_command_line(words_.form)))
      return no_value(word, there->value);
    auto values = values_of(names);
    if (!values) return {};
    if (!line.without.empty())
      values->insert_or_assign(std::string(names.back()), said_.list(names.back()));
    if (const auto fits = check_computed(line.text, *values); !fits)
      return fault(FaultKind::invalid_input, "{}: {}", word, fits.error().what);
    auto text = meant(line, filled(line.text, *values, DoubleBraces::make_single));
    if (!text) return fault(FaultKind::invalid_input, "{}: {}", word, text.error().what);
    if (text->empty()) return {};
    const AxisInfo* axis = find_axis(line.name);
    const bool is_axis = axis != nullptr && axis->name == line.name;
    if (is_axis || line.name == batch_name) return set(line.name, *text, word);
    values_.insert_or_assign(line.name, std::move(*text));
    return {};
  }
  /// The axis's value for a text in the trainer's words.
  static Result<std::string> meant(const LayoutReading& line, std::string text) {
    if (text.empty()) return text;
    if (!line.without.empty()) return recompute_of(text, line.without);
    if (line.of.empty()) return text;
    std::vector<std::string_view> known;
    for (const std::string_view pair : split(line.of, ',')) {
      const std::string_view both = trimmed(pair);
      const auto blank = both.rfind(' ');
      const std::string_view word = both.substr(0, blank);
      if (word == text) return std::string(both.substr(blank + 1));
      known.push_back(word);
    }
    return fault(
        FaultKind::invalid_input, "{} is none of {}", in_quotes(text), fmt::join(known, ", "));
  }

  // ---- what follows from other numbers

  [[nodiscard]] Result<std::int64_t> dp() const {
    if (has_dp_) return layout_.dp;
    SHARDSWEEP_ASSIGN(const std::int64_t rest, product({layout_.tp, layout_.pp, layout_.cp}));
    if (gpus_ <= 0)
      return fault(FaultKind::invalid_input, "how many GPUs? dp is derived from their number");
    if (gpus_ % rest != 0)
      return fault(FaultKind::invalid_input, "{} GPUs can't be divided into tp {} x pp {} x cp {}",
          gpus_, layout_.tp, layout_.pp, layout_.cp);
    return gpus_ / rest;
  }

  /// A batch, micro-batches and their number: any one of them follows from the two others.
  Result<void> divide_batch() {
    if (batch_ == 0) return {};
    const bool has_size = has_size_ || words_.word_of("grad_accum") == nullptr;
    SHARDSWEEP_ASSIGN(const std::int64_t shares,
        product({layout_.dp, has_size ? layout_.micro_batch : layout_.grad_accum}));
    const bool divides = batch_ % shares == 0;
    if (divides && !has_size) layout_.micro_batch = batch_ / shares;
    if (divides && has_size && !has_steps_) layout_.grad_accum = batch_ / shares;
    if (divides && layout_.global_batch() == batch_) return {};
    return fault(FaultKind::invalid_input,
        "{} samples per train step do not divide into dp {} x {}", batch_, layout_.dp,
        !has_size        ? fmt::format("{} accumulation steps", layout_.grad_accum)
            : has_steps_ ? fmt::format("micro-batch {} x {} accumulation steps",
                               layout_.micro_batch, layout_.grad_accum)
                         : fmt::format("micro-batch {}", layout_.micro_batch));
  }

  const LayoutWords& words_;
  const Settings& said_;
  std::int64_t gpus_;
  TrainerLayout layout_;
  std::int64_t batch_ = 0;  // samples of a train step; 0: not told
  bool has_dp_ = false, has_size_ = false, has_steps_ = false;
  std::map<std::string, std::string, std::less<>> values_;  // values of lines that name no axis
};

}  // namespace

Result<TrainerLayout> read_layout(
    const LayoutWords& words, const Settings& said, std::int64_t gpus) {
  return LayoutReader(words, said, gpus).read();
}

}  // namespace shardsweep
