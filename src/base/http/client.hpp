// SPDX-License-Identifier: Apache-2.0
// HTTP beside the poll loop: requests are started, their answers polled for; nothing blocks.
// Headers may hold secrets: they are never logged, and redirects, which would carry them
// elsewhere, are not followed.
#pragma once

#include <shardsweep/result.hpp>

#include <poll.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep::http {

struct Request {
  std::string path;  ///< path below the server's address: "/slurm/v0.0.38/jobs"
  std::string method = "GET";
  std::string body;  ///< JSON, if there is one
  std::vector<std::string> headers;
  double limit_s = 60;
  std::size_t most_bytes = 64 << 20;  ///< limit of the answer, or of the part that `keep` keeps
  /// Returns the part of each piece of the answer to keep; empty: keep all. A fault ends the
  /// request.
  std::function<Result<std::string>(std::string_view piece)> keep{};
};

struct Response {
  long status = 0;
  std::string body;
};

class Client {
 public:
  /// `server`: http://host:port, https://host or unix:/path. `ca_file`: whom it may be
  /// certified by, as PEM; empty: whom this machine trusts.
  explicit Client(const std::string& server, std::string ca_file = "");
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();  ///< drops what is on its way

  /// A number by which poll() tells the answer.
  int start(Request request);
  /// Answers that have come since; a fault of kind `timed_out` may have reached the server.
  [[nodiscard]] std::vector<std::pair<int, Result<Response>>> poll();
  [[nodiscard]] std::vector<pollfd> descriptors() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardsweep::http
