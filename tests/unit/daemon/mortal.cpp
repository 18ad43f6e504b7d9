// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/mortal.hpp"

#include <algorithm>

namespace shardsweep::testing {

Result<std::optional<LeaseHolder>> MortalStore::lease_holder() {
  return mortal([&] { return store_->lease_holder(); });
}
Result<LeaseHolder> MortalStore::take_lease(LeaseHolder claim) {
  return mortal([&] { return store_->take_lease(claim); });
}
Result<void> MortalStore::renew_lease(Timestamp now) {
  return mortal([&] { return store_->renew_lease(now); });
}
Result<void> MortalStore::release_lease() {
  return mortal([&] { return store_->release_lease(); });
}
Result<WorldRows> MortalStore::load_world() {
  return mortal([&] { return store_->load_world(); });
}
Result<void> MortalStore::commit(std::span<const Change> changes) {
  return mortal([&]() -> Result<void> {
    if (outage) return tl::unexpected<Fault>(*outage);
    std::vector<Change> tampered;
    if (mistake_in_commit) {
      auto instead = mistake_in_commit(changes);
      if (!instead) return {};
      tampered = std::move(*instead);
      changes = tampered;
    }
    auto done = store_->commit(changes);
    if (done) {
      ++commits_;
      changes_ += static_cast<std::int64_t>(changes.size());
      if (committed) committed(changes);
    }
    return done;
  });
}
Result<std::optional<std::string>> MortalStore::answer_to(const std::string& request) {
  return mortal([&] { return store_->answer_to(request); });
}
Result<Store::InboxProgress> MortalStore::accept_inbox(
    const std::filesystem::path& file, Timestamp now, std::int64_t rows) {
  return mortal([&] { return store_->accept_inbox(file, now, rows); });
}
Result<Point> MortalStore::point_of(TrialId trial, const SweepSpec& sweep) {
  return mortal([&] { return store_->point_of(trial, sweep); });
}
Result<std::vector<SearchRow>> MortalStore::search_rows(SweepId id, const SweepSpec& sweep) {
  return mortal([&] { return store_->search_rows(id, sweep); });
}
Result<std::vector<CellBest>> MortalStore::best_of_cells(SweepId sweep) {
  return mortal([&] { return store_->best_of_cells(sweep); });
}
Result<std::vector<std::string>> MortalStore::nodes_of(
    const std::vector<AllocationId>& allocations) {
  return mortal([&] { return store_->nodes_of(allocations); });
}
Result<std::vector<FinalsRow>> MortalStore::finals_rows(SweepId sweep, std::int32_t nodes) {
  return mortal([&] { return store_->finals_rows(sweep, nodes); });
}
Result<std::set<TrialId>> MortalStore::slower_layouts(SweepId sweep) {
  return mortal([&] { return store_->slower_layouts(sweep); });
}
Result<std::vector<std::int32_t>> MortalStore::node_counts(SweepId sweep) {
  return mortal([&] { return store_->node_counts(sweep); });
}
Result<std::vector<TrialRow>> MortalStore::add_finals(
    SweepId sweep, const std::vector<NewFinal>& finals) {
  return mortal([&] { return store_->add_finals(sweep, finals); });
}
Result<TrialSelection> MortalStore::select_trials(
    const std::vector<std::string>& names, const std::string& where) {
  return mortal([&] { return store_->select_trials(names, where); });
}
Result<bool> MortalStore::work_left() {
  return mortal([&]() -> Result<bool> {
    auto left = store_->work_left();
    if (left && mistake_in_work_left) return mistake_in_work_left(*left);
    return left;
  });
}
Result<SweepContents> MortalStore::contents_of(SweepId sweep) {
  return mortal([&] { return store_->contents_of(sweep); });
}
Result<bool> MortalStore::delete_sweep(
    SweepId sweep, std::int64_t rows, const ForgetFolder& forget) {
  // Small pieces, so that deletions take several ticks.
  return mortal(
      [&] { return store_->delete_sweep(sweep, std::min<std::int64_t>(rows, 3), forget); });
}
Result<std::vector<double>> MortalStore::losses_of_others(TrialId trial, double steps) {
  return mortal([&] { return store_->losses_of_others(trial, steps); });
}
Result<RunnerName> MortalStore::runner_of(TrialId trial) {
  return mortal([&] { return store_->runner_of(trial); });
}
Result<std::optional<OutsideAttempt>> MortalStore::outside_attempt(const std::string& nonce) {
  return mortal([&] { return store_->outside_attempt(nonce); });
}
Result<std::vector<StopEvent>> MortalStore::stop_events() {
  return mortal([&] { return store_->stop_events(); });
}
Result<double> MortalStore::gpu_seconds(SweepId sweep) {
  return mortal([&] { return store_->gpu_seconds(sweep); });
}
Result<std::vector<KnowledgeText>> MortalStore::knowledge(Timestamp submitted) {
  return mortal([&] { return store_->knowledge(submitted); });
}

}  // namespace shardsweep::testing
