// SPDX-License-Identifier: Apache-2.0
// render: the job script of a sweep, or what a point's trainer is given.
#include "cli/command.hpp"
#include "cli/emitting.hpp"
#include "cli/grammar.hpp"
#include "cli/passing.hpp"
#include "cli/session.hpp"
#include "fleet/decide.hpp"
#include "sweep/identity.hpp"
#include "sweep/launch.hpp"
#include "sweep/passed_variables.hpp"
#include "sweep/trainer_command.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"
#include "text/secrets.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <string>

namespace shardsweep {
namespace {

/// A word as a shell would need it.
std::string shown_word(const std::string& word) {
  const bool plain =
      !word.empty() && word.find_first_of(" \t\n'\"\\$`!*?[]{}()<>|&;#~") == std::string::npos;
  return plain ? word : in_quotes(word);
}

/// Text of what an attempt at a point is given. Values that only a rank knows stand in braces.
std::string point_text(const Session& session, const PlannedSweep& planned, const Point& point) {
  const Identifier names(planned.sweep, planned.capabilities, planned.site_env);
  const std::string slug = names.slug(point);
  const AttemptPaths paths{session.home.attempts() / (slug + ".1")};
  const std::int32_t slots = planned.sweep.cluster.gpus_per_node;
  SweepSpec sweep = planned.sweep;
  sweep.measure = sweep.measure.without_finals();
  const AttemptSpec spec = attempt_spec(sweep, point,
      {.attempt = 0,
          .trial = slug,
          .nonce = "NONCE",
          .token = "TOKEN",
          .program = session.installation.runner.string(),
          .paths = paths,
          .slots_per_node = slots});
  const bool per_node = spec.trainer && spec.trainer->per_node;
  std::string text = fmt::format("# {}: {}, {}\n", slug, counted(spec.world, "rank"),
      per_node ? "one process on each node" : "a process for each");
  text += join_texts(spec.argv, " ", shown_word) + "\n\n# environment\n";
  for (const auto& [name, value] : spec.env)
    text += fmt::format("{}={}\n", name, shown_word(value));
  for (const auto& name : secret_names(planned.sweep))
    text += fmt::format("{}={}\n", name, hidden_value);
  // Other people's trainers see the GPUs of their node's ranks (allocation/agent/environment).
  if (!planned.sweep.cluster.gpu.empty())
    text += spec.trainer ? "CUDA_VISIBLE_DEVICES={gpus of its node}\n"
                         : "CUDA_VISIBLE_DEVICES={its gpu}\n";
  text += per_node ? fmt::format("NODE_RANK={{node_rank}}\nNNODES={}\n",
                         (spec.world + spec.ranks_per_node - 1) / spec.ranks_per_node)
                   : fmt::format(
                         "RANK={{rank}}\nWORLD_SIZE={}\nLOCAL_RANK={{local_rank}}\n"
                         "LOCAL_WORLD_SIZE={}\n",
                         spec.world, spec.ranks_per_node);
  if (!spec.trainer) return text;
  const bool inside = spec.container && !spec.container->workdir.empty();
  text +=
      fmt::format("MASTER_ADDR={{master_addr}}\nMASTER_PORT={{master_port}}\n\n# folder{}\n{}\n",
          inside ? " in the container" : "",
          inside ? spec.container->workdir : spec.trainer->directory);
  if (spec.container) text += "\n# ranks run in\n" + explain_container(*spec.container);
  for (const auto& [name, file] :
      trainer_files(planned.sweep, point, paths.dir.string(), spec.ranks_per_node))
    text += fmt::format(
        "\n# file {}\n{}{}", (paths.dir / name).string(), file, file.ends_with('\n') ? "" : "\n");
  return text;
}

Result<ExitCode> render_points(const Session& session, PlannedSweep& planned) {
  if (const auto access = site_of_plan(session, planned))
    SHARDSWEEP_TRY(add_site(planned, *access));
  SHARDSWEEP_ASSIGN(const auto meant, points_meant(planned, session.options.trainer.point));
  std::string text;
  for (const PlannedTrial* trial : meant)
    text += (text.empty() ? "" : "\n") + point_text(session, planned, trial->point);
  return deliver(text);
}

Result<ExitCode> run_render(const Session& session) {
  SHARDSWEEP_ASSIGN(PlannedSweep planned, plan_file(session));
  if (!planned.refusal.empty()) say("refused when submitted: " + planned.refusal);
  say_missing(planned);
  if (!session.options.trainer.point.empty()) return render_points(session, planned);
  if (planned.sweep.cluster.this_machine) {
    say("'{}' runs on this machine, without Slurm. This script shows the template alone; no job is "
        "submitted with it.",
        planned.sweep.name);
  }
  SHARDSWEEP_ASSIGN(const SiteAccess access, read_site(session));
  say_notes(access.notes);
  for (const auto& [nodes, work] : work_by_nodes(planned.plan)) {
    SHARDSWEEP_ASSIGN(
        const std::string script, script_for(session, planned.sweep, access, nodes, work));
    SHARDSWEEP_TRY(print_result(array_around(session, planned.sweep, script) + script));
  }
  return ExitCode::done;
}

}  // namespace

extern const Command command_render{.name = "render",
    .help = "Print the job script, or what a point's trainer is given.",
    .examples =
        "shardsweep render sweep.yaml\n"
        "shardsweep render sweep.yaml tp=2,micro_batch=4",
    .declare =
        [](Grammar& grammar) {
          grammar.sweep_file();
          declare_point(
              grammar, "point", "Print command line, files and environment of these trials, ");
          grammar.backend();
        },
    .run = run_render};

}  // namespace shardsweep
