// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/requests.hpp>

#include <sys/inotify.h>
#include <unistd.h>

#include <array>

namespace shardsweep {

RequestWatch::RequestWatch(const Home& home)
    : descriptor_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  // A request appears by being renamed into place.
  if (descriptor_ < 0 ||
      ::inotify_add_watch(descriptor_, home.requests().c_str(), IN_MOVED_TO | IN_ONLYDIR) >= 0)
    return;
  ::close(descriptor_);
  descriptor_ = -1;
}

RequestWatch::~RequestWatch() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RequestWatch::clear() {
  if (descriptor_ < 0) return;
  std::array<char, 4096> events{};
  while (::read(descriptor_, events.data(), events.size()) > 0) {
  }
}

}  // namespace shardsweep
