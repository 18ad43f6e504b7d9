// SPDX-License-Identifier: Apache-2.0
// The pure parts: ranks, options, statistics, rules, memory.
#include "communication/null_communicator.hpp"
#include "device/cpu_device.hpp"
#include "device/memory.hpp"
#include "device/meta_device.hpp"
#include "measurement/fault.hpp"
#include "measurement/meta_run.hpp"
#include "measurement/pace.hpp"
#include "measurement/profile.hpp"
#include "measurement/samples.hpp"
#include "measurement/statistics.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"
#include "program/options.hpp"
#include "program/rules.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

using namespace shardbench;

namespace {

ParsedOptions parse(const std::vector<std::string>& words) {
  return parse_options(words, [](const char*) -> const char* { return nullptr; });
}

}  // namespace

TEST_CASE("a fault is asked for by a flag, or by the environment that a sweep varies") {
  const auto fault = [](const std::string& text) { return parse_fault(text, 4); };
  CHECK(fault("hang@train+3:1")->step == 3);
  CHECK(fault("hang@train+3:1")->rank == 1);
  CHECK(fault("slow@warmup")->rank == 3);
  CHECK(fault("slow@train+2")->strikes("train", 5, 3));
  CHECK(!fault("stop@train+2")->strikes("train", 5, 3));
  for (const char* text : {"hang@train+", "hang@train+x", "hang@train:", "hang@+1", "hang",
           "dance@train", "hang@train:1+2"})
    CHECK_MESSAGE(!fault(text), text);
  const auto environment = [](const char* name) -> const char* {
    return std::string_view(name) == "SHARDBENCH_FAULT" ? "crash@init" : nullptr;
  };
  CHECK(parse_options({}, environment).options.fault == "crash@init");
  CHECK(parse_options({"--fault", "hang@init"}, environment).options.fault == "hang@init");
  const auto none = [](const char*) -> const char* { return "none"; };
  CHECK(parse_options({}, none).options.fault.empty());
}

TEST_CASE("the clock of a core is cpufreq's, else that of /proc/cpuinfo, else unknown") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("shardbench-clocks." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string cpuinfo = folder / "cpuinfo";
  const std::string none = folder / "none";
  const auto cpus = ::sysconf(_SC_NPROCESSORS_CONF);
  {
    std::ofstream out(cpuinfo);
    for (long cpu = 0; cpu < cpus; ++cpu)
      out << "processor\t: " << cpu << "\nmodel name\t: x\ncpu MHz\t\t: 2596.136\n\n";
  }
  CHECK(cpu_clock_mhz(none, cpuinfo) == doctest::Approx(2596.136));
  CHECK_FALSE(cpu_clock_mhz(none, none));
  for (long cpu = 0; cpu < cpus; ++cpu) {
    const auto of_cpu = folder / ("cpu" + std::to_string(cpu)) / "cpufreq";
    std::filesystem::create_directories(of_cpu);
    std::ofstream(of_cpu / "scaling_cur_freq") << "3100000\n";
  }
  CHECK(cpu_clock_mhz(folder, cpuinfo) == doctest::Approx(3100));
  std::filesystem::remove_all(folder);
}

TEST_CASE("every rank has its own place in every rank order") {
  Layout layout;
  layout.dp = 2;
  layout.tp = 3;
  layout.pp = 4;
  layout.cp = 2;
  RankOrder order{Axis::tp, Axis::dp, Axis::pp, Axis::cp};
  do {
    layout.rank_order = order;
    CAPTURE(rank_order_name(order));
    CHECK(rank_order_of(rank_order_name(order)) == order);
    for (i64 rank = 0; rank < layout.world(); ++rank)
      CHECK(rank_of(layout, coordinates_of(layout, rank)) == rank);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("neighbours are those of the axis that the rank order names first") {
  using Ranks = std::vector<i64>;
  Layout layout;
  layout.dp = 2;
  layout.tp = 3;
  layout.pp = 4;
  layout.rank_order = *rank_order_of("dp-pp-tp");
  CHECK(coordinates_of(layout, 1).dp == 1);
  CHECK(group_along(layout, coordinates_of(layout, 0), Axis::tp) == Ranks{0, 8, 16});
  layout.tp = 2;
  layout.pp = 2;
  layout.cp = 2;
  const auto cp_and_data = [&](const char* order) {
    layout.rank_order = *rank_order_of(order);
    const Coordinates first = coordinates_of(layout, 0);
    return std::pair{group_along(layout, first, Axis::cp), data_group(layout, first)};
  };
  CHECK(cp_and_data("tp-dp-pp") == std::pair{Ranks{0, 2}, Ranks{0, 2, 4, 6}});
  CHECK(cp_and_data("tp-cp-dp-pp") == cp_and_data("tp-dp-pp"));
  CHECK(cp_and_data("tp-cp-pp-dp") == std::pair{Ranks{0, 2}, Ranks{0, 2, 8, 10}});
  CHECK(cp_and_data("tp-dp-cp-pp") == std::pair{Ranks{0, 4}, Ranks{0, 4, 2, 6}});
  CHECK_FALSE(rank_order_of("tp-dp"));
  CHECK_FALSE(rank_order_of("tp-dp-pp-"));
}

TEST_CASE("parameter counts are those of the published models") {
  CHECK(parameter_count(*find_shape("llama-3-8b")) == 8030261248);
  // The 1.34B model of the Ultra-Scale Playbook, whose embedding and head are one matrix.
  const ModelShape playbook = *find_shape("llama-1b");
  CHECK(playbook.tied);
  CHECK(parameter_count(playbook) == 1342244864);
}

TEST_CASE("samples depend on their key alone") {
  CHECK(make_sample({1, 2, 3}, 100, 16) == make_sample({1, 2, 3}, 100, 16));
  CHECK(make_sample({1, 2, 3}, 100, 16) != make_sample({1, 2, 4}, 100, 16));
  CHECK(make_sample({1, 2, 3}, 100, 16).size() == 17);
}

TEST_CASE("bytes are read with their units") {
  CHECK(parse_bytes("256MiB") == i64{256} << 20);
  CHECK(parse_bytes("1GB") == 1000000000);
  CHECK(parse_bytes("12") == 12);
  CHECK(!parse_bytes("1.5GiB"));
  CHECK(!parse_bytes("-1"));
  CHECK(!parse_bytes("9999999999999TiB"));
}

TEST_CASE("flags become options and what is no flag is named") {
  const ParsedOptions good =
      parse({"--model", "tiny", "--dp=2", "--world-size", "2", "--sequence-parallel", "--overlap",
          "off", "--seq", "32", "--stages", "1,1", "--rank-order", "pp-dp-tp"});
  REQUIRE(!good.error);
  CHECK(good.options.model.seq_len == 32);
  CHECK(good.options.layout.sequence_parallel);
  CHECK(!good.options.layout.overlap);
  CHECK(good.options.layout.stages == std::vector<i64>{1, 1});
  CHECK(parse({"--modell", "tiny"}).error->message == "unknown flag '--modell'");
  CHECK(parse({"--model", "tiny", "--dp", "two"}).error->message ==
      "--dp takes data parallel ranks, got 'two'");
  CHECK(parse({"--model", "tiny", "--run-id", "../x"}).error.has_value());
  CHECK(parse({}).error->message.rfind("no model", 0) == 0);
}

TEST_CASE("a run is told apart by its flags but not by its rank") {
  const auto id = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"--model", "tiny", "--dp", "2", "--world-size", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return parse(words).options.run_id;
  };
  CHECK(id({"--rank", "0"}) == id({"--rank", "1"}));
  CHECK(id({"--seed", "3"}) != id({"--seed", "4"}));
}

TEST_CASE("refused layouts say why") {
  Layout layout;
  const ModelShape tiny = *find_shape("tiny");
  CHECK(!layout_refusal(layout, tiny));
  layout.zero = 2;
  CHECK(layout_refusal(layout, tiny)->message.rfind("runner:zero_dp", 0) == 0);
  layout = {};
  layout.tp = 4;
  CHECK(layout_refusal(layout, tiny)->message.rfind("runner:tp_heads", 0) == 0);
  layout = {};
  layout.ep = 2;
  CHECK(layout_refusal(layout, tiny)->message ==
      "runner:ep_experts: expert parallelism needs a model with experts");
  layout = {};
  layout.cp = 3;
  CHECK(layout_refusal(layout, tiny)->message.rfind("runner:cp_seq", 0) == 0);
  layout.cp = 4;
  layout.cp_mode = ContextMode::ulysses;
  CHECK(layout_refusal(layout, tiny)->message ==
      "runner:ulysses_heads: ulysses exchanges heads: tp * cp must divide the heads and the "
      "kv heads");
}

TEST_CASE("a program for GPUs takes the axes that one for hosts takes") {
  const Platforms gpus{{.device = "cuda", .dtypes = {Dtype::bf16}, .comms = {"nccl"}, .open = {}}};
  CHECK(capabilities_json(gpus, *find_profile("own")).find("\"cp\":null,\"ep\":null,") !=
      std::string::npos);
  Options options;
  options.device = "cuda";
  options.dtype = Dtype::bf16;
  options.model = *find_shape("tiny");
  options.layout.cp = options.world_size = 2;
  CHECK_FALSE(refusal(options, gpus));
  options.layout.cp = 1;
  options.layout.dp = options.layout.ep = 2;
  options.model.experts = options.model.experts_per_token = options.model.expert_ffn = 4;
  CHECK_FALSE(refusal(options, gpus));
}

TEST_CASE("rows that the kernels' indices do not reach are a refused layout and no defect") {
  Layout layout;
  const ModelShape tiny = *find_shape("tiny");
  // tokens · ffn: 2^32 values.
  layout.micro_batch = (i64{1} << 32) / tiny.seq_len / tiny.ffn;
  CHECK(layout_refusal(layout, tiny)->kind == ErrorClass::invalid_layout);
  CHECK(layout_refusal(layout, tiny)->message.rfind("runner:rows: ", 0) == 0);
  layout.tp = 2;
  CHECK_FALSE(layout_refusal(layout, tiny));
  layout.tp = 1;
  --layout.micro_batch;
  CHECK_FALSE(layout_refusal(layout, tiny));
}

TEST_CASE("statistics of one and of many steps") {
  CHECK(describe({5}).median == 5);
  const StepStatistics s = describe({4, 1, 3, 2});
  CHECK(s.median == 2.5);
  CHECK(s.min == 1);
  CHECK(s.p95 == 4);
  CHECK(s.spread == doctest::Approx(1.2));
}

TEST_CASE("memory is charged exactly and remembers its peaks") {
  const auto device = make_cpu_device(Dtype::fp32);
  Memory memory(*device, std::nullopt);
  {
    const Block a = memory.allocate(MemoryClass::activations, 100, "a");
    const Block b = memory.allocate(MemoryClass::workspace, 50, "b");
    CHECK(memory.in_use_bytes() == 150);
  }
  const Block c = memory.allocate(MemoryClass::activations, 30, "c");
  CHECK(memory.in_use_bytes() == 30);
  CHECK(memory.peak_bytes() == 150);
  CHECK(memory.peak_bytes(MemoryClass::activations) == 100);
}

TEST_CASE("a vocabulary is padded so that each tp rank has a multiple of 128 rows") {
  Layout layout;
  CHECK(padded_vocab(50257, layout) == 50304);
  layout.tp = 8;
  CHECK(padded_vocab(50257, layout) == 51200);
  CHECK(padded_vocab(51200, layout) == 51200);
  layout.habits.vocab_multiple = 1;
  CHECK(padded_vocab(50257, layout) == 50264);
  // The last rank has what is left of the vocabulary, and the rest as padding.
  const ModelShape shape{.layers = 1,
      .hidden = 64,
      .ffn = 64,
      .heads = 8,
      .kv_heads = 8,
      .vocab = 50257,
      .seq_len = 8};
  const Extents last = extents_of(shape, layout, {.tp = 7}, Dtype::fp32);
  CHECK(last.first_vocab == 7 * 6283);
  CHECK(last.vocab == 6283);
  CHECK(last.real_vocab == 50257 - 7 * 6283);
}

TEST_CASE("a number of a flag is finite") {
  const auto none = [](const char*) -> const char* { return nullptr; };
  for (const char* text : {"inf", "infinity", "nan", "1e999", "-1", "1x", ""})
    CHECK(parse_options({"--model", "tiny", "--moe-capacity", text}, none).error);
  CHECK_FALSE(parse_options({"--model", "tiny", "--moe-capacity", "1.25"}, none).error);
}

TEST_CASE("a profile sets what its trainer does, and flags after it override") {
  const auto habits = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--model", "tiny"});
    const auto parsed = parse_options(words, [](const char*) -> const char* { return nullptr; });
    REQUIRE(!parsed.error);
    return parsed.options;
  };
  CHECK(habits({}).profile == "own");
  CHECK(habits({}).layout.habits.vocab_multiple == 128);
  const Options megatron = habits({"--profile", "megatron"});
  CHECK(megatron.layout.habits.selective == Selective::attention);
  CHECK(megatron.layout.habits.gather_overlap);
  const Options nanotron = habits({"--profile", "nanotron"});
  CHECK(nanotron.layout.habits.vocab_multiple == 1);
  CHECK_FALSE(nanotron.layout.habits.gather_overlap);
  CHECK_FALSE(habits({"--profile", "torchtitan"}).layout.habits.tp_overlap);
  CHECK(habits({"--profile", "nanotron", "--vocab-multiple", "64"}).layout.habits.vocab_multiple ==
      64);
  const auto unknown =
      parse_options({"--profile", "mine"}, [](const char*) -> const char* { return nullptr; });
  CHECK(unknown.error->message.find("own|megatron|nanotron|torchtitan") != std::string::npos);
}

TEST_CASE("a layout that a profile's trainer has not is refused in a sentence") {
  Layout layout;
  layout.dp = 4;
  layout.zero = 2;
  CHECK_FALSE(profile_refusal(*find_profile("own"), layout));
  CHECK(profile_refusal(*find_profile("megatron"), layout)->message ==
      "runner:profile: Megatron-LM has ZeRO 0 to 1");
  CHECK_FALSE(profile_refusal(*find_profile("torchtitan"), layout));
  layout.zero = 1;
  CHECK_FALSE(profile_refusal(*find_profile("nanotron"), layout));
  CHECK(profile_refusal(*find_profile("torchtitan"), layout)->message ==
      "runner:profile: torchtitan shards gradients over dp: zero has to be 2 or 3");
}

TEST_CASE("units and their parts begin at multiples of 128 elements, whatever dp") {
  const ModelShape odd{
      .layers = 2, .hidden = 6, .ffn = 5, .heads = 3, .kv_heads = 1, .vocab = 7, .seq_len = 8};
  for (const i64 zero : {0, 1, 2, 3}) {
    Layout layout;
    layout.dp = 7;
    layout.zero = zero;
    const i64 shards = zero > 0 ? layout.dp : 1;
    for (const Unit& unit : units_of(odd, layout, {})) {
      CHECK(unit.offset % (shards * 128) == 0);
      CHECK(unit.padded % (shards * 128) == 0);
    }
  }
}

TEST_CASE("the meta device counts a model that no machine here could hold") {
  Options options;
  options.model = *find_shape("llama-3-70b");
  options.dtype = Dtype::bf16;
  options.layout.dp = 8;
  options.layout.tp = 8;
  options.layout.pp = 8;
  options.layout.grad_accum = 16;
  options.layout.sequence_parallel = true;
  const RankCost cost = cost_of_rank(options, 0);
  // 2 + 4 + 12 bytes per parameter of the first stage.
  const i64 first_stage = (10 * (layer_parameters(options.model) - i64{2} * 8192) / 8) +
      i64{10} * 2 * 8192 + padded_vocab(128256, options.layout) / 8 * 8192;
  CHECK(cost.peak_by_class[0] + cost.peak_by_class[1] + cost.peak_by_class[2] == 18 * first_stage);
}

TEST_CASE("places: the lowest gap that is large enough, and neighbours grow together") {
  Places places(4 * place_alignment);
  const auto a = places.take(1);
  const auto b = places.take(place_alignment);
  const auto c = places.take(0);
  CHECK(a == 0);
  CHECK(b == place_alignment);
  CHECK(c == 2 * place_alignment);
  CHECK_FALSE(places.take(2 * place_alignment).has_value());
  places.give(*b);
  CHECK_FALSE(places.take(2 * place_alignment).has_value());
  places.give(*a);
  CHECK(places.take(place_alignment + 1) == 0);
  CHECK(places.extent() == 3 * place_alignment);
  places.give(0);
  places.give(*c);
  CHECK(places.take(4 * place_alignment) == 0);
  CHECK_FALSE(places.take(most_place_bytes + 1).has_value());
}

TEST_CASE("an arena is one allocation, in which what was measured fits exactly") {
  const auto device = make_cpu_device(Dtype::fp32);
  const auto use = [](Memory& memory) {
    // A gap stays between the first and the third: fragmentation is part of what is measured.
    const Block first = memory.allocate(MemoryClass::activations, 1000, "first");
    Block second = memory.allocate(MemoryClass::activations, 500, "second");
    const Block third = memory.allocate(MemoryClass::activations, 1000, "third");
    second.reset();
    const Block fourth = memory.allocate(MemoryClass::activations, 600, "fourth");
    CHECK(memory.in_use_bytes() == 2600);
  };
  MetaDevice meta(Dtype::fp32);
  Memory measured(meta, std::nullopt);
  measured.measure_arenas();
  use(measured);
  const BytesByClass extents = measured.arena_extents();
  CHECK(extents[static_cast<std::size_t>(MemoryClass::activations)] ==
      (4 + 2 + 4 + 3) * place_alignment);
  Memory memory(*device, std::nullopt);
  memory.reserve(extents);
  CHECK(memory.source_allocations() == 1);
  use(memory);
  use(memory);
  CHECK(memory.source_allocations() == 1);
  const Block larger = memory.allocate(MemoryClass::activations, 1 << 20, "not foreseen");
  CHECK(memory.source_allocations() == 2);
}

TEST_CASE("train steps get all their memory from arenas that one step without memory measured") {
  Options options;
  options.model = *find_shape("tiny");
  options.layout.grad_accum = 3;
  options.layout.recompute = Recompute::selective;
  const auto device = make_cpu_device(Dtype::fp32);
  Memory memory(*device, std::nullopt);
  memory.reserve(cost_of_rank(options, 0).arenas);
  const i64 arenas = memory.source_allocations();
  const Groups groups = make_groups(options.layout, 0, 1,
      [&](const Group& group) { return std::make_unique<NullCommunicator>(memory, 0, group); });
  Trainer trainer(
      context_of(*device, memory, options.model, options.layout, {}, groups), groups, 1);
  for (i64 step = 0; step < 3; ++step) {
    trainer.compute_gradients(step);
    trainer.update(step);
  }
  CHECK(memory.source_allocations() == arenas);
}
