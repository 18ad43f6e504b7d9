// SPDX-License-Identifier: Apache-2.0
// The words by which a trainer is told a layout, as data of its file (sweeps/trainers/NAME.yaml):
//   layout  form: how its configuration is written; ignores: a section with another layout in it
//           also_read: another form in which people write its words down; a command line or a file
//           own: AXIS AXIS=VALUE   axes that have a value of its own choice if it is not told them
//   values  - NAME: TEXT            computed for the texts below
//   words   - AXIS: WORD=TEXT       in the order of writing; dots nest; `{CONDITION?WORD=TEXT}`
//           - AXIS: A.B={C: TEXT}   a section that has to be given whole, as overrides: A.B.C
//           - with AXIS: …          what stands beside the axis's own word
//           - zero 1: …             ZeRO 1, if it has a word of its own
//   lacks   - AXIS with AXIS: WHEN  values without words: a fault that names both with their values
//   reads   - AXIS: TEXT            only what turning the words round does not tell; later lines
//   win
//             of: TEXT VALUE, …     what the text may be, and what the axis is then
//             without: ITEM         of a list of modules: one that is as good as none
//           - NAME: TEXT            a value for the lines below
//           - when: WHEN, why: TEXT a configuration that is refused
//   also    - LINE                  behind the configuration
// Texts have placeholders (text/placeholders.hpp), WHEN is an expression (text/expression.hpp). A
// line of `reads` counts if all its names have a value: axes as read so far, `gpus`, names of lines
// above, and words by their bare names (a-b and a.b as a_b; `has_WORD`: it is there, `is_WORD`: it
// is on; `command_WORD`: of the command, in a script that writes the file). dp follows from the
// GPUs, and a batch, micro-batches and their number from each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Syntax of a trainer's configuration.
enum class WordsForm : std::uint8_t { none, flags, overrides, yaml, toml, json };
inline constexpr std::string_view forms_of_words = "flags, overrides, yaml, toml, json";
/// The form of that name; none for a name that is not in forms_of_words.
[[nodiscard]] std::optional<WordsForm> form_of_words(std::string_view name);

/// Name of the samples of a train step, which may stand where an axis is named.
inline constexpr std::string_view batch_name = "global_batch";
/// Prefixes of a word's bare name in lines of `reads`: is it there, and is it on?
inline constexpr std::string_view asks_if_there = "has_";
inline constexpr std::string_view asks_if_on = "is_";
/// Prefix of a word of the command beside a file that a script writes: command_a_b for --a-b.
inline constexpr std::string_view of_command = "command_";

/// True for words of a command line, false for nested keys of a file.
[[nodiscard]] constexpr bool is_command_line(WordsForm form) {
  return form == WordsForm::flags || form == WordsForm::overrides;
}

/// `WORD=VALUE`, `WORD`, or one of them under a condition: `{CONDITION?WORD=VALUE}`. The value
/// and the condition hold placeholders (text/placeholders.hpp); dots in the word nest.
struct LayoutWord {
  std::string axis;
  bool is_stage_1 = false;  ///< true for `zero 1`, which has words of its own
  bool is_beside = false;   ///< true for `with AXIS`: text that the axis's own word needs beside it
  std::string text;         ///< text as in the file
  std::string condition;    ///< empty: always
  std::string word;
  std::optional<std::string> value;

  /// True if its value is the axis's value, always: `WORD={AXIS}`.
  [[nodiscard]] bool is_as_it_stands() const;
};
/// `key`: AXIS, `with AXIS` or `zero 1`.
[[nodiscard]] LayoutWord layout_word(std::string_view key, std::string text);

/// A line of `reads`: an axis, or a value for the lines below, from a text with placeholders; or
/// a refusal.
struct LayoutReading {
  std::string name, text;
  std::string of;         ///< WORD VALUE, …: what the text may be, and what the axis is then
  std::string without;    ///< item of a list that counts as none
  std::string when, why;  ///< condition and reason of a refusal
};

struct NamedText {
  std::string name, text;
};

struct LayoutWords {
  WordsForm form = WordsForm::none;
  WordsForm also_read = WordsForm::none;  ///< read if a text has no words in `form`
  std::string ignores;  ///< a section of the file that has a layout of something else
  std::string own;      ///< `AXIS AXIS=VALUE`: the trainer's own choice if it is not told one, if
                        ///< known
  std::vector<NamedText> values;
  std::vector<LayoutWord> words;  ///< words in the order in which they are written
  std::vector<NamedText> lacks;   ///< axes with values that have no words, and when
  std::vector<LayoutReading> reads;
  std::vector<std::string> also;  ///< lines behind the configuration
  /// Bare names of words that decide a layout.
  std::set<std::string, std::less<>> deciding;

  /// True if the trainer takes another value of the axis unless it is told `value`.
  [[nodiscard]] bool chooses_another(std::string_view axis, std::string_view value) const;
  /// Null for an axis that has no word of its own.
  [[nodiscard]] const LayoutWord* word_of(std::string_view axis) const;
  /// The last part of a nested name, or the whole name if another word ends alike.
  [[nodiscard]] std::string_view name_of(const LayoutWord& word) const;
};

/// A word without what marks it, a-b and a.b as a_b: as lines of `reads` name it.
[[nodiscard]] std::string bare_name(std::string_view word);

/// Complete but for `deciding`.
[[nodiscard]] std::set<std::string, std::less<>> deciding_words(const LayoutWords& words);

}  // namespace shardsweep
