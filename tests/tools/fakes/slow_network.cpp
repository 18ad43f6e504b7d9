// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: a network that carries SLOW_NETWORK bytes in a second. What a program sends to a
// socket takes so long.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include <cstdlib>

namespace {

void take_time(ssize_t bytes) {
  static const char* const text = std::getenv("SLOW_NETWORK");
  static const double rate = text == nullptr ? 0 : std::atof(text);
  if (rate <= 0 || bytes <= 0) return;
  const double seconds = static_cast<double>(bytes) / rate;
  timespec pause{};
  pause.tv_sec = static_cast<time_t>(seconds);
  pause.tv_nsec = static_cast<long>((seconds - static_cast<double>(pause.tv_sec)) * 1e9);
  (void)::nanosleep(&pause, nullptr);
}

template <class Call>
Call* real(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t send(int socket, const void* data, size_t size, int flags) {
  static auto* const next = real<ssize_t(int, const void*, size_t, int)>("send");
  const ssize_t sent = next(socket, data, size, flags);
  take_time(sent);
  return sent;
}

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static auto* const next = real<ssize_t(int, const msghdr*, int)>("sendmsg");
  const ssize_t sent = next(socket, message, flags);
  take_time(sent);
  return sent;
}
