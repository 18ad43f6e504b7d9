// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN as far as it goes without a GPU: against a fake that writes descriptors
// down, and against the library itself, which checks the graphs and names engines for a GPU
// that is described to it.
#include "cuda/attention_workspace.hpp"
#include "cudnn/cudnn_attention.hpp"

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

using namespace shardbench;

namespace {

/// The environment while a library is being used.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

std::string take_log() {
  void* library = ::dlopen(FAKE_CUDNN, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  std::string text = reinterpret_cast<const char* (*)()>(::dlsym(library, "fake_cudnn_log"))();
  reinterpret_cast<void (*)()>(::dlsym(library, "fake_cudnn_forget"))();
  return text;
}

i64 lines_with(const std::string& text, const std::string& part) {
  i64 count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

CudnnLibrary load_fake() {
  const Variable path("SHARDBENCH_CUDNN", FAKE_CUDNN);
  return load_cudnn();
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

/// An H100 as cuDNN 9.19 describes one.
constexpr const char* h100 =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
    R"("regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,)"
    R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
    R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
    R"("supportCoopLaunch":1,"totalGlobalMem":85017493504,"smClockRateKHz":1980000,)"
    R"("memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,)"
    R"("driverVer":13000,"deviceName":"NVIDIA H100 80GB HBM3"})";

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
                           {memory.data(), memory.data(), memory.data(), memory.data(),
                            memory.data(), memory.data()},
                           memory.data()));
  const std::string log = take_log();
  CHECK(log.find("stream\n") == 0);
  CHECK(log.find("run of 7\n") != std::string::npos);
  CHECK(log.find("run of 14\n") != std::string::npos);
}

TEST_CASE(
    "a cuDNN without engines, too old, switched off or missing is refused in a sentence") {
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

TEST_CASE("sums between the operations of backward fit the workspace that meta counts") {
  for (const AttentionShape& s : all_shapes())
    CHECK(CudnnAttention::backward_bytes(s) <= gpu_attention_workspace_bytes(s));
}

TEST_CASE(
    "cuDNN itself takes the graphs of all head sizes and groups, and has engines for them") {
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
  // It does refuse what is wrong.
  CudnnGraph wrong(library.table);
  const auto left = wrong.between({1, 2, 64, 64});
  const auto right = wrong.between({1, 2, 32, 64});
  wrong.multiply(left, right, wrong.between({1, 2, 64, 64}));
  CHECK_FALSE(wrong.good());
  // With the toolkit's stub of the driver cuDNN looks for engines; it cannot load their code.
  const std::string stub = CUDA_DRIVER_STUB;
  const CudnnDescriptor properties =
      stub.empty() || ::dlopen(stub.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr
          ? nullptr
          : cudnn_device_properties(library.table, h100);
  if (properties == nullptr) {
    MESSAGE("engines left out: no stub of the driver, or a cuDNN that describes no GPU");
    return;
  }
  // One of each kind: cuDNN compiles code for every engine.
  for (const AttentionShape& s :
       {AttentionShape{4, 4096, 8, 8, 64}, AttentionShape{4, 4096, 8, 2, 128}}) {
    const CudnnAttention attention(library.table, {nullptr, properties}, s);
    CAPTURE(s.head_dim);
    CAPTURE(s.kv_heads);
    CHECK(attention.engines() > 0);
  }
  (void)library.table.destroy_descriptor(properties);
}
