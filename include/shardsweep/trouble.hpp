// SPDX-License-Identifier: Apache-2.0
// Trouble: what keeps sweeps from going on, since when, and what would help. The daemon writes
// its list into a file beside the database. The file has its full size from the start, so that
// it can be written where the disk is full and the database can't.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/result.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

enum class TroubleKind : std::uint8_t {
  disk_full,      ///< no space, no inodes, or a quota that is used up
  read_only,      ///< a read-only file system
  no_permission,  ///< files can't be made or written
  folder_gone,    ///< the database's folder was deleted or moved
  disk_error,     ///< the disk answers with errors
  database,       ///< the database can't be written for another reason
  requests,       ///< answers to commands can't be written
  scheduler,      ///< Slurm does not answer
  copied,         ///< a copy of a database whose jobs are the original's
  unanswered,     ///< a submission without an answer
  deferred,       ///< submissions that Slurm puts off
  refused,        ///< submissions that Slurm refuses
  unclaimed,      ///< jobs that run and whose leads have not begun
  silent,         ///< running jobs whose leads have stopped writing
  unreadable,     ///< attempts that have ended and whose records can't be read
  unloaded,       ///< a sweep whose stored file can't be read
  unwatched,      ///< a sweep that is not measured again, since what it watches can't be read
  submitting,     ///< submissions that the scheduler is long in answering
  nearly_full,    ///< little space is left, or few inodes
};
/// Words in `status --format json` and in the file.
inline constexpr std::array<std::string_view, 19> trouble_words{"disk_full", "read_only",
    "no_permission", "folder_gone", "disk_error", "database", "requests", "scheduler", "copied",
    "unanswered", "deferred", "refused", "unclaimed", "silent", "unreadable", "unloaded",
    "unwatched", "submitting", "nearly_full"};

[[nodiscard]] constexpr std::string_view name(TroubleKind kind) {
  return trouble_words[static_cast<std::size_t>(kind)];
}

struct Trouble {
  TroubleKind kind = TroubleKind::disk_full;
  std::string where;       ///< a folder, a file, a scheduler or a sweep
  std::string detail;      ///< the words of the system or of Slurm
  Timestamp since = 0;     ///< 0: not known
  std::int32_t times = 0;  ///< how often it has happened; 0: not counted
  std::int32_t jobs = 0;   ///< how many jobs it concerns; 0: not counted
  friend bool operator==(const Trouble&, const Trouble&) = default;
};

/// True if it keeps this sweep from going on: its own, or one of all sweeps.
[[nodiscard]] inline bool concerns(const Trouble& trouble, const std::string& sweep) {
  return trouble.kind < TroubleKind::unanswered || trouble.where == sweep;
}

/// Sentences on the problem, its begin, and what would help.
[[nodiscard]] std::string text(const Trouble& trouble);

/// Troubles that are known now: from the daemon's file, if a daemon lives, and from a look at the
/// file system from here.
[[nodiscard]] std::vector<Trouble> troubles(const Home& home);

/// The daemon's side of the file.
class TroubleFile {
 public:
  /// Makes the file at its full size.
  [[nodiscard]] static Result<TroubleFile> open(const Home& home);
  TroubleFile(TroubleFile&& other) noexcept;
  TroubleFile& operator=(TroubleFile&& other) noexcept;
  TroubleFile(const TroubleFile&) = delete;
  TroubleFile& operator=(const TroubleFile&) = delete;
  ~TroubleFile();
  /// Overwrites it in place. What does not fit is left out.
  [[nodiscard]] Result<void> write(const std::vector<Trouble>& all, Timestamp now);

 private:
  explicit TroubleFile(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
  std::int64_t count_ = 0;
};

}  // namespace shardsweep
