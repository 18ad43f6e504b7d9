// SPDX-License-Identifier: Apache-2.0
// The client of a static build: the host's program curl. Address, headers and body go by a file
// of mode 0600, never by the command line, which every user of the machine may read.
#include "http/client.hpp"

#include <shardsweep/command.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <string_view>

namespace shardsweep::http {
namespace {

constexpr std::string_view unix_prefix = "unix:";
constexpr double margin_s = 5;  // curl keeps the time itself
constexpr std::size_t status_bytes = 8;

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

/// Nothing has reached the server, or nobody knows.
FaultKind kind_of(int exit_code) {
  const bool unsent = exit_code >= 1 && exit_code <= 7;  // up to "could not connect"
  return unsent ? FaultKind::unavailable : FaultKind::timed_out;
}

/// curl prints the body and then, on a line of its own, the status.
Result<Response> read_answer(const CommandOutput& output, const std::string& path) {
  if (output.truncated)
    return fault(FaultKind::unavailable, fmt::format("the answer to {} is too large", path));
  if (output.exit_code != 0) {
    return fault(kind_of(output.exit_code),
                 fmt::format("{}: {}", path, output.err.substr(0, output.err.find('\n'))));
  }
  const std::size_t end = output.out.rfind('\n');
  Response response;
  const char* const last = output.out.data() + output.out.size();
  const char* const first =
      end == std::string::npos ? output.out.data() : output.out.data() + end + 1;
  if (std::from_chars(first, last, response.status).ptr != last)
    return fault(FaultKind::timed_out, fmt::format("{}: curl told no status", path));
  response.body = output.out.substr(0, end == std::string::npos ? 0 : end);
  return response;
}

struct Transfer {
  int number = 0;
  std::string path;
  std::filesystem::path settings;
  RunningCommand command;
};

}  // namespace

struct Client::State {
  std::string base;         ///< of URLs
  std::string unix_socket;  ///< empty: none
  std::map<int, Transfer> transfers;
  std::vector<std::pair<int, Result<Response>>> failed;
  int last_number = 0;

  [[nodiscard]] std::string settings_of(const Request& request) const {
    std::string text = fmt::format(
        "url = {}\nrequest = {}\nmax-time = {:.3f}\nconnect-timeout = 10\nnoproxy = \"*\"\n"
        "silent\nshow-error\nwrite-out = \"\\n%{{http_code}}\"\n",
        config_value(base + request.path), config_value(request.method), request.limit_s);
    if (!unix_socket.empty()) text += "unix-socket = " + config_value(unix_socket) + "\n";
    if (!request.body.empty()) {
      text += "header = \"Content-Type: application/json\"\ndata-raw = " +
              config_value(request.body) + "\n";
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
      return fault(
          FaultKind::unavailable,
          "this static program uses the program curl for HTTP, and no curl is on PATH");
    SHARDSWEEP_ASSIGN(const auto settings, write_settings(settings_of(request)));
    CommandOptions options;
    options.deadline = std::chrono::milliseconds(
        static_cast<std::int64_t>((request.limit_s + margin_s) * 1000));
    options.output_limit = request.most_bytes + status_bytes;
    auto command =
        RunningCommand::start({"curl", "-q", "--config", settings.string()}, options);
    if (!command) {
      forget(settings);
      return tl::unexpected<Fault>(command.error());
    }
    transfers.emplace(number, Transfer{number, request.path, settings, std::move(*command)});
    return {};
  }

  static void forget(const std::filesystem::path& settings) {
    std::error_code ignored;
    std::filesystem::remove(settings, ignored);
  }
};

Client::Client(const std::string& server) : state_(std::make_unique<State>()) {
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
    if (*ended) {
      done.emplace_back(transfer.number, read_answer(**ended, transfer.path));
    } else {
      done.emplace_back(transfer.number, tl::unexpected<Fault>(ended->error()));
    }
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
