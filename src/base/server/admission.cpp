// SPDX-License-Identifier: Apache-2.0
// Admission of a request, decided over its text alone.
#include "server/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardsweep::server {
namespace {

/// Compares in constant time, so that timing does not reveal the first difference.
bool is_same(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned difference = 0;
  for (std::size_t at = 0; at < one.size(); ++at)
    difference |= static_cast<unsigned char>(one[at]) ^ static_cast<unsigned char>(other[at]);
  return difference == 0;
}

/// The name alone: `ssh -L` may give the port another number on the reader's side.
bool is_loopback(std::string_view host) {
  const auto name = host.substr(0, host.find(':'));
  return name == "127.0.0.1" || name == "localhost";
}

bool is_of_us(const Request& request) {
  if (!request.origin.empty() && request.origin != fmt::format("http://{}", request.host))
    return false;
  // An address that was pressed in a chat or a web terminal opens a page, which no script sees.
  return request.fetch_site.empty() || request.fetch_site == "same-origin" ||
      request.fetch_site == "none" || (request.fetch_mode == "navigate" && request.method == "GET");
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
      c == '_' || c == '.' || c == '/';
}

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at] == '+' ? ' ' : text[at];
      continue;
    }
    unsigned byte = 0;
    const auto digits = text.substr(at + 1, 2);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || read.ec != std::errc() || read.ptr != digits.data() + 2 || byte == 0)
      return std::nullopt;
    out += static_cast<char>(byte);
    at += 2;
  }
  return out;
}

/// Each name once.
std::optional<Values> values_of(std::string_view query) {
  Values values;
  while (!query.empty()) {
    const auto part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    const auto equals = std::min(part.find('='), part.size());
    const auto value = decoded(part.substr(std::min(part.size(), equals + 1)));
    if (!value || !values.emplace(part.substr(0, equals), *value).second) return std::nullopt;
  }
  return values;
}

}  // namespace

tl::expected<PageRequest, RequestRefusal> admitted(
    const Request& request, std::string_view token, std::string_view posted) {
  const auto refuse = [](unsigned status, std::string_view why) {
    return tl::unexpected(RequestRefusal{status, why});
  };
  if (!is_loopback(request.host))
    return refuse(421, "The request names another host than this server.");
  if (!is_of_us(request)) return refuse(403, "Requests from pages of other sites are refused.");
  if (!request.target.starts_with('/')) return refuse(400, "The request has no valid path.");
  auto path = request.target.substr(1, request.target.find('?') - 1);
  const auto first = path.substr(0, path.find('/'));
  if (!is_same(first, token))
    return refuse(403, "Open this page by the whole address that `shardsweep ui` printed.");
  // Links are relative to the token's folder.
  if (path.size() == first.size()) return refuse(404, "The address ends with a slash.");
  path.remove_prefix(first.size() + 1);
  const bool is_word =
      std::all_of(path.begin(), path.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (!is_word) return refuse(404, "There is no such page.");
  const bool posts = request.method == "POST" && path == posted;
  if (request.method != "GET" && request.method != "HEAD" && !posts)
    return refuse(405, "Pages can only be read (GET or HEAD).");
  const auto mark = request.target.find('?');
  auto values = values_of(
      mark == std::string_view::npos ? std::string_view() : request.target.substr(mark + 1));
  if (!values) return refuse(400, "The address can't be read.");
  return PageRequest{std::string(path), *std::move(values), {}};
}

std::string in_query(std::string_view value) {
  std::string out;
  for (const char c : value)
    out += is_plain(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace shardsweep::server
