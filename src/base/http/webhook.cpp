// SPDX-License-Identifier: Apache-2.0
// Notices by HTTP. The address itself may be a secret (Slack's is), and so is the header: they
// are read from their files for each attempt and go nowhere else.
#include "http/client.hpp"

#include <shardsweep/notifier.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

namespace shardsweep {
namespace {

using Steady = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr double answer_limit_s = 20;
constexpr int most_tries = 5;
constexpr std::size_t most_waiting = 100;  // the first messages of a storm tell enough
constexpr std::size_t longest_secret = 4096;

/// 2 s, 8 s, 32 s, 128 s: a restart of the other side is over by then.
std::chrono::seconds pause_after(int tries) {
  return std::chrono::seconds(2LL << (2 * std::min(tries - 1, 5)));
}

/// One line from a file that nobody else may read.
Result<std::string> read_secret(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return fault(FaultKind::unavailable, "'{}' can't be read", path);
  struct stat about {};
  std::string text(longest_secret, '\0');
  const bool regular = ::fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  const ssize_t got = regular ? ::read(file, text.data(), text.size()) : -1;
  ::close(file);
  if (got < 0) return fault(FaultKind::unavailable, "'{}' can't be read", path);
  if ((about.st_mode & 077U) != 0)
    return fault(FaultKind::rejected, "'{}' can be read by others: chmod 600 it", path);
  text.resize(static_cast<std::size_t>(got));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) return fault(FaultKind::rejected, "'{}' is empty", path);
  return text;
}

struct Address {
  std::string server;  ///< scheme and host
  std::string path;
};

Result<Address> parse_address(const std::string& url) {
  if (!keeps_secrets(url))
    return fault(FaultKind::rejected, "the address is neither https nor http on this machine");
  const std::size_t host = url.find("://") + 3;
  const std::size_t slash = std::min(url.find_first_of("/?#", host), url.size());
  return Address{url.substr(0, slash), slash < url.size() ? url.substr(slash) : "/"};
}

std::string body_of(const Notice& notice) {
  const Json body{{"text", "shardsweep: " + notice.text},
      {"event", notify_words.at(static_cast<std::size_t>(notice.event))}, {"sweep", notice.sweep},
      {"at", notice.at}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// libcurl's words without the address they may hold.
std::string without(std::string text, const std::string& secret) {
  if (secret.size() < 2) return text;
  for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret))
    text.replace(at, secret.size(), "...");
  return text;
}

class Webhook final : public Notifier {
 public:
  Webhook(NotifySettings settings, const Clock& clock)
      : settings_(std::move(settings)), clock_(clock) {}

  void send(const Notice& notice) override {
    if (waiting_.size() >= most_waiting) {
      ++dropped_;
      return;
    }
    waiting_.push_back({notice, 0, clock_.steady()});
  }

  std::vector<std::string> poll() override {
    std::vector<std::string> said;
    if (client_) {
      for (auto& [number, answer] : client_->poll())
        take(number, answer, said);
    }
    if (on_its_way_ || waiting_.empty() || clock_.steady() < waiting_.front().due) return said;
    start(said);
    return said;
  }

  [[nodiscard]] bool busy() const override { return on_its_way_ || !waiting_.empty(); }
  [[nodiscard]] std::vector<pollfd> descriptors() const override {
    return client_ ? client_->descriptors() : std::vector<pollfd>{};
  }

 private:
  struct Waiting {
    Notice notice;
    int tries = 0;
    Steady::time_point due;
  };

  void start(std::vector<std::string>& said) {
    ++waiting_.front().tries;
    const auto request = prepare(waiting_.front().notice);
    if (!request) return fail(request.error().what, said);
    on_its_way_ = client_->start(*request);
  }

  Result<http::Request> prepare(const Notice& notice) {
    std::string url = settings_.url;
    if (!settings_.url_file.empty()) SHARDSWEEP_SET(url, read_secret(settings_.url_file));
    SHARDSWEEP_ASSIGN(const Address address, parse_address(url));
    http::Request request{.path = address.path, .method = "POST", .body = body_of(notice)};
    request.limit_s = answer_limit_s;
    request.most_bytes = 64 << 10;
    if (!settings_.header_file.empty()) {
      SHARDSWEEP_ASSIGN(std::string header, read_secret(settings_.header_file));
      if (header.find(": ") == std::string::npos)
        return fault(
            FaultKind::rejected, "'{}' has no header: write 'Name: value'", settings_.header_file);
      request.headers.push_back(std::move(header));
    }
    path_ = address.path;
    if (!client_ || server_ != address.server) {
      server_ = address.server;
      client_ = std::make_unique<http::Client>(server_);
    }
    return request;
  }

  void take(int number, const Result<http::Response>& answer, std::vector<std::string>& said) {
    if (!on_its_way_ || number != *on_its_way_) return;
    on_its_way_.reset();
    if (!answer) return fail(without(answer.error().what, path_), said);
    if (answer->status < 200 || answer->status > 299)
      return fail(fmt::format("{} answered {}", server_, answer->status), said);
    waiting_.pop_front();
    if (dropped_ > 0)
      said.push_back(fmt::format("notify: {} notices were dropped, because too many were waiting",
          std::exchange(dropped_, 0)));
  }

  void fail(const std::string& why, std::vector<std::string>& said) {
    Waiting& first = waiting_.front();
    if (first.tries < most_tries) {
      first.due = clock_.steady() + pause_after(first.tries);
      if (first.tries == 1)
        said.push_back(fmt::format("notify: {}; the notice will be sent again", why));
      return;
    }
    said.push_back(fmt::format("notify: gave up after {} tries: {} (the notice was: {})",
        first.tries, why, first.notice.text));
    waiting_.pop_front();
  }

  NotifySettings settings_;
  const Clock& clock_;
  std::unique_ptr<http::Client> client_;
  std::string server_;
  std::string path_;
  std::deque<Waiting> waiting_;
  std::optional<int> on_its_way_;
  int dropped_ = 0;
};

}  // namespace

std::unique_ptr<Notifier> make_webhook(const NotifySettings& settings, const Clock& clock) {
  return std::make_unique<Webhook>(settings, clock);
}

}  // namespace shardsweep
