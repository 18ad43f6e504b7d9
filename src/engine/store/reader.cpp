// SPDX-License-Identifier: Apache-2.0
// The database as its readers see it.
#include "store/reader.hpp"

#include "store/finals.hpp"
#include "store/lease.hpp"
#include "store/reading.hpp"
#include "store/row_sql.hpp"
#include "store/schema.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"
#include "text/secrets.hpp"

#include <shardsweep/home.hpp>
#include <shardsweep/storage.hpp>

#include <fmt/format.h>

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep {
namespace sqlite {
namespace {

struct ReaderSql {
  const char* events =
      "SELECT e.id, e.at, s.name AS sweep, t.slug AS trial, a.number AS attempt, e.kind, e.detail "
      "FROM events AS e LEFT JOIN trials AS t ON t.id = e.trial LEFT JOIN attempts AS a ON a.id = "
      "e.attempt LEFT JOIN sweeps AS s ON s.id = ifnull(e.sweep, t.sweep) WHERE e.id > ?3 AND {} "
      "ORDER BY e.id LIMIT ?4";
  const char* resolved = "SELECT resolved FROM sweeps WHERE name = ?";
};
constexpr std::string_view partial_suffix = ".partial";
constexpr std::string_view journal_suffix = "-journal";

constexpr ReaderSql reader_sql;

class SqliteReader final : public Reader {
 public:
  SqliteReader(Database database, std::filesystem::path file)
      : database_(std::move(database)), file_(std::move(file)) {}

  Result<Table> query(const std::string& text) override {
    return answer([&] { return sqlite::query(database_, text); });
  }
  Result<Table> list(Listing listing, const std::vector<Value>& bound) override {
    return answer([&] { return sqlite::list(database_, listing, bound); });
  }
  Result<Table> results(const ResultsRequest& request) override {
    return answer([&] { return sqlite::results(database_, request); });
  }
  Result<void> each_result(const ResultsRequest& request, const RowSink& sink) override {
    return answer([&] { sqlite::each_result(database_, request, sink); }, longest_stream);
  }
  Result<std::int64_t> count(const Selection& selection) override {
    return answer([&] { return sqlite::count(database_, selection); });
  }
  Result<std::vector<SweepRow>> sweeps() override {
    return answer([&] {
      Statement select(
          database_, fmt::format("SELECT {} FROM sweeps ORDER BY id", columns_of<SweepRow>()));
      auto row = select.use();
      std::vector<SweepRow> all;
      while (row.next())
        all.push_back(read_row<SweepRow>(row));
      return all;
    });
  }
  Result<Table> best(const Selection& selection) override {
    return answer([&] { return sqlite::best(database_, selection); });
  }
  Result<Table> layouts(const Selection& selection) override {
    return answer([&] { return sqlite::layouts(database_, selection); });
  }
  Result<Cells> cells(const HeatmapRequest& request) override {
    return answer([&] { return sqlite::cells(database_, request); });
  }
  Result<std::vector<ReportedTrial>> trials(const Selection& selection) override {
    return answer([&] { return sqlite::trials(database_, selection); });
  }
  Result<ReportFacts> facts(const Selection& selection) override {
    return answer([&] { return sqlite::facts(database_, selection); });
  }
  Result<ReportSources> sources(const Selection& selection) override {
    return answer([&] { return sqlite::sources(database_, selection); });
  }
  Result<std::vector<Value>> values(
      const Selection& selection, const std::string& column) override {
    return answer([&] { return sqlite::values(database_, selection, column); });
  }
  Result<std::vector<SweepStatus>> status(const std::vector<std::string>& sweeps) override {
    return answer([&] { return sqlite::status(database_, sweeps); });
  }
  Result<std::vector<Regression>> regressions(const std::vector<std::string>& names) override {
    return answer([&] { return sqlite::regressions(database_, names); });
  }
  Result<std::int64_t> first_event(const std::vector<SweepId>& sweeps, FollowFrom from) override {
    return answer([&] { return sqlite::first_event(database_, sweeps, from); });
  }
  Result<FinishedBatch> finished(
      const std::vector<SweepId>& sweeps, std::int64_t after_event) override {
    return answer([&] { return sqlite::finished(database_, sweeps, after_event); });
  }
  Result<std::vector<CellBest>> best_of_cells(const std::vector<SweepId>& sweeps) override {
    return answer([&] { return sqlite::best_of_cells(database_, sweeps); });
  }
  Result<std::vector<AllocationProgress>> allocations(const std::vector<SweepId>& sweeps) override {
    return answer([&] { return sqlite::allocations(database_, sweeps); });
  }
  Result<VerbScope> meant(
      const std::vector<std::string>& names, const std::string& where) override {
    return answer([&] { return sqlite::meant(database_, names, where); });
  }
  Result<NamedAttempts> attempts(const std::string& name) override {
    return answer([&] { return sqlite::attempts(database_, name); });
  }
  Result<std::vector<Section>> show(const std::string& name) override {
    return answer([&] { return sqlite::show(database_, name); });
  }
  Result<Table> events(
      const std::vector<std::string>& sweeps, std::int64_t after_id, std::int64_t limit) override {
    return answer([&] { return sqlite::events(database_, sweeps, after_id, limit); });
  }
  Result<std::string> resolved(const std::string& sweep) override {
    return answer([&] {
      Statement select(database_, reader_sql.resolved);
      auto row = select.use(sweep);
      if (!row.next()) fail(FaultKind::invalid_input, "no sweep is named '{}'", sweep);
      return row.text(0);
    });
  }
  Result<std::vector<SearchRow>> search_rows(
      const std::string& sweep, const SweepSpec& spec) override {
    return answer([&] {
      Statement select(database_, "SELECT id FROM sweeps WHERE name = ?");
      auto row = select.use(sweep);
      if (!row.next()) fail(FaultKind::invalid_input, "no sweep is named '{}'", sweep);
      return sqlite::search_rows(database_, row.integer(0), spec);
    });
  }
  Result<SweepLines> sweep_lines(const std::string& sweep) override {
    return answer([&] { return sqlite::sweep_lines(database_, sweep); });
  }
  Result<std::optional<LeaseHolder>> lease_holder() override {
    return answer([&] { return sqlite::lease_holder(database_); });
  }
  Result<void> export_to(const std::filesystem::path& file) override {
    return guarded([&] { sqlite::export_to(file_, file); });
  }

 private:
  template <class Body>
  auto answer(Body&& body, std::chrono::seconds longest = longest_query)
      -> Result<decltype(body())> {
    return guarded([&] {
      const Deadline deadline(database_, longest);
      try {
        return std::forward<Body>(body)();
      } catch (const SqliteError& error) {
        if (error.fault().kind != FaultKind::timed_out) throw;
        fail(
            FaultKind::timed_out, "the answer took longer than {} s: select less", longest.count());
      }
    });
  }

  Database database_;
  std::filesystem::path file_;
};

std::string without_name(const Database& database, const std::string& words) {
  const auto prefix = database.name() + ": ";
  return words.starts_with(prefix) ? words.substr(prefix.size()) : words;
}

/// ", did you mean 'trials'?" of tables and views; else the views.
std::string with_views(Database& database, const std::string& words) {
  std::vector<std::string> all;
  std::vector<std::string> views;
  Statement select(database,
      "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name");
  auto row = select.use();
  while (row.next()) {
    all.push_back(row.text(0));
    if (row.text(1) == "view") views.push_back(row.text(0));
  }
  const auto name = words.substr(words.rfind(' ') + 1);
  const auto hint = did_you_mean(name, {all.begin(), all.end()});
  return hint.empty() ? fmt::format("; the views are {}", fmt::join(views, ", ")) : hint;
}

/// The one statement of a user's text.
Statement only_statement(Database& database, const std::string& text) {
  std::string_view rest;
  Statement statement(database, text, rest);
  if (statement.empty()) fail(FaultKind::invalid_input, "the statement is empty");
  while (!rest.empty()) {
    const auto before = rest;
    if (!Statement(database, before, rest).empty())
      fail(FaultKind::invalid_input, "one statement at a time");
  }
  if (!statement.only_reads()) fail(FaultKind::rejected, "query runs one SELECT.");
  if (statement.parameters() != 0) fail(FaultKind::invalid_input, "parameters are not allowed");
  return statement;
}

}  // namespace

Table query(Database& database, const std::string& text) {
  if (text.find('\0') != std::string::npos)
    fail(FaultKind::invalid_input, "the statement contains a NUL byte");
  const Authorizer authorizer(database, Allowed::query);
  try {
    auto statement = only_statement(database, text);
    auto use = statement.use();
    return fetch(statement, use);
  } catch (const SqliteError& error) {
    if (!authorizer.refused().empty()) {
      fail(FaultKind::rejected, "query runs one SELECT: {} is not allowed.", authorizer.refused());
    }
    auto words = without_name(database, error.fault().what);
    if (words.find("no such table") != std::string::npos) words += with_views(database, words);
    throw SqliteError(error.code(), Fault{error.fault().kind, words});
  }
}

Table events(Database& database, const std::vector<std::string>& sweeps, std::int64_t after_id,
    std::int64_t limit) {
  const auto chosen = resolve_names(database, sweeps);
  Statement select(database,
      fmt::format(fmt::runtime(reader_sql.events), chosen_condition(chosen, "s.id", "t.id")));
  auto use = select.use(chosen.sweeps, chosen.trials, after_id, limit > 0 ? limit : -1);
  return fetch(select, use);
}

/// Versions before this have stored what is no one's but the owner's.
void hide_secrets(Database& copy) {
  std::vector<std::pair<std::int64_t, std::string>> hidden;
  {
    Statement select(copy, "SELECT id, resolved FROM sweeps");
    auto row = select.use();
    while (row.next()) {
      const std::string text = row.text(1);
      std::string shown = without_secret_values(text);
      if (shown != text) hidden.emplace_back(row.integer(0), std::move(shown));
    }
  }
  for (const auto& [id, text] : hidden)
    Statement(copy, "UPDATE sweeps SET resolved = ?2, source = '' WHERE id = ?1").run(id, text);
}

/// Copies of this name whose writers were killed: no process of theirs is here, nor does another
/// host write them.
void remove_left_behind(const std::filesystem::path& to, const std::filesystem::path& folder) {
  constexpr auto still = std::chrono::minutes(1);
  const std::string prefix = to.filename().string() + ".";
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(journal_suffix)) name.resize(name.size() - journal_suffix.size());
    if (!name.starts_with(prefix) || !name.ends_with(partial_suffix)) continue;
    const std::size_t digits = name.size() - prefix.size() - partial_suffix.size();
    if (name.size() <= prefix.size() + partial_suffix.size()) continue;
    const auto pid = number_from<pid_t>(std::string_view(name).substr(prefix.size(), digits));
    std::error_code ignored;
    const auto written = std::filesystem::last_write_time(entry->path(), ignored);
    const bool old = std::filesystem::file_time_type::clock::now() - written > still;
    if (pid && *pid > 0 && old && ::kill(*pid, 0) != 0 && errno == ESRCH)
      std::filesystem::remove(entry->path(), ignored);
  }
}

void export_to(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code ignored;
  const auto refuse = [&] { fail(FaultKind::rejected, "{} exists already", to.string()); };
  if (std::filesystem::exists(std::filesystem::symlink_status(to, ignored))) refuse();
  auto partial = to;
  partial += fmt::format(".{}{}", ::getpid(), partial_suffix);
  const auto folder = to.has_parent_path() ? to.parent_path() : std::filesystem::path(".");
  if (::access(folder.c_str(), W_OK) != 0) {
    fail(FaultKind::unavailable, "cannot write {}: {}", to.string(),
        std::generic_category().message(errno));
  }
  std::filesystem::remove(partial, ignored);
  remove_left_behind(to, folder);
  try {
    {
      Database database = open_for_reading(from);
      database.execute("PRAGMA query_only = 0");  // VACUUM INTO counts as writing
      Statement(database, "VACUUM INTO ?").run(partial.string());
    }
    // No daemon holds the copy, so its lease must not say that one does.
    Database copy(partial, OpenMode::existing, read_wait_ms);
    copy.execute("PRAGMA journal_mode = MEMORY");  // a copy cut short is useless anyway
    copy.execute("UPDATE lease SET held = 0");
    // Exports are shown to others, and site files have secrets.
    copy.execute("UPDATE sweeps SET site = ''");
    hide_secrets(copy);
    copy.execute("VACUUM");
  } catch (...) {
    std::filesystem::remove(partial, ignored);
    throw;
  }
  // link(2) does not overwrite, where rename would.
  const bool linked = ::link(partial.c_str(), to.c_str()) == 0;
  const int why = errno;
  std::filesystem::remove(partial, ignored);
  if (!linked && why == EEXIST) refuse();
  if (!linked) {
    fail(FaultKind::unavailable, "{}: {}", to.string(), std::generic_category().message(why));
  }
}

}  // namespace sqlite

Result<std::optional<LeaseHolder>> Reader::holder_in(const std::filesystem::path& file) {
  return sqlite::guarded([&]() -> std::optional<LeaseHolder> {
    sqlite::Database database = sqlite::open_for_reading(file);
    if (database.integer("PRAGMA user_version") == 0) return std::nullopt;
    return sqlite::lease_holder(database);
  });
}

Result<std::unique_ptr<Reader>> Reader::open(const std::filesystem::path& file) {
  std::error_code why;
  if (!std::filesystem::exists(file, why)) {
    if (why == std::errc::permission_denied) {
      return fault(FaultKind::unavailable,
          "{}: you may not enter its folder. Ask its owner for a copy made by `shardsweep export "
          "copy.db`.",
          file.string());
    }
    return fault(FaultKind::invalid_input,
        "there is no database {}: `shardsweep run SWEEP.yaml` makes one, --db FILE or "
        "SHARDSWEEP_DB names another",
        file.string());
  }
  return sqlite::guarded([&]() -> std::unique_ptr<Reader> {
    sqlite::Database database = sqlite::open_for_reading(file);
    sqlite::require_current(database, Home{file}.lock());
    // A heatmap reads the whole of three tables; the default keeps 2 MiB of them.
    database.execute("PRAGMA cache_size = -65536");
    // Reading by pointer instead of by system call halves it. On a network file system a page
    // that can't be read would be a SIGBUS instead of an error.
    if (is_local_file_system(file)) database.execute("PRAGMA mmap_size = 4294967296");
    return std::make_unique<sqlite::SqliteReader>(std::move(database), file);
  });
}

}  // namespace shardsweep
