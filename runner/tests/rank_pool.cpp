// SPDX-License-Identifier: Apache-2.0
#include "rank_pool.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace shardbench {
namespace {

/// sockets[i][j] joins rank i with rank j.
using Sockets = std::array<std::array<int, pool_ranks>, pool_ranks>;

Sockets join_all() {
  Sockets sockets{};
  for (auto& row : sockets)
    row.fill(-1);
  for (std::size_t i = 0; i < pool_ranks; ++i)
    for (std::size_t j = i + 1; j < pool_ranks; ++j) {
      std::array<int, 2> pair{};
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) std::abort();
      sockets[i][j] = pair[0];
      sockets[j][i] = pair[1];
    }
  return sockets;
}

void close_others(const Sockets& sockets, std::size_t mine) {
  for (std::size_t i = 0; i < pool_ranks; ++i)
    for (const int socket : sockets[i])
      if (i != mine && socket >= 0) ::close(socket);
}

}  // namespace

bool run_in_pool(const std::function<void(Mesh&)>& serve) {
  const Sockets sockets = join_all();
  std::vector<pid_t> children;
  for (i64 rank = 0; rank < pool_ranks; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    const auto& row = sockets[static_cast<std::size_t>(rank)];
    close_others(sockets, static_cast<std::size_t>(rank));
    Mesh mesh(rank, {row.begin(), row.end()});
    serve(mesh);
    mesh.say_goodbye(5.0);
    std::fflush(nullptr);
    _exit(0);
  }
  close_others(sockets, pool_ranks);
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    good = good && status == 0;
  }
  return good;
}

void* shared_memory(std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

}  // namespace shardbench
