// SPDX-License-Identifier: Apache-2.0
// Against tests/tools/fakes/nvml.cpp: the machines that run these tests have no GPU.
#include "node/nvml.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>

using namespace shardsweep;

namespace {

const std::string fakes = SHARDSWEEP_FAKES_DIR;
const std::string two_gpus =
    "device|NVIDIA H100 80GB HBM3|GPU-aa|1048576|85520809984|0|0x0\n"
    "device|NVIDIA H100 80GB HBM3|GPU-bb|2097152|85520809984|3|0x44\n";

class FakeGpus {
 public:
  explicit FakeGpus(const std::string& text)
      : file_(
            std::filesystem::temp_directory_path() / ("fake-nvml-" + std::to_string(::getpid()))) {
    tell(text);
    ::setenv("FAKE_NVML", file_.c_str(), 1);
  }
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;
  ~FakeGpus() { std::filesystem::remove(file_); }
  void tell(const std::string& text) const { std::ofstream(file_) << text; }

 private:
  std::filesystem::path file_;
};

Nvml loaded(const std::string& folder = "/new") {
  auto nvml = Nvml::load(fakes + folder + "/libnvidia-ml.so.1");
  REQUIRE_MESSAGE(nvml, nvml.error().what);
  return std::move(*nvml);
}

}  // namespace

TEST_CASE("GPUs have names and memory and processes and a health") {
  const FakeGpus gpus(two_gpus + "process|1|4242|1000\nprocess|1|4243|-\n");
  const Nvml nvml = loaded();
  CHECK(nvml.count() == 2);
  CHECK(nvml.identity(0) == GpuIdentity{"NVIDIA H100 80GB HBM3", "GPU-aa"});
  CHECK(nvml.memory(1) == GpuMemory{2097152, 85520809984});
  CHECK(nvml.compute_processes(0)->empty());
  CHECK(*nvml.compute_processes(1) == std::vector<GpuProcess>{{4242, 1000}, {4243, std::nullopt}});
  CHECK(nvml.health(1) == GpuHealth{3, 0x44});
}

TEST_CASE("what is told is what is there now") {
  const FakeGpus gpus(two_gpus);
  const Nvml nvml = loaded();
  CHECK(nvml.memory(0)->used_bytes == 1048576);
  gpus.tell("device|NVIDIA H100 80GB HBM3|GPU-aa|5|10|0|0\n");
  CHECK(nvml.memory(0) == GpuMemory{5, 10});
  CHECK(nvml.count() == 1);
}

TEST_CASE("a GPU of another job is told from one that is lost") {
  const FakeGpus gpus(two_gpus + "fail|HandleByIndex0|4\nfail|HandleByIndex1|15\n");
  const Nvml nvml = loaded();
  CHECK(nvml.count() == 2);
  CHECK(nvml.identity(0).error() == Fault{FaultKind::rejected, "GPU 0: Insufficient Permissions"});
  CHECK(nvml.memory(1).error() == Fault{FaultKind::unavailable, "GPU 1: GPU is lost"});
  CHECK(nvml.compute_processes(1).error().kind == FaultKind::unavailable);
  CHECK(nvml.health(1).error().kind == FaultKind::unavailable);
}

TEST_CASE("what a GPU does not count is unknown and not zero") {
  const FakeGpus gpus("device|NVIDIA T4|GPU-aa|0|100|-|-\n");
  CHECK(loaded().health(0) == GpuHealth{std::nullopt, std::nullopt});
}

TEST_CASE("a failing count is a fault and not an unknown") {
  const FakeGpus gpus(two_gpus + "fail|TotalEccErrors|15\n");
  CHECK(loaded().health(0).error().what == "memory errors of GPU 0: GPU is lost");
}

TEST_CASE("more processes than expected are all told") {
  std::string text = two_gpus;
  for (int pid = 1; pid <= 300; ++pid)
    text += "process|0|" + std::to_string(pid) + "|1\n";
  const FakeGpus gpus(text);
  const auto processes = loaded().compute_processes(0);
  REQUIRE(processes);
  CHECK(processes->size() == 300);
  CHECK(processes->back().pid == 300);
}

TEST_CASE("an older driver has fewer functions") {
  const FakeGpus gpus(two_gpus + "process|0|7|8\n");
  const Nvml nvml = loaded("/old");
  CHECK(nvml.memory(0)->used_bytes == 1048576 + (std::int64_t{600} << 20));
  CHECK(*nvml.compute_processes(0) == std::vector<GpuProcess>{{7, 8}});
  CHECK(nvml.health(1) == GpuHealth{std::nullopt, 0x44});
}

TEST_CASE("no library and no driver and a foreign library are faults") {
  const FakeGpus gpus(two_gpus + "fail|Init|9\n");
  CHECK_FALSE(Nvml::load("/nowhere/libnvidia-ml.so.1"));
  const std::string fake = fakes + "/new/libnvidia-ml.so.1";
  CHECK(Nvml::load(fake).error() == Fault{FaultKind::unavailable, fake + ": Driver Not Loaded"});
  CHECK(Nvml::load("libc.so.6").error().what == "libc.so.6 lacks functions that every NVML has");
}

TEST_CASE("clocks that are low for no bad reason are not throttled") {
  CHECK(throttle_words(0).empty());
  CHECK(throttle_words(0x1 | 0x2 | 0x10 | 0x100).empty());
  CHECK(throttle_words(0x44) == std::vector<std::string>{"power cap", "too hot (hardware)"});
}

TEST_CASE("the models that the driver lists in /proc") {
  const auto root =
      std::filesystem::temp_directory_path() / ("fake-proc-" + std::to_string(::getpid()));
  std::filesystem::create_directories(root / "0000:0a:00.0");
  std::filesystem::create_directories(root / "0000:07:00.0");
  std::filesystem::create_directories(root / "0000:0b:00.0");
  std::ofstream(root / "0000:0a:00.0" / "information")
      << "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 71\n";
  std::ofstream(root / "0000:07:00.0" / "information")
      << "IRQ: 1\nModel: \t\t NVIDIA A100-SXM4-80GB\r\n";
  std::ofstream(root / "0000:0b:00.0" / "information") << "Model:\n";
  CHECK(gpu_models_in_proc(root) ==
      std::vector<std::string>{"NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB"});
  std::filesystem::remove_all(root);
  CHECK(gpu_models_in_proc(root).empty());
}

TEST_CASE("a GPU's clock and power at this moment, as far as it tells") {
  const FakeGpus gpus(
      "device|NVIDIA H100 80GB HBM3|GPU-aa|0|1|0|0x4|1755|612345\n"
      "device|NVIDIA H100 80GB HBM3|GPU-bb|0|1|0|-\n");
  const Nvml nvml = loaded();
  const auto told = nvml.pace(0);
  REQUIRE(told);
  CHECK(told->sm_clock_mhz == 1755);
  CHECK(*told->power_w == doctest::Approx(612.345));
  CHECK(told->held_back == 0x4);
  const auto mute = nvml.pace(1);
  REQUIRE(mute);
  CHECK_FALSE(mute->sm_clock_mhz);
  CHECK_FALSE(mute->power_w);
}
