// SPDX-License-Identifier: Apache-2.0
#include "store/inbox_file.hpp"

#include "machine/checked_folder.hpp"
#include "store/line_columns.hpp"
#include "sweep/identity.hpp"
#include "sweep/layout_text.hpp"

#include <shardsweep/fail_point.hpp>
#include <shardsweep/imported.hpp>
#include <shardsweep/metric.hpp>
#include <shardsweep/store.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <system_error>

namespace shardsweep {
namespace sqlite {
namespace {

using Json = nlohmann::json;

constexpr int no_wait = 0;  // a new inbox is open nowhere else

const char* const submission_table =
    "CREATE TABLE submission (nonce TEXT, name TEXT, source TEXT, resolved TEXT, resolved_hash "
    "TEXT, backend TEXT, site TEXT, job_template TEXT, cluster TEXT, runner TEXT, runner_version "
    "TEXT, vars TEXT, left_out TEXT, points INTEGER, duplicates INTEGER, trials INTEGER) STRICT";

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void put_submission(Database& inbox, const SubmittedSweep& submission) {
  const auto& sweep = *submission.sweep;
  const auto& plan = *submission.plan;
  Json vars = Json::array();
  for (const auto& var : sweep.vars)
    vars.push_back(var.name);
  put_submitted(inbox,
      {.name = sweep.name,
          .source = submission.source,
          .resolved = submission.resolved,
          .resolved_hash = submission.resolved_hash,
          .backend = submission.backend,
          .site = submission.site,
          .job_template = submission.job_template,
          .cluster = sweep.cluster.name,
          .runner = submission.capabilities->runner,
          .runner_version = submission.capabilities->version,
          .vars = dump(vars),
          .left_out = dump(Json(plan.left_out_by_constraint)),
          .points = plan.points,
          .duplicates = plan.duplicates,
          .trials = static_cast<std::int64_t>(plan.trials.size())});
}

void put_trials(Database& inbox, const SubmittedSweep& submission, const NameTrial& names) {
  const auto& columns = submitted_columns();
  Statement insert(inbox,
      fmt::format("INSERT INTO trials ({}) VALUES ({})", list(columns), places(columns.size())));
  std::int64_t position = 0;
  for (const auto& trial : submission.plan->trials) {
    const auto name = names(trial.point);
    auto row =
        insert.use(name.slug, name.identity, name.lane, ++position, layout_text(trial.point));
    bind_point(row, *submission.sweep, trial.point);
    row.bind(trial.prediction.memory_bytes);
    row.bind(trial.prediction.train_step_s);
    row.bind(trial.prediction.attempt_s);
    row.bind(trial.prediction.tokens_per_s_per_gpu);
    try {
      row.run();
    } catch (const SqliteError& error) {
      throw SqliteError(
          error.code(), error.fault().in(fmt::format("trial {} ({})", name.slug, name.identity)));
    }
  }
}

void put_left_out(Database& inbox, const SubmittedSweep& submission) {
  const auto& columns = left_out_columns();
  Statement insert(inbox,
      fmt::format("INSERT INTO left_out ({}) VALUES ({})", list(columns), places(columns.size())));
  for (const auto& point : submission.plan->left_out) {
    auto row = insert.use(point.verdict.constraint, point.verdict.why);
    bind_point(row, *submission.sweep, point.point);
    row.run();
  }
}

std::string json_of(const std::vector<std::string>& labels, const std::vector<Value>& values) {
  Json object = Json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto& value = values.at(i);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) object[labels[i]] = *integer;
    if (const auto* real = std::get_if<double>(&value)) object[labels[i]] = *real;
    if (const auto* text = std::get_if<std::string>(&value)) object[labels[i]] = *text;
  }
  return dump(object);
}

void put_imported_submission(Database& inbox, const ImportedSweep& imported) {
  const auto& sweep = imported.sweep;
  Fnv128 hash;
  for (const auto& trial : imported.trials)
    hash.add(trial.names.identity);
  const auto trials = static_cast<std::int64_t>(imported.trials.size());
  put_submitted(inbox,
      {.name = sweep.name,
          .source = imported.source,
          .resolved = imported.source,
          .resolved_hash = hash.hex(),
          .backend = Backend::imported,
          .cluster = sweep.cluster.name,
          .runner = sweep.runner.name,
          .vars = dump(Json(imported.labels)),
          .left_out = "{}",
          .points = trials,
          .trials = trials});
}

/// Binds the attempt of a table's trial: a single one, of which the table tells its result alone.
void put_attempt(Statement::Use& row, const ImportedSweep& imported, const ImportedTrial& trial) {
  const bool measured = trial.outcome == Outcome::completed;
  const std::map<std::string_view, Value> known{{"identity", trial.names.identity},
      {"number", std::int64_t{1}}, {"outcome", std::string(name(trial.outcome))},
      {"counted", std::int64_t{measured ? 1 : 0}}, {"cause", trial.cause}, {"source", "import"},
      {"exit_code", std::int64_t{-1}}, {"measured", std::int64_t{measured ? 1 : 0}},
      {"flops_model", imported.flops_model}, {"runner_version", trial.runner_version},
      {"software", "{}"}, {"hosts", "[]"}};
  for (const auto& column : imported_attempt_columns()) {
    const auto found = known.find(column);
    if (found != known.end()) {
      row.bind_value(found->second);
      continue;
    }
    const auto* metric = find_metric(column);
    const auto value = trial.metrics.find(column);
    if (metric == nullptr || value == trial.metrics.end()) {
      row.bind(nullptr);
    } else if (metric->kind == MetricKind::integer) {
      row.bind(std::llround(value->second));
    } else {
      row.bind(value->second);
    }
  }
}

/// Labels are in a trial's identity and not in its slug. Slugs that are alike get so many more
/// digits of their identities as make them differ.
std::vector<std::string> distinct_slugs(const std::vector<ImportedTrial>& trials) {
  std::map<std::string_view, std::vector<std::string_view>> alike;  // identities by slug
  for (const auto& trial : trials)
    alike[trial.names.slug].emplace_back(trial.names.identity);
  std::map<std::string_view, std::size_t> digits;
  for (auto& [slug, identities] : alike) {
    std::sort(identities.begin(), identities.end());
    auto& count = digits[slug] = slug_digits;
    const auto is_same = [&](std::string_view a, std::string_view b) {
      return a != b && a.substr(0, count) == b.substr(0, count);
    };
    while (std::adjacent_find(identities.begin(), identities.end(), is_same) != identities.end())
      ++count;
  }
  std::vector<std::string> slugs;
  slugs.reserve(trials.size());
  for (const auto& trial : trials) {
    const auto more = digits.at(trial.names.slug) - slug_digits;
    slugs.push_back(trial.names.slug + trial.names.identity.substr(slug_digits, more));
  }
  return slugs;
}

void put_imported_trials(Database& inbox, const ImportedSweep& imported) {
  const auto& columns = submitted_columns();
  Statement insert(inbox,
      fmt::format("INSERT INTO trials ({}) VALUES ({})", list(columns), places(columns.size())));
  Statement insert_result(inbox,
      "INSERT INTO results (identity, outcome, cause, runner, runner_version) VALUES (?, ?, ?, ?, "
      "?)");
  const auto& tried = imported_attempt_columns();
  Statement insert_attempt(inbox,
      fmt::format("INSERT INTO attempts ({}) VALUES ({})", list(tried), places(tried.size())));
  const auto slugs = distinct_slugs(imported.trials);
  std::int64_t position = 0;
  for (const auto& trial : imported.trials) {
    const auto& slug = slugs[static_cast<std::size_t>(position)];
    auto row = insert.use(
        slug, trial.names.identity, trial.names.lane, ++position, layout_text(trial.point));
    bind_point(row, imported.sweep, trial.point, json_of(imported.labels, trial.labels));
    row.bind(trial.prediction.memory_bytes);
    row.bind(trial.prediction.train_step_s);
    row.bind(trial.prediction.attempt_s);
    row.bind(trial.prediction.tokens_per_s_per_gpu);
    row.run();
    insert_result.run(trial.names.identity, name(trial.outcome), trial.cause,
        imported.sweep.runner.name, trial.runner_version);
    auto attempt = insert_attempt.use();
    put_attempt(attempt, imported, trial);
    attempt.run();
  }
}

/// An inbox with its tables, filled by `put` in one transaction.
void fill(const std::filesystem::path& file, const std::function<void(Database&)>& put) {
  Database inbox(file, OpenMode::create, no_wait);
  // A new file that is thrown away after a crash needs no journal on disk; the commit syncs it.
  inbox.execute("PRAGMA journal_mode = MEMORY");
  inbox.execute("PRAGMA synchronous = FULL");
  Transaction transaction(inbox);
  inbox.execute(submission_table);
  inbox.execute(inbox_tables(""));
  put(inbox);
  inbox.execute(fmt::format("PRAGMA application_id = {}", inbox_application_id));
  inbox.execute(fmt::format("PRAGMA user_version = {}", inbox_version()));
  fail_by_errno(fail_point_error("inbox.write"), inbox);
  transaction.commit();
}

}  // namespace

std::int64_t inbox_version() {
  return static_cast<std::int64_t>(submitted_columns().size() + left_out_columns().size() +
      imported_columns().size() + imported_attempt_columns().size());
}

std::string inbox_tables(const std::string& prefix) {
  return fmt::format(
      "CREATE TABLE {0}trials (n INTEGER PRIMARY KEY, {1}, UNIQUE (identity), UNIQUE "
      "(slug));CREATE TABLE {0}left_out (n INTEGER PRIMARY KEY, {2});CREATE TABLE {0}results (n "
      "INTEGER PRIMARY KEY, {3}, UNIQUE (identity));CREATE TABLE {0}attempts (n INTEGER PRIMARY "
      "KEY, {4}, UNIQUE (identity, number));",
      prefix, list(submitted_columns()), list(left_out_columns()), list(imported_columns()),
      list(imported_attempt_columns()));
}

const std::vector<std::string>& imported_columns() {
  static const auto columns = [] {
    std::vector<std::string> names{"identity", "runner", "runner_version"};
    names.insert(names.end(), trial_fact_columns().begin(), trial_fact_columns().end());
    return names;
  }();
  return columns;
}

const std::vector<std::string>& imported_attempt_columns() {
  static const auto columns = [] {
    std::vector<std::string> names{"identity", "measured"};
    names.insert(names.end(), attempt_fact_columns().begin(), attempt_fact_columns().end());
    names.insert(names.end(), measured_columns().begin(), measured_columns().end());
    return names;
  }();
  return columns;
}

void put_submitted(Database& inbox, const SubmissionRow& s) {
  Statement(inbox, "INSERT INTO submission VALUES (lower(hex(randomblob(16))), " + places(15) + ")")
      .run(s.name, s.source, s.resolved, s.resolved_hash, word_of(s.backend), s.site,
          s.job_template, s.cluster, s.runner, s.runner_version, s.vars, s.left_out, s.points,
          s.duplicates, s.trials);
}

SubmissionRow read_submission(Database& inbox) {
  if (inbox.integer("PRAGMA application_id") != inbox_application_id)
    fail(FaultKind::invalid_input, "{} is not a submission", inbox.name());
  const auto version = inbox.integer("PRAGMA user_version");
  if (version != inbox_version()) {
    fail(FaultKind::rejected,
        "{} was written by another version of shardsweep (format {}, the daemon reads "
        "{}): restart the daemon, or submit with its version",
        inbox.name(), version, inbox_version());
  }
  Statement select(inbox,
      "SELECT nonce, name, source, resolved, resolved_hash, backend, site, job_template, cluster, "
      "runner, runner_version, vars, left_out, points, duplicates, trials FROM submission");
  auto row = select.use();
  if (!row.next()) fail(FaultKind::corrupt, "{} is empty", inbox.name());
  SubmissionRow submitted;
  std::string backend;
  int column = 0;
  for (auto* text : {&submitted.nonce, &submitted.name, &submitted.source, &submitted.resolved,
           &submitted.resolved_hash, &backend, &submitted.site, &submitted.job_template,
           &submitted.cluster, &submitted.runner, &submitted.runner_version, &submitted.vars,
           &submitted.left_out})
    row.read(column++, *text);
  const auto known = from_word<Backend>(backend);
  if (!known) fail(FaultKind::corrupt, "{}: no backend '{}'", inbox.name(), backend);
  submitted.backend = *known;
  for (auto* count : {&submitted.points, &submitted.duplicates, &submitted.trials})
    row.read(column++, *count);
  return submitted;
}

Result<void> write_inbox_file(
    const std::filesystem::path& file, const std::function<void(Database&)>& put) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored))
    return fault(FaultKind::rejected, "{} exists already", file.string());
  SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::of(file));
  const auto name = file.filename().string();
  auto written = guarded([&] { fill(folder.path_of(name), put); });
  if (!written) std::filesystem::remove(file, ignored);
  return written;
}

}  // namespace sqlite

Result<void> write_inbox(
    const std::filesystem::path& file, const SubmittedSweep& submission, const NameTrial& names) {
  return sqlite::write_inbox_file(file, [&](sqlite::Database& inbox) {
    sqlite::put_submission(inbox, submission);
    sqlite::put_trials(inbox, submission, names);
    sqlite::put_left_out(inbox, submission);
  });
}

Result<void> write_imported(const std::filesystem::path& file, const ImportedSweep& imported) {
  return sqlite::write_inbox_file(file, [&](sqlite::Database& inbox) {
    sqlite::put_imported_submission(inbox, imported);
    sqlite::put_imported_trials(inbox, imported);
  });
}

}  // namespace shardsweep
