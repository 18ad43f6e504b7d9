// SPDX-License-Identifier: Apache-2.0
// compare: two sweeps, versions or values of a var beside each other.
#include "cli/printing.hpp"
#include "cli/why_empty.hpp"
#include "show/side_by_side.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::string_view by_sweep = "sweep";

/// 1% or 0.01, of the option that is named.
Result<double> share_of(std::string_view text, std::string_view option) {
  const bool percent = text.ends_with('%');
  const auto digits = text.substr(0, text.size() - (percent ? 1 : 0));
  double value = 0;
  const auto* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  if (percent) value /= 100;
  if (read.ec != std::errc() || read.ptr != end || !(value > 0) || value >= 1)
    return fault(FaultKind::invalid_input,
                 fmt::format("{}: '{}' is not a share between 0 and 1. Write 2% or 0.02.",
                             option, text));
  return value;
}

Result<double> limit_of(std::string_view text) {
  constexpr std::string_view prefix = "slower=";
  if (text.substr(0, prefix.size()) != prefix)
    return fault(FaultKind::invalid_input,
                 fmt::format("--fail-on: '{}' is unknown. Write slower=2%.", text));
  return share_of(text.substr(prefix.size()), "--fail-on");
}

/// A number as the database has it, else a text.
std::string as_literal(const std::string& text) {
  double number = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return !text.empty() && read.ec == std::errc() && read.ptr == end ? text : literal_of(text);
}

/// Words for columns that people call otherwise; a var of that name goes before.
Result<std::string> column_of(Reader& reader, const std::string& by) {
  if (by != "image" && by != "site") return by;
  SHARDSWEEP_ASSIGN(const Table found,
                    reader.query(fmt::format("SELECT 1 FROM sweeps, json_each(sweeps.vars) AS "
                                             "var WHERE var.value = '{}'",
                                             by)));
  if (!found.rows.empty()) return by;
  return std::string(by == "image" ? "image_digest" : "cluster");
}

/// The options of a command over this side alone.
Options options_of(const Options& options, const std::string& side) {
  Options own = options;
  own.names.clear();
  if (options.compare.by == by_sweep) {
    own.names = {side};
    return own;
  }
  const auto is_it = fmt::format("{} = {}", options.compare.by, as_literal(side));
  own.where = options.where.empty() ? is_it : fmt::format("({}) and {}", options.where, is_it);
  return own;
}

Result<Side> side_of(Reader& reader, const Options& options, const std::string& name) {
  const Options own = options_of(options, name);
  SHARDSWEEP_ASSIGN(
      auto layouts,
      reader.layouts({.names = own.names, .where = own.where, .hidden = own.results.hidden}));
  if (layouts.rows.empty()) {
    SHARDSWEEP_ASSIGN(const auto why, why_empty(reader, own));
    return fault(FaultKind::invalid_input,
                 fmt::format("{} '{}': {}", options.compare.by, name, why));
  }
  if (!layouts.note.empty()) say(fmt::format("{}: {}", name, layouts.note));
  return Side{name, std::move(layouts)};
}

std::vector<std::string_view> important_columns(bool winners) {
  if (winners)
    return {"first_winner", "second_winner", "verdict", "first_winner_gap_share",
            "model",        "gpus",          "nodes",   "seq_len",
            "reason"};
  return {"layout",
          "change_share",
          "verdict",
          "first_tokens_per_s_per_gpu",
          "second_tokens_per_s_per_gpu",
          "model",
          "gpus",
          "nodes",
          "reason",
          "seq_len"};
}

/// Zero where nobody asked.
Result<double> asked_limit(const Options& options) {
  if (options.compare.fail_on.empty()) return 0;
  return limit_of(options.compare.fail_on);
}

}  // namespace

Result<ExitCode> command_compare(const Session& session) {
  Options options = session.options;
  SHARDSWEEP_ASSIGN(const double resolve, share_of(options.compare.resolve, "--resolve"));
  SHARDSWEEP_ASSIGN(const double limit, asked_limit(options));
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(options.compare.by, column_of(*reader, options.compare.by));
  SHARDSWEEP_ASSIGN(const Side first, side_of(*reader, options, options.names[0]));
  SHARDSWEEP_ASSIGN(const Side second, side_of(*reader, options, options.names[1]));
  SideBySide both = side_by_side(first, second, options.compare.by, resolve);
  Table& table = options.compare.winners ? both.winners : both.rows;
  if (options.format == Format::table) drop_nodes_where_none(table);
  if (options.out.empty()) {
    SHARDSWEEP_TRY(
        print_table(table, table_style(session, important_columns(options.compare.winners))));
  } else {
    SHARDSWEEP_TRY(deliver(table_text(table, options.format), options.out));
  }
  say(summary_text(both, first, second));
  if (limit <= 0 || both.worst_loss < limit) return ExitCode::done;
  say(fmt::format("{} is slower by {}; --fail-on allows less than {}.", both.worst_layout,
                  percent_text(both.worst_loss), percent_text(limit)));
  return ExitCode::failed;
}

}  // namespace shardsweep
