// SPDX-License-Identifier: Apache-2.0
#include "issue_order.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace shardbench {
namespace {

std::string describe(const NcclItem& item) {
  std::string text =
      std::string("member ") + std::to_string(item.index) + " of '" + item.comm + "':";
  for (const NcclCall& call : item.calls)
    text += std::string(" ") + std::string(operation_name(call.operation)) + " " +
        std::to_string(call.count) +
        (call.peer >= 0 ? std::string(" with ") + std::to_string(call.peer) : std::string());
  return text;
}

/// Communicator, sending and receiving member.
using Direction = std::tuple<std::string, i64, i64>;

Direction direction_of(const NcclItem& item, const NcclCall& call) {
  if (call.operation == Operation::send) return {item.comm, item.index, call.peer};
  return {item.comm, call.peer, item.index};
}

struct Collectives {
  i64 size = 0;
  std::map<i64, std::vector<const NcclItem*>> by_member;
};

std::string compare(const std::string& comm, const Collectives& all) {
  if (static_cast<i64>(all.by_member.size()) != all.size)
    return "not all members of '" + comm + "' take part";
  const auto& first = all.by_member.begin()->second;
  for (const auto& [member, own] : all.by_member) {
    for (std::size_t i = 0; i < std::min(own.size(), first.size()); ++i)
      if (own[i]->calls != first[i]->calls)
        return describe(*own[i]) + ", but " + describe(*first[i]);
    if (own.size() != first.size())
      return std::string("member ") + std::to_string(member) + " of '" + comm + "' issues " +
          std::to_string(own.size()) + " collectives, another " + std::to_string(first.size());
  }
  return "";
}

/// Messages of a group for one peer: sizes, in order.
struct Exchange {
  std::vector<std::size_t> sent;
  std::vector<std::size_t> received;
};
/// Keyed by communicator, member and peer.
using Exchanges = std::map<std::tuple<std::string, i64, i64>, std::vector<Exchange>>;

void add_exchange(Exchanges& exchanges, const NcclItem& item) {
  std::map<i64, Exchange> by_peer;
  for (const NcclCall& call : item.calls) {
    Exchange& with = by_peer[call.peer];
    (call.operation == Operation::send ? with.sent : with.received).push_back(call.count);
  }
  for (const auto& [peer, exchange] : by_peer)
    exchanges[{item.comm, item.index, peer}].push_back(exchange);
}

/// Compares messages group by group, seen from both sides: NCCL connects two ranks when they first
/// meet, and needs both directions of a group on both sides.
std::string compare_exchanges(const Exchanges& exchanges) {
  for (const auto& [key, mine] : exchanges) {
    const auto& [comm, member, peer] = key;
    const auto found = exchanges.find({comm, peer, member});
    const bool mirrored = found != exchanges.end() &&
        std::equal(mine.begin(), mine.end(), found->second.begin(), found->second.end(),
            [](const Exchange& a, const Exchange& b) {
              return a.sent == b.received && a.received == b.sent;
            });
    if (!mirrored)
      return "members " + std::to_string(member) + " and " + std::to_string(peer) + " of '" + comm +
          "' do not group the same messages";
  }
  return std::string();
}

class Simulation {
 public:
  explicit Simulation(const IssuedItems& items) : items_(items) {
    for (const auto& [rank, own] : items_) {
      std::map<std::pair<Operation, Direction>, i64> numbers;
      auto& messages = messages_[rank];
      for (const NcclItem& item : own) {
        messages.emplace_back();
        for (const NcclCall& call : item.calls)
          if (item.is_message())
            messages.back().push_back({call.operation, direction_of(item, call),
                numbers[{call.operation, direction_of(item, call)}]++});
      }
    }
  }

  std::string run() {
    while (step()) {
    }
    std::string stuck;
    for (const auto& [rank, own] : items_)
      if (at_[rank] < own.size())
        stuck +=
            std::string("rank ") + std::to_string(rank) + " in " + describe(own[at_[rank]]) + "; ";
    return stuck;
  }

 private:
  struct Message {
    Operation operation;
    Direction direction;
    i64 number;  // number within the direction
  };
  using Meeting = std::pair<Direction, i64>;

  /// One round; false when nobody moved.
  bool step() {
    arrive();
    bool moved = false;
    for (const auto& [rank, own] : items_)
      if (at_[rank] < own.size() && ended(rank, own[at_[rank]])) {
        leaving_.push_back(rank);
        moved = true;
      }
    for (const i64 rank : leaving_)
      ++at_[rank];
    leaving_.clear();
    return moved;
  }

  /// Finds the messages at the heads of their queues; messages that have met stay so.
  void arrive() {
    waiting_.clear();
    std::set<Meeting> sending;
    std::set<Meeting> receiving;
    for (const auto& [rank, own] : items_) {
      if (at_[rank] == own.size()) continue;
      const NcclItem& item = own[at_[rank]];
      if (!item.is_message()) waiting_[item.comm] += 1;
      for (const Message& m : messages_[rank][at_[rank]])
        (m.operation == Operation::send ? sending : receiving).insert({m.direction, m.number});
    }
    std::set_intersection(sending.begin(), sending.end(), receiving.begin(), receiving.end(),
        std::inserter(met_, met_.end()));
  }

  bool ended(i64 rank, const NcclItem& item) {
    if (!item.is_message()) return waiting_[item.comm] == item.size;
    const auto& own = messages_[rank][at_[rank]];
    return std::all_of(own.begin(), own.end(), [this](const Message& m) {
      return met_.count({m.direction, m.number}) > 0;
    });
  }

  const IssuedItems& items_;
  std::map<i64, std::vector<std::vector<Message>>> messages_;  // messages by rank and item
  std::map<i64, std::size_t> at_;
  std::map<std::string, i64> waiting_;
  std::set<Meeting> met_;
  std::vector<i64> leaving_;
};

}  // namespace

std::string disagreement(const IssuedItems& items) {
  std::map<std::string, Collectives> collectives;
  Exchanges exchanges;
  for (const auto& [rank, own] : items)
    for (const NcclItem& item : own) {
      if (item.is_message()) {
        add_exchange(exchanges, item);
        continue;
      }
      collectives[item.comm].size = item.size;
      collectives[item.comm].by_member[item.index].push_back(&item);
    }
  for (const auto& [comm, all] : collectives)
    if (const std::string text = compare(comm, all); !text.empty()) return text;
  return compare_exchanges(exchanges);
}

std::string deadlock(const IssuedItems& items) {
  return Simulation(items).run();
}

}  // namespace shardbench
