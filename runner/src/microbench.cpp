// SPDX-License-Identifier: Apache-2.0
#include "microbench.hpp"

#include "clock.hpp"
#include "cpu_device.hpp"
#include "groups.hpp"
#include "json.hpp"
#include "null_communicator.hpp"
#include "rendezvous.hpp"
#include "socket_communicator.hpp"
#include "statistics.hpp"
#include "trainer.hpp"
#include "version.hpp"

#include <cstdio>
#include <functional>
#include <numeric>

namespace shardbench {
namespace {

constexpr double farewell_s = 1.0;
constexpr int repeats = 5;

double median_ms(int count, const std::function<void()>& work) {
  work();
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const TimePoint start = now();
    work();
    times.push_back(seconds_since(start) * 1e3);
  }
  return describe(times).median;
}

/// A linear layer of the model and how often a train step goes through it.
struct Product {
  const char* name;
  i64 in;
  i64 out;
  i64 times;
};

std::vector<Product> products(const ModelShape& m) {
  return {{"qkv", m.hidden, (m.heads + 2 * m.kv_heads) * m.head_dim(), m.layers},
          {"attention_out", m.hidden, m.hidden, m.layers},
          {"gate_up", m.hidden, 2 * m.ffn, m.layers},
          {"down", m.ffn, m.hidden, m.layers},
          {"head", m.hidden, m.vocab, 1}};
}

struct ProductTimes {
  std::string json;
  double flops;    // of one pass through forward and both backwards
  double time_ms;  // likewise
};

ProductTimes time_product(Device& device, Memory& memory, const Product& p, i64 tokens) {
  const i64 element = dtype_size(device.precision().value);
  const auto filled = [&](i64 rows, i64 columns) {
    Block block = memory.allocate(MemoryClass::workspace, rows * columns * element, "operand");
    // Random numbers: products of zeros are faster on some hardware.
    device.initialize(block.data(), {1, rows, columns, 0, 0, columns, false}, 1);
    return block;
  };
  const Block x = filled(tokens, p.in);
  const Block w = filled(p.out, p.in);
  const Block y = filled(tokens, p.out);
  const double forward = median_ms(repeats, [&] {
    device.gemm({.transpose_b = Transpose::yes,
                 .m = tokens,
                 .n = p.out,
                 .k = p.in,
                 .a = x.data(),
                 .lda = p.in,
                 .b = w.data(),
                 .ldb = p.in,
                 .c = y.data(),
                 .ldc = p.out});
  });
  const double input_gradient = median_ms(repeats, [&] {
    device.gemm({.m = tokens,
                 .n = p.in,
                 .k = p.out,
                 .a = y.data(),
                 .lda = p.out,
                 .b = w.data(),
                 .ldb = p.in,
                 .c = x.data(),
                 .ldc = p.in});
  });
  const double weight_gradient = median_ms(repeats, [&] {
    device.gemm({.transpose_a = Transpose::yes,
                 .m = p.out,
                 .n = p.in,
                 .k = tokens,
                 .a = y.data(),
                 .lda = p.out,
                 .b = x.data(),
                 .ldb = p.in,
                 .c = w.data(),
                 .ldc = p.in,
                 .accumulate = Accumulate::yes,
                 .gradient_output = true});
  });
  const double flops = 2.0 * static_cast<double>(tokens * p.in * p.out);
  const double total = forward + input_gradient + weight_gradient;
  return {JsonObject{}
              .text("name", p.name)
              .integer("tokens", tokens)
              .integer("in", p.in)
              .integer("out", p.out)
              .number("forward_ms", forward)
              .number("input_gradient_ms", input_gradient)
              .number("weight_gradient_ms", weight_gradient)
              .number("gflops", 3 * flops / total * 1e-6)
              .str(),
          3 * flops * static_cast<double>(p.times), total * static_cast<double>(p.times)};
}

double train_step_ms(Device& device, const Options& o) {
  Memory memory(device, o.memory_limit_bytes);
  const Groups groups = make_groups(o.layout, 0, 1, [&](const Group& group) {
    return std::make_unique<NullCommunicator>(memory, 0, group);
  });
  const RankContext context{device,
                            memory,
                            o.model,
                            o.layout,
                            {},
                            *groups.tp,
                            *groups.dp,
                            extents_of(o.model, o.layout, {}),
                            mean_loss_scale(o.model, o.layout)};
  Trainer trainer(context, groups, o.seed);
  i64 step = 0;
  return median_ms(repeats, [&] {
    trainer.compute_gradients(step);
    trainer.update(step++);
  });
}

void bench_compute(const Options& o) {
  const std::unique_ptr<Device> device = make_cpu_device(o.dtype);
  std::vector<std::string> rows;
  double flops = 0;
  double time_ms = 0;
  {
    Memory memory(*device, o.memory_limit_bytes);
    for (const Product& p : products(o.model)) {
      const ProductTimes t =
          time_product(*device, memory, p, o.layout.micro_batch * o.model.seq_len);
      rows.push_back(t.json);
      flops += t.flops;
      time_ms += t.time_ms;
    }
  }
  const double step_ms = train_step_ms(*device, o);
  const double tokens = static_cast<double>(o.layout.global_batch() * o.model.seq_len);
  const double achieved = flops_per_token_megatron_causal(o.model) * tokens / step_ms;
  std::puts(JsonObject{}
                .text("type", "microbench")
                .text("version", version)
                .text("device_name", cpu_gemm_library())
                .text("dtype", dtype_name(o.dtype))
                .raw("products", json_array(rows))
                .number("gemm_gflops", flops / time_ms * 1e-6)
                .number("train_step_ms", step_ms)
                .number("train_step_gflops", achieved * 1e-6)
                .number("share_of_gemm_rate", achieved / (flops / time_ms))
                .str()
                .c_str());
}

void bench_communication(const Options& o) {
  const std::unique_ptr<Device> device = make_cpu_device(Dtype::fp32);
  Memory memory(*device, std::nullopt);
  MeetingResult meeting =
      meet({o.rendezvous, o.run_id, o.rank, o.world_size, 0, o.deadlines_s.at("rendezvous")});
  Mesh mesh(o.rank, std::move(meeting.sockets));
  std::vector<i64> everyone(static_cast<std::size_t>(o.world_size));
  std::iota(everyone.begin(), everyone.end(), 0);
  SocketCommunicator world(mesh, memory, {"world", 1, everyone}, o.deadlines_s.at("comm"));
  std::vector<std::string> rows;
  for (i64 count = 16; count <= i64{1} << 20; count *= 16) {
    std::vector<float> values(static_cast<std::size_t>(count), 1.0F);
    const int rounds = count > 10000 ? 20 : 500;
    const double ms = median_ms(rounds, [&] {
      world.wait(world.all_reduce(values.data(), count, Dtype::fp32, Reduction::max));
    });
    rows.push_back(JsonObject{}
                       .integer("floats", count)
                       .number("median_ms", ms)
                       .number("sent_bytes", static_cast<double>(
                                                 bytes_sent(Operation::all_reduce, o.world_size,
                                                            o.rank, count, Dtype::fp32)))
                       .str());
  }
  if (o.rank == 0)
    std::puts(JsonObject{}
                  .text("type", "microbench")
                  .text("version", version)
                  .integer("world_size", o.world_size)
                  .raw("all_reduce", json_array(rows))
                  .str()
                  .c_str());
  mesh.say_goodbye(farewell_s);
}

}  // namespace

void run_microbench(const Options& options) {
  if (options.world_size > 1)
    bench_communication(options);
  else
    bench_compute(options);
}

}  // namespace shardbench
