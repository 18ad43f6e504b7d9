// SPDX-License-Identifier: Apache-2.0
// Decision: GPU memory that no visible process holds takes the node out. Memory that another
// process holds marks the measurement.
#include "attempt/gpu_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

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

}  // namespace shardsweep
