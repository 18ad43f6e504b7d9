// SPDX-License-Identifier: Apache-2.0
// The order in which a rank gives work to its device and to its groups: what hides behind what.
#include "communication/null_communicator.hpp"
#include "device/meta_device.hpp"
#include "measurement/profile.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

using namespace shardbench;

namespace {

using Log = std::vector<std::string>;

class LoggingDevice final : public MetaDevice {
 public:
  LoggingDevice(Dtype dtype, Log& log) : MetaDevice(dtype), log_(log) {}
  void zero(void*, i64 bytes) override { most_zeroed = std::max(most_zeroed, bytes); }
  void download(void* host, const void*, i64 bytes) override {
    std::fill_n(static_cast<std::byte*>(host), bytes, std::byte{});
    log_.emplace_back("download");
  }
  void gemm(const Gemm& gemm) override {
    if (!gemm.gradient_output)
      log_.emplace_back("product");
    else
      log_.emplace_back(gemm.accumulate == Accumulate::yes ? "add gradient" : "set gradient");
  }
  void rms_norm_to_8_bits(
      void*, const void*, const void*, i64, i64, const Quantization& left) override {
    log_left(left);
  }
  void add_rms_norm_to_8_bits(const AddedNorm&, i64, i64, const Quantization& left) override {
    log_left(left);
  }
  void swiglu_to_8_bits(void*, const void*, i64, i64, const Quantization& left) override {
    log_left(left);
  }
  void swiglu_backward_to_8_bits(void*, const void*, i64, i64, const Quantization& left) override {
    log_left(left);
  }
  void raise_amax(float*, const void*, i64) override { log_.emplace_back("amax"); }
  void transpose_8_bits(void*, const void*, i64, i64) override { log_.emplace_back("transpose"); }
  void quantize(const Quantization& q) override {
    log_.emplace_back(
        q.straight != nullptr && q.transposed != nullptr ? "quantize twice" : "quantize");
  }
  void adamw(void*, void*, const void*, i64, const AdamW& settings) override {
    log_.emplace_back(settings.square_sum == nullptr ? "unclipped update" : "update");
  }
  void attend_more_backward(
      const MoreKeysGradient&, const AttentionShape&, const SeenKeys&) override {
    log_.emplace_back("attend more backward");
  }
  void upload(void*, const void*, i64) override { log_.emplace_back("upload"); }
  void dispatch(const Dispatch&, const RouteShape&) override { log_.emplace_back("dispatch"); }
  void embed(void*, const void*, const std::int32_t*, const EmbeddingShape&) override {
    log_.emplace_back("embed");
  }

  i64 most_zeroed = 0;

 private:
  void log_left(const Quantization& left) {
    log_.emplace_back(left.limit == nullptr ? "makes and measures" : "makes 8 bits");
  }
  Log& log_;
};

enum class Transport { holds_memory, holds_none };

/// Logs which operations start and which are waited for.
class LoggingCommunicator final : public Communicator {
 public:
  LoggingCommunicator(Memory& memory, i64 rank, const Group& group, Transport transport, Log& log)
      : inner_(memory, rank, group), name_(group.name), transport_(transport), log_(log) {}

  bool holds_memory() const override { return transport_ == Transport::holds_memory; }

  i64 rank() const override { return inner_.rank(); }
  i64 size() const override { return inner_.size(); }
  Token all_reduce(void*, i64 count, Dtype, Reduction) override {
    return start("sum of " + std::to_string(count));
  }
  Token reduce_scatter(const void*, void*, i64, Dtype) override { return start("scatter"); }
  Token all_gather(const void*, void*, i64, Dtype) override { return start("gather"); }
  Token broadcast(void*, i64, Dtype, i64) override { return start("broadcast"); }
  Token send(const void*, i64, Dtype, i64) override { return start("send"); }
  Token receive(void*, i64, Dtype, i64) override { return start("receive"); }
  void wait(Token token) override {
    if (token != 0) log_.push_back(name_ + " waits for " + std::to_string(token));
  }
  void progress() override {}

 private:
  Token start(const std::string& what) {
    if (size() == 1) return 0;
    log_.push_back(name_ + " starts " + what);
    return ++last_;
  }

  NullCommunicator inner_;
  std::string name_;
  Transport transport_;
  Log& log_;
  Token last_ = 0;
};

constexpr ModelShape toy{
    .layers = 3, .hidden = 64, .ffn = 128, .heads = 4, .kv_heads = 2, .vocab = 100, .seq_len = 16};

/// Rank 0 of a toy whose dp, tp and pp nobody else has.
struct Rank {
  explicit Rank(const Layout& of_run, Transport transport = Transport::holds_memory,
      const ModelShape& of_model = toy)
      : shape(of_model),
        layout(of_run),
        groups(make_groups(layout, 0, 1,
            [this, transport](const Group& group) {
              return std::make_unique<LoggingCommunicator>(memory, 0, group, transport, log);
            })),
        trainer(context_of(device, memory, shape, layout, {}, groups), groups, 1) {}

  void train(i64 step) {
    device.most_zeroed = 0;
    trainer.compute_gradients(step);
    trainer.update(step);
  }
  /// Leaves the second train step alone in the log.
  void train_twice() {
    train(0);
    log.clear();
    train(1);
  }
  i64 count(const std::string& what) const { return std::count(log.begin(), log.end(), what); }
  std::ptrdiff_t last(const std::string& what) const {
    return log.rend() - std::find(log.rbegin(), log.rend(), what) - 1;
  }
  /// Entries that begin so, up to the last product of backward.
  i64 in_backward(const std::string& what) const {
    return std::count_if(log.begin(), log.begin() + last("set gradient"),
        [&](const std::string& entry) { return entry.find(what) == 0; });
  }
  std::ptrdiff_t first(const std::string& what) const {
    return std::find(log.begin(), log.end(), what) - log.begin();
  }

  Log log;
  ModelShape shape;
  Layout layout;
  LoggingDevice device{Dtype::bf16, log};
  Memory memory{device, std::nullopt};
  Groups groups;
  Trainer trainer;
};

}  // namespace

TEST_CASE("the first micro-batch sets gradients, and no large piece of them is zeroed before") {
  for (const i64 zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    Layout layout;
    layout.dp = 2;
    layout.zero = zero;
    layout.grad_accum = 2;
    Rank rank(layout);
    rank.train(0);
    // Four products of each layer, and the head's. ZeRO 2 and 3 add the units up elsewhere.
    const i64 products = 4 * rank.shape.layers + 1;
    CHECK(rank.count("set gradient") == (zero < 2 ? products : 2 * products));
    CHECK(rank.count("add gradient") == (zero < 2 ? products : 0));
    // Norms, the embedding, which is added up row by row, and what pads a unit.
    CHECK(rank.device.most_zeroed <= 4 * padded_vocab(rank.shape.vocab, layout) * 64);
  }
}

TEST_CASE("a weight's gradient is computed while the gradient before it is summed over tp") {
  for (const bool sequence_parallel : {false, true}) {
    CAPTURE(sequence_parallel);
    Layout layout;
    layout.tp = 2;
    layout.sequence_parallel = sequence_parallel;
    Rank rank(layout);
    rank.train(0);
    const std::string sum =
        sequence_parallel ? "tp starts scatter" : "tp starts sum of " + std::to_string(16 * 64);
    i64 hidden = 0;
    for (std::size_t i = 0; i + 2 < rank.log.size(); ++i) {
      if (rank.log[i] != sum) continue;
      // Sequence parallelism waits for the gathered rows before they are used.
      const std::size_t next = i + (sequence_parallel ? 2 : 1);
      if (rank.log[next] == "set gradient") ++hidden;
    }
    // Each layer has q, k, v and gate, up; the head counts too without sequence parallelism.
    CHECK(hidden >= 2 * rank.shape.layers);
  }
}

TEST_CASE("the gradients of all norms are summed over tp as one vector") {
  Layout layout;
  layout.tp = 2;
  layout.sequence_parallel = true;
  Rank rank(layout);
  rank.train(0);
  CHECK(rank.count("tp starts sum of " + std::to_string(7 * 64)) == 1);
  CHECK(rank.count("tp starts sum of 64") == 0);
}

TEST_CASE("updated weights are gathered while the next step begins") {
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    Layout layout;
    layout.dp = 2;
    layout.zero = 1;
    layout.overlap = overlap;
    Rank rank(layout);
    rank.train_twice();
    const auto update = rank.first("update");
    const auto waits = std::count_if(rank.log.begin() + update, rank.log.end(),
        [](const std::string& entry) { return entry.find("shard waits") != std::string::npos; });
    CHECK(waits == (overlap ? 0 : 5));
    CHECK(rank.count("shard starts gather") == 5);
    // The embedding's weights alone, before the first of them is used.
    const auto before = std::count_if(rank.log.begin(), rank.log.begin() + rank.first("embed"),
        [](const std::string& entry) { return entry.find("shard waits") != std::string::npos; });
    CHECK(before == (overlap ? 1 : 0));
    rank.trainer.settle();
    const bool waited = rank.log.back().find("shard waits") == 0;
    CHECK(waited == overlap);
  }
}

TEST_CASE("a profile without overlap waits for sums over tp and for updated weights") {
  Layout layout;
  layout.tp = 2;
  layout.habits.tp_overlap = false;
  Rank summed(layout);
  summed.train(0);
  for (std::size_t i = 0; i + 1 < summed.log.size(); ++i)
    if (summed.log[i].find("tp starts") == 0) CHECK(summed.log[i + 1].find("tp waits") == 0);
  layout = {};
  layout.dp = 2;
  layout.zero = 1;
  layout.habits.gather_overlap = false;
  Rank gathered(layout);
  gathered.train(0);
  const auto waits =
      std::count_if(gathered.log.begin() + gathered.first("update"), gathered.log.end(),
          [](const std::string& entry) { return entry.find("shard waits") != std::string::npos; });
  CHECK(waits == 5);
}

TEST_CASE("gradients are clipped by a number that the host learns after the update") {
  Layout layout;
  layout.dp = 2;
  layout.tp = 2;
  layout.pp = 2;
  layout.grad_accum = 2;
  Rank rank(layout);
  rank.train(0);
  for (const char* group : {"tp", "dp", "pp"}) {
    CAPTURE(group);
    CHECK(rank.count(std::string(group) + " starts sum of 1") == 1);
  }
  CHECK(rank.count("unclipped update") == 0);
  CHECK(rank.count("download") == 1);
  CHECK(rank.log.back() == "download");
}

namespace {

/// FP8 work beside weights in so many passes of layers.
struct Passes {
  i64 made;         // operands made by the kernels that make values
  i64 reads;        // reads for a magnitude alone
  i64 one_order;    // inputs, forward and backward
  i64 both_orders;  // gradients
  i64 turned;       // operands gathered in 8 bits and turned for the other order
};
/// Counts passes over operands in FP8. `gathers`: ranks gather the norms' rows and two gradients in
/// 8 bits, so that each makes its part alone, in one order.
Passes passes_in_fp8(i64 layers, bool delayed, bool gathers) {
  // Two norms and the activated rows, and the gradient of gate and up. Attention's output and
  // the other three gradients are read.
  const i64 made = 4 * layers;
  const i64 parts = gathers ? 2 * layers : 0;
  if (delayed) return {made, 0, 5 * layers + parts, 3 * layers - parts, 2 * parts};
  return {made, 4 * layers, 8 * layers + parts, 4 * layers - parts, 2 * parts};
}

}  // namespace

TEST_CASE("weights are put into 8 bits once per train step, unless they come and go") {
  for (const i64 zero : {0, 2, 3})
    for (const Scaling scaling : {Scaling::current, Scaling::delayed}) {
      CAPTURE(zero);
      CAPTURE(scaling_name(scaling));
      Layout layout;
      layout.dp = 2;
      layout.zero = zero;
      layout.grad_accum = 3;
      layout.fp8 = scaling;
      Rank rank(layout, Transport::holds_none);
      rank.train_twice();
      // The largest magnitude of each is found out for it alone; gradients and weights that are
      // gathered have theirs anew.
      const bool delayed = scaling == Scaling::delayed;
      const Passes all =
          passes_in_fp8(rank.shape.layers * layout.grad_accum, delayed, layout.sequence_parallel);
      // Four products of each layer.
      const i64 products = 4 * rank.shape.layers;
      const i64 uses = 2 * products * layout.grad_accum;
      CHECK(rank.count("quantize twice") == all.both_orders + (zero == 3 ? 0 : products));
      CHECK(rank.count("quantize") == all.one_order + (zero == 3 ? uses : 0));
      if (!delayed) CHECK(rank.count("amax") == all.reads + (zero == 3 ? uses : products));
    }
}

TEST_CASE("norms and SwiGLU leave what they make in 8 bits, or tell how large it is") {
  for (const bool sequence_parallel : {false, true})
    for (const Scaling scaling : {Scaling::current, Scaling::delayed}) {
      CAPTURE(sequence_parallel);
      CAPTURE(scaling_name(scaling));
      Layout layout;
      layout.tp = 2;
      layout.sequence_parallel = sequence_parallel;
      layout.fp8 = scaling;
      Rank rank(layout, Transport::holds_none);
      rank.train_twice();
      const bool delayed = scaling == Scaling::delayed;
      const i64 products = 4 * rank.shape.layers;
      const Passes all = passes_in_fp8(rank.shape.layers, delayed, sequence_parallel);
      CHECK(rank.count("makes and measures") == (delayed ? 0 : all.made));
      CHECK(rank.count("makes 8 bits") == (delayed ? all.made : 0));
      CHECK(rank.count("amax") == (delayed ? 0 : all.reads + products));
      CHECK(rank.count("quantize") == all.one_order);
      CHECK(rank.count("quantize twice") == all.both_orders + products);
      CHECK(rank.count("transpose") == all.turned);
    }
}

TEST_CASE("reductions hold backward back only if they hold memory") {
  for (const i64 zero : {0, 1, 2, 3})
    for (const Transport transport : {Transport::holds_memory, Transport::holds_none}) {
      CAPTURE(zero);
      Layout layout;
      layout.dp = 2;
      layout.zero = zero;
      layout.bucket_bytes = i64{64} << 10;
      Rank rank(layout, transport);
      rank.train(0);
      const std::string group = zero == 0 ? "dp" : "shard";
      CHECK(rank.in_backward(group + " starts s") >= 3);
      const bool waits = rank.in_backward(group + " waits") > (zero == 3 ? 7 : 0);
      CHECK(waits == (zero > 1 || transport == Transport::holds_memory));
    }
}

TEST_CASE("a unit's sum over replicas travels while the units below it go backward") {
  for (const i64 zero : {1, 2, 3})
    for (const bool overlap : {false, true}) {
      CAPTURE(zero);
      Layout layout;
      layout.dp = 4;
      layout.dp_replicate = 2;
      layout.zero = zero;
      layout.overlap = overlap;
      Rank rank(layout, Transport::holds_none);
      rank.train(0);
      // Units are head, three layers and embedding. Two are reduced over the shards at once, and
      // gradients of ZeRO 2 and 3 are opened with one of them left.
      CHECK(rank.in_backward("replicate starts sum") == (!overlap ? 0 : zero == 1 ? 1 : 2));
      CHECK(rank.in_backward("replicate waits") == 0);
      i64 sums = 0;
      for (const std::string& entry : rank.log)
        sums += entry.find("replicate starts sum") == 0 ? 1 : 0;
      CHECK(sums == 5);
    }
}

TEST_CASE("sums over replicas that hold memory come one after the other") {
  Layout layout;
  layout.dp = 4;
  layout.dp_replicate = 2;
  layout.zero = 2;
  Rank rank(layout, Transport::holds_memory);
  rank.train(0);
  CHECK(rank.in_backward("replicate starts sum") == 0);
  for (std::size_t i = 0; i + 1 < rank.log.size(); ++i)
    if (rank.log[i].find("replicate starts sum") == 0)
      CHECK(rank.log[i + 1].find("replicate waits") == 0);
}

TEST_CASE("the ring's gradients to keys travel while the next ones are computed") {
  Layout layout;
  layout.cp = 4;
  Rank rank(layout, Transport::holds_none);
  rank.train(0);
  // s: a message starts, w: it or its opposite is waited for, a: a part of attention's
  // backward.
  std::string order;
  for (const std::string& entry : rank.log) {
    if (entry == "cp starts send") order += 's';
    if (entry.find("cp waits") == 0) order += 'w';
    if (entry == "attend more backward") order += 'a';
  }
  // Keys pass under each part. Gradients pass under the two parts after their own; those of the
  // last part have nothing to hide behind.
  const std::string of_layer =
      "sww"
      "saww"
      "ssawwww"
      "saww"
      "sww";
  i64 layers = 0;
  for (std::size_t at = order.find(of_layer); at != std::string::npos;
       at = order.find(of_layer, at + of_layer.size()))
    ++layers;
  CHECK(layers == rank.shape.layers);
}

TEST_CASE("interleaved stages' messages travel under the pieces between") {
  Layout layout;
  layout.pp = 2;
  layout.vpp = 2;
  layout.grad_accum = 8;
  ModelShape deep = toy;
  deep.layers = 4;
  Rank rank(layout, Transport::holds_none, deep);
  rank.train(0);
  // Find out for each received message if products lie between its start and its use.
  std::vector<i64> products_at_start{0};  // products by token; tokens count from 1
  std::vector<bool> received{false};
  i64 products = 0;
  i64 hidden = 0;
  i64 exposed = 0;
  for (const std::string& entry : rank.log) {
    if (entry.find("pp starts sum") == 0) break;
    if (entry == "product" || entry.find(" gradient") != std::string::npos) ++products;
    if (entry.find("pp starts") == 0) {
      products_at_start.push_back(products);
      received.push_back(entry == "pp starts receive");
    }
    constexpr std::string_view waits = "pp waits for ";
    if (entry.find(waits) != 0) continue;
    const auto token = static_cast<std::size_t>(std::stoll(entry.substr(waits.size())));
    if (received[token]) ++(products > products_at_start[token] ? hidden : exposed);
  }
  // The second chunk's inputs, and both chunks' gradients, of which the last stage needs none.
  CHECK(hidden + exposed == 3 * layout.grad_accum);
  // Both ends of a train step have no products between: a rank is 4 pieces ahead.
  CHECK(exposed <= 2 * 4);
}

namespace {

ModelShape mixture() {
  ModelShape shape = toy;
  shape.experts = 8;
  shape.experts_per_token = 2;
  shape.expert_ffn = 32;
  shape.shared_experts = 1;
  return shape;
}

/// Layout of dp 4, whose ranks share the experts.
Layout spread(MoeRouting routing) {
  Layout layout;
  layout.dp = 4;
  layout.ep = 4;
  layout.grad_accum = 2;
  layout.moe_routing = routing;
  return layout;
}

}  // namespace

TEST_CASE("who goes where is told once if it is pinned, and by the device if it is learned") {
  for (const MoeRouting routing : {MoeRouting::balanced, MoeRouting::skewed, MoeRouting::learned}) {
    CAPTURE(moe_routing_name(routing));
    Layout layout = spread(routing);
    // Capacity leaves the host nothing to learn from the device.
    if (routing == MoeRouting::learned) layout.moe_capacity = 1.25;
    Rank rank(layout, Transport::holds_none, mixture());
    rank.train_twice();
    const bool learned = routing == MoeRouting::learned;
    CHECK(rank.count("dispatch") == (learned ? rank.shape.layers * layout.grad_accum : 0));
    CHECK(rank.count("upload") == 0);
    CHECK(rank.count("download") == 1);  // the gradients' norm
  }
}

TEST_CASE("an expert has one product of all rows that have come, those with as many one launch") {
  for (const MoeRouting routing : {MoeRouting::balanced, MoeRouting::skewed}) {
    CAPTURE(moe_routing_name(routing));
    Layout layout = spread(routing);
    ModelShape model = mixture();
    // Skewed routing gives the first of a rank's four experts more rows than the others.
    model.experts = 16;
    model.experts_per_token = routing == MoeRouting::skewed ? 1 : 2;
    Rank rank(layout, Transport::holds_none, model);
    rank.train(0);
    const i64 launches = routing == MoeRouting::skewed ? 2 : 1;
    // Forward and backward of q k v, out, gate and up, down and router; the head.
    constexpr i64 of_layer = 5;
    const i64 passes = rank.shape.layers * layout.grad_accum;
    CHECK(rank.count("product") == 2 * (of_layer + 2 * launches) * passes + 2 * layout.grad_accum);
    CHECK(rank.count("set gradient") + rank.count("add gradient") ==
        (of_layer + 2 * launches) * passes + layout.grad_accum);
  }
}

namespace {

/// s: rows start to another rank, w: they are waited for, p: a product.
std::string order_of_exchange(const Log& log) {
  std::string order;
  for (const std::string& entry : log) {
    char what = 0;
    if (entry == "ep starts send") what = 's';
    if (entry.find("ep waits") == 0) what = 'w';
    if (entry == "product" || entry == "set gradient") what = 'p';
    // Messages to all ranks count as one.
    const bool again = !order.empty() && order.back() == what && what != 'p';
    if (what != 0 && !again) order += what;
  }
  return order;
}

i64 times(const std::string& text, const std::string& part) {
  i64 count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("rows of experts travel under the shared ones as the record says of a profile") {
  for (const Profile& profile : profiles()) {
    CAPTURE(profile.name);
    Layout layout = spread(MoeRouting::balanced);
    layout.grad_accum = 1;
    layout.habits = profile.habits;
    Rank rank(layout, Transport::holds_none, mixture());
    rank.train(0);
    const std::string order = order_of_exchange(rank.log);
    CAPTURE(order);
    const std::string told = profile_json(profile, layout);
    const auto says = [&](const std::string& how) {
      return told.find("\"experts_overlap_shared_ones\":\"" + how + '"') != std::string::npos;
    };
    // Four exchanges for each layer: forward under gate and up, and back under down; backward
    // under both products of down, and back under the gradient to the input of gate and up.
    const i64 layers = rank.shape.layers;
    CHECK(times(order, "s") == 4 * layers);
    const i64 hidden = times(order, "spw") + times(order, "sppw");
    CHECK(says("both ways") == (hidden == 4 * layers));
    CHECK(says("way back") == (hidden == layers));
    CHECK(says("none") == (hidden == 0));
  }
}

namespace {

/// True if the record of a run with that profile tells this behaviour.
bool is_told(const Profile& profile, const Layout& layout, const std::string& behaviour) {
  const std::string told = profile_json(profile, layout);
  REQUIRE(told.find('"' + behaviour + "\":") != std::string::npos);
  return told.find('"' + behaviour + "\":true") != std::string::npos;
}

Layout of_profile(const Profile& profile, i64 dp, i64 tp) {
  Layout layout;
  layout.dp = dp;
  layout.tp = tp;
  layout.bucket_bytes = i64{64} << 10;
  layout.habits = profile.habits;
  return layout;
}

}  // namespace

TEST_CASE("a run overlaps what its record says of its profile") {
  for (const Profile& profile : profiles())
    for (const bool overlap : {false, true}) {
      CAPTURE(profile.name);
      CAPTURE(overlap);
      Layout sharded = of_profile(profile, 2, 1);
      sharded.zero = 1;
      sharded.overlap = overlap;
      Rank rank(sharded, Transport::holds_none);
      rank.train(0);
      CHECK(is_told(profile, sharded, "gradients_overlap_backward") ==
          (rank.in_backward("shard starts scatter") > 0));
      CHECK(is_told(profile, sharded, "weight_gather_overlaps_forward") ==
          (rank.log.back() == "download" &&
              rank.last("shard starts gather") > rank.last("shard waits for 10")));
      // Two trainers ask for one queue: their overlap of tp relies on it.
      CHECK(is_told(profile, sharded, "one_queue") ==
          (profile.name == "megatron" || profile.name == "nanotron"));
      Layout cut = of_profile(profile, 1, 2);
      cut.overlap = overlap;
      Rank summed(cut, Transport::holds_none);
      summed.train(0);
      i64 hidden = 0;
      for (std::size_t i = 0; i + 1 < summed.log.size(); ++i)
        hidden +=
            summed.log[i].find("tp starts sum of 1024") == 0 && summed.log[i + 1] == "set gradient"
            ? 1
            : 0;
      CHECK(is_told(profile, cut, "tp_sum_overlaps_weight_gradient") == (hidden > 0));
    }
}
