// SPDX-License-Identifier: Apache-2.0
// What a trainer does where layouts leave it open: a run with its profile does the same.
#pragma once

#include "base/error.hpp"
#include "device/dtype.hpp"
#include "parallel/layout.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

struct Profile {
  std::string_view name;
  std::string_view trainer;
  Habits habits;
  i64 most_zero;               // the highest ZeRO stage that the trainer has
  bool always_shards_weights;  // true: weights are sharded whenever dp is above 1
  std::string_view optimizer;  // formats of its state, which are the same in all profiles
};

/// own, megatron, nanotron, torchtitan; the first is the default.
const std::vector<Profile>& profiles();
/// Null if there is none of that name.
const Profile* find_profile(std::string_view name);

/// A layout that the trainer can't have, as an expression for the planner and as a predicate.
struct ProfileRule {
  std::string when;
  std::string why;
  std::function<bool(const Layout&)> broken;
};
constexpr std::string_view profile_constraint = "runner:profile";
std::vector<ProfileRule> profile_rules(const Profile& profile);

/// Why a trainer with this profile can't have the layout.
std::optional<Error> profile_refusal(const Profile& profile, const Layout& layout);

/// One JSON object: what the run did, flags that came after --profile included.
std::string profile_json(const Profile& profile, const Layout& layout);

}  // namespace shardbench
