// SPDX-License-Identifier: Apache-2.0
#include "device/platform.hpp"

#include "communication/socket_communicator.hpp"

#include <algorithm>
#include <utility>

namespace shardbench {

std::unique_ptr<Communicator> connect_host(const Connection& c, Group group) {
  return std::make_unique<SocketCommunicator>(
      c.mesh, c.host_memory, std::move(group), c.limit_s, c.recorder);
}

GroupMaker group_maker(Platform& platform, const Connection& connection) {
  return [&](Group group) { return platform.connect(connection, std::move(group)); };
}

const PlatformKind* find_platform(const Platforms& platforms, std::string_view device) {
  const auto found = std::find_if(platforms.begin(), platforms.end(),
      [&](const PlatformKind& kind) { return kind.device == device; });
  return found == platforms.end() ? nullptr : &*found;
}

}  // namespace shardbench
