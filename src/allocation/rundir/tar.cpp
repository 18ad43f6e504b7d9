// SPDX-License-Identifier: Apache-2.0
#include "rundir/tar.hpp"

#include "machine/checked_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace shardsweep {
namespace {

constexpr std::size_t block = 512;
constexpr std::uint64_t largest_entry = 077777777777ULL;  // eleven octal digits
constexpr std::uint64_t largest_read = 256ULL << 20;      // limit of an entry that is handed out
constexpr char regular = '0';
constexpr char long_name = 'L';

/// The header block of POSIX.1-1988; every field is text.
struct Header {
  std::array<char, 100> name{};
  std::array<char, 8> mode{};
  std::array<char, 8> uid{};
  std::array<char, 8> gid{};
  std::array<char, 12> size{};
  std::array<char, 12> mtime{};
  std::array<char, 8> checksum{};
  char type = regular;
  std::array<char, 100> link{};
  std::array<char, 6> magic{'u', 's', 't', 'a', 'r', '\0'};
  std::array<char, 2> version{'0', '0'};
  std::array<char, 32> user{};
  std::array<char, 32> group{};
  std::array<char, 8> major{};
  std::array<char, 8> minor{};
  std::array<char, 155> prefix{};
  std::array<char, 12> padding{};
};
static_assert(sizeof(Header) == block);

template <std::size_t N>
void put_octal(std::array<char, N>& field, std::uint64_t value) {
  field[N - 1] = '\0';
  for (std::size_t i = N - 1; i-- > 0; value >>= 3U)
    field[i] = static_cast<char>('0' + (value & 7U));
}

template <std::size_t N>
std::uint64_t get_octal(const std::array<char, N>& field) {
  std::uint64_t value = 0;
  const auto* end = std::find(field.begin(), field.end(), '\0');
  std::from_chars(field.data(), field.data() + (end - field.begin()), value, 8);
  return value;
}

unsigned checksum_of(Header header) {
  header.checksum.fill(' ');
  std::array<unsigned char, block> bytes{};
  std::memcpy(bytes.data(), &header, block);
  unsigned sum = 0;
  for (const unsigned char byte : bytes)
    sum += byte;
  return sum;
}

Header make_header(std::string_view name, std::uint64_t size, std::int64_t mtime, char type) {
  Header header;
  std::copy_n(name.begin(), std::min(name.size(), header.name.size()), header.name.begin());
  put_octal(header.mode, 0644);
  put_octal(header.uid, 0);
  put_octal(header.gid, 0);
  put_octal(header.size, size);
  put_octal(header.mtime, mtime > 0 ? static_cast<std::uint64_t>(mtime) : 0);
  header.type = type;
  put_octal(header.checksum, checksum_of(header));
  return header;
}

std::string_view bytes_of(const Header& header) {
  return {header.name.data(), block};
}

}  // namespace

Result<void> TarWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_error("cannot write the pack");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> TarWriter::pad(std::uint64_t size) {
  const std::string zeros((block - size % block) % block, '\0');
  return write(zeros);
}

Result<void> TarWriter::begin_entry(
    const std::string& name, std::uint64_t size, std::int64_t mtime) {
  if (size > largest_entry) return fault(FaultKind::rejected, name + " is too large to pack");
  if (name.size() > Header{}.name.size()) {
    SHARDSWEEP_TRY(
        write(bytes_of(make_header("././@LongLink", name.size() + 1, mtime, long_name))));
    SHARDSWEEP_TRY(write(name + '\0'));
    SHARDSWEEP_TRY(pad(name.size() + 1));
  }
  return write(bytes_of(make_header(name, size, mtime, regular)));
}

/// Exactly `size` bytes: a file that has become shorter meanwhile is filled up with zeros.
Result<void> TarWriter::copy(
    int source, std::uint64_t from, std::uint64_t size, const std::filesystem::path& path) {
  std::string chunk(65536, '\0');
  while (size > 0) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(size, chunk.size()));
    ssize_t got = ::pread(source, chunk.data(), want, static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("cannot read " + path.string());
    if (got == 0) {
      std::fill_n(chunk.begin(), want, '\0');
      got = static_cast<ssize_t>(want);
    }
    const auto count = static_cast<std::size_t>(got);
    SHARDSWEEP_TRY(write({chunk.data(), count}));
    from += count;
    size -= count;
  }
  return {};
}

Result<void> TarWriter::add_file(
    const std::filesystem::path& source, const std::string& name, std::uint64_t keep_bytes) {
  // Neither a link out of the folder nor a fifo may lead the packer away or hold it up.
  const Descriptor file(::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) return errno_error("cannot open " + source.string());
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return errno_error("cannot stat " + source.string());
  if (!S_ISREG(status.st_mode)) return {};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size <= keep_bytes) {
    SHARDSWEEP_TRY(begin_entry(name, size, status.st_mtime));
    SHARDSWEEP_TRY(copy(file.get(), 0, size, source));
    return pad(size);
  }
  const std::uint64_t half = keep_bytes / 2;
  const std::string gap =
      "\n[shardsweep left out " + std::to_string(size - 2 * half) + " bytes here]\n";
  const std::uint64_t kept = 2 * half + gap.size();
  SHARDSWEEP_TRY(begin_entry(name, kept, status.st_mtime));
  SHARDSWEEP_TRY(copy(file.get(), 0, half, source));
  SHARDSWEEP_TRY(write(gap));
  SHARDSWEEP_TRY(copy(file.get(), size - half, half, source));
  return pad(kept);
}

Result<void> TarWriter::finish() {
  return write(std::string(2 * block, '\0'));
}

// ---- reading

namespace {

class TarReader {
 public:
  explicit TarReader(const std::filesystem::path& path)
      : path_(path), file_(::open(path.c_str(), flags_to_read)) {}

  Result<void> each(const std::function<bool(const std::string&)>& wanted,
      const std::function<void(const std::string&, std::string&&)>& take) {
    return walk([&](const TarEntry& entry) -> Result<void> {
      if (!wanted(entry.name)) return {};
      SHARDSWEEP_ASSIGN(std::string contents, read_contents(entry.size));
      take(entry.name, std::move(contents));
      return {};
    });
  }

  /// Stands at each regular file's first byte when it calls.
  Result<void> walk(const std::function<Result<void>(const TarEntry&)>& visit) {
    SHARDSWEEP_TRY(check_to_read(file_, path_));
    std::string name_of_next;
    while (true) {
      Header header;
      SHARDSWEEP_ASSIGN(const bool more, read_header(header));
      if (!more) return {};
      const std::uint64_t size = get_octal(header.size);
      if (header.type == long_name) {
        SHARDSWEEP_ASSIGN(name_of_next, read_contents(size));
        name_of_next.resize(std::min(name_of_next.size(), name_of_next.find('\0')));
        continue;
      }
      std::string name = std::exchange(name_of_next, "");
      if (name.empty()) {
        name.assign(header.name.data(), header.name.size());
        name.resize(std::min(name.size(), name.find('\0')));
      }
      const std::uint64_t next = offset_ + (size + block - 1) / block * block;
      if (header.type == regular) SHARDSWEEP_TRY(visit({std::move(name), offset_, size}));
      offset_ = next;
    }
  }

 private:
  Fault broken() const { return {FaultKind::corrupt, path_.string() + " is not a complete pack"}; }

  Result<void> read_exactly(char* buffer, std::size_t size) {
    while (size > 0) {
      const ssize_t got = ::pread(file_.get(), buffer, size, static_cast<off_t>(offset_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno_error("cannot read " + path_.string());
      if (got == 0) return tl::unexpected(broken());
      buffer += got;
      size -= static_cast<std::size_t>(got);
      offset_ += static_cast<std::uint64_t>(got);
    }
    return {};
  }

  /// False at the block of zeros that ends a tar file.
  Result<bool> read_header(Header& header) {
    std::array<char, block> bytes{};
    SHARDSWEEP_TRY(read_exactly(bytes.data(), block));
    std::memcpy(static_cast<void*>(&header), bytes.data(), block);
    if (header.name[0] == '\0') return false;
    if (get_octal(header.checksum) != checksum_of(header)) return tl::unexpected(broken());
    return true;
  }

  Result<std::string> read_contents(std::uint64_t size) {
    if (size > largest_read) return tl::unexpected(broken());
    std::string contents(static_cast<std::size_t>(size), '\0');
    SHARDSWEEP_TRY(read_exactly(contents.data(), contents.size()));
    offset_ += (block - size % block) % block;
    return contents;
  }

  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t offset_ = 0;
};

}  // namespace

Result<std::vector<TarEntry>> list_tar(const std::filesystem::path& path) {
  std::vector<TarEntry> entries;
  SHARDSWEEP_TRY(TarReader(path).walk([&](const TarEntry& entry) -> Result<void> {
    entries.push_back(entry);
    return {};
  }));
  return entries;
}

Result<void> read_tar(const std::filesystem::path& path,
    const std::function<bool(const std::string&)>& wanted,
    const std::function<void(const std::string&, std::string&&)>& take) {
  return TarReader(path).each(wanted, take);
}

}  // namespace shardsweep
