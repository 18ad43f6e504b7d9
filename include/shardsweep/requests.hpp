// SPDX-License-Identifier: Apache-2.0
// Port: how commands ask the daemon for changes. A request is a file in the home (written,
// fsynced, renamed into place under a name that sorts by time); the answer is another
// file. Any login node that sees the folder can send requests.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/outside.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

enum class Verb : std::uint8_t {
  submit,
  pause,
  resume,
  cancel,
  rerun,
  stop,
  clear_node,
  remove,
  next,
  record,
  learn,
  forget,
};
SHARDSWEEP_WORDS(Verb, "submit", "pause", "resume", "cancel", "rerun", "stop", "clear_node",
    "delete", "next", "record", "learn", "forget");

struct Request {
  std::string id;  ///< the file's name; given by post_request
  Verb verb = Verb::stop;
  std::vector<std::string> names;  ///< sweeps, slugs or attempts; clear_node: nodes; record: a
                                   ///< point's id; forget: files of knowledge
  std::string where;
  std::string inbox;       ///< submit: path of the inbox file, or of a folder of them;
                           ///< learn: of a file of knowledge
  std::string from;        ///< user@host pid, for the log
  bool all = false;        ///< every sweep is meant, in place of names
  bool cancelled = false;  ///< resume: also trials that were cancelled by name
  bool dry_run = false;    ///< said alone and never sent: the command decides it by itself
  HandOut hand_out{};      ///< next
  OutsideResult result{};  ///< record
};

struct Answer {
  std::string id;
  std::optional<Fault> fault;
  std::string text;                            ///< sentences, a line each
  std::string document{};                      ///< next: the points, in JSON
  std::map<std::string, std::int64_t> counts;  ///< numbers of changes
};

/// Writes the request; returns its id.
[[nodiscard]] Result<std::string> post_request(const Home& home, Request request, Timestamp now);
/// How the name of a folder of inboxes ends.
inline constexpr std::string_view inboxes_ending = ".inboxes";
/// The inbox of a request; of a folder its inboxes, and then the folder.
void remove_inbox(const std::filesystem::path& inbox);
/// Waiting requests, oldest first. An unreadable request has its id and the reason, for an answer
/// with a fault.
struct PendingRequest {
  std::string id;
  Result<Request> request;
};
[[nodiscard]] Result<std::vector<PendingRequest>> pending_requests(const Home& home);
/// Notices requests from this host at once. Requests from other hosts (NFS) are not noticed, so the
/// folder is read from time to time all the same.
class RequestWatch {
 public:
  explicit RequestWatch(const Home& home);
  RequestWatch(const RequestWatch&) = delete;
  RequestWatch& operator=(const RequestWatch&) = delete;
  ~RequestWatch();

  /// Readable when there is a reason to look; -1, which poll() ignores, if nothing is heard.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Call it before a look.
  void clear();

 private:
  int descriptor_;
};
/// Encodes an answer for the database, where it lies beside its effects, and back.
[[nodiscard]] std::string encode(const Answer& answer);
[[nodiscard]] Result<Answer> decode_answer(const std::string& id, const std::string& text);
/// Writes the answer, then removes the request: after a crash it is answered again.
[[nodiscard]] Result<void> answer_request(const Home& home, const Answer& answer);
/// The answer, once there is one; taking it removes it.
[[nodiscard]] Result<std::optional<Answer>> take_answer(const Home& home, const std::string& id);
/// Removes a request that nobody has answered (the command gives up).
[[nodiscard]] Result<void> withdraw_request(const Home& home, const std::string& id);

}  // namespace shardsweep
