// SPDX-License-Identifier: Apache-2.0
// The inbox: a submission as a database file of its own. write_inbox() (store.hpp) makes it in
// the command; Inbox (inbox.hpp) takes it over in the daemon, perhaps of another version.
#pragma once

#include "store/rows.hpp"

#include <shardsweep/result.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace shardsweep::sqlite {

/// "shin".
inline constexpr std::int64_t inbox_application_id = 0x7368696e;
/// How many columns its tables of trials, points and results have: columns are only ever added,
/// so that it grows by itself with an axis, a metric or another column.
[[nodiscard]] std::int64_t inbox_version();

/// Head of an inbox: the one row of its `submission`.
struct SubmissionRow {
  std::string nonce;
  std::string name;
  std::string source;
  std::string resolved;
  std::string resolved_hash;
  Backend backend = Backend::none;
  std::string site;
  std::string job_template;
  std::string cluster;
  std::string runner;
  std::string runner_version;
  std::string vars;      ///< JSON array
  std::string left_out;  ///< JSON object
  std::int64_t points = 0;
  std::int64_t duplicates = 0;
  std::int64_t trials = 0;
};

/// Columns of the table `results`: how trials that were measured elsewhere have ended.
[[nodiscard]] const std::vector<std::string>& imported_columns();
/// Columns of the table `attempts`: theirs, each with its measurement if it has one.
[[nodiscard]] const std::vector<std::string>& imported_attempt_columns();

/// Tables for the rows of an inbox, in the file and in the database that takes it over:
/// `<prefix>trials`, `<prefix>left_out`, `<prefix>results` and `<prefix>attempts`.
[[nodiscard]] std::string inbox_tables(const std::string& prefix);

/// Refuses what is no inbox or one of another version.
[[nodiscard]] SubmissionRow read_submission(Database& inbox);

/// The row of `submission`; its nonce is made here.
void put_submitted(Database& inbox, const SubmissionRow& submitted);

/// A new file with the tables of an inbox, filled by `put` in one transaction; gone if that
/// fails.
[[nodiscard]] Result<void> write_inbox_file(
    const std::filesystem::path& file, const std::function<void(Database&)>& put);

}  // namespace shardsweep::sqlite
