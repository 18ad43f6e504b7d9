// SPDX-License-Identifier: Apache-2.0
// A named rule: after an OOM, what needs at least as much memory is not tried. It compares only
// layouts that differ in nothing but sizes of which memory grows, whatever the trainer is.
// Everything that needs an estimate is FitBelief's to judge, and may be taken back.
#pragma once

#include "search/search_point.hpp"

namespace shardsweep {

/// Whether `b` holds all that `a` holds and nothing less: the same software and mechanisms, at
/// least as large micro-batches in flight, no more recomputation, no more shards. They may be
/// of jobs of different sizes: without ZeRO a rank holds the same on any number of nodes.
/// Nothing is known of points whose table leaves out what memory depends on.
[[nodiscard]] bool needs_as_much(const SearchPoint& b, const SearchPoint& a);

}  // namespace shardsweep
