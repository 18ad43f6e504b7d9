// SPDX-License-Identifier: Apache-2.0
#include "store/knowledge.hpp"

namespace shardsweep::sqlite {

const char* const unused_knowledge_sql =
    "DELETE FROM knowledge WHERE forgotten_at > 0 AND NOT EXISTS (SELECT 1 FROM sweeps AS s WHERE "
    "s.submitted_at >= imported_at AND s.submitted_at < forgotten_at)";

std::vector<KnowledgeText> knowledge_at(Database& database, Timestamp submitted) {
  Statement select(database,
      "SELECT name, text FROM knowledge WHERE imported_at <= ?1 AND (forgotten_at = 0 OR "
      "forgotten_at > ?1) ORDER BY id");
  auto row = select.use(submitted);
  std::vector<KnowledgeText> all;
  while (row.next())
    all.push_back({row.text(0), row.text(1)});
  return all;
}

}  // namespace shardsweep::sqlite
