// SPDX-License-Identifier: Apache-2.0
#include "measurement/samples.hpp"

#include "base/counter_random.hpp"

namespace shardbench {

std::vector<std::int32_t> make_sample(const SampleKey& key, i64 vocab, i64 seq_len) {
  const u64 base = mix(mix(key.seed, static_cast<u64>(key.step)), static_cast<u64>(key.sample));
  std::vector<std::int32_t> tokens;
  tokens.reserve(static_cast<std::size_t>(seq_len) + 1);
  i64 previous = 0;
  for (i64 i = 0; i <= seq_len; ++i) {
    const u64 random = mix(base, static_cast<u64>(i));
    const bool follows = i > 0 && (random & 1) == 0;
    previous = follows ? (previous * 5 + 7) % vocab
                       : static_cast<i64>((random >> 1) % static_cast<u64>(vocab));
    tokens.push_back(static_cast<std::int32_t>(previous));
  }
  return tokens;
}

}  // namespace shardbench
