// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/clock.hpp>
#include <shardsweep/search_row.hpp>
#include <shardsweep/store.hpp>
#include <shardsweep/sweep.hpp>

#include <vector>

namespace shardsweep::sqlite {

/// Rows of the trials that are in the sweep file, in the order of the plan.
[[nodiscard]] std::vector<SearchRow> search_rows(
    Database& database, SweepId id, const SweepSpec& sweep);

// Files of knowledge that were imported, as the database keeps them.

/// Deletes knowledge that was forgotten and that no sweep learns from any more.
extern const char* const unused_knowledge_sql;

/// Knowledge that a sweep learns from if it was submitted then, in the order of import.
[[nodiscard]] std::vector<KnowledgeText> knowledge_at(Database& database, Timestamp submitted);

}  // namespace shardsweep::sqlite
