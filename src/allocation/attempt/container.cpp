// SPDX-License-Identifier: Apache-2.0
#include "attempt/container.hpp"

#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace shardsweep {
namespace {

using Words = std::vector<std::string>;

constexpr std::array<std::string_view, 8> world_variables{"RANK", "WORLD_SIZE", "LOCAL_RANK",
    "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NNODES"};

constexpr std::string_view owner_label = "shardsweep.owner";

constexpr std::array<std::string_view, 8> task_prefixes{
    "SLURM_", "SLURMD_", "PMI", "PALS_", "OMPI_", "MPI_LOCAL", "FLUX_", "HYDRA_"};

/// A task of a step (`launch: srun`) has them, and its trainer may need them.
constexpr std::array<std::string_view, 17> named_prefixes{"NCCL_", "CUDA_", "PYTORCH_", "TORCH_",
    "SHARDSWEEP_", "OMP_", "OPENBLAS_", "MKL_", "UCX_", "FI_", "GLOO_", "NVTE_", "HSA_", "ROCR_",
    "HIP_", "XLA_", "PYTHONUNBUFFERED"};

template <std::size_t Size>
bool begins_with_any(std::string_view name, const std::array<std::string_view, Size>& all) {
  return std::any_of(
      all.begin(), all.end(), [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string_view variable_name(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

bool is_one_of(const Words& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Every variable that is ours and no secret, by name: "NAME=value".
Words named_variables(const ContainerSpec& container, const RankStart& rank, const Words& secrets) {
  std::map<std::string, std::string, std::less<>> named(container.env.begin(), container.env.end());
  for (const auto& entry : rank.environment) {
    const std::string_view name = variable_name(entry);
    if (is_one_of(secrets, name)) continue;
    if (!is_of_the_world(name) && !is_of_a_task(name) && !begins_with_any(name, named_prefixes) &&
        !named.contains(name))
      continue;
    named.insert_or_assign(
        std::string(name), entry.substr(std::min(name.size() + 1, entry.size())));
  }
  Words words;
  words.reserve(named.size());
  for (const auto& [name, value] : named)
    words.push_back(fmt::format("{}={}", name, value));
  return words;
}

/// Adds the command last, so that neither the image's variables nor a hook of the site override it.
void add_command(Words& argv, const Words& named, const Words& command) {
  argv.emplace_back("env");
  std::copy_if(named.begin(), named.end(), std::back_inserter(argv),
      [](const std::string& entry) { return is_of_the_world(variable_name(entry)); });
  argv.insert(argv.end(), command.begin(), command.end());
}

void add_options(Words& argv, const ContainerSpec& container) {
  argv.insert(argv.end(), container.options.begin(), container.options.end());
}

void add_pairs(Words& argv, const char* flag, const Words& values) {
  for (const auto& value : values) {
    argv.emplace_back(flag);
    argv.push_back(value);
  }
}

std::string mount_text(std::string_view mount, std::string_view read_only) {
  const ContainerMount parts = mount_of(mount);
  return fmt::format("{}:{}{}", parts.source, parts.target, parts.read_only ? read_only : "");
}

Words mount_texts(const ContainerSpec& container, std::string_view read_only) {
  Words texts;
  for (const auto& mount : container.mounts)
    texts.push_back(mount_text(mount, read_only));
  return texts;
}

/// FNV-1a: a name that says which image, and no path.
std::string short_name(const std::string& image) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : image)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return fmt::format("{:016x}", hash).substr(0, 10);
}

bool is_squashed(std::string_view image) {
  return image.ends_with(".sqsh") || image.ends_with(".squashfs");
}

std::string own_name(const ContainerSpec& container, const ContainerPlace& place) {
  return fmt::format("shardsweep-{}-{}", place.token, short_name(container.image));
}

/// Name of the container once it is made. pyxis keeps its containers under names of this form.
std::string name_on_node(const ContainerSpec& container, const ContainerPlace& place) {
  const std::string own = own_name(container, place);
  if (container.runtime == ContainerRuntime::pyxis)
    return fmt::format("pyxis_{}_{}", place.job, own);
  return is_squashed(container.image) ? own : container.image;
}

/// Changes the folder by a shell, because enroot has no option for it. enroot itself needs that
/// shell in the image.
Words in_directory(const std::string& directory, const Words& command) {
  if (directory.empty()) return command;
  Words words{"sh", "-c", "cd -- \"$0\" && exec \"$@\"", directory};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

// Starts without --pid: the first process of its own namespace gets no SIGTERM unless it handles
// it. What it leaves behind comes to the node agent all the same.
RankStart by_enroot(
    const ContainerSpec& container, const RankStart& rank, const ContainerPlace& place) {
  const Words named = named_variables(container, rank, place.secrets);
  RankStart start{{"enroot", "start"}, rank.environment, ""};
  add_options(start.argv, container);
  add_pairs(start.argv, "-e", named);
  add_pairs(start.argv, "-e", place.secrets);
  // The hook of enroot mounts no device without this variable.
  const auto asks = [](const std::string& entry) {
    return entry.starts_with("NVIDIA_VISIBLE_DEVICES=");
  };
  if (place.has_gpus && std::none_of(named.begin(), named.end(), asks))
    add_pairs(start.argv, "-e", {"NVIDIA_VISIBLE_DEVICES=all"});
  add_pairs(start.argv, "-m", mount_texts(container, ":none:x-create=auto,rbind,ro"));
  start.argv.push_back(name_on_node(container, place));
  Words command;
  add_command(command, named, rank.argv);
  const Words inside = in_directory(rank.directory, command);
  start.argv.insert(start.argv.end(), inside.begin(), inside.end());
  return start;
}

// --env parts its value at commas, or refuses quotes, depending on the version; variables with
// its prefix arrive as they are.
RankStart by_apptainer(
    const ContainerSpec& container, const RankStart& rank, const ContainerPlace& place) {
  const Words named = named_variables(container, rank, place.secrets);
  RankStart start{{"apptainer", "exec"}, rank.environment, ""};
  if (place.has_gpus) start.argv.emplace_back("--nv");
  for (const char* option : {"--pid", "--cleanenv", "--no-home"})
    start.argv.emplace_back(option);
  add_options(start.argv, container);
  add_pairs(start.argv, "--bind", mount_texts(container, ":ro"));
  if (!rank.directory.empty()) add_pairs(start.argv, "--pwd", {rank.directory});
  start.argv.push_back(container.image);
  add_command(start.argv, named, rank.argv);
  for (const auto& entry : named)
    start.environment.push_back("APPTAINERENV_" + entry);
  for (const auto& entry : rank.environment) {
    if (is_one_of(place.secrets, variable_name(entry)))
      start.environment.push_back("APPTAINERENV_" + entry);
  }
  return start;
}

RankStart by_podman_hpc(
    const ContainerSpec& container, const RankStart& rank, const ContainerPlace& place) {
  const Words named = named_variables(container, rank, place.secrets);
  // A separate network or shared memory would part the ranks from each other.
  RankStart start{
      {"podman-hpc", "run", "--rm", "--network=host", "--ipc=host"}, rank.environment, ""};
  if (place.has_gpus) start.argv.emplace_back("--gpu");
  if (!place.name.empty()) add_pairs(start.argv, "--name", {place.name});
  if (!place.owner.empty())
    add_pairs(start.argv, "--label", {fmt::format("{}={}", owner_label, place.owner)});
  add_options(start.argv, container);
  add_pairs(start.argv, "-e", named);
  add_pairs(start.argv, "-e", place.secrets);
  add_pairs(start.argv, "-v", mount_texts(container, ":ro"));
  if (!rank.directory.empty()) add_pairs(start.argv, "-w", {rank.directory});
  // The image's entry point would start before the rank.
  start.argv.emplace_back("--entrypoint=");
  start.argv.push_back(container.image);
  add_command(start.argv, named, rank.argv);
  return start;
}

// A site may set and unset variables behind those that shifter was given: all of ours are set
// inside. It hands the host's environment on, and secrets come with that.
RankStart by_shifter(
    const ContainerSpec& container, const RankStart& rank, const ContainerPlace& place) {
  const Words named = named_variables(container, rank, place.secrets);
  RankStart start{{"shifter", "--image=" + container.image}, rank.environment, ""};
  for (const auto& mount : mount_texts(container, ":ro"))
    start.argv.push_back("--volume=" + mount);
  if (!rank.directory.empty()) start.argv.push_back("--workdir=" + rank.directory);
  add_options(start.argv, container);
  start.argv.emplace_back("env");
  start.argv.insert(start.argv.end(), named.begin(), named.end());
  start.argv.insert(start.argv.end(), rank.argv.begin(), rank.argv.end());
  return start;
}

}  // namespace

bool is_of_the_world(std::string_view name) {
  return std::find(world_variables.begin(), world_variables.end(), name) != world_variables.end();
}

bool is_of_the_libraries(std::string_view name) {
  return begins_with_any(name, named_prefixes);
}

bool is_of_a_task(std::string_view name) {
  return begins_with_any(name, task_prefixes);
}

RankStart entered(
    const ContainerSpec& container, const RankStart& rank, const ContainerPlace& place) {
  switch (container.runtime.value_or(ContainerRuntime::none)) {
    case ContainerRuntime::none:
      return rank;
    case ContainerRuntime::pyxis:
    case ContainerRuntime::enroot:
      return by_enroot(container, rank, place);
    case ContainerRuntime::apptainer:
      return by_apptainer(container, rank, place);
    case ContainerRuntime::podman_hpc:
      return by_podman_hpc(container, rank, place);
    case ContainerRuntime::shifter:
      return by_shifter(container, rank, place);
  }
  return rank;
}

std::vector<std::string> make_command(const ContainerSpec& container, const ContainerPlace& place) {
  const std::string own = own_name(container, place);
  if (container.runtime == ContainerRuntime::pyxis)
    return {"srun", "-N1", "-n1", "--overlap", "--cpu-bind=none", "--mpi=none", "-w", place.node,
        "--container-image=" + container.image, "--container-name=" + own + ":create", "true"};
  if (container.runtime == ContainerRuntime::enroot && is_squashed(container.image))
    return {"enroot", "create", "-f", "-n", own, container.image};
  // Fetch the image once: otherwise each rank would fetch it by itself, and fail by itself if it is
  // missing.
  if (container.runtime == ContainerRuntime::podman_hpc)
    return {"sh", "-c", "podman-hpc image exists \"$0\" || exec podman-hpc pull \"$0\"",
        container.image};
  return {};
}

std::vector<std::string> remove_command(
    const ContainerSpec& container, const ContainerPlace& place) {
  if (container.runtime == ContainerRuntime::enroot && is_squashed(container.image))
    return {"enroot", "remove", "-f", own_name(container, place)};
  return {};
}

std::vector<std::string> remove_left_command(
    const ContainerSpec& container, const std::string& owner) {
  if (container.runtime != ContainerRuntime::podman_hpc) return {};
  return {"podman-hpc", "rm", "--force", "--ignore", "--time", "0", "--filter",
      fmt::format("label={}={}", owner_label, owner)};
}

std::vector<std::string> list_owners_command(const ContainerSpec& container) {
  if (container.runtime != ContainerRuntime::podman_hpc) return {};
  return {"podman-hpc", "ps", "--all", "--filter", fmt::format("label={}", owner_label), "--format",
      fmt::format("{{{{index .Labels \"{}\"}}}}", owner_label)};
}

std::string ContainerOwner::text() const {
  return fmt::format("{}/{}/{}/{}", host, pid_namespace, pid, start);
}

std::vector<std::string> gone_owners(std::string_view list, const ContainerOwner& self,
    const std::function<bool(const ContainerOwner&)>& lives) {
  std::vector<std::string> gone;
  for (const std::string_view line : split(list, '\n')) {
    const auto parts = split(line, '/');
    if (parts.size() != 4 || parts[0] != self.host || parts[1] != self.pid_namespace) continue;
    const auto pid = number_from<std::int32_t>(parts[2]);
    const auto start = number_from<std::int64_t>(parts[3]);
    if (!pid || !start || is_one_of(gone, line)) continue;
    if (!lives({self.host, self.pid_namespace, *pid, *start})) gone.emplace_back(line);
  }
  return gone;
}

std::vector<std::string> digest_command(const ContainerSpec& container) {
  if (container.runtime == ContainerRuntime::podman_hpc)
    return {"podman-hpc", "image", "inspect", "--format", "{{.Digest}}", container.image};
  if (container.runtime == ContainerRuntime::shifter)
    return {"shifterimg", "lookup", container.image};
  return {};
}

std::string digest_in_name(std::string_view image) {
  constexpr std::string_view before = "@sha256:";
  constexpr std::size_t digits = 64;
  const std::size_t at = image.rfind(before);
  if (at == std::string_view::npos) return "";
  const auto digest = image.substr(at + 1);
  const auto hex = digest.substr(before.size() - 1);
  const bool whole =
      hex.size() == digits && hex.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return whole ? std::string(digest) : "";
}

namespace {

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// Behind a launch script of 32 bytes stand the magic word of 10, version and architecture of 3
// each, and the 16 bytes that are new with each build.
std::string in_sif(std::string_view beginning) {
  constexpr std::size_t magic_at = 32;
  constexpr std::size_t identity_at = 48;
  constexpr std::size_t identity_bytes = 16;
  if (beginning.size() < identity_at + identity_bytes ||
      !beginning.substr(magic_at).starts_with("SIF_MAGIC"))
    return "";
  return "sif:" + hex_of(beginning.substr(identity_at, identity_bytes));
}

// A squashfs's superblock has no identity of its own: when it was made, and where its root, its
// end and its table of inodes lie, tell images apart.
std::string in_squashfs(std::string_view beginning) {
  constexpr std::size_t superblock_bytes = 96;
  constexpr std::size_t made_at = 8;
  constexpr std::size_t root_and_size_at = 32;
  constexpr std::size_t inodes_at = 64;
  if (beginning.size() < superblock_bytes || !beginning.starts_with("hsqs")) return "";
  return "sqsh:" + hex_of(beginning.substr(made_at, 4)) +
      hex_of(beginning.substr(root_and_size_at, 16)) + hex_of(beginning.substr(inodes_at, 8));
}

}  // namespace

std::string digest_in_file(std::string_view beginning) {
  const auto sif = in_sif(beginning);
  return sif.empty() ? in_squashfs(beginning) : sif;
}

}  // namespace shardsweep
