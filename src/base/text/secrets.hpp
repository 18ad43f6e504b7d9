// SPDX-License-Identifier: Apache-2.0
// Which values nobody but their owner may see. This is the one place that decides by a name and
// by a value's form; readers of files ask it and move such variables to `secrets`. Pages, tables
// and printed files show `hidden_value` in their place.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep {

inline constexpr std::string_view hidden_value = "(hidden)";

/// True if a variable's name says that its value is a secret: WANDB_API_KEY, HF_TOKEN.
[[nodiscard]] bool may_be_secret(std::string_view name);

/// Where in the text a secret stands that its own form tells, whatever it is called: the password
/// of `scheme://user:password@host`, the token of `https://token@host`, of `?token=…`, `&sig=…`
/// and `Password=…;`, what follows `Bearer` or `Basic`, a private key, tokens with the beginnings
/// that their issuers give them. Empty, at the text's end: none.
[[nodiscard]] std::string_view secret_by_form(std::string_view text);

/// True if a variable's name or the form of its value says that the value is a secret.
[[nodiscard]] inline bool is_secret(std::string_view name, std::string_view value) {
  return may_be_secret(name) || !secret_by_form(value).empty();
}

/// The text of a YAML file in which each variable has a line of its own, with `hidden_value`
/// for those that may be secrets. Versions before this stored sweep files with their values.
[[nodiscard]] std::string without_secret_values(std::string_view yaml);

/// Bytes of the shortest value that is looked for: shorter ones (1, yes, on) stand in any text.
inline constexpr std::size_t shortest_masked = 4;

/// The text with a star for each byte of these values. Its length stays.
[[nodiscard]] std::string masked(
    std::string text, const std::map<std::string, std::string>& secrets);

// Secrets in a text that comes in pieces, as a log that is followed.

/// A text that comes in pieces, masked: what may be the beginning of a value is held back until
/// the next piece tells.
class MaskedPieces {
 public:
  explicit MaskedPieces(std::map<std::string, std::string> secrets)
      : secrets_(std::move(secrets)) {}

  [[nodiscard]] std::string take(std::string_view piece);
  /// Text that was held back to the last.
  [[nodiscard]] std::string rest() { return std::exchange(held_, {}); }

 private:
  std::map<std::string, std::string> secrets_;
  std::string held_;
};

// Lines that others have written, in which a name or a form says that there is a secret.

/// The line without secrets that their form tells, and without what follows `NAME=` or `NAME:` if
/// NAME may be the name of a secret (may_be_secret): `export HF_TOKEN=(hidden)`, `"api_key":
/// (hidden)`. All of the rest goes, because a value may have spaces.
[[nodiscard]] std::string without_assigned_secrets(std::string_view whole);

}  // namespace shardsweep
