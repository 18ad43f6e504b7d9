// SPDX-License-Identifier: Apache-2.0
// Decision: GPU memory that no visible process holds takes the node out. Memory that another
// process holds marks the measurement.
#include "attempt/gpu_use.hpp"

#include "text/median.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>

namespace shardsweep {

namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t least_context = 64 * mebibyte;

void add(std::string& text, const std::string& more) {
  text += (text.empty() ? "" : "; ") + more;
}

std::string amount(const std::optional<std::int64_t>& bytes) {
  return bytes ? fmt::format("{} MiB", *bytes / mebibyte) : std::string("an unknown amount");
}

}  // namespace

GpuFindings GpuBaseline::judge(const std::vector<GpuUse>& seen, std::int64_t slack_bytes) {
  GpuFindings findings;
  for (const GpuUse& use : seen) {
    std::int64_t unexplained = use.used_bytes;
    bool all_told = true;
    std::string unseen;
    for (const GpuHolder& holder : use.holders) {
      if (holder.cmdline.empty()) {
        unseen += fmt::format(" {}", holder.pid);
        continue;
      }
      all_told = all_told && holder.bytes;
      unexplained -= holder.bytes.value_or(0);
      if (holder.bytes.value_or(least_context) < least_context) continue;
      add(findings.others,
          fmt::format("process {} holds {} of GPU {}: '{}'", holder.pid, amount(holder.bytes),
              use.gpu, holder.cmdline));
    }
    unexplained = std::max<std::int64_t>(unexplained, 0);
    const auto known = least_bytes_.try_emplace(use.gpu, std::min(unexplained, slack_bytes)).first;
    known->second = std::min(known->second, unexplained);
    // A process that does not tell its memory may hold all of it.
    if (!all_told || unexplained <= known->second + slack_bytes) continue;
    add(findings.held,
        fmt::format("{} MiB of GPU {} are in use, but only {} MiB were earlier{}",
            unexplained / mebibyte, use.gpu, known->second / mebibyte,
            unseen.empty() ? "" : ", by processes that cannot be inspected here:" + unseen));
  }
  return findings;
}

bool same_gpu(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
        std::tolower(static_cast<unsigned char>(y));
  });
}

// Decision: A win by clocks is no win of a layout. shardbench looks at each rank's clock
// between timed train steps. Of other runners the node agents see GPUs and not ranks: the
// lowest clock counts, since the others wait for it, as a median over the looks.

namespace {

struct Bit {
  std::uint64_t bit;
  std::string_view word;
};
// nvmlClocksEventReasons: not 0x1 (idle), 0x2 (clocks set by somebody), 0x10 (sync boost) and
// 0x100 (display).
constexpr std::array<Bit, 5> throttle_bits{{{0x4, "power cap"}, {0x8, "hardware slowdown"},
    {0x20, "too hot (driver)"}, {0x40, "too hot (hardware)"}, {0x80, "power brake"}}};

/// An hour at one look a second.
constexpr std::int64_t most_looks = 3600;
constexpr int bits = 64;
// The driver answers within a millisecond; tools that watch GPUs ask as often.
constexpr double pace_look_s = 1;

}  // namespace

void PaceOfNode::add(int gpu, const GpuPace& look) {
  Looks& looks = gpus_[gpu];
  if (looks.count >= most_looks) return;
  ++looks.count;
  if (look.sm_clock_mhz) looks.clocks.push_back(*look.sm_clock_mhz);
  if (look.power_w) looks.powers.push_back(*look.power_w);
  for (int place = 0; place < bits; ++place) {
    const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(place);
    if ((look.held_back & bit) != 0) ++looks.held_back[bit];
  }
}

Pace PaceOfNode::pace() const {
  std::vector<Pace> gpus;
  for (const auto& [number, looks] : gpus_) {
    Pace one{median_of(looks.clocks, Even::upper), median_of(looks.powers, Even::upper), 0};
    for (const auto& [bit, count] : looks.held_back) {
      if (2 * count > looks.count) one.held_back |= bit;
    }
    gpus.push_back(one);
  }
  return pace_of(gpus);
}

void PaceLooks::see(const Record& record) {
  if (record.type != RecordType::train_step) return;
  ++steps_ended_;
  timed_ = timed_ || record.timed.value_or(steps_ended_ > warmup_);
}

bool PaceLooks::take_due(double now_s) {
  if (!timed_ || (looked_at_s_ && now_s - *looked_at_s_ < pace_look_s)) return false;
  looked_at_s_ = now_s;
  return true;
}

Pace pace_of(const std::vector<Pace>& nodes) {
  Pace all;
  double powers = 0;
  for (const Pace& one : nodes) {
    if (one.power_w > 0) {
      all.power_w += one.power_w;
      ++powers;
    }
    if (one.sm_clock_mhz <= 0) continue;
    const bool slower = all.sm_clock_mhz <= 0 || one.sm_clock_mhz < all.sm_clock_mhz;
    if (!slower) continue;
    all.sm_clock_mhz = one.sm_clock_mhz;
    all.held_back = one.held_back;
  }
  if (powers > 0) all.power_w /= powers;
  return all;
}

std::vector<std::string> throttle_words(std::uint64_t bits) {
  std::vector<std::string> words;
  for (const Bit& known : throttle_bits) {
    if ((bits & known.bit) != 0) words.emplace_back(known.word);
  }
  return words;
}

}  // namespace shardsweep
