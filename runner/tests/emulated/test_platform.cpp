// SPDX-License-Identifier: Apache-2.0
// The platform of NVIDIA GPUs, on the emulated one.
#include "clock.hpp"
#include "cuda/cuda_platform.hpp"
#include "cuda/gpu_comm_stream.hpp"
#include "emulated_gpu.hpp"
#include "options.hpp"

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

using namespace shardbench;

namespace {

std::unique_ptr<Platform> open_platform() {
  Options options;
  options.device = "cuda";
  options.comm = "staged";
  options.dtype = Dtype::bf16;
  return cuda_platform().open(options);
}

/// What the fake NVML has been asked so far.
int questions() {
  void* library = ::dlopen(FAKE_NVML, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  return reinterpret_cast<int (*)()>(::dlsym(library, "fake_nvml_questions"))();
}

}  // namespace

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

TEST_CASE("communication has streams of high priority beside that which computes") {
  const gpu::Stream compute = gpu::make_stream(gpu::Priority::normal);
  CHECK_FALSE(emulator::has_high_priority(compute));
  {
    GpuCommStream own(compute, GpuCommStream::Kind::own);
    GpuCommStream shared(compute, GpuCommStream::Kind::shared_with_compute);
    CHECK(emulator::has_high_priority({own.native()}));
    CHECK(shared.native() == compute.handle);
  }
  gpu::release_stream(compute);
}
