// SPDX-License-Identifier: Apache-2.0
// What a heatmap is made of. A million trials are not handed on one by one: those that a pivot
// can't tell apart become one candidate while they are read.
//
// Decision: The winner by an imported table's own MFU is looked for among all its runs. A cell
// that differs from the published heatmap names it, also if its software is not shown.
#include "store/ranking.hpp"
#include "store/reading.hpp"
#include "store/row_sql.hpp"
#include "store/rows.hpp"
#include "store/unmixed.hpp"
#include "text/nearest.hpp"

#include <shardsweep/event.hpp>
#include <shardsweep/metric.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace shardsweep::sqlite {
namespace {

// Labels and runners are packed into one key; no person reads a heatmap that comes near.
constexpr std::size_t most_labels = 1 << 20;
constexpr std::size_t most_runners = 1 << 12;

/// Numbers for the values of a column, so that a row of the scan makes no string.
class Labels {
 public:
  std::uint64_t number(const Statement::Use& row, int column) {
    // Rows with the same one mostly follow each other.
    if (row.is_integer(column)) {
      const auto integer = row.integer(column);
      if (!last_integer_ || last_integer_->first != integer)
        last_integer_ = {integer, of(integers_, integer, row, column)};
      return last_integer_->second;
    }
    const auto text = row.view(column);
    if (last_text_ >= names_.size() || names_[last_text_] != text)
      last_text_ = of(texts_, std::string(text), row, column);
    return last_text_;
  }
  [[nodiscard]] const std::string& text(std::uint64_t number) const { return names_[number]; }

 private:
  template <class Map, class Held>
  std::uint64_t of(Map& map, const Held& held, const Statement::Use& row, int column) {
    const auto [found, added] = map.try_emplace(held, names_.size());
    if (added) names_.push_back(row.text(column));
    if (names_.size() > most_labels)
      fail(FaultKind::invalid_input,
          "the heatmap would have too many rows or columns: choose another axis with --rows or "
          "--cols, or select fewer trials with --where");
    return found->second;
  }
  std::unordered_map<std::int64_t, std::uint64_t> integers_;
  std::unordered_map<std::string, std::uint64_t> texts_;
  std::vector<std::string> names_;
  std::optional<std::pair<std::int64_t, std::uint64_t>> last_integer_;
  std::uint64_t last_text_ = most_labels;
};

/// A trial with two of its numbers.
struct Offer {
  double tokens_per_s_per_gpu = 0;
  double value = 0;
  std::int64_t trial = 0;
};

/// Keeps the better one of two. Ties go to the older trial, in whatever order runs are read.
template <class By>
void offer(std::optional<Offer>& best, const Offer& run, By by) {
  if (!best || by(run) > by(*best) || (by(run) == by(*best) && run.trial < best->trial)) best = run;
}

struct CellGather {
  std::int64_t trials = 0;
  std::int64_t oldest = 0;  ///< id of a trial
  bool ranked = false;
  std::optional<Offer> published{};  ///< `value`: the MFU that its table gives
  std::optional<Offer> predicted{};  ///< trial with the highest predicted speed
  std::string why{};                 ///< the cause of the oldest trial that has one
  std::int64_t why_of = 0;
  std::vector<double> values{};
};

struct Key {
  std::uint64_t row = 0;
  std::uint64_t column = 0;
  std::size_t runner = 0;
  State state = State::planned;
  std::optional<Outcome> outcome;
  bool spared = false;

  [[nodiscard]] std::uint64_t packed() const {
    const auto how = outcome ? static_cast<std::uint64_t>(*outcome) + 1 : 0;
    const auto by_search = static_cast<std::uint64_t>(spared);
    return (((row << 20 | column) << 12 | runner) << 1 | by_search) << 8 |
        static_cast<std::uint64_t>(state) << 5 | how;
  }
};

/// The value's column; NULL for `outcome`, which the candidate has anyway.
std::string value_column(const std::string& value) {
  if (value == "outcome") return "NULL";
  if (const auto* metric = find_metric(value); metric != nullptr) return identifier(value);
  std::string names;
  std::vector<std::string_view> known{"outcome"};
  for (const auto& metric : metric_table) {
    names += fmt::format(", {}", metric.name);
    known.push_back(metric.name);
  }
  fail(FaultKind::invalid_input, "there is no metric '{}'{}; a heatmap shows outcome{}", value,
      did_you_mean(value, known), names);
}

/// Else the best one's value is enough.
bool shows_every_value(const HeatmapRequest& request) {
  return request.aggregate == Aggregate::median || request.aggregate == Aggregate::p90;
}

/// The columns of both scans, in their order; behind them those of each.
enum Scanned : std::uint8_t {
  row_label,
  column_label,
  trial_state,
  trial_outcome,
  trial_number,
  of_model,
  of_runner,
  of_version,
  of_code,
  scanned_by_both,
};
enum Ranked : std::uint8_t {
  ranked_by = scanned_by_both,
  shown_value,
  repeat_group,
  mfu_of_table,
  vars_of_cell,
};
enum Unranked : std::uint8_t {
  was_spared = scanned_by_both,
  cause_text,
  predicted_value,
  predicted_speed,
  contaminated_speed,
  unranked_vars,
};

/// Columns behind `scanned_by_both` that ranked rows may have values in. A false one is NULL in
/// every row: to ask a million rows for a NULL costs a tenth of the scan.
struct FilledColumns {
  bool values = false;
  bool repeats = false;
  bool published = false;
  bool vars = false;
};

/// Key of a single answer: runs of one software in a heatmap's cell, with one value of each var.
struct AnswerKey {
  std::uint64_t row = 0;
  std::uint64_t column = 0;
  std::size_t runner = 0;
  std::uint64_t vars = 0;
  auto operator<=>(const AnswerKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

class Gatherer {
 public:
  Gatherer(Database& database, const HeatmapRequest& request, SoftwareMix mixing,
      FilledColumns told, const std::string& label)
      : runners_(mixing),
        request_(request),
        told_(told),
        maker_(database, label, request.layouts),
        model_at_(request.rows == "model"    ? row_label
                : request.columns == "model" ? column_label
                                             : of_model) {}

  void take_ranked(const Statement::Use& row) {
    const Key key = key_of(row, true);
    auto& gathered = find(key, row.integer(trial_number));
    gathered.ranked = true;
    const Run run{row.integer(trial_number), row.real(ranked_by)};
    if (told_.published && !row.null(mfu_of_table))
      offer(gathered.published, {run.tokens_per_s_per_gpu, row.real(mfu_of_table), run.trial},
          [](const Offer& one) { return one.value; });
    auto& runs = runs_of(
        {key.row, key.column, key.runner, told_.vars ? vars_.number(row, vars_of_cell) : 0});
    const bool may_repeat = told_.repeats && !row.null(repeat_group);
    if (may_repeat) {
      runs.take(row.text(repeat_group), run);
    } else {
      runs.take(run, maker_.most(), maker_.names());
    }
    if (!told_.values || row.null(shown_value)) return;
    const Offer shown{run.tokens_per_s_per_gpu, row.real(shown_value), run.trial};
    if (may_repeat) {
      repeated_[{key.packed(), row.text(repeat_group)}].push_back(shown);
    } else {
      gathered.values.push_back(shown.value);
    }
  }

  void take_unranked(const Statement::Use& row) {
    Key key = key_of(row, false);
    key.spared = row.integer(was_spared) != 0;
    const auto trial = row.integer(trial_number);
    auto& gathered = find(key, trial);
    if (!row.null(contaminated_speed))
      runs_of({key.row, key.column, key.runner, told_.vars ? vars_.number(row, unranked_vars) : 0})
          .take_contaminated({trial, row.real(contaminated_speed)});
    const bool tells = gathered.why.empty() || trial < gathered.why_of;
    if (tells && !row.null(cause_text)) {
      gathered.why = row.text(cause_text);
      gathered.why_of = trial;
    }
    if (row.null(predicted_value) || row.null(predicted_speed)) return;
    offer(gathered.predicted, {row.real(predicted_speed), row.real(predicted_value), trial},
        [](const Offer& one) { return one.tokens_per_s_per_gpu; });
  }

  Cells finish(Database& database) {
    // The run in the middle by speed has its layout's value.
    for (auto& [key, runs] : repeated_) {
      std::sort(runs.begin(), runs.end(), [](const Offer& a, const Offer& b) {
        return std::pair(a.tokens_per_s_per_gpu, a.trial) <
            std::pair(b.tokens_per_s_per_gpu, b.trial);
      });
      gathered_[index_[key.first]].second.values.push_back(runs[(runs.size() - 1) / 2].value);
    }
    std::sort(gathered_.begin(), gathered_.end(),
        [](const auto& a, const auto& b) { return a.second.oldest < b.second.oldest; });
    find_published();
    Cells cells;
    for (auto& [key, gathered] : gathered_) {
      if (runners_.counts(key.runner)) cells.candidates.push_back(candidate(key, gathered));
    }
    Statement value(database,
        fmt::format("SELECT {} FROM all_results WHERE trial_id = ?", value_column(request_.value)));
    for (auto& [place, answers] : answers_of_places()) {
      AnsweredPlace one{rows_.text(place.first), columns_.text(place.second), joined(answers)};
      if (const auto left_out = left_out_of(place); one.answer.winner() != nullptr)
        add_left_out(one.answer, left_out);
      if (one.answer.winner() != nullptr) {
        auto use = value.use(one.answer.winner()->trial);
        if (use.next() && !use.null(0)) one.value = use.real(0);
      }
      cells.answers.push_back(std::move(one));
    }
    doubt_sizes(cells);
    cells.runners = runners_.shown();
    cells.note = runners_.note();
    return cells;
  }

 private:
  /// Runs of one place by software that is not shown.
  [[nodiscard]] LeftOutRuns left_out_of(
      const std::pair<std::uint64_t, std::uint64_t>& place) const {
    LeftOutRuns left_out;
    std::set<std::size_t> software;
    const AnswerKey first{place.first, place.second, 0, 0};
    for (auto one = runs_.lower_bound(first); one != runs_.end(); ++one) {
      if (one->first.row != place.first || one->first.column != place.second) break;
      if (runners_.counts(one->first.runner)) continue;
      one->second.add_to(left_out);
      software.insert(one->first.runner);
    }
    left_out.software = runners_.names(software);
    return left_out;
  }

  /// Doubts sizes that scale too well, if the columns are sizes and the rows tell all else apart.
  void doubt_sizes(Cells& cells) const {
    const bool by_nodes = request_.columns == "nodes";
    if (request_.rows != "model" || !(by_nodes || request_.columns == "gpus")) return;
    std::map<std::string, std::vector<SizedAnswer>> rows;
    for (auto& one : cells.answers)
      rows[one.row].push_back({std::atoll(one.column.c_str()), &one.answer});
    for (auto& [row, sizes] : rows)
      doubt_scaling(std::move(sizes), by_nodes ? "node" : "GPU");
  }

  /// By row and column, each software and each value of the vars.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<CellAnswer>> answers_of_places() {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<CellAnswer>> places;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::set<std::string>> software;
    for (const auto& [key, runs] : runs_) {
      if (!runners_.counts(key.runner)) continue;
      places[{key.row, key.column}].push_back(maker_.answer(runs));
      software[{key.row, key.column}].insert(runners_.name(key.runner));
    }
    for (auto& [place, answers] : places) {
      const auto& names = software[place];
      if (names.size() < 2) continue;
      for (CellAnswer& answer : answers)
        answer.mixed = fmt::format("{}", fmt::join(names, ", "));
    }
    return places;
  }

  RunsOfCell& runs_of(const AnswerKey& key) {
    if (last_runs_ == nullptr || key != last_answer_) {
      last_runs_ = &runs_[key];
      last_answer_ = key;
    }
    return *last_runs_;
  }

  Key key_of(const Statement::Use& row, bool ranked) {
    Key key;
    key.row = rows_.number(row, row_label);
    key.column = columns_.number(row, column_label);
    key.state = read_state(row, trial_state);
    key.outcome = read_outcome(row, trial_outcome);
    key.runner = runners_.see(
        {row.view(model_at_), row.view(of_runner), row.view(of_version), row.view(of_code),
            request_.rows == "cluster"          ? key.row
                : request_.columns == "cluster" ? key.column
                                                : 0},
        ranked, row.integer(trial_number));
    if (runners_.size() > most_runners)
      fail(FaultKind::invalid_input,
          "too many models, runners and versions; select fewer with --where");
    return key;
  }

  /// The best of each cell by the table's own MFU, whichever runner or version has measured it.
  void find_published() {
    for (const auto& [key, gathered] : gathered_) {
      if (!gathered.published) continue;
      auto& best = published_[{key.row, key.column}];
      const auto before = best.run;
      offer(best.run, *gathered.published, [](const Offer& run) { return run.value; });
      if (!before || best.run->trial != before->trial) best.runner = key.runner;
    }
  }

  [[nodiscard]] CellCandidate candidate(const Key& key, CellGather& gathered) {
    const auto layout_of = [this](const Offer& run) { return maker_.names().name(run.trial); };
    CellCandidate candidate;
    candidate.row = rows_.text(key.row);
    candidate.column = columns_.text(key.column);
    candidate.state = key.state;
    candidate.outcome = key.outcome;
    candidate.trials = gathered.trials;
    candidate.spared = key.spared;
    candidate.ranked = gathered.ranked;
    candidate.why = std::move(gathered.why);
    candidate.values = std::move(gathered.values);
    if (const auto found = published_.find({key.row, key.column}); found != published_.end()) {
      const auto& published = *found->second.run;
      candidate.published_mfu = published.value;
      candidate.published_layout = layout_of(published);
      candidate.published_tokens_per_s_per_gpu = published.tokens_per_s_per_gpu;
      if (!runners_.counts(found->second.runner))
        candidate.published_by = runners_.name(found->second.runner);
    }
    if (const auto& predicted = gathered.predicted) {
      candidate.predicted = predicted->value;
      candidate.predicted_tokens_per_s_per_gpu = predicted->tokens_per_s_per_gpu;
      candidate.predicted_layout = layout_of(*predicted);
    }
    return candidate;
  }

  /// 20 + 20 + 12 + 1 + 8 bits: the key is the number, nothing is lost.
  CellGather& find(const Key& key, std::int64_t trial) {
    const auto packed = key.packed();
    if (gathered_.empty() || packed != last_key_) {
      const auto [found, added] = index_.try_emplace(packed, gathered_.size());
      if (added) gathered_.emplace_back(key, CellGather{.oldest = trial});
      last_key_ = packed;
      last_place_ = found->second;
    }
    auto& gathered = gathered_[last_place_].second;
    ++gathered.trials;
    gathered.oldest = std::min(gathered.oldest, trial);
    return gathered;
  }

  struct PublishedRun {
    std::optional<Offer> run;  ///< `value`: the MFU that its table gives
    std::size_t runner = 0;
  };

  Labels rows_;
  Labels columns_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, PublishedRun>
      published_;  ///< best of each cell
  Labels vars_;
  Runners runners_;
  const HeatmapRequest& request_;
  FilledColumns told_;
  AnswerMaker maker_;
  std::map<AnswerKey, RunsOfCell> runs_;
  AnswerKey last_answer_;
  RunsOfCell* last_runs_ = nullptr;
  int model_at_;  ///< column of the model's name, which may be a label already
  std::unordered_map<std::uint64_t, std::size_t> index_;
  std::vector<std::pair<Key, CellGather>> gathered_;
  std::uint64_t last_key_ = 0;
  std::size_t last_place_ = 0;
  /// Values of each layout's runs, by the candidate's key and the layout; for a median or a p90.
  std::map<std::pair<std::uint64_t, std::string>, std::vector<Offer>> repeated_;
};

/// Column with the prediction of a value, in its unit; NULL if it has none.
std::string_view predicted_column(std::string_view value) {
  if (value == "tokens_per_s_per_gpu") return "predicted_tokens_per_s_per_gpu";
  if (value == "train_step_ms") return "predicted_train_step_s * 1000";
  if (value == "peak_memory_bytes") return "predicted_memory_bytes";
  return "NULL";
}

/// Column of the MFU that an imported table gives; NULL if there is none.
std::string published_mfu(const Source& source) {
  constexpr std::string_view label = "published_mfu";
  const auto& vars = source.vars;
  const bool any = std::find(vars.begin(), vars.end(), label) != vars.end();
  return any ? identifier(label) : "NULL";
}

/// The points left out, seen as rows of `results` that have nothing but what was planned.
std::string left_out_rows(const Source& source) {
  std::string selected;
  for (const auto& column : source.columns) {
    const auto& own = point_columns();
    std::string from = "NULL";
    if (std::find(own.begin(), own.end(), column) != own.end()) from = "l." + column;
    if (column == "hidden") from = "l.hidden_size";
    if (column == "sweep") from = "s.name";
    if (column == "sweep_id") from = "s.id";
    if (column == "cluster") from = "s.cluster";
    if (std::find(source.vars.begin(), source.vars.end(), column) != source.vars.end()) continue;
    selected += fmt::format("{}{} AS {}", selected.empty() ? "" : ", ", from, identifier(column));
  }
  return fmt::format(
      "(SELECT {}{}, l.constraint_name, l.why FROM left_out AS l JOIN sweeps AS s ON s.id = "
      "l.sweep WHERE {})",
      selected, var_columns(source.vars, "l.vars"),
      chosen_condition(source.chosen, "l.sweep", "-1"));
}

void add_left_out(
    Database& database, const Source& source, const HeatmapRequest& request, Cells& cells) {
  const auto row_name = identifier(request.rows);
  const auto column_name = identifier(request.columns);
  Statement select(database,
      fmt::format("SELECT {0}, {1}, count(*), constraint_name, min(why) FROM {2} WHERE {3} AND {0} "
                  "IS NOT NULL AND {1} IS NOT NULL GROUP BY 1, 2, 4",
          row_name, column_name, left_out_rows(source), source.where));
  auto row = select.use(source.chosen.sweeps, source.chosen.trials);
  while (row.next()) {
    CellCandidate candidate;
    candidate.row = row.text(0);
    candidate.column = row.text(1);
    candidate.feasible = false;
    candidate.trials = row.integer(2);
    candidate.why = fmt::format("{}: {}", row.text(3), row.text(4));
    cells.candidates.push_back(std::move(candidate));
  }
}

/// Columns of `scanned_by_both`, as a list.
std::string columns_of_both(const HeatmapRequest& request) {
  const bool labelled = request.rows == "model" || request.columns == "model";
  return fmt::format("{}, {}, state, outcome, trial_id, {}, runner, runner_version, code_hash",
      identifier(request.rows), identifier(request.columns), labelled ? "NULL" : "model");
}

/// Vars of a row's cell. Those of an imported table are labels and set nothing, so they are left
/// out.
std::string vars_of_cells_sql() {
  return fmt::format("iif(sweep_id IN ({}), '', vars)", imported_tables_sql);
}

/// Trials with a measurement that is ranked. All that is read of most of them is in one index.
std::string ranked_sql(const Source& source, const HeatmapRequest& request,
    const std::string& group, bool any_vars, const std::string& only) {
  return fmt::format(
      "SELECT {}, tokens_per_s_per_gpu, {}, {}, {}, {} FROM {} WHERE {} AND mark IS NULL AND "
      "tokens_per_s_per_gpu IS NOT NULL{}",
      columns_of_both(request), shows_every_value(request) ? value_column(request.value) : "NULL",
      group, published_mfu(source), any_vars ? vars_of_cells_sql() : "NULL", source.rows,
      source.where, only);
}

/// The others. A marked measurement is shown by its trial, and not ranked.
std::string unranked_sql(
    const Source& source, const HeatmapRequest& request, bool any_vars, const std::string& only) {
  return fmt::format(
      "SELECT {}, outcome = 'skipped' AND EXISTS (SELECT 1 FROM events AS e WHERE e.trial = "
      "trial_id AND e.kind = '{}'), nullif(cause, ''), {}, predicted_tokens_per_s_per_gpu, "
      "iif(mark = 'contaminated', tokens_per_s_per_gpu, NULL), {} FROM {} WHERE {} AND trial_id IN "
      "(SELECT id FROM trials WHERE counted_speed IS NULL OR counted_mark IS NOT NULL){}",
      columns_of_both(request), word_of(EventKind::spared), predicted_column(request.value),
      any_vars ? vars_of_cells_sql() : "NULL", source.rows, source.where, only);
}

}  // namespace

std::vector<Value> values(
    Database& database, const Selection& selection, const std::string& column) {
  const auto source = source_of(database, selection, {column});
  require_column(source, column);
  Statement select(database,
      fmt::format("SELECT DISTINCT {0} FROM {1} WHERE {2} AND {0} IS NOT NULL ORDER BY 1",
          identifier(column), source.rows, source.where));
  auto use = select.use(source.chosen.sweeps, source.chosen.trials);
  std::vector<Value> found;
  for (auto& row : fetch(select, use).rows)
    found.push_back(std::move(row.front()));
  return found;
}

Cells cells(Database& database, const HeatmapRequest& asked) {
  auto source = source_of(database, asked.selection);
  HeatmapRequest request = asked;
  const bool by_cluster = request.rows == "cluster" || request.columns == "cluster";
  const auto clusters = by_cluster ? std::string() : keep_one_cluster(database, source);
  // Where even all trials need no choice, those that are asked for need none.
  auto shapes = few_shapes(database);
  const bool by_nodes = shapes && world_column(*shapes) == "nodes";
  if (request.columns.empty() && by_nodes) request.columns = "nodes";
  if (request.columns.empty() || !shapes || is_mixed(request, *shapes))
    shapes = shapes_of(database, source);
  if (request.columns.empty()) request.columns = world_column(*shapes);
  require_column(source, request.rows);
  require_column(source, request.columns);
  (void)value_column(request.value);  // refuses an unknown value before anything is read
  const auto mixture = keep_unmixed(request, *shapes, source);
  const auto is_an_axis = [&](std::string_view column) {
    return request.rows == column || request.columns == column;
  };
  SoftwareMix mixing = software_mix_of(request.selection);
  mixing.runners = mixing.runners || is_an_axis("runner");
  mixing.versions = mixing.versions || is_an_axis(version_column(source));
  mixing.versions = mixing.versions || is_an_axis("runner_version");
  mixing.codes = mixing.codes || is_an_axis("code_hash");
  const std::string group = group_expression(database);
  const auto mixed = mixed_vars(database, source, request);
  const auto only = only_ranked(database, request.selection.at);
  Gatherer gatherer(database, request, mixing,
      {.values = shows_every_value(request),
          .repeats = group != "NULL",
          .published = published_mfu(source) != "NULL",
          .vars = !mixed.empty()},
      label_expression(mixed));
  {
    Statement select(database, ranked_sql(source, request, group, !mixed.empty(), only));
    auto row = select.use(source.chosen.sweeps, source.chosen.trials);
    while (row.next())
      gatherer.take_ranked(row);
  }
  {
    Statement select(database, unranked_sql(source, request, !mixed.empty(), only));
    auto row = select.use(source.chosen.sweeps, source.chosen.trials);
    while (row.next())
      gatherer.take_unranked(row);
  }
  auto cells = gatherer.finish(database);
  add_left_out(database, source, request, cells);
  cells.columns = request.columns;
  for (const auto& note : {mixed_vars_text(mixed), mixture, clusters,
           not_ranked_now(database, source, request.selection.at)}) {
    if (!note.empty()) cells.note = cells.note.empty() ? note : note + ' ' + cells.note;
  }
  return cells;
}

}  // namespace shardsweep::sqlite
