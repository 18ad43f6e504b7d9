// SPDX-License-Identifier: Apache-2.0
#include "ordered_gpu.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace shardbench {
namespace {

// The host looks that often at an event before the GPU has come there: what it does without
// waiting sees none reached.
constexpr int polls_until_reached = 5;

struct StreamState;

struct EventState {
  HappensBefore::Clock clock;
  std::string stream;
  std::string work;
  std::string group;               // group of that work, if it is NCCL's
  std::vector<std::size_t> after;  // the stream's last work and what it would wait for next
  StreamState* before = nullptr;   // the stream waits for more before its next work
  int polls = 0;
};

struct StreamState {
  HappensBefore::Agent agent;
  std::size_t number;
  std::optional<std::size_t> last_work = std::nullopt;
  std::vector<std::size_t> waits = {};    // the next work's
  std::vector<StreamState*> behind = {};  // wait for the turn of this one's next work
  std::vector<std::size_t> begun = {};    // items whose turn the next work has waited for
};

struct OrderedGpu {
  HappensBefore order;
  HappensBefore::Agent host = order.add_agent("the host");
  std::vector<ordered::Edge> edges;
  std::vector<ordered::Work> works;
  std::size_t streams = 0;
  std::vector<std::string> lost;                 // downloads that the host did not wait for
  std::optional<HappensBefore::Clock> download;  // download that is not yet known to have ended
  std::set<std::size_t> deleted;
  std::map<HappensBefore::Agent, std::vector<std::size_t>> open_edges;  // edges whose `before` is
                                                                        // not known
  std::uintptr_t next_address = std::uintptr_t{1} << 44;
  std::map<const std::byte*, i64> allocations;
};

std::unique_ptr<OrderedGpu>& current() {
  static std::unique_ptr<OrderedGpu> gpu = std::make_unique<OrderedGpu>();
  return gpu;
}

OrderedGpu& gpu_state() {
  return *current();
}

StreamState& state_of(gpu::Stream stream) {
  return *static_cast<StreamState*>(stream.handle);
}

HappensBefore::Agent agent_of(gpu::Stream stream) {
  return state_of(stream).agent;
}

EventState& state_of(gpu::Event event) {
  return *static_cast<EventState*>(event.handle);
}

void add_edge(HappensBefore::Agent agent, const EventState& event) {
  OrderedGpu& g = gpu_state();
  const std::size_t number = g.edges.size();
  const u64 ordered_before = agent < event.clock.size() ? event.clock[agent] : 0;
  g.edges.push_back({g.order.name(agent), event.stream, event.work, "", g.order.last_work(agent),
      g.order.clock(agent)[agent] - ordered_before, event.group, event.before != nullptr});
  g.open_edges[agent].push_back(number);
  if (g.deleted.count(number) == 0) (void)g.order.come_after(agent, event.clock);
}

/// Orders launched work after everything that the host has done and seen. It goes on with the
/// numbers that it has read: they have to be there.
void launch(gpu::Stream stream, const std::string& what, const std::string& group) {
  OrderedGpu& g = gpu_state();
  if (g.download) {
    HappensBefore::Clock seen = g.order.clock(g.host);
    seen.resize(g.download->size(), 0);
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i] < (*g.download)[i]) {
        g.lost.push_back("the host uses what it has not seen arrive before " + what);
        break;
      }
    g.download.reset();
  }
  for (const std::size_t edge : std::exchange(g.open_edges[agent_of(stream)], {})) {
    g.edges[edge].before = what;
    if (g.edges[edge].group.empty()) g.edges[edge].group = group;
  }
  g.order.work(g.host, what);
  (void)g.order.come_after(agent_of(stream), g.order.clock(g.host));
  g.order.work(agent_of(stream), what);
}

}  // namespace

namespace ordered {

void reset(std::set<std::size_t> deleted_edges) {
  current() = std::make_unique<OrderedGpu>();
  gpu_state().deleted = std::move(deleted_edges);
}

const std::vector<Edge>& edges() {
  return gpu_state().edges;
}

std::vector<std::string> races() {
  std::vector<std::string> all = gpu_state().order.races();
  all.insert(all.end(), gpu_state().lost.begin(), gpu_state().lost.end());
  return all;
}

const std::vector<Work>& works() {
  return gpu_state().works;
}

void work(gpu::Stream stream, const std::string& what, const std::vector<Range>& reads,
    const std::vector<Range>& writes, const Cost& cost) {
  launch(stream, what, cost.traffic ? cost.traffic->group : "");
  OrderedGpu& g = gpu_state();
  StreamState& of = state_of(stream);
  Work done{what, of.number, 0, 0, cost, std::exchange(of.waits, {}), std::exchange(of.begun, {})};
  for (StreamState* other : std::exchange(of.behind, {}))
    other->begun.push_back(g.works.size());
  for (const Range& range : reads) {
    g.order.access(of.agent, HappensBefore::Access::read, range.data, range.bytes);
    done.bytes_read += range.bytes;
  }
  for (const Range& range : writes) {
    g.order.access(of.agent, HappensBefore::Access::write, range.data, range.bytes);
    done.bytes_written += range.bytes;
  }
  of.last_work = g.works.size();
  g.works.push_back(std::move(done));
}

}  // namespace ordered

namespace gpu {

std::optional<std::string> unavailable() {
  return std::nullopt;
}

Facts open(i64 /*local_rank*/) {
  return {.name = "ordered GPU", .pci_bus_id = "", .uuid = "", .l2_bytes = 1 << 20};
}

i64 most_shared_bytes() {
  return 163 << 10;
}

MemoryState memory_state() {
  return {i64{1} << 60, i64{1} << 60};
}

std::byte* allocate(i64 bytes) {
  OrderedGpu& g = gpu_state();
  constexpr std::uintptr_t alignment = 256;
  const std::uintptr_t at = g.next_address;
  g.next_address += (static_cast<std::uintptr_t>(bytes) / alignment + 2) * alignment;
  auto* data = reinterpret_cast<std::byte*>(at);  // NOLINT(performance-no-int-to-ptr)
  g.allocations[data] = bytes;
  return data;
}

void release(std::byte* data) {
  OrderedGpu& g = gpu_state();
  const auto found = g.allocations.find(data);
  if (found == g.allocations.end()) return;
  g.order.forget(data, found->second);
  g.allocations.erase(found);
}

std::byte* allocate_pinned(i64 bytes) {
  return new std::byte[static_cast<std::size_t>(bytes)];
}

void release_pinned(std::byte* data) {
  delete[] data;
}

Stream make_stream(Priority priority) {
  const char* name = priority == Priority::high ? "communication" : "computation";
  OrderedGpu& g = gpu_state();
  return {new StreamState{g.order.add_agent(name), g.streams++}};
}

void release_stream(Stream stream) {
  delete static_cast<StreamState*>(stream.handle);
}

Event make_event(Timing /*timing*/) {
  return {new EventState};
}

void release_event(Event event) {
  delete &state_of(event);
}

void record(Event event, Stream stream) {
  HappensBefore& order = gpu_state().order;
  order.work(gpu_state().host, "record");
  (void)order.come_after(agent_of(stream), order.clock(gpu_state().host));
  StreamState& of = state_of(stream);
  EventState state{order.clock(of.agent), order.name(of.agent), order.last_work(of.agent), "",
      of.waits, of.number > 0 && !of.waits.empty() ? &of : nullptr};
  if (of.last_work) {
    state.after.push_back(*of.last_work);
    const auto& traffic = gpu_state().works[*of.last_work].cost.traffic;
    if (traffic) state.group = traffic->group;
  }
  state_of(event) = std::move(state);
}

void wait(Stream stream, Event event) {
  const EventState& state = state_of(event);
  add_edge(agent_of(stream), state);
  std::vector<std::size_t>& waits = state_of(stream).waits;
  waits.insert(waits.end(), state.after.begin(), state.after.end());
  if (state.before != nullptr) state.before->behind.push_back(&state_of(stream));
}

bool reached(Event event) {
  if (++state_of(event).polls < polls_until_reached) return false;
  add_edge(gpu_state().host, state_of(event));
  return true;
}

double seconds_between(Event /*from*/, Event /*to*/) {
  return 0;
}

void zero(Stream stream, void* data, i64 bytes) {
  ordered::work(stream, "zero", {}, {{data, bytes}});
}

void copy(Stream stream, void* to, const void* from, i64 bytes) {
  ordered::work(stream, "copy", {{from, bytes}}, {{to, bytes}});
}

void upload(Stream stream, void* to, const void* /*host*/, i64 bytes) {
  ordered::work(stream, "upload", {}, {{to, bytes}});
}

void download(Stream stream, void* host, const void* from, i64 bytes) {
  std::memset(host, 0, static_cast<std::size_t>(bytes));
  ordered::work(stream, "download", {{from, bytes}}, {});
  gpu_state().download = gpu_state().order.clock(agent_of(stream));
}

}  // namespace gpu
}  // namespace shardbench
