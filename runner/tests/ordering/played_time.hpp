// SPDX-License-Identifier: Apache-2.0
// How long recorded work takes at given rates: each stream does its work in order, streams run
// beside each other, a collective begins when all members have come to it. No GPU is asked:
// this says what is exposed by the order of the work, not how fast a GPU is.
#pragma once

#include "ordered_gpu.hpp"

#include <map>
#include <vector>

namespace shardbench::ordered {

struct Rates {
  double flops;
  double fp8_flops;
  double bytes;     // bytes/s of the GPU's memory
  double launch_s;  // launch of a kernel, beside the time that these rates limit
  double link;      // bytes per second of a rank to others
  double message_s;
};

/// Start of an operation whose turn comes while a product is computed.
enum class Beginning {
  free,          // communication takes no time: what is left are bubbles
  at_once,       // finds multiprocessors at once
  after_product  // the product has all of them, unless it waited for that turn, or came later
                 // in the one queue that all streams share
};

struct PlayedTimes {
  double seconds = 0;
  double communication_s = 0;  // time of operations, the largest sum of a rank
};

/// Plays the works of all ranks, by rank.
PlayedTimes play(const std::map<i64, std::vector<Work>>& ranks, const Rates& rates,
    Beginning beginning, bool one_queue);

}  // namespace shardbench::ordered
