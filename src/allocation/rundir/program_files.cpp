// SPDX-License-Identifier: Apache-2.0
#include "machine/descriptor.hpp"
#include "text/content_hash.hpp"

#include <shardsweep/program_files.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string_view>

namespace shardsweep {
namespace {

constexpr std::uint64_t mebibyte = 1 << 20;
constexpr std::uint64_t most_whole = 64 * mebibyte;

/// Adds what stands from `begin` to `end`.
Result<void> add_range(Fnv128& hash, int descriptor, std::uint64_t begin, std::uint64_t end,
    const std::filesystem::path& file) {
  std::string bytes(mebibyte, '\0');
  while (begin < end) {
    const auto got = ::pread(descriptor, bytes.data(),
        static_cast<std::size_t>(std::min(end - begin, mebibyte)), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("cannot read " + file.string());
    if (got == 0) break;
    hash.add(std::string_view(bytes).substr(0, static_cast<std::size_t>(got)));
    begin += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace

Result<std::string> file_hash(const std::filesystem::path& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) return errno_error("cannot open " + file.string());
  struct stat about {};
  if (::fstat(descriptor.get(), &about) != 0 || !S_ISREG(about.st_mode))
    return fault(FaultKind::unavailable, file.string() + " is not a regular file");
  const auto size = static_cast<std::uint64_t>(about.st_size);
  Fnv128 hash;
  if (size <= most_whole) {
    SHARDSWEEP_TRY(add_range(hash, descriptor.get(), 0, most_whole, file));
    return hash.hex();
  }
  hash.add(fmt::format("{} bytes", size));
  SHARDSWEEP_TRY(add_range(hash, descriptor.get(), 0, mebibyte, file));
  SHARDSWEEP_TRY(add_range(hash, descriptor.get(), size - mebibyte, size, file));
  return hash.hex();
}

}  // namespace shardsweep
