// SPDX-License-Identifier: Apache-2.0
// Port: the paths of an allocation's folder, and its two append-only files between daemon and
// lead. Each path is spelled only here.
//
//   <allocation>/allocation.json  to_lead  from_lead  claim  lead.log  pairs.N
//   <attempt>/spec.json  records.jsonl[.k]  rank.K.out  environment  recorder/  evidence/ kept/
//                                                        → <attempt>.tar when it is over
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct AllocationPaths {
  std::filesystem::path dir;
  [[nodiscard]] std::filesystem::path spec() const { return dir / "allocation.json"; }
  [[nodiscard]] std::filesystem::path to_lead() const { return dir / "to_lead"; }
  [[nodiscard]] std::filesystem::path from_lead() const { return dir / "from_lead"; }
  [[nodiscard]] std::filesystem::path claim() const { return dir / "claim"; }
  [[nodiscard]] std::filesystem::path log() const { return dir / "lead.log"; }
  /// Pairs of nodes in that round of their check, written by the lead.
  [[nodiscard]] std::filesystem::path pairs(int round) const {
    return dir / ("pairs." + std::to_string(round));
  }
  [[nodiscard]] std::filesystem::path script() const { return dir / "job.sbatch"; }
  /// Script of the job array whose first element this is.
  [[nodiscard]] std::filesystem::path array_script() const { return dir / "array.sbatch"; }
};

struct AttemptPaths {
  std::filesystem::path dir;
  [[nodiscard]] std::filesystem::path spec() const { return dir / "spec.json"; }
  [[nodiscard]] std::filesystem::path records() const { return dir / "records.jsonl"; }
  /// Records of the node agent while the ranks write theirs: which programs are to run, and
  /// that they have.
  [[nodiscard]] std::filesystem::path code_records() const { return dir / "records.jsonl.code"; }
  [[nodiscard]] std::filesystem::path recorder() const { return dir / "recorder"; }
  /// Evidence on ranks that did not get on, taken before they were ended. It has NODE.json, copies
  /// of their flight recorders in recorder/, and their joint reading in recorder.json.
  [[nodiscard]] std::filesystem::path evidence() const { return dir / "evidence"; }
  [[nodiscard]] std::filesystem::path rank_log(int rank) const {
    return dir / ("rank." + std::to_string(rank) + ".out");
  }
  /// Environment that the first rank had when it began: `told_environment` reads it.
  [[nodiscard]] std::filesystem::path environment() const { return dir / "environment"; }
  /// NCCL's own words, if it was asked for them.
  [[nodiscard]] std::filesystem::path nccl_log(int rank) const {
    return dir / ("nccl.rank." + std::to_string(rank) + ".log");
  }
  /// Files of a side run's tools: packed whole, up to a bound (side_run.hpp).
  [[nodiscard]] std::filesystem::path kept() const { return dir / "kept"; }
  /// A tar file beside the folder; `tar xf` opens it.
  [[nodiscard]] std::filesystem::path pack() const { return dir.string() + ".tar"; }
};

enum class Readers : std::uint8_t {
  all,
  owner,         ///< the owner alone: it may have secrets
  owner_starts,  ///< the owner alone; a program, complete as soon as it exists
};

/// Writes the whole of `text` to a new file beside `path`, fsyncs it and renames it into place.
/// A link stays, and the file that it means is replaced. What is there and is no regular file
/// (a device, a fifo) is written into.
[[nodiscard]] Result<void> write_file_durably(
    const std::filesystem::path& path, std::string_view text, Readers readers = Readers::all);
/// Reads at most `limit` bytes; a longer file is a fault.
[[nodiscard]] Result<std::string> read_file(
    const std::filesystem::path& path, std::size_t limit = 16 << 20);

/// Reads the first bytes, at most so many.
[[nodiscard]] Result<std::string> read_beginning(
    const std::filesystem::path& path, std::size_t bytes);

/// Writes a database's file, in a folder of this user's alone (machine/checked_folder.hpp): follows
/// no link, and refuses what somebody else has put there.
[[nodiscard]] Result<void> write_own_file(
    const std::filesystem::path& path, std::string_view text, Readers readers = Readers::all);
/// Reads a database's file: no link, no fifo, and made by its folder's owner.
[[nodiscard]] Result<std::string> read_own_file(
    const std::filesystem::path& path, std::size_t limit = 16 << 20);
/// Makes a folder of a database, with those above it, for its owner alone. One that is there
/// has to be this user's.
[[nodiscard]] Result<void> make_own_folder(const std::filesystem::path& folder);

/// Appends whole lines to a file of a database. A torn last line, left by a crash, is closed
/// with a newline first, so that readers skip it as malformed.
class LineWriter {
 public:
  [[nodiscard]] static Result<LineWriter> open(const std::filesystem::path& path);
  LineWriter(LineWriter&&) noexcept;
  LineWriter& operator=(LineWriter&&) noexcept;
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  ~LineWriter();
  /// One write(2), then fdatasync if `durable`.
  [[nodiscard]] Result<void> append(std::string_view line, bool durable);

 private:
  explicit LineWriter(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
  bool torn_ = false;  ///< the last line has no end yet
};

/// Follows an append-only file of lines of a database. Reopens at each look (NFS), never waits
/// for the file to appear, keeps a torn last line for the next look.
class LineReader {
 public:
  /// `ends`: each of these characters ends a line; progress bars end theirs by \r alone.
  explicit LineReader(std::filesystem::path path, std::string_view ends = "\n")
      : path_(std::move(path)), ends_(ends) {}
  /// The complete lines since the last look, at most `limit` of them; none if there is no
  /// file. Of a line longer than 1 MiB only the beginning is handed out.
  [[nodiscard]] Result<std::vector<std::string>> look(std::size_t limit = 10'000);
  /// Makes the next looks read only the last `bytes` of what is new, from a whole line on.
  void pass_over_all_but(std::uint64_t bytes);

 private:
  std::filesystem::path path_;
  std::string ends_;
  std::uint64_t offset_ = 0;
  bool overlong_ = false;  ///< inside a line that exceeds the limit
};

/// Durable records of an attempt, from its folder or its pack.
struct AttemptRecords {
  std::string text;  ///< records.jsonl, then records.jsonl.k, whole lines
  bool packed = false;
};
[[nodiscard]] Result<AttemptRecords> read_attempt_records(const AttemptPaths& attempt);

/// Packs the folder into attempt.pack() (durably), then removes it. Logs are cut to their first
/// and last keep_log_bytes / 2. Done again after an interruption it finishes the job.
[[nodiscard]] Result<void> pack_attempt(const AttemptPaths& attempt, std::int64_t keep_log_bytes);

}  // namespace shardsweep
