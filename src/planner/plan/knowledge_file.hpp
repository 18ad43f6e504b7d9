// SPDX-License-Identifier: Apache-2.0
// What databases have learnt, as lines of JSON that other databases import: which hardware and
// trainers, the shapes of models, and what each run has shown. Names are in none of it: no
// sweep, user, host, path, node, job or model.
//
//   {"shardsweep_knowledge":1,"sources":1,"models":1,"runs":2,"check":"…"}
//   {"source":0,"gpu":"H100","gpus_per_node":8,…,"family":"megatron","check":"…"}
//   {"model":0,"layers":32,"hidden":4096,…,"check":"…"}
//   {"run":0,"source":0,"model":0,"gpus":8,"nodes":1,…,"layout":"dp4 tp2 …","check":"…"}
//
// Decision: Runs stand in the order in which they ended, since what a search learns depends on
// it a little; so a later export of the same database adds lines at the end. The rates of a
// cluster file are left out: whoever reads the file predicts by its own. That a run took so
// many times what its sweep had predicted is said for people, and not learnt from.
#pragma once

#include "plan/earlier_runs.hpp"
#include "plan/learnt.hpp"

#include <shardsweep/described.hpp>
#include <shardsweep/model.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Hardware on which runs were measured, and their trainer.
struct KnowledgeSource {
  std::string gpu;
  std::int32_t gpus_per_node = 0;
  std::int64_t memory_bytes = 0;
  double intra_node_bandwidth = 0;
  double inter_node_bandwidth = 0;
  std::string family;
  std::string profile;
  std::string version;
  friend bool operator==(const KnowledgeSource&, const KnowledgeSource&) = default;
};
// clang-format off
template <>
inline constexpr auto described<KnowledgeSource> = [] {
  using S = KnowledgeSource;
  using enum KeyType;
  constexpr auto optional = Flag::optional;
  return Entries{
      Key{"gpu", &S::gpu, {text, "name of the GPU as the driver gives it; empty: CPU slots", 0, 128}},
      Key{"gpus_per_node", &S::gpus_per_node, {count, "GPUs, or slots, of a node", 1, 1024}},
      Key{"memory", &S::memory_bytes, {bytes, "memory of one GPU or slot", 1, std::int64_t{1} << 50}},
      Key{"intra_node_bandwidth", &S::intra_node_bandwidth, {rate, "bandwidth of a GPU's links inside the node"}, optional},
      Key{"inter_node_bandwidth", &S::inter_node_bandwidth, {rate, "bandwidth of a GPU's network adapter"}, optional},
      Key{"family", &S::family, {text, "of the trainer"}},
      Key{"profile", &S::profile, {text, "habits that shardbench has taken on"}, optional},
      Key{"version", &S::version, {text, "of the trainer"}, optional},
  };
}();
// clang-format on

struct KnowledgeRun {
  std::int32_t source = 0;  ///< index into KnowledgeFile::sources
  std::int32_t nodes = 0;   ///< see Point::nodes
  LearntRun run;
  double over_predicted = 0;  ///< measured speed over the speed predicted at its place; 0: not
                              ///< known
};

struct KnowledgeFile {
  std::vector<KnowledgeSource> sources;
  std::vector<ModelSpec> models;  ///< shapes
  std::vector<KnowledgeRun> runs;
};

/// Limits of one file.
inline constexpr std::size_t most_bytes_of_knowledge = std::size_t{8} << 20;

/// Reads a file, or a database's copy of it; `where` names it in messages. Faults name the line and
/// what is wrong: torn, edited, or a value that no export writes (invalid_input); by a newer
/// program (rejected).
[[nodiscard]] Result<KnowledgeFile> read_knowledge(std::string_view text, const std::string& where);
[[nodiscard]] std::string knowledge_text(const KnowledgeFile& file);

/// The name of a file in lists and in `learn_from`: "imported:" and eight digits of its
/// content.
[[nodiscard]] std::string knowledge_name(std::string_view text);

/// Gathers what a database exports.
class KnowledgeWriter {
 public:
  /// False: its trainer is of no known family, and only its name would say what it is; or it
  /// proves another one.
  [[nodiscard]] static bool may_have(const SweepSpec& sweep);
  void add(const SweepSpec& sweep, std::span<const EarlierRun> runs);
  /// The latest EarlierRuns::most of each hardware and family.
  [[nodiscard]] KnowledgeFile file() const;

 private:
  struct KnowledgeEntry {
    Timestamp ended_at = 0;
    std::size_t kind = 0;  ///< hardware and family, whatever the version
    KnowledgeSource source;
    ModelSpec model;
    KnowledgeRun run;
  };
  std::vector<KnowledgeSource> kinds_;
  std::vector<KnowledgeEntry> kept_;
};

/// True if measurements of the source tell about the sweep's times (as predict/family's is_kin). No
/// file names a cluster, so the links have to be of one class.
[[nodiscard]] bool is_kin(const SweepSpec& sweep, const KnowledgeSource& source);

/// Runs of sources of kin, in the file's order.
[[nodiscard]] std::vector<EarlierRun> earlier_runs(
    const SweepSpec& sweep, const KnowledgeFile& file);

}  // namespace shardsweep
