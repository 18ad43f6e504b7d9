// SPDX-License-Identifier: Apache-2.0
#include "schedules/timeline.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace shardbench {
namespace {

/// Sender, receiver, and the place in the order of messages between them.
using MessagePlace = std::tuple<i64, i64, i64>;
/// Content of a message over a border between two stages: micro-batch, the stage before it, flow.
using MessageContent = std::tuple<i64, i64, Flow>;

struct MessageMeeting {
  std::optional<double> sent;
  std::optional<double> received;
  MessageContent content;
};

struct Travelling {
  Message message;
  MessagePlace place;
};

class ScheduleSimulation {
 public:
  ScheduleSimulation(
      ScheduleKind kind, const Pipeline& pipeline, const PieceCosts& costs, Channels channels)
      : pipeline_(pipeline), costs_(costs), channels_(channels) {
    for (i64 rank = 0; rank < pipeline.ranks; ++rank)
      ranks_.push_back({rank, make_schedule(kind, pipeline, rank)});
  }

  Timeline run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (Rank& rank : ranks_)
        while (stuck_.empty() && step(rank))
          moved = true;
    }
    Timeline timeline{stuck_, 0, ranks_.front().busy};
    for (const Rank& rank : ranks_) {
      timeline.length = std::max(timeline.length, rank.time);
      const bool waits = rank.at < rank.actions.size() || !rank.travelling.empty();
      if (waits && timeline.stuck.empty())
        timeline.stuck = "rank " + std::to_string(rank.number) + " waits in its action " +
            std::to_string(rank.at) + " for ever";
    }
    return timeline;
  }

 private:
  struct Rank {
    i64 number;
    std::vector<Action> actions;
    std::size_t at = 0;
    bool arrived = false;  // stands at its transfer
    double time = 0;
    double busy = 0;
    std::vector<MessagePlace> places = {};           // places of the transfer's messages
    std::vector<Travelling> travelling = {};         // messages that were sent ahead
    std::map<std::pair<i64, Side>, i64> order = {};  // messages so far, by peer
  };

  double cost(ActionKind kind) const {
    if (kind == ActionKind::forward) return costs_.forward;
    if (kind == ActionKind::input_gradient) return costs_.input_gradient;
    if (kind == ActionKind::weight_gradient) return costs_.weight_gradient;
    return costs_.input_gradient + costs_.weight_gradient;
  }

  /// False if the rank waits or has ended.
  bool step(Rank& rank) {
    if (rank.at == rank.actions.size())
      return !rank.travelling.empty() && end_travel(rank, [](const Message&) { return true; });
    const Action& action = rank.actions[rank.at];
    if (!end_travel(rank, [&](const Message& m) { return ends_before(m, action); })) return false;
    if (action.kind != ActionKind::transfer) {
      rank.time += cost(action.kind);
      rank.busy += cost(action.kind);
      return go_on(rank);
    }
    if (!rank.arrived) arrive(rank, action);
    if (action.ahead) {
      for (std::size_t i = 0; i < action.messages.size(); ++i)
        rank.travelling.push_back({action.messages[i], rank.places[i]});
      return go_on(rank);
    }
    for (std::size_t i = 0; i < action.messages.size(); ++i)
      if (!met(rank.places[i], action.messages[i].side)) return false;
    for (std::size_t i = 0; i < action.messages.size(); ++i)
      rank.time = std::max(rank.time, *met(rank.places[i], action.messages[i].side));
    return go_on(rank);
  }

  static bool go_on(Rank& rank) {
    rank.arrived = false;
    ++rank.at;
    return true;
  }

  /// False if one of those messages has not met its other side.
  template <typename Which>
  bool end_travel(Rank& rank, Which which) {
    for (auto at = rank.travelling.begin(); at != rank.travelling.end();) {
      if (!which(at->message)) {
        ++at;
        continue;
      }
      const std::optional<double> end = met(at->place, at->message.side);
      if (!end) return false;
      rank.time = std::max(rank.time, *end);
      at = rank.travelling.erase(at);
    }
    return true;
  }

  MessageContent content_of(i64 rank, const Message& m) const {
    const i64 stage = pipeline_.stage(rank, m.piece.chunk);
    const bool behind = (m.flow == Flow::activation) == (m.side == Side::send);
    return {m.piece.micro, behind ? stage : stage - 1, m.flow};
  }

  void arrive(Rank& rank, const Action& action) {
    rank.arrived = true;
    rank.places.clear();
    for (const Message& m : action.messages) {
      const i64 ordinal = rank.order[{m.peer, m.side}]++;
      const bool sends = m.side == Side::send;
      const MessagePlace place = sends ? MessagePlace{rank.number, m.peer, ordinal}
                                       : MessagePlace{m.peer, rank.number, ordinal};
      rank.places.push_back(place);
      const MessageContent content = content_of(rank.number, m);
      const auto [found, fresh] = meetings_.try_emplace(place, MessageMeeting{{}, {}, content});
      if (!fresh && found->second.content != content)
        stuck_ = "rank " + std::to_string(rank.number) + " and rank " + std::to_string(m.peer) +
            " mean different messages in its action " + std::to_string(rank.at);
      (sends ? found->second.sent : found->second.received) = rank.time;
    }
  }

  /// End of a message on that side; empty if it has not met its other side.
  std::optional<double> met(const MessagePlace& place, Side side) const {
    const MessageMeeting& meeting = meetings_.at(place);
    if (side == Side::send && channels_ == Channels::buffered) return meeting.sent;
    if (!meeting.sent || !meeting.received) return std::nullopt;
    return std::max(*meeting.sent, *meeting.received);
  }

  Pipeline pipeline_;
  PieceCosts costs_;
  Channels channels_;
  std::vector<Rank> ranks_;
  std::map<MessagePlace, MessageMeeting> meetings_;
  std::string stuck_;
};

}  // namespace

Timeline timeline_of(
    ScheduleKind kind, const Pipeline& pipeline, const PieceCosts& costs, Channels channels) {
  return ScheduleSimulation(kind, pipeline, costs, channels).run();
}

}  // namespace shardbench
