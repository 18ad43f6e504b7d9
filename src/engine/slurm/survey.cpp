// SPDX-License-Identifier: Apache-2.0
#include "slurm/survey.hpp"

#include "slurm/words/survey.hpp"
#include "text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardsweep::slurm {
namespace {

// Limits and sizes change when somebody changes the configuration.
constexpr double settings_again_s = 3600;
constexpr std::size_t most_output = 32 << 20;  // a million waiting jobs

}  // namespace

std::vector<std::string> Survey::command_for(Topic topic) const {
  switch (topic) {
    case Topic::accounts:
      return accounts_command(user_);
    case Topic::qos:
      return qos_command();
    case Topic::partitions:
      return partitions_command();
    case Topic::others:
      return waiting_command();
  }
  return {};
}

bool Survey::is_wanted(Topic topic) const {
  // Who waits is said by partition, and jobs without one wait in the default one.
  if (topic == Topic::partitions) return questions_->partitions || questions_->others;
  return topic != Topic::others || questions_->others;
}

bool Survey::is_due(Topic topic, double now_s) const {
  if (!is_wanted(topic)) return false;
  const auto asked = asked_at_s_.at(static_cast<std::size_t>(topic));
  const double again_s = topic == Topic::others ? questions_->others_s : settings_again_s;
  return !asked || now_s - *asked >= again_s;
}

Result<void> Survey::take(const Result<CommandOutput>& output) {
  const std::string program = command_for(topic_).front();
  if (!output) return tl::unexpected<Fault>(output.error());
  if (output->exit_code != 0 || output->truncated) {
    const std::string said = one_line(output->err.substr(0, output->err.find('\n')), 300);
    return fault(FaultKind::unavailable,
                 fmt::format("{} ended with {}: {}", program,
                             output->signal != 0 ? -output->signal : output->exit_code,
                             output->truncated ? "its output is too large" : said));
  }
  switch (topic_) {
    case Topic::accounts:
      return read_accounts(output->out, facts_);
    case Topic::qos:
      return read_qos(output->out, facts_);
    case Topic::partitions:
      return read_partitions(output->out, facts_);
    case Topic::others:
      return read_waiting(output->out, own_uid_, facts_);
  }
  return {};
}

void Survey::start_next(double now_s, std::vector<SchedulerEvent>& events) {
  for (const Topic topic : topics) {
    if (!is_due(topic, now_s)) continue;
    asked_at_s_.at(static_cast<std::size_t>(topic)) = now_s;
    topic_ = topic;
    fresh_ = true;
    auto command = RunningCommand::start(
        command_for(topic),
        {.deadline = std::chrono::milliseconds(std::llround(questions_->answer_limit_s * 1e3)),
         .output_limit = most_output,
         .environment = environment_});
    if (command) {
      command_ = std::move(*command);
      return;
    }
    events.emplace_back(LookFailed{command.error().what});
  }
}

void Survey::step(double now_s, std::vector<SchedulerEvent>& events) {
  if (command_) {
    const auto done = command_->poll();
    if (!done) return;
    command_.reset();
    const auto taken = take(*done);
    // Where nobody keeps accounts there are no limits of them.
    const bool told = topic_ == Topic::partitions || topic_ == Topic::others;
    if (!taken && told) events.emplace_back(LookFailed{taken.error().what});
  }
  if (!questions_) return;
  // Before anything is asked again: answers that come as slowly as they are asked for would
  // never be told.
  report(events);
  start_next(now_s, events);
}

void Survey::report(std::vector<SchedulerEvent>& events) {
  if (answered_ && !fresh_) return;
  const bool whole = std::all_of(topics.begin(), topics.end(), [this](Topic topic) {
    return !is_wanted(topic) || asked_at_s_.at(static_cast<std::size_t>(topic));
  });
  if (!whole) return;
  answered_ = true;
  fresh_ = false;
  events.emplace_back(SiteSeen{facts_});
}

}  // namespace shardsweep::slurm
