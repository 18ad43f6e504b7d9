// SPDX-License-Identifier: Apache-2.0
// Slurm by its command line. Every command is a child beside the poll loop, with a deadline and
// a bound on what it may print. Looking costs one squeue, and one sacct where that does not
// tell all, whatever the number of jobs: `squeue --me` is filtered by slurmctld, a list of ids
// is not.
//
// Decision: An element of a job array is an allocation with a token of its own; only this file
// knows of arrays. Slurm is asked for text with separators, whose shape has not changed
// from 20.x to 25.x.
#include "slurm/slurm_scheduler.hpp"
#include "slurm/words/array.hpp"
#include "slurm/words/settings.hpp"
#include "slurm/words/submission.hpp"
#include "slurm/words/survey.hpp"
#include "text/characters.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/backends.hpp>
#include <shardsweep/command.hpp>
#include <shardsweep/duration.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using namespace slurm;

constexpr std::size_t most_output = 32 << 20;  // 100,000 jobs, or a million that wait
constexpr std::size_t submissions_at_once = 2;
constexpr std::size_t commands_aside = 4;

// One command runs at a time.
class Survey : public SiteSurvey {
 public:
  Survey(std::int64_t own_uid, std::string user, std::vector<std::string> environment)
      : SiteSurvey(own_uid, {Topic::accounts, Topic::qos, Topic::partitions, Topic::others}),
        user_(std::move(user)),
        environment_(std::move(environment)) {}

  /// The first question after none asks anew how many nodes are idle.
  void ask(const std::optional<SiteQuestions>& questions) {
    if (!questions_ && questions) asked_at_s(Topic::partitions) = {};
    SiteSurvey::ask(questions);
  }
  /// Starts what is due and takes what was answered. SiteSeen when all that was due is there,
  /// and LookFailed for what was not to be had.
  void step(double now_s, Timestamp now, std::vector<SchedulerEvent>& events);
  /// An answer is on its way, or the first one still to be asked for.
  [[nodiscard]] bool settling() const { return command_ || is_unanswered(); }
  [[nodiscard]] int ended_descriptor() const {
    return command_ ? command_->ended_descriptor() : -1;
  }

 private:
  [[nodiscard]] std::vector<std::string> command_for(Topic topic) const;
  [[nodiscard]] Result<void> take(const Result<CommandOutput>& output);
  void start_next(double now_s, Timestamp now, std::vector<SchedulerEvent>& events);

  std::string user_;
  std::vector<std::string> environment_;
  std::optional<RunningCommand> command_;
  Topic topic_ = Topic::accounts;  ///< topic of `command_`
  Timestamp topic_at_ = 0;         ///< start of `command_`
};

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

Result<void> Survey::take(const Result<CommandOutput>& output) {
  const std::string program = command_for(topic_).front();
  if (!output) return tl::unexpected<Fault>(output.error());
  if (output->exit_code != 0 || output->truncated) {
    const std::string said = one_line(output->err.substr(0, output->err.find('\n')), 300);
    return fault(FaultKind::unavailable, "{} ended with {}: {}", program,
        output->signal != 0 ? -output->signal : output->exit_code,
        output->truncated ? "its output is too large" : said);
  }
  switch (topic_) {
    case Topic::accounts:
      return read_accounts(output->out, facts_);
    case Topic::qos:
      return read_qos(output->out, facts_);
    case Topic::partitions:
      SHARDSWEEP_TRY(read_partitions(output->out, facts_));
      facts_.idle_at = topic_at_;
      return {};
    case Topic::others:
      return read_waiting(output->out, own_uid_, facts_);
  }
  return {};
}

void Survey::start_next(double now_s, Timestamp now, std::vector<SchedulerEvent>& events) {
  for (const Topic topic : topics_) {
    if (!is_due(topic, now_s)) continue;
    begin(topic, now_s);
    topic_ = topic;
    topic_at_ = now;
    auto command = RunningCommand::start(command_for(topic),
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

void Survey::step(double now_s, Timestamp now, std::vector<SchedulerEvent>& events) {
  if (command_) {
    const auto done = command_->poll();
    if (!done) return;
    command_.reset();
    const auto taken = take(*done);
    // Failures that are no news: a cluster without accounting has no limits of accounts, and a
    // partition without a size stays unknown. Waiting jobs are counted by partition.
    const bool told =
        questions_ && topic_ >= Topic::partitions && (questions_->partitions || questions_->others);
    if (!taken && told) events.emplace_back(LookFailed{taken.error().what});
  }
  if (!questions_) return;
  // Report first: if answers come as slowly as questions are due, they would never be told.
  report(events);
  start_next(now_s, now, events);
}

std::string first_line(const std::string& text) {
  return one_line(text.substr(0, text.find('\n')), 300);
}

/// The output of a command that has to end with 0.
Result<std::string> output_of(Result<CommandOutput> done, std::string_view program) {
  if (!done) return tl::unexpected<Fault>(done.error());
  if (done->exit_code != 0 || done->truncated) {
    return fault(FaultKind::unavailable,
        done->truncated
            ? fmt::format("the output of {} is too large", program)
            : fmt::format("{} ended with {}: {}", program,
                  done->signal != 0 ? -done->signal : done->exit_code, first_line(done->err)));
  }
  return std::move(done->out);
}

/// A look on its way: settings where they are not known, the queue, accounting.
struct Look {
  enum class Stage : std::uint8_t { settings, queue, accounting };
  Stage stage = Stage::queue;
  std::vector<AllocationHandle> handles;
  std::vector<Job> jobs;
  std::optional<RunningCommand> command;
};

class SlurmCliScheduler final : public SlurmScheduler {
 public:
  SlurmCliScheduler(const Policy& policy, const Clock& clock)
      : SlurmScheduler(policy, clock),
        environment_(command_environment(own_environment())),
        survey_(static_cast<std::int64_t>(::getuid()), user_name(), environment_) {}

  void ask(const std::optional<SiteQuestions>& questions) override { survey_.ask(questions); }
  void cancel(const AllocationHandle& handle) override {
    cancel_job({{handle.job_id, handle.job_name}, handle.waits});
  }

  void release(const AllocationHandle& handle) override {
    run_aside({"scontrol", "release", handle.job_id});
  }

  void look(const std::vector<AllocationHandle>& handles) override {
    if (look_) return;  // the last one has not been answered: asking again would not help
    look_.emplace();
    look_->handles = handles;
    const bool stale = !settings_ || now_s() - settings_at_s_ > settings_again_s;
    if (stale) {
      ask(Look::Stage::settings, {"scontrol", "show", "config"});
    } else {
      ask_queue();
    }
  }

  [[nodiscard]] bool settling() const override {
    return look_ || !waiting_.empty() || !submissions_.empty() || !aside_.empty() ||
        !to_cancel_.empty() || survey_.settling();
  }

  /// An answer is taken when it is there: eight submissions would wait for a tick each else.
  [[nodiscard]] std::vector<pollfd> descriptors() const override {
    std::vector<int> ends{survey_.ended_descriptor()};
    for (const Submission& submission : submissions_)
      ends.push_back(submission.command.ended_descriptor());
    for (const RunningCommand& command : aside_)
      ends.push_back(command.ended_descriptor());
    if (look_ && look_->command) ends.push_back(look_->command->ended_descriptor());
    std::vector<pollfd> polled;
    for (const int end : ends) {
      if (end >= 0) polled.push_back({end, POLLIN, 0});
    }
    return polled;
  }

  [[nodiscard]] std::vector<SchedulerEvent> poll() override {
    start_submissions();
    finish_submissions();
    go_on_looking();
    start_cancelling();
    finish_aside();
    survey_.step(now_s(), clock_.now(), events_);
    return std::exchange(events_, {});
  }

 private:
  struct Submission {
    std::vector<std::string> tokens;
    bool array = false;
    RunningCommand command;
  };

  [[nodiscard]] CommandOptions options(double deadline_s) const {
    return {.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(deadline_s * 1e3)),
        .output_limit = most_output,
        .environment = environment_};
  }

  // ---- submissions

  void start_submissions() {
    while (!waiting_.empty() && submissions_.size() < submissions_at_once) {
      const std::vector<AllocationRequest> requests = take_together();
      const AllocationRequest& first = requests.front();
      const bool array = in_array(first).has_value();
      auto command = array
          ? start_array(requests)
          : RunningCommand::start(submission_command(first), options(first.limit_s));
      std::vector<std::string> tokens(requests.size());
      std::transform(requests.begin(), requests.end(), tokens.begin(),
          [](const AllocationRequest& request) { return request.token; });
      if (command) {
        submissions_.push_back({std::move(tokens), array, std::move(*command)});
        continue;
      }
      for (const std::string& token : tokens)
        events_.emplace_back(SubmitDeferred{token, command.error().what});
    }
  }

  /// The array that it can be submitted with: the site may have none, or short ones.
  [[nodiscard]] std::optional<std::string> in_array(const AllocationRequest& request) const {
    const auto element = element_in(request.token);
    const std::int64_t most = settings_ ? settings_->max_array_size : Settings{}.max_array_size;
    return element && element->index < most ? std::optional(element->array) : std::nullopt;
  }

  /// The first that waits, and what waits with it of the same array.
  std::vector<AllocationRequest> take_together() {
    std::vector<AllocationRequest> together{std::move(waiting_.front())};
    waiting_.pop_front();
    const auto array = in_array(together.front());
    if (!array) return together;
    std::erase_if(waiting_, [&](AllocationRequest& request) {
      if (in_array(request) != array) return false;
      together.push_back(std::move(request));
      return true;
    });
    return together;
  }

  [[nodiscard]] Result<RunningCommand> start_array(
      const std::vector<AllocationRequest>& requests) const {
    const AllocationRequest& first = requests.front();
    SHARDSWEEP_ASSIGN(const std::string text, read_own_file(first.script));
    std::vector<ElementScript> elements;
    for (const AllocationRequest& request : requests) {
      const auto element = element_in(request.token);
      if (element) elements.push_back({element->index, request.script});
    }
    const std::filesystem::path script = AllocationPaths{first.dir}.array_script();
    SHARDSWEEP_TRY(write_own_file(script, array_script(text, elements), Readers::owner));
    return RunningCommand::start(array_command(requests, script), options(first.limit_s));
  }

  void finish_submissions() {
    std::erase_if(submissions_, [this](Submission& submission) {
      auto done = submission.command.poll();
      if (!done) return false;
      for (const std::string& token : submission.tokens) {
        missed_.erase(token);  // a look from before the answer proves nothing
        events_.push_back(answer_for(token, submission.array, *done));
      }
      return true;
    });
  }

  [[nodiscard]] std::set<std::string> on_their_way() const {
    std::set<std::string> tokens;
    for (const AllocationRequest& request : waiting_)
      tokens.insert(request.token);
    for (const Submission& submission : submissions_)
      tokens.insert(submission.tokens.begin(), submission.tokens.end());
    return tokens;
  }

  static SchedulerEvent answer_for(
      const std::string& token, bool array, const Result<CommandOutput>& done) {
    if (!done) return SubmitUnknown{token, done.error().what};
    const auto read = array ? read_array_submission : read_submission;
    return read(token, done->exit_code, done->out, done->err);
  }

  // ---- looks

  void ask(Look::Stage stage, const std::vector<std::string>& argv) {
    look_->stage = stage;
    auto command = RunningCommand::start(argv, options(policy_.query_limit_s));
    if (!command) return give_up(command.error().what);
    look_->command = std::move(*command);
  }

  void ask_queue() {
    ask(Look::Stage::queue,
        {"squeue", "--me", "--array", "--noheader", "--states=all", "--format=" + queue_format()});
  }

  /// Asks accounting by name: a job whose id was never read has nothing else, and no two share one.
  void ask_accounting(const std::vector<AllocationHandle>& open) {
    std::set<std::string> names;
    Timestamp oldest = clock_.now();
    for (const AllocationHandle& handle : open) {
      names.insert(slurm_name(handle.job_name, handle.job_id));
      // A job without an id may be an element of an array, or a job of its own.
      const auto element = element_in(handle.job_name);
      if (element && handle.job_id.empty()) names.insert(element->array);
      oldest = std::min(oldest, handle.created_at);
    }
    const double ago_s = to_seconds(clock_.now() - oldest) + accounting_margin_s;
    // The default start of sacct's window is midnight.
    ask(Look::Stage::accounting,
        {"sacct", "--allocations", "--noheader", "--parsable2",
            fmt::format("--delimiter={}", separator), "--format=" + accounting_format(),
            fmt::format("--name={}", fmt::join(names, ",")),
            fmt::format("--starttime=now-{}minutes", int(ago_s / 60) + 1)});
  }

  void go_on_looking() {
    if (!look_ || !look_->command) return;
    auto done = look_->command->poll();
    if (!done) return;
    look_->command.reset();
    switch (look_->stage) {
      case Look::Stage::settings:
        return take_settings(output_of(std::move(*done), "scontrol"));
      case Look::Stage::queue:
        return take_queue(output_of(std::move(*done), "squeue"));
      case Look::Stage::accounting:
        return take_accounting(output_of(std::move(*done), "sacct"));
    }
  }

  void take_settings(Result<std::string> text) {
    auto settings = text ? parse_settings(*text) : tl::unexpected<Fault>(text.error());
    if (!settings) return give_up(settings.error().what);
    settings_ = std::move(*settings);
    settings_at_s_ = now_s();
    ask_queue();
  }

  void take_queue(Result<std::string> text) {
    auto jobs = text ? parse_queue(*text) : tl::unexpected<Fault>(text.error());
    if (!jobs) return give_up(jobs.error().what);
    look_->jobs = std::move(*jobs);
    const auto open = to_be_accounted(look_->handles, look_->jobs);
    if (open.empty() || !settings_->accounting) return end_look();
    ask_accounting(open);
  }

  void take_accounting(Result<std::string> text) {
    auto jobs = text ? parse_accounting(*text) : tl::unexpected<Fault>(text.error());
    if (jobs) {
      look_->jobs.insert(look_->jobs.end(), std::make_move_iterator(jobs->begin()),
          std::make_move_iterator(jobs->end()));
      return end_look();
    }
    // The queue has answered: what it lists is known. What it does not list stays unknown.
    events_.emplace_back(LookFailed{jobs.error().what});
    end_look(false);
  }

  void end_look(bool complete = true) {
    const Look look = std::move(*look_);
    look_.reset();
    conclude_look(look.handles, look.jobs,
        {.settle_s = settings_->message_timeout_s,
            .accounting = settings_->accounting,
            .complete = complete,
            .on_its_way = on_their_way()});
  }
  void cancel_waiting(const NamedJob& job) override { cancel_job({job, true}); }

  void give_up(std::string why) {
    look_.reset();
    events_.emplace_back(LookFailed{std::move(why)});
  }

  // ---- cancelling

  /// A look may be outdated when the command reaches Slurm: Slurm itself checks that the job still
  /// waits.
  struct Cancelling {
    NamedJob job;
    bool only_pending = false;
  };

  void cancel_job(const Cancelling& one) {
    const std::string& id = one.job.id;
    if (id.empty()) return;  // the next look finds it, or finds that there is none
    if (cancelled_lately(id)) return;
    cancelled_at_s_[id] = now_s();
    to_cancel_.push_back(one);
  }

  void start_cancelling() {
    while (!to_cancel_.empty() && aside_.size() < commands_aside) {
      const auto [job, only_pending] = std::move(to_cancel_.front());
      to_cancel_.pop_front();
      std::vector<std::string> argv{"scancel", "--name=" + slurm_name(job.name, job.id)};
      if (only_pending) argv.emplace_back("--state=PENDING");
      argv.push_back(job.id);
      run_aside(argv);
    }
  }

  /// A command whose success the next look shows.
  void run_aside(const std::vector<std::string>& argv) {
    auto command = RunningCommand::start(argv, options(policy_.query_limit_s));
    if (command) {
      aside_.push_back(std::move(*command));
    } else {
      events_.emplace_back(LookFailed{command.error().what});
    }
  }

  void finish_aside() {
    std::erase_if(aside_, [this](RunningCommand& command) {
      auto done = command.poll();
      if (!done) return false;
      if (!*done) events_.emplace_back(LookFailed{done->error().what});
      return true;
    });
  }

  std::vector<std::string> environment_;
  Survey survey_;
  std::optional<Settings> settings_;
  double settings_at_s_ = 0;
  std::vector<Submission> submissions_;
  std::optional<Look> look_;
  std::deque<Cancelling> to_cancel_;
  std::vector<RunningCommand> aside_;
};

}  // namespace

std::unique_ptr<Scheduler> make_slurm_cli_scheduler(const Policy& policy, const Clock& clock) {
  return std::make_unique<SlurmCliScheduler>(policy, clock);
}

}  // namespace shardsweep
