// SPDX-License-Identifier: Apache-2.0
// What the fuzzed readers share: a way to say what is broken, and bytes as a file.
#pragma once

#include <shardsweep/result.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace shardsweep::fuzzing {

[[noreturn]] inline void fail(const char* what, const std::string& details) {
  std::fprintf(stderr, "%s\n%s\n", what, details.c_str());
  std::abort();
}

/// What a person reads: no control character of C0 but the end of a line, and no DEL.
inline void check_words(const char* what, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n') || byte == 0x7f) fail(what, std::string(text));
  }
}

/// A fault says something, and nothing that a terminal obeys.
inline void check_fault(const Fault& fault) {
  if (fault.what.empty()) fail("a fault that says nothing", "");
  check_words("a control character in a fault", fault.what);
}

/// The first byte chooses; the rest is what is read.
struct Choice {
  std::size_t number = 0;
  std::string_view text;
};
inline Choice chosen(const std::uint8_t* data, std::size_t size, std::size_t of) {
  if (size == 0) return {};
  const auto* bytes = reinterpret_cast<const char*>(data);
  return {data[0] % of, std::string_view(bytes + 1, size - 1)};
}

/// Bytes that have a path and no disk.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail("memfd_create failed", "");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  void fill(std::string_view bytes) const {
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      fail("a memory file cannot be written", "");
  }
  [[nodiscard]] std::filesystem::path path() const {
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

}  // namespace shardsweep::fuzzing
