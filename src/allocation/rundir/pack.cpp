// SPDX-License-Identifier: Apache-2.0
// An attempt's folder becomes one tar file, and is read from either. Whenever the process is
// killed, the folder is whole or the pack is: the pack gets its name only when it is durable,
// and only then the folder goes.
#include "machine/checked_folder.hpp"
#include "rundir/durable.hpp"
#include "rundir/tar.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/attempt_files.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/removal.hpp>
#include <shardsweep/secrets_file.hpp>
#include <shardsweep/side_run.hpp>
#include <shardsweep/storage.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t keep_records_bytes = 64 << 20;  // a larger file is a runner gone wild
constexpr std::string_view records_name = "records.jsonl";

bool is_records(std::string_view name) {
  return name == records_name ||
      (name.starts_with(records_name) && name.substr(records_name.size()).starts_with('.'));
}

/// Regular files below `dir` by their name relative to it, sorted.
Result<std::vector<fs::path>> files_below(const fs::path& dir) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    const auto type = it->symlink_status(error).type();
    if (type == fs::file_type::regular) files.push_back(it->path().lexically_relative(dir));
  }
  if (error) return fault(FaultKind::unavailable, dir.string() + ": " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

/// Sorts records.jsonl before .1, and .2 before .10.
std::pair<std::size_t, std::string> records_key(const std::string& name) {
  return {name.size(), name};
}

std::string whole_lines(std::string text) {
  const std::size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

using RecordFiles = std::map<std::pair<std::size_t, std::string>, std::string>;

AttemptRecords join(RecordFiles&& files, bool packed) {
  AttemptRecords records;
  records.packed = packed;
  for (auto& [key, text] : files)
    records.text += whole_lines(std::move(text));
  return records;
}

Result<AttemptRecords> read_from_pack(const AttemptPaths& attempt) {
  RecordFiles files;
  SHARDSWEEP_TRY(read_tar(
      attempt.pack(),
      [](const std::string& name) { return is_records(fs::path(name).filename().string()); },
      [&](const std::string& name, std::string&& contents) {
        files.emplace(records_key(fs::path(name).filename().string()), std::move(contents));
      }));
  return join(std::move(files), true);
}

/// `size` bytes from `from` on; fewer if the file has become shorter.
Result<std::string> read_part(
    const AttemptFileReader& file, std::uint64_t from, std::uint64_t size) {
  std::string text;
  while (text.size() < size) {
    SHARDSWEEP_ASSIGN(const std::string more, file.read(from + text.size(), size - text.size()));
    if (more.empty()) break;
    text += more;
  }
  return text;
}

/// Reads records as a pack would hold them: the first and last lines of an overlong file.
Result<std::string> read_records_file(const fs::path& path) {
  constexpr std::uint64_t half = keep_records_bytes / 2;
  SHARDSWEEP_ASSIGN(const auto file, AttemptFileReader::open({.name = "", .path = path}));
  SHARDSWEEP_ASSIGN(const std::uint64_t size, file.size());
  if (size <= keep_records_bytes) return read_part(file, 0, size);
  SHARDSWEEP_ASSIGN(std::string text, read_part(file, 0, half));
  text = whole_lines(std::move(text));
  SHARDSWEEP_ASSIGN(const std::string last, read_part(file, size - half, half));
  const std::size_t line_end = last.find('\n');
  return line_end == std::string::npos ? text : text + last.substr(line_end + 1);
}

Result<AttemptRecords> read_from_folder(const AttemptPaths& attempt) {
  RecordFiles files;
  std::error_code error;
  for (fs::directory_iterator it(attempt.dir, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!is_records(name)) continue;
    SHARDSWEEP_ASSIGN(std::string text, read_records_file(it->path()));
    files.emplace(records_key(name), std::move(text));
  }
  if (error) return fault(FaultKind::unavailable, attempt.dir.string() + ": " + error.message());
  return join(std::move(files), false);
}

/// Ranks may have printed what they were given. Without the values there is nothing to look
/// for: whoever took them away wants the logs all the same.
Result<void> mask_secrets(const AttemptPaths& attempt) {
  const auto spec = read_own_file(attempt.spec()).and_then([](const std::string& text) {
    return decode_attempt_spec(text);
  });
  if (!spec || spec->secrets.empty()) return {};
  const auto secrets = secrets_of(*spec);
  return secrets ? mask_files(attempt.dir, *secrets) : Result<void>();
}

/// False if the file is larger than what is left of most_kept_bytes.
bool take_room(const fs::path& file, std::uint64_t& kept) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error || size > most_kept_bytes - kept) return false;
  kept += size;
  return true;
}

Result<void> write_pack(const CheckedFolder& folder, const AttemptPaths& attempt,
    const fs::path& fresh, std::uint64_t keep_log) {
  // A file of its own, whatever was left of an earlier try: another host may still write that.
  const std::string name = fresh.filename().string();
  folder.remove(name);
  // Readable for its owner alone, like the spec.json in it.
  SHARDSWEEP_ASSIGN(
      const Descriptor file, folder.open_file(name, O_WRONLY | O_CREAT | O_EXCL, 0600));
  SHARDSWEEP_TRY(mask_secrets(attempt));
  SHARDSWEEP_ASSIGN(const auto names, files_below(attempt.dir));
  TarWriter tar(file.get());
  const AttemptPaths inside{attempt.dir.filename()};
  std::uint64_t kept = 0;
  for (const auto& file_name : names) {
    if (file_name == inside.environment().filename()) continue;  // left out: it may have secrets
    // A part of such a file is of no use: it is there as it is, or a line that names its size.
    const bool of_a_tool = *file_name.begin() == inside.kept().filename();
    const bool fits = of_a_tool && take_room(attempt.dir / file_name, kept);
    const bool whole = file_name == inside.spec().filename() || is_records(file_name.string()) ||
        *file_name.begin() == inside.recorder().filename() ||
        *file_name.begin() == inside.evidence().filename();
    if (const int error = fail_point_error("rundir.pack_file"); error != 0)
      return errno_error("cannot write " + fresh.string(), error);
    SHARDSWEEP_TRY(tar.add_file(attempt.dir / file_name, (inside.dir / file_name).string(),
        of_a_tool   ? (fits ? most_kept_bytes : 0)
            : whole ? keep_records_bytes
                    : keep_log));
  }
  SHARDSWEEP_TRY(tar.finish());
  errno = fail_point_error("rundir.pack_sync");
  if (errno != 0 || ::fsync(file.get()) != 0) return errno_error("cannot fsync " + fresh.string());
  struct stat own {};
  struct stat named {};
  const bool ours = ::fstat(file.get(), &own) == 0 &&
      ::fstatat(folder.descriptor(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
      own.st_ino == named.st_ino;
  if (!ours) return fault(FaultKind::unavailable, "another host packs " + fresh.string());
  return {};
}

}  // namespace

Result<AttemptRecords> read_attempt_records(const AttemptPaths& attempt) {
  SHARDSWEEP_ASSIGN(const bool packed, look_for(attempt.pack()));
  if (packed) return read_from_pack(attempt);
  auto records = read_from_folder(attempt);
  // The attempt may have been packed between the two looks.
  SHARDSWEEP_ASSIGN(const bool packed_since, look_for(attempt.pack()));
  if (packed_since) return read_from_pack(attempt);
  return records;
}

Result<void> pack_attempt(const AttemptPaths& attempt, std::int64_t keep_log_bytes) {
  // A pack that can't be looked at may be whole: the remains of its folder must not replace it.
  SHARDSWEEP_ASSIGN(const bool packed, look_for(attempt.pack()));
  if (!packed) {
    const fs::path fresh = unfinished_pack(attempt);
    SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::of(attempt.pack()));
    // A run may have locked a folder of its own, and what is in there belongs into the pack.
    open_to_owner(attempt.dir);
    SHARDSWEEP_TRY(write_pack(folder, attempt, fresh,
        static_cast<std::uint64_t>(std::max<std::int64_t>(keep_log_bytes, 0))));
    errno = fail_point_error("rundir.pack_rename");
    if (errno != 0) return errno_error("cannot rename " + fresh.string());
    SHARDSWEEP_TRY(folder.rename(fresh.filename().string(), attempt.pack().filename().string()));
    fail_point("rundir.packed");
    SHARDSWEEP_TRY(folder.sync());
  }
  return remove_tree(attempt.dir);
}

}  // namespace shardsweep
