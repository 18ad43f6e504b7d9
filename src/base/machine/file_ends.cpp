// SPDX-License-Identifier: Apache-2.0
#include "machine/file_ends.hpp"

#include "machine/descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace shardsweep {
namespace {

std::string read_part(int file, std::size_t from, std::size_t bytes) {
  std::string text(bytes, '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), static_cast<off_t>(from));
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

}  // namespace

FileEnds file_ends(const std::filesystem::path& path, std::size_t limit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return {};
  const auto size = static_cast<std::size_t>(std::max<off_t>(0, about.st_size));
  if (size <= limit) return {read_part(file.get(), 0, size)};
  FileEnds ends{read_part(file.get(), 0, limit / 4)};
  const std::size_t rest = limit - limit / 4;
  std::string tail = read_part(file.get(), size - rest, rest);
  ends.text.resize(ends.text.rfind('\n') + 1);  // npos + 1 is 0
  tail.erase(0, std::min(tail.find('\n'), tail.size()));
  ends.text += tail;
  ends.left_out = size - ends.text.size();
  return ends;
}

}  // namespace shardsweep
