// SPDX-License-Identifier: Apache-2.0
// Files of an allocation: whole files written durably, append-only files of lines. It must hold
// on NFS: readers reopen at each look, nothing is listed and no mtime is trusted.
#include "machine/checked_folder.hpp"
#include "record/json_values.hpp"
#include "rundir/durable.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/removal.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

namespace shardsweep {

namespace {

constexpr mode_t file_mode = 0644;
constexpr mode_t owner_mode = 0600;
constexpr mode_t program_mode = 0700;
constexpr std::size_t chunk_bytes = std::size_t{256} * 1024;

// A file of terabytes without a line must not keep its reader: the rest is the next look's.
constexpr int chunks_per_look = 256;

Result<void> write_all(int descriptor, std::string_view text, const std::string& path) {
  if (const int error = fail_point_error("rundir.write"); error != 0)
    return errno_error("cannot write " + path, error);
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_error("cannot write " + path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

/// read(2) from `offset`, as much as there is up to the buffer's end.
Result<std::size_t> read_at(
    int descriptor, char* buffer, std::size_t size, std::uint64_t offset, const std::string& path) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(descriptor, buffer + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("cannot read " + path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::filesystem::path folder_above(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

Result<void> sync_folder(int folder, const std::filesystem::path& path) {
  // Some network file systems refuse fsync of a folder; there the server makes names durable.
  if (::fsync(folder) != 0 && errno != EINVAL && errno != ENOTSUP)
    return errno_error("cannot fsync " + path.string());
  return {};
}

/// Follows all links of a path; the last one may lead to a file that is to be made.
Result<std::filesystem::path> target_of(std::filesystem::path path) {
  constexpr int most_links = 40;
  for (int links = 0; links < most_links; ++links) {
    std::error_code error;
    const auto to = std::filesystem::read_symlink(path, error);
    if (error) return path;  // a path that is no link
    path = path.parent_path() / to;
  }
  return errno_error("cannot write " + path.string(), ELOOP);
}

/// A device, a fifo, or what /dev/fd names: there is nothing to replace, and nothing to sync.
Result<void> write_into(const std::filesystem::path& path, std::string_view text) {
  // A fifo without a reader must not hold the writer up.
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid() && errno == ENXIO)
    return fault(FaultKind::unavailable,
        "cannot write " + path.string() + ": it is a pipe that no program reads");
  if (!file.valid()) return errno_error("cannot write " + path.string());
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags < 0 || ::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK) != 0)
    return errno_error("cannot write " + path.string());
  return write_all(file.get(), text, path.string());
}

/// Creates a file that is this user's and no link. In a folder that others may write, an existing
/// file would keep its owner and mode.
Descriptor create_fresh(int folder, const std::string& name, mode_t mode) {
  ::unlinkat(folder, name.c_str(), 0);
  return Descriptor(
      ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
}

mode_t mode_for(Readers readers) {
  switch (readers) {
    case Readers::all:
      return file_mode;
    case Readers::owner:
      return owner_mode;
    case Readers::owner_starts:
      return program_mode;
  }
  return owner_mode;
}

/// `path`: in `folder`, a descriptor.
Result<void> replace_durably(
    int folder, const std::filesystem::path& path, std::string_view text, Readers readers) {
  // The pid keeps two writers of one file apart; a stale one is removed.
  const std::string name = path.filename().string();
  const std::string fresh = name + ".new." + std::to_string(::getpid());
  const std::string fresh_path = (path.parent_path() / fresh).string();
  {
    const Descriptor file = create_fresh(folder, fresh, mode_for(readers));
    if (!file.valid())
      return errno_error("cannot create " + (errno == EEXIST ? fresh_path : path.string()));
    auto written = write_all(file.get(), text, fresh_path);
    if (written) {
      errno = fail_point_error("rundir.sync");
      if (errno != 0 || ::fsync(file.get()) != 0)
        written = errno_error("cannot fsync " + fresh_path);
    }
    if (!written) {
      ::unlinkat(folder, fresh.c_str(), 0);
      return written;
    }
  }
  errno = fail_point_error("rundir.rename");
  if (errno != 0 || ::renameat(folder, fresh.c_str(), folder, name.c_str()) != 0) {
    const Fault why = errno_fault("cannot rename " + fresh_path);
    ::unlinkat(folder, fresh.c_str(), 0);
    return tl::unexpected(why);
  }
  fail_point("rundir.renamed");
  return sync_folder(folder, path.parent_path());
}

}  // namespace

Result<void> write_file_durably(
    const std::filesystem::path& path, std::string_view text, Readers readers) {
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) return write_into(path, text);
  SHARDSWEEP_ASSIGN(const auto target, target_of(path));
  const auto above = folder_above(target);
  const Descriptor folder(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return errno_error("cannot create " + target.string());
  return replace_durably(folder.get(), target, text, readers);
}

Result<void> write_own_file(
    const std::filesystem::path& path, std::string_view text, Readers readers) {
  SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::of(path));
  fail_point("rundir.folder_checked");
  return replace_durably(folder.descriptor(), path, text, readers);
}

Result<void> make_own_folder(const std::filesystem::path& folder) {
  SHARDSWEEP_TRY(CheckedFolder::make(folder));
  return {};
}

namespace {

Result<std::string> read_opened(
    const Descriptor& file, const std::filesystem::path& path, std::size_t limit) {
  std::string text;
  std::string chunk(std::min(chunk_bytes, limit + 1), '\0');
  while (true) {
    SHARDSWEEP_ASSIGN(const std::size_t got,
        read_at(file.get(), chunk.data(), chunk.size(), text.size(), path.string()));
    if (got == 0) return text;
    if (text.size() + got > limit)
      return fault(FaultKind::corrupt,
          path.string() + " is longer than " + std::to_string(limit) + " bytes");
    text.append(chunk, 0, got);
  }
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit) {
  // O_NONBLOCK: a fifo of that name must not hold the reader up.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return errno_error("cannot open " + path.string());
  return read_opened(file, path, limit);
}

Result<std::string> read_beginning(const std::filesystem::path& path, std::size_t bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return errno_error("cannot open " + path.string());
  std::string text(bytes, '\0');
  SHARDSWEEP_ASSIGN(
      const std::size_t got, read_at(file.get(), text.data(), bytes, 0, path.string()));
  text.resize(got);
  return text;
}

Result<std::string> read_own_file(const std::filesystem::path& path, std::size_t limit) {
  SHARDSWEEP_ASSIGN(const Descriptor file, open_to_read(path));
  return read_opened(file, path, limit);
}

// ---- LineWriter

LineWriter::LineWriter(LineWriter&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), torn_(other.torn_) {}
LineWriter& LineWriter::operator=(LineWriter&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(torn_, other.torn_);
  return *this;
}
LineWriter::~LineWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<LineWriter> LineWriter::open(const std::filesystem::path& path) {
  SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::of(path));
  SHARDSWEEP_ASSIGN(Descriptor file,
      folder.open_file(path.filename().string(), O_RDWR | O_APPEND | O_CREAT, file_mode));
  LineWriter writer(file.release());
  struct stat status {};
  if (::fstat(writer.descriptor_, &status) != 0) return errno_error("cannot stat " + path.string());
  if (status.st_size == 0) {
    SHARDSWEEP_TRY(folder.sync());
    return writer;
  }
  char last = '\n';
  SHARDSWEEP_TRY(read_at(
      writer.descriptor_, &last, 1, static_cast<std::uint64_t>(status.st_size) - 1, path.string()));
  writer.torn_ = last != '\n';
  return writer;
}

Result<void> LineWriter::append(std::string_view line, bool durable) {
  if (line.find('\n') != std::string_view::npos)
    return fault(FaultKind::invalid_input, "a line must not hold a newline");
  std::string text = torn_ ? "\n" : "";
  text.append(line).append("\n");
  if (const int error = fail_point_error("rundir.append"); error != 0)
    return errno_error("cannot append a line", error);
  ssize_t written = -1;
  do {
    written = ::write(descriptor_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) return errno_error("cannot append a line");
  torn_ = static_cast<std::size_t>(written) != text.size();
  if (torn_) return fault(FaultKind::unavailable, "cannot append a whole line");
  if (!durable) return {};
  errno = fail_point_error("rundir.append_sync");
  if (errno != 0 || ::fdatasync(descriptor_) != 0) return errno_error("cannot fdatasync");
  return {};
}

// ---- LineReader

Result<std::vector<std::string>> LineReader::look(std::size_t limit) {
  std::vector<std::string> lines;
  const Descriptor file(::open(path_.c_str(), flags_to_read));
  if (!file.valid() && errno == ENOENT) return lines;
  SHARDSWEEP_TRY(check_to_read(file, path_));
  // Mostly there is nothing new: clearing the memory first would be most of the work.
  std::size_t size = chunk_bytes;
  auto chunk = std::make_unique_for_overwrite<char[]>(size);
  for (int chunks = 0; lines.size() < limit && chunks < chunks_per_look; ++chunks) {
    SHARDSWEEP_ASSIGN(
        const std::size_t got, read_at(file.get(), chunk.get(), size, offset_, path_.string()));
    const std::string_view text(chunk.get(), got);
    std::size_t begin = 0;
    while (lines.size() < limit) {
      const std::size_t end = text.find_first_of(ends_, begin);
      if (end == std::string_view::npos) break;
      if (!overlong_) lines.emplace_back(text.substr(begin, end - begin));
      overlong_ = false;
      begin = end + 1;
    }
    offset_ += begin;
    if (begin > 0) continue;
    if (got < size) break;
    if (size < json::longest_line && !overlong_) {
      size = json::longest_line;
      chunk = std::make_unique_for_overwrite<char[]>(size);
      continue;
    }
    // No end in sight: its beginning is handed out, to be counted, and the rest passed over.
    if (!overlong_) lines.emplace_back(text.substr(0, 1000));
    overlong_ = true;
    offset_ += got;
  }
  return lines;
}

void LineReader::pass_over_all_but(std::uint64_t bytes) {
  struct stat about {};
  if (::stat(path_.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return;
  const auto size = static_cast<std::uint64_t>(std::max<off_t>(about.st_size, 0));
  if (size <= offset_ || size - offset_ <= bytes) return;
  offset_ = size - bytes;
  overlong_ = true;  // most likely within a line
}

namespace fs = std::filesystem;

void open_to_owner(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return;
  const bool folder = S_ISDIR(info.st_mode);
  if (!folder && !S_ISREG(info.st_mode)) return;
  const mode_t needed = folder ? S_IRWXU : S_IRUSR;
  const bool open = (info.st_mode & needed) == needed ||
      ::fchmodat(AT_FDCWD, path.c_str(), (info.st_mode & 07777U) | needed, AT_SYMLINK_NOFOLLOW) ==
          0;
  if (!open || !folder) return;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error))
    open_to_owner(entry->path());
}

Result<void> remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return {};
  open_to_owner(path);
  fs::remove_all(path, error);
  if (!error) return {};
  return fault(FaultKind::unavailable, "cannot remove '{}': {}", path.string(), error.message());
}

Result<void> remove_attempt(const AttemptPaths& attempt) {
  const auto folder = remove_tree(attempt.dir);
  const auto pack = remove_tree(attempt.pack());
  SHARDSWEEP_TRY(remove_tree(unfinished_pack(attempt)));
  SHARDSWEEP_TRY(pack);
  return folder;
}

Result<bool> claim_allocation(const AllocationPaths& allocation, const std::string& nonce) {
  SHARDSWEEP_ASSIGN(const auto folder, CheckedFolder::open(allocation.dir));
  const std::string claim = allocation.claim().filename().string();
  const std::string own = claim + "." + nonce;
  SHARDSWEEP_TRY(write_own_file(allocation.dir / own, nonce + "\n"));
  // Count the names of our own file instead of trusting link(2): over NFSv3 a retransmitted request
  // answers EEXIST to the one who made the link.
  const int in = folder.descriptor();
  errno = fail_point_error("rundir.claim");
  const bool failed = errno != 0 || ::linkat(in, own.c_str(), in, claim.c_str(), 0) != 0;
  const bool linked = !failed || errno == EEXIST;
  const Fault why = errno_fault("cannot claim " + allocation.dir.string());
  struct stat status {};
  fail_point("rundir.claimed");
  const bool known = ::fstatat(in, own.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  folder.remove(own);
  if (!linked) return tl::unexpected(why);
  if (!known) return errno_error("cannot stat " + (allocation.dir / own).string());
  return status.st_nlink == 2;
}

Result<std::string> random_nonce() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return errno_error("cannot get random bytes");
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

}  // namespace shardsweep
