// SPDX-License-Identifier: Apache-2.0
#include "machine/checked_folder.hpp"
#include "rundir/durable.hpp"
#include "rundir/tar.hpp"
#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <shardsweep/attempt_files.hpp>
#include <shardsweep/storage.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view rank_prefix = "rank.";
constexpr std::string_view rank_suffix = ".out";

/// "rank.2.out" before "rank.10.out".
bool by_number(const AttemptFile& a, const AttemptFile& b) {
  std::size_t i = 0;
  std::size_t k = 0;
  const std::string& one = a.name;
  const std::string& two = b.name;
  while (i < one.size() && k < two.size()) {
    const auto digits = [](const std::string& text, std::size_t at) {
      const auto end =
          std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_digit);
      return static_cast<std::size_t>(end - text.begin()) - at;
    };
    const std::size_t own = digits(one, i);
    const std::size_t other = digits(two, k);
    if (own > 0 && other > 0 && own != other) return own < other;
    if (one[i] != two[k]) return one[i] < two[k];
    ++i;
    ++k;
  }
  return one.size() < two.size();
}

Result<std::vector<AttemptFile>> list_pack(const AttemptPaths& attempt) {
  SHARDSWEEP_ASSIGN(const auto entries, list_tar(attempt.pack()));
  std::vector<AttemptFile> files;
  for (const TarEntry& entry : entries) {
    const auto slash = entry.name.find('/');
    files.push_back({.name = slash == std::string::npos ? entry.name : entry.name.substr(slash + 1),
        .path = attempt.pack(),
        .offset = entry.offset,
        .size = entry.size,
        .packed = true});
  }
  return files;
}

std::vector<AttemptFile> list_folder(const AttemptPaths& attempt) {
  std::vector<AttemptFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(attempt.dir, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (it->symlink_status(gone).type() != fs::file_type::regular) continue;
    const auto size = it->file_size(gone);
    if (gone) continue;
    files.push_back({.name = it->path().lexically_relative(attempt.dir).string(),
        .path = it->path(),
        .size = size});
  }
  return files;
}

}  // namespace

Result<std::vector<AttemptFile>> list_attempt_files(const AttemptPaths& attempt) {
  std::vector<AttemptFile> files;
  if (!is_there(attempt.pack())) files = list_folder(attempt);
  // The attempt may have been packed meanwhile.
  if (is_there(attempt.pack())) {
    SHARDSWEEP_ASSIGN(files, list_pack(attempt));
  }
  std::sort(files.begin(), files.end(), by_number);
  return files;
}

std::vector<AttemptFile> kept_files_of(const AttemptPaths& attempt) {
  auto files = list_attempt_files(attempt);
  if (!files) return {};
  const std::string folder = AttemptPaths{}.kept().string() + "/";
  std::erase_if(*files, [&](const AttemptFile& file) { return !file.name.starts_with(folder); });
  return *std::move(files);
}

std::optional<int> rank_of_log(const std::string& name) {
  if (!name.starts_with(rank_prefix) || !name.ends_with(rank_suffix)) return std::nullopt;
  const auto digits = std::string_view(name).substr(rank_prefix.size());
  const auto rank = number_from<int>(digits.substr(0, digits.size() - rank_suffix.size()));
  return rank && *rank >= 0 ? rank : std::nullopt;
}

Result<AttemptFileReader> AttemptFileReader::open(const AttemptFile& file) {
  // A fifo or a link in place of a log shall not hold us up or lead us away.
  SHARDSWEEP_ASSIGN(Descriptor opened, open_to_read(file.path));
  return AttemptFileReader(opened.release(), file);
}

AttemptFileReader::AttemptFileReader(AttemptFileReader&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), file_(std::move(other.file_)) {}

AttemptFileReader& AttemptFileReader::operator=(AttemptFileReader&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(file_, other.file_);
  return *this;
}

AttemptFileReader::~AttemptFileReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::uint64_t> AttemptFileReader::size() const {
  if (file_.packed) return file_.size;
  struct stat about {};
  if (::fstat(descriptor_, &about) != 0) return errno_error("cannot stat " + file_.path.string());
  return static_cast<std::uint64_t>(std::max<off_t>(about.st_size, 0));
}

Result<std::string> AttemptFileReader::read(std::uint64_t from, std::size_t limit) const {
  if (file_.packed) limit = std::min<std::uint64_t>(limit, file_.size - std::min(from, file_.size));
  std::string bytes(limit, '\0');
  ssize_t got = 0;
  do {
    got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(file_.offset + from));
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno_error("cannot read " + file_.path.string());
  bytes.resize(static_cast<std::size_t>(got));
  return bytes;
}

Result<std::uint64_t> begin_of_last_lines(const AttemptFileReader& file, std::uint64_t lines) {
  constexpr std::uint64_t block = 65536;
  SHARDSWEEP_ASSIGN(const std::uint64_t size, file.size());
  if (lines == 0) return size;
  std::uint64_t seen = 0;
  for (std::uint64_t end = size; end > 0;) {
    const std::uint64_t begin = end - std::min(end, block);
    SHARDSWEEP_ASSIGN(
        const std::string bytes, file.read(begin, static_cast<std::size_t>(end - begin)));
    for (std::size_t at = bytes.size(); at-- > 0;) {
      // The newline that ends the last line begins no line.
      if (bytes[at] != '\n' || begin + at + 1 == size) continue;
      if (++seen == lines) return begin + at + 1;
    }
    end = begin;
  }
  return std::uint64_t{0};
}

}  // namespace shardsweep
