// SPDX-License-Identifier: Apache-2.0
#include "played_time.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace shardbench::ordered {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// A kernel, a collective, or the messages of a group.
struct Item {
  std::vector<const Work*> parts;
  std::vector<std::size_t> after;  // items of the same rank
  std::vector<std::size_t> begun;  // items of the same rank whose turn it waited for
  double seconds = 0;              // seconds of a kernel
  double ready = never;            // time of its turn
  double begin = never;
  double end = never;
  bool computes() const { return !parts.front()->cost.traffic; }
  bool is_product() const { return parts.front()->what == "product"; }
};

/// Communicator, operation or direction, and how many of it came before.
using Meeting = std::tuple<std::string, i64, i64, i64>;
struct Member {
  i64 rank;
  std::size_t item;
};

class Player {
 public:
  Player(const std::map<i64, std::vector<Work>>& ranks, const Rates& rates, Beginning beginning,
      bool one_queue)
      : rates_(rates), beginning_(beginning), one_queue_(one_queue) {
    for (const auto& [rank, works] : ranks)
      add_rank(rank, works);
  }

  PlayedTimes run() {
    while (begin_next()) {
    }
    PlayedTimes played;
    for (const auto& [rank, items] : items_) {
      double communication = 0;
      for (const Item& item : items) {
        check(item.end < never, "all work comes to its turn");
        played.seconds = std::max(played.seconds, item.end);
        if (!item.computes()) communication += transfer_s(item);
      }
      played.communication_s = std::max(played.communication_s, communication);
    }
    return played;
  }

 private:
  double kernel_s(const Work& work) const {
    const double rate = work.cost.in_fp8 ? rates_.fp8_flops : rates_.flops;
    return rates_.launch_s +
        std::max(work.cost.flops / rate,
            static_cast<double>(work.bytes_read + work.bytes_written) / rates_.bytes);
  }

  /// Seconds to send a member's bytes; for messages the longer direction.
  double transfer_s(const Item& item) const {
    double sent = 0;
    double received = 0;
    for (const Work* part : item.parts)
      (part->what == "receive" ? received : sent) += static_cast<double>(part->cost.traffic->bytes);
    return rates_.message_s + std::max(sent, received) / rates_.link;
  }

  void add_rank(i64 rank, const std::vector<Work>& works) {
    std::vector<Item>& items = items_[rank];
    std::vector<std::size_t> item_of(works.size());
    std::map<Meeting, i64> numbers;
    for (std::size_t i = 0; i < works.size(); ++i) {
      const Work& work = works[i];
      const auto& traffic = work.cost.traffic;
      const bool joins = traffic && !items.empty() && !items.back().computes() &&
          items.back().parts.back()->cost.traffic->call == traffic->call;
      if (!joins) {
        items.emplace_back();
        queues_[{rank, work.stream}].push_back(items.size() - 1);
        if (!traffic) items.back().seconds = kernel_s(work);
      }
      item_of[i] = items.size() - 1;
      items.back().parts.push_back(&work);
      for (const std::size_t other : work.after)
        if (item_of[other] != item_of[i]) items.back().after.push_back(item_of[other]);
      for (const std::size_t other : work.begun)
        items.back().begun.push_back(item_of[other]);
      if (!traffic) continue;
      const Meeting at = meeting_of(*traffic, numbers);
      meetings_[at].push_back({rank, item_of[i]});
      meetings_of_[{rank, item_of[i]}].push_back(at);
    }
  }

  /// `numbers`: of this rank's so far.
  static Meeting meeting_of(const Traffic& traffic, std::map<Meeting, i64>& numbers) {
    if (traffic.peer < 0) {
      const Meeting all{traffic.members, -1, -1, 0};
      return {traffic.members, -1, -1, numbers[all]++};
    }
    const bool sends = traffic.operation == "send";
    const i64 from = sends ? traffic.index : traffic.peer;
    const i64 to = sends ? traffic.peer : traffic.index;
    return {traffic.members, from, to, numbers[{traffic.members, from, to, 0}]++};
  }

  /// Finds the time of an item's turn, if that is known.
  void look(i64 rank, std::deque<std::size_t>& queue, double stream_end) {
    Item& item = items_[rank][queue.front()];
    if (item.ready < never) return;
    double ready = stream_end;
    for (const std::size_t other : item.after)
      ready = std::max(ready, items_[rank][other].end);
    item.ready = ready;
  }

  /// Start after the product that has all multiprocessors at that moment.
  double held(i64 rank, std::size_t number) const {
    const Item& item = items_.at(rank)[number];
    if (beginning_ != Beginning::after_product || item.ready == never) return item.ready;
    const auto running = running_.find(rank);
    if (running == running_.end()) return item.ready;
    for (auto at = running->second.rbegin(); at != running->second.rend(); ++at) {
      const Item& kernel = items_.at(rank)[*at];
      if (kernel.end <= item.ready) break;
      if (kernel.begin > item.ready || !kernel.is_product()) continue;
      if (std::count(kernel.begun.begin(), kernel.begun.end(), number) > 0) continue;
      if (one_queue_ && *at > number) continue;
      return kernel.end;
    }
    return item.ready;
  }

  /// Begin of an item, if all that it needs is known.
  double beginning_of(i64 rank, std::size_t number) const {
    const Item& item = items_.at(rank)[number];
    if (item.computes() || item.ready == never) return item.ready;
    double begin = held(rank, number);
    for (const Meeting& at : meetings_of_.at({rank, number})) {
      const std::string& operation = item.parts.front()->what;
      const bool message = operation == "send" || operation == "receive";
      const std::vector<Member>& members = meetings_.at(at);
      const auto size = message ? 2 : item.parts.front()->cost.traffic->size;
      if (static_cast<i64>(members.size()) != size) return never;
      for (const Member& member : members)
        begin = std::max(begin, held(member.rank, member.item));
    }
    return begin;
  }

  /// The earliest one, so that all that ran before it is known; false if there is none left.
  bool begin_next() {
    double earliest = never;
    const std::pair<const std::pair<i64, std::size_t>, std::deque<std::size_t>>* chosen = nullptr;
    for (auto& entry : queues_) {
      const auto& [rank, stream] = entry.first;
      if (entry.second.empty()) continue;
      look(rank, entry.second, stream_ends_[entry.first]);
      const double begin = beginning_of(rank, entry.second.front());
      const bool computes = items_[rank][entry.second.front()].computes();
      if (begin < earliest || (begin == earliest && begin < never && computes)) {
        earliest = begin;
        chosen = &entry;
      }
    }
    if (chosen == nullptr) return false;
    const auto key = chosen->first;
    Item& item = items_[key.first][chosen->second.front()];
    item.begin = earliest;
    if (item.computes()) {
      running_[key.first].push_back(chosen->second.front());
      item.end = earliest + item.seconds;
    } else {
      item.end = earliest + (beginning_ == Beginning::free ? 0 : transfer_s(item));
    }
    stream_ends_[key] = item.end;
    queues_[key].pop_front();
    return true;
  }

  const Rates& rates_;
  Beginning beginning_;
  bool one_queue_;
  std::map<i64, std::vector<Item>> items_;  // items by rank, in the order of the host's calls
  std::map<std::pair<i64, std::size_t>, std::deque<std::size_t>> queues_;  // queues by rank and
                                                                           // stream
  std::map<std::pair<i64, std::size_t>, double> stream_ends_;
  std::map<Meeting, std::vector<Member>> meetings_;
  std::map<std::pair<i64, std::size_t>, std::vector<Meeting>> meetings_of_;
  std::map<i64, std::vector<std::size_t>> running_;  // kernels that have begun
};

}  // namespace

PlayedTimes play(const std::map<i64, std::vector<Work>>& ranks, const Rates& rates,
    Beginning beginning, bool one_queue) {
  return Player(ranks, rates, beginning, one_queue).run();
}

}  // namespace shardbench::ordered
