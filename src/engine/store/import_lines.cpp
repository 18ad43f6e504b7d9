// SPDX-License-Identifier: Apache-2.0
// Decision: Each line carries the check of its own text. Whoever reviews results reads numbers
// that were measured: one that a hand or a merge has changed is refused by its line. The check
// keeps mistakes out, not forgers; so every value is held to its column all the same, and a
// database in memory takes the whole before the real one is asked.
#include "store/inbox.hpp"
#include "store/line_columns.hpp"
#include "store/schema.hpp"
#include "text/characters.hpp"
#include "text/checked_line.hpp"
#include "text/content_hash.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/sweep_lines.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace shardsweep {
namespace sqlite {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t longest_line = 1 << 20;
constexpr std::size_t longest_text = 64 << 10;
constexpr std::size_t most_attempts = 1000;
constexpr std::int64_t largest_integer = std::int64_t{1} << 53;

std::string dump_of_line(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// A value as text for a message, cut short.
std::string shown(const OrderedJson& value) {
  constexpr std::size_t most = 40;
  return escaped(dump_of_line(value), most);
}

bool is_slug(std::string_view text) {
  constexpr std::size_t longest = 120;
  return !text.empty() && text.size() <= longest && text.front() != '.' &&
      std::all_of(text.begin(), text.end(), [](char c) {
        return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
            c == '_' || c == '-';
      });
}

bool is_hash(std::string_view text) {
  constexpr std::size_t digits = 32;
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f');
  });
}

/// A line of a file, and what is wrong with it.
class LineHere {
 public:
  LineHere(const std::string& where, std::int64_t number) : where_(where), number_(number) {}

  template <class... Values>
  [[noreturn]] void refuse(fmt::format_string<Values...> why, Values&&... values) const {
    fail(FaultKind::invalid_input, "{}:{}: {}", where_, number_,
        fmt::format(why, std::forward<Values>(values)...));
  }
  [[noreturn]] void refuse_value(
      const std::string& key, const OrderedJson& value, std::string_view right) const {
    refuse("'{}' is {}, and not {}", key, right, shown(value));
  }

  /// The line without its check, which holds.
  [[nodiscard]] OrderedJson checked(std::string_view line) const {
    if (line.size() > longest_line)
      refuse("a line of {} bytes; the longest is {}", line.size(), longest_line);
    const auto parts = take_apart(line);
    if (!parts)
      refuse(
          "the line is incomplete or not from an export; `shardsweep export FOLDER` writes such "
          "files");
    const std::string& text = parts->object;
    auto json = OrderedJson::parse(text, nullptr, false);
    if (!json.is_object()) refuse("the line is not a JSON object");
    if (parts->said != check_of(text))
      refuse(
          "{}was edited: its checksum is {}, but it says {}. Measurements can't be "
          "edited: export them again",
          thing_of(json), check_of(text), escaped(parts->said));
    if (dump_of_line(json) != text) refuse("the line is not in the form that export writes");
    return json;
  }

  /// The value of a key for its column; the key goes, so that what is left is unknown.
  [[nodiscard]] Value take(OrderedJson& json, const LineColumn& column) const {
    const auto found = json.find(column.key);
    if (found == json.end()) {
      const bool has_default = !std::holds_alternative<std::monostate>(column.otherwise);
      if (!has_default && !column.nullable) refuse("'{}' is missing", column.key);
      return column.otherwise;
    }
    const OrderedJson value = *found;
    json.erase(column.key);
    switch (column.kind) {
      case LineKind::integer:
        return integer(column.key, value);
      case LineKind::real:
        return real(column.key, value);
      case LineKind::text:
        return text(column.key, value);
      case LineKind::json:
        break;
    }
    const bool is_list = column.name == "hosts";
    if (is_list ? !value.is_array() : !value.is_object())
      refuse_value(column.key, value, is_list ? "a list" : "an object");
    return dump_of_line(value);
  }

  void refuse_rest(const OrderedJson& json) const {
    if (!json.empty())
      refuse(
          "unknown key '{}'; a newer shardsweep may have written it", escaped(json.begin().key()));
  }

  [[nodiscard]] std::int64_t integer(const std::string& key, const OrderedJson& value) const {
    // exit_code and signal may be below zero.
    if (!value.is_number_integer() || value < -largest_integer || value > largest_integer)
      refuse_value(key, value, "a whole number");
    return value.get<std::int64_t>();
  }
  [[nodiscard]] std::string text(const std::string& key, const OrderedJson& value) const {
    if (!value.is_string()) refuse_value(key, value, "a text");
    auto words = value.get<std::string>();
    if (words.size() > longest_text || words.find('\0') != std::string::npos)
      refuse_value(key, value, fmt::format("a text of at most {} bytes", longest_text));
    return words;
  }

 private:
  [[nodiscard]] double real(const std::string& key, const OrderedJson& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      refuse_value(key, value, "a number");
    return value.get<double>();
  }

  static std::string thing_of(const OrderedJson& json) {
    const auto trial = json.find("trial");
    return trial != json.end() && trial->is_string() ? "the line of " + shown(*trial) + " "
                                                     : "the line ";
  }

  const std::string& where_;
  std::int64_t number_;
};

using LineValues = std::map<std::string, Value>;  ///< values by column

const std::string& text_in(const LineValues& values, const std::string& column) {
  static const std::string none;
  const auto* text = std::get_if<std::string>(&values.at(column));
  return text == nullptr ? none : *text;
}

std::int64_t integer_in(const LineValues& values, const std::string& column) {
  const auto* integer = std::get_if<std::int64_t>(&values.at(column));
  return integer == nullptr ? 0 : *integer;
}

/// A statement that fills these columns, by name.
class NamedInsert {
 public:
  NamedInsert(Database& database, const std::string& table, const std::vector<std::string>& columns)
      : columns_(columns),
        statement_(database,
            fmt::format(
                "INSERT INTO {} ({}) VALUES ({})", table, list(columns), places(columns.size()))) {}
  void run(const LineValues& values) {
    auto row = statement_.use();
    for (const auto& column : columns_)
      row.bind_value(values.at(column));
    row.run();
  }

 private:
  const std::vector<std::string>& columns_;
  Statement statement_;
};

/// Reads the lines of one sweep, and writes what it has read into an inbox.
class LinesIntoInbox {
 public:
  explicit LinesIntoInbox(const LinesToImport& from)
      : from_(from), scratch_(":memory:", OpenMode::create, 0) {
    migrate(scratch_);
    columns_ = line_columns(scratch_);
  }

  ImportedLines put_into(Database& inbox) {
    NamedInsert trials(inbox, "trials", submitted_columns());
    NamedInsert results(inbox, "results", imported_columns());
    NamedInsert attempts(inbox, "attempts", imported_attempt_columns());
    NamedInsert left_out(inbox, "left_out", left_out_columns());
    std::string_view rest = from_.lines;
    if (rest.empty()) LineHere(from_.where, 1).refuse("the file is empty");
    for (std::int64_t number = 1; !rest.empty(); ++number) {
      const LineHere here(from_.where, number);
      const auto end = rest.find('\n');
      if (end == std::string_view::npos) here.refuse("the last line is incomplete");
      auto json = here.checked(rest.substr(0, end));
      rest.remove_prefix(end + 1);
      if (number == 1) {
        head(here, json);
      } else if (json.contains("left_out")) {
        left_out.run(values_of(here, json, columns_.left_out));
        here.refuse_rest(json);
      } else {
        trial(here, json, trials, results, attempts);
      }
    }
    if (result_.trials != said_trials_)
      LineHere(from_.where, 1)
          .refuse("'trials' is {}, but {} follow: lines are missing or were added", said_trials_,
              result_.trials);
    for (const auto& [number, slug] : finals_) {
      if (!slugs_.contains(slug))
        LineHere(from_.where, number)
            .refuse("'final_of' names no trial of this file: {}", in_quotes(slug));
    }
    put_submitted(inbox, submitted_);
    return result_;
  }

 private:
  static LineValues values_of(
      const LineHere& here, OrderedJson& json, const std::vector<LineColumn>& columns) {
    LineValues values;
    for (const auto& column : columns)
      values[column.name] = here.take(json, column);
    check_point(here, values);
    return values;
  }

  /// Axes have their words, and no count is below zero.
  static void check_point(const LineHere& here, const LineValues& values) {
    for (const auto& axis : axes()) {
      const auto found = values.find(std::string(axis.name));
      if (found == values.end()) continue;
      const auto* text = std::get_if<std::string>(&found->second);
      if (axis.kind == AxisKind::word && text != nullptr &&
          std::find(axis.words.begin(), axis.words.end(), *text) == axis.words.end())
        here.refuse("'{}' is one of {}, and not {}", axis.name, fmt::join(axis.words, ", "),
            in_quotes(*text));
    }
    for (const auto& [name, value] : values) {
      const auto* integer = std::get_if<std::int64_t>(&value);
      const auto* real = std::get_if<double>(&value);
      const bool may_be_below = name == "exit_code" || name == "signal" || name == "loss";
      if (may_be_below || !((integer != nullptr && *integer < 0) || (real != nullptr && *real < 0)))
        continue;
      here.refuse("'{}' must not be below 0", name);
    }
    const auto outcome = values.find("outcome");
    if (outcome != values.end() && !outcome_from(text_in(values, "outcome")))
      here.refuse("'outcome' is not a known outcome: {}", in_quotes(text_in(values, "outcome")));
  }

  void head(const LineHere& here, OrderedJson& json) {
    const auto format = json.find(lines_format_key);
    if (format == json.end() || !format->is_number_integer())
      here.refuse("the file is not an export of a sweep; `shardsweep export FOLDER` writes one");
    if (*format > lines_format)
      fail(FaultKind::rejected,
          "{}:1: an export of format {}; this program reads format {}. A newer "
          "shardsweep wrote it",
          from_.where, format->get<std::int64_t>(), lines_format);
    json.erase(lines_format_key);
    const auto text = [&](const char* key) {
      return std::get<std::string>(here.take(json, {.name = key, .key = key}));
    };
    const auto count = [&](const char* key) {
      const auto value = std::get<std::int64_t>(
          here.take(json, {.name = key, .key = key, .kind = LineKind::integer}));
      if (value < 0) here.refuse_value(key, value, "no number below 0");
      return value;
    };
    const auto nested = [&](const char* key, const char* as) {
      return std::get<std::string>(
          here.take(json, {.name = as, .key = key, .kind = LineKind::json}));
    };
    const auto name = text("sweep");
    if (!is_name(name)) here.refuse_value("sweep", name, "the name of a sweep");
    submitted_.name = from_.name.empty() ? name : from_.name;
    submitted_.cluster = text("cluster");
    submitted_.runner = text("runner");
    submitted_.runner_version = text("runner_version");
    submitted_.vars = nested("vars", "hosts");  // a list
    submitted_.points = count("points");
    submitted_.duplicates = count("duplicates");
    submitted_.left_out = nested("left_out", "software");
    said_trials_ = count("trials");
    submitted_.trials = said_trials_;
    file_of_head(here, json);
    here.refuse_rest(json);
    check_lists(here);
    Fnv128 hash;
    hash.add(from_.lines);
    submitted_.resolved_hash = hash.hex();
    submitted_.backend = Backend::imported;
    result_.name = submitted_.name;
  }

  /// Takes and checks the sweep file. An imported table has none: its own text stands for it.
  void file_of_head(const LineHere& here, OrderedJson& json) {
    if (json.contains("table")) {
      submitted_.source = std::get<std::string>(here.take(json, {.name = "table", .key = "table"}));
      submitted_.resolved = submitted_.source;
      if (!from_.file.empty())
        here.refuse("an imported table has no sweep file, but there is one beside it");
      return;
    }
    const auto check = std::get<std::string>(here.take(json, {.name = "file", .key = "file"}));
    if (from_.file.empty())
      here.refuse("the sweep file beside it is missing: copy it from the same export");
    if (check != check_of(from_.file))
      here.refuse(
          "the sweep file beside it was edited or belongs to another export: its "
          "checksum is {}, the export says {}",
          check_of(from_.file), in_quotes(check));
    submitted_.resolved = from_.file;
    submitted_.source =
        fmt::format("imported: {} trials of {}\n", said_trials_, one_line(from_.where, 200));
  }

  void check_lists(const LineHere& here) const {
    const auto vars = OrderedJson::parse(submitted_.vars);
    const auto left_out = OrderedJson::parse(submitted_.left_out);
    for (const auto& var : vars) {
      // Labels of tables are vars too, and have names of their own.
      if (!var.is_string() || !is_environment_name(var.get<std::string>()))
        here.refuse_value("vars", var, "a list of names");
    }
    for (const auto& [name, points] : left_out.items()) {
      if (!points.is_number_integer())
        here.refuse_value("left_out", points, "a count for each constraint");
    }
  }

  void trial(const LineHere& here, OrderedJson& json, NamedInsert& trials, NamedInsert& results,
      NamedInsert& attempts) {
    auto tries = OrderedJson::array();
    if (const auto found = json.find("attempts"); found != json.end()) {
      tries = *found;
      json.erase("attempts");
      if (!tries.is_array() || tries.size() > most_attempts)
        here.refuse("'attempts' is no list of at most {}", most_attempts);
    }
    auto values = values_of(here, json, columns_.trial);
    here.refuse_rest(json);
    const auto& slug = text_in(values, "slug");
    if (!is_slug(slug)) here.refuse_value("trial", slug, "the name of a trial");
    if (!is_hash(text_in(values, "lane")))
      here.refuse_value("lane", text_in(values, "lane"), "a hash of 32 hex digits");
    check_identity(here, values);
    const auto number = result_.trials + 2;
    for (const auto& name : {slug, text_in(values, "identity")}) {
      if (const auto known = seen_.emplace(name, number); !known.second)
        here.refuse("{} is in line {} already", in_quotes(name), known.first->second);
    }
    slugs_.insert(slug);
    if (const auto& of = text_in(values, "final_of"); !of.empty()) finals_.emplace(number, of);
    values["position"] = ++result_.trials;
    bool counted = false;
    std::int64_t last = 0;
    for (auto& one : tries) {
      if (!one.is_object()) here.refuse("an attempt is no object");
      const auto attempt = attempt_of(here, one, text_in(values, "identity"));
      if (integer_in(attempt, "number") <= last)
        here.refuse("the attempts are not in the order of their numbers");
      last = integer_in(attempt, "number");
      if (integer_in(attempt, "counted") != 0 && std::exchange(counted, true))
        here.refuse("two attempts of the trial are counted");
      result_.last = std::max(result_.last, integer_in(attempt, "ended_at"));
      attempts.run(attempt);
    }
    if (text_in(values, "outcome") == name(Outcome::completed) && !counted)
      here.refuse("the trial completed, but none of its attempts is counted");
    trials.run(values);
    results.run(values);
  }

  /// Checks `identity`: a point's hash, then the suffix by put_finals(), if it has one.
  static void check_identity(const LineHere& here, LineValues& values) {
    const std::string identity = text_in(values, "identity");
    const auto slash = std::min(identity.find('/'), identity.size());
    if (!is_hash(identity.substr(0, slash)))
      here.refuse_value("identity", identity, "a hash of 32 hex digits");
    const std::string run = identity.substr(slash);
    std::int64_t again = integer_in(values, "again");
    constexpr std::string_view word = "/again";
    // Earlier versions wrote no `again`.
    if (again == 0 && run.starts_with(word))
      (void)std::from_chars(run.data() + word.size(), run.data() + run.size(), again);
    values["again"] = again;
    const auto round = integer_in(values, "final_round");
    const std::string right = text_in(values, "final_of").empty() ? ""
        : again > 0 ? fmt::format("{}{}.{}", word, again, round)
                    : fmt::format("/f{}", round);
    if (run != right && !(again > 0 && run == right + "-before"))
      here.refuse_value("identity", identity,
          right.empty() ? "a hash of 32 hex digits"
                        : fmt::format("a hash followed by '{}'", right));
  }

  LineValues attempt_of(const LineHere& here, OrderedJson& json, const std::string& identity) {
    OrderedJson measured;
    const bool is_measured = json.contains("measured");
    if (is_measured) {
      measured = json["measured"];
      json.erase("measured");
      if (!measured.is_object()) here.refuse_value("measured", measured, "an object");
    }
    auto values = values_of(here, json, columns_.attempt);
    here.refuse_rest(json);
    if (const auto& token = text_in(values, "allocation"); !token.empty() && !is_slug(token))
      here.refuse_value("allocation", token, "the token of an allocation");
    values["identity"] = identity;
    values["measured"] = std::int64_t{is_measured ? 1 : 0};
    for (const auto& column : columns_.measured)
      values[column.name] = is_measured ? here.take(measured, column) : Value();
    if (is_measured) here.refuse_rest(measured);
    check_point(here, values);
    if (integer_in(values, "counted") != 0 &&
        (!is_measured || text_in(values, "outcome") != name(Outcome::completed)))
      here.refuse("an attempt is counted, but did not complete with a measurement");
    return values;
  }

  const LinesToImport& from_;
  Database scratch_;
  LineColumns columns_;
  SubmissionRow submitted_;
  ImportedLines result_;
  std::int64_t said_trials_ = 0;
  std::map<std::string, std::int64_t> seen_;  ///< names and identities, with their lines
  std::set<std::string> slugs_;
  std::map<std::int64_t, std::string> finals_;  ///< slugs of the trials that finals repeat, by line
};

/// Lines of trials by their names. What may change without anything having been measured is
/// left out.
std::map<std::string, OrderedJson> trials_of_lines(
    const std::string& lines, const std::string& where, bool with_numbers) {
  std::map<std::string, OrderedJson> trials;
  std::string_view rest = lines;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size() - 1);
    auto json = LineHere(where, number).checked(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    if (!json.contains("trial")) continue;
    for (const auto* changes :
        {"hidden", "predicted_memory_bytes", "predicted_train_step_s", "predicted_attempt_s",
            "predicted_tokens_per_s_per_gpu", "again", "software", "final_avoid"})
      json.erase(changes);
    // Lines of earlier versions do not have them.
    if (json.contains("attempts")) {
      for (auto& attempt : json["attempts"])
        attempt.erase("allocation");
    }
    if (with_numbers) json["line"] = number;
    trials.emplace(json["trial"].get<std::string>(), std::move(json));
  }
  return trials;
}

/// The first key in which they differ.
std::string differing_key(const OrderedJson& one, const OrderedJson& other) {
  for (const auto* json : {&one, &other}) {
    for (const auto& [key, value] : json->items()) {
      if (!one.contains(key) || !other.contains(key) || one[key] != other[key]) return key;
    }
  }
  return {};
}

}  // namespace
}  // namespace sqlite

Result<ImportedLines> write_inbox_of_lines(
    const std::filesystem::path& inbox, const LinesToImport& from) {
  ImportedLines result;
  SHARDSWEEP_TRY(sqlite::write_inbox_file(inbox, [&](sqlite::Database& database) {
    result = sqlite::LinesIntoInbox(from).put_into(database);
  }));
  return result;
}

Result<void> try_inbox(const std::filesystem::path& inbox) {
  return sqlite::guarded([&] {
    sqlite::Database scratch(":memory:", sqlite::OpenMode::create, 0);
    sqlite::migrate(scratch);
    constexpr std::int64_t all_rows = std::int64_t{1} << 40;
    while (!sqlite::accept(scratch, inbox, 1, all_rows, [] {}).done) {
    }
  });
}

Result<void> refuse_other_lines(const LinesToImport& from, const SweepLines& known) {
  using sqlite::LineHere;
  return sqlite::guarded([&] {
    auto theirs = sqlite::trials_of_lines(from.lines, from.where, true);
    const auto ours = sqlite::trials_of_lines(known.lines, known.name, false);
    for (auto& [trial, line] : theirs) {
      const auto number = line["line"].get<std::int64_t>();
      line.erase("line");
      const auto found = ours.find(trial);
      if (found == ours.end()) continue;
      const auto key = sqlite::differing_key(line, found->second);
      if (key.empty()) continue;
      const auto said = [&](const auto& json) {
        return json.contains(key) ? sqlite::shown(json[key]) : std::string("not there");
      };
      LineHere(from.where, number)
          .refuse("'{}' of {} is {}, and in the database {}: import it under another --name", key,
              trial, said(line), said(found->second));
    }
  });
}

}  // namespace shardsweep
