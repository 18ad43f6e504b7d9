// SPDX-License-Identifier: Apache-2.0
// What the trainers do by default, as their documentation describes it: Megatron-LM's
// distributed optimizer, nanotron's ZeRO 1, torchtitan's FSDP2. No trainer was measured against
// this table.
#include "measurement/profile.hpp"

#include "base/json.hpp"

namespace shardbench {
namespace {

constexpr i64 highest_zero = 3;
constexpr std::string_view fp32_state = "fp32 gradients, masters and moments";

}  // namespace

const std::vector<Profile>& profiles() {
  static const std::vector<Profile> table{
      {.name = "own",
          .trainer = "shardbench",
          .habits = {},
          .most_zero = 3,
          .always_shards_weights = false,
          .optimizer = fp32_state},
      // Pads to 128 · tp, recomputes the attention core, gathers parameters under the next
      // forward, sums over tp beside the weights' gradient: for that it asks for one queue of
      // the GPU, so that the sum starts before the product beside it. Its distributed optimizer
      // is ZeRO 1. Shared experts under the exchange of rows are an option.
      {.name = "megatron",
          .trainer = "Megatron-LM",
          .habits = {.selective = Selective::attention,
              .expert_overlap = ExpertOverlap::none,
              .goes_first = false,
              .one_queue = true},
          .most_zero = 1,
          .always_shards_weights = false,
          .optimizer = fp32_state},
      // Pads to tp alone; gathers weights after the update, before the next step. Its
      // asynchronous tp refuses to run without one queue.
      {.name = "nanotron",
          .trainer = "nanotron",
          .habits = {.vocab_multiple = 1,
              .selective = Selective::attention,
              .gather_overlap = false,
              .expert_overlap = ExpertOverlap::none,
              .goes_first = false,
              .one_queue = true},
          .most_zero = 1,
          .always_shards_weights = false,
          .optimizer = fp32_state},
      // FSDP2: weights, gradients and state are sharded over dp. Selective keeps products and
      // attention. Sums over tp are waited for: its asynchronous tp is an option. Shared
      // experts run between the experts' products and the use of what comes back.
      {.name = "torchtitan",
          .trainer = "torchtitan",
          .habits = {.vocab_multiple = 1,
              .tp_overlap = false,
              .expert_overlap = ExpertOverlap::way_back,
              .goes_first = false},
          .most_zero = 3,
          .always_shards_weights = true,
          .optimizer = fp32_state},
  };
  return table;
}

const Profile* find_profile(std::string_view name) {
  for (const Profile& profile : profiles())
    if (profile.name == name) return &profile;
  return nullptr;
}

std::vector<ProfileRule> profile_rules(const Profile& profile) {
  const std::string trainer(profile.trainer);
  std::vector<ProfileRule> rules;
  if (profile.most_zero < highest_zero)
    rules.push_back({"zero > " + std::to_string(profile.most_zero),
        trainer + " has ZeRO 0 to " + std::to_string(profile.most_zero),
        [most = profile.most_zero](const Layout& l) { return l.zero > most; }});
  if (profile.always_shards_weights)
    rules.push_back({"dp > dp_replicate and zero < 2",
        trainer + " shards gradients over dp: zero has to be 2 or 3",
        [](const Layout& l) { return l.dp > l.dp_replicate && l.zero < 2; }});
  return rules;
}

std::optional<Error> profile_refusal(const Profile& profile, const Layout& layout) {
  for (const ProfileRule& rule : profile_rules(profile))
    if (rule.broken(layout))
      return Error{.kind = ErrorClass::invalid_layout,
          .message = std::string(profile_constraint) + ": " + rule.why};
  return std::nullopt;
}

std::string profile_json(const Profile& profile, const Layout& layout) {
  const Habits& h = layout.habits;
  constexpr const char* sharded[] = {
      "", "optimizer", "optimizer, gradients", "optimizer, gradients, weights"};
  return JsonObject{}
      .text("name", profile.name)
      .text("sharded", sharded[layout.zero])
      .boolean("gradients_overlap_backward", layout.overlap)
      .boolean("weight_gather_overlaps_forward",
          (layout.zero == 1 || layout.zero == 2) && layout.overlap && h.gather_overlap)
      .boolean("tp_sum_overlaps_weight_gradient", layout.tp > 1 && h.tp_overlap)
      .text("experts_overlap_shared_ones", expert_overlap_name(h.expert_overlap))
      .boolean("products_wait_for_operations_to_begin", h.goes_first)
      .boolean("one_queue", h.one_queue)
      .text("selective_recompute", selective_name(h.selective))
      .number("dropout", 0)
      .integer("vocab_multiple", h.vocab_multiple)
      .text("optimizer", profile.optimizer)
      .str();
}

}  // namespace shardbench
