// SPDX-License-Identifier: Apache-2.0
// One rank's use of NCCL: what is asked for and when, what is polled, and how it fails.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/cpu_device.hpp"
#include "nccl/nccl_communicator.hpp"
#include "outcome.hpp"
#include "recording_nccl.hpp"
#include "stopped_clock.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>

using namespace shardbench;

namespace {

constexpr double short_limit_s = 0.05;

/// One rank with a group of `size` ranks on one stream.
struct Fixture {
  explicit Fixture(i64 size = 2, i64 rank = 0, double limit_s = 60.0,
      NcclOrder order = NcclOrder::by_nccl, NcclCalls calls = NcclCalls::polled)
      : world(table,
            {[](const Group&, const NcclUniqueId& own) { return own; },
                [this] {
                  ++pauses;
                  if (on_pause) on_pause();
                  sleep_ms(1);
                },
                limit_s, order, std::nullopt, calls}) {
    nccl.as_rank(rank);
    for (i64 member = 0; member < size; ++member)
      group.members.push_back(member);
  }
  NcclCommunicator& connect(FlightRecorder* recorder = nullptr) {
    made.push_back(std::make_unique<NcclCommunicator>(world, group, 0, stream, *device, recorder));
    return *made.back();
  }
  const std::vector<NcclItem>& items() { return nccl.items[0]; }

  RecordingNccl nccl;
  NcclTable table = RecordingNccl::table();
  std::atomic<int> pauses = 0;
  std::function<void()> on_pause;
  RecordingStream stream;
  std::unique_ptr<Device> device = make_cpu_device(Dtype::fp32);
  NcclWorld world;
  Group group{"dp", 1, {}};
  std::vector<std::unique_ptr<NcclCommunicator>> made;
  std::vector<float> values = std::vector<float>(64, 1.0F);
};

/// The environment while a library is being loaded.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("operations follow what was computed and computing waits for them alone") {
  Fixture f(4);
  f.stream.done = 0;
  NcclCommunicator& group = f.connect();
  float* data = f.values.data();
  const Token sum = group.all_reduce(data, 8, Dtype::fp32, Reduction::sum);
  const Token part = group.reduce_scatter(data, data, 4, Dtype::bf16);
  const Token all = group.all_gather(data, data, 4, Dtype::fp64);
  const Token most = group.all_reduce(data, 2, Dtype::fp32, Reduction::max);
  const Token told = group.broadcast(data, 3, Dtype::fp32, 2);
  CHECK(f.stream.held.empty());
  group.wait(part);
  group.wait(sum);  // before part in the stream, held already
  CHECK(f.stream.held == std::vector<u64>{2});
  for (const Token token : {all, most, told})
    group.wait(token);
  group.wait(told);
  CHECK(f.stream.held == std::vector<u64>{2, 3, 4, 5});
  REQUIRE(f.items().size() == 5);
  const auto call = [&](std::size_t i) { return f.items()[i].calls.front(); };
  CHECK(call(0) == NcclCall{Operation::all_reduce, 8, NcclDtype::fp32, NcclReduction::sum, -1});
  CHECK(call(1) == NcclCall{Operation::reduce_scatter, 4, NcclDtype::bf16, NcclReduction::sum, -1});
  CHECK(call(2) == NcclCall{Operation::all_gather, 4, NcclDtype::fp64, {}, -1});
  CHECK(call(3) == NcclCall{Operation::all_reduce, 2, NcclDtype::fp32, NcclReduction::max, -1});
  CHECK(call(4) == NcclCall{Operation::broadcast, 3, NcclDtype::fp32, {}, 2});
  CHECK(group.counters().calls == std::array<i64, operation_count>{2, 1, 1, 1, 0, 0});
  CHECK(group.counters().sent_bytes[0] ==
      bytes_sent(Operation::all_reduce, 4, 0, 8, Dtype::fp32) +
          bytes_sent(Operation::all_reduce, 4, 0, 2, Dtype::fp32));
  // A broadcast sends nothing from any rank but the root.
  CHECK(group.counters().sent_bytes[3] == 0);
  CHECK(f.nccl.misuses.empty());
}

TEST_CASE("what the device has done already is not waited for") {
  Fixture f;
  NcclCommunicator& group = f.connect();
  const Token token = group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum);
  group.progress();
  group.wait(token);
  CHECK(f.stream.held.empty());
}

TEST_CASE("messages are issued as one group in an order of their own when one is waited for") {
  Fixture f(3);
  f.stream.done = 0;
  NcclCommunicator& group = f.connect();
  float* data = f.values.data();
  const Token to_last = group.send(data, 4, Dtype::fp32, 2);
  const Token from_next = group.receive(data + 4, 5, Dtype::fp32, 1);
  const Token to_next = group.send(data + 9, 6, Dtype::fp32, 1);
  CHECK(f.items().empty());
  group.wait(from_next);
  group.wait(to_next);
  group.wait(to_last);
  REQUIRE(f.items().size() == 1);
  const std::vector<NcclCall>& calls = f.items().front().calls;
  REQUIRE(calls.size() == 3);
  CHECK(calls[0].operation == Operation::send);
  CHECK(calls[0].count == 6);
  CHECK(calls[1].operation == Operation::receive);
  CHECK(calls[1].count == 5);
  CHECK(calls[2].peer == 2);
  CHECK(f.stream.held == std::vector<u64>{1});
  // Another operation sends what was posted before it on its way first.
  group.send(data, 4, Dtype::fp32, 1);
  group.all_reduce(data, 8, Dtype::fp32, Reduction::sum);
  REQUIRE(f.items().size() == 3);
  CHECK(f.items()[1].is_message());
  CHECK(f.nccl.misuses.empty());
}

TEST_CASE("messages that are all start before one is waited for") {
  Fixture f(3);
  f.stream.done = 0;
  NcclCommunicator& ring = f.connect();
  float* data = f.values.data();
  ring.start_messages();
  CHECK(f.items().empty());
  const Token arriving = ring.receive(data, 6, Dtype::fp32, 2);
  const Token leaving = ring.send(data + 6, 6, Dtype::fp32, 1);
  ring.start_messages();
  REQUIRE(f.items().size() == 1);
  CHECK(f.items().front().calls.size() == 2);
  CHECK(f.stream.held.empty());  // computation goes on
  ring.wait(arriving);
  ring.wait(leaving);
  CHECK(f.items().size() == 1);
  CHECK(f.stream.held == std::vector<u64>{1});
  CHECK(f.nccl.misuses.empty());
}

TEST_CASE("an exchange of uneven parts is one group and counts what each peer gets") {
  Fixture f(4);
  NcclCommunicator& group = f.connect();
  float* data = f.values.data();
  // Send p values to peer p, receive 4 − p from it.
  std::vector<Token> tokens;
  for (i64 peer = 1; peer < 4; ++peer)
    tokens.push_back(group.receive(data + 4 * peer, 4 - peer, Dtype::fp32, peer));
  for (i64 peer = 1; peer < 4; ++peer)
    tokens.push_back(group.send(data + 16 + 4 * peer, peer, Dtype::fp32, peer));
  for (const Token token : tokens)
    group.wait(token);
  REQUIRE(f.items().size() == 1);
  const std::vector<NcclCall>& calls = f.items().front().calls;
  REQUIRE(calls.size() == 6);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const i64 peer = static_cast<i64>(i) / 2 + 1;
    CHECK(calls[i].peer == peer);
    CHECK(calls[i].operation == (i % 2 == 0 ? Operation::send : Operation::receive));
    CHECK(calls[i].count == (i % 2 == 0 ? peer : 4 - peer));
  }
  CHECK(group.counters().total_sent() == (1 + 2 + 3) * 4);
  CHECK(f.nccl.misuses.empty());
}

TEST_CASE("a group of one has no communicator and copies where it has to") {
  Fixture f(1);
  NcclCommunicator& group = f.connect();
  std::vector<float> other(4);
  CHECK(group.reduce_scatter(f.values.data(), other.data(), 4, Dtype::fp32) == 0);
  CHECK(other == std::vector<float>(4, 1.0F));
  std::fill(other.begin(), other.end(), 2.0F);
  group.wait(group.all_gather(other.data(), f.values.data(), 4, Dtype::fp32));
  CHECK(f.values[3] == 2.0F);
  CHECK(group.all_reduce(other.data(), 4, Dtype::fp32, Reduction::sum) == 0);
  CHECK(group.broadcast(other.data(), 4, Dtype::fp32, 0) == 0);
  CHECK(group.counters().total_sent() == 0);
  CHECK(group.counters().calls == std::array<i64, operation_count>{1, 1, 1, 1, 0, 0});
  f.world.finalize();
  CHECK(f.nccl.fates().empty());
  CHECK(f.items().empty());
}

TEST_CASE("groups of the same members on one stream share a communicator") {
  Fixture f;
  RecordingStream other;
  const auto make = [&](const char* name, std::vector<i64> members, RecordingStream& stream) {
    f.made.push_back(std::make_unique<NcclCommunicator>(
        f.world, Group{name, 1, std::move(members)}, 0, stream, *f.device));
  };
  make("dp", {0, 1}, f.stream);
  make("shard", {0, 1}, f.stream);
  CHECK(f.nccl.fates().size() == 1);
  make("tp", {0, 1}, other);
  make("pp", {0, 2}, f.stream);
  CHECK(f.nccl.fates().size() == 3);
  f.world.finalize();
  f.world.abort_all();
  for (const NcclFate& fate : f.nccl.fates()) {
    CHECK(fate.finalized == 1);
    CHECK(fate.destroyed == 1);
    CHECK(fate.aborted == 0);
  }
  CHECK(f.nccl.misuses.empty());
}

TEST_CASE("what is in progress for long is polled with the sockets moving between") {
  Fixture f;
  int before = 0;
  f.nccl.stay_in_progress_until([&] {
    if (f.pauses < before + 3) return false;
    before = f.pauses;
    return true;
  });
  NcclCommunicator& group = f.connect();
  CHECK(f.pauses == 3);
  group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum);
  group.wait(group.send(f.values.data(), 8, Dtype::fp32, 1));
  f.world.finalize();
  CHECK(f.nccl.misuses.empty());
  CHECK(f.nccl.fates().front().destroyed == 1);
}

TEST_CASE("a failing rank aborts each communicator once") {
  Fixture f;
  f.connect();
  f.world.abort_all();
  f.world.abort_all();
  CHECK(f.nccl.fates().front().aborted == 1);
  CHECK(f.nccl.misuses.empty());
}

TEST_CASE("a failing rank aborts all its communicators in one group") {
  Fixture f;
  RecordingStream other;
  f.connect();
  f.made.push_back(
      std::make_unique<NcclCommunicator>(f.world, Group{"tp", 2, {0, 1}}, 0, other, *f.device));
  f.world.abort_all();
  CHECK(f.nccl.aborts ==
      std::vector<std::string>{"group start", "abort id 1", "abort id 2", "group end"});
  CHECK(f.nccl.misuses.empty());
}

TEST_CASE("an abort that never returns is bounded and the error's exit code stays") {
  constexpr double bound_s = 0.2;
  const TimePoint start = now();
  const int status = exit_status_of([] {
    Fixture f;
    f.connect();
    f.nccl.hang_in_abort();
    install_failure_handler([&](const Error&) { f.world.abort_all(); }, bound_s);
    fail(ErrorClass::comm_error, "the cable is out");
  });
  CHECK(status == exit_code(ErrorClass::comm_error));
  CHECK(seconds_since(start) >= bound_s);
}

TEST_CASE("one kernel of each stream has room on the GPU") {
  CHECK_FALSE(blocks_for_room(0, 132));
  CHECK_FALSE(blocks_for_room(1, 132));
  for (const int multiprocessors : {20, 108, 132, 148})
    for (int streams = 2; streams <= 5; ++streams) {
      const std::optional<int> blocks = blocks_for_room(streams, multiprocessors);
      REQUIRE(blocks);
      CHECK(*blocks >= 1);
      CHECK(*blocks * streams <= multiprocessors);
    }
  // NCCL is told, and only then.
  for (const std::optional<int> most : {std::optional<int>(), std::optional<int>(26)}) {
    RecordingNccl nccl;
    nccl.as_rank(0);
    const NcclTable table = RecordingNccl::table();
    NcclWorld world(table,
        {[](const Group&, const NcclUniqueId& own) { return own; }, [] {}, 60.0, NcclOrder::by_room,
            most});
    RecordingStream stream;
    world.communicator({"dp", 1, {0, 1}}, 0, stream);
    CHECK(nccl.most_blocks == std::vector<int>{most.value_or(nccl_undefined)});
    world.abort_all();
  }
}

TEST_CASE("an operation that travels goes first, and one that is waited for at once does not") {
  Fixture f(2, 0, 60.0, NcclOrder::by_room);
  NcclCommunicator& dp = f.connect();
  float* data = f.values.data();
  dp.wait(dp.all_reduce(data, 8, Dtype::fp32, Reduction::sum));
  dp.begin_travel();
  const Token token = dp.all_reduce(data, 8, Dtype::fp32, Reduction::sum);
  dp.end_travel();
  dp.wait(token);
  dp.wait(dp.all_gather(data, data, 4, Dtype::fp32));
  CHECK(f.stream.went_first == std::vector<u64>{2});
}

TEST_CASE("where NCCL does not keep the order of launches an operation waits for the last") {
  for (const NcclOrder order : {NcclOrder::by_room, NcclOrder::by_nccl, NcclOrder::by_events}) {
    Fixture f(2, 0, 60.0, order);
    RecordingStream other;
    NcclCommunicator& dp = f.connect();
    f.made.push_back(
        std::make_unique<NcclCommunicator>(f.world, Group{"pp", 2, {0, 1}}, 0, other, *f.device));
    NcclCommunicator& pp = *f.made.back();
    float* data = f.values.data();
    dp.all_reduce(data, 8, Dtype::fp32, Reduction::sum);
    dp.all_reduce(data, 8, Dtype::fp32, Reduction::sum);
    pp.wait(pp.send(data, 8, Dtype::fp32, 1));
    dp.all_gather(data, data, 4, Dtype::fp32);
    using Followed = std::vector<std::pair<const CommStream*, u64>>;
    const bool ours = order == NcclOrder::by_events;
    CHECK(other.followed == (ours ? Followed{{&f.stream, 2}} : Followed{}));
    CHECK(f.stream.followed == (ours ? Followed{{&other, 1}} : Followed{}));
  }
}

TEST_CASE("a rank whose connecting does not end says so") {
  CHECK(outcome_of([] {
    Fixture f(2, 0, short_limit_s);
    f.nccl.hang_at(0);
    f.connect();
  }) == "timeout: connecting in group dp was not accepted by NCCL within 0.050000 s");
}

TEST_CASE("a rank whose operation NCCL does not take says which") {
  CHECK(outcome_of([] {
    Fixture f(2, 0, short_limit_s);
    NcclCommunicator& group = f.connect();
    f.nccl.hang_at(1);
    group.receive(f.values.data(), 8, Dtype::fp32, 1);
    group.wait(group.send(f.values.data(), 8, Dtype::fp32, 1));
  }) ==
      "timeout: send to rank 1, receive from rank 1 in group dp was not accepted by NCCL "
      "within 0.050000 s");
}

namespace {

/// One rank of two whose communicators block.
struct BlockingFixture : Fixture {
  explicit BlockingFixture(double limit_s = 60.0)
      : Fixture(2, 0, limit_s, NcclOrder::by_nccl, NcclCalls::blocking) {}
};

}  // namespace

TEST_CASE("communicators that block are not polled") {
  BlockingFixture f;
  f.nccl.stay_in_progress_until([] { return false; });
  NcclCommunicator& group = f.connect();
  group.wait(group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum));
  group.wait(group.send(f.values.data(), 8, Dtype::fp32, 1));
  CHECK(f.items().size() == 2);
  f.made.clear();
  f.world.finalize();
  CHECK(f.nccl.fates().front().destroyed == 1);
  CHECK(f.nccl.misuses.empty());
}

TEST_CASE("a call that blocks for too long is named") {
  CHECK(outcome_of([] {
    BlockingFixture f(short_limit_s);
    f.nccl.hang_at(0);
    f.connect();
  }) == "timeout: connecting in group dp was not accepted by NCCL within 0.050000 s");
  CHECK(outcome_of([] {
    BlockingFixture f(short_limit_s);
    NcclCommunicator& group = f.connect();
    f.nccl.hang_at(1);
    group.wait(group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum));
  }) == "timeout: all_reduce in group dp was not accepted by NCCL within 0.050000 s");
}

namespace {

/// A peer tells of its error while the first thread stands in a call, which the abort ends;
/// then the thread waits for its turn, and the rank leaves.
void hear_of_a_peer_within_a_call() {
  BlockingFixture f;
  NcclCommunicator& group = f.connect();
  f.on_pause = [&] {
    f.world.abort_all();
    const bool aborted = f.nccl.fates().front().aborted == 1;
    fail(ErrorClass::peer_lost, aborted ? "rank 1 is gone" : "nothing was aborted");
  };
  f.nccl.hang_at(1);
  group.wait(group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum));
}

}  // namespace

TEST_CASE("a rank that stands in a call hears of its peers, and the call ends by an abort") {
  CHECK(outcome_of(hear_of_a_peer_within_a_call) == "peer_lost: rank 1 is gone");
}

TEST_CASE("errors of NCCL come with its own words") {
  CHECK(outcome_of([] {
    Fixture f;
    f.nccl.fail_at(0, NcclResult::system_error, RecordingNccl::Told::when_polled);
    f.nccl.stay_in_progress(3);
    f.connect();
  }) ==
      "comm_error: connecting in group dp: NCCL: unhandled system error (2); the cable is "
      "out");
  CHECK(outcome_of([] {
    Fixture f;
    NcclCommunicator& group = f.connect();
    f.nccl.fail_at(1, NcclResult::invalid_usage, RecordingNccl::Told::at_once);
    group.all_gather(f.values.data(), f.values.data(), 8, Dtype::fp32);
  }) == "comm_error: all_gather in group dp: NCCL: some error (5); the cable is out");
  CHECK(outcome_of([] {
    Fixture f;
    f.stream.done = 1;
    NcclCommunicator& group = f.connect();
    f.nccl.fail_at(2, NcclResult::remote_error, RecordingNccl::Told::when_polled);
    group.all_gather(f.values.data(), f.values.data(), 8, Dtype::fp32);
    group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum);
    f.world.check();
  }) == "comm_error: all_reduce in group dp: NCCL: some error (6); the cable is out");
}

TEST_CASE("an operation that does not end is named") {
  const std::string outcome = outcome_of([] {
    Fixture f(2, 0, short_limit_s);
    NcclCommunicator& group = f.connect();
    f.stream.done = 1;
    group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum);
    group.all_gather(f.values.data(), f.values.data(), 8, Dtype::fp32);
    while (true) {
      f.world.check();
      sleep_ms(1);
    }
  });
  CHECK(outcome == "timeout: all_gather in group dp did not end within 0.050000 s");
}

TEST_CASE("the time of an operation begins when the one before it has ended") {
  constexpr double limit_s = 0.4;
  constexpr double most_of_it_s = 0.25;
  CHECK(outcome_of([] {
    const StoppedClock clock;
    Fixture f(2, 0, limit_s);
    NcclCommunicator& group = f.connect();
    f.stream.done = 0;
    group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum);
    group.all_gather(f.values.data(), f.values.data(), 8, Dtype::fp32);
    clock.pass(most_of_it_s);
    f.stream.done = 1;
    f.world.check();
    clock.pass(most_of_it_s);
    f.world.check();
  }) == "ok");
}

TEST_CASE("a peer that tells of its error is believed more than what NCCL makes of it") {
  const std::string outcome = outcome_of([] {
    Fixture f;
    f.connect();
    f.on_pause = [] { fail(ErrorClass::peer_lost, "rank 1: oom: out of memory"); };
    f.nccl.fail_at(1, NcclResult::remote_error, RecordingNccl::Told::at_once);
    f.made.front()->all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum);
  });
  CHECK(outcome == "peer_lost: rank 1: oom: out of memory");
}

TEST_CASE("the time that the device stood still is told") {
  Fixture f;
  f.stream.done = 0;
  f.stream.on_hold = [] { sleep_ms(5); };
  NcclCommunicator& group = f.connect();
  group.wait(group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum));
  const double once_s = group.waited_s();
  CHECK(once_s >= 0.005);
  CHECK(group.waited_s() == once_s);
  group.wait(group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum));
  CHECK(group.waited_s() >= once_s + 0.005);
}

TEST_CASE("the flight recorder sees operations come and go") {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("shardbench-nccl-" + std::to_string(::getpid()));
  {
    Fixture f(3);
    f.stream.done = 0;
    FlightRecorder recorder(folder, "test", 0, Layout{});
    NcclCommunicator& group = f.connect(&recorder);
    group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum);
    group.receive(f.values.data(), 2, Dtype::fp32, 2);
    group.wait(group.send(f.values.data(), 4, Dtype::fp32, 2));
    f.stream.done = 1;
    group.progress();
    const auto file = read_recorder_file(folder + "/rank.0");
    REQUIRE(file);
    CHECK(file->header.last_number == 3);
    const auto& slots = file->slots;
    CHECK(slots[1].left_s != 0);
    CHECK(slots[1].waiting_s == 0);
    CHECK(slots[1].bytes == 32);
    CHECK(std::string(slots[2].operation.data()) == "send");
    CHECK(slots[2].peer == 2);
    CHECK(slots[2].waiting_s != 0);
    CHECK(slots[2].left_s == 0);
    CHECK(std::string(slots[3].operation.data()) == "receive");
    CHECK(slots[3].waiting_s == 0);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a library that is missing or too old is refused in a sentence") {
  {
    const Variable path("SHARDBENCH_NCCL", "/nowhere/libnccl.so.2");
    const std::string refusal = load_nccl().refusal;
    CHECK(refusal.rfind("NCCL can't be loaded: /nowhere/libnccl.so.2:", 0) == 0);
  }
  const Variable path("SHARDBENCH_NCCL", OLD_NCCL);
  CHECK(load_nccl().refusal ==
      std::string("'") + OLD_NCCL + "' is NCCL 2.17.1, and 2.18.0 is the oldest supported version");
}

TEST_CASE("versions and settings are told as people know them") {
  CHECK(nccl_version_name(22809) == "2.28.9");
  CHECK(nccl_version_name(2708) == "2.7.8");
  const Variable path("SHARDBENCH_NCCL", "/nowhere");
  const Variable order("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  const Variable debug("NCCL_DEBUG", std::string(1000, 'x').c_str());
  const auto settings = nccl_settings();
  const auto find = [&](const std::string& name) {
    return std::find_if(
        settings.begin(), settings.end(), [&](const auto& entry) { return entry.first == name; });
  };
  REQUIRE(find("NCCL_LAUNCH_ORDER_IMPLICIT") != settings.end());
  CHECK(find("NCCL_LAUNCH_ORDER_IMPLICIT")->second == "1");
  CHECK(find("NCCL_DEBUG")->second.size() == 256);
}

TEST_CASE("NCCL itself refuses cleanly where there is no GPU") {
  const NcclLibrary nccl = load_nccl();
  if (!nccl.refusal.empty() || std::filesystem::exists("/dev/nvidiactl")) {
    MESSAGE("left out: " << (nccl.refusal.empty() ? "there is a GPU" : nccl.refusal));
    return;
  }
  CHECK(nccl.version >= nccl_oldest_version);
  const std::string outcome = outcome_of([&] {
    NcclUniqueId id;
    if (nccl.table.get_unique_id(&id) != NcclResult::success) return;
    RecordingStream stream;
    const auto device = make_cpu_device(Dtype::fp32);
    NcclWorld world(nccl.table,
        {[](const Group&, const NcclUniqueId& own) { return own; }, [] { sleep_ms(1); }, 20.0});
    NcclCommunicator group(world, {"dp", 1, {0, 1}}, 0, stream, *device);
  });
  CAPTURE(outcome);
  CHECK(outcome.rfind("comm_error: connecting in group dp: NCCL: ", 0) == 0);
}

TEST_CASE("arenas are registered with each communicator and given back before its end") {
  Fixture f;
  f.connect();
  f.nccl.stay_in_progress(2);
  f.world.register_memory(f.values.data(), 128);
  f.world.register_memory(f.values.data() + 32, 64);
  f.world.register_memory(f.values.data(), 0);
  CHECK(f.world.registered_bytes() == 192);
  CHECK(f.nccl.fates()[0].registered == 2);
  f.made.clear();
  f.world.finalize();
  CHECK(f.nccl.fates()[0].registered == 0);
  CHECK(f.nccl.fates()[0].destroyed == 1);
  CHECK(f.nccl.misuses.empty());
}

TEST_CASE("without registration, and where NCCL refuses memory, operations go on") {
  for (const bool refused : {false, true}) {
    CAPTURE(refused);
    Fixture f;
    if (refused)
      f.nccl.refuse_memory();
    else
      f.table.comm_register = nullptr;
    NcclCommunicator& group = f.connect();
    f.world.register_memory(f.values.data(), 128);
    CHECK(f.world.registered_bytes() == 0);
    group.wait(group.all_reduce(f.values.data(), 8, Dtype::fp32, Reduction::sum));
    CHECK(f.items().size() == 1);
    f.made.clear();
    f.world.finalize();
    CHECK(f.nccl.misuses.empty());
  }
}
