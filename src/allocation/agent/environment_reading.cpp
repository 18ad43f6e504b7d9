// SPDX-License-Identifier: Apache-2.0
#include "agent/environment_reading.hpp"

#include "agent/containers.hpp"
#include "machine/descriptor.hpp"
#include "machine/processes.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace shardsweep::agent {
namespace {

constexpr double first_look_s = 0.05;
constexpr double longest_look_pause_s = 10;

/// The deepest one below `top` that runs the rank's command; 0: none does.
pid_t command_below(pid_t top, const std::vector<std::string>& command, int rank) {
  pid_t found = 0;
  for (const pid_t pid : descendants_of(top)) {
    if (!is_command_of_rank(process_arguments(pid), command)) continue;
    const bool any = rank < 0;
    if (any ||
        variables_in(process_environment(pid))[std::string(rank_variable)] == std::to_string(rank))
      found = pid;
  }
  return found;
}

/// The rank's own process; 0: it has not begun. A runtime may start it as nobody's child: then
/// it has come to us.
pid_t process_of_rank(pid_t started, const std::vector<std::string>& command, int rank) {
  pid_t found = command_below(started, command, -1);
  if (found == 0 && is_command_of_rank(process_arguments(started), command)) found = started;
  return found != 0 ? found : command_below(::getpid(), command, rank);
}

/// Follows a wrapper's only children down to the program itself.
pid_t last_of_chain(pid_t rank) {
  for (auto children = children_of(rank); children.size() == 1; children = children_of(rank)) {
    const auto stat = process_stat(children.front());
    if (!stat || stat->state == 'Z') break;
    rank = children.front();
  }
  return rank;
}

}  // namespace

void tell_environment(
    const std::filesystem::path& file, const std::vector<std::string>& environment) {
  const std::string text = told_text(environment);
  const Descriptor opened(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
  // A short write is harmless: the reader ignores incomplete text.
  if (opened.valid()) (void)!::write(opened.get(), text.data(), text.size());
}

EnvironmentReading::EnvironmentReading(const AttemptSpec& spec, FirstRank rank, double now_s)
    : wanted_(wanted_inside(spec, variables_of(rank.given))),
      secrets_(spec.secrets),
      image_(spec.container ? spec.container->image : ""),
      rank_(std::move(rank)),
      next_s_(now_s),
      pause_s_(first_look_s) {
  // A rank on the host has the given environment from its first moment.
  if (image_.empty() && rank_.pid != 0) found_ = told_ = variables_of(rank_.given);
}

void EnvironmentReading::look(bool is_training, double now_s) {
  if (done_ || (now_s < next_s_ && !is_training)) return;
  // Ranks that call themselves something else are not looked for in every train step.
  done_ = is_training;
  pause_s_ = std::min(2 * pause_s_, longest_look_pause_s);
  next_s_ = now_s + pause_s_;
  read_told();
  const pid_t rank = rank_.pid == 0 ? 0 : process_of_rank(rank_.pid, rank_.command, rank_.rank);
  if (rank == 0) return found_.empty() ? take(told_, {}) : void();
  const pid_t last = last_of_chain(rank);
  Variables own = variables_in(process_environment(rank));
  Variables variables = last == rank ? own : variables_in(process_environment(last));
  take(told_.empty() ? std::move(own) : told_, std::move(variables));
}

void EnvironmentReading::finish() {
  read_told();
  if (found_.empty()) take(told_, {});
  std::error_code error;
  std::filesystem::remove(rank_.told, error);
}

void EnvironmentReading::read_told() {
  constexpr std::size_t most = std::size_t{4} << 20;  // limit of an environment in Linux
  if (!told_.empty()) return;
  if (const auto text = read_file(rank_.told, most)) told_ = told_environment(*text);
}

void EnvironmentReading::take(Variables own, Variables last) {
  if (own.empty()) return;
  judge(own, last);
  found_ = last.empty() ? std::move(own) : std::move(last);
}

/// Judges the rank itself at once. Its only child may be a short-lived helper, so a change there
/// counts if two looks have seen it.
void EnvironmentReading::judge(const Variables& own, const Variables& last) {
  if (image_.empty()) return;
  auto changes = overridden(wanted_, own);
  const bool of_the_rank = !changes.empty();
  if (!of_the_rank && !last.empty()) changes = overridden(wanted_, last);
  if (!changes.empty() && (of_the_rank || changes == changes_))
    fault_ = describe(changes, image_, secrets_);
  changes_ = std::move(changes);
}

EnvironmentRecord::EnvironmentRecord(const AttemptHere& here, pid_t pid, RankStart inside)
    : here_(here),
      reading_(here.spec,
          FirstRank{pid, 0, std::move(inside.argv), std::move(inside.environment),
              here.paths.environment()},
          here.now_s()),
      since_(here.clock.now()) {}

std::optional<Evidence> EnvironmentRecord::look(bool is_training) {
  reading_.look(is_training, here_.now_s());
  return judge();
}

std::optional<Evidence> EnvironmentRecord::judge() {
  if (reading_.fault().empty() || is_judged_) return std::nullopt;
  is_judged_ = true;
  return Evidence{since_, {Outcome::rejected, reading_.fault(), SaidBy::agent}};
}

std::optional<Evidence> EnvironmentRecord::finish(const std::string& image_digest) {
  reading_.finish();
  auto evidence = judge();
  if (reading_.found().empty() && !here_.spec.container) return evidence;
  WrittenRecord record{"environment", {}, {}};
  for (const auto& [name, value] : reading_.kept())
    record.texts.emplace("env." + name, value);
  if (here_.spec.container) record.texts.emplace("image_digest", image_digest);
  write(record);
  if (is_judged_) write({"refusal", {{"class", "usage"}, {"message", reading_.fault()}}, {}});
  return evidence;
}

void EnvironmentRecord::write(const WrittenRecord& record) const {
  auto writer = LineWriter::open(here_.paths.records());
  if (!writer) return here_.log.line(writer.error().what);
  const auto line = encode_record(record, here_.spec.nonce, here_.clock.now());
  if (const auto written = writer->append(line, true); !written)
    here_.log.line(written.error().what);
}

}  // namespace shardsweep::agent
