// SPDX-License-Identifier: Apache-2.0
#include "agent/trainer_logs.hpp"

#include "agent/reap.hpp"
#include "trainer/version.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

namespace shardsweep::agent {
namespace {

constexpr double facts_limit_s = 5;
constexpr double version_limit_s = 10;  // an interpreter starts from a network file system
constexpr std::string_view last_facts = "complete\n";

bool create_once(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
}

/// Command that prints the trainer's version, run by the attempt's own python, else by python3.
/// Empty: versions of this trainer are not told apart.
std::vector<std::string> trainer_probe_command(const AttemptSpec& spec) {
  if (!spec.trainer || spec.argv.empty()) return {};
  const Trainer* trainer = find_trainer(spec.trainer->log);
  if (trainer == nullptr) return {};
  const std::string& program = spec.argv.front();
  const bool is_python = program.substr(program.rfind('/') + 1).starts_with("python");
  return probe_command(*trainer, is_python ? program : "python3");
}

}  // namespace

void TrainerProbe::start(
    const AttemptSpec& spec, RankProcess like, const std::filesystem::path& output) {
  like.argv = trainer_probe_command(spec);
  if (like.argv.empty()) return;
  like.output = output;
  pid_ = start_rank(like).value_or(0);
}

bool TrainerProbe::runs() const {
  if (pid_ == 0) return false;
  siginfo_t info{};
  // A child that was already waited for counts as ended.
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == 0;
}

bool TrainerProbe::is_awaited(double now_s) {
  if (!runs()) return false;
  if (!awaited_since_s_) awaited_since_s_ = now_s;
  if (now_s - *awaited_since_s_ < version_limit_s) return true;
  end();
  return false;
}

void TrainerProbe::end() const {
  if (runs()) ::kill(pid_, SIGKILL);
}

Result<TrainerLogs> TrainerLogs::make(
    const AttemptSpec& spec, AttemptPaths paths, int nodes, int index) {
  SHARDSWEEP_ASSIGN(LogRecords records, LogRecords::make(*spec.trainer, spec.world));
  TrainerLogs logs(std::move(records), std::move(paths), spec.nonce);
  logs.nodes_ = nodes;
  logs.index_ = index;
  return logs;
}

void TrainerLogs::begin(const Clock& clock) {
  write({{"phase", {{"phase", "init"}}, {}}}, clock);
}

/// True if something new was there.
bool TrainerLogs::read_lines(const Clock& clock, bool all) {
  const double now_s = seconds_of(clock);
  if (records_.has_steps() && looked_at_s_ > 0)
    longest_look_s_ = std::max(longest_look_s_, now_s - looked_at_s_);
  looked_at_s_ = now_s;
  if (all) read_probe();
  bool any = false;
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    if (all || i == printing_) any = read_log(i, now_s, clock) || any;
  }
  return any;
}

bool TrainerLogs::read_log(std::size_t index, double now_s, const Clock& clock) {
  const auto lines = logs_[index].look();
  if (!lines) return false;  // looked at again; silence has its limit
  for (const auto& line : *lines) {
    see_version(line);
    const auto made = records_.read(line, now_s);
    if (made.empty()) continue;
    printing_ = index;
    if (claim()) write(made, clock);
  }
  return !lines->empty();
}

void TrainerLogs::read_probe() {
  const auto lines = probe_.look();
  if (!lines) return;
  for (const auto& line : *lines)
    see_version(line);
}

void TrainerLogs::see_version(std::string_view line) {
  if (const auto known = records_.see_version(line); !known) refused_ = known.error().what;
}

void TrainerLogs::look(const Clock& clock, bool all, bool probing) {
  if (finished_) return;
  const bool any = read_lines(clock, all);
  const bool quiet = all && !any && records_.is_complete();
  const bool through = quiet || records_.is_past();
  if (through && !waits_for_probe(clock, probing) && !waits_for_facts(clock))
    return finish(clock, false);
  if (!all || !is_elsewhere()) return;
  const bool asked = ::access(complete_file().c_str(), F_OK) == 0;
  tell_facts(asked && !waits_for_probe(clock, probing));
}

/// A trainer of a few short train steps is through before an interpreter has started.
bool TrainerLogs::waits_for_probe(const Clock& clock, bool probing) {
  if (!probing) return false;
  const double now_s = seconds_of(clock);
  if (!asked_for_version_s_) asked_for_version_s_ = now_s;
  return now_s - *asked_for_version_s_ < version_limit_s;
}

/// Written when it has changed: whoever reads it may be too hasty to ask for the last word.
void TrainerLogs::tell_facts(bool last) {
  if (nodes_ <= 1) return;
  std::string text = records_.facts_text();
  if (last) text += last_facts;
  if (text == told_facts_) return;
  if (const auto written = write_own_file(facts_file(index_), text); !written)
    fault_ = written.error().what;
  told_facts_ = std::move(text);
}

bool TrainerLogs::waits_for_facts(const Clock& clock) {
  if (finished_ || nodes_ <= 1 || owner_ != Owner::here || !records_.is_complete()) return false;
  const double now_s = seconds_of(clock);
  if (!asked_for_facts_s_) {
    asked_for_facts_s_ = now_s;
    (void)create_once(complete_file());
  }
  if (now_s - *asked_for_facts_s_ > facts_limit_s) return false;
  for (int node = 0; node < nodes_; ++node) {
    if (node == index_) continue;
    const auto text = read_own_file(facts_file(node));
    if (!text || !text->ends_with(last_facts)) return true;
  }
  return false;
}

void TrainerLogs::take_facts() {
  for (int node = 0; node < nodes_; ++node) {
    if (node == index_) continue;
    const auto text = read_own_file(facts_file(node));
    if (!text) continue;
    if (const auto known = records_.add_facts(*text); !known) refused_ = known.error().what;
  }
}

void TrainerLogs::finish(const Clock& clock, bool failed) {
  if (finished_) return;
  // A trainer that trains on prints for ever.
  while (read_lines(clock, true) && !records_.is_past()) {
  }
  finished_ = true;
  read_probe();
  if (is_elsewhere()) tell_facts(true);
  if (is_elsewhere() || (failed && !records_.is_complete())) return;
  if (!claim()) return;
  take_facts();
  const WrittenRecord last = records_.finish(longest_look_s_);
  if (last.type == "error") return write_error(last, clock);
  write({last}, clock);
  has_result_ = fault_.empty();
}

void TrainerLogs::write_error(const WrittenRecord& record, const Clock& clock) {
  write({record}, clock);
  error_.emplace();
  error_->type = RecordType::error;
  error_->error_class = record.texts.at("class");
  error_->message = record.texts.at("message");
}

/// Ends the reading of an attempt that was cut short. Its speed is a bound for others, so the log
/// must still prove the layout.
void TrainerLogs::finish_cut(const Clock& clock, CutBy by) {
  if (finished_) return;
  (void)read_lines(clock, true);
  finished_ = true;
  take_facts();
  auto wrong = records_.contradiction();
  if (!wrong) return;
  if (by == CutBy::this_node) return write_error(*wrong, clock);
  wrong->type = "refusal";
  write({*wrong}, clock);
}

/// link(2) would do as well; the file's name is new in each attempt, and one of several hosts
/// creates it.
bool TrainerLogs::claim() {
  if (owner_ != Owner::unknown) return owner_ == Owner::here;
  const bool made = create_once(claim_file());
  if (!made && errno != EEXIST) return false;
  owner_ = made ? Owner::here : Owner::elsewhere;
  return owner_ == Owner::here;
}

bool TrainerLogs::is_elsewhere() const {
  if (owner_ != Owner::unknown) return owner_ == Owner::elsewhere;
  return ::access(claim_file().c_str(), F_OK) == 0;
}

void TrainerLogs::write(const std::vector<WrittenRecord>& records, const Clock& clock) {
  auto writer = LineWriter::open(paths_.records());
  if (!writer) {
    fault_ = writer.error().what;
    return;
  }
  for (const auto& record : records) {
    const bool durable =
        record.type == "result" || record.type == "error" || record.type == "refusal";
    const auto line = encode_record(record, nonce_, clock.now());
    if (const auto written = writer->append(line, durable); !written) fault_ = written.error().what;
  }
}

}  // namespace shardsweep::agent
