// SPDX-License-Identifier: Apache-2.0
// What a site gives to whom, from the texts of sinfo, squeue and sacctmgr. Each parser fills
// its part of the facts; a line that is none of its kind is a fault, and nothing is concluded
// from the rest of the text.
#pragma once

#include <shardsweep/result.hpp>
#include <shardsweep/scheduler.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::slurm {

/// All partitions with their sizes: a line for each group of equal nodes in one state, however many
/// these are.
[[nodiscard]] std::vector<std::string> partitions_command();
[[nodiscard]] Result<void> read_partitions(std::string_view text, SiteFacts& into);

/// All jobs that wait. Of others: slurmctld lists them all, whoever asks.
[[nodiscard]] std::vector<std::string> waiting_command();
/// Counts jobs of other users that want nodes; jobs that wait for a date, a dependency or their
/// owner are left out.
[[nodiscard]] Result<void> read_waiting(
    std::string_view text, std::int64_t own_uid, SiteFacts& into);

/// A job that waits for this reason wants nodes that others have, and could have ours.
[[nodiscard]] bool waits_for_nodes(std::string_view reason);

/// Our associations, and every QOS: from the accounting daemon, not from slurmctld.
[[nodiscard]] std::vector<std::string> accounts_command(std::string_view user);
[[nodiscard]] Result<void> read_accounts(std::string_view text, SiteFacts& into);
[[nodiscard]] std::vector<std::string> qos_command();
[[nodiscard]] Result<void> read_qos(std::string_view text, SiteFacts& into);

}  // namespace shardsweep::slurm
