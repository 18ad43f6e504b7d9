// SPDX-License-Identifier: Apache-2.0
// Of every schedule's lists, for up to eight ranks, four chunks and 64 micro-batches: they are
// complete and in order, end over channels that hold nothing, and cost what is published.
#include "base/error.hpp"
#include "schedules/schedule.hpp"
#include "schedules/timeline.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

using namespace shardbench;

namespace {

constexpr i64 most_ranks = 8;
constexpr i64 most_chunks = 4;
constexpr i64 most_micro_batches = 64;

std::string name_of(ScheduleKind kind, const Pipeline& p) {
  return std::string(schedule_name(kind)) + " p" + std::to_string(p.ranks) + " v" +
      std::to_string(p.chunks) + " m" + std::to_string(p.micro_batches);
}

void for_each_of(ScheduleKind kind, i64 chunks, const std::function<void(const Pipeline&)>& f) {
  for (i64 ranks = chunks > 1 ? 2 : 1; ranks <= most_ranks; ++ranks)
    for (i64 m = 1; m <= most_micro_batches; ++m) {
      const bool folded = kind == ScheduleKind::zb_v;
      if (chunks > 1 && !folded && m % ranks != 0) continue;
      const Pipeline pipeline{ranks, chunks, m, folded};
      const std::string name = name_of(kind, pipeline);
      CAPTURE(name);
      f(pipeline);
    }
}

/// Every schedule there is, with every number of chunks that it takes.
void for_each_schedule(const std::function<void(ScheduleKind, const Pipeline&)>& f) {
  for (const ScheduleKind kind :
      {ScheduleKind::one_f_one_b, ScheduleKind::afab, ScheduleKind::zb_h1})
    for_each_of(kind, 1, [&](const Pipeline& p) { f(kind, p); });
  for (i64 chunks = 2; chunks <= most_chunks; ++chunks)
    for_each_of(ScheduleKind::one_f_one_b, chunks,
        [&](const Pipeline& p) { f(ScheduleKind::one_f_one_b, p); });
  for_each_of(ScheduleKind::zb_v, 2, [&](const Pipeline& p) { f(ScheduleKind::zb_v, p); });
}

/// State of a piece on its rank.
struct Progress {
  bool input = false;
  bool output = false;
  bool gradient = false;  // gradient to the output
  bool input_gradient = false;
  bool done = false;
};

/// Goes through a rank's list; false if an action comes before what it needs, or twice.
class Reader {
 public:
  Reader(const Pipeline& pipeline, i64 rank)
      : pipeline_(pipeline),
        rank_(rank),
        pieces_(static_cast<std::size_t>(pipeline.chunks * pipeline.micro_batches)) {}

  bool read(const std::vector<Action>& actions) {
    for (const Action& action : actions)
      if (action.kind == ActionKind::transfer ? !exchange(action.messages) : !compute(action))
        return false;
    return std::all_of(pieces_.begin(), pieces_.end(), [](const Progress& p) { return p.done; }) &&
        sent_ == expected_messages() && received_ == expected_messages();
  }

 private:
  Progress& of(const Piece& piece) {
    return pieces_[static_cast<std::size_t>(piece.chunk * pipeline_.micro_batches + piece.micro)];
  }
  bool first(const Piece& piece) const { return pipeline_.stage(rank_, piece.chunk) == 0; }
  bool last(const Piece& piece) const {
    return pipeline_.stage(rank_, piece.chunk) + 1 == pipeline_.stages();
  }
  /// Messages of each chunk: one at each border of the model that it has, for each micro-batch.
  i64 expected_messages() const {
    i64 borders = 0;
    for (i64 chunk = 0; chunk < pipeline_.chunks; ++chunk)
      for (const i64 step : {-1, 1})
        if (leads_to_another({0, chunk}, step)) ++borders;
    return borders * pipeline_.micro_batches;
  }
  bool has_stage(i64 stage) const { return stage >= 0 && stage < pipeline_.stages(); }
  bool leads_to_another(const Piece& piece, i64 step) const {
    const i64 stage = pipeline_.stage(rank_, piece.chunk) + step;
    return has_stage(stage) && pipeline_.rank_of(stage) != rank_;
  }
  /// The next stage of the rank itself has it without a message.
  void hand_over(const Piece& piece, i64 step, bool Progress::*what) {
    const i64 stage = pipeline_.stage(rank_, piece.chunk) + step;
    if (has_stage(stage) && pipeline_.rank_of(stage) == rank_)
      of({piece.micro, pipeline_.chunk_of(stage)}).*what = true;
  }

  bool exchange(const std::vector<Message>& messages) {
    for (const Message& m : messages) {
      Progress& p = of(m.piece);
      const bool activation = m.flow == Flow::activation;
      if (m.side == Side::send && !(activation ? p.output : p.input_gradient)) return false;
      if (m.side == Side::receive) {
        bool& arrived = activation ? p.input : p.gradient;
        if (arrived) return false;
        arrived = true;
      }
      ++(m.side == Side::send ? sent_ : received_);
    }
    return true;
  }

  bool compute(const Action& action) {
    Progress& p = of(action.piece);
    switch (action.kind) {
      case ActionKind::forward:
        if (p.output || !(p.input || first(action.piece))) return false;
        p.output = true;
        if (last(action.piece)) p.gradient = true;
        hand_over(action.piece, 1, &Progress::input);
        return true;
      case ActionKind::backward:
      case ActionKind::input_gradient:
        if (p.input_gradient || !p.output || !p.gradient) return false;
        p.input_gradient = true;
        p.done = action.kind == ActionKind::backward;
        hand_over(action.piece, -1, &Progress::gradient);
        return true;
      case ActionKind::weight_gradient: {
        const bool ready = p.input_gradient && !p.done;
        p.done = true;
        return ready;
      }
      case ActionKind::transfer:
        break;
    }
    return false;
  }

  Pipeline pipeline_;
  i64 rank_;
  std::vector<Progress> pieces_;
  i64 sent_ = 0;
  i64 received_ = 0;
};

/// Exchanges of a rank with one peer, in order: sent and received messages.
using Exchanges = std::vector<std::pair<std::vector<Flow>, std::vector<Flow>>>;

Exchanges exchanges_with(const std::vector<Action>& actions, i64 peer) {
  Exchanges exchanges;
  for (const Action& action : actions) {
    std::pair<std::vector<Flow>, std::vector<Flow>> one;
    for (const Message& m : action.messages)
      if (m.peer == peer) (m.side == Side::send ? one.first : one.second).push_back(m.flow);
    if (!one.first.empty() || !one.second.empty()) exchanges.push_back(one);
  }
  return exchanges;
}

i64 published_in_flight(ScheduleKind kind, const Pipeline& p, i64 rank) {
  if (kind == ScheduleKind::afab) return p.micro_batches;
  if (kind == ScheduleKind::zb_h1) return std::min(p.ranks, p.micro_batches);
  if (kind == ScheduleKind::zb_v) return p.chunks * std::min(p.ranks, p.micro_batches);
  if (p.chunks == 1) return std::min(p.ranks - rank, p.micro_batches);
  // arXiv 2205.05198, section 4.2.1: of the first rank p·v + p − 1 chunks.
  return std::min(
      2 * (p.ranks - rank - 1) + (p.chunks - 1) * p.ranks + 1, p.chunks * p.micro_batches);
}

/// Waiting time of a rank, in the costs of a chunk (arXiv 2104.04473 and 2401.10241, table 2).
double published_wait(ScheduleKind kind, const Pipeline& p, const PieceCosts& c) {
  const auto others = static_cast<double>(p.ranks - 1);
  if (kind == ScheduleKind::zb_h1)
    return others * (c.forward + c.input_gradient - c.weight_gradient);
  return others * (c.forward + c.input_gradient + c.weight_gradient);
}

}  // namespace

TEST_CASE("every schedule does each piece once, after what it needs") {
  for_each_schedule([](ScheduleKind kind, const Pipeline& pipeline) {
    for (i64 rank = 0; rank < pipeline.ranks; ++rank) {
      CAPTURE(rank);
      CHECK(Reader(pipeline, rank).read(make_schedule(kind, pipeline, rank)));
    }
  });
}

TEST_CASE("a list that leaves an action out, or has two in the wrong order, is told") {
  const Pipeline pipeline{2, 2, 2};
  const auto actions = make_schedule(ScheduleKind::one_f_one_b, pipeline, 1);
  REQUIRE(Reader(pipeline, 1).read(actions));
  for (std::size_t i = 0; i < actions.size(); ++i) {
    std::vector<Action> shorter = actions;
    shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
    CAPTURE(i);
    CHECK_FALSE(Reader(pipeline, 1).read(shorter));
  }
  std::vector<Action> swapped = actions;
  std::swap(swapped[0], swapped[1]);
  CHECK_FALSE(Reader(pipeline, 1).read(swapped));
}

TEST_CASE("no schedule can deadlock, whatever its messages are held in") {
  for_each_schedule([](ScheduleKind kind, const Pipeline& pipeline) {
    for (const Channels channels : {Channels::bounded, Channels::buffered})
      CHECK(timeline_of(kind, pipeline, {}, channels).stuck.empty());
  });
}

TEST_CASE("neighbours hold the same messages in their exchanges, seen from either side") {
  for_each_schedule([](ScheduleKind kind, const Pipeline& pipeline) {
    std::vector<std::vector<Action>> lists;
    for (i64 rank = 0; rank < pipeline.ranks; ++rank)
      lists.push_back(make_schedule(kind, pipeline, rank));
    for (i64 rank = 0; rank < pipeline.ranks; ++rank) {
      const i64 next = (rank + 1) % pipeline.ranks;
      if (next == rank) continue;
      Exchanges theirs = exchanges_with(lists[static_cast<std::size_t>(next)], rank);
      for (auto& exchange : theirs)
        std::swap(exchange.first, exchange.second);
      CAPTURE(rank);
      CHECK(exchanges_with(lists[static_cast<std::size_t>(rank)], next) == theirs);
    }
  });
}

TEST_CASE("a rank holds as many micro-batches as is published") {
  for_each_schedule([](ScheduleKind kind, const Pipeline& pipeline) {
    for (i64 rank = 0; rank < pipeline.ranks; ++rank) {
      CAPTURE(rank);
      CHECK(most_in_flight(make_schedule(kind, pipeline, rank)) ==
          published_in_flight(kind, pipeline, rank));
    }
  });
}

TEST_CASE("folded, a rank waits for its first input and next to nothing else") {
  for_each_of(ScheduleKind::zb_v, 2, [](const Pipeline& pipeline) {
    const Timeline timeline = timeline_of(ScheduleKind::zb_v, pipeline, {}, Channels::bounded);
    // arXiv 2401.10241, section 6: with equal parts none, but for the ranks' first inputs. What
    // a rank takes first is no search: six parts more at most, of six for each micro-batch.
    if (pipeline.micro_batches < pipeline.ranks) return;
    const auto first_inputs = static_cast<double>(pipeline.ranks - 1);
    CHECK(timeline.length - timeline.busy >= first_inputs);
    CHECK(timeline.length - timeline.busy <= first_inputs + 6);
  });
}

TEST_CASE("a rank waits as long as is published") {
  // Equal parts; longer gradients to inputs; shorter ones of weights, as attention makes them.
  const PieceCosts equal{1, 1, 1};
  for (const PieceCosts& costs : {equal, PieceCosts{2, 3, 2}, PieceCosts{18.5, 18.1, 9.3}})
    for_each_schedule([&](ScheduleKind kind, const Pipeline& pipeline) {
      if (kind == ScheduleKind::zb_v) return;  // tested above
      // The whole grid once: the rest is what makes this case slow under sanitizers.
      if (costs.forward != equal.forward && pipeline.micro_batches > 2 * pipeline.ranks &&
          pipeline.micro_batches != most_micro_batches)
        return;
      // Fewer micro-batches have fewer weight gradients than would fill the wait.
      if (kind == ScheduleKind::zb_h1 && pipeline.micro_batches < pipeline.ranks) return;
      for (const Channels channels : {Channels::bounded, Channels::buffered}) {
        const Timeline timeline = timeline_of(kind, pipeline, costs, channels);
        CHECK(timeline.length - timeline.busy ==
            doctest::Approx(published_wait(kind, pipeline, costs)));
      }
    });
}

namespace {

/// Message of a rank that ends in `work`, and its exit code behind a newline.
std::string end_of(const std::function<void()>& work) {
  int out[2];
  REQUIRE(::pipe(out) == 0);
  const pid_t rank = ::fork();
  REQUIRE(rank >= 0);
  if (rank == 0) {
    ::dup2(out[1], STDERR_FILENO);
    work();
    ::_exit(0);
  }
  ::close(out[1]);
  std::string said;
  char part[512];
  for (ssize_t got = 0; (got = ::read(out[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(got));
  ::close(out[0]);
  int status = 0;
  REQUIRE(::waitpid(rank, &status, 0) == rank);
  return said + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

}  // namespace

TEST_CASE("a list that is wrong ends the rank as a defect and says what it has seen") {
  const Pipeline pipeline{2, 1, 4, false};
  auto actions = make_schedule(ScheduleKind::one_f_one_b, pipeline, 1);
  const auto is_backward = [](const Action& a) { return a.kind == ActionKind::backward; };
  const auto last = std::find_if(actions.rbegin(), actions.rend(), is_backward);
  REQUIRE(last != actions.rend());
  std::string expected;
  SUBCASE("a piece is left out") {
    last->kind = ActionKind::input_gradient;
    expected = "each piece comes to its end";
  }
  SUBCASE("a piece goes backward twice") {
    last->piece.micro = 0;
    expected = "a piece goes forward once, then backward once";
  }
  SUBCASE("a piece is of another train step") {
    last->piece.micro = 4;
    expected = "rank = 1, micro = 4, chunk = 0";
  }
  const std::string end = end_of([&] { check_pieces(actions, pipeline, 1); });
  CAPTURE(end);
  CHECK(end.find("broken invariant: ") != std::string::npos);
  CHECK(end.find(expected) != std::string::npos);
  CHECK(end.find("schedules/schedule.cpp:") != std::string::npos);
  CHECK(end.ends_with("\n" + std::to_string(exit_code(ErrorClass::internal))));
}
