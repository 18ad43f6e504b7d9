// SPDX-License-Identifier: Apache-2.0
// Baselines: what was measured of some layouts, kept under a name as a file of JSON lines. It
// holds the rows that `compare` joins, so that a comparison needs no database that is as old.
#pragma once

#include <shardsweep/result.hpp>
#include <shardsweep/table.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace shardsweep {

struct Session;

/// The rows of Reader::layouts() as they were kept. `name` is one that `baseline set` was
/// given, or the path of such a file: it has a '/' or ends with .jsonl. A file that is none is
/// a fault that names file, line and what is wrong.
[[nodiscard]] Result<Table> read_baseline(const Session& session, const std::string& name);

/// File in which a baseline of this name is kept; a word that is no name is a fault.
[[nodiscard]] Result<std::filesystem::path> baseline_file(
    const Session& session, const std::string& name);
/// Names of the baselines that are kept.
[[nodiscard]] Result<std::vector<std::string>> baseline_names(const Session& session);

/// A baseline as text: a line that says what it is, then one for each layout.
[[nodiscard]] std::string baseline_text(const Table& layouts);
/// The other way; `file` is for messages.
[[nodiscard]] Result<Table> baseline_from(const std::string& text, const std::string& file);

// The names in a folder that people may have filled.

/// Names of all that is in `folder` and that `keep` keeps, sorted; of a folder that is not
/// there none. A fault if it can't be read to its end, or if more than `most` are kept.
[[nodiscard]] Result<std::vector<std::string>> names_in_folder(const std::filesystem::path& folder,
    std::size_t most, const std::function<bool(const std::string&)>& keep);

}  // namespace shardsweep
