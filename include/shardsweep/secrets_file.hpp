// SPDX-License-Identifier: Apache-2.0
// Port: the file with the values of a sweep's secrets, mode 0600, beside the database.
//
// Decision: Commands that know the values write it (submit, run, resume, rerun), node agents
// read it when they start ranks, and nothing else holds a value: neither the database nor
// orders, records or scripts. So a daemon that is started again, from whatever shell, finds
// them, and deleting a sweep deletes them. All of it is what the sweep has now: an attempt that
// wants a name that is gone does not start.
#pragma once

#include <shardsweep/result.hpp>
#include <shardsweep/specs.hpp>

#include <filesystem>
#include <map>
#include <string>

namespace shardsweep {

using Secrets = std::map<std::string, std::string>;  ///< values by variable

/// Replaces the file as a whole; without secrets there is no file.
[[nodiscard]] Result<void> write_secrets(const std::filesystem::path& file, const Secrets& secrets);
/// A file that is not there holds none.
[[nodiscard]] Result<Secrets> read_secrets(const std::filesystem::path& file);

/// Secrets that an attempt's ranks get. A secret that the file lacks is a fault that names it.
[[nodiscard]] Result<Secrets> secrets_of(const AttemptSpec& spec);
/// The spec with their values in `env`: for starting its ranks, never to be written.
[[nodiscard]] Result<AttemptSpec> with_secrets(AttemptSpec spec);

/// A star for each byte of these values, in each file below the folder.
[[nodiscard]] Result<void> mask_files(const std::filesystem::path& folder, const Secrets& secrets);

}  // namespace shardsweep
