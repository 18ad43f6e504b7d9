// SPDX-License-Identifier: Apache-2.0
// What schedules gain, measured through the trainer and its sockets: four ranks whose products
// take a set time and no processor, so that they disturb each other on no machine. Prints each
// train step relative to 1F1B's beside what the lists say. Ends with 1 where they differ by
// more than a tenth. Usage: bench_schedules
#include "device/meta_device.hpp"
#include "device/platform.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"
#include "rank_pool.hpp"
#include "schedules/timeline.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

namespace {

using namespace shardbench;

constexpr auto product_time = std::chrono::microseconds(1500);
constexpr i64 ranks = 4;
constexpr i64 vocab = 96;
constexpr int steps = 5;
constexpr double limit_s = 60;

/// Each product of a layer takes the same time; the head's take none.
class PacedDevice final : public MetaDevice {
 public:
  PacedDevice() : MetaDevice(Dtype::fp32) {}
  std::byte* allocate(i64 bytes) override {
    return new std::byte[static_cast<std::size_t>(std::max<i64>(1, bytes))]();
  }
  void release(std::byte* data, i64) override { delete[] data; }
  void zero(void* data, i64 bytes) override {
    std::fill_n(static_cast<std::byte*>(data), bytes, std::byte{});
  }
  void download(void* host, const void* from, i64 bytes) override {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(host));
  }
  void gemm(const Gemm& gemm) override {
    if (gemm.m == vocab || gemm.n == vocab || gemm.k == vocab) return;
    std::this_thread::sleep_for(product_time);
  }
};

struct Case {
  const char* name;
  ScheduleKind kind;
  i64 chunks;
  i64 micro_batches;
};

constexpr Case cases[] = {
    {"1f1b, m = pp", ScheduleKind::one_f_one_b, 1, ranks},
    {"vpp 2, m = pp", ScheduleKind::one_f_one_b, 2, ranks},
    {"vpp 4, m = pp", ScheduleKind::one_f_one_b, 4, ranks},
    {"zb-h1, m = pp", ScheduleKind::zb_h1, 1, ranks},
    {"zb-v, m = pp", ScheduleKind::zb_v, 2, ranks},
    {"1f1b, m = 2pp", ScheduleKind::one_f_one_b, 1, 2 * ranks},
    {"vpp 2, m = 2pp", ScheduleKind::one_f_one_b, 2, 2 * ranks},
    {"zb-h1, m = 2pp", ScheduleKind::zb_h1, 1, 2 * ranks},
    {"zb-v, m = 2pp", ScheduleKind::zb_v, 2, 2 * ranks},
};
constexpr std::size_t case_count = std::size(cases);

Layout layout_of(const Case& c) {
  Layout layout;
  layout.pp = ranks;
  layout.vpp = c.chunks;
  layout.schedule = c.kind;
  layout.grad_accum = c.micro_batches;
  layout.habits.vocab_multiple = 1;
  return layout;
}

/// The least of a few train steps, in ms: what else runs on the machine only adds.
double least_step_ms(Mesh& mesh, const Case& c, u64 first_id) {
  const ModelShape shape{.layers = 4 * ranks,
      .hidden = 16,
      .ffn = 32,
      .heads = 4,
      .kv_heads = 2,
      .vocab = vocab,
      .seq_len = 8};
  const Layout layout = layout_of(c);
  PacedDevice device;
  Memory memory(device, std::nullopt);
  const Connection connection{mesh, memory, memory, nullptr, limit_s};
  const Groups groups = make_groups(layout, mesh.rank(), first_id,
      [&](Group group) { return connect_host(connection, std::move(group)); });
  Trainer trainer(
      context_of(device, memory, shape, layout, coordinates_of(layout, mesh.rank()), groups),
      groups, 1);
  double least = INFINITY;
  for (int step = 0; step < steps; ++step) {
    const TimePoint start = now();
    trainer.compute_gradients(step);
    trainer.update(step);
    if (step > 0) least = std::min(least, seconds_since(start) * 1e3);
  }
  return least;
}

double predicted(const Case& c) {
  const double chunk = 1.0 / static_cast<double>(c.chunks);
  return timeline_of(c.kind, pipeline_of(layout_of(c)), {chunk, chunk, chunk}, Channels::buffered)
      .length;
}

}  // namespace

int main() {
  auto* measured = static_cast<double*>(shared_memory(case_count * pool_ranks * sizeof(double)));
  const bool lived = run_in_pool([&](Mesh& mesh) {
    u64 next_id = 1;
    for (std::size_t i = 0; i < case_count; ++i) {
      if (mesh.rank() < ranks)
        measured[i * pool_ranks + static_cast<std::size_t>(mesh.rank())] =
            least_step_ms(mesh, cases[i], next_id);
      next_id += group_ids_used(layout_of(cases[i]));
    }
  });
  int failed = lived ? 0 : 1;
  std::size_t base = 0;
  for (std::size_t i = 0; i < case_count; ++i) {
    if (cases[i].kind == ScheduleKind::one_f_one_b && cases[i].chunks == 1) base = i;
    const auto slowest = [&](std::size_t at) {
      return *std::max_element(measured + at * pool_ranks, measured + at * pool_ranks + ranks);
    };
    const double share = slowest(i) / slowest(base);
    const double expected = predicted(cases[i]) / predicted(cases[base]);
    if (std::abs(share / expected - 1) > 0.1) ++failed;
    std::printf("%-16s %7.1f ms, of 1f1b %.3f, by the lists %.3f\n", cases[i].name, slowest(i),
        share, expected);
  }
  return failed == 0 ? 0 : 1;
}
