// SPDX-License-Identifier: Apache-2.0
// A daemon at scale: 10,000 nodes and 100,000 trials in 500 allocations, beside the rows of 50
// old sweeps. Slurm and the leads are played in this process; the database and all files are
// real. `bench_daemon [FOLDER] [--check]`: FOLDER is made, else a temporary one that is
// removed. One JSON line per phase; --check fails beyond the limits.
#include "attempt/assignments.hpp"
#include "daemon/daemon.hpp"
#include "slurm/words/look.hpp"
#include "store/schema.hpp"
#include "tools/bench/history.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardsweep;
namespace fs = std::filesystem;

constexpr int allocations = 500;
constexpr int nodes_each = 20;
constexpr int trials = 100'000;
constexpr double attempt_s = 60;
constexpr bench::History history{.sweeps = 50, .measured = 100'000, .others = 20'000};

template <class T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().what);
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// Pauses are played. A pass takes the time that it takes: the daemon bounds its work by it.
class PlayedClock final : public Clock {
 public:
  [[nodiscard]] Timestamp now() const override { return now_ + passed(); }
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override {
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(now()));
  }
  void advance(double seconds) { now_ += static_cast<Timestamp>(seconds * 1e6); }
  void begin_pass() { begun_ = std::chrono::steady_clock::now(); }
  void end_pass() {
    now_ = now();
    begun_.reset();
  }

 private:
  [[nodiscard]] Timestamp passed() const {
    if (!begun_) return 0;
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - *begun_)
        .count();
  }
  Timestamp now_ = 1'800'000'000'000'000;
  std::optional<std::chrono::steady_clock::time_point> begun_;
};

/// A lead and its ranks: claims, runs what is assigned one after the other, packs, beats.
class Lead {
 public:
  Lead(const AllocationRequest& request, std::string job_id, int first_node)
      : paths_{request.dir},
        job_id_(std::move(job_id)),
        first_node_(first_node),
        orders_(paths_.to_lead()) {}

  void play(Timestamp now, std::mt19937_64& random) {
    if (gone_) return;
    if (n_ == 0) arrive(now);
    for (const std::string& text : must(orders_.look()))
      obey(must(decode_to_lead(text)));
    if (running_ && now >= ends_at_) end(now);
    if (!running_) start(now, random);
    if (now - spoke_at_ >= 5'000'000) say(Beat{running_ ? running_->attempt : 0}, now);
    write_lines();
    if (!running_ && work_.draining()) {
      say(Bye{"drained"}, now);
      write_lines();
      gone_ = true;
    }
  }
  [[nodiscard]] bool gone() const { return gone_; }
  [[nodiscard]] std::int64_t measured() const { return measured_; }

 private:
  void arrive(Timestamp now) {
    say(
        Claimed{
            .token = "", .claim = "c", .host = "n1", .pid = 1, .pid_start = 1, .job_id = job_id_},
        now);
    for (int i = 0; i < nodes_each; ++i) {
      const std::string node = fmt::format("n{}", first_node_ + i);
      say(NodeSeen{.node = node, .host = node, .pid = 1}, now);
    }
  }
  void obey(const ToLead& line) {
    for (const AttemptId attempt : work_.apply(line).revoked)
      lines_ += encode(FromLead{++n_, spoke_at_, Revoked{attempt}}) + '\n';
  }
  void start(Timestamp now, std::mt19937_64& random) {
    const auto next = work_.next();
    if (!next) return;
    running_ = next->assign;
    ends_at_ =
        now + static_cast<Timestamp>((0.5 + double(random() % 1000) / 1000) * attempt_s * 1e6);
    say(Started{running_->attempt, running_->nonce}, now);
  }
  void end(Timestamp now) {
    const AttemptPaths attempt{running_->dir};
    std::ofstream(attempt.records()) << fmt::format(
        R"({{"type":"result","run_id":"{}","tokens_per_s_per_gpu":{},"train_step_ms":120,)"
        R"("loss":9.5,"steps":10,"warmup":3}})"
        "\n",
        running_->nonce, 1000);  // controls too: they find all nodes alike
    must(pack_attempt(attempt, 1 << 16));
    work_.ended(*running_, Outcome::completed);
    say(Ended{.attempt = running_->attempt,
            .nonce = running_->nonce,
            .ending = {.outcome = Outcome::completed,
                .cause = "result record",
                .source = SaidBy::runner,
                .exit_code = 0}},
        now);
    running_.reset();
    ++measured_;
  }
  void say(FromLeadBody body, Timestamp now) {
    lines_ += encode(FromLead{++n_, now, std::move(body)}) + '\n';
    spoke_at_ = now;
  }
  void write_lines() {
    std::ofstream(paths_.from_lead(), std::ios::app) << lines_;
    lines_.clear();
  }

  AllocationPaths paths_;
  std::string job_id_;
  int first_node_;
  Assignments work_;
  LineReader orders_;
  std::optional<Assign> running_;
  Timestamp ends_at_ = 0;
  Timestamp spoke_at_ = 0;
  std::string lines_;
  std::int64_t n_ = 0;
  std::int64_t measured_ = 0;
  bool gone_ = false;
};

struct Job {
  std::string name;
  std::string state = "PENDING";
  std::unique_ptr<Lead> lead;
};

/// What squeue and sbatch would say, as texts that are parsed as in the product.
class Slurm final : public Scheduler {
 public:
  Slurm(std::map<std::string, Job>& jobs, const PlayedClock& clock, std::int64_t& calls)
      : jobs_(jobs), clock_(clock), calls_(calls) {}
  [[nodiscard]] std::string name() const override { return "slurm"; }
  [[nodiscard]] double look_interval_s() const override { return 10; }
  void submit(const AllocationRequest& request) override {
    const std::string id = fmt::format("{}", 100'000 + jobs_.size());
    Job& job = jobs_[id];
    job.name = request.job_name;
    job.lead = std::make_unique<Lead>(request, id, 1 + int(jobs_.size() - 1) * nodes_each);
    events_.emplace_back(SubmitAccepted{request.token, id});
  }
  void cancel(const AllocationHandle&) override {}
  void look(const std::vector<AllocationHandle>& handles) override {
    ++calls_;
    std::string text;
    for (const auto& [id, job] : jobs_)
      text += fmt::format(
          "{1}{0}{2}{0}None{0}n[1-20]{0}{3}{0}\n", slurm::separator, id, job.state, job.name);
    const auto jobs = must(slurm::parse_queue(text));
    if (!slurm::to_be_accounted(handles, jobs).empty()) ++calls_;
    const double now_s = static_cast<double>(clock_.now()) * 1e-6;
    auto result = slurm::conclude(handles, jobs, {.now_s = now_s}, missed_);
    std::move(result.events.begin(), result.events.end(), std::back_inserter(events_));
  }
  [[nodiscard]] std::vector<SchedulerEvent> poll() override { return std::exchange(events_, {}); }

 private:
  std::map<std::string, Job>& jobs_;
  const PlayedClock& clock_;
  std::int64_t& calls_;
  slurm::MissedJobs missed_;
  std::vector<SchedulerEvent> events_;
};

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::int64_t open_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  std::int64_t count = -3;  // ".", ".." and this one
  while (::readdir(folder) != nullptr)
    ++count;
  ::closedir(folder);
  return count;
}

std::int64_t resident_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::atoll(line.c_str() + 6) / 1024;
  }
  return 0;
}

std::string sweep_text(const std::string& name) {
  return fmt::format(R"(
name: {}
cluster: h100-8x
constants: {{model: llama-1b, seq_len: 4096, global_batch_size: 640}}
axes: {{nodes: [{}], micro_batch: [1, 2, 4]}}
limits: {{max_allocations: {}}}
lane: {{ahead: 30min, max_time: 24h}}
)",
      name, nodes_each, allocations);
}

/// Ticks of one kind, and what they cost.
struct Phase {
  const char* name;
  std::vector<double> wall_ms;
  std::vector<double> cpu_ms;  ///< the same without what other programs took
  double cpu_s = 0;
  double simulated_s = 0;
  std::int64_t descriptors = 0;
  std::int64_t calls_before = 0;
};

class Scale {
 public:
  explicit Scale(const fs::path& folder)
      : home_{folder / "scale.db"},
        presets_(fs::path(SHARDSWEEP_SOURCE_DIR) / "sweeps"),
        spec_(must(load_sweep_text(sweep_text("scale"), "scale", {presets_, {}}))) {
    must(make_home(home_));
    const std::ofstream lock(home_.lock());
    make_history();
    store_ = must(Store::open(home_.database));
    LeaseHolder self{.host = "h", .pid = 1};
    self.since = self.renewed = clock_.now();
    must(store_->take_lease(self));
    random_.seed(1);
  }

  bool run(bool check) {
    Phase load{.name = "load"};
    timed(load, [&] {
      daemon_ = std::make_unique<Daemon>(parts());
      must(daemon_->load());
    });
    report(load);
    Phase submit{.name = "submit"};
    post_sweep();
    while (!std::filesystem::is_empty(home_.requests()) || submit.wall_ms.size() < 2)
      tick(submit, 0.25);
    report(submit);
    Phase begin{.name = "begin"};
    while (begin.simulated_s < 300)
      tick(begin);
    report(begin);
    Phase steady{.name = "steady"};
    while (steady.simulated_s < 1200)
      tick(steady);
    const bool good = report(steady);
    report_files();
    return good || !check;
  }

 private:
  DaemonParts parts() {
    return {.home = home_,
        .installation = {.agent = "/opt/shardsweep-agent", .presets = presets_},
        .store = *store_,
        .clock = clock_,
        .make_scheduler =
            [this](Backend, const SiteSpec&) {
              return std::make_unique<Slurm>(jobs_, clock_, calls_);
            },
        .make_notifier = nullptr,
        .random_hex =
            [this](int digits) {
              std::string text;
              while (text.size() < static_cast<std::size_t>(digits))
                text += fmt::format("{:016x}", random_());
              return text.substr(0, static_cast<std::size_t>(digits));
            },
        .policy = {}};
  }

  /// Fifty sweeps that are done, with their files in force.
  void make_history() {
    sqlite::Database database(home_.database, sqlite::OpenMode::create, 0);
    sqlite::migrate(database);
    bench::fill(database, history);
    database.execute(
        "UPDATE trials SET state = 'ended', outcome = 'skipped' WHERE state = 'planned'");
    sqlite::Statement update(database, "UPDATE sweeps SET resolved = ?, site = ?");
    update.run(explain_sweep(spec_), site());
  }
  static std::string site() {
    return explain_site(must(load_site_text("backend: slurm\n", "site.yaml")));
  }

  void post_sweep() {
    Plan plan;
    Point point;
    point.seq_len = 4096;
    point.nodes = nodes_each;
    point.gpus = point.layout.dp = nodes_each * 8;
    for (int i = 0; i < trials; ++i) {
      point.layout.bucket_mb = 1 + i / 3;
      point.layout.micro_batch = 1 << (i % 3);
      point.layout.grad_accum = 4 >> (i % 3);
      plan.trials.push_back({point, {std::int64_t{1} << 34, 0.5, attempt_s, 1000.0}, 0});
    }
    plan.points = trials;
    Capabilities capabilities;
    capabilities.runner = "played";
    capabilities.version = "1";
    std::ifstream file(presets_.parent_path() / "templates" / "lane.sbatch");
    std::ostringstream job_template;
    job_template << file.rdbuf();
    const std::string resolved = explain_sweep(spec_);
    SubmittedSweep submission{&spec_, &plan, &capabilities, resolved, resolved, "hash",
        Backend::slurm, site(), job_template.str()};
    Request request;
    request.verb = Verb::submit;
    request.inbox = (home_.inbox() / "scale.db").string();
    int made = 0;
    must(write_inbox(request.inbox, submission, [&](const Point& one) {
      ++made;
      return TrialNames{fmt::format("{:032x}", made),
          fmt::format("llama-1b-n20-dp160tp1pp1-mb{}ga{}-z0-{:06x}", one.layout.micro_batch,
              one.layout.grad_accum, made),
          fmt::format("{:032x}", made / 3)};
    }));
    (void)must(post_request(home_, request, clock_.now()));
  }

  template <class Work>
  void timed(Phase& phase, const Work& work) {
    const double cpu = cpu_s();
    const auto begin = std::chrono::steady_clock::now();
    clock_.begin_pass();
    work();
    clock_.end_pass();
    phase.wall_ms.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
    phase.cpu_ms.push_back((cpu_s() - cpu) * 1e3);
    phase.cpu_s += cpu_s() - cpu;
  }

  /// As long apart as the daemon itself would wait.
  void tick(Phase& phase, double seconds = 0) {
    if (phase.wall_ms.empty()) phase.calls_before = calls_;
    if (seconds == 0) seconds = static_cast<double>(daemon_->pause().count()) * 1e-3;
    clock_.advance(seconds);
    phase.simulated_s += seconds;
    for (auto& [id, job] : jobs_) {
      job.state = job.lead->gone() ? "COMPLETED" : "RUNNING";
      job.lead->play(clock_.now(), random_);
    }
    timed(phase, [&] { must(daemon_->tick()); });
    phase.descriptors = std::max(phase.descriptors, open_descriptors());
  }

  /// False beyond the limits.
  bool report(Phase& phase) {
    std::vector<double> sorted = phase.wall_ms;
    std::vector<double> cpu = phase.cpu_ms;
    std::sort(sorted.begin(), sorted.end());
    std::sort(cpu.begin(), cpu.end());
    const double median = sorted[sorted.size() / 2];
    const double core = phase.simulated_s > 0 ? phase.cpu_s / phase.simulated_s : 0;
    std::int64_t measured = 0;
    for (const auto& [id, job] : jobs_)
      measured += job.lead->measured();
    const double looks = std::max(1.0, phase.simulated_s / 10);
    fmt::print(
        "{{\"bench\":\"daemon_{}\",\"ticks\":{},\"median_ms\":{:.1f},\"p99_ms\":{:.1f},"
        "\"max_ms\":{:.1f},\"median_cpu_ms\":{:.1f},\"max_cpu_ms\":{:.1f},\"cores\":{:.3f},"
        "\"cpu_s\":{:.2f},\"simulated_s\":{:.0f},"
        "\"descriptors\":{},\"resident_mb\":{},\"calls_per_look\":{:.2f},\"jobs\":{},"
        "\"measured\":{}}}\n",
        phase.name, sorted.size(), median, sorted[sorted.size() * 99 / 100], sorted.back(),
        cpu[cpu.size() / 2], cpu.back(), core, phase.cpu_s, phase.simulated_s, phase.descriptors,
        resident_mb(), static_cast<double>(calls_ - phase.calls_before) / looks, jobs_.size(),
        measured);
    std::fflush(stdout);
    return median <= 50 && sorted.back() <= 250 && core < 1 && resident_mb() < 500;
  }

  void report_files() {
    std::int64_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(home_.dir()))
      files += entry.path().empty() ? 0 : 1;
    sqlite::Database database(home_.database, sqlite::OpenMode::existing, 1000);
    // What is assigned has a folder with its spec until it has ended.
    const auto open = database.integer("SELECT count(*) FROM attempts WHERE state <> 'ended'");
    const auto ended = database.integer(
        "SELECT count(*) FROM attempts WHERE state = 'ended' AND allocation "
        "IN (SELECT id FROM allocations WHERE state <> 'ended')");
    fmt::print(
        "{{\"bench\":\"daemon_files\",\"files\":{},\"attempts_open\":{},\"attempts_ended\":{},"
        "\"files_per_attempt_ended\":{:.2f}}}\n",
        files, open, ended, static_cast<double>(files - 2 * open) / static_cast<double>(ended));
  }

  Home home_;
  fs::path presets_;
  SweepSpec spec_;
  PlayedClock clock_;
  std::map<std::string, Job> jobs_;
  std::int64_t calls_ = 0;
  std::mt19937_64 random_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace

int main(int argc, char** argv) {
  fs::path folder;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--check") {
      check = true;
    } else {
      folder = argv[i];
    }
  }
  const bool temporary = folder.empty();
  if (temporary) folder = fs::temp_directory_path() / fmt::format("bench_daemon.{}", ::getpid());
  fs::create_directories(folder);
  const bool good = Scale(folder).run(check);
  if (temporary) fs::remove_all(folder);
  return good ? 0 : 1;
}
