// SPDX-License-Identifier: Apache-2.0
// Point-to-point messages between all ranks over connected sockets, without blocking or
// spinning.
//
// A message carries a key; it meets the receive posted with the same key, whichever comes
// first. A peer that closes without goodbye, or reports its error, ends this rank (class
// peer_lost).
#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/dtype.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

namespace shardbench {

class Mesh {
 public:
  /// sockets[r] is connected to rank r (stream socket, owned from now on); -1 for `rank`
  /// itself.
  Mesh(i64 rank, std::vector<int> sockets);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  i64 rank() const { return rank_; }
  i64 size() const { return static_cast<i64>(peers_.size()); }

  /// `data` stays untouched and `pending` is decremented when the last byte has left.
  void send(i64 peer, u64 key, const void* data, i64 bytes, int& pending);
  /// `pending` is decremented when all bytes are there. The sizes of both sides must agree.
  void receive(i64 peer, u64 key, void* data, i64 bytes, int& pending);

  /// Called whenever bytes have moved: an operation in several stages goes on while another is
  /// awaited.
  using Listener = std::list<std::function<void()>>::iterator;
  Listener add_listener(std::function<void()> listener);
  void remove_listener(Listener listener) { listeners_.erase(listener); }

  /// Moves what can be moved now.
  void progress();
  /// Sleeps until something can be moved or `limit` has passed, then moves it.
  void wait_event(const Deadline& limit);

  /// Tells every peer why this rank leaves; gives up after `limit_s`.
  void broadcast_error(const Error& error, i64 origin_rank, double limit_s);
  /// Allows peers to close: all messages have been exchanged.
  void say_goodbye(double limit_s);

  /// The rank whose error ended this one; -1 when none was reported.
  i64 failed_rank() const { return failed_rank_; }
  i64 sent_bytes() const { return sent_bytes_; }

 private:
  struct Header {
    u64 key;
    u64 bytes;
  };
  struct Outgoing {
    Header header;
    std::vector<std::byte> owned;  // frames of the mesh itself; data points elsewhere otherwise
    const std::byte* data;
    i64 done;  // bytes done, of header and data together
    int* pending;
  };
  struct ReceiveBuffer {
    std::byte* data;
    i64 bytes;
    int* pending;
  };
  struct Peer {
    int socket = -1;
    std::deque<Outgoing> out;
    std::map<u64, ReceiveBuffer> posted;
    std::map<u64, std::vector<std::byte>> early;
    Header header{};
    i64 header_done = 0;
    bool in_payload = false;
    i64 payload_done = 0;
    ReceiveBuffer target{};
    std::vector<std::byte> unposted;  // payload that came before its receive was posted
    bool goodbye = false;
    bool closed = false;
  };

  void write_some(Peer& peer);
  void read_some(i64 index);
  bool read_step(i64 index);
  void begin_payload(i64 index);
  void finish_payload(i64 index);
  void control_frame(i64 index, const std::vector<std::byte>& payload);
  void peer_closed(i64 index, const std::string& how);
  void queue_control(u64 key, const std::string& text);
  void flush(double limit_s);
  bool poll_once(int timeout_ms);
  void tell_listeners();

  i64 rank_;
  std::vector<Peer> peers_;
  i64 failed_rank_ = -1;
  i64 sent_bytes_ = 0;
  bool leaving_ = false;
  std::list<std::function<void()>> listeners_;
};

}  // namespace shardbench
