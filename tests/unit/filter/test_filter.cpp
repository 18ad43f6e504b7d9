// SPDX-License-Identifier: Apache-2.0
#include "filter/filter.hpp"
#include "unit/sweep_fixture.hpp"

#include <shardsweep/filter.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

SweepSpec sample_sweep() {
  auto sweep = sweep_of(llama3_8b(), {});
  sweep.models.push_back(small_model());
  sweep.vars = {{"nvls", {"0", "1"}}, {"image", {"a b", "O'Neill", "010"}}, {"alpha", {"0.5"}}};
  return sweep;
}

Point sample_point() {
  Point point;
  point.model = 1;
  point.nodes = 2;
  point.gpus = 16;
  point.seq_len = 4096;
  point.layout.tp = 4;
  point.layout.dp = 4;
  point.layout.micro_batch = 2;
  point.layout.grad_accum = 8;
  point.layout.recompute = Recompute::selective;
  point.layout.sequence_parallel = true;
  point.layout.schedule = Schedule::afab;
  point.repeat = 3;
  point.vars = {1, 1, 0};
  return point;
}

int match(const std::vector<std::string>& expressions, const Point& point = sample_point()) {
  auto filter = compile_filter(sample_sweep(), expressions);
  if (!filter) FAIL(filter.error().what);
  const auto found = (*filter)->first_match(point);
  CHECK_FALSE((*filter)->failure());
  return found;
}

bool holds(const std::string& expression) {
  return match({expression}) == 0;
}

std::string refusal(const std::string& expression) {
  const auto filter = compile_filter(sample_sweep(), {expression});
  if (filter) return "accepted";
  CHECK(filter.error().kind == FaultKind::invalid_input);
  return filter.error().what;
}

}  // namespace

TEST_CASE("an expression sees axes and shape and batch and repeat and vars") {
  for (const auto* expression :
      {"tp = 4", "tp > 2 and pp = 1", "model = 'small'", "model like 'sm%'",
          "recompute = 'selective'", "recompute in ('selective', 'full')", "sequence_parallel",
          "sequence_parallel = 1", "sequence_parallel = true", "not overlap = 0",
          "schedule = 'afab'", "dtype = 'bf16'", "layers = 8 and hidden = 256 and ffn = 768",
          "heads = 8 and kv_heads = 4 and vocab = 1024", "global_batch = 64", "repeat = 3",
          "gpus = 16 and nodes = 2", "nvls = 1", "image = 'O''Neill'", "alpha = 0.5",
          "hidden / heads = 32", "tp * pp * dp = gpus", "max(tp, pp) = 4", "tp between 2 and 4",
          "TP = 4", "\"tp\" = 4", "tp = '4'", "case when tp = 4 then 1 else 0 end",
          "rank_order = 'tp-dp-pp'", "iif(tp > 2, 'x', 'y') = 'x'", "log2(tp) = 2"})
    CHECK_MESSAGE(holds(expression), expression);
  for (const auto* expression : {"tp = 5", "model = 'llama-3-8b'", "nvls = 0", "null", "tp = null",
           "image = 'a b'", "tp / 0", "0"})
    CHECK_MESSAGE(!holds(expression), expression);
}

TEST_CASE("the first true expression answers") {
  CHECK(match({"tp = 1", "tp = 4", "pp = 1"}) == 1);
  CHECK(match({"tp = 1", "tp = 2"}) == -1);
  CHECK(match({}) == -1);
  CHECK(match({"0 or 1", "1"}) == 0);
}

TEST_CASE("answers do not depend on what was asked before") {
  auto filter = compile_filter(sample_sweep(), {"tp > pp and nvls = 1", "micro_batch = 3"});
  REQUIRE(filter);
  for (int round = 0; round < 2; ++round) {
    for (std::int32_t value = 0; value < 20000; ++value) {
      auto point = sample_point();
      point.layout.tp = value % 7;
      point.layout.pp = value % 5;
      point.layout.micro_batch = value % 11;
      point.layout.bucket_mb = value;
      point.vars[0] = value % 2;
      const int expected = value % 7 > value % 5 && value % 2 == 1 ? 0 : value % 11 == 3 ? 1 : -1;
      REQUIRE((*filter)->first_match(point) == expected);
    }
  }
}

TEST_CASE("a value of a var is a number if it prints as its text") {
  CHECK(var_value("10") == Value(std::int64_t{10}));
  CHECK(var_value("0.5") == Value(0.5));
  for (const char* text : {"nan", "inf", "infinity", "-nan", "010", "1.10", ""})
    CHECK(var_value(text) == Value(std::string(text)));
}

TEST_CASE("the name of a missing column is read from every version's message") {
  using filter::missing_column;
  CHECK(missing_column("no such column: full") == "full");
  CHECK(missing_column("no such column: \"full\" - should this be a string literal in "
                       "single-quotes?") == "full");
  CHECK(!missing_column("no such function: full"));
}

TEST_CASE("an unknown name is answered with the nearest one, or with all names") {
  CHECK(refusal("tpp > 8") == "expression 'tpp > 8': unknown name 'tpp', did you mean 'tp'?");
  const auto unknown = refusal("xyzzy > 8");
  CHECK(unknown.find("expression 'xyzzy > 8': unknown name 'xyzzy' (names: model, nodes, gpus, ") ==
      0);
  CHECK(unknown.find("vocab, head_dim, experts, experts_per_token, expert_ffn, shared_experts, "
                     "dense_layers, kv_lora_rank, q_lora_rank, qk_rope_head_dim, v_head_dim, "
                     "mtp_layers, ffn_matrices, expert_layers, shared_ffn, window, window_layers, "
                     "attention_layers, ffn_layers, state_layers, state_width, state_keys, nvls, "
                     "image, alpha)") != std::string::npos);
  CHECK(refusal("micro_batches > 8").find("did you mean 'micro_batch'?") != std::string::npos);
  CHECK(refusal("tensor_parallel_size > 8").find("did you mean 'tp'?") != std::string::npos);
  CHECK(refusal("recompute = full").find("did you mean recompute = 'full' in single quotes?") !=
      std::string::npos);
  CHECK(
      refusal("recompute = \"full\"").find("did you mean recompute = 'full'") != std::string::npos);
}

TEST_CASE("an expression is one expression and nothing else") {
  const auto says = [](const std::string& expression, std::string_view what) {
    const auto message = refusal(expression);
    CHECK_MESSAGE(message.find(what) != std::string::npos, message);
  };
  says("", "is empty");
  says(" \n", "is empty");
  says("tp = 1; drop table trials", "a second statement is not allowed");
  says("tp = 1) or (1", "a ')' closes nothing");
  says("tp >", "it ends too early; write what stands behind the last word");
  says("(tp >) and pp = 1", "something is missing before a ')' or at the end");
  says("(tp = 1", "a '(' is not closed");
  says("tp = 'x", "a ' is not closed");
  says("tp = 1 -- x", "a comment is not allowed");
  says("tp = 1 /* x", "a comment is not allowed");
  says("tp = ?", "parameters such as '?' are not allowed");
  says("tp = ?1", "parameters such as");
  says("tp = :x or tp = @y or tp = $z", "parameters such as");
  says("tp in (select 1)", "a sub-query is not allowed");
  says("exists (values (1))", "a sub-query is not allowed");
  says("tp in sqlite_master", "not allowed");
  says("tp in pragma_database_list", "not allowed");
  says("tp in json_each('[1]')", "not allowed");
  says("`tp` = 1", "'`' is not allowed here");
  says("[tp] = 1", "'[' is not allowed here");
  says(std::string("tp = 1\0 or 1", 12), "the byte 0x00 is not allowed here");
  says("tp = 1\x07", "the byte 0x07 is not allowed here");
  says("tp = \xc3\xa4", "the byte 0xc3 is not allowed here");
  says("tp = 1 tp = 2", "syntax error");
  says("tp = 1 as x", "syntax error");
  says("tp, pp", "row value misused");
  says("tp = 1 from x", "syntax error");
  says("tp = 1 order by 1", "syntax error");
  says(std::string(5000, '1'), "is 5000 bytes long, at most 4096 are allowed");
}

TEST_CASE("functions with an effect or without end are unknown") {
  for (const auto* call : {"load_extension('x')", "random() > 0", "randomblob(10)",
           "zeroblob(1000000000)", "printf('%1000000000d', 1)", "replace('aaaa', 'a', 'bbbb')",
           "hex(1)", "writefile('a', 'b')", "readfile('/etc/passwd')", "sqlite_version()",
           "current_timestamp", "datetime('now')", "json('[1]')", "tp -> 'x'", "changes()",
           "last_insert_rowid()", "count(*)", "group_concat(tp)", "row_number() over ()",
           "raise(abort, 'x')", "fts3_tokenizer('x')", "char(1)", "tp regexp 'x'", "tp match 'x'",
           "sum(tp)", "quote(tp)"}) {
    const auto message = refusal(call);
    CHECK_MESSAGE(message != "accepted", call);
    CHECK_MESSAGE(message.size() < 1000, message);
  }
}

TEST_CASE("an expression that fails for a point says so and which it is") {
  auto filter = compile_filter(sample_sweep(), {"tp = 5", "abs(-9223372036854775807 - 1) = tp"});
  REQUIRE(filter);
  CHECK((*filter)->first_match(sample_point()) == -1);
  REQUIRE((*filter)->failure());
  CHECK((*filter)->failure()->what ==
      "expression 'abs(-9223372036854775807 - 1) = tp': integer overflow");
}

TEST_CASE("deep nesting and long chains are bounded and do no harm") {
  std::string deep;
  for (int i = 0; i < 1000; ++i)
    deep += '(';
  deep += "tp";
  for (int i = 0; i < 1000; ++i)
    deep += ')';
  const auto nested = refusal(deep);
  CHECK_MESSAGE((nested == "accepted" || nested.find("expression ") == 0), nested);
  std::string chain = "tp = 0";
  while (chain.size() < 2000)
    chain += " or tp = 0";
  const auto message = refusal(chain);
  CHECK_MESSAGE((message == "accepted" || message.find("too large") != std::string::npos), message);
  std::vector<std::string> many(2000, "tp = 0");
  many.push_back("tp = 4");
  CHECK(match(many) == 2000);
}

TEST_CASE("the names of every sweep are the axes and batch and repeat and shape") {
  const auto& names = where_columns();
  for (const auto& axis : axes())
    CHECK(std::count(names.begin(), names.end(), axis.name) == 1);
  for (const auto* name : {"global_batch", "repeat", "layers", "kv_heads", "vocab"})
    CHECK(std::count(names.begin(), names.end(), name) == 1);
}

TEST_CASE("operators are no names of columns, unless they stand in quotes") {
  const auto names =
      filter::read_identifiers("tp = 8 AND mfu between 0.3 and 0.5 or not cp in (1, 2)");
  REQUIRE(names.has_value());
  CHECK(*names == std::set<std::string>{"tp", "mfu", "cp"});
  CHECK(filter::read_identifiers("\"in\" is null").value() == std::set<std::string>{"in"});
}
