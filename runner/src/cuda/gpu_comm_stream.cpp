// SPDX-License-Identifier: Apache-2.0
#include "cuda/gpu_comm_stream.hpp"

#include "parallel/groups.hpp"

#include <algorithm>
#include <set>

namespace shardbench {

GpuCommStream::GpuCommStream(gpu::Stream compute, Kind kind, bool goes_first)
    : compute_(compute),
      kind_(kind),
      goes_first_(goes_first),
      stream_(kind == Kind::own ? gpu::make_stream(gpu::Priority::high) : compute) {}

GpuCommStream::~GpuCommStream() {
  for (const auto& [mark, event] : ahead_)
    gpu::release_event(event);
  for (const gpu::Event event : free_events_)
    gpu::release_event(event);
  if (kind_ == Kind::own) gpu::release_stream(stream_);
}

gpu::Event GpuCommStream::take_event() {
  if (free_events_.empty()) return gpu::make_event(gpu::Timing::off);
  const gpu::Event event = free_events_.back();
  free_events_.pop_back();
  return event;
}

void GpuCommStream::follow_compute() {
  if (kind_ == Kind::shared_with_compute) return;
  // An event may be recorded anew once a wait for it was given.
  const gpu::Event event = take_event();
  gpu::record(event, compute_);
  gpu::wait(stream_, event);
  free_events_.push_back(event);
}

/// An event between what the operation waits for and the operation: a stream that has come
/// there launches its kernel at once, one that waits for the event hears of it later. What
/// computes has lower priority, too.
void GpuCommStream::go_first() {
  if (!goes_first_ || kind_ == Kind::shared_with_compute) return;
  const gpu::Event event = take_event();
  gpu::record(event, stream_);
  gpu::wait(compute_, event);
  free_events_.push_back(event);
}

u64 GpuCommStream::mark() {
  forget_reached();
  const gpu::Event event = take_event();
  gpu::record(event, stream_);
  ahead_.emplace_back(++marked_, event);
  return marked_;
}

void GpuCommStream::hold_compute(u64 mark) {
  if (kind_ == Kind::own) wait_for(mark, compute_);
}

void GpuCommStream::follow(CommStream& other, u64 mark) {
  static_cast<GpuCommStream&>(other).wait_for(mark, stream_);
}

/// Waits for a mark; does nothing if the stream passed it long ago.
void GpuCommStream::wait_for(u64 mark, gpu::Stream waiting) {
  const auto found = std::find_if(
      ahead_.begin(), ahead_.end(), [&](const auto& entry) { return entry.first == mark; });
  if (found != ahead_.end()) gpu::wait(waiting, found->second);
}

void GpuCommStream::forget_reached() {
  while (!ahead_.empty() && gpu::reached(ahead_.front().second)) {
    free_events_.push_back(ahead_.front().second);
    ahead_.pop_front();
  }
}

bool GpuCommStream::reached(u64 mark) {
  forget_reached();
  return ahead_.empty() || mark < ahead_.front().first;
}

CommStreams::CommStreams(gpu::Stream compute, const Habits& habits)
    : tensor_(compute,
          habits.tp_overlap ? GpuCommStream::Kind::own : GpuCommStream::Kind::shared_with_compute,
          habits.goes_first),
      pipeline_(compute, GpuCommStream::Kind::own),
      exchanges_(compute, GpuCommStream::Kind::own, habits.goes_first),
      data_(compute, GpuCommStream::Kind::own),
      replicas_(compute, GpuCommStream::Kind::own) {}

GpuCommStream& CommStreams::of(std::string_view group) {
  if (group == "tp") return tensor_;
  if (group == "pp") return pipeline_;
  if (group == "replicate") return replicas_;
  return group == "cp" || group == "ep" ? exchanges_ : data_;
}

int CommStreams::used_by(const Layout& layout) {
  std::set<const GpuCommStream*> used;
  for (const char* const name : group_names)
    if (members_of(layout, 0, name).size() > 1) used.insert(&of(name));
  return static_cast<int>(used.size());
}

}  // namespace shardbench
