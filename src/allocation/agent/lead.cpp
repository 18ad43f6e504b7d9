// SPDX-License-Identifier: Apache-2.0
#include "agent/lead.hpp"

#include "agent/reap.hpp"
#include "agent/spawn.hpp"
#include "attempt/step_output.hpp"
#include "machine/file_ends.hpp"
#include "machine/host_name.hpp"
#include "machine/processes.hpp"
#include "node/recorder_file.hpp"
#include "rundir/run_directory.hpp"
#include "text/node_list.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/record.hpp>
#include <shardsweep/secrets_file.hpp>
#include <shardsweep/storage.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace shardsweep::agent {

// Decision: A thread reads, judges and packs an ended attempt. Over NFS that may take longer
// than the limit after which a silent lead is given up, and the lead's loop must go on beating.

namespace {

std::optional<RecorderReading> recorders_of(const AttemptPaths& paths, const Log& log) {
  auto reading = read_recorders(paths);
  if (reading) return *std::move(reading);
  log.line(reading.error().what);
  return std::nullopt;
}

Settlement settle(const EndedAttempt& attempt, const Log& log) {
  fail_point("lead.settle");
  const AttemptPaths paths{attempt.assign.dir};
  const auto records = read_attempt_records(paths);
  if (!records) log.line(records.error().what);
  Settlement settled =
      judge_ended(attempt, records && has_result(records->text, attempt.assign.nonce),
          [&] { return recorders_of(paths, log); });
  const auto packed = pack_attempt(paths, attempt.spec.limits.keep_log_bytes);
  if (!packed) log.line(packed.error().what);
  settled.packed = packed.has_value();
  return settled;
}

}  // namespace

Settling::Settling(EndedAttempt attempt, const Log& log)
    : done_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this, attempt = std::move(attempt), &log] {
        settled_ = settle(attempt, log);
        const std::uint64_t one = 1;
        (void)!::write(done_.get(), &one, sizeof one);
      }) {}

Settling::~Settling() {
  if (thread_.joinable()) thread_.join();
}

std::optional<Settlement> Settling::take() {
  std::uint64_t count = 0;
  if (::read(done_.get(), &count, sizeof count) != sizeof count) return std::nullopt;
  thread_.join();
  return std::move(settled_);
}

namespace {

namespace fs = std::filesystem;

constexpr auto limit = std::chrono::seconds(30);  // a thread waits; the lead beats
constexpr std::size_t longest_answer = 16 << 20;
constexpr const char* reader = "shardbench-cpu";

/// Reads until the child closes its stdout; false if that takes too long or the text is too long.
bool read_to_end(int descriptor, std::string& text) {
  using std::chrono::milliseconds;
  const SystemClock clock;
  const auto deadline = clock.steady() + limit;
  std::array<char, 16384> buffer{};
  while (text.size() < longest_answer) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock.steady()).count();
    pollfd polled{descriptor, POLLIN, 0};
    if (left <= 0 || ::poll(&polled, 1, static_cast<int>(left)) == 0) return false;
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return false;
}

Result<std::string> output_of(const std::vector<std::string>& argv) {
  SHARDSWEEP_ASSIGN(PipedChild child, start_piped(argv, current_environment()));
  child.to.reset();
  std::string text;
  const bool whole = read_to_end(child.from.get(), text);
  // Kill it: all of its answer is there, or it is given up.
  ::kill(child.pid, SIGKILL);
  while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!whole) return fault(FaultKind::timed_out, argv[0] + " did not answer");
  return text;
}

}  // namespace

Result<RecorderReading> read_recorders(const AttemptPaths& attempt) {
  std::error_code error;
  const fs::path copies = attempt.evidence() / "recorder";
  const fs::path folder = fs::exists(copies, error) ? copies : attempt.recorder();
  if (!fs::exists(folder, error))
    return fault(FaultKind::unavailable, "no flight recorders were kept");
  SHARDSWEEP_ASSIGN(const std::string own, own_program());
  const fs::path program = fs::path(own).parent_path() / reader;
  SHARDSWEEP_ASSIGN(const std::string text, output_of({program, "--read-recorder", folder}));
  SHARDSWEEP_ASSIGN(RecorderReading reading, decode_recorder_reading(text));
  fs::create_directories(attempt.evidence(), error);
  (void)write_own_file(attempt.evidence() / "recorder.json", text);
  return reading;
}

namespace {

constexpr double again_after_s = 1;
constexpr std::size_t most_unwritten = 10'000;

}  // namespace

void SaidLines::say(std::string line, bool durable, double now_s, const Log& log) {
  if (unwritten_.size() >= most_unwritten) return;
  unwritten_.push_back({std::move(line), durable});
  if (unwritten_.size() == 1) write(now_s, log);
}

void SaidLines::step(double now_s, const Log& log) {
  if (unwritten_.empty() || now_s < again_s_) return;
  if (auto file = LineWriter::open(path_)) file_ = std::move(*file);
  write(now_s, log);
}

void SaidLines::write(double now_s, const Log& log) {
  while (!unwritten_.empty()) {
    const Line& line = unwritten_.front();
    // A line that was only half written, or not synced, is written again as a whole: readers
    // skip the half, and a number that they know.
    const auto written = file_.append(line.text, line.durable);
    if (!written) {
      if (!std::exchange(told_, true)) log.line(written.error().what + ": tried again");
      again_s_ = now_s + again_after_s;
      return;
    }
    unwritten_.pop_front();
  }
  told_ = false;
}

namespace {

constexpr double last_kill_s = 60;
// srun has closed its output, and has only to exit.
constexpr double srun_exit_s = 5;

std::vector<std::string> nodes_of_job(const AllocationSpec& spec) {
  if (spec.launch == LaunchMode::local) return {};
  return nodes_in(value_in(current_environment(), "SLURM_JOB_NODELIST").value_or(""));
}

bool asks_topology(const AllocationSpec& spec) {
  return spec.launch == LaunchMode::srun && nodes_of_job(spec).size() > 1;
}

/// Where the ranks of a trainer meet, PyTorch's MASTER_ADDR and MASTER_PORT: "host:port" of
/// this host, where rank 0 runs, with a port that was free a moment ago. Ranks that are all on
/// one host need no name of it. Empty for a runner, whose ranks need none.
Result<std::string> meeting_place_of(const AttemptSpec& spec) {
  if (!spec.trainer && !spec.container) return std::string();
  SHARDSWEEP_ASSIGN(const int port, free_port());
  const bool alone = spec.world <= spec.ranks_per_node;
  return fmt::format("{}:{}", alone ? "127.0.0.1" : host_name(), port);
}

Result<AttemptSpec> read_spec(const Assign& assign) {
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(AttemptPaths{assign.dir}.spec()));
  SHARDSWEEP_ASSIGN(AttemptSpec spec, decode_attempt_spec(text));
  if (spec.attempt != assign.attempt || spec.nonce != assign.nonce)
    return fault(FaultKind::corrupt, "spec.json belongs to another attempt");
  // No node is to blame for a value that is not there.
  SHARDSWEEP_TRY(secrets_of(spec));
  return spec;
}

}  // namespace

Lead::Lead(AllocationPaths paths, const AllocationSpec& spec, LineWriter from_lead,
    const Clock& clock, PipedChild nodes, JobEnd job_end)
    : paths_(std::move(paths)),
      launch_(spec.launch),
      watch_interval_s_(spec.limits.watch_interval_s),
      from_lead_(paths_.from_lead(), std::move(from_lead)),
      to_lead_(paths_.to_lead()),
      clock_(clock),
      log_(clock, "lead"),
      child_(std::move(nodes)),
      channel_(child_.from.get(), child_.to.get()),
      job_end_(std::move(job_end)),
      job_report_(launch_ == LaunchMode::local ? Environment{} : current_environment()),
      topology_(current_environment(), asks_topology(spec)),
      machine_(paths_.dir.string(), spec, nodes_of_job(spec), *this) {}

int Lead::run() {
  while (true) {
    machine_.round(look());
    if (machine_.over()) return 0;
    wait();
  }
}

LeadSenses Lead::look() {
  from_lead_.step(seconds_of(clock_), log_);
  job_end_.step(clock_, log_);
  LeadSenses seen;
  seen.signals = signals_.take();
  seen.heard = heard();
  seen.closed = channel_.closed();
  if (settling_) seen.settled = settling_->take();
  if (seen.settled) settling_.reset();
  seen.left_s = job_end_.left_s(clock_);
  seen.end_is_due = job_end_.first_answer_due(clock_);
  seen.all_written = from_lead_.all_written();
  return seen;
}

std::vector<FromNode> Lead::heard() {
  std::vector<FromNode> messages;
  for (const auto& line : channel_.receive()) {
    if (line.empty()) continue;
    auto message = decode_from_node(line);
    if (message) {
      messages.push_back(*std::move(message));
    } else {
      log_.line("foreign output: " + message.error().what);
    }
  }
  return messages;
}

Moment Lead::now() const {
  return {seconds_of(clock_), clock_.now()};
}

/// A beat that is late says nothing.
bool Lead::say(FromLeadBody body, bool durable) {
  if (std::holds_alternative<Beat>(body) && !from_lead_.all_written()) return false;
  if (std::holds_alternative<NodeSeen>(body)) fail_point("lead.node_seen");
  if (std::holds_alternative<Revoked>(body)) fail_point("lead.revoked");
  if (std::holds_alternative<FoundOnNode>(body)) fail_point("lead.found");
  if (std::holds_alternative<Started>(body)) fail_point("lead.started");
  if (std::holds_alternative<Ended>(body)) fail_point("lead.ended");
  if (std::holds_alternative<Bye>(body)) fail_point("lead.bye");
  const bool starts = std::holds_alternative<Started>(body);
  const bool ends = std::holds_alternative<Ended>(body);
  from_lead_.say(
      encode(FromLead{++line_, clock_.now(), std::move(body)}), durable, seconds_of(clock_), log_);
  if (starts) fail_point("lead.started_written");
  if (ends) fail_point("lead.ended_written");
  return from_lead_.all_written();
}

void Lead::tell(const ToNodeBody& message) {
  channel_.send(encode(message));
  if (std::holds_alternative<Launch>(message)) fail_point("lead.launched");
}

bool Lead::leave_pairs(int round, const std::vector<NodePair>& pairs) {
  const auto written = write_own_file(paths_.pairs(round), encode_pairs(pairs), Readers::owner);
  if (!written) log_.line(written.error().what);
  return written.has_value();
}

std::vector<ToLead> Lead::orders() {
  std::vector<ToLead> all;
  const auto lines = to_lead_.look();
  // Five looks a second: a file server that is away for an hour is one line, not 18,000.
  const auto why = lines ? std::string() : lines.error().what;
  if (!why.empty() && why != unread_) log_.line(why);
  unread_ = why;
  if (!lines) return all;
  for (const auto& line : *lines) {
    if (line.empty()) continue;
    auto message = decode_to_lead(line);
    if (message) {
      all.push_back(*std::move(message));
    } else {
      log_.line(message.error().what);
    }
  }
  return all;
}

Result<ReadyAttempt> Lead::prepare(const Assign& assign) {
  SHARDSWEEP_ASSIGN(AttemptSpec spec, read_spec(assign));
  SHARDSWEEP_ASSIGN(std::string meet, meeting_place_of(spec));
  if (encode(ToNodeBody{Launch{assign.attempt, assign.dir, meet}}).size() >= max_line)
    return fault(FaultKind::invalid_input, "the folder's name is too long");
  return ReadyAttempt{std::move(spec), std::move(meet)};
}

bool Lead::pack(const Assign& assign) {
  const auto packed = pack_attempt(AttemptPaths{assign.dir}, 0);
  if (!packed) log_.line(packed.error().what);
  return packed.has_value();
}

void Lead::ask_about_job(const Assign& assign) {
  job_report_.ask(AttemptPaths{assign.dir}, log_);
}

std::string Lead::storage_fault(bool doubted) {
  const auto fault = doubted ? try_storage(paths_.dir) : look_at_storage(paths_.dir);
  if (!fault) return "";
  fail_point("lead.shut");
  return describe(*fault, paths_.dir);
}

/// srun exits with the highest code of its tasks. Its own death says nothing of them.
bool Lead::agents_were_killed() {
  constexpr int by_sigkill = 128 + SIGKILL;
  if (launch_ != LaunchMode::agents) return false;
  const auto status = exit_status(child_.pid, clock_, srun_exit_s);
  return status && WIFEXITED(*status) && WEXITSTATUS(*status) == by_sigkill;
}

std::optional<Evidence> Lead::lost_by_launcher() {
  constexpr std::size_t most = std::size_t{1} << 20;
  if (launch_ != LaunchMode::agents) return std::nullopt;
  return lost_node_in(file_ends(paths_.log(), most).text, clock_.now());
}

bool Lead::end_all() {
  return kill_all_children(clock_, last_kill_s);
}

void Lead::wait() {
  const double timeout_s = std::min(machine_.next_beat_s() - seconds_of(clock_), watch_interval_s_);
  std::vector<pollfd> polled;
  polled.push_back({signals_.descriptor(), POLLIN, 0});
  if (!channel_.closed()) polled.push_back(channel_.readable());
  if (settling_) polled.push_back({settling_->descriptor(), POLLIN, 0});
  if (channel_.has_unsent()) polled.push_back(channel_.writable());
  (void)::poll(polled.data(), polled.size(), std::max(1, static_cast<int>(timeout_s * 1000)));
  channel_.flush();
}

namespace {

constexpr int exit_failed = 1;
constexpr const char* local_node = "local";

Environment own_environment(const AllocationSpec& spec) {
  Environment entries = current_environment();
  entries.push_back(std::string(agent_variable) + "=" + spec.token + "/agent");
  return entries;
}

Result<PipedChild> start_nodes(const AllocationSpec& spec) {
  SHARDSWEEP_ASSIGN(const std::string program, own_program());
  const Environment own = own_environment(spec);
  if (spec.launch == LaunchMode::agents) {
    SHARDSWEEP_ASSIGN(const std::string srun, find_program("srun", own));
    return start_piped(
        srun_command(srun, spec, node_command(program, spec, "")), srun_environment(own));
  }
  // One node agent here, for the step of every attempt. The ledger knows nodes by Slurm's
  // names.
  if (spec.launch == LaunchMode::srun) {
    const std::string node = value_in(own, "SLURMD_NODENAME").value_or(local_node);
    return start_piped(node_command(program, spec, node), own);
  }
  if (spec.launch != LaunchMode::local || spec.nodes != 1)
    return fault(FaultKind::invalid_input,
        "launch '" + std::string(word_of(spec.launch)) + "' can't have " +
            std::to_string(spec.nodes) + " nodes");
  return start_piped(node_command(program, spec, local_node), own);
}

/// Job id as squeue and scancel name it; empty outside of Slurm.
std::string own_job_id() {
  const auto value = [](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text != nullptr ? text : "";
  };
  return job_id_of(
      value("SLURM_JOB_ID"), value("SLURM_ARRAY_JOB_ID"), value("SLURM_ARRAY_TASK_ID"));
}

Claimed claimed_by_us(const AllocationSpec& spec, const std::string& claim) {
  Claimed claimed;
  claimed.token = spec.token;
  claimed.claim = claim;
  claimed.host = host_name();
  claimed.pid = ::getpid();
  claimed.pid_start = process_stat(::getpid()).value_or(ProcessStat{}).start;
  claimed.job_id = own_job_id();
  if (spec.launch != LaunchMode::local)
    claimed.node = value_in(current_environment(), "SLURMD_NODENAME").value_or("");
  return claimed;
}

/// Slurm starts a job again in spite of --no-requeue if an administrator requeues it.
bool is_restarted() {
  const char* count = std::getenv("SLURM_RESTART_COUNT");
  return count != nullptr && std::atoi(count) > 0;
}

Result<int> claim_and_run(const AllocationPaths& paths, const Clock& clock, const Log& log) {
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(paths.spec()));
  SHARDSWEEP_ASSIGN(const AllocationSpec spec, decode_allocation_spec(text));
  SHARDSWEEP_ASSIGN(const std::string nonce, random_nonce());
  SHARDSWEEP_ASSIGN(const bool won, claim_allocation(paths, nonce));
  if (!won) {
    log.line("another lead has claimed this allocation");
    return exit_not_claimed;
  }
  SHARDSWEEP_ASSIGN(LineWriter from_lead, LineWriter::open(paths.from_lead()));
  SHARDSWEEP_ASSIGN(PipedChild nodes, start_nodes(spec));
  // A daemon on this machine may have been started within a job that is none of its leads'.
  JobEnd job_end(spec.launch == LaunchMode::local ? Environment{} : own_environment(spec));
  Lead lead(paths, spec, std::move(from_lead), clock, std::move(nodes), std::move(job_end));
  fail_point("lead.claimed");
  lead.say_claimed(claimed_by_us(spec, nonce));
  fail_point("lead.claimed_written");
  return lead.run();
}

}  // namespace

int run_lead(const std::string& dir, const Clock& clock) {
  block_signals();
  // With kill -9 of guard and node agent at once, what they watched comes here.
  become_subreaper();
  const Log log(clock, "lead");
  if (is_restarted()) {
    log.line("this job was started before: the daemon decides about retries");
    return exit_not_claimed;
  }
  const auto code = claim_and_run(AllocationPaths{dir}, clock, log);
  if (code) return *code;
  log.line(code.error().what);
  return exit_failed;
}

}  // namespace shardsweep::agent
