// SPDX-License-Identifier: Apache-2.0
// Every layout with at most eight ranks gives NCCL the same operations in the same order on all
// members of each communicator, groups its messages, and comes to an end. The ranks run their
// train steps one after the other, without arithmetic, over a recording NCCL. Usage:
// shardbench_nccl_layouts [--full] [--only TEXT] [--defect ungrouped|swapped|dropped]
//
// A defect is put into what was recorded, and must be found: then it ends with 1.
#include "device/meta_device.hpp"
#include "equality_cases.hpp"
#include "issue_order.hpp"
#include "measurement/meta_run.hpp"
#include "nccl/nccl_communicator.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

namespace {

using namespace shardbench;

constexpr i64 train_steps = 2;

NcclUniqueId id_of(const Group& group) {
  std::string text = group.name;
  for (const i64 member : group.members)
    text.append(" ").append(std::to_string(member));
  NcclUniqueId id;
  std::snprintf(id.internal.data(), id.internal.size(), "%s", text.c_str());
  return id;
}

/// A stream for each kind of traffic. The world's sums are the host's and go by sockets; who
/// waits in them issues nothing else, so they take part in the order.
struct Streams {
  // The device is behind the host, so that waiting for an operation has to hold it.
  Streams() { tp.done = dp.done = pp.done = replicas.done = world.done = 0; }

  RecordingStream tp;
  RecordingStream dp;
  RecordingStream pp;
  RecordingStream replicas;
  RecordingStream world;
  RecordingStream& of(const std::string& group) {
    if (group == "tp") return tp;
    if (group == "pp") return pp;
    if (group == "replicate") return replicas;
    return group == "world" ? world : dp;
  }
  std::array<const RecordingStream*, 5> all() const { return {&tp, &dp, &pp, &replicas, &world}; }
};

/// Every operation has been waited for in the end.
bool all_held(const Streams& streams) {
  const auto& all = streams.all();
  return std::all_of(all.begin(), all.end(), [](const RecordingStream* s) {
    return s->marks() == (s->held.empty() ? 0 : *std::max_element(s->held.begin(), s->held.end()));
  });
}

/// One rank of a layout, over the recording NCCL.
struct RecordedRank {
  RecordedRank(RecordingNccl& nccl, const EqualityCase& c, i64 rank)
      : table((nccl.as_rank(rank), RecordingNccl::table())),
        groups(make_groups(c.layout, rank, 1,
            [&](const Group& group) {
              return std::make_unique<NcclCommunicator>(
                  world, group, rank, streams.of(group.name), device);
            })),
        trainer(
            context_of(device, memory, c.model, c.layout, coordinates_of(c.layout, rank), groups),
            groups, 1) {}

  NcclTable table;
  NcclWorld world{
      table, {[](const Group& group, const NcclUniqueId&) { return id_of(group); }, [] {}, 60.0}};
  MetaDevice device{Dtype::bf16};
  Memory memory{device, std::nullopt};
  Streams streams;
  Groups groups;
  Trainer trainer;
};

/// One rank's train steps; what is wrong with them alone, else "".
std::string record_rank(RecordingNccl& nccl, const EqualityCase& c, i64 rank) {
  RecordedRank of(nccl, c, rank);
  for (i64 step = 0; step < train_steps; ++step) {
    of.trainer.compute_gradients(step);
    of.trainer.update(step);
  }
  of.trainer.settle();
  of.world.check();
  of.world.finalize();
  if (!all_held(of.streams)) return "an operation was not waited for";
  Options options;
  options.layout = c.layout;
  options.model = c.model;
  options.dtype = Dtype::bf16;
  auto expected = cost_of_rank(options, rank).sent_bytes;
  for (i64& bytes : expected)
    bytes *= train_steps;
  return sent_by_group(of.groups) == expected ? "" : "counters differ from meta";
}

/// A rank that fails amid a train step aborts all its communicators, each once, in one group:
/// the recording calls anything else a misuse.
std::string record_abort(const EqualityCase& c) {
  RecordingNccl nccl;
  RecordedRank of(nccl, c, c.layout.world() - 1);
  of.trainer.compute_gradients(0);
  of.world.abort_all();
  if (!nccl.misuses.empty()) return nccl.misuses.front();
  const std::vector<NcclFate> fates = nccl.fates();
  const bool all = std::all_of(
      fates.begin(), fates.end(), [](const NcclFate& fate) { return fate.aborted == 1; });
  return all ? "" : "a communicator was not aborted";
}

/// Each communicator has ended well, once.
bool ended_well(const std::vector<NcclFate>& fates) {
  return std::all_of(fates.begin(), fates.end(), [](const NcclFate& fate) {
    return fate.finalized == 1 && fate.destroyed == 1 && fate.aborted == 0;
  });
}

/// Groups of messages fall apart into single ones.
void ungroup(IssuedItems& items) {
  for (auto& [rank, own] : items) {
    std::vector<NcclItem> apart;
    for (const NcclItem& item : own)
      for (const NcclCall& call : item.calls) {
        apart.push_back(item);
        apart.back().calls = {call};
      }
    own = apart;
  }
}

/// Exchanges neighbours of different communicators on the last rank, pair by pair: a single
/// exchanged pair may harm no other rank.
void swap_neighbours(IssuedItems& items) {
  auto& own = items.rbegin()->second;
  for (std::size_t i = 0; i + 1 < own.size(); ++i)
    if (own[i].comm != own[i + 1].comm) {
      std::swap(own[i], own[i + 1]);
      ++i;
    }
}

/// The last rank leaves one out.
void drop_one(IssuedItems& items) {
  auto& own = items.rbegin()->second;
  own.erase(own.begin() + static_cast<std::ptrdiff_t>(own.size() / 2));
}

void spoil(IssuedItems& items, const std::string& defect) {
  if (items.empty()) return;
  if (defect == "ungrouped") ungroup(items);
  if (defect == "swapped") swap_neighbours(items);
  if (defect == "dropped") drop_one(items);
}

/// Sentence on a wrong case; "" if it is right.
std::string judge(const EqualityCase& c, const std::string& defect) {
  RecordingNccl nccl;
  for (i64 rank = 0; rank < c.layout.world(); ++rank) {
    const std::string text = record_rank(nccl, c, rank);
    if (!text.empty()) return text + ", rank " + std::to_string(rank);
  }
  if (!nccl.misuses.empty()) return nccl.misuses.front();
  if (!ended_well(nccl.fates())) return "a communicator was not ended, or twice";
  const std::string abort = record_abort(c);
  if (!abort.empty()) return "abort: " + abort;
  IssuedItems items = nccl.items;
  spoil(items, defect);
  // Ungrouped messages may wait for each other: the simulation has to find that.
  const std::string text = defect == "ungrouped" ? "" : disagreement(items);
  return text.empty() ? deadlock(items) : text;
}

/// Doubles the cases: each with overlap and without.
std::vector<EqualityCase> with_both_overlaps(const std::vector<EqualityCase>& cases) {
  std::vector<EqualityCase> both;
  for (const EqualityCase& c : cases)
    for (const bool overlap : {false, true}) {
      both.push_back(c);
      both.back().layout.overlap = overlap;
    }
  return both;
}

}  // namespace

int main(int argc, char** argv) {
  bool full = false;
  std::string only;
  std::string defect;
  for (int i = 1; i < argc; ++i) {
    full = full || std::strcmp(argv[i], "--full") == 0;
    if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) only = argv[++i];
    if (std::strcmp(argv[i], "--defect") == 0 && i + 1 < argc) defect = argv[++i];
  }
  std::vector<EqualityCase> cases = all_cases();
  if (!full) cases = covering_subset(cases);
  int judged = 0;
  int failed = 0;
  for (const EqualityCase& c : with_both_overlaps(cases)) {
    const std::string name = describe_case(c);
    if (name.find(only) == std::string::npos) continue;
    ++judged;
    const std::string text = judge(c, defect);
    if (text.empty()) continue;
    if (failed++ < 10) std::printf("FAIL %s: %s\n", name.c_str(), text.c_str());
  }
  std::printf("%d cases, %d failed\n", judged, failed);
  return failed == 0 ? 0 : 1;
}
