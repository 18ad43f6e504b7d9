// SPDX-License-Identifier: Apache-2.0
#include "adapters/store/inbox_file.hpp"

#include <shardsweep/store.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <system_error>

namespace shardsweep {
namespace sqlite {
namespace {

using Json = nlohmann::json;

constexpr int no_wait = 0;  // nobody else has a new inbox open

const char* const submission_table =
    "CREATE TABLE submission (nonce TEXT, name TEXT, source TEXT, resolved TEXT, "
    "resolved_hash TEXT, backend TEXT, site TEXT, job_template TEXT, cluster TEXT, runner "
    "TEXT, runner_version TEXT, vars "
    "TEXT, "
    "left_out TEXT, points INTEGER, duplicates INTEGER, trials INTEGER) STRICT";

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void put_submission(Database& inbox, const SubmittedSweep& submission) {
  const auto& sweep = *submission.sweep;
  const auto& plan = *submission.plan;
  Json vars = Json::array();
  for (const auto& var : sweep.vars)
    vars.push_back(var.name);
  Statement insert(
      inbox, "INSERT INTO submission VALUES (lower(hex(randomblob(16))), " + places(15) + ")");
  insert.run(sweep.name, submission.source, submission.resolved, submission.resolved_hash,
             submission.backend, submission.site, submission.job_template, sweep.cluster.name,
             sweep.runner.name, submission.capabilities->version, dump(vars),
             dump(Json(plan.left_out_by_constraint)), plan.points, plan.duplicates,
             plan.trials.size());
}

void put_trials(Database& inbox, const SubmittedSweep& submission, const NameTrial& names) {
  const auto& columns = submitted_columns();
  Statement insert(inbox, fmt::format("INSERT INTO trials ({}) VALUES ({})", list(columns),
                                      places(columns.size())));
  std::int64_t position = 0;
  for (const auto& trial : submission.plan->trials) {
    const auto name = names(trial.point);
    auto row = insert.use(name.slug, name.identity, name.lane, ++position);
    bind_point(row, *submission.sweep, trial.point);
    row.bind(trial.prediction.memory_bytes);
    row.bind(trial.prediction.train_step_s);
    row.bind(trial.prediction.attempt_s);
    row.bind(trial.prediction.tokens_per_s_per_gpu);
    try {
      row.run();
    } catch (const SqliteError& error) {
      throw SqliteError(error.code(), error.fault().in(fmt::format("trial {} ({})", name.slug,
                                                                   name.identity)));
    }
  }
}

void put_left_out(Database& inbox, const SubmittedSweep& submission) {
  const auto& columns = left_out_columns();
  Statement insert(inbox, fmt::format("INSERT INTO left_out ({}) VALUES ({})", list(columns),
                                      places(columns.size())));
  for (const auto& point : submission.plan->left_out) {
    auto row = insert.use(point.verdict.constraint, point.verdict.why);
    bind_point(row, *submission.sweep, point.point);
    row.run();
  }
}

void fill(const std::filesystem::path& file, const SubmittedSweep& submission,
          const NameTrial& names) {
  Database inbox(file, OpenMode::create, no_wait);
  // A new file that is thrown away after a crash needs no journal on disk; the commit syncs it.
  inbox.execute("PRAGMA journal_mode = MEMORY");
  inbox.execute("PRAGMA synchronous = FULL");
  Transaction transaction(inbox);
  inbox.execute(submission_table);
  inbox.execute(inbox_tables(""));
  put_submission(inbox, submission);
  put_trials(inbox, submission, names);
  put_left_out(inbox, submission);
  inbox.execute(fmt::format("PRAGMA application_id = {}", inbox_application_id));
  inbox.execute(fmt::format("PRAGMA user_version = {}", inbox_version));
  transaction.commit();
}

}  // namespace

std::string inbox_tables(const std::string& prefix) {
  return fmt::format(
      "CREATE TABLE {0}trials (n INTEGER PRIMARY KEY, {1}, UNIQUE (identity), UNIQUE (slug));"
      "CREATE TABLE {0}left_out (n INTEGER PRIMARY KEY, {2});",
      prefix, list(submitted_columns()), list(left_out_columns()));
}

Submitted read_submission(Database& inbox) {
  if (inbox.integer("PRAGMA application_id") != inbox_application_id)
    fail(FaultKind::invalid_input, fmt::format("{} is no submission", inbox.name()));
  const auto version = inbox.integer("PRAGMA user_version");
  if (version != inbox_version) {
    fail(FaultKind::rejected,
         fmt::format("{} was written by another version of shardsweep (format {}, the daemon "
                     "reads {}): restart the daemon, or submit with its version",
                     inbox.name(), version, inbox_version));
  }
  Statement select(
      inbox,
      "SELECT nonce, name, source, resolved, resolved_hash, backend, site, job_template, "
      "cluster, runner, "
      "runner_version, vars, left_out, points, duplicates, trials FROM submission");
  auto row = select.use();
  if (!row.next()) fail(FaultKind::corrupt, fmt::format("{} is empty", inbox.name()));
  Submitted submitted;
  int column = 0;
  for (auto* text : {&submitted.nonce, &submitted.name, &submitted.source, &submitted.resolved,
                     &submitted.resolved_hash, &submitted.backend, &submitted.site,
                     &submitted.job_template, &submitted.cluster, &submitted.runner,
                     &submitted.runner_version, &submitted.vars, &submitted.left_out})
    row.read(column++, *text);
  for (auto* count : {&submitted.points, &submitted.duplicates, &submitted.trials})
    row.read(column++, *count);
  return submitted;
}

}  // namespace sqlite

Result<void> write_inbox(const std::filesystem::path& file, const SubmittedSweep& submission,
                         const NameTrial& names) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored))
    return fault(FaultKind::rejected, fmt::format("{} exists already", file.string()));
  auto written = sqlite::guarded([&] { sqlite::fill(file, submission, names); });
  if (!written) std::filesystem::remove(file, ignored);
  return written;
}

}  // namespace shardsweep
