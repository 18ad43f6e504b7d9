// SPDX-License-Identifier: Apache-2.0
#include "node/cpu_use.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>

namespace shardsweep {
namespace {

// proc(5): user nice system idle iowait irq softirq steal. Guests are part of user.
constexpr std::array<bool, 7> is_busy{true, true, true, false, false, true, true};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double used_by(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

std::optional<double> busy_seconds_in(std::string_view proc_stat, double ticks_per_s) {
  std::string_view line = proc_stat.substr(0, proc_stat.find('\n'));
  constexpr std::string_view name = "cpu ";
  if (!line.starts_with(name) || ticks_per_s <= 0) return std::nullopt;
  line.remove_prefix(name.size());
  double ticks = 0;
  for (const bool busy : is_busy) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc()) return std::nullopt;
    line.remove_prefix(static_cast<std::size_t>(end - line.data()));
    if (busy) ticks += static_cast<double>(value);
  }
  return ticks / ticks_per_s;
}

std::optional<CpuUse> cpu_use(double now_s) {
  std::ifstream file("/proc/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto busy_s = busy_seconds_in(line, static_cast<double>(::sysconf(_SC_CLK_TCK)));
  const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (!busy_s || cpus < 1) return std::nullopt;
  return CpuUse{
      now_s, *busy_s, used_by(RUSAGE_SELF) + used_by(RUSAGE_CHILDREN), static_cast<int>(cpus)};
}

double others_share(const CpuUse& before, const CpuUse& after) {
  const double all_s = (after.at_s - before.at_s) * after.cpus;
  if (all_s <= 0) return 0;
  const double others_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s);
  return std::clamp(others_s / all_s, 0.0, 1.0);
}

}  // namespace shardsweep
