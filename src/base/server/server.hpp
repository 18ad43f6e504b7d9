// SPDX-License-Identifier: Apache-2.0
// Pages for one reader, the user of this process: HTTP on loopback, where every other user of the
// host may knock. A path begins with a token that they do not know. Requests that a page of
// another origin makes, or a name that was bound to 127.0.0.1 (DNS rebinding), are refused before
// anything of them is read. All that a client may cost is bounded: sizes, times, connections.
#pragma once

#include <shardsweep/result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace shardsweep::server {

using Values = std::map<std::string, std::string>;

/// A request, without its token.
struct PageRequest {
  std::string page;  ///< a word of small letters; empty: the first page
  Values values;     ///< values of the query
  std::string body;  ///< body of a POST
};

struct Page {
  unsigned status = 200;
  std::shared_ptr<const std::string> text;
  std::string type = "text/html; charset=utf-8";
};

/// Request line and headers, before the body is read.
struct Request {
  std::string_view method;
  std::string_view target;
  std::string_view host;        ///< empty: there is none, or more than one
  std::string_view origin;      ///< empty: there is none
  std::string_view fetch_site;  ///< Sec-Fetch-Site; empty: no browser, or an old one
  std::string_view fetch_mode;
};
struct RequestRefusal {
  unsigned status = 403;
  std::string_view why;
};
/// Returns the request, or why it is refused. `posted` is the page that takes a POST.
[[nodiscard]] tl::expected<PageRequest, RequestRefusal> admitted(
    const Request& request, std::string_view token, std::string_view posted);

/// A value in a query, as admitted() reads it.
[[nodiscard]] std::string in_query(std::string_view value);

struct Limits {
  std::size_t header_bytes = 16 << 10;
  std::size_t body_bytes = 4 << 20;
  std::size_t connections = 256;
  std::size_t streams = 128;         ///< limit of connections that wait for a change
  std::chrono::seconds request{15};  ///< limit from the start of a connection to a whole request
  std::chrono::seconds piece{30};    ///< limit for a reader to take some part of an answer
};

struct ServerSetup {
  std::uint16_t port = 0;  ///< 0: one that is free
  std::string token;
  std::string posted;
  std::chrono::milliseconds idle{0};  ///< how long the server waits without a reader before it ends
  /// Called by several threads at a time.
  std::function<Page(const PageRequest&)> page;
  /// Version of the data behind the pages. Readers of `events?seen=VERSION` are told of another
  /// one; while there are such readers, one thread asks twice a second.
  std::function<std::string()> version;
  std::function<void(std::uint16_t port)> begun;
  Limits limits{};
};

enum class Ended : std::uint8_t { idle, by_signal };

/// Serves until nobody has read for `idle`, or until SIGINT or SIGTERM. Faults: the port is not to
/// be had.
[[nodiscard]] Result<Ended> serve(const ServerSetup& serving);

}  // namespace shardsweep::server
