// SPDX-License-Identifier: Apache-2.0
// The client of a static build: the host's program curl. Address, headers and body go by a file
// of mode 0600, never by the command line, which every user of the machine may read.
#include "http/client.hpp"

#include <shardsweep/command.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace shardsweep::http {
namespace {

constexpr std::string_view unix_prefix = "unix:";
constexpr double margin_s = 5;           // curl keeps the time itself
constexpr std::size_t status_bytes = 4;  // "\n200"

/// A value of curl's configuration file.
std::string config_value(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

/// Unavailable if the request surely never reached the server; timed out if it may have.
FaultKind kind_of(int exit_code) {
  constexpr std::array<int, 5> by_tls{35, 51, 58, 60, 77};   // the server has not shown who it is
  const bool unsent = (exit_code >= 1 && exit_code <= 7) ||  // up to "could not connect"
      std::find(by_tls.begin(), by_tls.end(), exit_code) != by_tls.end();
  return unsent ? FaultKind::unavailable : FaultKind::timed_out;
}

/// curl prints the body and then, on a line of its own, the status: the last bytes are held
/// back from whoever filters the body.
class Body {
 public:
  explicit Body(std::function<Result<std::string>(std::string_view)> keep)
      : keep_(std::move(keep)) {}

  Result<std::string> take(std::string_view piece) {
    held_ += piece;
    const std::size_t body = held_.size() - std::min(held_.size(), status_bytes);
    const std::string ready = held_.substr(0, body);
    held_.erase(0, body);
    if (!keep_ || ready.empty()) return ready;
    auto kept = keep_(ready);
    // The server has got the request: nobody knows whether it has carried it out.
    if (!kept) return fault(FaultKind::timed_out, kept.error().what);
    return kept;
  }
  [[nodiscard]] std::optional<long> status() const {
    long status = 0;
    const char* const last = held_.data() + held_.size();
    if (held_.empty() || held_.front() != '\n' ||
        std::from_chars(held_.data() + 1, last, status).ptr != last)
      return std::nullopt;
    return status;
  }

 private:
  std::function<Result<std::string>(std::string_view)> keep_;
  std::string held_;
};

struct Transfer {
  int number = 0;
  std::string path;
  std::size_t most_bytes = 0;
  std::filesystem::path settings;
  std::shared_ptr<Body> body;  ///< `command` calls it
  RunningCommand command;
};

Result<Response> read_answer(const Transfer& transfer, Result<CommandOutput> output) {
  if (!output) return tl::unexpected<Fault>(output.error());
  if (output->truncated) {
    return fault(FaultKind::timed_out, "the answer to {} is larger than {} MiB", transfer.path,
        transfer.most_bytes >> 20);
  }
  if (output->exit_code != 0) {
    return fault(kind_of(output->exit_code),
        fmt::format("{}: {}", transfer.path, output->err.substr(0, output->err.find('\n'))));
  }
  const auto status = transfer.body->status();
  if (!status) return fault(FaultKind::timed_out, "{}: curl told no status", transfer.path);
  return Response{*status, std::move(output->out)};
}

}  // namespace

struct Client::State {
  std::string base;         ///< beginning of all URLs
  std::string unix_socket;  ///< empty: none
  std::string ca_file;      ///< empty: the system's
  std::map<int, Transfer> transfers;
  std::vector<std::pair<int, Result<Response>>> failed;
  int last_number = 0;

  [[nodiscard]] std::string settings_of(const Request& request) const {
    std::string text = fmt::format(
        "url = {}\nrequest = {}\nmax-time = {:.3f}\nconnect-timeout = 10\nnoproxy = \"*\"\n"
        "silent\nshow-error\nwrite-out = \"\\n%{{http_code}}\"\n",
        config_value(base + request.path), config_value(request.method), request.limit_s);
    if (!unix_socket.empty()) text += "unix-socket = " + config_value(unix_socket) + "\n";
    if (!ca_file.empty()) text += "cacert = " + config_value(ca_file) + "\n";
    if (!request.body.empty()) {
      text +=
          "header = \"Content-Type: application/json\"\ndata-raw = " + config_value(request.body) +
          "\n";
    }
    for (const std::string& header : request.headers)
      text += "header = " + config_value(header) + "\n";
    return text;
  }

  /// Readable for nobody else from the moment on that it exists.
  static Result<std::filesystem::path> write_settings(const std::string& text) {
    std::error_code error;
    auto folder = std::filesystem::temp_directory_path(error);
    std::string file = ((error ? "/tmp" : folder) / "shardsweep-http-XXXXXX").string();
    const int descriptor = ::mkostemp(file.data(), O_CLOEXEC);
    bool written = descriptor >= 0;
    for (std::size_t done = 0; written && done < text.size();) {
      const ssize_t put = ::write(descriptor, text.data() + done, text.size() - done);
      written = put > 0;
      if (written) done += static_cast<std::size_t>(put);
    }
    if (descriptor >= 0) ::close(descriptor);
    if (!written) return fault(FaultKind::unavailable, "cannot write '" + file + "'");
    return std::filesystem::path(file);
  }

  Result<void> start(int number, const Request& request) {
    if (find_on_path("curl").empty())
      return fault(FaultKind::unavailable,
          "this static program uses the program curl for HTTP, and no curl is on PATH");
    SHARDSWEEP_ASSIGN(const auto settings, write_settings(settings_of(request)));
    CommandOptions options;
    options.deadline =
        std::chrono::milliseconds(static_cast<std::int64_t>((request.limit_s + margin_s) * 1000));
    options.output_limit = request.most_bytes;
    const auto body = std::make_shared<Body>(request.keep);
    options.keep = [body](std::string_view piece) { return body->take(piece); };
    auto command = RunningCommand::start({"curl", "-q", "--config", settings.string()}, options);
    if (!command) {
      forget(settings);
      return tl::unexpected<Fault>(command.error());
    }
    transfers.emplace(number,
        Transfer{number, request.path, request.most_bytes, settings, body, std::move(*command)});
    return {};
  }

  static void forget(const std::filesystem::path& settings) {
    std::error_code ignored;
    std::filesystem::remove(settings, ignored);
  }
};

Client::Client(const std::string& server, std::string ca_file) : state_(std::make_unique<State>()) {
  state_->ca_file = std::move(ca_file);
  if (server.compare(0, unix_prefix.size(), unix_prefix) == 0) {
    state_->unix_socket = server.substr(unix_prefix.size());
    state_->base = "http://localhost";
  } else {
    state_->base = server;
  }
  while (!state_->base.empty() && state_->base.back() == '/')
    state_->base.pop_back();
}

Client::~Client() {
  for (const auto& [number, transfer] : state_->transfers)
    State::forget(transfer.settings);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the client by libcurl keeps it.
int Client::start(Request request) {
  const int number = ++state_->last_number;
  const auto started = state_->start(number, request);
  if (!started) state_->failed.emplace_back(number, tl::unexpected<Fault>(started.error()));
  return number;
}

std::vector<std::pair<int, Result<Response>>> Client::poll() {
  auto done = std::exchange(state_->failed, {});
  for (auto at = state_->transfers.begin(); at != state_->transfers.end();) {
    Transfer& transfer = at->second;
    const auto ended = transfer.command.poll();
    if (!ended) {
      ++at;
      continue;
    }
    State::forget(transfer.settings);
    done.emplace_back(transfer.number, read_answer(transfer, *ended));
    at = state_->transfers.erase(at);
  }
  return done;
}

std::vector<pollfd> Client::descriptors() const {
  std::vector<pollfd> descriptors;
  for (const auto& [number, transfer] : state_->transfers) {
    const int ended = transfer.command.ended_descriptor();
    if (ended >= 0) descriptors.push_back({ended, POLLIN, 0});
  }
  return descriptors;
}

}  // namespace shardsweep::http
