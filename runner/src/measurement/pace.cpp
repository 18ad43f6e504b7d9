// SPDX-License-Identifier: Apache-2.0
#include "measurement/pace.hpp"

#include "base/clock.hpp"

#include <sched.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace shardbench {
namespace {

struct Throttle {
  u64 bit;
  std::string_view words;
};
// Leaves out 0x1 (idle), 0x2 (clocks set by somebody), 0x10 (sync boost) and 0x100 (display).
constexpr std::array<Throttle, 5> throttles{{{0x4, "power cap"}, {0x8, "hardware slowdown"},
    {0x20, "too hot (driver)"}, {0x40, "too hot (hardware)"}, {0x80, "power brake"}}};

double steady_s() {
  return Seconds(now().time_since_epoch()).count();
}

std::optional<double> positive(const std::string& text, double unit) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(value > 0)) return std::nullopt;
  return value * unit;
}

/// "cpu MHz : 2596.136" of the processor with that number.
std::optional<double> clock_in(std::ifstream in, int cpu) {
  const auto value_of = [](const std::string& line) {
    const std::size_t colon = line.find(':');
    return colon == std::string::npos ? std::string() : line.substr(colon + 1);
  };
  bool here = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("processor", 0) == 0)
      here = std::strtol(value_of(line).c_str(), nullptr, 10) == cpu;
    if (here && line.rfind("cpu MHz", 0) == 0) return positive(value_of(line), 1);
  }
  return std::nullopt;
}

}  // namespace

bool PaceSampler::is_due() const {
  return !looked_at_s_ || steady_s() - *looked_at_s_ > pause_s;
}

void PaceSampler::add(const PaceLook& look) {
  clock_mhz_.add(look.clock_mhz);
  power_w_.add(look.power_w);
  held_back_ |= look.held_back;
  looked_at_s_ = steady_s();
}

void PaceSampler::forget() {
  *this = {};
}

Pace PaceSampler::pace() const {
  return {clock_mhz_.value(), power_w_.value(), held_back_};
}

void PaceSampler::Mean::add(const std::optional<double>& value) {
  if (!value) return;
  sum += *value;
  ++count;
}

std::string throttle_text(u64 held_back) {
  std::string text;
  for (const Throttle& throttle : throttles) {
    if ((held_back & throttle.bit) == 0) continue;
    text += text.empty() ? "" : ", ";
    text += throttle.words;
  }
  return text;
}

std::optional<double> cpu_clock_mhz(const std::string& devices, const std::string& cpuinfo) {
  const int cpu = ::sched_getcpu();
  if (cpu < 0) return std::nullopt;
  std::ifstream in(devices + "/cpu" + std::to_string(cpu) + "/cpufreq/scaling_cur_freq");
  std::string khz;
  if (std::getline(in, khz)) return positive(khz, 1e-3);
  return clock_in(std::ifstream(cpuinfo), cpu);
}

}  // namespace shardbench
