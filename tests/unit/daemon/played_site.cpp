// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_site.hpp"

#include "sweep/identity.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace shardsweep::testing {
namespace {

std::filesystem::path presets() {
  return std::filesystem::path(SHARDSWEEP_SOURCE_DIR) / "sweeps";
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// One trial for each node count and micro-batch; the world is whole nodes of eight GPUs.
Plan plan_of(const PlayedSweep& sweep) {
  constexpr std::int32_t gpus_per_node = 8;
  constexpr std::int32_t global_batch = 256;
  Plan plan;
  Point point;
  point.seq_len = 4096;
  for (const std::int32_t nodes : sweep.nodes) {
    point.nodes = nodes;
    point.gpus = point.layout.dp = nodes * gpus_per_node;
    for (const std::int32_t micro_batch : sweep.micro_batch) {
      point.layout.micro_batch = micro_batch;
      point.layout.grad_accum = global_batch / point.gpus / micro_batch;
      plan.trials.push_back({point, {1 << 30, 0.5, sweep.predicted_s, 1000.0}, 0});
    }
  }
  plan.points = static_cast<std::int64_t>(plan.trials.size());
  return plan;
}

/// While it lives the daemon acts.
class Acting {
 public:
  explicit Acting(const std::function<void(bool)>& told) : told_(told) { tell(true); }
  Acting(const Acting&) = delete;
  Acting& operator=(const Acting&) = delete;
  ~Acting() { tell(false); }

 private:
  void tell(bool acts) const {
    if (told_) told_(acts);
  }
  const std::function<void(bool)>& told_;
};

class NotedNotices final : public Notifier {
 public:
  explicit NotedNotices(std::vector<Notice>& all) : all_(all) {}
  void send(const Notice& notice) override { all_.push_back(notice); }
  [[nodiscard]] std::vector<std::string> poll() override { return {}; }
  [[nodiscard]] bool busy() const override { return false; }
  [[nodiscard]] std::vector<pollfd> descriptors() const override { return {}; }

 private:
  std::vector<Notice>& all_;
};

}  // namespace

MemoryFolder::MemoryFolder() {
  const bool memory = std::filesystem::exists("/dev/shm");
  std::string pattern = memory
      ? "/dev/shm/shardsweep-site-XXXXXX"
      : (std::filesystem::temp_directory_path() / "shardsweep-site-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path = pattern;
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

CapturedLog::CapturedLog(const std::filesystem::path& file) : kept_(::dup(STDERR_FILENO)) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  REQUIRE(descriptor >= 0);
  ::dup2(descriptor, STDERR_FILENO);
  ::close(descriptor);
}

CapturedLog::~CapturedLog() {
  ::dup2(kept_, STDERR_FILENO);
  ::close(kept_);
}

PlayedSite::PlayedSite()
    : log(folder_.path / "log"),
      home{folder_.path / "a.db"},
      store(must(Store::open(home.database)), fate),
      reader_(home.database, sqlite::OpenMode::existing, 1000) {
  must(make_home(home));
  std::ofstream{home.lock()};  // a daemon sees by it that its folder is the old one
}

DaemonParts PlayedSite::parts() {
  return {.home = home,
      .installation = {.agent = "/opt/shardsweep-agent", .presets = presets()},
      .store = store,
      .clock = clock,
      .make_scheduler = [this](Backend, const SiteSpec&) { return slurm.scheduler(fate); },
      .make_notifier =
          [this](const NotifySettings&) { return std::make_unique<NotedNotices>(notices); },
      .take_tree = [this](const SweepSpec&, const std::string&) -> Result<std::string> {
        return tree;
      },
      .random_hex =
          [this](int digits) {
            std::string text;
            while (text.size() < static_cast<std::size_t>(digits))
              text += fmt::format("{:016x}", random());
            return text.substr(0, static_cast<std::size_t>(digits));
          },
      .policy = {}};
}

void PlayedSite::start() {
  if (daemon_) return;
  try {
    const Acting acting(around_daemon);
    LeaseHolder self{.host = "h", .pid = 1};
    self.since = self.renewed = clock.time();
    must(store.take_lease(self));
    daemon_ = std::make_unique<shardsweep::Daemon>(parts());
    must(daemon_->load());
  } catch (const Killed&) {
    die();
  }
}

void PlayedSite::tick(double seconds) {
  ++ticks_;
  clock.advance(static_cast<Timestamp>(seconds * 1e6));
  if (!daemon_) return;
  try {
    const Acting acting(around_daemon);
    const auto done = daemon_->tick();
    if (!done && store.outage && worth_retrying(done.error().kind)) return;
    if (!done) throw Violation("a pass failed: " + done.error().what);
    const auto left = leave_if_idle(*daemon_, parts());
    if (!left) throw Violation("leaving failed: " + left.error().what);
    if (*left) daemon_.reset();
  } catch (const Killed&) {
    die();
  }
}

Result<void> PlayedSite::try_pass(double seconds) {
  ++ticks_;
  clock.advance(static_cast<Timestamp>(seconds * 1e6));
  if (!daemon_) {
    LeaseHolder self{.host = "h", .pid = 1};
    self.since = self.renewed = clock.time();
    SHARDSWEEP_TRY(store.take_lease(self));
    auto fresh = std::make_unique<shardsweep::Daemon>(parts());
    SHARDSWEEP_TRY(fresh->load());
    daemon_ = std::move(fresh);
  }
  auto left = daemon_->tick().and_then([&] { return leave_if_idle(*daemon_, parts()); });
  if (!left) {
    if (!worth_retrying(left.error().kind)) die();
    return tl::unexpected<Fault>(left.error());
  }
  if (*left) daemon_.reset();
  return {};
}

void PlayedSite::pass(double seconds, double step) {
  for (double passed = 0; passed < seconds; passed += step) {
    beat();
    tick(step);
  }
}

void PlayedSite::die() {
  fate.live();
  daemon_.reset();
  ++deaths_;
}

Answer PlayedSite::ask(Request request) {
  request.from = "test";
  return answer_to(must(post_request(home, std::move(request), clock.true_time())));
}

Answer PlayedSite::answer_to(const std::string& request) {
  for (int passes = 0; passes < 200; ++passes) {
    start();
    tick();
    if (auto answer = must(take_answer(home, request))) return *answer;
  }
  throw Violation("a request without an answer");
}

Answer PlayedSite::ask(Verb verb, std::vector<std::string> names, const std::string& where) {
  Request request;
  request.verb = verb;
  request.names = std::move(names);
  request.where = where;
  return ask(std::move(request));
}

const SweepSpec& PlayedSite::spec_of(const PlayedSweep& sweep) {
  const std::string text = fmt::format(R"(
name: {}
cluster: h100-8x
constants: {{model: llama-1b, seq_len: 4096, global_batch_size: 256}}
axes: {{nodes: [1, 2], micro_batch: [1, 2, 4, 8]}}
{})",
      sweep.name, sweep.settings);
  const auto known = specs_.find(text);
  if (known != specs_.end()) return known->second;
  return specs_.emplace(text, must(load_sweep_text(text, sweep.name, {presets(), {}})))
      .first->second;
}

void PlayedSite::submit(const PlayedSweep& sweep) {
  const Answer answer = answer_to(post(sweep));
  if (answer.fault) FAIL(answer.fault->what);
}

std::string PlayedSite::post(const PlayedSweep& sweep) {
  const SweepSpec& spec = spec_of(sweep);
  const Plan plan = plan_of(sweep);
  Capabilities capabilities;
  capabilities.runner = "played";
  capabilities.version = "1";
  const std::string resolved = explain_sweep(spec);
  const bool slurm_site = sweep.backend == Backend::slurm;
  SubmittedSweep submission{&spec, &plan, &capabilities, resolved, resolved,
      fmt::format("submission {}", inboxes_), sweep.backend,
      slurm_site ? explain_site(must(load_site_text(sweep.site, "site.yaml"))) : "",
      slurm_site ? text_of(presets().parent_path() / "templates" / "lane.sbatch") : ""};
  Request request;
  request.verb = Verb::submit;
  const auto inbox = home.inbox() / fmt::format("i{}.db", ++inboxes_);
  must(write_inbox(inbox, submission, [&](const Point& one) {
    return TrialNames{identity(spec, capabilities, one), slug(spec, capabilities, one),
        lane_key(spec, capabilities, one)};
  }));
  request.inbox = inbox.string();
  request.from = "test";
  return must(post_request(home, std::move(request), clock.true_time()));
}

void PlayedSite::start_job(PlayedJob& job) {
  slurm.start(job, random);
  REQUIRE(job.runs());
  REQUIRE(job.lead->claim(slurm.lead_time(job)));
  job.lead->hear(random, slurm.lead_time(job));
}

void PlayedSite::run_attempt(
    PlayedJob& job, Outcome outcome, double seconds, const std::string& node) {
  job.lead->hear(random, slurm.lead_time(job));
  REQUIRE(job.lead->start_next(slurm.lead_time(job)));
  clock.advance(static_cast<Timestamp>(seconds * 1e6));
  if (job.lead->runs()) job.lead->end(outcome, slurm.lead_time(job), Mark::none, node);
}

void PlayedSite::beat() {
  constexpr Timestamp beat_every = 5'000'000;
  for (PlayedJob& job : slurm.jobs) {
    if (!job.lead_alive || job.silent || !job.lead || !job.lead->claimed()) continue;
    const Timestamp now = slurm.lead_time(job);
    if (now - job.lead->spoke_at() >= beat_every)
      job.lead->say(Beat{.attempt = job.lead->running()}, now);
  }
}

std::string PlayedSite::sql(const std::string& text) {
  auto known = statements_.find(text);
  if (known == statements_.end())
    known = statements_.emplace(text, sqlite::Statement(reader_, text.c_str())).first;
  auto row = known->second.use();
  return row.next() ? row.text(0) : "";
}

SweepStatus PlayedSite::status(const std::string& sweep) {
  if (!answers_) answers_ = must(Reader::open(home.database));
  const auto found = must(answers_->status({sweep}));
  REQUIRE(found.size() == 1);
  return found.front();
}

std::string PlayedSite::trials(const std::string& sweep) {
  return sql(fmt::format(
      "SELECT group_concat(ifnull(outcome, state), ' ') FROM (SELECT t.outcome, t.state FROM "
      "trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE s.name = '{}' AND t.hidden = 0 "
      "ORDER BY t.position, t.id)",
      sweep));
}

}  // namespace shardsweep::testing
