// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN as far as it goes without a GPU: against a fake that writes descriptors
// down, and against the library itself, which checks the graphs and names engines for a GPU
// that is described to it.
#include "cuda/attention_workspace.hpp"
#include "cudnn/cudnn_attention.hpp"
#include "loaded_fake.hpp"
#include "model/model_shape.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

using namespace shardbench;

namespace {

i64 lines_with(const std::string& text, const std::string& part) {
  i64 count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

std::vector<AttentionShape> all_shapes() {
  std::vector<AttentionShape> shapes;
  for (const i64 head_dim : {64, 128})
    for (const i64 kv_heads : {8, 2, 1})
      for (const i64 seq_len : {512, 4096})
        for (const i64 batch : {1, 4})
          shapes.push_back({batch, seq_len, 8, kv_heads, head_dim});
  return shapes;
}

/// A GPU as cuDNN 9.19 describes an H100, but for its version and shared memory.
struct GpuDescription {
  int version;  // 900: compute capability 9.0
  int shared_bytes;

  std::string json() const {
    return R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
           R"("regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,)"
           R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":)" +
        std::to_string(shared_bytes) +
        R"(,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
        R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
        R"("pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
        R"("totalGlobalMem":85017493504,"smClockRateKHz":1980000,)"
        R"("memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,)"
        R"("deviceVer":)" +
        std::to_string(version) + R"(,"driverVer":13000,"deviceName":"described"})";
  }
};

}  // namespace

TEST_CASE("the graphs have the strides of packed rows and keep the softmax statistics") {
  const CudnnLibrary library = load_fake();
  REQUIRE(library.refusal.empty());
  (void)take_log();
  const AttentionShape s{2, 4096, 8, 2, 128};
  const CudnnAttention attention(library.table, {}, s);
  CHECK(attention.good());
  const std::string log = take_log();
  // dimensions, strides, id: q and v as rows of q | k | v, k turned.
  CHECK(log.find("902=2,8,4096,128, 903=6291456,128,1536,1, 906=1,") != std::string::npos);
  CHECK(log.find("902=2,2,128,4096, 903=6291456,128,1,1536, 906=2,") != std::string::npos);
  CHECK(log.find("902=2,2,4096,128, 903=6291456,128,1536,1, 906=3,") != std::string::npos);
  CHECK(log.find("902=2,8,4096,128, 903=4194304,128,1024,1, 906=4,") != std::string::npos);
  // Statistics: fp32, in memory.
  CHECK(log.find("901=0, 902=2,8,4096,1, 903=32768,4096,1,1, 906=5, 907=0, 908=0,") !=
      std::string::npos);
  CHECK(lines_with(log, "\n19:") == 2 + 5);  // products of forward and backward
  CHECK(lines_with(log, "\n15:") == 2);
  // A gradient to shared keys is summed over its group: two more reductions than with own keys.
  const i64 grouped = lines_with(log, "\n22:");
  const CudnnAttention own_keys(library.table, {}, {2, 4096, 8, 8, 128});
  CHECK(grouped == lines_with(take_log(), "\n22:") + 2);
}

TEST_CASE("the first engine that can be built is taken, and runs with all operands") {
  const CudnnLibrary library = load_fake();
  CudnnHandle handle = nullptr;
  REQUIRE(library.table.create(&handle) == cudnn_success);
  const AttentionShape s{1, 512, 4, 4, 64};
  CudnnAttention attention(library.table, {handle, nullptr}, s);
  CHECK(attention.refusal() == "");
  CHECK(attention.engine_bytes() == 4096);
  (void)take_log();
  std::vector<float> memory(1 << 20);
  int stream = 0;
  CHECK(attention.forward(&stream, memory.data(), memory.data(), memory.data(), memory.data()));
  CHECK(attention.backward(&stream,
      {memory.data(), memory.data(), memory.data(), memory.data(), memory.data(), memory.data()}));
  const std::string log = take_log();
  CHECK(log.find("stream\n") == 0);
  CHECK(log.find("run of 7\n") != std::string::npos);
  CHECK(log.find("run of 14\n") != std::string::npos);
}

TEST_CASE("a cuDNN without engines, too old, switched off or missing is refused in a sentence") {
  {
    const Variable engines("FAKE_CUDNN_ENGINES", "1");
    const CudnnLibrary library = load_fake();
    CudnnHandle handle = nullptr;
    REQUIRE(library.table.create(&handle) == cudnn_success);
    const CudnnAttention attention(library.table, {handle, nullptr}, {1, 512, 4, 4, 64});
    CHECK(attention.refusal() == "cuDNN, attention: none of cuDNN's 1 engines takes the graph");
  }
  {
    const Variable version("FAKE_CUDNN_VERSION", "90500");
    CHECK(load_fake().refusal ==
        std::string("'") + FAKE_CUDNN +
            "' is cuDNN 9.5.0, and 9.6.0 is the oldest supported version");
  }
  {
    const Variable off("SHARDBENCH_CUDNN", "off");
    CHECK(load_cudnn().refusal == "SHARDBENCH_CUDNN is off");
  }
  const Variable path("SHARDBENCH_CUDNN", "/nowhere/libcudnn.so.9");
  CHECK(load_cudnn().refusal.rfind("cuDNN can't be loaded: /nowhere/libcudnn.so.9:", 0) == 0);
}

TEST_CASE("without a library the meta device plans for our kernels and for cuDNN's engines") {
  for (AttentionShape s : all_shapes()) {
    const i64 planned = planned_attention_workspace_bytes(s);
    CHECK(planned >= gpu_attention_workspace_bytes(s));
    CHECK(planned >= cudnn_sums_bytes(s) + cudnn_engine_bound(s));
    s.head_dim = 32;
    CHECK(planned_attention_workspace_bytes(s) == gpu_attention_workspace_bytes(s));
  }
}

TEST_CASE("cuDNN itself takes the graphs of all head sizes and groups") {
  const CudnnLibrary library = load_cudnn();
  if (!library.refusal.empty()) {
    MESSAGE("left out: " << library.refusal);
    return;
  }
  for (const AttentionShape& s : all_shapes()) {
    const CudnnAttention attention(library.table, {}, s);
    CAPTURE(s.head_dim);
    CAPTURE(s.kv_heads);
    CHECK(attention.refusal() == "");
  }
  // A wrong graph is refused.
  CudnnGraph wrong(library.table);
  const auto left = wrong.between({1, 2, 64, 64});
  const auto right = wrong.between({1, 2, 32, 64});
  wrong.multiply(left, right, wrong.between({1, 2, 64, 64}));
  CHECK_FALSE(wrong.good());
}

TEST_CASE("cuDNN itself takes the graphs of all models that sweeps know in all their layouts") {
  const CudnnLibrary library = load_cudnn();
  if (!library.refusal.empty()) {
    MESSAGE("left out: " << library.refusal);
    return;
  }
  int graphs = 0;
  for (const NamedShape& named : named_shapes())
    for (const i64 tp : {1, 2, 4, 8, 16})
      for (const i64 micro_batch : {1, 2, 4, 8}) {
        const ModelShape& m = named.shape;
        if (!cudnn_has_head_dim(m.head_dim()) || m.kv_heads % tp != 0) continue;
        const CudnnAttention attention(library.table, {},
            {micro_batch, m.seq_len, m.heads / tp, m.kv_heads / tp, m.head_dim()});
        CAPTURE(named.name);
        CAPTURE(tp);
        CHECK(attention.refusal() == "");
        ++graphs;
      }
  MESSAGE("shapes: " << graphs);
  CHECK(graphs > 100);
}

TEST_CASE("cuDNN itself has engines for GPUs that are described, whose workspace is bounded") {
  const CudnnLibrary library = load_cudnn();
  // cuDNN needs the toolkit's stub of the driver to look for engines.
  const std::string stub = CUDA_DRIVER_STUB;
  if (!library.refusal.empty() || stub.empty() ||
      ::dlopen(stub.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    MESSAGE("left out: no cuDNN, or no stub of the driver");
    return;
  }
  for (const GpuDescription& gpu : {GpuDescription{800, 166912}, {900, 232448}, {1000, 232448}}) {
    const CudnnDescriptor properties = cudnn_device_properties(library.table, gpu.json());
    if (properties == nullptr) {
      MESSAGE("left out: a cuDNN that describes no GPU");
      return;
    }
    for (const AttentionShape& s : all_shapes()) {
      const CudnnAttention attention(library.table, {nullptr, properties}, s);
      CAPTURE(gpu.version);
      CAPTURE(s.head_dim);
      CAPTURE(s.kv_heads);
      CHECK(attention.engines() > 0);
      CHECK(attention.refusal() == "cuDNN, attention: the GPU is a description");
      if (const auto told = attention.most_told_bytes()) {
        CHECK(*told > 0);
        CHECK(*told <= cudnn_engine_bound(s));
      }
    }
    (void)library.table.destroy_descriptor(properties);
  }
}
