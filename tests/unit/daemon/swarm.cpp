// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/swarm.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <string_view>

namespace shardsweep::testing {
namespace {

/// A setting of the sweep file, and what it may be in place of its default.
struct Knob {
  std::string_view section;
  std::string_view key;
  std::vector<std::string_view> values;
};

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> all{
      {"retry", "on_trial", {"0", "2"}},
      {"retry", "elsewhere", {"0", "1"}},
      {"retry", "fragmented", {"0"}},
      {"retry", "failed_starts", {"1", "6"}},
      {"retry", "failed_nodes", {"2", "30"}},
      {"node_health", "quarantine_after", {"2"}},
      {"node_health", "suspect_after", {"1"}},
      {"node_health", "layout_after", {"2"}},
      {"node_health", "most_out", {"0", "1"}},
      {"node_health", "probe_after", {"20s", "60s"}},
      {"node_health", "remember", {"120s"}},
      {"node_health", "control_least", {"2"}},
      {"lane", "length", {"1", "2", "3"}},
      {"lane", "array", {"3"}},
      {"lane", "ahead", {"60s", "2h"}},
      {"lane", "max_time", {"20min"}},
      {"limits", "max_allocations", {"1", "2", "6"}},
      {"limits", "max_pending", {"1"}},
      {"limits", "max_nodes", {"2"}},
      {"limits", "partition_share", {"50%"}},
      {"limits", "yield", {"hold", "drain"}},
      {"daemon", "claim_limit", {"60s", "120s"}},
      {"daemon", "lead_limit", {"60s", "1200s"}},
      {"daemon", "stall", {"60s"}},
      {"daemon", "blind", {"60s"}},
  };
  return all;
}

}  // namespace

Swarm::Swarm()
    : trouble({{Trouble::unreachable, 2}, {Trouble::lists_nothing, 2},
          {Trouble::accounting_lags, 4}, {Trouble::look_is_slow, 2}, {Trouble::job_hidden, 2},
          {Trouble::clock_set, 2}, {Trouble::daemon_ended, 2}, {Trouble::answer_odd, 7},
          {Trouble::node_found, 4}, {Trouble::others_wait, 2}, {Trouble::reads_fail, 4}}),
      answer({{Sbatch::late, 2}, {Sbatch::lost, 2}, {Sbatch::unseen, 7}, {Sbatch::unsent, 2},
          {Sbatch::refuses, 1}, {Sbatch::lacks_nodes, 1}, {Sbatch::defers, 2}, {Sbatch::full, 2}}),
      queue_end({{QueueEnd::held, 1}, {QueueEnd::held_after_launch, 1}, {QueueEnd::cancelled, 1},
          {QueueEnd::failed, 1}}),
      fate({{JobFate::node_failed, 1}, {JobFate::host_given_up, 1}, {JobFate::preempted, 2},
          {JobFate::timed_out, 1}, {JobFate::cancelled, 2}, {JobFate::requeued, 1},
          {JobFate::silent, 1}, {JobFate::suspended, 1}, {JobFate::failed, 2},
          {JobFate::node_lost, 2}, {JobFate::node_stopped, 2}, {JobFate::agent_killed, 2},
          {JobFate::guard_killed, 1}, {JobFate::lead_killed, 1}, {JobFate::clock_jumps, 1}}),
      outcome({{Outcome::oom, 2}, {Outcome::crashed, 1}, {Outcome::hung, 1}, {Outcome::timeout, 1},
          {Outcome::node_failure, 1}, {Outcome::lost, 1}, {Outcome::comm_error, 1},
          {Outcome::rejected, 1}}),
      oddity({{Oddity::none, 5}, {Oddity::marked, 2}, {Oddity::fragmented, 2},
          {Oddity::not_started, 1}, {Oddity::other_programs, 2}, {Oddity::leaks, 2},
          {Oddity::ignores_term, 2}, {Oddity::exits_early, 1}}),
      wish({{Wish::pause, 1}, {Wish::resume, 2}, {Wish::cancel, 2}, {Wish::rerun, 2},
          {Wish::edit, 1}, {Wish::clear_node, 1}}) {}

void Swarm::draw(std::mt19937_64& random) {
  few = random() % 2 == 0;
  for (Often* often : {&deaths, &troubles, &queue_ends, &fates, &wishes, &slow_prologs})
    often->draw(random, few);
  trouble.draw(random, few);
  answer.draw(random, few);
  queue_end.draw(random, few);
  fate.draw(random, few);
  outcome.draw(random, few);
  oddity.draw(random, few);
  wish.draw(random, few);
  const auto drawn = [&](std::uint64_t usual) -> std::uint64_t {
    return random() % (few ? 4 : 2) == 0 ? usual : 0;
  };
  in_allocations = {.slow_channel = drawn(40),
      .late_orders = drawn(3),
      .unwritten = drawn(30),
      .unsynced = drawn(4),
      .unreadable = drawn(60),
      .late_records = drawn(3),
      .full_disk = drawn(30),
      .slow_settling = drawn(10)};
}

PlayedSweep drawn_sweep(const std::string& name, std::mt19937_64& random) {
  struct Kind {
    std::string_view settings;
    int weight;
  };
  // What few sweeps have must come up in each run of the test all the same.
  constexpr std::array<Kind, 10> all{{{"", 3}, {"limits: {max_gpu_hours: 0.3}\n", 2},
      {"search: {policy: best_first, until: {regret: 5%}}\n", 1},
      {"search: {policy: best_first, until: {runs: 1}}\n", 1},
      {"measure: {finalists: 2, repeats: 2}\n", 1},
      {"measure: {finalists: 2, repeats: 3, node_sets: 2, resolve: 20%}\n", 2},
      {"profile: {finalists: nsys}\n", 2},
      {"measure: {finalists: 2, repeats: 1}\nprofile: {finalists: nsys}\n", 1},
      {"retry: {elsewhere: 0}\n", 3}, {"control: {tp: 8}\n", 2}}};
  std::vector<std::string_view> kinds;
  for (const Kind& one : all)
    kinds.insert(kinds.end(), static_cast<std::size_t>(one.weight), one.settings);
  PlayedSweep sweep;
  sweep.name = name;
  const std::string kind(kinds[random() % kinds.size()]);
  // Half of the sweeps keep nearly all defaults.
  const std::uint64_t rare = random() % 2 == 0 ? 16 : 4;
  std::map<std::string_view, std::string> sections;
  for (const Knob& knob : knobs()) {
    if (random() % rare != 0) continue;
    if (kind.starts_with(knob.section)) continue;
    std::string& section = sections[knob.section];
    section += fmt::format("{}{}: {}", section.empty() ? "" : ", ", knob.key,
        knob.values[random() % knob.values.size()]);
  }
  sweep.settings = kind;
  for (const auto& [section, text] : sections)
    sweep.settings += fmt::format("{}: {{{}}}\n", section, text);
  sweep.site = random() % 4 == 0 ? "backend: slurm\nstrict: true\n" : "backend: slurm\n";
  sweep.nodes = random() % 3 == 0 ? std::vector{1, 2} : std::vector{1};
  sweep.micro_batch = random() % 2 == 0 ? std::vector{1, 2, 4} : std::vector{1, 2};
  return sweep;
}

}  // namespace shardsweep::testing
