// SPDX-License-Identifier: Apache-2.0
// Decision: A user's own program is hashed at submission, before each start, and after its
// first train step, when it has surely been read. Another hash ends the attempt uncounted and
// pauses the sweep. Readers rank one hash at a time.
#include "agent/program_check.hpp"

#include "text/content_hash.hpp"

#include <shardsweep/program_files.hpp>

#include <fmt/format.h>

#include <utility>

namespace shardsweep::agent {

/// A program that is not there can't be started, and its start says so.
std::optional<Evidence> ProgramCheck::changed() {
  auto found = here_.spec.programs;
  std::string changes;
  for (auto& [path, hash] : found) {
    auto now = file_hash(path);
    if (!now || *now == hash) continue;
    changes += fmt::format("{}the program {} has changed on {}: it was {} at submission, and is {}",
        changes.empty() ? "" : "; ", path, here_.node.name, short_hash(hash), short_hash(*now));
    hash = *std::move(now);
  }
  if (changes.empty()) return std::nullopt;
  has_changed_ = true;
  Ending ending{Outcome::lost, std::move(changes), SaidBy::agent};
  ending.found_code = hash_of_programs(found);
  return Evidence{here_.clock.now(), std::move(ending)};
}

std::optional<Evidence> ProgramCheck::begin() {
  if (auto evidence = changed()) return evidence;
  // A snapshot never changes. Other programs may, until they have been read: whoever finds a
  // result has to find too that they were looked at then.
  if (!here_.spec.code_hash.empty()) note(here_.spec.programs.empty() ? "code" : "programs");
  return std::nullopt;
}

std::optional<Evidence> ProgramCheck::look(bool were_read) {
  if (knows_ || here_.spec.programs.empty() || !were_read) return std::nullopt;
  knows_ = true;
  if (has_changed_) return std::nullopt;
  auto evidence = changed();
  if (!evidence) note("code");
  return evidence;
}

/// The runner's own file is the runner's alone while it writes.
void ProgramCheck::note(const std::string& type) {
  if (!here_.has_rank_zero()) return;
  records_ += encode_record({type, {{"code_hash", here_.spec.code_hash}}, {}}, here_.spec.nonce,
                  here_.clock.now()) +
      "\n";
  const auto written = write_own_file(here_.paths.code_records(), records_);
  if (!written) here_.log.line(written.error().what);
}

}  // namespace shardsweep::agent
