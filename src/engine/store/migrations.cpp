// SPDX-License-Identifier: Apache-2.0
// What each format of the database adds to the one before; the first is schema.sql. An element
// that has been released is never changed: databases that have run it exist. Views stand apart
// (views.sql): they are made anew after the last one.
#include "store/schema.hpp"

#include <fmt/format.h>

#include <array>

namespace shardsweep::sqlite {
namespace {

// Runs beside the measured ones: they are trials, and no answer knows of them.
constexpr const char* side_sql = R"sql(
-- the tool of a run beside the measured ones, of the layout of final_of; empty: it is a measured run
ALTER TABLE trials ADD COLUMN side TEXT NOT NULL DEFAULT ''
  CHECK (side IN ('', 'profile', 'memory'));
CREATE INDEX trials_beside ON trials (sweep) WHERE side <> '';
)sql";

// Layouts of a sweep that has ended, measured again from time to time.
constexpr const char* remeasure_sql = R"sql(
-- when it is due, 0: never; how often it was done; whether the next time has begun; the snapshots
-- of the program as it was then and as it is now, empty: the sweep's own
ALTER TABLE sweeps ADD COLUMN remeasure_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sweeps ADD COLUMN remeasured INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sweeps ADD COLUMN remeasuring INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sweeps ADD COLUMN remeasured_was TEXT NOT NULL DEFAULT '';
ALTER TABLE sweeps ADD COLUMN remeasured_is TEXT NOT NULL DEFAULT '';
-- of a run of the layout of final_of: the time at which it is measured again, 0: it is no such run
ALTER TABLE trials ADD COLUMN again INTEGER NOT NULL DEFAULT 0;
-- the snapshot that it runs from; empty: the sweep's
ALTER TABLE trials ADD COLUMN software TEXT NOT NULL DEFAULT '';
)sql";

// Knowledge from other databases.
constexpr const char* knowledge_sql = R"sql(
-- Files of knowledge that were imported. What was there when a sweep was submitted is what its
-- search learns from: a file that is forgotten stays as long as such a sweep is there.
CREATE TABLE knowledge (
  id           INTEGER PRIMARY KEY,
  name         TEXT NOT NULL,     -- by its content
  imported_at  INTEGER NOT NULL,
  forgotten_at INTEGER NOT NULL DEFAULT 0,  -- 0: it is not
  text         TEXT NOT NULL      -- the file
) STRICT;
CREATE UNIQUE INDEX knowledge_by_name ON knowledge (name) WHERE forgotten_at = 0;
)sql";

// Axes and models of today's trainers.
constexpr const char* today_sql = R"sql(
-- ranks that split each expert (0: those of tp), layers of the first and last stage (0: even),
-- whether layers are CUDA graphs, what lies in the host's memory; then the model's shape: latents
-- of keys and values (0: plain attention) and of queries, the part of a head with a rotary
-- embedding, values of a head's values (0: head_dim), layers that predict later tokens
ALTER TABLE trials ADD COLUMN expert_tp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN first_stage_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN last_stage_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN cuda_graphs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN offload TEXT NOT NULL DEFAULT 'none';
ALTER TABLE trials ADD COLUMN kv_lora_rank INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN q_lora_rank INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN qk_rope_head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN v_head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN mtp_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN expert_tp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN first_stage_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN last_stage_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN cuda_graphs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN offload TEXT NOT NULL DEFAULT 'none';
ALTER TABLE left_out ADD COLUMN kv_lora_rank INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN q_lora_rank INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN qk_rope_head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN v_head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN mtp_layers INTEGER NOT NULL DEFAULT 0;
)sql";

// Searches with finals run short at first unless their file says `first`; those of before go on
// in full.
constexpr const char* whole_runs_sql = R"sql(
UPDATE sweeps SET resolved = replace(resolved,
  '# timed train steps' || char(10) || '  finalists: ',
  '# timed train steps' || char(10) || '  first: 0' || char(10) || '  finalists: ');
)sql";

// Rankings leave out what was measured again, mostly nothing.
constexpr const char* again_index = "CREATE INDEX trials_again ON trials (sweep) WHERE again > 0;";

/// Kinds of layers in a model's shape.
std::string kinds_of_layers() {
  std::string text;
  for (const auto* table : {"trials", "left_out"}) {
    for (const auto* column :
        {"ffn_matrices", "expert_layers", "shared_ffn", "window", "window_layers",
            "attention_layers", "ffn_layers", "state_layers", "state_width", "state_keys"})
      text +=
          fmt::format("ALTER TABLE {} ADD COLUMN {} INTEGER NOT NULL DEFAULT 0;\n", table, column);
  }
  return text;
}

}  // namespace

std::span<const std::string> migrations() {
  static const std::array<std::string, 7> steps{schema_sql, side_sql, remeasure_sql, knowledge_sql,
      today_sql, whole_runs_sql, again_index + kinds_of_layers()};
  return steps;
}

}  // namespace shardsweep::sqlite
