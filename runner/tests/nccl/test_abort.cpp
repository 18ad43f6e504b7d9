// SPDX-License-Identifier: Apache-2.0
// Eight processes, joined by sockets, train with a recording NCCL; one of them gets an error,
// or stands still. Every rank aborts each of its communicators once, and leaves with the class
// that says whose fault it was.
#include "communication/socket_communicator.hpp"
#include "device/cpu_device.hpp"
#include "nccl/nccl_communicator.hpp"
#include "rank_pool.hpp"
#include "recording_nccl.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <string>

using namespace shardbench;

namespace {

constexpr double no_limit_s = 600.0;  // no load makes a healthy run take so long
// Limit for waits that can't end earlier: for a rank that does not come.
constexpr double short_limit_s = 0.5;
constexpr i64 guilty = 3;
constexpr i64 struck_step = 20;
constexpr i64 train_steps = 60;
// Two communicators of a rank, made first; then two operations in each step.
constexpr i64 comms_of_rank = 2;
constexpr i64 struck_request = comms_of_rank + 2 * struck_step;
constexpr std::size_t text_bytes = 160;

/// Report of a rank at its end.
struct RankReport {
  i64 comms;
  i64 aborted_once;
  i64 misuses;
  char text[text_bytes];  // "CLASS: MESSAGE"
  std::atomic<bool> is_there;
};

/// How far each rank has come in each stream: an operation ends when all members have issued
/// it.
struct SharedState {
  std::array<std::array<std::atomic<u64>, pool_ranks>, 2> issued;
  std::array<RankReport, pool_ranks> left;
};

enum class Strike { nothing, error_at_once, error_later, connecting, stands_still, killed };

/// One process of the run.
class Rank {
 public:
  Rank(Mesh& mesh, SharedState& shared, Strike strike)
      : mesh_(mesh), shared_(shared), strike_(strike) {
    nccl_.as_rank(mesh.rank());
    if (mesh.rank() == guilty) arm();
    install_failure_handler([this](const Error& error) {
      mesh_.broadcast_error(error, mesh_.rank(), 1.0);
      world_.abort_all();
      leave(std::string(error_class_name(error.kind)) + ": " + error.message);
    });
  }

  void train() {
    std::vector<i64> everyone(pool_ranks);
    for (i64 rank = 0; rank < pool_ranks; ++rank)
      everyone[static_cast<std::size_t>(rank)] = rank;
    const i64 first = mesh_.rank() / 2 * 2;
    const auto dp = connect(0, {"dp", 1, everyone});
    const auto tp = connect(1, {"tp", static_cast<u64>(2 + first), {first, first + 1}});
    for (i64 step = 0; step < train_steps; ++step) {
      if (step == struck_step && mesh_.rank() == guilty) misbehave();
      tp->wait(tp->all_reduce(&value_, 1, Dtype::fp64, Reduction::sum));
      dp->wait(dp->all_reduce(&value_, 1, Dtype::fp64, Reduction::sum));
      while (!streams_[0].reached(streams_[0].marks()) || !streams_[1].reached(streams_[1].marks()))
        look_around();
    }
    world_.finalize();
    leave("ok");
  }

 private:
  /// Looks around as a host that waits for its device.
  void look_around() {
    world_.check();
    mesh_.wait_event(Deadline::in(0.002));
  }

  void arm() {
    if (strike_ == Strike::error_at_once)
      nccl_.fail_at(struck_request, NcclResult::system_error, RecordingNccl::Told::at_once);
    if (strike_ == Strike::error_later)
      nccl_.fail_at(struck_request, NcclResult::system_error, RecordingNccl::Told::when_polled);
    if (strike_ == Strike::connecting) nccl_.hang_at(1);
  }

  void misbehave() {
    if (strike_ == Strike::killed) (void)::kill(::getpid(), SIGKILL);
    while (strike_ == Strike::stands_still && !others_have_left())
      sleep_ms(1);
  }

  bool others_have_left() const {
    for (i64 rank = 0; rank < pool_ranks; ++rank)
      if (rank != guilty && !shared_.left[static_cast<std::size_t>(rank)].is_there) return false;
    return true;
  }

  /// Limit of the rank that has to time out: the guilty one if it can't be connected, the others if
  /// it does not come.
  double limit_s() const {
    const bool own = mesh_.rank() == guilty;
    const bool ends = own ? strike_ == Strike::connecting : strike_ == Strike::stands_still;
    return ends ? short_limit_s : no_limit_s;
  }

  std::unique_ptr<NcclCommunicator> connect(std::size_t kind, const Group& group) {
    RecordingStream& stream = streams_[kind];
    auto& issued = shared_.issued[kind];
    const auto own = static_cast<std::size_t>(mesh_.rank());
    stream.on_mark = [&issued, own](u64 mark) { issued[own] = mark; };
    stream.is_reached = [&issued, members = group.members](u64 mark) {
      return std::all_of(members.begin(), members.end(),
          [&](i64 member) { return issued[static_cast<std::size_t>(member)] >= mark; });
    };
    return std::make_unique<NcclCommunicator>(world_, group, mesh_.rank(), stream, *device_);
  }

  void leave(const std::string& text) {
    RankReport& left = shared_.left[static_cast<std::size_t>(mesh_.rank())];
    left.misuses = static_cast<i64>(nccl_.misuses.size());
    for (const NcclFate& fate : nccl_.fates()) {
      ++left.comms;
      if (fate.aborted == 1) ++left.aborted_once;
    }
    std::snprintf(left.text, text_bytes, "%s", text.c_str());
    left.is_there = true;
  }

  NcclUniqueId exchange(const Group& group, const NcclUniqueId& own) {
    SocketCommunicator sockets(mesh_, memory_, group, no_limit_s);
    return share_id(sockets, own);
  }

  Mesh& mesh_;
  SharedState& shared_;
  Strike strike_;
  RecordingNccl nccl_;
  NcclTable table_ = RecordingNccl::table();
  std::array<RecordingStream, 2> streams_;
  std::unique_ptr<Device> device_ = make_cpu_device(Dtype::fp32);
  Memory memory_{*device_, std::nullopt};
  NcclWorld world_{table_,
      {[this](const Group& group, const NcclUniqueId& own) { return exchange(group, own); },
          [this] { mesh_.wait_event(Deadline::in(0.002)); }, limit_s()}};
  double value_ = 0;
};

using All = std::array<RankReport, pool_ranks>;

/// Runs all ranks; what each left.
const All& run(Strike strike) {
  auto* shared = static_cast<SharedState*>(shared_memory(sizeof(SharedState)));
  (void)run_in_pool([&](Mesh& mesh) { Rank(mesh, *shared, strike).train(); });
  return shared->left;
}

bool says(const RankReport& left, const std::string& beginning) {
  return std::string(left.text).rfind(beginning, 0) == 0;
}

/// All communicators of all ranks but `except` were aborted once, without misuse.
void check_all_aborted(const All& all, i64 comms, i64 except = -1) {
  for (i64 rank = 0; rank < pool_ranks; ++rank) {
    if (rank == except) continue;
    const RankReport& left = all[static_cast<std::size_t>(rank)];
    CAPTURE(rank);
    CAPTURE(std::string(left.text));
    CHECK(left.comms == comms);
    CHECK(left.aborted_once == left.comms);
    CHECK(left.misuses == 0);
  }
}

void check_others_lost(const All& all, const std::string& beginning) {
  for (i64 rank = 0; rank < pool_ranks; ++rank) {
    if (rank == guilty) continue;
    const RankReport& left = all[static_cast<std::size_t>(rank)];
    CAPTURE(std::string(left.text));
    CHECK(says(left, beginning));
  }
}

/// Checks that some rank timed out: the first one tells the others, some of whom may notice it
/// themselves meanwhile.
void check_timed_out(const All& all) {
  i64 in_time = 0;
  for (const RankReport& left : all) {
    CAPTURE(std::string(left.text));
    in_time += says(left, "timeout: ") ? 1 : 0;
    CHECK((says(left, "timeout: ") || says(left, "peer_lost: rank ")));
  }
  CHECK(in_time >= 1);
}

}  // namespace

TEST_CASE("a run without a fault ends well and aborts nothing") {
  for (const RankReport& left : run(Strike::nothing)) {
    CHECK(std::string(left.text) == "ok");
    CHECK(left.comms == comms_of_rank);
    CHECK(left.aborted_once == 0);
    CHECK(left.misuses == 0);
  }
}

TEST_CASE("an error of one rank ends all with their communicators aborted") {
  for (const Strike strike : {Strike::error_at_once, Strike::error_later}) {
    const All& all = run(strike);
    check_all_aborted(all, comms_of_rank);
    const std::string own = "all_reduce in group tp: NCCL: unhandled system error";
    CAPTURE(std::string(all[guilty].text));
    CHECK(says(all[guilty], "comm_error: " + own));
    check_others_lost(all, "peer_lost: rank 3: comm_error: " + own);
  }
}

TEST_CASE("a rank that does not get connected ends all") {
  const All& all = run(Strike::connecting);
  check_all_aborted(all, comms_of_rank);
  check_timed_out(all);
  CHECK(says(all[guilty], "timeout: connecting in group tp was not accepted by NCCL"));
}

TEST_CASE("a rank that stands still ends the others and finds out when it goes on") {
  const All& all = run(Strike::stands_still);
  check_all_aborted(all, comms_of_rank);
  check_timed_out(all);
  CHECK(says(all[guilty], "peer_lost: rank "));
}

TEST_CASE("a killed rank ends the others") {
  const All& all = run(Strike::killed);
  check_all_aborted(all, comms_of_rank, guilty);
  check_others_lost(all, "peer_lost: rank 3: closed its connection");
}
