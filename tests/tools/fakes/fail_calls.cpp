// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: the N-th call of a kind fails, with what it works on left as it was.
//
//   FAIL_CALLS=write|sync|rename|unlink|fork:N:ENOSPC|EIO|ESTALE|EAGAIN
//   FAIL_CALLS_UNDER=FOLDER   calls on files below it count (of fork: all)
//   FAIL_CALLS_BY=PROGRAM     in processes whose program's name begins so
//   FAIL_CALLS_LOG=FILE       shared by all processes: 8 bytes, the calls of that kind so far.
//   The
//                             one that fails appends a line to FILE.failed: what, on which file
//
// SQLite's own calls count, too: it calls the same functions of libc. A test that is linked
// with this file instead says by fail_calls.hpp what fails.
#include "tools/fakes/fail_calls.hpp"

#include "tools/fakes/descriptor_path.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <class Call>
Call* real(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

struct Plan {
  std::string kind{};
  long at = 0;
  int error = 0;
  std::string under{};
  std::string log{};
  std::atomic<long>* calls = nullptr;
};

int error_named(const std::string& word) {
  if (word == "ENOSPC") return ENOSPC;
  if (word == "EIO") return EIO;
  if (word == "ESTALE") return ESTALE;
  return EAGAIN;
}

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

Plan read_plan() {
  Plan plan;
  const std::string text = variable("FAIL_CALLS");
  const std::string by = variable("FAIL_CALLS_BY");
  plan.log = variable("FAIL_CALLS_LOG");
  plan.under = variable("FAIL_CALLS_UNDER");
  const auto one = text.find(':');
  const auto two = text.find(':', one + 1);
  if (one == std::string::npos || two == std::string::npos || plan.log.empty()) return plan;
  if (std::string(program_invocation_short_name).rfind(by, 0) != 0) return plan;
  const int file = ::open(plan.log.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(long)) != 0) return plan;
  void* const shared = ::mmap(nullptr, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (shared == MAP_FAILED) return plan;
  plan.calls = static_cast<std::atomic<long>*>(shared);
  plan.kind = text.substr(0, one);
  plan.at = std::atol(text.c_str() + one + 1);
  plan.error = error_named(text.substr(two + 1));
  return plan;
}

Plan& plan() {
  static Plan read = read_plan();
  return read;
}

std::atomic<long> calls_here = 0;
std::string failed_here;

bool is_under(const std::string& path) {
  const std::string& under = plan().under;
  return path.compare(0, under.size(), under) == 0;
}

std::string path_at(int folder, const char* name) {
  if (name[0] == '/') return name;
  return (folder == AT_FDCWD ? std::string(".") : path_of(folder)) + "/" + name;
}

/// True where this call is the one.
bool fails(const char* kind, const std::string& path) {
  if (plan().calls == nullptr || plan().kind != kind) return false;
  if (std::strcmp(kind, "fork") != 0 && !is_under(path)) return false;
  if (plan().calls->fetch_add(1) + 1 != plan().at) return false;
  failed_here = path;
  errno = plan().error;
  if (plan().log.empty()) return true;
  const std::string file = plan().log + ".failed";
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const std::string line =
      std::string(program_invocation_short_name) + " " + kind + " " + path + "\n";
  static auto* const put = real<ssize_t(int, const void*, size_t)>("write");
  (void)put(out, line.data(), line.size());
  ::close(out);
  errno = plan().error;
  return true;
}

bool fails_on(const char* kind, int descriptor) {
  if (plan().calls == nullptr || plan().kind != kind) return false;
  const int kept = errno;
  const bool failed = fails(kind, path_of(descriptor));
  if (!failed) errno = kept;
  return failed;
}

}  // namespace

namespace shardsweep::testing {

void fail_call(const std::string& kind, long at, int error, const std::string& under) {
  calls_here = 0;
  failed_here.clear();
  plan().kind = kind;
  plan().at = at;
  plan().error = error;
  plan().under = under;
  let_calls_fail(false);
}
void let_calls_fail(bool may) {
  plan().calls = may ? &calls_here : nullptr;
}
long calls_so_far() {
  return calls_here;
}
const std::string& failed_on() {
  return failed_here;
}

}  // namespace shardsweep::testing

extern "C" ssize_t write(int file, const void* data, size_t size) {
  static auto* const next = real<ssize_t(int, const void*, size_t)>("write");
  return fails_on("write", file) ? -1 : next(file, data, size);
}
extern "C" ssize_t pwrite(int file, const void* data, size_t size, off_t at) {
  static auto* const next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return fails_on("write", file) ? -1 : next(file, data, size, at);
}
extern "C" ssize_t pwrite64(int file, const void* data, size_t size, off64_t at) {
  static auto* const next = real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return fails_on("write", file) ? -1 : next(file, data, size, at);
}
extern "C" ssize_t writev(int file, const iovec* parts, int count) {
  static auto* const next = real<ssize_t(int, const iovec*, int)>("writev");
  return fails_on("write", file) ? -1 : next(file, parts, count);
}
extern "C" int fsync(int file) {
  static auto* const next = real<int(int)>("fsync");
  return fails_on("sync", file) ? -1 : next(file);
}
extern "C" int fdatasync(int file) {
  static auto* const next = real<int(int)>("fdatasync");
  return fails_on("sync", file) ? -1 : next(file);
}
extern "C" int rename(const char* from, const char* to) noexcept {
  static auto* const next = real<int(const char*, const char*)>("rename");
  return fails("rename", path_at(AT_FDCWD, to)) ? -1 : next(from, to);
}
extern "C" int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  static auto* const next = real<int(int, const char*, int, const char*)>("renameat");
  return fails("rename", path_at(to_folder, to)) ? -1 : next(from_folder, from, to_folder, to);
}
extern "C" int unlink(const char* path) noexcept {
  static auto* const next = real<int(const char*)>("unlink");
  return fails("unlink", path_at(AT_FDCWD, path)) ? -1 : next(path);
}
extern "C" int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const next = real<int(int, const char*, int)>("unlinkat");
  return fails("unlink", path_at(folder, path)) ? -1 : next(folder, path, flags);
}
extern "C" pid_t fork() noexcept {
  static auto* const next = real<pid_t()>("fork");
  return fails("fork", "a process") ? -1 : next();
}
