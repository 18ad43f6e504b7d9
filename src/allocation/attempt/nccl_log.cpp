// SPDX-License-Identifier: Apache-2.0
#include "attempt/nccl_log.hpp"

#include "text/characters.hpp"

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

constexpr std::size_t longest = 300;

// "node1:4711:4802 [3] transport/net_ib.cc:1234 NCCL WARN NET/IB : Got completion from peer …"
// and "node1:4711:4802 [3] NCCL INFO misc/socket.cc:541 -> 6": the call stack of a failure.
constexpr std::array<std::string_view, 6> words{
    " NCCL WARN ", " error", " Error", " failed", " Failed", " timed out"};

bool is_complaint(std::string_view line) {
  const bool by_nccl = line.find(" NCCL ") != std::string_view::npos;
  return by_nccl && std::any_of(words.begin(), words.end(), [line](std::string_view word) {
    return line.find(word) != std::string_view::npos;
  });
}

/// Text after the bracketed device.
std::string_view without_origin(std::string_view line) {
  const std::size_t open = line.find(" [");
  const std::size_t close = line.find("] ", open);
  const bool found = open != std::string_view::npos && close != std::string_view::npos &&
      close - open < 8 && open < line.find(" NCCL ");
  return found ? line.substr(close + 2) : line;
}

}  // namespace

std::vector<std::string> nccl_complaints(std::string_view log, std::size_t most) {
  std::vector<std::string> found;
  while (!log.empty() && found.size() < most) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (!is_complaint(line)) continue;
    std::string text = one_line(without_origin(line), longest);
    if (std::find(found.begin(), found.end(), text) == found.end())
      found.push_back(std::move(text));
  }
  return found;
}

}  // namespace shardsweep
