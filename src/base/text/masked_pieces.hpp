// SPDX-License-Identifier: Apache-2.0
// Secrets in a text that comes in pieces, as a log that is followed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep {

/// A text that comes in pieces, masked: what may be the beginning of a value is held back until
/// the next piece tells.
class MaskedPieces {
 public:
  explicit MaskedPieces(std::map<std::string, std::string> secrets)
      : secrets_(std::move(secrets)) {}

  [[nodiscard]] std::string take(std::string_view piece);
  /// What was held back to the last.
  [[nodiscard]] std::string rest() { return std::exchange(held_, {}); }

 private:
  std::map<std::string, std::string> secrets_;
  std::string held_;
};

}  // namespace shardsweep
