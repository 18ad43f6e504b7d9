// SPDX-License-Identifier: Apache-2.0
// What NVML tells, from fake libraries (fakes/nvml.cpp).
#include "device/nvml.hpp"

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <cstdlib>

using namespace shardbench;

namespace {

const char* const nowhere = "ffff:ff:00.0";

GpuHealth health_of(const char* uuid, const char* library = FAKE_NVML) {
  const auto monitor = GpuMonitor::open(uuid, nowhere, library);
  REQUIRE(monitor);
  return monitor->health();
}

}  // namespace

TEST_CASE("a GPU that answers everything") {
  const GpuHealth health = health_of("GPU-well");
  CHECK(health.sm_clock_mhz == 1755);
  CHECK(health.sm_clock_max_mhz == 1980);
  CHECK(health.memory_clock_mhz == 2619);
  CHECK(health.memory_clock_max_mhz == 3201);
  CHECK(health.power_w == doctest::Approx(612.345));
  CHECK(health.power_limit_w == doctest::Approx(700));
  CHECK(health.temperature_c == 61);
  REQUIRE(health.clocks_event_reasons);
  CHECK(*health.clocks_event_reasons ==
      std::vector<std::string>{"sw_power_cap", "hw_thermal_slowdown", "0x1000"});
  CHECK(health.uncorrected_ecc_errors == 2);
  CHECK(health.memory_repair_pending == false);
  REQUIRE(health.processes);
  REQUIRE(health.processes->size() == 2);
  CHECK(health.processes->at(0).pid == 4000);
  CHECK(health.processes->at(0).bytes == 1024);
  CHECK(health.processes->at(1).pid == 4001);
  CHECK_FALSE(health.processes->at(1).bytes);
}

TEST_CASE("as a record's object") {
  const GpuHealth health{.sm_clock_mhz = 1755,
      .power_w = 612.5,
      .clocks_event_reasons = {{"sw_power_cap", "hw_slowdown"}},
      .memory_repair_pending = true,
      .processes = {{{.pid = 7, .bytes = 1024}, {.pid = 8}}}};
  CHECK(health_json(health).str() ==
      R"({"sm_clock_mhz":1755,"power_w":612.5,)"
      R"("clocks_event_reasons":["sw_power_cap","hw_slowdown"],)"
      R"("memory_repair_pending":true,)"
      R"("processes":[{"pid":7,"bytes":1024},{"pid":8}]})");
  CHECK(health_json({}).str() == "{}");
  const GpuHealth all = health_of("GPU-well");
  CHECK(health_json(all).str().find(
            R"("temperature_c":61,"clocks_event_reasons":["sw_power_cap",)") != std::string::npos);
}

TEST_CASE("reasons for lower clocks") {
  CHECK(clocks_event_names(0).empty());
  CHECK(clocks_event_names(0x1ff).size() == 9);
  CHECK(
      clocks_event_names(0x81) == std::vector<std::string>{"gpu_idle", "hw_power_brake_slowdown"});
}

TEST_CASE("a GPU is found by its PCI address where its UUID is not known") {
  // The UUID of a part of a GPU is not found either.
  const auto monitor = GpuMonitor::open("MIG-unknown", "0000:1d:00.0", FAKE_NVML);
  REQUIRE(monitor);
  CHECK(monitor->health().processes->size() == 100);
  CHECK_FALSE(GpuMonitor::open("GPU-unknown", nowhere, FAKE_NVML));
}

TEST_CASE("what a GPU does not support is absent") {
  CHECK(health_json(health_of("GPU-mute")).str() == "{}");
}

TEST_CASE("pages that wait for retirement, where rows can't be remapped") {
  CHECK(health_of("GPU-aged").memory_repair_pending == true);
}

TEST_CASE("a library that lacks functions") {
  const GpuHealth old = health_of("GPU-well", FAKE_NVML_OLD);
  REQUIRE(old.clocks_event_reasons);
  CHECK(*old.clocks_event_reasons == std::vector<std::string>{"hw_slowdown"});
  CHECK(old.processes->size() == 2);
  CHECK_FALSE(old.memory_repair_pending);
  CHECK(health_of("GPU-aged", FAKE_NVML_OLD).memory_repair_pending == true);
  CHECK(health_json(health_of("GPU-well", FAKE_NVML_BARE)).str() == "{}");
}

TEST_CASE("no library, or one that is none, or that does not start") {
  CHECK_FALSE(GpuMonitor::open("GPU-well", nowhere, "libno-such-library.so.1"));
  CHECK_FALSE(GpuMonitor::open("GPU-well", nowhere, "libdl.so.2"));
  ::setenv("FAKE_NVML_INIT", "9", 1);  // driver not loaded
  CHECK_FALSE(GpuMonitor::open("GPU-well", nowhere, FAKE_NVML));
  ::unsetenv("FAKE_NVML_INIT");
}

TEST_CASE("the library is shut down as often as it is started") {
  void* library = ::dlopen(FAKE_NVML, RTLD_NOW);
  REQUIRE(library != nullptr);
  auto* const started = reinterpret_cast<int (*)()>(::dlsym(library, "fake_nvml_started"));
  REQUIRE(static_cast<bool>(started));
  {
    const auto monitor = GpuMonitor::open("GPU-well", nowhere, FAKE_NVML);
    CHECK(started() == 1);
    CHECK_FALSE(GpuMonitor::open("GPU-unknown", nowhere, FAKE_NVML));
    CHECK(started() == 1);
  }
  CHECK(started() == 0);
  ::dlclose(library);
}
