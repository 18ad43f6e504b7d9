// SPDX-License-Identifier: Apache-2.0
#include "communication/all_to_all.hpp"

#include <cstddef>
#include <utility>

namespace shardbench {
namespace {

/// Calls with member, place and number of values of each part that is not empty.
template <typename Call>
void each_part(const RankContext& c, const PartsOfMembers& parts, Call call) {
  i64 first = 0;
  for (std::size_t member = 0; member < parts.counts.size(); ++member) {
    const i64 count = parts.counts[member];
    if (count > 0) call(static_cast<i64>(member), parts.data + c.value_bytes(first), count);
    first += count;
  }
}

}  // namespace

Exchange::Exchange(
    const RankContext& c, Communicator& group, const PartsOfMembers& in, const PartsOfMembers& out)
    : group_(group) {
  std::byte* own = nullptr;
  each_part(c, in, [&](i64 member, std::byte* at, i64 count) {
    if (member == group.rank())
      own = at;
    else
      tokens_.push_back(group.receive(at, count, c.value_dtype(), member));
  });
  each_part(c, out, [&](i64 member, const std::byte* at, i64 count) {
    if (member == group.rank())
      c.device.copy(own, at, c.value_bytes(count));
    else
      tokens_.push_back(group.send(at, count, c.value_dtype(), member));
  });
  group.start_messages();
}

void Exchange::wait() {
  for (const Token token : std::exchange(tokens_, {}))
    group_.wait(token);
}

void all_to_all(const RankContext& c, Communicator& group, const PartsOfMembers& in,
    const PartsOfMembers& out) {
  Exchange(c, group, in, out).wait();
}

}  // namespace shardbench
