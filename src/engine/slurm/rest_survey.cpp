// SPDX-License-Identifier: Apache-2.0
#include "slurm/rest_survey.hpp"

#include <algorithm>

namespace shardsweep::slurm {
namespace {

constexpr double sizes_again_s = 3600;

}  // namespace

bool RestSurvey::is_wanted(Topic topic) const {
  if (!questions_) return false;
  // Who waits is said by partition, and jobs without one wait in the default one.
  return questions_->others || (topic == Topic::partitions && questions_->partitions);
}

std::optional<RestSurvey::Topic> RestSurvey::due(double now_s) const {
  for (const Topic topic : topics) {
    if (!is_wanted(topic)) continue;
    const auto asked = asked_at_s_.at(static_cast<std::size_t>(topic));
    const double again_s = topic == Topic::others ? questions_->others_s : sizes_again_s;
    if (!asked || now_s - *asked >= again_s) return topic;
  }
  return std::nullopt;
}

std::string_view RestSurvey::next(double now_s) {
  asked_ = due(now_s).value_or(Topic::partitions);
  asked_at_s_.at(static_cast<std::size_t>(*asked_)) = now_s;
  return *asked_ == Topic::partitions ? "partitions" : "jobs";
}

double RestSurvey::answer_limit_s() const {
  return questions_ ? questions_->answer_limit_s : SiteQuestions{}.answer_limit_s;
}

Result<void> RestSurvey::take(const Result<std::string>& body) {
  const bool partitions = asked_ == Topic::partitions;
  asked_.reset();
  fresh_ = true;
  if (!body) return tl::unexpected<Fault>(body.error());
  return partitions ? read_rest_partitions(*body, facts_)
                    : read_rest_waiting(*body, own_uid_, facts_);
}

void RestSurvey::report(std::vector<SchedulerEvent>& events) {
  if (!questions_ || asked_ || (answered_ && !fresh_)) return;
  const bool whole = std::all_of(topics.begin(), topics.end(), [this](Topic topic) {
    return !is_wanted(topic) || asked_at_s_.at(static_cast<std::size_t>(topic));
  });
  if (!whole) return;
  answered_ = true;
  fresh_ = false;
  events.emplace_back(SiteSeen{facts_});
}

}  // namespace shardsweep::slurm
