// SPDX-License-Identifier: Apache-2.0
// Decision: Each check is made by a process that can be given up: a folder that does not answer
// holds up its own process, and the line is written all the same.
#include "agent/node_facts.hpp"

#include "agent/environment.hpp"
#include "agent/gpu_models.hpp"
#include "agent/gpu_watch.hpp"
#include "agent/log.hpp"
#include "agent/reap.hpp"
#include "agent/spawn.hpp"
#include "attempt/pace.hpp"
#include "machine/processes.hpp"
#include "text/characters.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep::agent {
namespace {

constexpr std::size_t longest_finding = 150;
constexpr std::size_t most_texts = 4;
constexpr int home_bytes = 4096;
constexpr int poll_ms = 5;
constexpr int look_ms = 100;  // at the clocks
constexpr int by_timeout = 124;
constexpr double giga = 1e9;
// Not the power cap: a GPU at work meets it every day.
constexpr std::uint64_t hardware_bits = 0x8 | 0x40 | 0x80;

struct Exit {
  bool done = false;  ///< else it was given up
  int code = 0;
};

/// Of a child that only waits for the outside.
Exit await(pid_t child, const Clock& clock, double limit_s) {
  const double until_s = seconds_of(clock) + limit_s;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) != child) {
    if (seconds_of(clock) > until_s) {
      ::kill(child, SIGKILL);
      return {};
    }
    ::poll(nullptr, 0, poll_ms);
  }
  return {true, WIFEXITED(status) ? WEXITSTATUS(status) : EINTR};
}

/// Write, sync, read, remove: as an attempt does. Exits with errno.
[[noreturn]] void use_folder(const std::string& file) {
  // A pipe that a process in state D holds open is never at its end.
  ::close(STDOUT_FILENO);
  const auto check = [](bool well) {
    if (!well) ::_exit(errno == 0 ? EIO : errno);
  };
  std::array<char, home_bytes> text{};
  text.fill('x');
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  check(out >= 0);
  check(::write(out, text.data(), text.size()) == home_bytes);
  check(::fsync(out) == 0);
  check(::close(out) == 0);
  const int in = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  check(in >= 0);
  check(::read(in, text.data(), text.size()) == home_bytes);
  check(::unlink(file.c_str()) == 0);
  ::_exit(0);
}

class Finding {
 public:
  Finding(const CheckOptions& options, const AllocationSpec& spec, const Clock& clock)
      : options_(options),
        limits_(spec.limits),
        order_(*spec.check),
        environment_(current_environment()),
        devices_(visible_devices(environment_, spec.slots_per_node, has_gpus())),
        clock_(clock),
        log_(clock, "check of " + options.node),
        gpus_(devices_, log_) {}

  NodeFacts find() {
    const double begin_s = seconds_of(clock_);
    facts_.device = device();
    if (options_.time == CheckTime::before) {
      check_home();
      check_programs();
      check_memory();
      check_speed();
    }
    run_lines(options_.time == CheckTime::before ? order_.before : order_.after);
    facts_.seconds = seconds_of(clock_) - begin_s;
    return std::move(facts_);
  }

 private:
  void wrong(std::string_view check, std::string_view what) {
    facts_.wrong.push_back(one_line(fmt::format("{}: {}", check, what), longest_finding));
  }
  void unmade(std::string_view check, std::string_view what) {
    facts_.unmade.push_back(one_line(fmt::format("{}: {}", check, what), longest_finding));
  }

  std::string device() const {
    if (!devices_.empty()) return one_line(gpu_models(devices_, log_), longest_finding / 2);
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      const auto colon = line.find(": ");
      if (line.starts_with("model name") && colon != std::string::npos)
        return one_line(line.substr(colon + 2), longest_finding / 2);
    }
    return "CPU";
  }

  void check_home() {
    if (limits_.check_home_s <= 0) return;
    const std::string file =
        (std::filesystem::path(options_.dir) / ("check." + options_.node)).string();
    const pid_t child = ::fork();
    if (child == 0) use_folder(file);
    if (child < 0) return wrong("home", fmt::format("can't fork: {}", std::strerror(errno)));
    const Exit exit = await(child, clock_, limits_.check_home_s);
    if (!exit.done)
      return wrong("home", fmt::format("{} has not answered within {:.1f} s", options_.dir,
                                       limits_.check_home_s));
    if (exit.code != 0)
      wrong("home",
            fmt::format("{} can't be written: {}", options_.dir, std::strerror(exit.code)));
  }

  void check_programs() {
    for (const std::string& program : order_.programs) {
      if (::access(program.c_str(), R_OK) != 0)
        wrong("programs", fmt::format("{}: {}", program, std::strerror(errno)));
    }
  }

  void check_memory() {
    if (limits_.check_memory > 0) {
      std::ifstream file("/proc/meminfo");
      double total = 0;
      double available = 0;
      std::string key;
      double value = 0;
      std::string rest;
      while (file >> key >> value && std::getline(file, rest)) {
        if (key == "MemTotal:") total = value;
        if (key == "MemAvailable:") available = value;
      }
      if (total > 0) {
        facts_.host_free = available / total;
      } else {
        unmade("memory", "/proc/meminfo does not tell");
      }
    }
    if (limits_.check_memory <= 0 && limits_.check_clocks <= 0) return;
    const auto gpus = gpus_.all();
    if (gpus.empty()) {
      const std::string why = devices_.empty() ? "this node has no GPUs of NVIDIA's"
                                               : "NVML does not tell of this node's GPUs";
      if (limits_.check_memory > 0) unmade("gpu memory", why);
      if (limits_.check_clocks > 0) unmade("clocks", why);
    }
    for (const GpuSeen& gpu : gpus) {
      if (!gpu.fault.empty()) unmade("gpu", fmt::format("GPU {}: {}", gpu.index, gpu.fault));
      if (gpu.memory && limits_.check_memory > 0)
        facts_.gpu_used_bytes =
            std::max(facts_.gpu_used_bytes, static_cast<double>(gpu.memory->used_bytes));
      const std::int64_t errors = gpu.health.uncorrected_errors.value_or(0);
      if (errors > 0 && limits_.check_clocks > 0)
        wrong("gpu",
              fmt::format("GPU {} counts {} uncorrected memory errors", gpu.index, errors));
    }
  }

  /// One run of the microbenchmark on each GPU, or on the CPUs, side by side.
  struct Run {
    std::string where;
    PipedChild child;
    std::string said{};
    bool open = true;
  };

  void check_speed() {
    if (limits_.check_gemm <= 0 && limits_.check_clocks <= 0) return;
    if (order_.gemm.empty()) return unmade("gemm", "there is no microbenchmark for its GPUs");
    // Of AMD's GPUs, or of a node whose image lacks the driver.
    if (order_.gemm.front().ends_with("-cuda") && gpus_.all().empty())
      return unmade("gemm", "shardbench-cuda needs GPUs of NVIDIA's, and NVML tells of none");
    if (::access(order_.gemm.front().c_str(), X_OK) != 0)
      return unmade("gemm", fmt::format("{}: {}", order_.gemm.front(), std::strerror(errno)));
    std::vector<Run> runs;
    const auto start = [&](const std::string& where, const std::string& variable) {
      // `timeout` ends what has hung with all that it has started.
      std::vector<std::string> argv{"timeout", "--kill-after=1",
                                    fmt::format("{:.0f}", limits_.check_limit_s)};
      argv.insert(argv.end(), order_.gemm.begin(), order_.gemm.end());
      Environment environment = environment_;
      if (!variable.empty()) environment.push_back(variable);
      auto child = start_piped(argv, environment);
      if (!child) return wrong("gemm", child.error().what);
      child->to.reset();
      runs.push_back({where, *std::move(child)});
    };
    if (devices_.empty()) start("", "");
    for (const std::string& gpu : devices_)
      start(fmt::format("GPU {}: ", gpu), "CUDA_VISIBLE_DEVICES=" + gpu);
    PaceOfNode paces;
    while (listen(runs))
      gpus_.add_paces(paces);
    for (Run& run : runs)
      take_speed(run);
    const Pace pace = paces.pace();
    facts_.sm_clock_mhz = pace.sm_clock_mhz;
    const auto words = throttle_words(pace.held_back & hardware_bits);
    if (limits_.check_clocks > 0 && !words.empty())
      wrong("clocks", fmt::format("held back by {}", fmt::join(words, ", ")));
  }

  /// False when all have ended.
  static bool listen(std::vector<Run>& runs) {
    std::vector<pollfd> polled;
    std::vector<Run*> open;
    for (Run& run : runs) {
      if (!run.open) continue;
      polled.push_back({run.child.from.get(), POLLIN, 0});
      open.push_back(&run);
    }
    if (open.empty()) return false;
    (void)::poll(polled.data(), polled.size(), look_ms);
    for (std::size_t at = 0; at < open.size(); ++at) {
      if (polled[at].revents == 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t got = ::read(polled[at].fd, buffer.data(), buffer.size());
      if (got > 0) {
        open[at]->said.append(buffer.data(), static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        open[at]->open = false;
      }
    }
    return true;
  }

  void take_speed(Run& run) {
    int status = 0;
    ::waitpid(run.child.pid, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    constexpr std::string_view key = "\"gemm_gflops\":";
    const auto at = run.said.find(key);
    double gflops = 0;
    if (at != std::string::npos) {
      const auto number = run.said.find_first_not_of(' ', at + key.size());
      const char* const end = run.said.data() + run.said.size();
      if (number != std::string::npos) std::from_chars(run.said.data() + number, end, gflops);
    }
    if (gflops <= 0)
      return wrong("gemm", fmt::format("{}{} {}: {}", run.where, order_.gemm.front(),
                                       code == by_timeout ? "has not ended in time"
                                                          : fmt::format("ended with {}", code),
                                       run.said.substr(0, longest_finding)));
    const double flops = gflops * giga;
    if (facts_.gemm_flops == 0 || flops < facts_.gemm_flops) facts_.gemm_flops = flops;
  }

  /// The site's own, one after the other; the first that fails is the last.
  void run_lines(const std::vector<std::string>& lines) {
    const std::string_view check = word_of(options_.time);
    for (const std::string& line : lines) {
      auto child =
          start_piped({"timeout", "--kill-after=1", fmt::format("{:.3f}", limits_.check_hook_s),
                       "/bin/sh", "-c", "exec 2>&1\n" + line},
                      environment_);
      if (!child) return wrong(check, child.error().what);
      child->to.reset();
      std::vector<Run> runs;
      runs.push_back({"", *std::move(child)});
      while (listen(runs)) {
        std::string& said = runs.front().said;
        if (said.size() > longest_finding * 4) said.erase(0, said.size() - longest_finding * 4);
      }
      int status = 0;
      ::waitpid(runs.front().child.pid, &status, 0);
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code == 0) continue;
      std::string_view last = runs.front().said;
      while (!last.empty() && last.back() == '\n')
        last.remove_suffix(1);
      last = last.substr(last.rfind('\n') + 1);
      if (code == by_timeout || code == 128 + SIGKILL)
        return wrong(check, fmt::format("'{}' took longer than {:.1f} s", one_line(line, 60),
                                        limits_.check_hook_s));
      return wrong(check, fmt::format("'{}' ended with {}{}{}", one_line(line, 60), code,
                                      last.empty() ? "" : ": ", last));
    }
  }

  const CheckOptions& options_;
  LaneLimits limits_;
  CheckOrder order_;
  Environment environment_;
  std::vector<std::string> devices_;
  const Clock& clock_;
  Log log_;
  GpuWatch gpus_;
  NodeFacts facts_;
};

/// Escapes may make more of it than a line of the channel holds.
std::string line_of(const CheckOptions& options, NodeFacts facts) {
  for (auto* const texts : {&facts.wrong, &facts.unmade}) {
    if (texts->size() > most_texts) texts->resize(most_texts);
  }
  while (true) {
    std::string line = encode(FromNode{options.node, NodeChecked{options.time, facts}});
    auto& longer = facts.unmade.empty() ? facts.wrong : facts.unmade;
    if (line.size() < max_line || longer.empty()) return line;
    longer.pop_back();
  }
}

Result<NodeFacts> facts_of(const CheckOptions& options, const Clock& clock) {
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(AllocationPaths{options.dir}.spec()));
  SHARDSWEEP_ASSIGN(const AllocationSpec spec, decode_allocation_spec(text));
  if (!spec.check) return NodeFacts{};
  return Finding(options, spec, clock).find();
}

}  // namespace

int run_check(const CheckOptions& options, const Clock& clock) {
  auto found = facts_of(options, clock);
  NodeFacts facts;
  if (found) {
    facts = *std::move(found);
  } else {
    facts.wrong.push_back(one_line("home: " + found.error().what, longest_finding));
  }
  const std::string line = line_of(options, std::move(facts)) + "\n";
  const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
  return written == static_cast<ssize_t>(line.size()) ? 0 : 1;
}

}  // namespace shardsweep::agent
