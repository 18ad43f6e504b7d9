// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_slurm.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

namespace shardsweep::testing {
namespace {

constexpr std::int64_t own_uid = 1000;
constexpr std::size_t cluster_nodes = 12;

/// The value of `#SBATCH --OPTION=…` in a job script; empty where it has none.
std::string option_in(const std::filesystem::path& script, const std::string& option) {
  std::ifstream file(script);
  const std::string begin = "#SBATCH --" + option + "=";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(begin)) return line.substr(begin.size());
  }
  return "";
}

std::set<std::string> names_in(const std::string& list) {
  std::set<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');)
    names.insert(name);
  return names;
}

slurm::Job listed(const PlayedJob& job, slurm::Source source) {
  slurm::Job row;
  row.id = job.id;
  row.name = job.name;
  row.state = job.suspended && job.runs() ? "SUSPENDED" : job.state;
  if (!job.ending.empty() && job.runs()) row.state = "COMPLETING";
  row.reason = job.pends() ? job.reason : "None";
  row.nodes = job.nodes;
  row.source = source;
  // squeue does not say who has cancelled it.
  if (source == slurm::Source::queue) row.state = row.state.substr(0, row.state.find(' '));
  if (source == slurm::Source::accounting) row.exit_code = job.exit_code;
  return row;
}

}  // namespace

/// One daemon's view of it.
class PlayedSlurmScheduler final : public Scheduler {
 public:
  PlayedSlurmScheduler(PlayedSlurm& slurm, ManualClock& clock, Fate& fate)
      : slurm_(slurm), clock_(clock), fate_(fate) {}

  [[nodiscard]] std::string name() const override { return "slurm"; }
  [[nodiscard]] double look_interval_s() const override { return slurm_.look_interval_s; }

  void submit(const AllocationRequest& request) override {
    fate_.call();
    const int times = slurm_.mistake_in_submit ? slurm_.mistake_in_submit(request) : 1;
    for (int i = 0; i < times; ++i)
      waiting_.emplace_back(request.token, slurm_.submit(request));
    fate_.call();
  }
  void cancel(const AllocationHandle& handle) override {
    fate_.call();
    cancel_job({handle.job_id, handle.job_name}, handle.waits);
  }
  void release(const AllocationHandle& handle) override {
    fate_.call();
    PlayedJob* job = slurm_.job_of(handle.token);
    if (job != nullptr && job->reason == "JobHeldUser") job->reason = "Priority";
  }
  void look(const std::vector<AllocationHandle>& handles) override {
    fate_.call();
    if (look_) return;
    ++slurm_.calls.looks;
    look_ = Look{handles, slurm_.queue(), slurm_.accounts(), slurm_.reachable,
        steady() + seconds(slurm_.look_takes_s)};
  }
  void ask(const std::optional<SiteQuestions>& questions) override { questions_ = questions; }
  [[nodiscard]] bool knows_site() const override { return slurm_.tells_site; }
  [[nodiscard]] std::vector<SchedulerEvent> poll() override {
    take_answers();
    tell_site();
    if (look_ && steady() >= look_->due) conclude_look();
    if (events_.empty()) return {};
    fate_.call();
    if (slurm_.mistake_in_events) slurm_.mistake_in_events(events_);
    if (slurm_.answered) std::for_each(events_.begin(), events_.end(), slurm_.answered);
    return std::exchange(events_, {});
  }

 private:
  struct Look {
    std::vector<AllocationHandle> handles;
    std::vector<slurm::Job> queue;
    std::vector<slurm::Job> accounts;
    bool answered = true;
    std::chrono::steady_clock::time_point due;
  };
  void tell_site() {
    if (!slurm_.tells_site || !questions_) return;
    SiteFacts facts;
    facts.partitions_known = questions_->partitions;
    facts.others_known = questions_->others;
    facts.default_partition = "main";
    facts.partitions["main"] = {static_cast<std::int32_t>(cluster_nodes), slurm_.others_waiting};
    if (told_ == facts) return;
    told_ = facts;
    events_.emplace_back(SiteSeen{std::move(facts)});
  }
  static std::chrono::microseconds seconds(double s) {
    return std::chrono::microseconds(static_cast<std::int64_t>(s * 1e6));
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const {
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(clock_.true_time()));
  }
  [[nodiscard]] double steady_s() const { return static_cast<double>(clock_.true_time()) * 1e-6; }

  void take_answers() {
    std::erase_if(waiting_, [this](auto& entry) {
      if (steady() < entry.second.due) return false;
      missed_.erase(entry.first);
      events_.push_back(std::move(entry.second.event));
      return true;
    });
  }
  void conclude_look() {
    Look look = *std::exchange(look_, std::nullopt);
    if (!look.answered) {
      events_.emplace_back(LookFailed{"squeue ended with 1: Unable to contact slurmctld"});
      return;
    }
    std::vector<slurm::Job> jobs = std::move(look.queue);
    if (slurm_.accounting && !slurm::to_be_accounted(look.handles, jobs).empty())
      jobs.insert(jobs.end(), look.accounts.begin(), look.accounts.end());
    slurm::LookContext context{
        .own_uid = own_uid, .now_s = steady_s(), .settle_s = 10, .accounting = slurm_.accounting};
    for (const auto& [token, answer] : waiting_)
      context.on_its_way.insert(token);
    auto result = slurm::conclude(look.handles, jobs, context, missed_);
    for (const slurm::NamedJob& job : result.cancel)
      cancel_job(job, true);
    for (SchedulerEvent& event : result.events) {
      auto* seen = std::get_if<JobSeen>(&event);
      if (seen != nullptr && cancelled_at_s_.contains(seen->job_id)) slurm::mark_own_cancel(*seen);
      if (const auto* gone = std::get_if<JobNotSeen>(&event))
        slurm_.free_again_.insert(gone->token);
      events_.push_back(std::move(event));
    }
  }
  void cancel_job(const slurm::NamedJob& job, bool only_pending) {
    if (job.id.empty()) return;
    const auto known = cancelled_at_s_.find(job.id);
    if (known != cancelled_at_s_.end() && steady_s() - known->second < 60) return;
    cancelled_at_s_[job.id] = steady_s();
    slurm_.cancel_for_daemon(job, only_pending);
  }

  PlayedSlurm& slurm_;
  ManualClock& clock_;
  Fate& fate_;
  std::vector<std::pair<std::string, PlayedSlurm::Submitted>> waiting_;
  std::optional<Look> look_;
  std::optional<SiteQuestions> questions_;
  std::optional<SiteFacts> told_;
  slurm::MissedJobs missed_;
  std::map<std::string, double> cancelled_at_s_;
  std::vector<SchedulerEvent> events_;
};

std::unique_ptr<Scheduler> PlayedSlurm::scheduler(Fate& fate) {
  return std::make_unique<PlayedSlurmScheduler>(*this, clock_, fate);
}

PlayedJob* PlayedSlurm::job_of(const std::string& token) {
  const auto found = std::find_if(
      jobs.rbegin(), jobs.rend(), [&](const PlayedJob& job) { return job.token == token; });
  return found == jobs.rend() ? nullptr : &*found;
}

bool PlayedSlurm::anything_alive() const {
  return std::any_of(
      jobs.begin(), jobs.end(), [](const PlayedJob& job) { return !job.over() || job.lead_alive; });
}

/// A token is submitted again only where its job was looked for and not found, or where Slurm
/// itself has sent it away.
void PlayedSlurm::check_submission(const AllocationRequest& request) {
  const bool first = submitted_.insert(request.token).second;
  const bool free = free_again_.erase(request.token) != 0;
  if (!first && !free)
    violations.push_back(
        fmt::format("{} was submitted again, and nobody had missed it", request.job_name));
}

PlayedSlurm::Submitted PlayedSlurm::submit(const AllocationRequest& request) {
  ++calls.submissions;
  check_submission(request);
  Sbatch answer = Sbatch::accepts;
  if (!answers.empty()) {
    answer = answers.front();
    answers.pop_front();
  }
  const auto now =
      std::chrono::steady_clock::time_point(std::chrono::microseconds(clock_.true_time()));
  // As Slurm itself says where a job excludes too many.
  if (answer == Sbatch::accepts && nodes_for(request.script, 0).empty())
    answer = Sbatch::lacks_nodes;
  const bool arrives = answer == Sbatch::accepts || answer == Sbatch::late ||
      answer == Sbatch::lost || answer == Sbatch::unseen;
  if (arrives) {
    PlayedJob& job = jobs.emplace_back();
    job.id = fmt::format("{}", ++ids_);
    job.token = request.token;
    job.name = request.job_name;
    job.dir = request.dir;
    job.unseen = answer == Sbatch::unseen;
    if (request.strict) job.reason = "JobHeldUser";
  }
  const auto late = now + std::chrono::microseconds(static_cast<std::int64_t>(late_s * 1e6));
  switch (answer) {
    case Sbatch::accepts:
      return {SubmitAccepted{request.token, jobs.back().id}, now};
    case Sbatch::late:
      return {SubmitAccepted{request.token, jobs.back().id}, late};
    case Sbatch::lost:
    case Sbatch::unseen:
    case Sbatch::unsent:
      return {SubmitUnknown{request.token, "sbatch was ended by its deadline"}, late};
    case Sbatch::lacks_nodes:
      free_again_.insert(request.token);
      return {SubmitRefused{request.token,
                  "sbatch: error: Batch job submission failed: Requested node "
                  "configuration is not available"},
          now};
    case Sbatch::refuses:
      free_again_.insert(request.token);
      return {SubmitRefused{request.token, "sbatch: error: invalid partition"}, now};
    case Sbatch::defers:
    case Sbatch::full:
      free_again_.insert(request.token);
      return {
          SubmitDeferred{request.token, "sbatch: error: too many jobs", answer == Sbatch::defers},
          now};
  }
  return {};
}

void PlayedSlurm::cancel_for_daemon(const slurm::NamedJob& named, bool only_pending) {
  ++calls.cancels;
  for (PlayedJob& job : jobs) {
    if (job.id != named.id || job.name != named.name || job.over()) continue;
    if (only_pending && !job.pends()) continue;
    const bool leaves = job.run ? job.run->is_draining() || job.run->is_leaving()
                                : job.lead && job.lead->draining();
    const bool works = job.runs() && job.lead_alive && job.claimed() && !job.was_silent &&
        !job.requeued && !leaves && job.ending.empty();
    if (works)
      violations.push_back(fmt::format("job {} was cancelled, and its lead spoke", job.id));
    cancel(job, fmt::format("CANCELLED by {}", own_uid));
  }
}

void PlayedSlurm::cancel(PlayedJob& job, const std::string& by) {
  constexpr Timestamp kill_wait = 30'000'000;
  if (job.run && job.runs() && job.lead_alive && job.claimed()) {
    job.run->signal(SIGCONT);
    job.run->signal(SIGTERM);
    job.ending = by;
    job.kill_at = clock_.true_time() + kill_wait;
    return;
  }
  if (job.runs() && job.lead_alive && job.lead && job.lead->claimed() && !job.silent) {
    const Timestamp now = lead_time(job);
    if (job.lead->runs()) job.lead->end(Outcome::preempted, now);
    job.lead->leave("signal 15", now);
  }
  finish(job, by);
}

void PlayedSlurm::pass() {
  for (PlayedJob& job : jobs) {
    if (!job.run || (!job.lead_alive && job.run->is_quiet())) continue;
    job.run->pass(job.lead_alive && !job.silent);
    if (!job.lead_alive) continue;
    if (!job.ending.empty() && clock_.true_time() >= job.kill_at && !job.run->over()) {
      if (!job.was_silent && job.run->is_quick())
        violations.push_back(
            fmt::format("job {} was told to stop, and did not leave within KillWait", job.id));
      job.run->kill();
    }
    if (!job.run->over()) continue;
    job.lead_alive = false;
    if (job.runs()) finish(job, job.ending.empty() ? "COMPLETED" : job.ending);
  }
}

std::vector<std::string> PlayedSlurm::nodes_for(
    const std::filesystem::path& script, std::size_t first) {
  const std::string only = option_in(script, "nodelist");
  const std::string wanted = option_in(script, "nodes");
  const auto out = names_in(option_in(script, "exclude"));
  const std::size_t count = wanted.empty() ? 1 : std::stoul(wanted);
  std::vector<std::string> nodes;
  for (std::size_t i = 0; i < cluster_nodes && nodes.size() < count; ++i) {
    const std::string node = fmt::format("n{}", 1 + (first + i) % cluster_nodes);
    if (only.empty() ? !out.contains(node) : node == only) nodes.push_back(node);
  }
  if (nodes.size() < count) nodes.clear();
  return nodes;
}

void PlayedSlurm::start(PlayedJob& job, std::mt19937_64& random) {
  // An idle node takes each new job.
  const bool idle = black_hole > 0 && random() % 2 == 0;
  const auto nodes = nodes_for(
      AllocationPaths{job.dir}.script(), idle ? black_hole - 1 : random() % cluster_nodes);
  if (nodes.empty()) return;  // it waits for nodes
  job.nodes = fmt::format("{}", fmt::join(nodes, ","));
  job.state = "RUNNING";
  job.lead_alive = true;
  job.in_black_hole = black_hole > 0 && nodes.front() == fmt::format("n{}", black_hole);
  if (make_run) {
    job.run = make_run(job, nodes);
    return;
  }
  job.lead.emplace(job.dir, job.id, attempts);
  if (names_nodes) job.lead->nodes = nodes;
}

void PlayedSlurm::finish(PlayedJob& job, const std::string& state, int exit_code) {
  job.state = state;
  job.exit_code = exit_code;
  job.ended_at = clock_.true_time();
  job.lead_alive = false;
  job.ending.clear();
}

/// Against --no-requeue, as an administrator can.
void PlayedSlurm::requeue(PlayedJob& job) {
  job.state = "PENDING";
  job.reason = "BeginTime";
  job.requeued = true;
  job.lead_alive = false;
  job.lead.reset();
  if (job.run) job.run->kill();
  job.run.reset();
  job.ending.clear();
}

std::vector<slurm::Job> PlayedSlurm::queue() const {
  constexpr Timestamp min_job_age = 300'000'000;
  std::vector<slurm::Job> rows;
  if (lists_nothing) return rows;
  for (const PlayedJob& job : jobs) {
    const bool there = !job.over() || clock_.true_time() - job.ended_at < min_job_age;
    if (there && !job.hidden && !job.unseen) rows.push_back(listed(job, slurm::Source::queue));
  }
  return rows;
}

std::vector<slurm::Job> PlayedSlurm::accounts() const {
  std::vector<slurm::Job> rows;
  if (lists_nothing) return rows;
  for (const PlayedJob& job : jobs) {
    if (job.hidden || job.unseen) continue;
    rows.push_back(listed(job, slurm::Source::accounting));
    const double ago_s = static_cast<double>(clock_.true_time() - job.ended_at) * 1e-6;
    if (job.over() && ago_s < accounting_lag_s) rows.back().state = "RUNNING";
  }
  return rows;
}

}  // namespace shardsweep::testing
