// SPDX-License-Identifier: Apache-2.0
// The functions themselves, and not inline ones that check their arguments.
#undef _FORTIFY_SOURCE
#include "tools/fakes/fail_reads.hpp"

#include "tools/fakes/descriptor_path.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <functional>
#include <utility>

namespace {

int error_now = 0;  // 0: none fails
std::vector<std::string> under;
std::size_t some = 0;  // 0: all files
long failed = 0;

template <class Call>
Call* real_call(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

/// By its name below the folder: where that is differs from run to run.
bool is_one_of_some(const std::string& name) {
  return some == 0 || std::hash<std::string>{}(name + std::to_string(some)) % 2 == 0;
}

bool fails(const std::string& path) {
  const bool hit = std::any_of(under.begin(), under.end(), [&](const std::string& folder) {
    return path.compare(0, folder.size(), folder) == 0 &&
        is_one_of_some(path.substr(folder.size()));
  });
  if (!hit) return false;
  ++failed;
  errno = error_now;
  return true;
}

bool fails_at(int folder, const char* name) {
  if (error_now == 0) return false;
  if (name[0] == '/' || folder == AT_FDCWD) return fails(name);
  return fails(path_of(folder) + (name[0] == '\0' ? "" : "/" + std::string(name)));
}

/// Who writes is another's business: tools/fakes/fail_calls.
bool reads(int flags) {
  return (flags & O_ACCMODE) == O_RDONLY && (flags & O_PATH) == 0;
}

mode_t mode_in(int flags, va_list& rest) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(rest, mode_t) : 0;
}

}  // namespace

namespace shardsweep::testing {

void fail_reads(int error, std::vector<std::string> folders, std::size_t some_files) {
  some = some_files;
  under = std::move(folders);
  error_now = error;
}
void let_reads_pass() {
  error_now = 0;
}
long reads_failed() {
  return failed;
}

}  // namespace shardsweep::testing

// Each kept beside its 64-bit name: which of the two a caller has is its compiler's choice.
extern "C" int open(const char* path, int flags, ...) {
  static auto* const next = real_call<int(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return reads(flags) && fails_at(AT_FDCWD, path) ? -1 : next(path, flags, mode);
}
extern "C" int openat(int folder, const char* path, int flags, ...) {
  static auto* const next = real_call<int(int, const char*, int, ...)>("openat");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return reads(flags) && fails_at(folder, path) ? -1 : next(folder, path, flags, mode);
}
extern "C" int stat(const char* path, struct stat* about) noexcept {
  static auto* const next = real_call<int(const char*, struct stat*)>("stat");
  return fails_at(AT_FDCWD, path) ? -1 : next(path, about);
}
extern "C" int lstat(const char* path, struct stat* about) noexcept {
  static auto* const next = real_call<int(const char*, struct stat*)>("lstat");
  return fails_at(AT_FDCWD, path) ? -1 : next(path, about);
}
extern "C" int fstatat(int folder, const char* path, struct stat* about, int flags) noexcept {
  static auto* const next = real_call<int(int, const char*, struct stat*, int)>("fstatat");
  return fails_at(folder, path) ? -1 : next(folder, path, about, flags);
}
extern "C" ssize_t pread(int file, void* data, size_t size, off_t at) {
  static auto* const next = real_call<ssize_t(int, void*, size_t, off_t)>("pread");
  return error_now != 0 && fails(path_of(file)) ? -1 : next(file, data, size, at);
}
// What the inline one calls.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" ssize_t __pread_chk(int file, void* data, size_t size, off_t at, size_t) {
  return pread(file, data, size, at);
}
