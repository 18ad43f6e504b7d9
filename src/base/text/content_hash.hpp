// SPDX-License-Identifier: Apache-2.0
// A hash for identities and for the content of files. Stored: it never changes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace shardsweep {

/// 128-bit FNV-1a (Fowler, Noll, Vo; draft-eastlake-fnv): small, stable, not cryptographic.
class Fnv128 {
 public:
  void add(std::string_view bytes);
  [[nodiscard]] std::uint64_t high() const { return high_; }
  [[nodiscard]] std::uint64_t low() const { return low_; }
  /// 32 lower-case hex digits.
  [[nodiscard]] std::string hex() const;

 private:
  std::uint64_t high_ = 0x6c62272e07bb0142ULL;
  std::uint64_t low_ = 0x62b821756295c58dULL;
};

/// One hash for programs by path: of a single one its own, of several that of all, by file
/// name. Empty if there are none.
[[nodiscard]] std::string hash_of_programs(const std::map<std::string, std::string>& programs);

/// Hash in the short form of messages and tables.
[[nodiscard]] std::string short_hash(std::string_view hash);

/// "mine 1.2 (code 0123456789ab)", if several programs go by one name.
[[nodiscard]] std::string with_code(std::string_view name, std::string_view code);

}  // namespace shardsweep
