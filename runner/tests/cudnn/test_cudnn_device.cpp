// SPDX-License-Identifier: Apache-2.0
// A GPU device whose attention is cuDNN's, with a fake in its place and an emulated GPU: when
// it is chosen, what it says of itself, and that its workspace is the one that a run plans for.
#include "communication/null_communicator.hpp"
#include "cuda/attention_workspace.hpp"
#include "cuda/cuda_device.hpp"
#include "loaded_fake.hpp"
#include "measurement/meta_run.hpp"
#include "model/context_attention.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <memory>
#include <string>

using namespace shardbench;

namespace {

constexpr AttentionShape heads_of_64{1, 32, 2, 1, 64};

/// One layer, whose attention's workspace is more than anything else of it.
Options toy() {
  Options o;
  o.model = {
      .layers = 1, .hidden = 128, .ffn = 32, .heads = 2, .kv_heads = 1, .vocab = 32, .seq_len = 32};
  o.dtype = Dtype::bf16;
  o.layout.habits.vocab_multiple = 1;
  return o;
}

/// Two train steps in arenas of exactly that size; their places by class.
i64 workspace_peak_of_training(Device& device, const Options& o, const RankCost& cost) {
  Memory memory(device, std::nullopt);
  memory.reserve(cost.arenas);
  const Groups groups = make_groups(o.layout, 0, 1,
      [&](const Group& group) { return std::make_unique<NullCommunicator>(memory, 0, group); });
  const RankContext context = context_of(device, memory, o.model, o.layout, {}, groups);
  Trainer trainer(context, groups, o.seed);
  for (i64 step = 0; step < 2; ++step) {
    trainer.compute_gradients(step);
    (void)trainer.update(step);
  }
  return memory.peak_bytes(MemoryClass::workspace);
}

/// Made and not destroyed.
i64 handles() {
  (void)load_fake();
  return fake_function<int (*)()>("fake_cudnn_handles")();
}

}  // namespace

TEST_CASE("a run's workspace is what cuDNN's plan says, and training stays within it") {
  const i64 before = handles();
  const Variable path("SHARDBENCH_CUDNN", FAKE_CUDNN);
  const Options o = toy();
  for (const i64 engine : {0, 1000, 1 << 20}) {
    CAPTURE(engine);
    const Variable bytes("FAKE_CUDNN_WORKSPACE", std::to_string(engine).c_str());
    CudaDevice device(gpu::open(0));
    const i64 own = device.attention_workspace_bytes(heads_of_64);
    CHECK(own == gpu_attention_workspace_bytes(heads_of_64));
    device.choose_attention(heads_of_64);
    CHECK(device.attention_json() ==
        R"({"by":"cuDNN 9.19.0","engine_bytes":)" + std::to_string(engine) + "}");
    const i64 planned = cudnn_sums_bytes(heads_of_64) + engine;
    CHECK(device.attention_workspace_bytes(heads_of_64) == planned);
    // Our own kernels handle any other shape.
    AttentionShape other = heads_of_64;
    other.batch = 2;
    CHECK(device.attention_workspace_bytes(other) == gpu_attention_workspace_bytes(other));
    // The engine overwrites all of its part: a guard page follows the arena.
    (void)take_log();
    const RankCost cost = cost_of_rank(o, 0, &device);
    const i64 peak = workspace_peak_of_training(device, o, cost);
    CHECK(peak == cost.peak_by_class[static_cast<std::size_t>(MemoryClass::workspace)]);
    if (engine == 1 << 20) CHECK(peak > engine);
    const std::string log = take_log();
    CHECK(log.find("run of 7\n") != std::string::npos);
    CHECK(log.find("run of 14\n") != std::string::npos);
  }
  CHECK(handles() == before);
}

TEST_CASE("the meta device counts the bound of cuDNN's engines where no device is asked") {
  const Options o = toy();
  const CudaDevice device(gpu::open(0));  // works without cuDNN
  const i64 without = cost_of_rank(o, 0, &device).peak_by_class[4];
  const i64 planned = cost_of_rank(o, 0).peak_by_class[4];
  CHECK(planned - without ==
      planned_attention_workspace_bytes(heads_of_64) - gpu_attention_workspace_bytes(heads_of_64));
}

TEST_CASE("where cuDNN does not do it the reason is in the record and our kernels do") {
  const i64 before = handles();
  const auto chosen = [](const AttentionShape& shape) {
    CudaDevice device(gpu::open(0));
    device.choose_attention(shape);
    CHECK(device.attention_workspace_bytes(shape) == gpu_attention_workspace_bytes(shape));
    return device.attention_json();
  };
  AttentionShape heads_of_32 = heads_of_64;
  heads_of_32.head_dim = 32;
  AttentionShape in_a_ring = heads_of_64;
  in_a_ring.more_keys = true;
  {
    const Variable path("SHARDBENCH_CUDNN", FAKE_CUDNN);
    CHECK(chosen(heads_of_32) == R"({"by":"mma","why_not":"cuDNN is for heads of 64 and 128"})");
    CHECK(chosen(in_a_ring) == R"({"by":"mma","why_not":"keys of other ranks are added"})");
    CHECK(planned_attention_workspace_bytes(in_a_ring) == gpu_attention_workspace_bytes(in_a_ring));
    {
      const Variable refuses("FAKE_CUDNN_CREATE", "3000");
      CHECK(chosen(heads_of_64) == R"({"by":"mma","why_not":"cudnnCreate: NOT_SUPPORTED"})");
    }
    const Variable engines("FAKE_CUDNN_ENGINES", "1");
    CHECK(chosen(heads_of_64) ==
        R"({"by":"mma","why_not":"cuDNN, attention: none of cuDNN's 1 engines takes )"
        R"(the graph"})");
  }
  CHECK(handles() == before);
  const Variable off("SHARDBENCH_CUDNN", "off");
  CHECK(chosen(heads_of_64) == R"({"by":"mma","why_not":"SHARDBENCH_CUDNN is off"})");
}

TEST_CASE("ranks that exchange heads attend to whole sequences, which cuDNN does") {
  Options o;
  o.model = {.layers = 1,
      .hidden = 512,
      .ffn = 512,
      .heads = 8,
      .kv_heads = 4,
      .vocab = 64,
      .seq_len = 1024};
  o.layout.cp = 4;
  const auto attended = [&](ContextMode mode) {
    o.layout.cp_mode = mode;
    return attended_shape(extents_of(o.model, o.layout, {}, Dtype::bf16).attention, o.layout);
  };
  const AttentionShape whole = attended(ContextMode::ulysses);
  CHECK(whole.seq_len == 1024);
  CHECK(whole.heads == 2);
  CHECK(whole.kv_heads == 1);
  CHECK_FALSE(whole.more_keys);
  const AttentionShape part = attended(ContextMode::ring);
  CHECK(part.seq_len == 256);
  CHECK(part.heads == 8);
  CHECK(part.more_keys);
  const Variable path("SHARDBENCH_CUDNN", FAKE_CUDNN);
  CudaDevice device(gpu::open(0));
  device.choose_attention(whole);
  CHECK(device.attention_json().find(R"("by":"cuDNN)") != std::string::npos);
}

TEST_CASE("cuDNN itself is refused cleanly where there is no GPU") {
  if (!load_cudnn().refusal.empty()) {
    MESSAGE("left out: " << load_cudnn().refusal);
    return;
  }
  CudaDevice device(gpu::open(0));
  device.choose_attention({4, 4096, 32, 8, 128});
  CAPTURE(device.attention_json());
  const bool by_cudnn = device.attention_json().find(R"("by":"cuDNN)") != std::string::npos;
  CHECK((by_cudnn || device.attention_json().find(R"("by":"mma","why_not":"cudnnCreate: )") == 1));
}
