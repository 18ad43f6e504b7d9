// SPDX-License-Identifier: Apache-2.0
// Sweeps that a command makes by itself, of a size that it is told: selftest, preflight.
#include "cli/session.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/home.hpp>
#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace shardsweep {

Result<std::int32_t> asked_nodes(const Options& options) {
  if (options.asked.nodes.empty()) return 1;
  std::int32_t nodes = 0;
  const char* const last = options.asked.nodes.data() + options.asked.nodes.size();
  const auto parsed = std::from_chars(options.asked.nodes.data(), last, nodes);
  if (parsed.ptr == last && nodes >= 1 && nodes <= 4096) return nodes;
  return fault(FaultKind::invalid_input,
      fmt::format("--nodes takes a number from 1 to 4096; got '{}'", options.asked.nodes));
}

Result<OwnCluster> own_cluster(const Session& session, std::int32_t nodes, std::int32_t most) {
  const Options& options = session.options;
  if (!options.asked.cluster.empty()) {
    SHARDSWEEP_ASSIGN(const ClusterSpec cluster,
        load_cluster(options.asked.cluster, session.installation.presets));
    const std::int32_t slots = std::min(cluster.gpus_per_node, std::max(most / nodes, 1));
    return OwnCluster{
        fmt::format("{{preset: {}, gpus_per_node: {}}}", options.asked.cluster, slots), slots};
  }
  SHARDSWEEP_ASSIGN(const SiteAccess access, read_site(session));
  const bool slurm = options.backend == Backend::slurm ||
      (options.backend == Backend::none && access.site.backend == Backend::slurm);
  if (slurm) return OwnCluster{"cpu-2x", 2};
  if (nodes > 1) {
    return fault(FaultKind::invalid_input,
        fmt::format("--nodes {} needs a cluster: 'shardsweep init' writes a site file. "
                    "Without --nodes this machine is tested.",
            nodes));
  }
  return OwnCluster{"this-machine", 4};
}

Result<std::string> submit_own_sweep(
    const Session& session, const std::string& name, const std::string& text) {
  SHARDSWEEP_TRY(make_home(session.home));
  Session sweep_session = session;
  const auto file = session.home.dir() / (name + ".yaml");
  SHARDSWEEP_TRY(write_own_file(file, text));
  sweep_session.options.file = file.string();
  return submit_anew(sweep_session);
}

}  // namespace shardsweep
