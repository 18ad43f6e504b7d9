// SPDX-License-Identifier: Apache-2.0
// init: asks Slurm, this machine and perhaps a node, and writes a site file to start from.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "slurm/words/script.hpp"
#include "slurm/words/settings.hpp"
#include "slurm/words/site_survey.hpp"
#include "slurm/words/survey.hpp"

#include <shardsweep/command.hpp>
#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <array>
#include <filesystem>
#include <system_error>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;

struct InitOptions {
  bool on_a_node = false;
};

Result<std::string> said_by(const std::vector<std::string>& argv) {
  SHARDSWEEP_ASSIGN(const CommandOutput output, run_command(argv, {}));
  if (output.exit_code == 0) return output.out;
  return fault(FaultKind::unavailable, "'{}' failed: {}", argv.front(), output.err.substr(0, 300));
}

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this machine";
}

std::string asking_script(const Session& session) {
  return slurm::machine_script(shell_quote(session.home.dir().string()));
}

Result<slurm::Cluster> ask_cluster(const Session& session) {
  if (find_on_path("sinfo").empty()) {
    return fault(FaultKind::unavailable,
        "no sinfo is on PATH: run 'shardsweep init' on a login node of a Slurm cluster. Sweeps of "
        "this machine need no site file.");
  }
  slurm::Cluster cluster;
  cluster.login_host = this_host();
  SHARDSWEEP_ASSIGN(const std::string config, said_by({"scontrol", "show", "config"}));
  SHARDSWEEP_ASSIGN(const slurm::Settings settings, slurm::parse_settings(config));
  cluster.name = settings.cluster;
  cluster.version = settings.version;
  SHARDSWEEP_ASSIGN(const std::string partitions, said_by(slurm::partitions_command()));
  SHARDSWEEP_ASSIGN(const auto groups, slurm::parse_partitions(partitions));
  cluster.partitions = slurm::joined(groups);
  // A cluster without accounts needs none.
  const auto accounts = said_by({"sacctmgr", "--noheader", "--parsable2", "show", "associations",
      "where", "user=" + user_name(), "format=account,partition,qos"});
  if (accounts) cluster.associations = slurm::parse_associations(*accounts);
  if (const auto here = said_by({"sh", "-c", asking_script(session)}))
    cluster.login = slurm::parse_machine(*here);
  return cluster;
}

/// Asks a node by a short job. The site file as it is so far says how to submit it.
Result<slurm::Machine> ask_a_node(const Session& session, const slurm::Cluster& cluster) {
  SHARDSWEEP_ASSIGN(const SiteSpec site, load_site_text(slurm::site_file_text(cluster), "init"));
  say("Submitting a short job that asks a node.");
  SHARDSWEEP_ASSIGN(const std::string said, run_on_a_node(session, site, asking_script(session)));
  const auto machine = slurm::parse_machine(said);
  if (!machine) return fault(FaultKind::unavailable, "the node's answer is not complete: " + said);
  return *machine;
}

Fault exists_already(const fs::path& file) {
  return {FaultKind::invalid_input,
      fmt::format("'{0}' exists already and is kept. Name another file, or print what would be "
                  "written: shardsweep init -",
          file.string())};
}

Result<ExitCode> run_init(const Session& session) {
  const fs::path file =
      session.options.file.empty() ? site_file_of(session) : fs::path(session.options.file);
  std::error_code error;
  // A file that exists is refused before a user waits for a job in vain.
  if (file != "-" && fs::exists(file, error)) return tl::unexpected<Fault>(exists_already(file));
  SHARDSWEEP_ASSIGN(slurm::Cluster cluster, ask_cluster(session));
  if (session.options.of<InitOptions>().on_a_node) {
    SHARDSWEEP_TRY(make_home(session.home));
    SHARDSWEEP_ASSIGN(cluster.node, ask_a_node(session, cluster));
  }
  const std::string text = slurm::site_file_text(cluster);
  // The loader has to accept the text before it is written.
  SHARDSWEEP_TRY(load_site_text(text, "init"));
  if (file == "-") return deliver(text);
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), error);
  SHARDSWEEP_ASSIGN(const bool made, create_file(file.string(), text));
  if (!made) return tl::unexpected<Fault>(exists_already(file));
  say("Wrote {}. 'shardsweep doctor --on-a-node' checks it.", file.string());
  return ExitCode::done;
}

}  // namespace

extern const Command command_init{.name = "init",
    .help = "Ask Slurm and write a commented site file.",
    .examples =
        "shardsweep init\n"
        "shardsweep init - --on-a-node",
    .declare =
        [](Grammar& grammar) {
          grammar.option("file", grammar.options().file, "FILE",
              "File to write; - prints it. Refused if it exists. Default: "
              "~/.config/shardsweep/site.yaml.");
          grammar.flag("--on-a-node", grammar.own<InitOptions>().on_a_node,
              "Also ask a node, by a short job: GPUs, containers, CUDA, NCCL.");
        },
    .run = run_init};

}  // namespace shardsweep
