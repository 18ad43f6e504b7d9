// SPDX-License-Identifier: Apache-2.0
// Each row of the database, each message and each map of a user's file lists its fields once,
// in `described<T>`: statements, JSON, comparison, readers, references and tests visit that
// list, and nothing else numbers or names them. A field that is a described struct itself
// stands there as a Part: its fields are the row's or the message's own, as if they were
// written there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shardsweep {

enum class Flag : std::uint8_t {
  none = 0,
  // Flags of a column.
  key = 1,       ///< finds the row
  read = 2,      ///< a submission writes it, or it follows from other rows
  unstored = 4,  ///< field without a column
  as_null = 8,   ///< an id of 0 or an empty optional is NULL, not 0 or the empty word
  /// Flag of a message: an empty value is not written, and lines without it keep the default.
  optional = 16,
  /// Flag of an Ending: seen beside the ranks, on each node, whatever the first cause is.
  beside = 32,
};
[[nodiscard]] constexpr Flag operator|(Flag a, Flag b) {
  return static_cast<Flag>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
[[nodiscard]] constexpr bool has(Flag all, Flag any) {
  return (static_cast<unsigned>(all) & static_cast<unsigned>(any)) != 0;
}

template <class T, class V>
struct Field {
  std::string_view name;  ///< name of the column or the key
  V T::*member;
  Flag flags = Flag::none;

  [[nodiscard]] constexpr bool is(Flag flag) const { return has(flags, flag); }
  /// The daemon writes it into its column.
  [[nodiscard]] constexpr bool is_stored() const { return !is(Flag::read | Flag::unstored); }
};
template <class T, class V>
Field(std::string_view, V T::*, Flag = Flag::none) -> Field<T, V>;

/// An std::optional of a described struct may be a Part too: then its first field tells whether
/// there is one, and is visited as an optional.
template <class T, class V>
struct Part {
  V T::*member;
};
template <class T, class V>
Part(V T::*) -> Part<T, V>;

/// How the value of a key is written.
enum class KeyType : std::uint8_t {
  name,  ///< safe in paths and job names
  text,
  pattern,  ///< a text with *, but not of them alone
  lines,    ///< a text of one or more lines
  count,    ///< a whole number, with k, M, Ki, Mi …
  bytes,    ///< 80GiB
  rate,     ///< 450GB/s
  latency,  ///< 5us
  real,
  share,    ///< number above 0, at most 1
  percent,  ///< 1% or 0.01
  boolean,
  texts,    ///< a list of texts
  special,  ///< value with a reader and a schema of its own
};

/// Facts about a key beside its name: words/config makes reader, printed file, JSON Schema and
/// reference of them.
struct KeyFacts {
  KeyType type = KeyType::special;
  std::string_view meaning;
  std::int64_t least = 0;    ///< lower limit of a count or a size
  std::int64_t most = 0;     ///< upper limit of a count or a size, and of a text's bytes; 0: the
                             ///< usual
  std::string_view alias{};  ///< name in other trainers' and libraries' files
  std::string_view takes{};  ///< values in the reference's words; empty: all of its type
  std::optional<std::string_view> otherwise{};  ///< the default; none: that of the member
};

/// A field of a struct that a user's file fills. Flag::optional: 0 or empty is as good as
/// nothing, and is not printed.
template <class T, class V>
struct Key {
  std::string_view name;
  V T::*member;
  KeyFacts facts;
  Flag flags = Flag::none;

  [[nodiscard]] constexpr bool is(Flag flag) const { return has(flags, flag); }
};
template <class T, class V>
Key(std::string_view, V T::*, KeyFacts, Flag = Flag::none) -> Key<T, V>;

/// Field, Key and Part of a type, in their order. An std::tuple of them would take gcc a second
/// for each file that includes the rows: most of that goes into constructors nobody calls.
template <class Places, class... Entry>
struct EntriesAt;
template <std::size_t, class Entry>
struct EntryAt {
  Entry entry;
};
template <std::size_t... place, class... Entry>
struct EntriesAt<std::index_sequence<place...>, Entry...> : EntryAt<place, Entry>... {
  static constexpr std::size_t size = sizeof...(Entry);

  constexpr explicit EntriesAt(const Entry&... entry) : EntryAt<place, Entry>{entry}... {}
  /// call(entry…) with all of them.
  template <class Call>
  constexpr decltype(auto) apply(const Call& call) const {
    return call(EntryAt<place, Entry>::entry...);
  }
};
template <class... Entry>
struct Entries : EntriesAt<std::index_sequence_for<Entry...>, Entry...> {
  constexpr explicit Entries(const Entry&... entry)
      : EntriesAt<std::index_sequence_for<Entry...>, Entry...>(entry...) {}

  [[nodiscard]] constexpr const auto& first() const { return first_of(*this); }

 private:
  template <class First>
  static constexpr const First& first_of(const EntryAt<0, First>& place) {
    return place.entry;
  }
};

/// Each type specialises it.
template <class T>
inline constexpr Entries<> described{};

// Fields whose columns or keys have the members' names, each named once:
//   SHARDSWEEP_DESCRIBE(Beat, attempt, phase, step);
// is a whole description; between other entries stands SHARDSWEEP_FIELDS(Beat, attempt, phase).
#define SHARDSWEEP_PARENS ()
#define SHARDSWEEP_SCAN_4(...) __VA_ARGS__
#define SHARDSWEEP_SCAN_3(...) \
  SHARDSWEEP_SCAN_4(SHARDSWEEP_SCAN_4(SHARDSWEEP_SCAN_4(SHARDSWEEP_SCAN_4(__VA_ARGS__))))
#define SHARDSWEEP_SCAN_2(...) \
  SHARDSWEEP_SCAN_3(SHARDSWEEP_SCAN_3(SHARDSWEEP_SCAN_3(SHARDSWEEP_SCAN_3(__VA_ARGS__))))
#define SHARDSWEEP_SCAN(...) \
  SHARDSWEEP_SCAN_2(SHARDSWEEP_SCAN_2(SHARDSWEEP_SCAN_2(SHARDSWEEP_SCAN_2(__VA_ARGS__))))
#define SHARDSWEEP_NEXT_FIELD() SHARDSWEEP_EACH_FIELD
#define SHARDSWEEP_EACH_FIELD(flags, Row, name, ...) \
  Field{#name, &Row::name, flags} __VA_OPT__(        \
      , SHARDSWEEP_NEXT_FIELD SHARDSWEEP_PARENS(flags, Row, __VA_ARGS__))
#define SHARDSWEEP_FLAGGED_FIELDS(flags, Row, ...) \
  SHARDSWEEP_SCAN(SHARDSWEEP_EACH_FIELD(flags, Row, __VA_ARGS__))
#define SHARDSWEEP_FIELDS(Row, ...) SHARDSWEEP_FLAGGED_FIELDS(Flag::none, Row, __VA_ARGS__)
#define SHARDSWEEP_DESCRIBE(Row, ...)              \
  template <>                                      \
  inline constexpr auto described<Row> = Entries { \
    SHARDSWEEP_FIELDS(Row, __VA_ARGS__)            \
  }

// ---- visiting

namespace describing {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
struct Bare {
  using Type = T;
};
template <class T>
struct Bare<std::optional<T>> {
  using Type = T;
};

}  // namespace describing

/// visit(field) for each, those of parts too.
template <class T, class Visit>
constexpr void visit_fields(Visit&& visit) {
  const auto one = [&]<class Owner, class V, template <class, class> class Kind>(
                       const Kind<Owner, V>& entry) {
    if constexpr (requires { entry.name; }) {
      visit(entry);
    } else {
      visit_fields<typename describing::Bare<V>::Type>(visit);
    }
  };
  described<T>.apply([&](const auto&... entry) { (one(entry), ...); });
}

/// visit(field, value) for each of `object`, those of parts too.
template <class T, class Visit>
constexpr void visit_values(T& object, Visit&& visit) {
  const auto one = [&]<class Owner, class V, template <class, class> class Kind>(
                       const Kind<Owner, V>& entry) {
    auto& value = object.*entry.member;
    if constexpr (requires { entry.name; }) {
      visit(entry, value);
    } else if constexpr (!describing::is_optional<V>) {
      visit_values(value, visit);
    } else {
      using Whole = typename V::value_type;
      constexpr auto& first = described<Whole>.first();
      Whole whole = value.value_or(Whole{});
      auto told = value ? std::optional(whole.*first.member) : std::nullopt;
      visit(first, told);
      visit_values(whole, [&](const auto& field, auto& inner) {
        if (field.name != first.name) visit(field, inner);
      });
      if constexpr (!std::is_const_v<T>) {
        if (told) whole.*first.member = *told;
        value = told ? V(std::move(whole)) : V();
      }
    }
  };
  described<std::remove_const_t<T>>.apply([&](const auto&... entry) { (one(entry), ...); });
}

/// True if all fields for which `counts` is true are equal in both.
template <class T, class Counts>
[[nodiscard]] bool is_alike(const T& a, const T& b, const Counts& counts) {
  const auto one = [&](const auto& entry) {
    const auto& left = a.*entry.member;
    const auto& right = b.*entry.member;
    if constexpr (requires { entry.name; }) {
      return !counts(entry) || left == right;
    } else if constexpr (requires { left.has_value(); }) {
      return left.has_value() == right.has_value() && (!left || is_alike(*left, *right, counts));
    } else {
      return is_alike(left, right, counts);
    }
  };
  return described<T>.apply([&](const auto&... entry) { return (one(entry) && ...); });
}

/// Two states of one row.
template <class Row>
[[nodiscard]] bool is_same_row(const Row& a, const Row& b) {
  return is_alike(a, b, [](const auto& field) { return field.is(Flag::key); });
}

/// True if all written fields are equal.
template <class Row>
[[nodiscard]] bool is_stored_alike(const Row& a, const Row& b) {
  return is_alike(a, b, [](const auto& field) { return field.is_stored(); });
}

}  // namespace shardsweep
