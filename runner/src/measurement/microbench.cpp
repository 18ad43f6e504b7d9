// SPDX-License-Identifier: Apache-2.0
#include "measurement/microbench.hpp"

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/version.hpp"
#include "communication/null_communicator.hpp"
#include "communication/rendezvous.hpp"
#include "device/gemm_key.hpp"
#include "measurement/statistics.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>

namespace shardbench {
namespace {

constexpr double goodbye_s = 1.0;
constexpr int repeats = 5;

double median_ms(Device& device, int count, const std::function<void()>& work) {
  work();
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const Mark start = device.mark();
    work();
    const Mark end = device.mark();
    device.synchronize();
    times.push_back(device.seconds_between(start, end) * 1e3);
  }
  return describe(times).median;
}

/// A linear layer of the model and how often a train step goes through it.
struct Product {
  const char* name;
  i64 in;
  i64 out;
  i64 row;  // values from one row of the output to the next
  i64 times;
};

std::vector<Product> products(const Options& o) {
  const ModelShape& m = o.model;
  const Extents e = extents_of(m, o.layout, {}, o.dtype);
  const i64 qkv = (m.heads + 2 * m.kv_heads) * m.head_dim();
  return {{"qkv", m.hidden, qkv, qkv, m.layers},
      {"attention_out", m.hidden, m.hidden, m.hidden, m.layers},
      {"gate_up", m.hidden, 2 * m.ffn, 2 * m.ffn, m.layers},
      {"down", m.ffn, m.hidden, m.hidden, m.layers},
      {"head", m.hidden, e.vocab, e.logit_stride, 1}};
}

struct ProductTimes {
  std::string json;
  double flops;    // FLOP of one pass through forward and both backwards
  double time_ms;  // duration of the same pass
};

/// Operands as in PyTorch's benchmarks. How much power operands take depends on their bits, and
/// attention's rows are far from even only if scores are.
TensorRegion standard_normal(i64 rows, i64 columns) {
  return {.tensor = 1, .rows = rows, .columns = columns, .global_columns = columns, .deviation = 1};
}

ProductTimes time_product(Device& device, Memory& memory, const Product& p, i64 tokens) {
  const i64 element = dtype_size(device.precision().value);
  const auto filled = [&](i64 rows, i64 columns) {
    Block block = memory.allocate(MemoryClass::workspace, rows * columns * element, "operand");
    // Random numbers: products of zeros are faster on some hardware.
    device.initialize(block.data(), standard_normal(rows, columns), 1);
    return block;
  };
  const Block x = filled(tokens, p.in);
  const Block w = filled(p.out, p.in);
  const Block y = filled(tokens, p.row);
  const Block dw = memory.allocate(MemoryClass::workspace,
      p.out * p.in * dtype_size(device.precision().gradient), "weight gradient");
  device.zero(dw.data(), dw.bytes());
  const Gemm forward{.transpose_b = Transpose::yes,
      .m = tokens,
      .n = p.out,
      .k = p.in,
      .a = x.data(),
      .lda = p.in,
      .b = w.data(),
      .ldb = p.in,
      .c = y.data(),
      .ldc = p.row};
  const Gemm input_gradient{.m = tokens,
      .n = p.in,
      .k = p.out,
      .a = y.data(),
      .lda = p.row,
      .b = w.data(),
      .ldb = p.in,
      .c = x.data(),
      .ldc = p.in};
  const Gemm weight_gradient{.transpose_a = Transpose::yes,
      .m = p.out,
      .n = p.in,
      .k = tokens,
      .a = y.data(),
      .lda = p.row,
      .b = x.data(),
      .ldb = p.in,
      .c = dw.data(),
      .ldc = p.in,
      .accumulate = Accumulate::yes,
      .gradient_output = true};
  device.settle_products({key_of(forward), key_of(input_gradient), key_of(weight_gradient)});
  const auto time_ms = [&](const Gemm& gemm) {
    return median_ms(device, repeats, [&] { device.gemm(gemm); });
  };
  const double forward_ms = time_ms(forward);
  const double input_gradient_ms = time_ms(input_gradient);
  const double weight_gradient_ms = time_ms(weight_gradient);
  const double flops = 2.0 * static_cast<double>(tokens * p.in * p.out);
  const double total = forward_ms + input_gradient_ms + weight_gradient_ms;
  return {JsonObject{}
              .text("name", p.name)
              .integer("tokens", tokens)
              .integer("in", p.in)
              .integer("out", p.out)
              .number("forward_ms", forward_ms)
              .number("input_gradient_ms", input_gradient_ms)
              .number("weight_gradient_ms", weight_gradient_ms)
              .number("gflops", 3 * flops / total * 1e-6)
              .str(),
      3 * flops * static_cast<double>(p.times), total * static_cast<double>(p.times)};
}

double train_step_ms(Device& device, const Options& o) {
  Memory memory(device, o.memory_limit_bytes);
  const Groups groups = make_groups(o.layout, 0, 1,
      [&](const Group& group) { return std::make_unique<NullCommunicator>(memory, 0, group); });
  const RankContext context = context_of(device, memory, o.model, o.layout, {}, groups);
  Trainer trainer(context, groups, o.seed);
  i64 step = 0;
  return median_ms(device, repeats, [&] {
    trainer.compute_gradients(step);
    trainer.update(step++);
  });
}

struct AllProducts {
  std::vector<std::string> rows;
  double flops = 0;
  double time_ms = 0;
  double best_gflops = 0;
  double gflops() const { return flops / time_ms * 1e-6; }
};

AllProducts time_products(Device& device, const Options& o) {
  Memory memory(device, o.memory_limit_bytes);
  AllProducts all;
  for (const Product& p : products(o)) {
    const ProductTimes t = time_product(device, memory, p, o.layout.micro_batch * o.model.seq_len);
    all.rows.push_back(t.json);
    all.flops += t.flops;
    all.time_ms += t.time_ms;
    all.best_gflops = std::max(all.best_gflops, t.flops / t.time_ms * 1e-6);
  }
  return all;
}

struct AttentionTimes {
  double forward_ms;
  double backward_ms;
};

AttentionTimes attention_times(Device& device, const Options& o) {
  Memory memory(device, o.memory_limit_bytes);
  const i64 element = dtype_size(device.precision().value);
  const i64 tokens = o.layout.micro_batch * o.model.seq_len;
  const i64 width = o.model.heads * o.model.head_dim();
  const AttentionShape shape{
      o.layout.micro_batch, o.model.seq_len, o.model.heads, o.model.kv_heads, o.model.head_dim()};
  const auto block = [&](i64 bytes) {
    return memory.allocate(MemoryClass::workspace, bytes, "attention");
  };
  const auto filled = [&](i64 columns) {
    Block made = block(tokens * columns * element);
    device.initialize(made.data(), standard_normal(tokens, columns), 1);
    return made;
  };
  const Block qkv = filled(shape.row());
  const Block dout = filled(width);
  const Block out = block(tokens * width * element);
  const Block dqkv = block(tokens * shape.row() * element);
  const Block lse = block(tokens * o.model.heads * dtype_size(device.precision().gradient));
  const Block workspace = block(std::max<i64>(1, device.attention_workspace_bytes(shape)));
  const double forward_ms = median_ms(device, repeats,
      [&] { device.attention(out.data(), lse.data(), qkv.data(), workspace.data(), shape); });
  const double backward_ms = median_ms(device, repeats, [&] {
    device.attention_backward(
        {dqkv.data(), dout.data(), qkv.data(), out.data(), lse.data(), workspace.data()}, shape);
  });
  return {forward_ms, backward_ms};
}

/// Forward and causal: half of 2 · 2 · h · s FLOPs per token.
double attention_gflops(const Options& o, double ms) {
  const i64 tokens = o.layout.micro_batch * o.model.seq_len;
  return 2.0 * static_cast<double>(tokens) * static_cast<double>(o.model.hidden * o.model.seq_len) /
      ms * 1e-6;
}

void bench_compute(const Options& o, Platform& platform) {
  const AllProducts all = time_products(platform.device(), o);
  const double step_ms = train_step_ms(platform.device(), o);
  const AttentionTimes attended = attention_times(platform.device(), o);
  const double tokens = static_cast<double>(o.layout.global_batch() * o.model.seq_len);
  const double achieved = flops_per_token_megatron_causal(o.model) * tokens / step_ms;
  JsonObject object;
  object.text("type", "microbench").text("version", version);
  platform.describe(object);
  object.text("dtype", dtype_name(o.dtype))
      .raw("products", json_array(all.rows))
      .number("gemm_gflops", all.gflops())
      .number("attention_forward_ms", attended.forward_ms)
      .number("attention_backward_ms", attended.backward_ms)
      .number("attention_gflops", attention_gflops(o, attended.forward_ms))
      .number("train_step_ms", step_ms)
      .number("train_step_gflops", achieved * 1e-6)
      .number("share_of_gemm_rate", achieved / (all.flops / all.time_ms));
  std::puts(object.str().c_str());
}

double all_reduce_ms(Communicator& world, Device& device, i64 count, int rounds) {
  Memory memory(device, std::nullopt);
  const i64 bytes = count * dtype_size(Dtype::fp32);
  const Block values = memory.allocate(MemoryClass::communication, bytes, "all-reduce");
  device.zero(values.data(), bytes);
  return median_ms(device, rounds,
      [&] { world.wait(world.all_reduce(values.data(), count, Dtype::fp32, Reduction::max)); });
}

std::string time_all_reduces(Communicator& world, Device& device, i64 world_size, i64 rank) {
  std::vector<std::string> rows;
  for (i64 count = 16; count <= i64{1} << 20; count *= 16) {
    const double ms = all_reduce_ms(world, device, count, count > 10000 ? 20 : 500);
    rows.push_back(JsonObject{}
                       .integer("floats", count)
                       .number("median_ms", ms)
                       .number("sent_bytes",
                           static_cast<double>(bytes_sent(
                               Operation::all_reduce, world_size, rank, count, Dtype::fp32)))
                       .str());
  }
  return json_array(rows);
}

/// Bandwidth of a sum of two vectors.
double memory_gb_per_s(Device& device, const Options& o) {
  Memory memory(device, o.memory_limit_bytes);
  const i64 element = dtype_size(device.precision().value);
  const i64 bytes = bandwidth_vector_bytes(device.cache_bytes(), o.memory_limit_bytes);
  const i64 count = std::max<i64>(1, bytes / element);
  const auto vector = [&] {
    Block block = memory.allocate(MemoryClass::workspace, count * element, "operand");
    device.zero(block.data(), count * element);
    return block;
  };
  const Block a = vector();
  const Block b = vector();
  const Block y = vector();
  const double ms =
      median_ms(device, repeats, [&] { device.add(y.data(), a.data(), b.data(), count); });
  return 3.0 * static_cast<double>(count * element) / ms * 1e-6;
}

double launch_us(Device& device) {
  constexpr int launches = 1000;
  Memory memory(device, std::nullopt);
  const i64 element = dtype_size(device.precision().value);
  const Block y = memory.allocate(MemoryClass::workspace, element, "operand");
  device.zero(y.data(), element);
  const double ms = median_ms(device, repeats, [&] {
    for (int i = 0; i < launches; ++i)
      device.add(y.data(), y.data(), y.data(), 1);
  });
  return ms * 1e3 / launches;
}

void bench_communication(const Options& o, Platform& platform) {
  Memory memory(platform.device(), std::nullopt);
  Memory host_memory(platform.host(), std::nullopt);
  MeetingResult meeting =
      meet({o.rendezvous, o.run_id, o.rank, o.world_size, 0, o.deadlines_s.at("rendezvous")});
  Mesh mesh(o.rank, std::move(meeting.sockets));
  std::vector<i64> everyone(static_cast<std::size_t>(o.world_size));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto world = platform.connect(
      {mesh, memory, host_memory, nullptr, o.deadlines_s.at("comm")}, {"world", 1, everyone});
  JsonObject object;
  object.text("type", "microbench").text("version", version).integer("world_size", o.world_size);
  if (o.network_probe != NetworkProbe::off) {
    const auto report = connect_host(
        {mesh, memory, host_memory, nullptr, o.deadlines_s.at("comm")}, {"report", 2, everyone});
    object.raw(
        "network", network_probe({platform.device(), *world, *report, platform.probe_bytes()}));
  }
  if (o.network_probe != NetworkProbe::alone)
    object.raw("all_reduce", time_all_reduces(*world, platform.device(), o.world_size, o.rank));
  if (o.rank == 0) std::puts(object.str().c_str());
  platform.disconnect();
  mesh.say_goodbye(goodbye_s);
}

}  // namespace

i64 bandwidth_vector_bytes(i64 cache_bytes, std::optional<i64> memory_limit) {
  constexpr i64 least_bytes = i64{16} << 20;
  constexpr i64 caches = 4;
  constexpr i64 part = 6;
  const i64 wanted = std::max(least_bytes, caches * cache_bytes);
  return memory_limit ? std::min(wanted, *memory_limit / part) : wanted;
}

std::string building_blocks(Device& device, const Options& o, Communicator& world) {
  const AllProducts all = time_products(device, o);
  JsonObject object;
  object.raw("products", json_array(all.rows))
      .number("gemm_gflops", all.gflops())
      .number("gemm_peak_gflops", all.best_gflops)
      .number("attention_gflops", attention_gflops(o, attention_times(device, o).forward_ms))
      .number("memory_gb_per_s", memory_gb_per_s(device, o))
      .number("launch_us", launch_us(device));
  if (o.world_size > 1)
    object.raw("all_reduce", time_all_reduces(world, device, o.world_size, o.rank));
  return object.str();
}

std::string network_probe(const NetworkToProbe& network) {
  const i64 count = network.bytes / dtype_size(Dtype::fp32);
  double ms = all_reduce_ms(network.world, network.device, count, repeats);
  network.report.wait(network.report.all_reduce(&ms, 1, Dtype::fp64, Reduction::max));
  const auto size = static_cast<double>(network.world.size());
  const auto bytes = static_cast<double>(network.bytes);
  return JsonObject{}
      .integer("all_reduce_bytes", network.bytes)
      .number("median_ms", ms)
      .number("busbw_gb_per_s", 2 * (size - 1) / size * bytes / ms * 1e-6)
      .str();
}

void run_microbench(const Options& options, const PlatformKind& kind) {
  const std::unique_ptr<Platform> platform = kind.open(options);
  if (options.world_size > 1)
    bench_communication(options, *platform);
  else
    bench_compute(options, *platform);
}

}  // namespace shardbench
