// SPDX-License-Identifier: Apache-2.0
#include "store/authorizer.hpp"

#include "filter/filter.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace shardsweep::sqlite {
namespace {

// Functions with an effect outside the answer, of the library or of its shell.
constexpr std::array<std::string_view, 6> functions_with_effect{
    "load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "writable_schema"};

// Pragmas that tell about the schema, with an argument or without.
constexpr std::array<std::string_view, 12> pragmas_with_argument{"table_info", "table_xinfo",
    "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list",
    "foreign_key_check", "integrity_check", "quick_check", "function_list", "collation_list"};
// Pragmas that tell without an argument, and set with one.
constexpr std::array<std::string_view, 8> pragmas_without_argument{"user_version", "application_id",
    "page_count", "page_size", "freelist_count", "schema_version", "compile_options",
    "database_list"};

std::string text(const char* words) {
  return words != nullptr ? words : "";
}

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& words, std::string word) {
  std::transform(word.begin(), word.end(), word.begin(),
      [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool harmless_pragma(const char* name, const char* argument) {
  if (contains(pragmas_with_argument, text(name))) return true;
  return argument == nullptr && contains(pragmas_without_argument, text(name));
}

std::string describe(int action, const std::string& first) {
  switch (action) {
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
      if (first == "sqlite_master" || first == "sqlite_temp_master") return "changing the schema";
      return fmt::format("writing to '{}'", first);
    case SQLITE_ATTACH:
      return "ATTACH";
    case SQLITE_DETACH:
      return "DETACH";
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
      return "a transaction";
    case SQLITE_PRAGMA:
      return fmt::format("PRAGMA {}", first);
    case SQLITE_FUNCTION:
      return "this function";
    case SQLITE_ANALYZE:
      return "ANALYZE";
    case SQLITE_REINDEX:
      return "REINDEX";
    case SQLITE_ALTER_TABLE:
      return "ALTER TABLE";
    default:
      return "changing the schema";
  }
}

}  // namespace

Authorizer::Authorizer(Database& database, Allowed allowed)
    : database_(database), allowed_(allowed) {
  sqlite3_set_authorizer(database_.handle(), ask, this);
}

Authorizer::~Authorizer() {
  sqlite3_set_authorizer(database_.handle(), nullptr, nullptr);
}

std::string Authorizer::refusal(int action, const char* first, const char* second) {
  switch (action) {
    case SQLITE_READ:
      return {};
    case SQLITE_SELECT:
      ++selects_;
      return allowed_ == Allowed::query || selects_ == 1 ? "" : "a sub-query";
    case SQLITE_RECURSIVE:
      return allowed_ == Allowed::query ? "" : "a sub-query";
    case SQLITE_FUNCTION:
      if (allowed_ == Allowed::expression ? filter::knows_function(filter::Over::rows, text(second))
                                          : !contains(functions_with_effect, text(second)))
        return {};
      return fmt::format("the function {}()", text(second));
    case SQLITE_UPDATE:
      // SQLite asks this when it makes a table-valued function known (json_each,
      // pragma_table_info). A real update of that table needs writable_schema, which is refused.
      if (text(first) == "sqlite_master") return {};
      break;
    case SQLITE_PRAGMA:
      if (allowed_ == Allowed::query && harmless_pragma(first, second)) return {};
      break;
    default:
      break;
  }
  return describe(action, text(first));
}

int Authorizer::ask(void* self, int action, const char* first, const char* second,
    const char* /*database*/, const char* /*trigger*/) {
  auto& authorizer = *static_cast<Authorizer*>(self);
  const auto why = authorizer.refusal(action, first, second);
  if (why.empty()) return SQLITE_OK;
  if (authorizer.refused_.empty()) authorizer.refused_ = why;
  return SQLITE_DENY;
}

}  // namespace shardsweep::sqlite
