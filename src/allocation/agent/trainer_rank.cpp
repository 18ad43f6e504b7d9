// SPDX-License-Identifier: Apache-2.0
#include "agent/trainer_rank.hpp"

#include "agent/side_run.hpp"
#include "text/placeholders.hpp"
#include "trainer/trainers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep::agent {
namespace {

constexpr const char* unbuffered = "PYTHONUNBUFFERED";

void replace(Environment& environment, const std::string& name, const std::string& value) {
  std::erase_if(
      environment, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  environment.push_back(name + "=" + value);
}

std::pair<std::string, std::string> host_and_port(const std::string& meet) {
  const std::size_t colon = std::min(meet.rfind(':'), meet.size());
  return {meet.substr(0, colon), meet.substr(std::min(colon + 1, meet.size()))};
}

/// A launcher (torchrun) numbers the ranks of its node itself.
void describe_node(Environment& environment, int node_rank, int nodes) {
  for (const std::string name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
    std::erase_if(
        environment, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  replace(environment, "NODE_RANK", std::to_string(node_rank));
  replace(environment, "NNODES", std::to_string(nodes));
}

/// Alone, as one rank of a world that its trainer pretends.
void play_rank(RankProcess& process, const AttemptSpec& spec) {
  replace(process.environment, "RANK", std::to_string(spec.trainer->fake_rank));
  replace(process.environment, "WORLD_SIZE", std::to_string(spec.trainer->fake_world));
  for (const auto& [name, value] : fake_variables(spec))
    replace(process.environment, name, value);
  const Trainer* trainer = find_trainer(spec.trainer->log);
  if (trainer != nullptr && !trainer->fake.flag.empty())
    add_words(process.argv, {trainer->fake.flag});
}

}  // namespace

int processes_of(const AttemptSpec& spec, int ranks) {
  return spec.trainer && spec.trainer->per_node ? std::min(ranks, 1) : ranks;
}

std::map<std::string, std::string> fake_variables(const AttemptSpec& spec) {
  std::map<std::string, std::string> variables;
  const bool alone = spec.trainer && spec.trainer->fake_world > 0;
  const Trainer* trainer = alone ? find_trainer(spec.trainer->log) : nullptr;
  if (trainer == nullptr) return variables;
  const FakeWorld& fake = trainer->fake;
  if (const auto equals = fake.variable.find('='); equals != std::string_view::npos)
    variables.emplace(fake.variable.substr(0, equals), fake.variable.substr(equals + 1));
  if (!fake.world.empty()) variables.emplace(fake.world, std::to_string(spec.trainer->fake_world));
  return variables;
}

void set_meeting_place(Environment& environment, const std::string& meet) {
  const auto [host, port] = host_and_port(meet);
  replace(environment, "MASTER_ADDR", host);
  replace(environment, "MASTER_PORT", port);
}

void complete_trainer(RankProcess& process, const AttemptSpec& spec, const RankPlace& place,
    const std::string& meet) {
  if (!spec.trainer) return;
  const auto [host, port] = host_and_port(meet);
  const int node_rank = place.rank / spec.ranks_per_node;
  const int nodes = (spec.world + spec.ranks_per_node - 1) / spec.ranks_per_node;
  set_meeting_place(process.environment, meet);
  // Unbuffer the log, which is followed while it runs: Python holds back output into a file.
  if (!value_in(process.environment, unbuffered))
    process.environment.push_back(fmt::format("{}=1", unbuffered));
  if (spec.trainer->per_node) describe_node(process.environment, node_rank, nodes);
  const bool alone = spec.trainer->fake_world > 0;
  if (alone) play_rank(process, spec);
  process.argv = filled_words(process.argv,
      {{"rank", std::to_string(alone ? spec.trainer->fake_rank : place.rank)},
          {"local_rank", std::to_string(place.local_rank)},
          {"node_rank", std::to_string(node_rank)}, {"master_addr", host}, {"master_port", port}},
      DoubleBraces::make_single);
  if (!spec.trainer->directory.empty()) process.directory = spec.trainer->directory;
}

}  // namespace shardsweep::agent
