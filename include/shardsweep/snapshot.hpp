// SPDX-License-Identifier: Apache-2.0
// Port: a tree of programs as it was at one moment, kept beside the database. It is named by
// the hash of what it holds: all trials of a sweep share it, and so do sweeps of the same tree.
#pragma once

#include <shardsweep/home.hpp>
#include <shardsweep/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardsweep {

struct Tree {
  std::filesystem::path root;  ///< absolute
  /// Files by their names below the root; none: all that is there.
  std::vector<std::string> files{};
  /// Left out of it: these, and all whose names begin so.
  std::vector<std::filesystem::path> without{};
  std::string origin{};  ///< kept beside it: commit and difference
};

/// Limits above which a tree is no tree of programs.
inline constexpr std::uint64_t most_tree_bytes = std::uint64_t{256} << 20;
inline constexpr std::size_t most_tree_files = 10'000;

/// 32 hex digits over names, modes and content.
[[nodiscard]] Result<std::string> tree_hash(const Tree& tree);
/// Copies it to snapshot_tree(home, hash), and returns the hash. Nothing stands under that name
/// before it is whole and durable. A file that changes meanwhile is copied again, and refused
/// when it does not come to rest.
[[nodiscard]] Result<std::string> take_snapshot(const Home& home, const Tree& tree);

[[nodiscard]] std::filesystem::path snapshot_tree(const Home& home, const std::string& hash);

}  // namespace shardsweep
