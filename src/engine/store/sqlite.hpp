// SPDX-License-Identifier: Apache-2.0
// SQLite in three types: Database, Statement (with its Use) and Transaction, after the idea of
// Nix's libstore. Own ones rather than SQLiteCpp: it has no bounded errors of ours to translate
// into, no optional binding, and what we need of it is this page.
//
// Inside this folder failures travel as SqliteError, because a port call is twenty statements
// that can all fail in the same few ways and every one must roll back. guarded() turns them
// into a Result where the folder ends.
#pragma once

#include <shardsweep/result.hpp>
#include <shardsweep/table.hpp>

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace shardsweep::sqlite {

class SqliteError : public std::exception {
 public:
  SqliteError(int code, Fault what) : code_(code), fault_(std::move(what)) {}
  [[nodiscard]] const char* what() const noexcept override { return fault_.what.c_str(); }
  [[nodiscard]] const Fault& fault() const { return fault_; }
  /// SQLite's extended result code; 0 where the fault is our own.
  [[nodiscard]] int code() const { return code_; }

 private:
  int code_;
  Fault fault_;
};

/// Throws a fault of our own from within the folder.
[[noreturn]] void fail(FaultKind kind, std::string what);
template <class First, class... Rest>
[[noreturn]] void fail(
    FaultKind kind, fmt::format_string<First, Rest...> what, First&& first, Rest&&... rest) {
  fail(kind, fmt::format(what, std::forward<First>(first), std::forward<Rest>(rest)...));
}

/// Runs `body` and returns its value, or the fault that it threw.
template <class Body>
auto guarded(Body&& body) -> Result<decltype(body())> {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      std::forward<Body>(body)();
      return {};
    } else {
      return std::forward<Body>(body)();
    }
  } catch (const SqliteError& error) {
    return tl::unexpected<Fault>(error.fault());
  }
}

enum class OpenMode : std::uint8_t {
  create,    ///< made if it does not exist
  existing,  ///< opened to read and write, never made: a read-only open fails on a hot journal
  frozen,    ///< opened to read
  snapshot,  ///< opened to read a file that nobody has open: no lock, no file beside it
};

/// A connection. Foreign keys are on, and "…" never means a string.
class Database {
 public:
  Database(const std::filesystem::path& file, OpenMode mode, int busy_timeout_ms);
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) = delete;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  void wait_at_most(int busy_timeout_ms);
  /// Statements without parameters, of our own.
  void execute(const std::string& sql);
  /// The first column of the first row of a statement without parameters.
  [[nodiscard]] std::int64_t integer(const std::string& sql);
  [[nodiscard]] std::string text(const std::string& sql);
  [[nodiscard]] std::int64_t changed() const;  ///< rows, by the last statement
  /// The file was removed, renamed or replaced since it was opened.
  [[nodiscard]] bool has_moved() const;
  [[nodiscard]] sqlite3* handle() const { return handle_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  sqlite3* handle_ = nullptr;
  std::string name_;  ///< file name for messages
};

/// Throws what `code` means for a user of this connection.
[[noreturn]] void fail(sqlite3* handle, const std::string& where, int code);
/// Fails as SQLite does on a disk with this errno; 0: does nothing.
void fail_by_errno(int error, const Database& database);

/// A prepared statement, to be used again and again.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  /// Prepares the first statement of a user's text; `rest` is what stands behind it. Without a
  /// statement it is empty().
  Statement(Database& database, std::string_view sql, std::string_view& rest);
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  /// One execution: binds from the first parameter on, resets when it goes out of scope, so
  /// that no lock outlives it.
  class Use {
   public:
    template <class... Values>
    explicit Use(Statement& statement, const Values&... values) : statement_(statement) {
      (bind(values), ...);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();

    void bind(std::nullptr_t);
    void bind(std::string_view text);
    void bind(double value);
    void bind_value(const Value& value);
    template <std::integral T>
    void bind(T value) {
      bind_integer(static_cast<std::int64_t>(value));
    }
    template <class T>
    void bind(const std::optional<T>& value) {
      if (value) {
        bind(*value);
      } else {
        bind(nullptr);
      }
    }

    /// True while there is a row.
    [[nodiscard]] bool next();
    /// Executes to the end.
    void run();

    // columns of the current row, from 0
    [[nodiscard]] bool null(int column) const;
    [[nodiscard]] bool is_integer(int column) const;
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] double real(int column) const;
    [[nodiscard]] std::string text(int column) const;
    /// Valid until the next row.
    [[nodiscard]] std::string_view view(int column) const;
    [[nodiscard]] Value value(int column) const;
    template <std::integral T>
    void read(int column, T& into) const {
      into = static_cast<T>(integer(column));
    }
    void read(int column, std::string& into) const { into = text(column); }
    void read(int column, double& into) const { into = real(column); }

   private:
    void bind_integer(std::int64_t value);
    Statement& statement_;
    int next_parameter_ = 1;
  };

  template <class... Values>
  [[nodiscard]] Use use(const Values&... values) {
    return Use(*this, values...);
  }
  template <class... Values>
  void run(const Values&... values) {
    Use(*this, values...).run();
  }
  [[nodiscard]] bool empty() const { return handle_ == nullptr; }
  [[nodiscard]] bool only_reads() const;
  [[nodiscard]] int parameters() const;
  [[nodiscard]] int columns() const;
  [[nodiscard]] std::string column_name(int column) const;

 private:
  sqlite3_stmt* handle_ = nullptr;
  Database* database_;
};

/// BEGIN IMMEDIATE, so that a writer waits at its beginning and never half-way; rolled back
/// unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

/// `name` as an SQL identifier, whatever is in it.
[[nodiscard]] std::string identifier(std::string_view name);
/// `text` as an SQL string.
[[nodiscard]] std::string literal(std::string_view text);

}  // namespace shardsweep::sqlite
