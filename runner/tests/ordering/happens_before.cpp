// SPDX-License-Identifier: Apache-2.0
#include "happens_before.hpp"

#include <algorithm>
#include <utility>

namespace shardbench {
namespace {

constexpr std::size_t most_races = 100;

u64 at_of(const HappensBefore::Clock& clock, std::size_t agent) {
  return agent < clock.size() ? clock[agent] : 0;
}

}  // namespace

HappensBefore::Agent HappensBefore::add_agent(std::string name) {
  names_.push_back(std::move(name));
  last_.push_back(&*works_.insert("nothing").first);
  clocks_.emplace_back(names_.size(), 0);
  return names_.size() - 1;
}

void HappensBefore::work(Agent agent, const std::string& what) {
  last_[agent] = &*works_.insert(what).first;
  ++clocks_[agent][agent];
}

bool HappensBefore::come_after(Agent agent, const Clock& clock) {
  Clock& own = clocks_[agent];
  own.resize(std::max(own.size(), clock.size()), 0);
  bool later = false;
  for (std::size_t i = 0; i < clock.size(); ++i) {
    later = later || clock[i] > own[i];
    own[i] = std::max(own[i], clock[i]);
  }
  return later;
}

/// A piece begins there, where one was across it.
void HappensBefore::cut(std::uintptr_t at) {
  auto next = pieces_.lower_bound(at);
  if (next == pieces_.begin()) return;
  const auto before = std::prev(next);
  if (before->second.end <= at) return;
  Piece rest = before->second;
  before->second.end = at;
  pieces_.emplace_hint(next, at, std::move(rest));
}

void HappensBefore::compare(Agent agent, Access kind, const PastAccess& seen, const char* did) {
  if (seen.agent == agent || at_of(clocks_[agent], seen.agent) >= seen.time) return;
  if (races_.size() >= most_races) return;
  races_.push_back(*last_[agent] + " of " + names_[agent] +
      (kind == Access::read ? " reads what " : " writes what ") + *seen.what + " of " +
      names_[seen.agent] + " " + did + ", in no order");
}

void HappensBefore::touch(Agent agent, Access kind, Piece& piece) {
  for (const PastAccess& seen : piece.writes)
    compare(agent, kind, seen, "writes");
  if (kind == Access::write) {
    for (const PastAccess& seen : piece.reads)
      compare(agent, kind, seen, "reads");
    piece.reads.clear();
    piece.writes = {{agent, clocks_[agent][agent], last_[agent]}};
    return;
  }
  const auto own = std::find_if(piece.reads.begin(), piece.reads.end(),
      [&](const PastAccess& seen) { return seen.agent == agent; });
  const PastAccess now{agent, clocks_[agent][agent], last_[agent]};
  if (own == piece.reads.end())
    piece.reads.push_back(now);
  else
    *own = now;
}

void HappensBefore::access(Agent agent, Access kind, const void* data, i64 bytes) {
  if (bytes <= 0) return;
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = first + static_cast<std::uintptr_t>(bytes);
  cut(first);
  cut(end);
  std::uintptr_t at = first;
  auto piece = pieces_.lower_bound(first);
  while (at < end) {
    if (piece == pieces_.end() || piece->first > at) {
      const std::uintptr_t until = piece == pieces_.end() ? end : std::min(end, piece->first);
      piece = pieces_.emplace_hint(piece, at, Piece{until, {}, {}});
    }
    touch(agent, kind, piece->second);
    at = piece->second.end;
    ++piece;
  }
}

void HappensBefore::forget(const void* data, i64 bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = first + static_cast<std::uintptr_t>(bytes);
  cut(first);
  cut(end);
  pieces_.erase(pieces_.lower_bound(first), pieces_.lower_bound(end));
}

}  // namespace shardbench
