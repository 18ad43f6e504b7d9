// SPDX-License-Identifier: Apache-2.0
// What a trial is known by. Two trials with one identity would measure the same number;
// whatever can change the number changes the identity, and nothing else does. Identities are
// stored: the canonical text below is never changed, only extended by things that are left out
// while they have their default.
#pragma once

#include "text/content_hash.hpp"

#include <shardsweep/capabilities.hpp>
#include <shardsweep/sweep.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace shardsweep {

/// Digits of the identity at the end of a slug.
inline constexpr std::size_t slug_digits = 6;

/// Names the points of one sweep. Hashes what all its points share once.
///
/// In the identity: the model's name and shape, every axis that differs from its default, vars
/// by name and value, the repeat, the runner's name, version and arguments, the cluster's name
/// and hardware (GPU, GPUs per node, memory), the environment that reaches the ranks, and their
/// container but for its working folder.
/// Not in it: peaks and bandwidths (what we know of the same hardware), the number of timed
/// steps, positions, excludes, limits.
class Identifier {
 public:
  /// `site_env` is the site file's environment; the sweep's own wins over it.
  Identifier(const SweepSpec& sweep, const Capabilities& runner,
      const std::map<std::string, std::string>& site_env = {});

  /// 32 hex digits.
  [[nodiscard]] std::string identity(const Point& point) const;
  /// Readable, at most 80 characters of [A-Za-z0-9._-], unique within a sweep, like
  /// `llama-1b-n8-dp4tp8pp2-mb2ga4-z1-3f9a01`: nodes (or g: GPUs), layout, what is not default,
  /// and the first six digits of the identity. A longer one is cut, and has ten more digits
  /// before those.
  [[nodiscard]] std::string slug(const Point& point) const;
  /// The identity without micro_batch, grad_accum (axes with in_lane_key false) and repeat:
  /// after an OOM, what is larger in the same lane need not run.
  [[nodiscard]] std::string lane_key(const Point& point) const;

 private:
  [[nodiscard]] Fnv128 hash(const Point& point, bool lane) const;

  struct Var {
    std::size_t index;                 ///< index into Point::vars
    std::vector<std::string> text;     ///< canonical, per value
    std::vector<std::string> in_slug;  ///< readable, per value
  };
  std::vector<Fnv128> by_model_;     ///< hash of everything that does not vary, and the model
  std::vector<std::string> models_;  ///< file-name-safe
  std::vector<Var> vars_;            ///< vars in the order of their names
};

[[nodiscard]] std::string identity(const SweepSpec& sweep, const Capabilities& runner,
    const Point& point, const std::map<std::string, std::string>& site_env = {});
[[nodiscard]] std::string slug(const SweepSpec& sweep, const Capabilities& runner,
    const Point& point, const std::map<std::string, std::string>& site_env = {});
[[nodiscard]] std::string lane_key(const SweepSpec& sweep, const Capabilities& runner,
    const Point& point, const std::map<std::string, std::string>& site_env = {});

}  // namespace shardsweep
