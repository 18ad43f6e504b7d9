// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include "base/clock.hpp"
#include "hand_clock.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

namespace shardbench {
namespace {

constexpr int look_ms = 5;

std::unique_ptr<HandClock> hand_clock;  // null: the system's clock

[[noreturn]] void become(const std::vector<std::string>& words, const Surroundings& around) {
  const auto open_for_append = [](const std::string& path) {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  };
  (void)::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  (void)::dup2(open_for_append(around.output), 1);
  (void)::dup2(open_for_append(around.errors), 2);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  _exit(127);
}

/// The variables that srun sets for its tasks, and none of torchrun's, which go before them.
void act_as_slurm_task(int rank, int world) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"})
    (void)::unsetenv(name);
  (void)::setenv("SLURM_PROCID", std::to_string(rank).c_str(), 1);
  (void)::setenv("SLURM_NTASKS", std::to_string(world).c_str(), 1);
  (void)::setenv("SLURM_LOCALID", std::to_string(rank).c_str(), 1);
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/shardbench.XXXXXX";
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Launch::Launch(const std::string& program, int world, const std::vector<std::string>& arguments,
    const Surroundings& surroundings) {
  codes_.assign(static_cast<std::size_t>(world), still_running);
  for (int rank = 0; rank < world; ++rank) {
    std::vector<std::string> words{program};
    if (surroundings.identity == Identity::flags)
      words.insert(
          words.end(), {"--rank", std::to_string(rank), "--world-size", std::to_string(world)});
    words.insert(words.end(), arguments.begin(), arguments.end());
    const std::size_t slot = hand_clock ? hand_clock->next_slot() : 0;
    const pid_t child = ::fork();
    if (child == 0) {
      if (hand_clock) hand_clock->adopt(slot);
      if (surroundings.identity == Identity::slurm) act_as_slurm_task(rank, world);
      become(words, surroundings);
    }
    if (hand_clock) hand_clock->watch(slot, child);
    pids_.push_back(child);
  }
}

Launch::~Launch() {
  for (std::size_t i = 0; i < pids_.size(); ++i) {
    if (hand_clock) hand_clock->forget(pids_[i]);
    if (codes_[i] != still_running) continue;
    (void)::kill(pids_[i], SIGKILL);
    (void)::waitpid(pids_[i], nullptr, 0);
  }
}

void Launch::signal(int rank, int number) const {
  (void)::kill(pid(rank), number);
  if (number != SIGSTOP) return;
  // The parent is told when the last thread stands still.
  siginfo_t stopped{};
  (void)::waitid(P_PID, static_cast<id_t>(pid(rank)), &stopped, WSTOPPED | WNOWAIT);
}

std::vector<int> Launch::wait(double limit_s, int except) {
  const Deadline limit = Deadline::in(limit_s);
  if (hand_clock) hand_clock->move();
  while (is_running(except) && !limit.passed()) {
    if (hand_clock) hand_clock->pass_if_all_wait();
    sleep_ms(hand_clock ? 1 : look_ms);
  }
  if (hand_clock) hand_clock->stand_still();
  return codes_;
}

bool Launch::is_running(int except) {
  bool running = false;
  for (std::size_t i = 0; i < pids_.size(); ++i) {
    if (codes_[i] != still_running) continue;
    int status = 0;
    if (::waitpid(pids_[i], &status, WNOHANG) == pids_[i])
      codes_[i] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    else
      running = running || static_cast<int>(i) != except;
  }
  return running;
}

void use_hand_clock(const std::string& preload) {
  hand_clock = std::make_unique<HandClock>(preload);
}

void let_pass(double seconds) {
  if (hand_clock) hand_clock->pass(seconds);
}

std::string deadline(const std::string& phase, double seconds) {
  return phase + '=' + std::to_string(seconds);
}

std::vector<std::string> flags_in(const ScratchFolder& folder, std::vector<std::string> more) {
  std::vector<std::string> all{"--model", "tiny", "--records", folder.file("records"), "--run-id",
      "test", "--recorder", folder.file("recorder"), "--steps", "3", "--warmup", "1", "--deadline",
      deadline("comm", hand_clock ? 1 : patience_s), "--deadline",
      deadline("rendezvous", hand_clock ? 2 : patience_s)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool wait_for_text(const std::string& path, const std::string& text, double limit_s) {
  const Deadline limit = Deadline::in(limit_s);
  while (!limit.passed()) {
    if (read_file(path).find(text) != std::string::npos) return true;
    sleep_ms(look_ms);
  }
  return false;
}

std::vector<i64> guilty_ranks(const ScratchFolder& folder) {
  return read_recorders(folder.file("recorder")).guilty;
}

bool wait_for_guilty(const ScratchFolder& folder, const std::vector<i64>& ranks, double limit_s) {
  const Deadline limit = Deadline::in(limit_s);
  while (!limit.passed()) {
    if (guilty_ranks(folder) == ranks) return true;
    sleep_ms(look_ms);
  }
  return false;
}

}  // namespace shardbench
