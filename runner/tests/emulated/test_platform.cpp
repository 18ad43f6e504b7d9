// SPDX-License-Identifier: Apache-2.0
// The platform of NVIDIA GPUs, on the emulated one.
#include "base/clock.hpp"
#include "communication/null_communicator.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/cuda_platform.hpp"
#include "cuda/gpu_comm_stream.hpp"
#include "emulated_gpu.hpp"
#include "measurement/meta_run.hpp"
#include "measurement/microbench.hpp"
#include "measurement/profile.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"
#include "program/options.hpp"
#include "stopped_clock.hpp"

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

using namespace shardbench;

namespace {

/// Number of questions to the fake NVML so far.
int questions() {
  void* library = ::dlopen(FAKE_NVML, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  return reinterpret_cast<int (*)()>(::dlsym(library, "fake_nvml_questions"))();
}

/// A model whose vocabulary is no multiple of what rows of logits are rounded up to.
Options toy() {
  Options o;
  o.model = {
      .layers = 2, .hidden = 32, .ffn = 64, .heads = 2, .kv_heads = 1, .vocab = 50, .seq_len = 16};
  o.layout.habits.vocab_multiple = 2;
  o.dtype = Dtype::bf16;
  return o;
}

std::unique_ptr<Platform> open_platform() {
  Options options = toy();
  options.device = "cuda";
  options.comm = "staged";
  return cuda_platform().open(options);
}

/// Two train steps of one rank.
void train(Device& device, const Options& o) {
  Memory memory(device, std::nullopt);
  memory.reserve(cost_of_rank(o, 0).arenas);
  const Groups groups = make_groups(o.layout, 0, 1,
      [&](const Group& group) { return std::make_unique<NullCommunicator>(memory, 0, group); });
  const RankContext context = context_of(device, memory, o.model, o.layout, {}, groups);
  Trainer trainer(context, groups, o.seed);
  for (i64 step = 0; step < 2; ++step) {
    trainer.compute_gradients(step);
    trainer.update(step);
  }
}

/// The second one is the fastest.
struct ThreeCandidates {
  ThreeCandidates() { emulator::set_product_delays({1000, 0, 500}); }
  ~ThreeCandidates() { emulator::set_product_delays({0}); }
  ThreeCandidates(const ThreeCandidates&) = delete;
  ThreeCandidates& operator=(const ThreeCandidates&) = delete;
};

}  // namespace

TEST_CASE("work starts in the host's order for the trainers that ask for it, unless it is set") {
  constexpr const char* variable = "CUDA_DEVICE_MAX_CONNECTIONS";
  const auto connections = [](const Profile& profile) {
    Options options = toy();
    options.device = "cuda";
    options.comm = "staged";
    options.layout.habits.one_queue = profile.habits.one_queue;
    JsonObject start;
    cuda_platform().open(options)->describe(start);
    const std::string text = start.str();
    const std::string key = R"("cuda_connections":")";
    const std::size_t at = text.find(key);
    REQUIRE(at != std::string::npos);
    return text.substr(at + key.size(), 1);
  };
  const std::map<std::string, std::string> wanted{
      {"own", "\""}, {"megatron", "1"}, {"nanotron", "1"}, {"torchtitan", "\""}};
  REQUIRE(profiles().size() == wanted.size());
  for (const Profile& profile : profiles()) {
    CAPTURE(profile.name);
    ::unsetenv(variable);
    CHECK(connections(profile) == wanted.at(std::string(profile.name)));
    ::setenv(variable, "8", 1);
    CHECK(connections(profile) == "8");
  }
  ::unsetenv(variable);
}

TEST_CASE("algorithms are settled before training, each as often, and the fastest works") {
  const ThreeCandidates candidates;
  const Options o = toy();
  CudaDevice device(gpu::open(0));
  const std::vector<GemmKey> keys = products_of_rank(o, 0);
  device.settle_products(keys);
  std::map<GemmKey, std::array<int, 3>> tried;
  for (const emulator::ProductRun& run : emulator::take_product_runs())
    ++tried[run.key][run.candidate];
  CHECK(tried.size() == keys.size());
  for (const auto& [key, runs] : tried)
    CHECK(runs == std::array<int, 3>{4, 4, 4});
  train(device, o);
  const std::vector<emulator::ProductRun> worked = emulator::take_product_runs();
  CHECK(worked.size() > 2 * keys.size());
  for (const emulator::ProductRun& run : worked)
    CHECK(run.candidate == 1);
  const std::string choices = device.products().choices_json();
  CHECK(choices.find("{\"unsettled\":0,\"choices\":[{\"m\":") == 0);
  CHECK(choices.find("\"candidate\":1,\"candidates\":3,\"ms\":") != std::string::npos);
  // Settling once is enough.
  device.settle_products(keys);
  CHECK(emulator::take_product_runs().empty());
}

TEST_CASE("a product that was not settled is done as the library would, and is counted") {
  const ThreeCandidates candidates;
  CudaDevice device(gpu::open(0));
  train(device, toy());
  for (const emulator::ProductRun& run : emulator::take_product_runs())
    CHECK(run.candidate == 0);
  CHECK(device.products().choices_json().find("\"unsettled\":0") == std::string::npos);
}

TEST_CASE("a run settles all of its products and the record has the choices") {
  const ThreeCandidates candidates;
  const auto platform = open_platform();
  const Options o = toy();
  platform->device().settle_products(products_of_rank(o, 0));
  train(platform->device(), o);
  Memory memory(platform->device(), std::nullopt);
  JsonObject start;
  platform->describe(start);
  CHECK(start.str().find(R"("attention":{"by":"mma","why_not":"the GPU is emulated"})") !=
      std::string::npos);
  JsonObject result;
  platform->add_result(result, memory);
  CHECK(result.str().find("\"products\":{\"unsettled\":0,") != std::string::npos);
  (void)emulator::take_product_runs();
}

TEST_CASE("the microbenchmark times the settled algorithms and the head as training has it") {
  const ThreeCandidates candidates;
  const Options o = toy();
  CudaDevice device(gpu::open(0));
  Memory memory(device, std::nullopt);
  NullCommunicator world(memory, 0, {"world", 1, {0}});
  const std::string blocks = building_blocks(device, o, world);
  std::map<GemmKey, std::vector<std::size_t>> runs;
  for (const emulator::ProductRun& run : emulator::take_product_runs())
    runs[run.key].push_back(run.candidate);
  constexpr std::size_t trials = 12;
  for (const auto& [key, of_key] : runs) {
    CHECK(of_key.size() > trials);
    CHECK(std::count(of_key.begin() + trials, of_key.end(), std::size_t{1}) ==
        of_key.end() - (of_key.begin() + trials));
    const i64 stride = extents_of(o.model, o.layout, {}, o.dtype).logit_stride;
    if (key.n == o.model.vocab) CHECK(key.ldc == stride);
    if (key.k == o.model.vocab) CHECK(key.lda == stride);
  }
  CHECK(blocks.find("memory_gb_per_s") != std::string::npos);
}

TEST_CASE("the memory's bandwidth is told by vectors that no cache holds") {
  constexpr i64 mib = i64{1} << 20;
  CHECK(bandwidth_vector_bytes(50 * mib, std::nullopt) == 200 * mib);
  CHECK(bandwidth_vector_bytes(0, std::nullopt) == 16 * mib);
  CHECK(bandwidth_vector_bytes(50 * mib, 600 * mib) == 100 * mib);
  CHECK(CudaDevice(gpu::open(0)).cache_bytes() == mib);
}

TEST_CASE("NVML is asked between train steps and never while the host waits for the GPU") {
  ::setenv("SHARDBENCH_NVML", FAKE_NVML, 1);
  const auto platform = open_platform();
  const int before = questions();
  emulator::set_polls_until_reached(5);
  platform->device().synchronize();
  emulator::set_polls_until_reached(0);
  CHECK(questions() == before);
  platform->between_steps();
  const int once = questions();
  CHECK(once > before);
  // A second has not passed.
  platform->between_steps();
  CHECK(questions() == once);
  Memory memory(platform->device(), std::nullopt);
  JsonObject result;
  platform->add_result(result, memory);
  CHECK(result.str().find("\"gpu_health\":{\"sm_clock_mhz\":1755") != std::string::npos);
}

TEST_CASE("clock and power are those of the timed train steps") {
  ::setenv("SHARDBENCH_NVML", FAKE_NVML, 1);
  ::setenv("FAKE_NVML_REASONS", "0x1", 1);
  const auto platform = open_platform();
  const StoppedClock clock;
  // The first question of each look takes the next clock; the start record's look had one.
  ::setenv("FAKE_NVML_SM_CLOCKS", "1000", 1);
  platform->between_steps();
  CHECK(platform->pace().clock_mhz == 1000);
  ::setenv("FAKE_NVML_SM_CLOCKS", "1700", 1);
  ::setenv("FAKE_NVML_REASONS", "0x5", 1);
  platform->timed_steps_begin();
  platform->between_steps();
  // Another look is not due yet.
  ::setenv("FAKE_NVML_SM_CLOCKS", "1500", 1);
  platform->between_steps();
  CHECK(platform->pace().clock_mhz == 1700);
  CHECK(platform->pace().power_w == doctest::Approx(612.345));
  CHECK(throttle_text(platform->pace().held_back) == "power cap");
  clock.pass(2 * PaceSampler::pause_s);
  platform->between_steps();
  CHECK(platform->pace().clock_mhz == 1600);
  ::unsetenv("FAKE_NVML_SM_CLOCKS");
  ::unsetenv("FAKE_NVML_REASONS");
}

TEST_CASE("communication has streams of high priority beside that which computes") {
  const gpu::Stream compute = gpu::make_stream(gpu::Priority::normal);
  CHECK_FALSE(emulator::has_high_priority(compute));
  {
    GpuCommStream own(compute, GpuCommStream::Kind::own);
    GpuCommStream shared(compute, GpuCommStream::Kind::shared_with_compute);
    CHECK(emulator::has_high_priority({own.native()}));
    CHECK(shared.native() == compute.handle);
    // tp's too, if it hides something.
    CommStreams streams(compute, {});
    CHECK(emulator::has_high_priority({streams.of("tp").native()}));
    // Sums over replicas travel under the next reduction over dp.
    CHECK(streams.of("replicate").native() != streams.of("shard").native());
    CHECK(streams.of("dp").native() == streams.of("shard").native());
    CHECK(streams.used_by({}) == 0);
    Layout layout;
    layout.tp = layout.pp = layout.cp = 2;
    layout.dp = 4;
    layout.zero = 2;
    CHECK(streams.used_by(layout) == 4);
    layout.dp_replicate = 2;
    CHECK(streams.used_by(layout) == 5);
    CommStreams at_once(compute, {.tp_overlap = false});
    CHECK(at_once.of("tp").native() == compute.handle);
  }
  gpu::release_stream(compute);
}
