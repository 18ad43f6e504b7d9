// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/site_survey.hpp"

#include "text/characters.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace shardsweep::slurm {
namespace {

constexpr double mebi = 1 << 20;
constexpr double kibi = 1 << 10;

/// The leading number of "32000+"; 0 if there is none.
std::int64_t leading_number(std::string_view text) {
  std::int64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The smaller one; 0 is not known.
std::int64_t smaller(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

std::optional<Partition> read_partition(std::string_view line) {
  const auto fields = split(line, '|');
  if (fields.size() != 8 || fields[0].empty() || fields[0] == "*") return std::nullopt;
  const auto nodes = number_from<std::int32_t>(fields[2]);
  if (!nodes || *nodes < 0) return std::nullopt;
  Partition partition;
  partition.name = fields[0];
  partition.is_default = partition.name.back() == '*';
  if (partition.is_default) partition.name.pop_back();
  partition.up = fields[1].starts_with("up");
  partition.nodes = *nodes;
  partition.time_limit = trimmed(fields[3]);
  partition.cpus = leading_number(fields[4]);
  partition.memory_mb = leading_number(fields[5]);
  if (fields[6] != "(null)") partition.gres = trimmed(fields[6]);
  // A mark behind it says that the node is asleep, reserved or does not answer.
  if (trimmed(fields[7]) == "idle") partition.idle = *nodes;
  return partition;
}

/// Another group of nodes of the same partition.
void join(Partition& into, const Partition& group) {
  into.nodes += group.nodes;
  into.idle += group.idle;
  into.cpus = smaller(into.cpus, group.cpus);
  into.memory_mb = smaller(into.memory_mb, group.memory_mb);
  if (gpus_of(group.gres) > gpus_of(into.gres)) into.gres = group.gres;
}

std::string table_of(const std::vector<Partition>& partitions) {
  std::size_t width = 9;
  for (const Partition& each : partitions)
    width = std::max(width, each.name.size() + 1);
  std::string text = fmt::format("#   {:<{}}  {:>5}  {:>14}  {:>5}  {:>9}  {}\n", "partition",
      width, "nodes", "time limit", "CPUs", "memory", "gres");
  for (const Partition& each : partitions) {
    text += fmt::format("#   {:<{}}  {:>5}  {:>14}  {:>5}  {:>9}  {}\n",
        each.name + (each.is_default ? "*" : ""), width, each.nodes, each.time_limit, each.cpus,
        bytes_text(static_cast<double>(each.memory_mb) * mebi),
        each.up ? each.gres : each.gres + " (down)");
  }
  return text;
}

/// Sorted, each once.
std::string accounts_of(const Cluster& cluster, std::string& first) {
  std::set<std::string> accounts;
  for (const Association& each : cluster.associations) {
    if (each.account.empty()) continue;
    if (first.empty()) first = each.account;
    accounts.insert(each.account);
  }
  return fmt::format("{}", fmt::join(accounts, ", "));
}

std::string qos_of(const Cluster& cluster) {
  std::set<std::string> names;
  for (const Association& each : cluster.associations) {
    for (const std::string_view name : split(each.qos, ','))
      if (!name.empty()) names.emplace(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void add_list(std::string& text, std::string_view what, const std::vector<std::string>& found) {
  text += fmt::format("#   {:<18}  {}\n", what,
      found.empty() ? "none found" : fmt::format("{}", fmt::join(found, ", ")));
}

void add_machine(std::string& text, std::string_view what, const Machine& machine) {
  text += fmt::format("#\n# {}: {}, {}, {}\n", what, machine.kind, counted(machine.cpus, "CPU"),
      bytes_text(static_cast<double>(machine.memory_kib) * kibi));
  add_list(text, "GPUs", machine.gpus);
  add_list(text, "shared folders", machine.shared);
  add_list(text, "container runtimes", machine.containers);
  add_list(text, "CUDA", machine.cuda);
  add_list(text, "NCCL", machine.nccl);
}

std::string slurm_options(const Cluster& cluster) {
  const Partition* partition = partition_to_use(cluster);
  std::string text = "\n# Long options of sbatch, by their own names.\nslurm:\n";
  if (partition != nullptr) {
    text += fmt::format("  partition: {:<24} # by node count: {{\"1\": debug, \"2-\": {}}}\n",
        fmt::format("\"{}\"", partition->name), partition->name);
  }
  std::string account;
  const std::string accounts = accounts_of(cluster, account);
  if (account.empty()) {
    text += "  # account: NAME                    # Slurm lists no account of yours\n";
  } else {
    text +=
        fmt::format("  account: {:<26} # yours: {}\n", fmt::format("\"{}\"", account), accounts);
  }
  const std::string qos = qos_of(cluster);
  if (!qos.empty()) text += fmt::format("  # qos: NAME                        # yours: {}\n", qos);
  if (partition != nullptr && gpus_of(partition->gres) == 0)
    text += "  gpus-per-node: false               # the partition has no GPUs\n";
  return text;
}

constexpr std::string_view rest =
    "\n# modules: [cuda/12.4]               # loaded in order, before the trainer starts\n"
    "# prolog: [\"ulimit -l unlimited\"]    # shell lines of your own\n"
    "# env: {NCCL_DEBUG: WARN}            # reaches every rank, and is recorded\n"
    "# pass_env: [CUDA_HOME]              # from your login shell; nothing else is passed on\n";

void take_line(Machine& machine, std::string_view key, std::string_view value) {
  const std::string text(value);
  if (key == "machine") machine.kind = text;
  if (key == "cpus") machine.cpus = leading_number(value);
  if (key == "memory_kib") machine.memory_kib = leading_number(value);
  if (key == "gpu") machine.gpus.push_back(text);
  if (key == "container") machine.containers.push_back(text);
  if (key == "nccl") machine.nccl.push_back(text);
  if (key == "cuda") machine.cuda.push_back(text);
  if (key == "shared") machine.shared.push_back(text);
  if (key == "home") machine.sees_home = true;
}

}  // namespace

Result<std::vector<Partition>> parse_partitions(std::string_view text) {
  std::vector<Partition> groups;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    auto read = read_partition(line);
    if (!read)
      return fault(
          FaultKind::unavailable, "sinfo printed an unexpected line: '{}'", one_line(line, 200));
    groups.push_back(*std::move(read));
  }
  return groups;
}

std::vector<Partition> joined(const std::vector<Partition>& groups) {
  std::vector<Partition> partitions;
  for (const Partition& group : groups) {
    const auto same = std::find_if(partitions.begin(), partitions.end(),
        [&](const auto& each) { return each.name == group.name; });
    if (same == partitions.end()) {
      partitions.push_back(group);
    } else {
      join(*same, group);
    }
  }
  return partitions;
}

double seconds_of(std::string_view time_limit) {
  double days = 0;
  if (const std::size_t dash = time_limit.find('-'); dash != std::string_view::npos) {
    days = static_cast<double>(leading_number(time_limit));
    time_limit.remove_prefix(dash + 1);
  }
  double seconds = 0;
  for (const std::string_view part : split(time_limit, ':'))
    seconds = seconds * 60 + static_cast<double>(leading_number(part));
  return days * 86400 + seconds;
}

std::int64_t mebibytes_of(std::string_view size) {
  const std::int64_t number = leading_number(size);
  const std::size_t unit = size.find_first_not_of("0123456789");
  switch (unit == std::string_view::npos ? 'M' : size[unit]) {
    case 'K':
      return number / 1024;
    case 'G':
      return number * 1024;
    case 'T':
      return number * 1024 * 1024;
    default:
      return number;
  }
}

std::int64_t gpus_of(std::string_view gres) {
  for (std::string_view each : split(gres, ',')) {
    each = trimmed(each.substr(0, each.find('(')));
    if (!each.starts_with("gpu")) continue;
    const std::size_t colon = each.rfind(':');
    return colon == std::string_view::npos ? 1 : leading_number(each.substr(colon + 1));
  }
  return 0;
}

std::vector<Association> parse_associations(std::string_view text) {
  std::vector<Association> associations;
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split(line, '|');
    if (fields.size() < 3) continue;
    associations.push_back(
        {std::string(fields[0]), std::string(fields[1]), std::string(fields[2])});
  }
  return associations;
}

std::string machine_script(const std::string& home) {
  return "echo machine=$(uname -m)\n"
         "echo cpus=$(nproc)\n"
         "sed -n 's/^MemTotal: *\\([0-9]*\\).*/memory_kib=\\1/p' /proc/meminfo\n"
         "nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sed 's/^/gpu=/'\n"
         "srun --help 2>/dev/null | grep -q -e --container-image && echo container=pyxis\n"
         "for p in enroot apptainer singularity podman-hpc shifter; do\n"
         "  command -v $p >/dev/null 2>&1 && echo container=$p\n"
         "done\n"
         "PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null |\n"
         "  sed -n 's/.*libnccl[.]so.*=> */nccl=/p' | sort -u\n"
         "for c in \"$CUDA_HOME\" /usr/local/cuda; do\n"
         "  [ -n \"$c\" ] && [ -x \"$c/bin/nvcc\" ] && echo \"cuda=$c\"\n"
         "done | sort -u\n"
         "sed -n 's/^[^ ]* \\([^ ]*\\) "
         "\\(nfs4\\{0,1\\}\\|lustre\\|gpfs\\|beegfs\\|ceph\\|wekafs\\|panfs\\|fuse.juicefs\\|9p\\) "
         ".*/shared=\\1 (\\2)/p' /proc/mounts\n"
         "[ -e " +
      home +
      " ] && echo home=seen\n"
      "echo complete=\n";
}

std::optional<Machine> parse_machine(std::string_view text) {
  Machine machine;
  bool complete = false;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, equals);
    take_line(machine, key, trimmed(line.substr(equals + 1)));
    complete = complete || key == "complete";
  }
  if (!complete || machine.kind.empty()) return std::nullopt;
  return machine;
}

const Partition* partition_to_use(const Cluster& cluster) {
  const Partition* chosen = nullptr;
  const auto rank = [](const Partition& each) {
    return (each.up ? 4 : 0) + (gpus_of(each.gres) > 0 ? 2 : 0) + (each.is_default ? 1 : 0);
  };
  for (const Partition& each : cluster.partitions) {
    if (chosen == nullptr || rank(each) > rank(*chosen)) chosen = &each;
  }
  return chosen;
}

std::string site_file_text(const Cluster& cluster) {
  std::string text = fmt::format(
      "# How you reach the cluster '{}' (Slurm {}), as found on {}.\n"
      "# 'shardsweep doctor --on-a-node' checks it; 'shardsweep help site' explains every key.\n"
      "#\n",
      cluster.name, cluster.version, cluster.login_host);
  text += table_of(cluster.partitions);
  if (cluster.login) add_machine(text, "This login node", *cluster.login);
  if (cluster.node) {
    add_machine(text, "A compute node", *cluster.node);
    text += cluster.node->sees_home ? "#   It sees the folder of the database.\n"
                                    : "#   It does NOT see the folder of the database: set "
                                      "SHARDSWEEP_HOME to a shared folder.\n";
  }
  return text + "\nbackend: slurm\n" + slurm_options(cluster) + std::string(rest);
}

}  // namespace shardsweep::slurm
