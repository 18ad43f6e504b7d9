// SPDX-License-Identifier: Apache-2.0
#include "store/bounded_printf.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace shardsweep::sqlite {
namespace {

constexpr std::int64_t most_repeats = 1'000'000;
constexpr std::string_view digits = "0123456789";

using Values = std::span<sqlite3_value*>;

/// Takes what a format says, conversion by conversion, with the arguments that each one uses.
class Format {
 public:
  Format(std::string_view text, Values arguments) : rest_(text), arguments_(arguments) {}

  [[nodiscard]] bool repeats_too_often() {
    for (;;) {
      const std::size_t at = rest_.find('%');
      if (at == std::string_view::npos) return false;
      rest_.remove_prefix(at + 1);
      skip("-+ #0,!");
      (void)number();
      std::int64_t precision = 0;
      if (rest_.starts_with('.')) {
        rest_.remove_prefix(1);
        precision = number();
      }
      skip("l");
      if (rest_.empty()) return false;
      const char kind = rest_.front();
      rest_.remove_prefix(1);
      if (kind == 'c' && (precision > most_repeats || precision < -most_repeats)) return true;
      if (kind != '%' && kind != 'n') ++next_;
    }
  }

 private:
  void skip(std::string_view letters) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(letters), rest_.size()));
  }
  /// Digits, or `*`: the next argument.
  std::int64_t number() {
    if (rest_.starts_with('*')) {
      rest_.remove_prefix(1);
      return next_ < arguments_.size() ? sqlite3_value_int64(arguments_[next_++]) : 0;
    }
    std::int64_t value = 0;
    while (!rest_.empty() && digits.find(rest_.front()) != std::string_view::npos) {
      value = std::min(value * 10 + (rest_.front() - '0'), most_repeats + 1);
      rest_.remove_prefix(1);
    }
    return value;
  }

  std::string_view rest_;
  Values arguments_;
  std::size_t next_ = 0;
};

struct CloseStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};

/// SQLite's own function, asked on a connection where nobody has replaced it.
struct Original {
  std::unique_ptr<sqlite3, CloseDatabase> database;
  std::map<int, std::unique_ptr<sqlite3_stmt, CloseStatement>> by_count{};

  sqlite3_stmt* statement(int count) {
    auto& known = by_count[count];
    if (known) return known.get();
    std::string text = "SELECT printf(";
    for (int i = 0; i < count; ++i)
      text += i == 0 ? "?" : ", ?";
    sqlite3_stmt* made = nullptr;
    sqlite3_prepare_v2(database.get(), (text + ")").c_str(), -1, &made, nullptr);
    known.reset(made);
    return made;
  }
};

void print(sqlite3_context* context, int count, sqlite3_value** values) {
  auto& original = *static_cast<Original*>(sqlite3_user_data(context));
  const Values all(values, static_cast<std::size_t>(count));
  const unsigned char* text = count == 0 ? nullptr : sqlite3_value_text(values[0]);
  if (text == nullptr) return sqlite3_result_null(context);
  const auto* format = reinterpret_cast<const char*>(text);
  if (Format(format, all.subspan(1)).repeats_too_often())
    return sqlite3_result_error(context, "printf() repeats a character at most 1000000 times",
                                -1);
  sqlite3_stmt* statement = original.statement(count);
  if (statement == nullptr) return sqlite3_result_error_nomem(context);
  for (int i = 0; i < count; ++i)
    sqlite3_bind_value(statement, i + 1, values[i]);
  if (sqlite3_step(statement) == SQLITE_ROW) {
    sqlite3_result_value(context, sqlite3_column_value(statement, 0));
  } else {
    sqlite3_result_error(context, sqlite3_errmsg(original.database.get()), -1);
  }
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

void forget(void* original) {
  delete static_cast<Original*>(original);
}

}  // namespace

void bound_printf(Database& database) {
  const int longest = sqlite3_limit(database.handle(), SQLITE_LIMIT_LENGTH, -1);
  for (const char* const name : {"printf", "format"}) {
    sqlite3* own = nullptr;
    const int opened = sqlite3_open(":memory:", &own);
    auto original = std::make_unique<Original>(Original{{own, {}}});
    if (opened != SQLITE_OK) return;
    sqlite3_limit(own, SQLITE_LIMIT_LENGTH, longest);
    // SQLite calls forget() also if it refuses.
    sqlite3_create_function_v2(database.handle(), name, -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                               original.release(), print, nullptr, nullptr, forget);
  }
}

}  // namespace shardsweep::sqlite
