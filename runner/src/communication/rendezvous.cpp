// SPDX-License-Identifier: Apache-2.0
// Greeting: "shardbench1 RUN_ID FINGERPRINT WORLD RANK PORT HOST". Answer of rank 0, once all
// are there: "welcome" and one "HOST PORT" line per rank; or "stranger"; or "differs".
#include "communication/rendezvous.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "communication/socket_stream.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace shardbench {
namespace {

constexpr const char* protocol = "shardbench1";
// How long one visitor may keep rank 0 waiting for its greeting.
constexpr double greeting_s = 2.0;
constexpr int retry_ms = 20;

struct Greeting {
  std::string protocol;
  std::string run_id;
  u64 fingerprint = 0;
  i64 world = 0;
  i64 rank = -1;
  Address address;
};

std::string greeting_text(const RendezvousPlan& plan, int port) {
  std::ostringstream text;
  text << protocol << ' ' << plan.run_id << ' ' << plan.fingerprint << ' ' << plan.world << ' '
       << plan.rank << ' ' << port << ' ' << host_name();
  return text.str();
}

Greeting parse_greeting(const std::string& text) {
  Greeting g;
  std::istringstream in(text);
  in >> g.protocol >> g.run_id >> g.fingerprint >> g.world >> g.rank >> g.address.port >>
      g.address.host;
  return g;
}

/// The way from here: a peer on this host is reached over loopback.
Address reachable(const Address& address) {
  if (address.host == host_name()) return {"127.0.0.1", address.port};
  return address;
}

std::string file_name(const RendezvousPlan& plan) {
  return plan.where + "/rendezvous." + plan.run_id;
}

/// Writes the file under another name, syncs and renames it: readers see all of it or nothing.
void publish(const RendezvousPlan& plan, int port) {
  const std::string name = file_name(plan);
  const std::string aside = name + ".new";
  const std::string line = host_name() + ":" + std::to_string(port) + " " + plan.run_id + "\n";
  const int fd = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool written = fd >= 0 &&
      ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
      ::fsync(fd) == 0;
  if (fd >= 0) ::close(fd);
  if (!written || std::rename(aside.c_str(), name.c_str()) != 0)
    fail(ErrorClass::comm_error, "can't write '" + name + "': " + std::strerror(errno));
}

std::optional<Address> published_address(const RendezvousPlan& plan) {
  if (plan.where.rfind("tcp://", 0) == 0) return parse_address(plan.where.substr(6));
  std::ifstream in(file_name(plan));
  std::string address;
  std::string run_id;
  if (!(in >> address >> run_id) || run_id != plan.run_id) return std::nullopt;
  return parse_address(address);
}

int listener_of_first(const RendezvousPlan& plan) {
  if (plan.where.rfind("fd:", 0) == 0) return std::atoi(plan.where.c_str() + 3);
  if (plan.where.rfind("tcp://", 0) == 0) {
    const auto address = parse_address(plan.where.substr(6));
    const int listener =
        address ? listen_on(address->host == host_name() ? "" : address->host, address->port) : -1;
    if (listener < 0)
      fail(ErrorClass::comm_error, "can't listen on '" + plan.where + "': " + std::strerror(errno));
    return listener;
  }
  const int listener = listen_on("", 0);
  if (listener < 0)
    fail(ErrorClass::comm_error, std::string("can't listen: ") + std::strerror(errno));
  publish(plan, bound_port(listener));
  return listener;
}

[[noreturn]] void fail_missing(const RendezvousPlan& plan, const std::vector<int>& sockets) {
  std::string missing;
  for (i64 r = 0; r < plan.world; ++r)
    if (r != plan.rank && sockets[static_cast<std::size_t>(r)] < 0)
      missing += (missing.empty() ? "" : " ") + std::to_string(r);
  fail(ErrorClass::timeout,
      "rendezvous: no message from rank " + missing + " within " + std::to_string(plan.limit_s) +
          " s");
}

/// One visitor of rank 0: kept, or sent away.
void receive_visitor(
    const RendezvousPlan& plan, int socket, MeetingResult& result, std::vector<Address>& table) {
  const Deadline patience = Deadline::in(greeting_s);
  const auto text = receive_text(socket, patience);
  const Greeting g = parse_greeting(text.value_or(""));
  const bool ours =
      g.protocol == protocol && g.run_id == plan.run_id && g.rank > 0 && g.rank < plan.world;
  if (!ours) {
    (void)send_text(socket, "stranger", patience);
    ::close(socket);
    return;
  }
  if (g.fingerprint != plan.fingerprint || g.world != plan.world) {
    (void)send_text(socket, "differs", patience);
    fail(ErrorClass::comm_error,
        "rank " + std::to_string(g.rank) + " on " + g.address.host +
            " runs another program or other flags");
  }
  const auto at = static_cast<std::size_t>(g.rank);
  // A rank that comes again has given its first connection up.
  if (result.sockets[at] >= 0) ::close(result.sockets[at]);
  result.sockets[at] = socket;
  result.hosts[at] = g.address.host;
  table[at] = g.address;
}

void meet_as_first(const RendezvousPlan& plan, MeetingResult& result, const Deadline& limit) {
  const int listener = listener_of_first(plan);
  std::vector<Address> table(static_cast<std::size_t>(plan.world));
  const auto missing = [&] {
    return std::count(result.sockets.begin() + 1, result.sockets.end(), -1) > 0;
  };
  while (missing()) {
    const int socket = accept_from(listener, limit);
    if (socket < 0) fail_missing(plan, result.sockets);
    receive_visitor(plan, socket, result, table);
  }
  std::ostringstream welcome;
  welcome << "welcome\n" << host_name() << " 0\n";
  for (std::size_t r = 1; r < table.size(); ++r)
    welcome << table[r].host << ' ' << table[r].port << '\n';
  for (std::size_t r = 1; r < result.sockets.size(); ++r)
    if (!send_text(result.sockets[r], welcome.str(), limit))
      fail(ErrorClass::peer_lost, "rendezvous: rank " + std::to_string(r) + " left");
  ::close(listener);
  if (plan.where.rfind("tcp://", 0) != 0 && plan.where.rfind("fd:", 0) != 0)
    (void)::unlink(file_name(plan).c_str());
}

/// Goes to rank 0 until it says welcome; the answer with the table.
std::string be_welcomed(
    const RendezvousPlan& plan, int port, MeetingResult& result, const Deadline& limit) {
  std::string last = "rank 0 has published no address";
  while (!limit.passed()) {
    const auto address = published_address(plan);
    const int socket = address ? connect_to(reachable(*address), limit) : -1;
    if (socket >= 0 && send_text(socket, greeting_text(plan, port), limit)) {
      const auto answer = receive_text(socket, limit);
      if (answer && answer->rfind("welcome", 0) == 0) {
        result.sockets[0] = socket;
        return *answer;
      }
      if (answer == "differs")
        fail(ErrorClass::comm_error, "rank 0 runs another program or other flags");
      last = answer == "stranger" ? "the process that listens there belongs to another run"
                                  : "the process that listens there closed the connection";
    } else if (address) {
      last = "can't reach " + address->host + ":" + std::to_string(address->port);
    }
    if (socket >= 0) ::close(socket);
    sleep_ms(retry_ms);
  }
  fail(ErrorClass::timeout,
      "rendezvous at '" + plan.where + "': " + last + ", for " + std::to_string(plan.limit_s) +
          " s");
}

/// Lower ranks are called, higher ranks call.
void connect_peers(const RendezvousPlan& plan, int listener, const std::string& welcome,
    MeetingResult& result, const Deadline& limit) {
  std::istringstream table(welcome);
  std::string word;
  table >> word;
  for (i64 r = 0; r < plan.world; ++r) {
    Address address;
    table >> address.host >> address.port;
    result.hosts[static_cast<std::size_t>(r)] = address.host;
    if (r == 0 || r >= plan.rank) continue;
    const int socket = connect_to(reachable(address), limit);
    if (socket < 0 || !send_text(socket, greeting_text(plan, 0), limit))
      fail(ErrorClass::peer_lost,
          "rendezvous: can't reach rank " + std::to_string(r) + " at " + address.host);
    result.sockets[static_cast<std::size_t>(r)] = socket;
  }
  while (std::count(result.sockets.begin() + plan.rank + 1, result.sockets.end(), -1) > 0) {
    const int socket = accept_from(listener, limit);
    if (socket < 0) fail_missing(plan, result.sockets);
    const Greeting g = parse_greeting(receive_text(socket, Deadline::in(greeting_s)).value_or(""));
    const bool ours = g.run_id == plan.run_id && g.fingerprint == plan.fingerprint &&
        g.rank > plan.rank && g.rank < plan.world;
    if (ours)
      result.sockets[static_cast<std::size_t>(g.rank)] = socket;
    else
      ::close(socket);
  }
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

MeetingResult meet(const RendezvousPlan& plan) {
  MeetingResult result;
  result.sockets.assign(static_cast<std::size_t>(plan.world), -1);
  result.hosts.assign(static_cast<std::size_t>(plan.world), host_name());
  if (plan.world == 1) return result;
  const Deadline limit = Deadline::in(plan.limit_s);
  if (plan.rank == 0) {
    meet_as_first(plan, result, limit);
    return result;
  }
  const int listener = listen_on("", 0);
  if (listener < 0)
    fail(ErrorClass::comm_error, std::string("can't listen: ") + std::strerror(errno));
  const std::string welcome = be_welcomed(plan, bound_port(listener), result, limit);
  connect_peers(plan, listener, welcome, result, limit);
  ::close(listener);
  return result;
}

}  // namespace shardbench
