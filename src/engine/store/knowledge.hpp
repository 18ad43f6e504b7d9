// SPDX-License-Identifier: Apache-2.0
// Files of knowledge that were imported, as the database keeps them.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/clock.hpp>
#include <shardsweep/store.hpp>

#include <vector>

namespace shardsweep::sqlite {

/// Deletes knowledge that was forgotten and that no sweep learns from any more.
extern const char* const unused_knowledge_sql;

/// Knowledge that a sweep learns from if it was submitted then, in the order of import.
[[nodiscard]] std::vector<KnowledgeText> knowledge_at(Database& database, Timestamp submitted);

}  // namespace shardsweep::sqlite
