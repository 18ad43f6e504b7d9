// SPDX-License-Identifier: Apache-2.0
#include "text/expression.hpp"
#include "text/placeholders.hpp"
#include "trainer/configuration.hpp"
#include "trainer/point_words.hpp"
#include "trainer/settings.hpp"
#include "trainer/trainer_file.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/model.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>

namespace shardsweep {
namespace {

bool is_known(std::string_view name) {
  return find_axis(name) != nullptr || name == "global_batch" ||
      std::any_of(shape_fields.begin(), shape_fields.end(),
          [&](const ShapeField& field) { return field.name == name; });
}

std::string refusal(std::string_view trainer, const Layout& layout, const ModelSpec& model) {
  Point point;
  point.layout = layout;
  point.seq_len = 4096;
  const auto text = configuration_of_point(trainer, point, model);
  return text ? std::string() : text.error().what;
}

}  // namespace

TEST_CASE("rules of the trainers that are built in name what points have, and say why") {
  int rules = 0;
  for (const std::string_view trainer : configurable_trainers()) {
    const TrainerFile& file = trainer_file(trainer);
    for (const TrainerRule& rule : file.rules) {
      CAPTURE(rule.when);
      ++rules;
      const auto names = names_of_expression(rule.when);
      REQUIRE(names);
      for (const std::string_view name : *names)
        CHECK_MESSAGE(is_known(name), name);
      CHECK_FALSE(rule.why.empty());
      CHECK_FALSE(rule.source.empty());
    }
    for (const TestedCommit& one : file.tested) {
      CHECK(one.commit.size() >= 8);
      CHECK(one.date.size() == 10);  // 2026-08-22
      CHECK_FALSE(one.ran.empty());
    }
    for (const RefusedWord& one : file.refuses) {
      CHECK_FALSE(one.word.empty());
      CHECK_FALSE(one.why.empty());
    }
  }
  CHECK(rules >= 10);
  CHECK_FALSE(trainer_file("megatron").tested.empty());
  CHECK(trainer_file("nobody").rules.empty());
}

TEST_CASE("a point that a trainer does not start is printed for none") {
  ModelSpec model;
  model.layers = 48;
  model.hidden = 2048;
  model.heads = 32;
  model.kv_heads = 4;
  model.experts = 128;
  Layout layout;
  layout.tp = 2;
  for (const std::string_view trainer : {"megatron", "megatron-bridge"}) {
    CAPTURE(trainer);
    CHECK(refusal(trainer, layout, model) ==
        "Megatron trains experts with tp only with sequence parallelism");
    layout.sequence_parallel = true;
    CHECK(refusal(trainer, layout, model).empty());
    layout.vpp = 2;
    CHECK(refusal(trainer, layout, model).find("has no setting for vpp 2 with pp 1") !=
        std::string::npos);
    layout.pp = 4;
    layout.grad_accum = 6;
    CHECK(refusal(trainer, layout, model) ==
        "its interleaved schedule needs grad_accum to be a multiple of pp");
    layout.grad_accum = 8;
    CHECK(refusal(trainer, layout, model).empty());
    layout = {.tp = 2};
  }
  layout = {.pp = 8, .grad_accum = 6};
  CHECK(refusal("nanotron", layout, {}) == "nanotron's 1F1B needs pp - 1 micro-batches or more");
  layout.grad_accum = 7;
  CHECK(refusal("nanotron", layout, {}).empty());
}

TEST_CASE("a file that can't be read names the line") {
  for (const std::string text :
      {"rules:\n- when tp\n", "laws:\n", "rules:\n- where: tp\n", "tested:\n- when: tp\n"})
    CHECK_THROWS_AS((void)read_trainer_file(text), std::invalid_argument);
  const TrainerFile file = read_trainer_file(
      "rules_of: nanotron\nrules:\n- when: tp > 1\n  why: none\n  source: here\n");
  CHECK(file.rules.size() == trainer_file("nanotron").rules.size() + 1);
  CHECK(file.rules.back().why == "none");
  CHECK(read_trainer_file("log:\n- ' a: {loss} '\n- 'it''s {step_s}'\n").patterns ==
      std::vector<std::string>{" a: {loss} ", "it's {step_s}"});
}

}  // namespace shardsweep

using namespace shardsweep;

TEST_CASE("sections of a layout's words are read, and name their mistakes") {
  const TrainerFile file = read_trainer_file(
      "layout:\n  form: yaml\nwords:\n- tp: parallel.tp={tp}\n"
      "- with tp: '{tp>1?parallel.mode=ring}'\nreads:\n"
      "- zero: '{stage}'\n  of: off 0, all 3\n");
  const LayoutWords& words = file.layout;
  CHECK(words.form == WordsForm::yaml);
  REQUIRE(words.words.size() == 2);
  CHECK(words.words[0].is_as_it_stands());
  CHECK(words.name_of(words.words[0]) == "tp");
  CHECK(words.words[1].is_beside);
  CHECK(words.words[1].condition == "tp>1");
  CHECK(words.words[1].word == "parallel.mode");
  CHECK(words.deciding == std::set<std::string, std::less<>>{"mode", "stage", "tp"});
  CHECK_THROWS_WITH(read_trainer_file("layout:\n  form: xml\n"),
      "line 2: no form is called 'xml'; the forms are flags, overrides, yaml, toml, json");
  CHECK_THROWS_WITH(read_trainer_file("words:\n- tp: --tp={tq}\n"),
      "line 2: unknown placeholder {tq}, did you mean 'tp'? Write {{tq}} for the text itself.");
  CHECK_THROWS_WITH(read_trainer_file("words:\n- tq: --tp={tp}\n"),
      "line 2: unknown axis 'tq', did you mean 'tp'?");
  CHECK_THROWS_WITH(
      read_trainer_file("lacks:\n- tp: tp >\n"), "line 2: something is missing after 'tp >'");
}

TEST_CASE("a section that is given as a map is written as one word, and read in each form") {
  const LayoutWords words = read_trainer_file(R"(layout:
  form: overrides
words:
- tp: '{tp>1?model.tp={degree: {tp}, async: false}}'
- pp: model.pp.degree={pp}
- recompute: '{recompute=full?model.ac={mode: {recompute}}}'
reads:
- recompute: '{model_ac_mode}'
)")
                                .layout;
  const TrainerLayout layout{.tp = 4, .pp = 2, .recompute = "full"};
  const auto text = written_layout("mine", words, layout);
  REQUIRE(text);
  CHECK(
      *text == "'model.tp={degree: 4, async: false}' model.pp.degree=2 'model.ac={mode: full}'\n");
  for (const std::string& said : {*text,
           std::string(
               "model.tp='{degree: 4, async: false}' model.pp={degree: 2} model.ac.mode=full"),
           std::string(
               "+model.tp={degree:4,async:false} model.pp.degree=2 \"model.ac={mode: full}\""),
           std::string("model.tp.degree=4 model.pp={ degree: 2 }\n model.ac.mode=full")}) {
    CAPTURE(said);
    const auto back = read_layout(words, Settings::of(words, said), layout.gpus());
    REQUIRE(back);
    CHECK(*back == layout);
  }
}

TEST_CASE("a start that never tells the model's shape is refused, unless models have names") {
  const auto start = [](const std::string& more, const std::string& word) {
    return read_trainer_file(
        "start:\n" + more + "  text: |\n    runner:\n      argv: [train, \"" + word + "\"]\n");
  };
  CHECK_THROWS_WITH((void)start("", "--layers={layers}"),
      "line 2: names no {hidden}, and 'start' has no 'recipes': every model would be trained as "
      "the same one");
  CHECK_FALSE(start("", "--hidden={hidden}").start.rest.empty());
  CHECK_FALSE(start("  recipes: |\n    llama-1b: small\n", "@RECIPE@").start.rest.empty());
}

TEST_CASE("a family is like another one but for what its file says, in any order") {
  const Family family = *read_trainer_file(
      "planner_least:\n  norm_row_bytes: 1/4\nplanner:\n  split: by_cost\n  overhead_bytes: 0.5 "
      "GiB\n"
      "  flash_attention: false\n  like: megatron\n  vocab_multiple: 64\n  links_waits: 3\n")
                             .family;
  const Family megatron = *trainer_file("megatron").family;
  CHECK(family.memory.split == StageSplit::by_cost);
  CHECK(family.memory.overhead_bytes == 536870912);
  CHECK_FALSE(family.memory.flash_attention);
  CHECK(family.memory.vocab_multiple == 64);
  CHECK(family.memory.logits_bytes == megatron.memory.logits_bytes);
  CHECK(family.time.links.waits == 3);
  // What it says is so at its best too, unless it says otherwise of that.
  REQUIRE(family.least);
  CHECK(family.least->overhead_bytes == 536870912);
  CHECK(family.least->norm_row_bytes == 0.25);
  CHECK(family.least->between_rows == megatron.least->between_rows);
  // Nobody has measured what is like something that was measured, or asked for it by that name.
  CHECK(family.name.empty());
  CHECK(family.usual_on == UsualOn::nothing);
  CHECK(read_trainer_file("planner:\n  like: nanotron\n").family->fitted_to == Family().fitted_to);
}

TEST_CASE("mistakes in a family name their line") {
  const auto mistake = [](const std::string& lines, const std::string& expected) {
    CAPTURE(lines);
    CHECK_THROWS_WITH((void)read_trainer_file(lines), expected.c_str());
  };
  mistake(
      "planner:\n  query_row: 3\n", "line 2: unknown key 'query_row', did you mean 'query_rows'?");
  mistake("planner:\n  query_rows: many\n",
      "line 2: expected a number, such as 2.5, 4/12 or 0.3 GiB, found 'many'");
  mistake("planner:\n  query_rows: 1/0\n",
      "line 2: expected a number, such as 2.5, 4/12 or 0.3 GiB, found '1/0'");
  mistake("planner:\n  vocab_multiple: 0\n",
      "line 2: expected a whole number from 1 to 1048576, found '0'");
  mistake("planner:\n  arenas: yes\n", "line 2: expected true or false, found 'yes'");
  mistake("planner:\n  split: odd\n", "line 2: expected even or by_cost, found 'odd'");
  mistake("planner:\n  like: nobody\n", "line 2: no trainer 'nobody' has a section 'planner'");
  mistake("planner:\n  like: picotron\n", "line 2: no trainer 'picotron' has a section 'planner'");
  mistake("planner:\n- query_rows: 3\n", "line 2: expected a map");
  mistake("planner_least:\n  query_rows: 3\n", "line 2: needs a section 'planner'");
  CHECK(shardbench_profiles().size() == 4);
  CHECK(shardbench_profiles().front() == "own");
}

TEST_CASE("double braces are single ones in what a trainer is told") {
  const LayoutWords words = read_trainer_file(
      "layout:\n  form: overrides\nwords:\n- tp: tp={tp}\n- with tp: note={{tp}}\n")
                                .layout;
  CHECK(written_layout("mine", words, {.tp = 2}).value() == "tp=2 note={tp}\n");
}

/// What a line names and nothing gives a value is a slip of the pen: it would never hold.
TEST_CASE("layouts of the trainers that are built in name what there is") {
  for (const std::string_view trainer : configurable_trainers()) {
    CAPTURE(trainer);
    const LayoutWords& words = layout_words_of(trainer);
    std::set<std::string, std::less<>> known{"layers", "experts", "dtype", "global_batch"};
    for (const AxisInfo& axis : axes())
      known.emplace(axis.name);
    const auto check = [&](const std::vector<std::string_view>& names) {
      for (const std::string_view name : names) {
        CAPTURE(name);
        CHECK((name == "true" || name == "false" || known.contains(name)));
      }
    };
    for (const NamedText& one : words.values) {
      check(placeholders_in(one.text));
      known.insert(one.name);
    }
    for (const LayoutWord& one : words.words)
      check(placeholders_in(one.text));
    for (const std::string& line : words.also)
      check(placeholders_in(line));
    for (const NamedText& one : words.lacks) {
      CAPTURE(one.text);
      const auto names = names_of_expression(one.text);
      REQUIRE(names);
      check(*names);
    }
    for (const LayoutReading& one : words.reads) {
      CAPTURE(one.when);
      CHECK((one.when.empty() || names_of_expression(one.when)));
      CHECK(one.when.empty() == one.why.empty());
    }
  }
}
