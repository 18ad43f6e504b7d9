// SPDX-License-Identifier: Apache-2.0
// The sweeps' files as they are in force, and the searches of sweeps that have one.
#pragma once

#include "daemon/parts.hpp"
#include "fleet/world.hpp"
#include "plan/earlier_runs.hpp"
#include "plan/proof.hpp"
#include "search/sweep_search.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace shardsweep {

/// A sweep's file, read once per submission.
struct SweepContext {
  std::string resolved;
  std::string site_text;
  SweepSpec spec;
  /// The submitted spec, before its programs become those of a snapshot; kept only for sweeps that
  /// are measured again.
  SweepSpec submitted{};
  SiteSpec site;
  std::unique_ptr<SweepSearch> search;  ///< empty: the plan's order, to its end
};

class Sweeps {
 public:
  Sweeps(const DaemonParts& parts, World& world) : parts_(parts), world_(world) {}

  /// Reads the file where the row has another one.
  [[nodiscard]] Result<SweepContext*> context_of(const SweepRow& sweep);
  [[nodiscard]] const std::map<SweepId, SweepContext>& all() const { return contexts_; }
  // Defaults if the sweep's file has not been read.
  [[nodiscard]] const SweepSpec& spec_of(SweepId id) const { return known(id).spec; }
  /// Spec with its programs from another snapshot; empty: its own.
  [[nodiscard]] SweepSpec spec_from(const SweepContext& context, const std::string& snapshot) const;
  [[nodiscard]] const SiteSpec& site_of(SweepId id) const { return known(id).site; }
  /// The daemon's own policy if the sweep's file has not been read.
  [[nodiscard]] const Policy& policy_of(SweepId sweep) const;
  void forget(SweepId id) {
    contexts_.erase(id);
    unloaded_.erase(id);
    unwatched_.erase(id);
  }
  /// Names of sweeps whose files could not be read, and why.
  [[nodiscard]] std::map<std::string, std::string> unloaded() const { return named(unloaded_); }
  /// Names of sweeps that are not measured again, since what they watch could not be read, and why.
  [[nodiscard]] std::map<std::string, std::string> unwatched() const { return named(unwatched_); }
  /// Notes why what a sweep watches could not be read; empty: it could.
  void note_watched(SweepId id, const std::string& why);

  /// Sets the sweeps that have stopped daemons (fleet/stops.hpp): they are neither read nor
  /// decided.
  void hold_apart(std::set<SweepId> ids) { apart_ = std::move(ids); }
  [[nodiscard]] const std::set<SweepId>& apart() const { return apart_; }
  [[nodiscard]] bool is_apart(SweepId id) const { return apart_.contains(id); }
  /// Treats resumed sweeps like any other.
  void take_back_resumed();

  /// Null if the sweep keeps to the plan's order. Makes the search at the first call.
  [[nodiscard]] Result<SweepSearch*> search_of(SweepId sweep, SweepContext& context);
  /// Rows have changed otherwise than by what a search hears.
  void forget_searches();
  /// The world's changes have just been committed.
  void tell_searches();

 private:
  [[nodiscard]] std::map<std::string, std::string> named(
      const std::map<SweepId, std::string>& why) const;
  [[nodiscard]] Result<SweepContext*> read_context(const SweepRow& sweep);
  [[nodiscard]] Result<void> keep_secrets(const std::string& name, SweepSpec& sweep) const;
  [[nodiscard]] const SweepContext& known(SweepId id) const;
  [[nodiscard]] Result<std::unique_ptr<SweepSearch>> make_search(
      SweepId sweep, const SweepSpec& spec);
  /// Runs of earlier sweeps that a new search begins with (search.learn_from). For a search over
  /// the dtypes of its own rows.
  [[nodiscard]] Result<std::vector<EarlierRun>> memories_of(
      SweepId sweep, const SweepSpec& spec, const std::vector<SearchRow>& own);
  /// Results of single ranks, of this sweep's layouts, on one GPU.
  [[nodiscard]] Result<std::vector<LayoutProof>> proofs_of(const SweepSpec& spec);
  [[nodiscard]] const SweepRow* proof_row(const SweepSpec& spec) const;
  [[nodiscard]] Result<void> read_reopened(SweepId id, SweepSearch& search);

  const DaemonParts& parts_;
  World& world_;
  std::map<SweepId, SweepContext> contexts_;
  std::map<SweepId, std::string> unloaded_;
  std::map<SweepId, std::string> unwatched_;
  std::set<SweepId> apart_;
};

}  // namespace shardsweep
