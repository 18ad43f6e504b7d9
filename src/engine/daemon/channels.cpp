// SPDX-License-Identifier: Apache-2.0
#include "daemon/channels.hpp"

#include <shardsweep/storage.hpp>

#include <algorithm>
#include <utility>
#include <variant>

namespace shardsweep {

Result<Channel*> Channels::of(const AllocationRow& allocation) {
  const auto found = channels_.find(allocation.id);
  if (found != channels_.end()) return &found->second;
  const AllocationPaths paths{allocation.dir};
  Channel channel(paths);
  // Lines of an earlier daemon count as said.
  LineReader said(paths.to_lead());
  SHARDSWEEP_ASSIGN(const auto lines, said.look());
  for (const std::string& text : lines) {
    const auto line = decode_to_lead(text);
    if (!line) continue;
    channel.n = std::max(channel.n, line->n);
    if (const auto* assigned = std::get_if<Assign>(&line->body)) {
      channel.assigned.insert(assigned->attempt);
    } else if (const auto* revoked = std::get_if<Revoke>(&line->body)) {
      channel.revoked.insert(revoked->attempt);
    } else if (const auto* cancelled = std::get_if<Cancel>(&line->body)) {
      channel.cancelled.insert(cancelled->attempt);
    } else {
      channel.drained = true;
    }
  }
  // True if the job was, or may have been, submitted: after a restart the scheduler's answer
  // decides, and never a second submission. A submission that was told to come back later is known
  // to have no job. The first file is no proof, because it is older than the submission; an order
  // file may be missing if other jobs got all the work.
  channel.submitted = allocation.submission != Submission::committed;
  if (!channel.submitted && allocation.submit_after == 0) {
    SHARDSWEEP_ASSIGN(channel.submitted, look_for(paths.spec()));
  }
  return &channels_.emplace(allocation.id, std::move(channel)).first->second;
}

const Channel* Channels::find(AllocationId id) const {
  const auto found = channels_.find(id);
  return found == channels_.end() ? nullptr : &found->second;
}

Result<void> Channels::send(Channel& channel, ToLeadBody body) const {
  // Opened for each line: a descriptor per live allocation would run out at about a thousand.
  SHARDSWEEP_ASSIGN(LineWriter writer, LineWriter::open(channel.to_lead));
  SHARDSWEEP_TRY(writer.append(encode(ToLead{channel.n + 1, epoch_, std::move(body)}), true));
  ++channel.n;
  return {};
}

void Channels::forget(const std::vector<AllocationId>& ended) {
  for (const AllocationId id : ended)
    channels_.erase(id);
}

}  // namespace shardsweep
