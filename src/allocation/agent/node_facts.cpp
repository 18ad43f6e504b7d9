// SPDX-License-Identifier: Apache-2.0
// Decision: Each check is made by a process that can be given up: a folder that does not answer
// holds up its own process, and the line is written all the same.
#include "agent/node_facts.hpp"

#include "agent/environment.hpp"
#include "agent/gpu_watch.hpp"
#include "agent/log.hpp"
#include "agent/reap.hpp"
#include "agent/spawn.hpp"
#include "attempt/gpu_use.hpp"
#include "attempt/network_check.hpp"
#include "machine/host_name.hpp"
#include "machine/processes.hpp"
#include "text/characters.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/fail_point.hpp>
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
constexpr int look_ms = 100;  // interval between looks at the clocks
constexpr int by_timeout = 124;
constexpr double giga = 1e9;
// Leaves out the power cap: a GPU at work meets it every day.
constexpr std::uint64_t hardware_bits = 0x8 | 0x40 | 0x80;

struct Exit {
  bool done = false;  ///< false: it was given up
  int code = 0;
};

/// Waits for a child whose only work is waiting.
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

/// Number after `key` in a microbenchmark's output; 0: there is none.
double figure_in(std::string_view said, std::string_view key) {
  const auto at = said.find(key);
  if (at == std::string_view::npos) return 0;
  const auto number = said.find_first_not_of(' ', at + key.size());
  double value = 0;
  if (number != std::string_view::npos)
    std::from_chars(said.data() + number, said.data() + said.size(), value);
  return value;
}

class Finding {
 public:
  Finding(const CheckOptions& options, const AllocationSpec& spec, const Clock& clock)
      : options_(options),
        token_(spec.token),
        limits_(spec.limits),
        order_(*spec.check),
        environment_(current_environment()),
        devices_(visible_devices(environment_, spec.slots_per_node, has_gpus())),
        clock_(clock),
        log_(clock, "check of " + options.node),
        gpus_(devices_, log_) {}

  NodeFacts find() {
    const double begin_s = seconds_of(clock_);
    if (options_.time == CheckTime::pairs) {
      check_pair();
      facts_.seconds = seconds_of(clock_) - begin_s;
      return std::move(facts_);
    }
    facts_.device = device();
    if (options_.time == CheckTime::before) {
      check_home();
      check_programs();
      check_memory();
      check_speed();
      if (limits_.check_allreduce > 0) facts_.meet = meeting_place();
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
    if (!devices_.empty()) {
      // Without a driver that tells, what is compared are the CPUs.
      std::string models = one_line(gpu_models(devices_, log_), longest_finding / 2);
      if (!models.empty()) return models;
    }
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
      return wrong("home",
          fmt::format("{} has not answered within {:.1f} s", options_.dir, limits_.check_home_s));
    if (exit.code != 0)
      wrong("home", fmt::format("{} can't be written: {}", options_.dir, std::strerror(exit.code)));
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
        unmade("memory", "/proc/meminfo does not say how much memory is free");
      }
    }
    if (limits_.check_memory <= 0 && limits_.check_clocks <= 0) return;
    const auto gpus = gpus_.all();
    if (gpus.empty()) {
      const std::string why = devices_.empty() ? "this node has no NVIDIA GPU"
                                               : "NVML does not report this node's GPUs";
      if (limits_.check_memory > 0) unmade("gpu memory", why);
      if (limits_.check_clocks > 0) unmade("clocks", why);
    }
    for (const GpuState& gpu : gpus) {
      if (!gpu.fault.empty()) unmade("gpu", fmt::format("GPU {}: {}", gpu.index, gpu.fault));
      if (gpu.memory && limits_.check_memory > 0)
        facts_.gpu_used_bytes =
            std::max(facts_.gpu_used_bytes, static_cast<double>(gpu.memory->used_bytes));
      const std::int64_t errors = gpu.health.uncorrected_errors.value_or(0);
      if (errors > 0 && limits_.check_clocks > 0)
        wrong("gpu", fmt::format("GPU {} counts {} uncorrected memory errors", gpu.index, errors));
    }
  }

  /// One run of the microbenchmark on each GPU, or on the CPUs, side by side.
  struct Run {
    std::string where;
    PipedChild child;
    std::string said{};
    bool open = true;
  };

  /// The microbenchmark can run here; else says why not.
  bool can_run(std::string_view check, const std::vector<std::string>& command) {
    if (command.empty()) {
      unmade(check, "no microbenchmark exists for the GPUs of this node");
      return false;
    }
    // The GPUs are AMD's, or the image lacks the driver.
    if (command.front().ends_with("-cuda") && gpus_.all().empty()) {
      unmade(check, "shardbench-cuda needs NVIDIA GPUs, and NVML reports none");
      return false;
    }
    if (::access(command.front().c_str(), X_OK) != 0) {
      unmade(check, fmt::format("{}: {}", command.front(), std::strerror(errno)));
      return false;
    }
    return true;
  }

  /// Starts a program on one GPU, or on the CPUs; false if it can't be started. `timeout` ends a
  /// hung program with all that it has started.
  bool start(std::string_view check, const std::vector<std::string>& command, double limit_s,
      const std::string& gpu, std::vector<Run>& runs) {
    std::vector<std::string> argv{"timeout", "--kill-after=1", fmt::format("{:.0f}", limit_s)};
    argv.insert(argv.end(), command.begin(), command.end());
    Environment environment = environment_;
    if (!gpu.empty()) environment.push_back("CUDA_VISIBLE_DEVICES=" + gpu);
    auto child = start_piped(argv, environment);
    if (!child) {
      wrong(check, child.error().what);
      return false;
    }
    child->to.reset();
    runs.push_back({gpu.empty() ? "" : fmt::format("GPU {}: ", gpu), *std::move(child)});
    return true;
  }

  /// The GPUs on which a microbenchmark runs, side by side; an empty name: once, on the CPUs.
  std::vector<std::string> places_of(const std::vector<std::string>& command) const {
    const bool on_cpus =
        devices_.empty() || command.empty() || command.front().ends_with("shardbench-cpu");
    return on_cpus ? std::vector<std::string>{""} : devices_;
  }

  void check_speed() {
    if (limits_.check_gemm <= 0 && limits_.check_clocks <= 0) return;
    if (!can_run("gemm", order_.gemm)) return;
    std::vector<Run> runs;
    for (const std::string& gpu : places_of(order_.gemm))
      start("gemm", order_.gemm, limits_.check_limit_s, gpu, runs);
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

  /// A port for each GPU, or for the CPUs. It may be another's when it is needed: then the pair
  /// has no figure, and both have other partners.
  std::string meeting_place() const {
    std::string ports;
    for (std::size_t at = 0; at < places_of(order_.allreduce).size(); ++at)
      ports += fmt::format("{}{}", at == 0 ? "" : ",", free_port().value_or(0));
    return host_name() + ":" + ports;
  }

  /// Each GPU with the one in its place on the other node, side by side: so a slow adapter of
  /// one GPU shows.
  void check_pair() {
    const auto text = read_own_file(AllocationPaths{options_.dir}.pairs(options_.round));
    if (!text) return wrong("allreduce", text.error().what);
    const auto pair = pair_of(*text, options_.node);
    if (!pair || !can_run("allreduce", order_.allreduce)) return;
    const auto colon = pair->meet.rfind(':');
    std::vector<std::string> ports;
    for (std::size_t at = colon + 1; at < pair->meet.size(); at = pair->meet.find(',', at) + 1) {
      ports.push_back(pair->meet.substr(at, pair->meet.find(',', at) - at));
      if (pair->meet.find(',', at) == std::string::npos) break;
    }
    const std::vector<std::string> places = places_of(order_.allreduce);
    if (ports.size() != places.size())
      return unmade("allreduce",
          fmt::format("node {} has another number of GPUs than this node", pair->first));
    const bool is_first = pair->first == options_.node;
    const double limit_s = std::max(1.0, round_limit_s(limits_) - 1);
    std::vector<Run> runs;
    for (std::size_t at = 0; at < ports.size(); ++at) {
      std::vector<std::string> command = order_.allreduce;
      for (const std::string& word :
          {std::string("--rank"), std::string(is_first ? "0" : "1"), std::string("--rendezvous"),
              fmt::format("tcp://{}:{}", pair->meet.substr(0, colon), ports[at]),
              std::string("--run-id"), fmt::format("{}.{}.{}", token_, options_.round, at),
              std::string("--deadline"), fmt::format("rendezvous={:.0f}", limit_s),
              std::string("--deadline"), fmt::format("comm={:.0f}", limit_s)})
        command.push_back(word);
      start("allreduce", command, limit_s + 1, places[at], runs);
    }
    while (listen(runs)) {
    }
    for (Run& run : runs)
      take_bandwidth(run, *pair, is_first);
    // A node with a GPU without a figure has no figure itself.
    if (!facts_.wrong.empty()) facts_.busbw_bytes_per_s = 0;
  }

  void take_bandwidth(Run& run, const NodePair& pair, bool is_first) {
    const int code = exit_of(run);
    const double bytes_per_s = figure_in(run.said, "\"busbw_gb_per_s\":") * giga;
    if (code != 0 || (is_first && bytes_per_s <= 0))
      return wrong("allreduce",
          fmt::format("{}with {}: {} {}", run.where, is_first ? pair.second : pair.first,
              order_.allreduce.front(),
              code == by_timeout ? "has not ended in time" : fmt::format("ended with {}", code)));
    double& slowest = facts_.busbw_bytes_per_s;
    if (is_first && (slowest == 0 || bytes_per_s < slowest)) slowest = bytes_per_s;
  }

  static int exit_of(const Run& run) {
    int status = 0;
    ::waitpid(run.child.pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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

  void take_speed(const Run& run) {
    const int code = exit_of(run);
    const double flops = figure_in(run.said, "\"gemm_gflops\":") * giga;
    if (flops <= 0)
      return wrong("gemm",
          fmt::format("{}{} {}: {}", run.where, order_.gemm.front(),
              code == by_timeout ? "has not ended in time" : fmt::format("ended with {}", code),
              run.said.substr(0, longest_finding)));
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
      const int code = exit_of(runs.front());
      if (code == 0) continue;
      std::string_view last = runs.front().said;
      while (!last.empty() && last.back() == '\n')
        last.remove_suffix(1);
      last = last.substr(last.rfind('\n') + 1);
      if (code == by_timeout || code == 128 + SIGKILL)
        return wrong(check,
            fmt::format(
                "'{}' took longer than {:.1f} s", one_line(line, 60), limits_.check_hook_s));
      return wrong(check,
          fmt::format(
              "'{}' ended with {}{}{}", one_line(line, 60), code, last.empty() ? "" : ": ", last));
    }
  }

  const CheckOptions& options_;
  std::string token_;
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
    std::string line =
        encode(FromNode{options.node, NodeChecked{options.time, options.round, facts}});
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
  fail_point("node.check_said");
  return written == static_cast<ssize_t>(line.size()) ? 0 : 1;
}

}  // namespace shardsweep::agent
