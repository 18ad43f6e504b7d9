// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <type_traits>

namespace shardsweep::sqlite {
namespace {

// Bytes; far above a sweep file, far below what printf('%999999999d', 1) would take.
constexpr int longest_value = 64 << 20;

// Classifies a code by what a caller can do about it (result.hpp).
FaultKind kind_of(int code) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return FaultKind::busy;
    case SQLITE_INTERRUPT:
      return FaultKind::timed_out;
    case SQLITE_AUTH:
      return FaultKind::rejected;
    case SQLITE_ERROR:
    case SQLITE_TOOBIG:
    case SQLITE_RANGE:
      return FaultKind::invalid_input;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_SCHEMA:
      return FaultKind::corrupt;
    default:
      return FaultKind::unavailable;
  }
}

/// A file whose pages are damaged; data of ours that breaks a rule is another matter.
bool is_damage(int code) {
  return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

/// SQLite's words, and for a damaged file what helps.
Fault fault_of(int code, const std::string& where, std::string_view words) {
  std::string what = fmt::format("{}: {}", where, words);
  if ((code & 0xff) == SQLITE_NOTADB) {
    what +=
        "; name another file with --db or SHARDSWEEP_DB. If it was a database, it is damaged: put "
        "a copy in its place ('shardsweep export COPY.db' makes one)";
  } else if (is_damage(code)) {
    what +=
        "; the file is damaged: put a copy in its place ('shardsweep export COPY.db' makes one), "
        "or print what is left with 'sqlite3 FILE .dump'";
  }
  return {kind_of(code), std::move(what)};
}

/// SQLite does not name what a system call has said. 0: none has failed.
int system_error_of(sqlite3* handle, int code) {
  const int kind = code & 0xff;
  const bool failed = kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN;
  return handle != nullptr && failed ? sqlite3_system_errno(handle) : 0;
}

std::string said_by_system(int error) {
  return error == 0 ? std::string() : fmt::format(" ({})", std::strerror(error));
}

int flags_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::create:
      return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    case OpenMode::existing:
      return SQLITE_OPEN_READWRITE;
    case OpenMode::frozen:
      return SQLITE_OPEN_READONLY;
    case OpenMode::snapshot:
      break;
  }
  return SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
}

/// A snapshot is asked for by a URI; what a URI would obey in the path is written as %XX.
std::string name_of(const std::filesystem::path& file, OpenMode mode) {
  if (mode != OpenMode::snapshot) return file.string();
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || c == '/' || c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02x}", byte);
  }
  return uri + "?immutable=1";
}

}  // namespace

void fail(FaultKind kind, std::string what) {
  throw SqliteError(0, Fault{kind, std::move(what)});
}

void fail(sqlite3* handle, const std::string& where, int code) {
  const int extended = handle != nullptr ? sqlite3_extended_errcode(handle) : code;
  std::string words = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  words += said_by_system(system_error_of(handle, extended));
  throw SqliteError(extended, fault_of(code, where, words));
}

void fail_by_errno(int error, const Database& database) {
  if (error == 0) return;
  const int code = error == ENOSPC ? SQLITE_FULL : SQLITE_IOERR;
  throw SqliteError(
      code, fault_of(code, database.name(), sqlite3_errstr(code) + said_by_system(error)));
}

Database::Database(const std::filesystem::path& file, OpenMode mode, int busy_timeout_ms)
    : name_(file.filename().string()) {
  const int code = sqlite3_open_v2(name_of(file, mode).c_str(), &handle_,
      flags_of(mode) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  if (code != SQLITE_OK) {
    const Fault why = fault_of(
        code, file.string(), sqlite3_errstr(code) + said_by_system(system_error_of(handle_, code)));
    sqlite3_close(handle_);
    throw SqliteError(code, why);
  }
  try {
    sqlite3_busy_timeout(handle_, busy_timeout_ms);
    sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, longest_value);
    // A misspelt column in double quotes is an error and not a string.
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    execute("PRAGMA foreign_keys = ON");
  } catch (...) {
    sqlite3_close(handle_);
    throw;
  }
}

Database::Database(Database&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}

Database::~Database() {
  sqlite3_close_v2(handle_);
}

void Database::wait_at_most(int busy_timeout_ms) {
  sqlite3_busy_timeout(handle_, busy_timeout_ms);
}

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(handle_, name_, code);
}

std::int64_t Database::integer(const std::string& sql) {
  Statement statement(*this, sql);
  auto row = statement.use();
  return row.next() ? row.integer(0) : 0;
}

std::string Database::text(const std::string& sql) {
  Statement statement(*this, sql);
  auto row = statement.use();
  return row.next() ? row.text(0) : std::string();
}

std::int64_t Database::changed() const {
  return sqlite3_changes64(handle_);
}

bool Database::has_moved() const {
  int moved = 0;
  ::sqlite3_file_control(handle_, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return moved != 0;
}

Statement::Statement(Database& database, std::string_view sql) : database_(&database) {
  const int code = sqlite3_prepare_v3(database.handle(), sql.data(), static_cast<int>(sql.size()),
      SQLITE_PREPARE_PERSISTENT, &handle_, nullptr);
  if (code != SQLITE_OK) fail(database.handle(), database.name(), code);
}

Statement::Statement(Database& database, std::string_view sql, std::string_view& rest)
    : database_(&database) {
  const char* tail = nullptr;
  const int code = sqlite3_prepare_v3(
      database.handle(), sql.data(), static_cast<int>(sql.size()), 0, &handle_, &tail);
  if (code != SQLITE_OK) fail(database.handle(), database.name(), code);
  rest = sql.substr(static_cast<std::size_t>(tail - sql.data()));
}

bool Statement::only_reads() const {
  return sqlite3_stmt_readonly(handle_) != 0;
}

int Statement::parameters() const {
  return sqlite3_bind_parameter_count(handle_);
}

Statement::Statement(Statement&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), database_(other.database_) {}

Statement::~Statement() {
  sqlite3_finalize(handle_);
}

int Statement::columns() const {
  return sqlite3_column_count(handle_);
}

std::string Statement::column_name(int column) const {
  const char* name = sqlite3_column_name(handle_, column);
  return name != nullptr ? name : "";
}

Statement::Use::~Use() {
  sqlite3_reset(statement_.handle_);
  sqlite3_clear_bindings(statement_.handle_);
}

void Statement::Use::bind(std::nullptr_t) {
  const int code = sqlite3_bind_null(statement_.handle_, next_parameter_++);
  if (code != SQLITE_OK) fail(statement_.database_->handle(), statement_.database_->name(), code);
}

void Statement::Use::bind(std::string_view text) {
  // A null pointer would bind NULL.
  const int code = sqlite3_bind_text64(statement_.handle_, next_parameter_++,
      text.data() != nullptr ? text.data() : "", text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) fail(statement_.database_->handle(), statement_.database_->name(), code);
}

void Statement::Use::bind(double value) {
  const int code = sqlite3_bind_double(statement_.handle_, next_parameter_++, value);
  if (code != SQLITE_OK) fail(statement_.database_->handle(), statement_.database_->name(), code);
}

void Statement::Use::bind_integer(std::int64_t value) {
  const int code = sqlite3_bind_int64(statement_.handle_, next_parameter_++, value);
  if (code != SQLITE_OK) fail(statement_.database_->handle(), statement_.database_->name(), code);
}

void Statement::Use::bind_value(const Value& value) {
  std::visit(
      [this](const auto& held) {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          bind(nullptr);
        } else if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>) {
          bind(std::string_view(held));
        } else {
          bind(held);
        }
      },
      value);
}

bool Statement::Use::next() {
  const int code = sqlite3_step(statement_.handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  fail(statement_.database_->handle(), statement_.database_->name(), code);
}

void Statement::Use::run() {
  while (next()) {
  }
}

bool Statement::Use::null(int column) const {
  return sqlite3_column_type(statement_.handle_, column) == SQLITE_NULL;
}

bool Statement::Use::is_integer(int column) const {
  return sqlite3_column_type(statement_.handle_, column) == SQLITE_INTEGER;
}

std::int64_t Statement::Use::integer(int column) const {
  return sqlite3_column_int64(statement_.handle_, column);
}

double Statement::Use::real(int column) const {
  return sqlite3_column_double(statement_.handle_, column);
}

std::string_view Statement::Use::view(int column) const {
  const auto* bytes = sqlite3_column_text(statement_.handle_, column);
  if (bytes == nullptr) return {};
  const auto size = sqlite3_column_bytes(statement_.handle_, column);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

std::string Statement::Use::text(int column) const {
  return std::string(view(column));
}

Value Statement::Use::value(int column) const {
  switch (sqlite3_column_type(statement_.handle_, column)) {
    case SQLITE_INTEGER:
      return integer(column);
    case SQLITE_FLOAT:
      return real(column);
    case SQLITE_NULL:
      return std::monostate{};
    default:
      return text(column);
  }
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // SQLite may have rolled back by itself (disk full); then there is nothing to do.
  if (open_ && sqlite3_get_autocommit(database_.handle()) == 0) {
    sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

std::string identifier(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

std::string literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + '\'';
}

}  // namespace shardsweep::sqlite
