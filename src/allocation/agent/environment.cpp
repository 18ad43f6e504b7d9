// SPDX-License-Identifier: Apache-2.0
#include "agent/environment.hpp"

#include "agent/containers.hpp"
#include "attempt/container.hpp"
#include "causes/fragmentation.hpp"
#include "machine/descriptor.hpp"
#include "machine/processes.hpp"
#include "text/secrets.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/rank_variables.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace shardsweep::agent {

namespace {

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

/// A rank must see one world: ours, not that of whoever started the agent.
bool is_scrubbed(std::string_view name) {
  return name.starts_with("SHARDSWEEP_") || is_of_the_world(name) || name == "NOTIFY_SOCKET";
}

void set(Environment& environment, std::string_view name, std::string_view value) {
  std::erase_if(environment, [&](const std::string& entry) { return name_of(entry) == name; });
  environment.push_back(fmt::format("{}={}", name, value));
}

/// Into the user's own value, wherever it stands; into that of newer versions if it is set.
void expand_segments(Environment& environment, const AttemptSpec& spec) {
  const auto given = [&](std::string_view name) -> std::optional<std::string> {
    if (auto value = value_in(environment, name)) return value;
    if (!spec.container) return std::nullopt;
    const auto found = spec.container->env.find(std::string(name));
    return found == spec.container->env.end() ? std::nullopt : std::optional(found->second);
  };
  set(environment, allocator_variable,
      with_expandable_segments(given(allocator_variable).value_or("")));
  if (const auto value = given(new_allocator_variable))
    set(environment, new_allocator_variable, with_expandable_segments(*value));
}

// From srun(1), input environment variables: those that change what a step is, where its output
// goes or how it ends. A login environment's SLURM_UNBUFFEREDIO broke 753 of 800 lines.
constexpr std::array<std::string_view, 98> srun_options{"SLURMD_DEBUG", "SLURM_ACCOUNT",
    "SLURM_ACCTG_FREQ", "SLURM_ARBITRARY_NODELIST", "SLURM_BCAST", "SLURM_BCAST_EXCLUDE",
    "SLURM_BURST_BUFFER", "SLURM_CLUSTERS", "SLURM_CLUSTER_CONSTRAINT", "SLURM_COMPRESS",
    "SLURM_CONSTRAINT", "SLURM_CONTAINER", "SLURM_CONTAINER_ID", "SLURM_CORE_SPEC",
    "SLURM_CPUS_PER_GPU", "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND", "SLURM_CPU_FREQ_REQ",
    "SLURM_DEBUG", "SLURM_DELAY_BOOT", "SLURM_DEPENDENCY", "SLURM_DISABLE_STATUS",
    "SLURM_DISTRIBUTION", "SLURM_DIST_PLANESIZE", "SLURM_EPILOG", "SLURM_EXACT", "SLURM_EXCLUSIVE",
    "SLURM_EXIT_ERROR", "SLURM_EXIT_IMMEDIATE", "SLURM_EXPORT_ENV", "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_SOCKET", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND",
    "SLURM_GPU_FREQ", "SLURM_GRES", "SLURM_GRES_FLAGS", "SLURM_HINT", "SLURM_HOSTFILE",
    "SLURM_IMMEDIATE", "SLURM_INPUTMODE", "SLURM_KILL_BAD_EXIT", "SLURM_LABELIO", "SLURM_MEM_BIND",
    "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_MPI_TYPE",
    "SLURM_MULTI_PROG", "SLURM_NCORES_PER_SOCKET", "SLURM_NETWORK", "SLURM_NO_KILL", "SLURM_NPROCS",
    "SLURM_NSOCKETS_PER_NODE", "SLURM_NTASKS", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU",
    "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_TRES",
    "SLURM_OOM_KILL_STEP", "SLURM_OPEN_MODE", "SLURM_OUTPUTMODE", "SLURM_OVERCOMMIT",
    "SLURM_OVERLAP", "SLURM_PARTITION", "SLURM_POWER", "SLURM_PROFILE", "SLURM_PROLOG", "SLURM_QOS",
    "SLURM_REMOTE_CWD", "SLURM_REQ_SWITCH", "SLURM_RESERVATION", "SLURM_RESV_PORTS",
    "SLURM_SEND_LIBS", "SLURM_SIGNAL", "SLURM_SPREAD_JOB", "SLURM_STDERRMODE", "SLURM_STDINMODE",
    "SLURM_STDOUTMODE", "SLURM_STEP_GRES", "SLURM_STEP_KILLED_MSG_NODE_ID", "SLURM_TASK_EPILOG",
    "SLURM_TASK_PROLOG", "SLURM_TEST_EXEC", "SLURM_THREADS", "SLURM_THREADS_PER_CORE",
    "SLURM_THREAD_SPEC", "SLURM_TIMELIMIT", "SLURM_TREE_WIDTH", "SLURM_TRES_BIND",
    "SLURM_TRES_PER_TASK", "SLURM_UNBUFFEREDIO", "SLURM_USE_MIN_NODES", "SLURM_WAIT", "SLURM_WCKEY",
    "SLURM_WORKING_DIR"};

/// Our own runner sees one GPU. Other people's trainers see the GPUs of all ranks on the node and
/// take number LOCAL_RANK, as under torchrun: with a single GPU, number 1 would be missing.
std::vector<std::string> devices_of(
    const AttemptSpec& spec, const RankPlace& place, const std::vector<std::string>& devices) {
  const std::size_t one = spec.trainer ? 0 : static_cast<std::size_t>(place.local_rank);
  const std::size_t count = spec.trainer ? static_cast<std::size_t>(place.local_world) : 1;
  const auto begin = std::min(one, devices.size());
  const auto end = std::min(begin + count, devices.size());
  return {devices.begin() + static_cast<std::ptrdiff_t>(begin),
      devices.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

std::vector<std::string> visible_devices(const Environment& own, int slots, bool has_gpus) {
  std::vector<std::string> devices;
  const auto listed = value_in(own, "CUDA_VISIBLE_DEVICES");
  for (int slot = 0; !listed && has_gpus && slot < slots; ++slot)
    devices.push_back(std::to_string(slot));
  // Slurm and CUDA write these if there is no device.
  if (!listed || *listed == "NoDevFiles" || *listed == "-1") return devices;
  for (std::size_t begin = 0; begin < listed->size();) {
    const std::size_t end = std::min(listed->find(',', begin), listed->size());
    devices.push_back(listed->substr(begin, end - begin));
    begin = end + 1;
  }
  return devices;
}

Environment passed_on(const Environment& shell) {
  Environment passed;
  std::copy_if(
      shell.begin(), shell.end(), std::back_inserter(passed), [](const std::string& entry) {
        return is_passed_on(name_of(entry)) && !may_be_secret(name_of(entry));
      });
  return passed;
}

Environment rank_environment(const Environment& own, const AttemptSpec& spec,
    const RankPlace& place, const std::vector<std::string>& devices) {
  Environment without_scheduler;
  for (const auto& entry : own) {
    if (!is_of_a_task(name_of(entry))) without_scheduler.push_back(entry);
  }
  return step_rank_environment(without_scheduler, spec, place, devices);
}

Environment step_rank_environment(const Environment& own, const AttemptSpec& spec,
    const RankPlace& place, const std::vector<std::string>& devices) {
  Environment environment;
  for (const auto& entry : own) {
    if (!is_scrubbed(name_of(entry))) environment.push_back(entry);
  }
  // Ranks share a node: a thread pool of all cores in each would measure the scheduler.
  for (const auto* threads : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
    set(environment, threads, "1");
  const auto devices_of_it = devices_of(spec, place, devices);
  if (!devices_of_it.empty())
    set(environment, "CUDA_VISIBLE_DEVICES", fmt::format("{}", fmt::join(devices_of_it, ",")));
  for (const auto& [name, value] : spec.env)
    set(environment, name, value);
  if (spec.expandable_segments) expand_segments(environment, spec);
  set(environment, "RANK", std::to_string(place.rank));
  set(environment, "WORLD_SIZE", std::to_string(spec.world));
  set(environment, "LOCAL_RANK", std::to_string(place.local_rank));
  set(environment, "LOCAL_WORLD_SIZE", std::to_string(place.local_world));
  set(environment, marker_variable, fmt::format("{}/{}/{}", spec.token, spec.attempt, place.node));
  return environment;
}

void ask_nccl(Environment& environment, const AttemptSpec& spec, const std::filesystem::path& log) {
  const auto unless_given = [&](const char* name, const std::string& value) {
    if (!spec.env.contains(name)) set(environment, name, value);
  };
  unless_given("NCCL_DEBUG", "INFO");
  unless_given("NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,NET,ENV");
  // NCCL replaces %h and %p in it by host and process.
  if (log.string().find('%') == std::string::npos) unless_given("NCCL_DEBUG_FILE", log.string());
}

std::optional<std::string> value_in(const Environment& environment, std::string_view name) {
  for (const auto& entry : environment) {
    if (name_of(entry) == name && entry.size() > name.size()) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::vector<std::string> srun_command(const std::string& srun, const AllocationSpec& spec,
    const std::vector<std::string>& node_command) {
  // Options that a site needs. Without -n, an SLURM_NTASKS of the batch job starts several agents
  // on a node.
  // --overlap a second step waits for ever; --no-kill and --kill-on-bad-exit=0 keep the other
  // nodes when one dies.
  std::vector<std::string> command{srun, fmt::format("-N{}", spec.nodes),
      fmt::format("-n{}", spec.nodes), "--ntasks-per-node=1", "--overlap", "--no-kill",
      "--kill-on-bad-exit=0", "--wait=0", "--cpu-bind=none", "--mpi=none", "--export=ALL"};
  command.insert(command.end(), node_command.begin(), node_command.end());
  return command;
}

std::vector<std::string> step_command(const std::string& srun, const AttemptSpec& spec,
    const std::vector<std::string>& rank_command, bool by_hostfile) {
  // -N2 -n4 alone was placed 3+1, and cyclic is a common default: neighbours share a node.
  const int nodes = (spec.world + spec.ranks_per_node - 1) / spec.ranks_per_node;
  const bool per_node = spec.trainer && spec.trainer->per_node;
  std::vector<std::string> command{srun, fmt::format("-n{}", per_node ? nodes : spec.world)};
  if (by_hostfile) {
    // The hostfile says how many nodes; Slurm 24.11 refuses -N beside it.
    command.emplace_back("--distribution=arbitrary");
  } else {
    command.push_back(fmt::format("-N{}", nodes));
    command.push_back(fmt::format("--ntasks-per-node={}", per_node ? 1 : spec.ranks_per_node));
    command.emplace_back("--distribution=block");
  }
  const std::vector<std::string> rest{"--kill-on-bad-exit=1", "--overlap", "--cpu-bind=none",
      "--mpi=none", "--input=none", "--export=ALL"};
  command.insert(command.end(), rest.begin(), rest.end());
  command.insert(command.end(), rank_command.begin(), rank_command.end());
  return command;
}

Environment srun_environment(const Environment& own) {
  Environment environment;
  for (const auto& entry : own) {
    const std::string_view name = name_of(entry);
    const bool option = name.starts_with("SRUN_") || name.starts_with("SLURM_CPU_BIND") ||
        name.starts_with("SLURM_MEM_BIND");
    if (option || std::find(srun_options.begin(), srun_options.end(), name) != srun_options.end())
      continue;
    environment.push_back(entry);
  }
  return environment;
}

std::vector<std::string> node_command(
    const std::string& agent, const AllocationSpec& spec, const std::string& name) {
  std::vector<std::string> command{agent, "node"};
  if (!name.empty()) command.insert(command.end(), {"--name", name});
  const auto seconds = [](double value) { return fmt::format("{}", value); };
  command.insert(command.end(),
      {"--slots", std::to_string(spec.slots_per_node),    //
          "--lease", seconds(spec.limits.agent_lease_s),  //
          "--beat", seconds(spec.limits.beat_s),          //
          "--watch", seconds(spec.limits.watch_interval_s)});
  if (!spec.token.empty()) command.insert(command.end(), {"--token", spec.token});
  if (spec.launch == LaunchMode::srun) command.insert(command.end(), {"--ranks", "step"});
  // A job has what its script has set. Here it would be all of the shell in which somebody
  // happened to start the daemon.
  if (spec.launch == LaunchMode::local) command.insert(command.end(), {"--ranks", "shell"});
  return command;
}

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
