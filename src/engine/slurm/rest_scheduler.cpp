// SPDX-License-Identifier: Apache-2.0
// Slurm by slurmrestd. A look asks for the queue, and slurmdbd for what the queue lacks. The token
// (a unix socket needs none) is in a file that only its owner can read, or comes from
// `scontrol token`; it is never in a command line, a log or the database.
#include "http/client.hpp"
#include "slurm/rest_json.hpp"
#include "slurm/rest_list.hpp"
#include "slurm/slurm_scheduler.hpp"
#include "slurm/words/submission.hpp"
#include "text/pieces.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/backends.hpp>
#include <shardsweep/command.hpp>
#include <shardsweep/duration.hpp>

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using namespace slurm;

// Limits of accounts and QOS are left out: no version tells them all, and a job beyond one is put
// off.
class RestSurvey : public SiteSurvey {
 public:
  explicit RestSurvey(std::int64_t own_uid)
      : SiteSurvey(own_uid, {Topic::partitions, Topic::others}) {}

  /// True if a request is due and none is on its way.
  [[nodiscard]] bool is_due(double now_s) { return !asked_ && due(now_s); }
  /// Path of the due request, below /slurm/<version>/.
  [[nodiscard]] std::string_view next(double now_s);
  [[nodiscard]] double answer_limit_s() const;
  /// The answer to it.
  [[nodiscard]] Result<void> take(const Result<std::string>& body);
  /// Before anything is asked again: answers that come as slowly as they are asked for would never
  /// be told.
  void report(std::vector<SchedulerEvent>& events) {
    if (!asked_) SiteSurvey::report(events);
  }
  [[nodiscard]] bool settling() const { return asked_ || is_unanswered(); }

 private:
  [[nodiscard]] std::optional<Topic> due(double now_s);

  std::optional<Topic> asked_;
};

std::optional<RestSurvey::Topic> RestSurvey::due(double now_s) {
  const auto found = std::find_if(topics_.begin(), topics_.end(),
      [&](Topic topic) { return SiteSurvey::is_due(topic, now_s); });
  return found == topics_.end() ? std::nullopt : std::optional(*found);
}

std::string_view RestSurvey::next(double now_s) {
  asked_ = due(now_s).value_or(Topic::partitions);
  begin(*asked_, now_s);
  return *asked_ == Topic::partitions ? "partitions" : "jobs";
}

double RestSurvey::answer_limit_s() const {
  return questions_ ? questions_->answer_limit_s : SiteQuestions{}.answer_limit_s;
}

Result<void> RestSurvey::take(const Result<std::string>& body) {
  const bool partitions = asked_ == Topic::partitions;
  asked_.reset();
  if (!body) return tl::unexpected<Fault>(body.error());
  return partitions ? read_rest_partitions(*body, facts_)
                    : read_rest_waiting(*body, own_uid_, facts_);
}

constexpr double token_life_s = 1800;
constexpr double token_again_s = 1200;
constexpr double ask_again_s = 10;
constexpr double settle_s = 20;  // twice Slurm's default MessageTimeout: it is not told here
constexpr std::size_t longest_token = 16 << 10;

std::string name_or_number() {
  return user_name().empty() ? std::to_string(::getuid()) : user_name();
}

Result<std::string> read_token(const std::string& file) {
  struct stat about {};
  if (::stat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode))
    return fault(FaultKind::unavailable, "there is no token file '" + file + "'");
  if ((about.st_mode & 077U) != 0) {
    return fault(FaultKind::rejected,
        "the token file '{}' can be read by others (mode {:o}): chmod 600", file,
        about.st_mode & 0777U);
  }
  SHARDSWEEP_ASSIGN(const std::string text, read_file(file, longest_token));
  return std::string(trimmed(text));
}

/// "SLURM_JWT=…", as scontrol token prints it.
Result<std::string> token_from(const Result<CommandOutput>& output) {
  constexpr std::string_view mark = "SLURM_JWT=";
  if (!output) return tl::unexpected<Fault>(output.error());
  if (output->exit_code != 0 || output->out.compare(0, mark.size(), mark) != 0) {
    // The output may be half a token: leave it out of the message.
    return fault(FaultKind::unavailable, "'scontrol token' ended with {}", output->exit_code);
  }
  return std::string(trimmed(std::string_view(output->out).substr(mark.size())));
}

/// A filter of its own for each answer.
auto keep_jobs(JobListFilter::Reduce reduce) {
  return [filter = JobListFilter(std::move(reduce))](
             std::string_view piece) mutable { return filter.take(piece); };
}

class SlurmRestScheduler final : public SlurmScheduler {
 public:
  SlurmRestScheduler(RestSettings settings, const Policy& policy, const Clock& clock)
      : SlurmScheduler(policy, clock),
        settings_(std::move(settings)),
        client_(settings_.url, settings_.ca_file),
        user_(settings_.user.empty() ? name_or_number() : settings_.user),
        survey_(static_cast<std::int64_t>(::getuid())) {}

  void ask(const std::optional<SiteQuestions>& questions) override { survey_.ask(questions); }
  void cancel(const AllocationHandle& handle) override {
    cancel_named({handle.job_id, handle.job_name}, handle.waits);
  }
  void release(const AllocationHandle& handle) override {
    if (api_) {
      send(Kind::release,
          {.path = api_->path("job/" + handle.job_id),
              .method = "POST",
              .body = std::string(release_body)},
          handle.job_id);
    }
  }

  void look(const std::vector<AllocationHandle>& handles) override {
    if (looking_) return;
    if (now_s() < not_before_s_) return;
    looking_ = true;
    handles_ = handles;
    jobs_.clear();
    if (ready()) ask_queue();
  }

  [[nodiscard]] bool settling() const override {
    return looking_ || !waiting_.empty() || !sent_.empty() || survey_.settling();
  }
  [[nodiscard]] std::vector<pollfd> descriptors() const override { return client_.descriptors(); }

  [[nodiscard]] std::vector<SchedulerEvent> poll() override {
    take_token();
    for (auto& [number, answer] : client_.poll())
      take(number, std::move(answer));
    submit_waiting();
    survey();
    return std::exchange(events_, {});
  }

 private:
  enum class Kind : std::uint8_t {
    openapi,
    queue,
    accounting,
    submission,
    release,
    site,
    to_cancel,
    aside
  };
  struct SentRequest {
    Kind kind = Kind::aside;
    std::string token;            ///< token of a submission; else the job's id
    std::string name{};           ///< name of a job that is to be cancelled
    bool while_it_waits = false;  ///< and only so long
  };

  // ---- who we are, and in which version

  /// A socket of our own needs no token: slurmrestd runs as us.
  [[nodiscard]] bool needs_token() const { return settings_.url.compare(0, 5, "unix:") != 0; }

  /// True if requests can be made now; else what is missing has been asked for.
  bool ready() {
    if (now_s() < not_before_s_) return false;
    if (needs_token() && !fresh_token()) return false;
    if (api_) return true;
    if (!asked_api_) {
      asked_api_ = true;
      send(Kind::openapi, {.path = "/openapi/v3"});
    }
    return false;
  }

  bool fresh_token() {
    if (!settings_.token_file.empty()) {
      auto token = read_token(settings_.token_file);
      if (!token) {
        give_up_asking(token.error().what);
        return false;
      }
      jwt_ = std::move(*token);
      return true;
    }
    if (!jwt_.empty() && now_s() - token_at_s_ < token_again_s) return true;
    if (!token_command_) {
      auto command =
          RunningCommand::start({"scontrol", "token", fmt::format("lifespan={}", token_life_s)},
              {.deadline = std::chrono::seconds(30), .output_limit = longest_token});
      if (command) {
        token_command_ = std::move(*command);
      } else {
        give_up_asking(command.error().what);
      }
    }
    return false;
  }

  void take_token() {
    if (!token_command_) return;
    const auto done = token_command_->poll();
    if (!done) return;
    token_command_.reset();
    auto token = token_from(*done);
    if (!token) return give_up_asking(token.error().what);
    jwt_ = std::move(*token);
    token_at_s_ = now_s();
    if (ready() && looking_) ask_queue();
  }

  void send(Kind kind, http::Request request, const std::string& token = "", double limit_s = 0) {
    send(SentRequest{kind, token}, std::move(request), limit_s);
  }
  void send(const SentRequest& what, http::Request request, double limit_s = 0) {
    if (needs_token()) {
      request.headers.push_back("X-SLURM-USER-NAME: " + user_);
      request.headers.push_back("X-SLURM-USER-TOKEN: " + jwt_);
    }
    request.limit_s = limit_s > 0 ? limit_s : policy_.query_limit_s;
    sent_[client_.start(std::move(request))] = what;
  }

  // ---- submissions

  void submit_waiting() {
    while (!waiting_.empty() && ready()) {
      const AllocationRequest request = std::move(waiting_.front());
      waiting_.pop_front();
      const auto script = read_own_file(request.script);
      auto body = script ? submission_body(request, *script, *api_,
                               command_environment(own_environment()), clock_.now())
                         : tl::unexpected<Fault>(script.error());
      if (!body) {
        events_.emplace_back(SubmitRefused{request.token, body.error().what});
        continue;
      }
      send(Kind::submission,
          {.path = api_->path("job/submit"), .method = "POST", .body = std::move(*body)},
          request.token, request.limit_s);
    }
  }

  [[nodiscard]] std::set<std::string> on_their_way() const {
    std::set<std::string> tokens;
    for (const AllocationRequest& request : waiting_)
      tokens.insert(request.token);
    for (const auto& [number, sent] : sent_) {
      if (sent.kind == Kind::submission) tokens.insert(sent.token);
    }
    return tokens;
  }

  // ---- answers

  void take(int number, Result<http::Response> answer) {
    const auto found = sent_.find(number);
    if (found == sent_.end()) return;
    const SentRequest sent = found->second;
    sent_.erase(found);
    if (sent.kind == Kind::submission) return take_submission(sent.token, answer);
    if (sent.kind == Kind::release) return take_release(sent.token, answer);
    if (sent.kind == Kind::to_cancel) return take_named(sent, answer);
    if (sent.kind == Kind::aside) return;
    if (sent.kind == Kind::site) return take_site(std::move(answer));
    if (!answer) return failed(sent.kind, answer.error().what);
    if (answer->status != 200) {
      jwt_.clear();  // should it be that: a new one is fetched
      return failed(sent.kind,
          fmt::format("slurmrestd answered HTTP {} to {}", answer->status,
              sent.kind == Kind::accounting ? "slurmdb" : "slurm"));
    }
    if (sent.kind == Kind::openapi) return take_api(answer->body);
    take_jobs(sent.kind, answer->body);
  }

  void take_submission(const std::string& token, const Result<http::Response>& answer) {
    missed_.erase(token);
    if (answer) {
      auto event = read_rest_submission(token, answer->status, answer->body);
      if (std::holds_alternative<SubmitRefused>(event)) cancel_job(submitted_job(answer->body));
      events_.push_back(std::move(event));
    } else if (answer.error().kind == FaultKind::timed_out) {
      events_.emplace_back(SubmitUnknown{token, answer.error().what});
    } else {
      events_.emplace_back(SubmitDeferred{token, answer.error().what});
    }
  }

  /// Handles the answer to a release. A failed one is repeated; meanwhile the user has to know why
  /// the job waits.
  void take_release(const std::string& job, const Result<http::Response>& answer) {
    const std::string why =
        answer ? why_refused(answer->status, answer->body) : answer.error().what;
    if (!why.empty()) {
      events_.emplace_back(
          LookFailed{fmt::format("slurmrestd did not release job {}: {}", job, why)});
    }
  }

  void take_api(const std::string& body) {
    auto api = choose_api(body);
    asked_api_ = false;
    if (!api) return give_up_asking(api.error().what);
    api_ = *api;
    if (looking_) ask_queue();
  }

  void failed(Kind kind, const std::string& why) {
    if (kind == Kind::openapi) {
      asked_api_ = false;
      return give_up_asking(why);
    }
    if (kind != Kind::accounting) return give_up(why);
    // The queue has answered: what it does not list stays unknown.
    events_.emplace_back(LookFailed{why});
    end_look(false);
  }

  // ---- the site

  void survey() {
    survey_.report(events_);
    if (survey_.is_due(now_s()) && ready()) {
      const auto path = api_->path(survey_.next(now_s()));
      send(Kind::site, {.path = path, .keep = keep_jobs(&waiting_job)}, "",
          survey_.answer_limit_s());
    }
  }

  void take_site(Result<http::Response> answer) {
    Result<std::string> body = tl::unexpected<Fault>(Fault{});
    if (!answer) {
      body = tl::unexpected<Fault>(answer.error());
    } else if (answer->status != 200) {
      body = fault(FaultKind::unavailable, "slurmrestd answered HTTP {} to slurm", answer->status);
    } else {
      body = std::move(answer->body);
    }
    const auto taken = survey_.take(body);
    if (!taken) events_.emplace_back(LookFailed{taken.error().what});
  }

  // ---- looks

  [[nodiscard]] std::vector<std::string> job_names() const {
    std::vector<std::string> names;
    for (const AllocationHandle& handle : handles_)
      names.push_back(handle.job_name);
    return names;
  }

  void ask_queue() {
    send(Kind::queue, {.path = api_->path("jobs"), .keep = keep_jobs(jobs_named(job_names()))});
  }

  void take_jobs(Kind kind, const std::string& body) {
    const std::vector<std::string> names = job_names();
    auto jobs = kind == Kind::queue ? read_jobs(body, names) : read_accounted_jobs(body, names);
    if (!jobs) return failed(kind, jobs.error().what);
    jobs_.insert(
        jobs_.end(), std::make_move_iterator(jobs->begin()), std::make_move_iterator(jobs->end()));
    const auto open = to_be_accounted(handles_, jobs_);
    if (kind == Kind::accounting || open.empty() || !api_->accounting) return end_look();
    send(Kind::accounting, {.path = accounting_path(open)});
  }

  [[nodiscard]] std::string accounting_path(const std::vector<AllocationHandle>& open) const {
    Timestamp oldest = clock_.now();
    std::string names;
    for (const AllocationHandle& handle : open) {
      oldest = std::min(oldest, handle.created_at);
      names += (names.empty() ? "" : "%2C") + handle.job_name;
    }
    const auto start_s = static_cast<std::int64_t>(to_seconds(oldest) - accounting_margin_s);
    return fmt::format("{}?job_name={}&start_time=uts{}", api_->db_path("jobs"), names, start_s);
  }

  void end_look(bool complete = true) {
    looking_ = false;
    conclude_look(handles_, jobs_,
        {.settle_s = settle_s,
            .accounting = api_->accounting,
            .complete = complete,
            .on_its_way = on_their_way()});
  }
  void cancel_waiting(const NamedJob& job) override { cancel_named(job, true); }

  void give_up(std::string why) {
    looking_ = false;
    events_.emplace_back(LookFailed{std::move(why)});
  }

  /// No token, or no version: nothing can be asked for a while, and nothing waits here for it.
  void give_up_asking(const std::string& why) {
    not_before_s_ = now_s() + ask_again_s;
    for (const AllocationRequest& request : std::exchange(waiting_, {}))
      events_.emplace_back(SubmitDeferred{request.token, why});
    give_up(why);
  }

  /// slurmrestd has no filter by name or state: the job is looked at right before. A controller
  /// that has lost its last seconds gives the id to somebody else's job.
  void cancel_named(const NamedJob& job, bool while_it_waits) {
    if (job.id.empty() || !api_ || cancelled_lately(job.id) || is_looked_at(job.id)) return;
    send(SentRequest{Kind::to_cancel, job.id, job.name, while_it_waits},
        {.path = api_->path("job/" + job.id)});
  }
  [[nodiscard]] bool is_looked_at(const std::string& id) const {
    return std::any_of(sent_.begin(), sent_.end(), [&](const auto& entry) {
      return entry.second.kind == Kind::to_cancel && entry.second.token == id;
    });
  }
  void take_named(const SentRequest& sent, const Result<http::Response>& answer) {
    if (!answer || answer->status != 200) return;  // the next look asks again
    const auto jobs = read_jobs(answer->body, {sent.name});
    if (!jobs) return;
    const auto ours = std::find_if(
        jobs->begin(), jobs->end(), [&](const Job& job) { return job.id == sent.token; });
    if (ours == jobs->end()) {
      cancelled_at_s_[sent.token] = now_s();  // no job of ours: not looked up again for a while
      return;
    }
    const JobState state = read_state(*ours, 0).state;
    const bool meant = sent.while_it_waits ? state == JobState::pending : state != JobState::ended;
    if (meant) cancel_job(ours->id);
  }

  void cancel_job(const std::string& id) {
    if (id.empty() || !api_ || cancelled_lately(id)) return;
    cancelled_at_s_[id] = now_s();
    send(Kind::aside, {.path = api_->path("job/" + id), .method = "DELETE"});
  }

  RestSettings settings_;
  http::Client client_;
  std::string user_;
  RestSurvey survey_;
  std::string jwt_;
  double token_at_s_ = 0;
  double not_before_s_ = 0;
  std::optional<RunningCommand> token_command_;
  std::optional<RestApi> api_;
  bool asked_api_ = false;
  bool looking_ = false;
  std::vector<AllocationHandle> handles_;
  std::vector<Job> jobs_;
  std::map<int, SentRequest> sent_;
};

}  // namespace

std::unique_ptr<Scheduler> make_slurm_rest_scheduler(
    const RestSettings& settings, const Policy& policy, const Clock& clock) {
  return std::make_unique<SlurmRestScheduler>(settings, policy, clock);
}

}  // namespace shardsweep
