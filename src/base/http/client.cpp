// SPDX-License-Identifier: Apache-2.0
// libcurl lives here alone.
#include "http/client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace shardsweep::http {
namespace {

constexpr std::string_view unix_prefix = "unix:";
constexpr long connect_limit_ms = 10'000;

/// Initialises libcurl once per process, before the first handle.
void initialise() {
  static const CURLcode done = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)done;
}

struct Transfer {
  int number = 0;
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  Request request;
  Response response;
  std::optional<Fault> refused;  ///< why the answer was not read to its end
  std::array<char, CURL_ERROR_SIZE> error{};

  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(handle);
  }
};

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  const std::string_view piece(data, size * count);
  const auto& keep = transfer->request.keep;
  const Result<std::string> kept = keep ? keep(piece) : std::string(piece);
  std::string& body = transfer->response.body;
  if (kept && body.size() + kept->size() <= transfer->request.most_bytes) {
    body += *kept;
    return piece.size();
  }
  // The server has got the request: nobody knows whether it has carried it out.
  transfer->refused = Fault{FaultKind::timed_out,
      kept ? fmt::format("the answer to {} is larger than {} MiB", transfer->request.path,
                 transfer->request.most_bytes >> 20)
           : kept.error().what};
  return 0;
}

/// Unavailable if the request surely never reached the server; timed out if it may have.
FaultKind kind_of(CURLcode code) {
  const bool unsent = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
      code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
      // No request goes out before the server has shown who it is.
      code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION ||
      code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_CERTPROBLEM;
  return unsent ? FaultKind::unavailable : FaultKind::timed_out;
}

Result<Response> result_of(Transfer& transfer, CURLcode code) {
  if (code == CURLE_OK) {
    curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &transfer.response.status);
    return std::move(transfer.response);
  }
  if (transfer.refused) return tl::unexpected<Fault>(*transfer.refused);
  const std::string said(transfer.error.data());
  return fault(kind_of(code),
      fmt::format("{}: {}", transfer.request.path,
          said.empty() ? std::string(curl_easy_strerror(code)) : said));
}

}  // namespace

struct Client::State {
  std::string base;         ///< beginning of all URLs
  std::string unix_socket;  ///< empty: none
  std::string ca_file;      ///< empty: the system's
  CURLM* multi = nullptr;
  std::map<CURL*, std::unique_ptr<Transfer>> transfers;
  std::vector<std::pair<int, Result<Response>>> failed;
  int last_number = 0;

  void set_options(Transfer& transfer) const {
    CURL* const handle = transfer.handle;
    const Request& request = transfer.request;
    curl_easy_setopt(handle, CURLOPT_URL, (base + request.path).c_str());
    if (!unix_socket.empty())
      curl_easy_setopt(handle, CURLOPT_UNIX_SOCKET_PATH, unix_socket.c_str());
    if (!ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, ca_file.c_str());
    curl_easy_setopt(handle, CURLOPT_PROXY, "");
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    if (!request.body.empty()) {
      curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
      curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.c_str());
    }
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, transfer.headers);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, connect_limit_ms);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(request.limit_s * 1000));
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, transfer.error.data());
  }
};

Client::Client(const std::string& server, std::string ca_file) : state_(std::make_unique<State>()) {
  initialise();
  state_->ca_file = std::move(ca_file);
  if (server.compare(0, unix_prefix.size(), unix_prefix) == 0) {
    state_->unix_socket = server.substr(unix_prefix.size());
    state_->base = "http://localhost";
  } else {
    state_->base = server;
  }
  while (!state_->base.empty() && state_->base.back() == '/')
    state_->base.pop_back();
  state_->multi = curl_multi_init();
}

Client::~Client() {
  for (auto& [handle, transfer] : state_->transfers)
    curl_multi_remove_handle(state_->multi, handle);
  state_->transfers.clear();
  curl_multi_cleanup(state_->multi);
}

int Client::start(Request request) {
  auto transfer = std::make_unique<Transfer>();
  transfer->number = ++state_->last_number;
  transfer->request = std::move(request);
  transfer->handle = curl_easy_init();
  if (!transfer->request.body.empty()) {
    transfer->headers = curl_slist_append(transfer->headers, "Content-Type: application/json");
  }
  for (const std::string& header : transfer->request.headers)
    transfer->headers = curl_slist_append(transfer->headers, header.c_str());
  state_->set_options(*transfer);
  const int number = transfer->number;
  if (curl_multi_add_handle(state_->multi, transfer->handle) != CURLM_OK) {
    state_->failed.emplace_back(number, fault(FaultKind::unavailable, "libcurl refuses"));
    return number;
  }
  CURL* const handle = transfer->handle;
  state_->transfers.emplace(handle, std::move(transfer));
  return number;
}

std::vector<std::pair<int, Result<Response>>> Client::poll() {
  auto done = std::exchange(state_->failed, {});
  if (state_->transfers.empty()) return done;
  int running = 0;
  curl_multi_perform(state_->multi, &running);
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(state_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    const auto found = state_->transfers.find(message->easy_handle);
    if (found == state_->transfers.end()) continue;
    curl_multi_remove_handle(state_->multi, found->first);
    done.emplace_back(found->second->number, result_of(*found->second, code));
    state_->transfers.erase(found);
  }
  return done;
}

std::vector<pollfd> Client::descriptors() const {
  std::vector<pollfd> descriptors;
  if (state_->transfers.empty()) return descriptors;
  fd_set read;
  fd_set write;
  fd_set except;
  FD_ZERO(&read);
  FD_ZERO(&write);
  FD_ZERO(&except);
  int highest = -1;
  curl_multi_fdset(state_->multi, &read, &write, &except, &highest);
  for (int fd = 0; fd <= highest; ++fd) {
    const int events = (FD_ISSET(fd, &read) ? POLLIN : 0) | (FD_ISSET(fd, &write) ? POLLOUT : 0);
    if (events != 0) descriptors.push_back({fd, static_cast<short>(events), 0});
  }
  return descriptors;
}

}  // namespace shardsweep::http
