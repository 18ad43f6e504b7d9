// SPDX-License-Identifier: Apache-2.0
// Frames: 16 bytes of header (key, length), then the payload. Sockets are non-blocking; whoever
// waits sleeps in poll(2).
#include "communication/mesh.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace shardbench {
namespace {

// Keys of the mesh's own frames; communicators use keys below.
constexpr u64 error_key = ~u64{0};
constexpr u64 goodbye_key = ~u64{0} - 1;
constexpr i64 header_size = 16;
// How long a rank that saw a peer close looks for the report of what happened.
constexpr double cause_grace_s = 0.5;

}  // namespace

Mesh::Mesh(i64 rank, std::vector<int> sockets) : rank_(rank), peers_(sockets.size()) {
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    peers_[i].socket = sockets[i];
    if (sockets[i] >= 0)
      (void)::fcntl(sockets[i], F_SETFL, ::fcntl(sockets[i], F_GETFL) | O_NONBLOCK);
  }
}

Mesh::~Mesh() {
  for (const Peer& peer : peers_)
    if (peer.socket >= 0) ::close(peer.socket);
}

void Mesh::send(i64 peer, u64 key, const void* data, i64 bytes, int& pending) {
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  sent_bytes_ += bytes;
  to.out.push_back(
      {{key, static_cast<u64>(bytes)}, {}, static_cast<const std::byte*>(data), 0, &pending});
  if (to.out.size() == 1) write_some(to);
}

void Mesh::receive(i64 peer, u64 key, void* data, i64 bytes, int& pending) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  const auto early = from.early.find(key);
  if (early == from.early.end()) {
    from.posted[key] = {static_cast<std::byte*>(data), bytes, &pending};
    return;
  }
  if (static_cast<i64>(early->second.size()) != bytes)
    fail(ErrorClass::comm_error,
        "rank " + std::to_string(peer) + " sent " + std::to_string(early->second.size()) +
            " bytes where " + std::to_string(bytes) + " were expected");
  std::copy(early->second.begin(), early->second.end(), static_cast<std::byte*>(data));
  from.early.erase(early);
  --pending;
}

void Mesh::write_some(Peer& peer) {
  while (!peer.out.empty() && !peer.closed) {
    Outgoing& next = peer.out.front();
    const i64 total = header_size + static_cast<i64>(next.header.bytes);
    const std::byte* payload = next.owned.empty() ? next.data : next.owned.data();
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    if (next.done < header_size)
      parts[count++] = {reinterpret_cast<std::byte*>(&next.header) + next.done,
          static_cast<std::size_t>(header_size - next.done)};
    const i64 from = std::max<i64>(0, next.done - header_size);
    if (from < static_cast<i64>(next.header.bytes))
      parts[count++] = {const_cast<std::byte*>(payload) + from,
          static_cast<std::size_t>(total - header_size - from)};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t written = ::sendmsg(peer.socket, &message, MSG_NOSIGNAL);
    if (written < 0) {
      // A broken connection is reported by the reading side, which may still hold the cause.
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) peer.out.clear();
      return;
    }
    next.done += written;
    if (next.done < total) return;
    if (next.pending != nullptr) --*next.pending;
    peer.out.pop_front();
  }
}

void Mesh::read_some(i64 index) {
  while (read_step(index)) {
  }
}

bool Mesh::read_step(i64 index) {
  Peer& peer = peers_[static_cast<std::size_t>(index)];
  if (peer.closed) return false;
  std::byte* to = nullptr;
  i64 wanted = 0;
  if (!peer.in_payload) {
    to = reinterpret_cast<std::byte*>(&peer.header) + peer.header_done;
    wanted = header_size - peer.header_done;
  } else {
    to = peer.target.data + peer.payload_done;
    wanted = peer.target.bytes - peer.payload_done;
  }
  const ssize_t got = ::recv(peer.socket, to, static_cast<std::size_t>(wanted), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got <= 0) {
    peer_closed(index, got == 0 ? "closed its connection" : std::strerror(errno));
    return false;
  }
  if (!peer.in_payload) {
    peer.header_done += got;
    if (peer.header_done == header_size) begin_payload(index);
  } else {
    peer.payload_done += got;
  }
  if (peer.in_payload && peer.payload_done == peer.target.bytes) finish_payload(index);
  return true;
}

void Mesh::begin_payload(i64 index) {
  Peer& peer = peers_[static_cast<std::size_t>(index)];
  peer.in_payload = true;
  peer.payload_done = 0;
  const auto posted = peer.posted.find(peer.header.key);
  const i64 bytes = static_cast<i64>(peer.header.bytes);
  if (posted == peer.posted.end()) {
    peer.unposted.resize(static_cast<std::size_t>(bytes));
    peer.target = {peer.unposted.data(), bytes, nullptr};
    return;
  }
  peer.target = posted->second;
  peer.posted.erase(posted);
  if (peer.target.bytes != bytes)
    fail(ErrorClass::comm_error,
        "rank " + std::to_string(index) + " sent " + std::to_string(bytes) + " bytes where " +
            std::to_string(peer.target.bytes) + " were expected");
}

void Mesh::finish_payload(i64 index) {
  Peer& peer = peers_[static_cast<std::size_t>(index)];
  peer.in_payload = false;
  peer.header_done = 0;
  if (peer.target.pending != nullptr) {
    --*peer.target.pending;
    return;
  }
  std::vector<std::byte> payload = std::move(peer.unposted);
  peer.unposted = {};
  if (peer.header.key >= goodbye_key) {
    control_frame(index, payload);
    return;
  }
  // The receive may have been posted while the payload was coming in.
  const auto posted = peer.posted.find(peer.header.key);
  if (posted == peer.posted.end()) {
    peer.early[peer.header.key] = std::move(payload);
    return;
  }
  const ReceiveBuffer target = posted->second;
  peer.posted.erase(posted);
  check(static_cast<i64>(payload.size()) == target.bytes, "both sides agree on sizes");
  std::copy(payload.begin(), payload.end(), target.data);
  --*target.pending;
}

void Mesh::control_frame(i64 index, const std::vector<std::byte>& payload) {
  if (peers_[static_cast<std::size_t>(index)].header.key == goodbye_key) {
    peers_[static_cast<std::size_t>(index)].goodbye = true;
    return;
  }
  if (leaving_) return;
  // "<rank where it began> <class>: <message>"
  const std::string text(reinterpret_cast<const char*>(payload.data()), payload.size());
  failed_rank_ = std::atol(text.c_str());
  fail(ErrorClass::peer_lost, "rank " + text);
}

void Mesh::peer_closed(i64 index, const std::string& how) {
  Peer& peer = peers_[static_cast<std::size_t>(index)];
  peer.closed = true;
  peer.out.clear();
  if (peer.goodbye || leaving_) return;
  // A peer may have left because of an error elsewhere, whose report has not arrived yet; a second
  // peer that closes meanwhile changes nothing.
  for (Peer& other : peers_)
    other.goodbye = true;
  const Deadline grace = Deadline::in(cause_grace_s);
  while (!grace.passed())
    poll_once(grace.left_ms());
  failed_rank_ = index;
  fail(ErrorClass::peer_lost, "rank " + std::to_string(index) + ": " + how);
}

bool Mesh::poll_once(int timeout_ms) {
  std::vector<pollfd> watched;
  std::vector<i64> index_of;
  for (i64 i = 0; i < size(); ++i) {
    const Peer& peer = peers_[static_cast<std::size_t>(i)];
    if (peer.socket < 0 || peer.closed) continue;
    const auto events = static_cast<short>(peer.out.empty() ? POLLIN : POLLIN | POLLOUT);
    watched.push_back({peer.socket, events, 0});
    index_of.push_back(i);
  }
  const int ready = ::poll(watched.data(), watched.size(), timeout_ms);
  if (ready <= 0) return false;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    Peer& peer = peers_[static_cast<std::size_t>(index_of[i])];
    if ((watched[i].revents & POLLOUT) != 0) write_some(peer);
    if ((watched[i].revents & ~POLLOUT) != 0) read_some(index_of[i]);
  }
  return true;
}

void Mesh::tell_listeners() {
  for (const auto& listener : listeners_)
    listener();
}

Mesh::Listener Mesh::add_listener(std::function<void()> listener) {
  return listeners_.insert(listeners_.end(), std::move(listener));
}

void Mesh::progress() {
  if (poll_once(0)) tell_listeners();
}

void Mesh::wait_event(const Deadline& limit) {
  if (poll_once(limit.left_ms())) tell_listeners();
}

void Mesh::queue_control(u64 key, const std::string& text) {
  for (Peer& peer : peers_) {
    if (peer.socket < 0 || peer.closed) continue;
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    peer.out.push_back({{key, text.size()}, std::move(bytes), nullptr, 0, nullptr});
    if (peer.out.size() == 1) write_some(peer);
  }
}

void Mesh::flush(double limit_s) {
  const Deadline limit = Deadline::in(limit_s);
  const auto unsent = [](const Peer& peer) { return !peer.closed && !peer.out.empty(); };
  while (std::any_of(peers_.begin(), peers_.end(), unsent) && !limit.passed())
    poll_once(limit.left_ms());
}

void Mesh::broadcast_error(const Error& error, i64 origin_rank, double limit_s) {
  leaving_ = true;
  std::string text = error.message;
  if (failed_rank_ < 0)
    text = std::to_string(origin_rank) + ": " + std::string(error_class_name(error.kind)) + ": " +
        error.message;
  else if (text.rfind("rank ", 0) == 0)
    text = text.substr(5);
  queue_control(error_key, text);
  flush(limit_s);
}

void Mesh::say_goodbye(double limit_s) {
  queue_control(goodbye_key, "bye");
  flush(limit_s);
  leaving_ = true;
}

}  // namespace shardbench
