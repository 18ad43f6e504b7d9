// SPDX-License-Identifier: Apache-2.0
// Sweeps of every trainer, with each axis told and with one of them untold.
#include "cli/telling.hpp"
#include "sweep/trainer_command.hpp"
#include "trainer/configuration.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/axis_table.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

using namespace shardsweep;

namespace {

constexpr std::int32_t world = 64;

SweepSpec sweep_of_trainer(std::string_view log) {
  SweepSpec sweep;
  sweep.name = "mine";
  sweep.cluster.gpus_per_node = 8;
  sweep.models = {{.name = "small",
      .layers = 16,
      .hidden = 64,
      .ffn = 256,
      .heads = 8,
      .kv_heads = 8,
      .vocab = 512}};
  sweep.runner.trainer.argv = {"train"};
  if (log == "megatron") sweep.runner.trainer.argv.emplace_back("--bf16");
  sweep.runner.trainer.log = log;
  return sweep;
}

struct Choice {
  std::string_view axis;
  std::vector<std::int64_t> values;
};
const std::vector<Choice> choices{{"tp", {1, 2, 4}}, {"pp", {1, 2}}, {"cp", {1, 2}}, {"ep", {1, 4}},
    {"vpp", {1, 2}}, {"cp_mode", {0, 1}}, {"dp_replicate", {1, 2}}, {"zero", {0, 1, 2, 3}},
    {"recompute", {0, 1, 2}}, {"sequence_parallel", {0, 1}}, {"schedule", {0, 1}},
    {"rank_order", {0, 1}}, {"bucket_mb", {25, 50}}, {"overlap", {0, 1}}, {"micro_batch", {1, 2}},
    {"seq_len", {1024, 2048}}, {"dtype", {0, 1}}};

/// The word that a trainer has for an axis, else one of the program's own.
std::string word_for(std::string_view trainer, std::string_view axis) {
  const auto all = configurable_trainers();
  const auto at = std::find(all.begin(), all.end(), trainer);
  for (const AxisNames& one : axis_names()) {
    if (at == all.end() || one.axis != axis) continue;
    const auto word = one.names.at(static_cast<std::size_t>(at - all.begin()));
    if (!word.empty()) return std::string(word);
  }
  return fmt::format("my_{}", axis);
}

void tell(SweepSpec& sweep, std::string_view axis) {
  TrainerSpec& trainer = sweep.runner.trainer;
  const std::string word = word_for(trainer.log, axis);
  if (trainer.log == "megatron") {
    trainer.argv.push_back(word.starts_with("--") ? word : "--" + word);
    trainer.argv.push_back(fmt::format("{{{}}}", axis));
  } else if (trainer.log == "megatron-bridge") {
    trainer.argv.push_back(fmt::format("{}={{{}}}", word, axis));
    if (axis == "seq_len") trainer.argv.emplace_back("dataset.seq_length={seq_len}");
  } else {
    trainer.files["config"] += fmt::format("{}: {{{}}}\n", word, axis);
  }
}

/// Trainers that begin with values of their own are told these, whether they vary or not.
void tell_sizes(SweepSpec& sweep, const std::vector<Choice>& varied) {
  const LayoutWords& words = layout_words_of(sweep.runner.trainer.log);
  for (const std::string_view size : {"seq_len", "micro_batch", "dtype", "zero", "recompute"}) {
    const bool is_varied = std::any_of(
        varied.begin(), varied.end(), [&](const Choice& choice) { return choice.axis == size; });
    if (!is_varied && words.chooses_another(size, "another")) tell(sweep, size);
  }
}

std::vector<PlannedTrial> product_of(const std::vector<Choice>& varied) {
  std::vector<PlannedTrial> trials(1);
  trials.front().point.seq_len = 1024;
  for (const Choice& choice : varied) {
    std::vector<PlannedTrial> next;
    for (const PlannedTrial& trial : trials) {
      for (const std::int64_t value : choice.values) {
        next.push_back(trial);
        find_axis(choice.axis)->set(next.back().point, value);
      }
    }
    trials = std::move(next);
  }
  for (PlannedTrial& trial : trials) {
    Layout& layout = trial.point.layout;
    layout.dp = world / (layout.tp * layout.pp * layout.cp);
    layout.grad_accum = 256 / (layout.dp * layout.micro_batch);
    trial.point.gpus = world;
    trial.point.nodes = world / 8;
  }
  return trials;
}

std::vector<std::string> names_of(const std::vector<Untold>& untold) {
  std::vector<std::string> names;
  names.reserve(untold.size());
  for (const Untold& one : untold)
    names.emplace_back(one.axis->name);
  return names;
}

/// Trials whose command, files and world are those of another one.
std::size_t twins(const SweepSpec& sweep, const std::vector<PlannedTrial>& trials) {
  std::set<std::tuple<std::vector<std::string>, std::map<std::string, std::string>>> seen;
  for (const PlannedTrial& trial : trials)
    seen.emplace(
        trainer_command(sweep, trial.point, "d", 8), trainer_files(sweep, trial.point, "d", 8));
  return trials.size() - seen.size();
}

}  // namespace

TEST_CASE("one axis of a random sweep that no word tells is named and all told is distinct") {
  std::mt19937 random(20261125);
  std::vector<std::string_view> logs(
      configurable_trainers().begin(), configurable_trainers().end());
  logs.insert(logs.end(), {"nemo", "records", ""});
  for (int number = 0; number < 200; ++number) {
    auto varied = choices;
    std::shuffle(varied.begin(), varied.end(), random);
    varied.resize(2 + random() % 4);
    const auto trials = product_of(varied);
    const auto log = logs[static_cast<std::size_t>(number) % logs.size()];
    SweepSpec told = sweep_of_trainer(log);
    tell_sizes(told, varied);
    for (const Choice& choice : varied)
      tell(told, choice.axis);
    INFO(number, " ", log, ": ", untold_text(told, untold_axes(told, trials)));
    CHECK(untold_axes(told, trials).empty());
    CHECK(twins(told, trials) == 0);

    const auto left_out = varied[random() % varied.size()].axis;
    SweepSpec untold = sweep_of_trainer(log);
    tell_sizes(untold, varied);
    for (const Choice& choice : varied) {
      if (choice.axis != left_out) tell(untold, choice.axis);
    }
    const auto found = untold_axes(untold, trials);
    const auto names = names_of(found);
    const std::string text = untold_text(untold, found);
    INFO(left_out, ": ", text);
    CHECK(std::find(names.begin(), names.end(), left_out) != names.end());
    CHECK(text.find(std::string(left_out)) != std::string::npos);
    CHECK(twins(untold, trials) > 0);
  }
}

TEST_CASE("what follows from axes that are told need not be told") {
  SweepSpec sweep = sweep_of_trainer("megatron");
  const std::vector<Choice> varied{{"tp", {1, 2}}, {"micro_batch", {1, 2, 4}}};
  const auto trials = product_of(varied);  // 256 samples, whatever the layout
  tell(sweep, "tp");
  CHECK(names_of(untold_axes(sweep, trials)) == std::vector<std::string>{"micro_batch"});
  tell(sweep, "micro_batch");
  CHECK(untold_axes(sweep, trials).empty());

  auto batches = trials;
  for (std::size_t i = 0; i < batches.size(); i += 2)
    batches[i].point.layout.grad_accum *= 2;
  CHECK(names_of(untold_axes(sweep, batches)) == std::vector<std::string>{"grad_accum"});
  sweep.runner.trainer.argv.insert(
      sweep.runner.trainer.argv.end(), {"--global-batch-size", "{global_batch}"});
  CHECK(untold_axes(sweep, batches).empty());
}

TEST_CASE("a section of overrides in one word, with blanks, tells what follows from it") {
  SweepSpec sweep = sweep_of_trainer("olmo-core");  // it splits the sequence wherever it has tp
  sweep.runner.trainer.argv = {"train", "train_module.rank_microbatch_size={micro_batch*seq_len}",
      "train_module.max_sequence_length={seq_len}",
      "data_loader.global_batch_size={global_batch*seq_len}", "train_module.dp_config.name=ddp",
      "{tp>1?train_module.tp_config={degree: {tp}}}", "train_module.ac_config=null"};
  auto trials = product_of({{"tp", {1, 2}}});
  for (PlannedTrial& trial : trials) {
    Layout& layout = trial.point.layout;
    layout.sequence_parallel = layout.tp > 1;
  }
  CHECK(names_of(untold_axes(sweep, trials)) == std::vector<std::string>{});
}

TEST_CASE("a conditional word tells no more values apart than it has") {
  SweepSpec sweep = sweep_of_trainer("megatron");
  sweep.runner.trainer.argv.emplace_back("{zero=1?--use-distributed-optimizer}");
  CHECK(untold_axes(sweep, product_of({{"zero", {0, 1}}})).empty());
  const auto found = untold_axes(sweep, product_of({{"zero", {0, 1, 2}}}));
  CHECK(untold_text(sweep, found) ==
      "The trainer is not given zero (0, 1, 2), so all of these would run alike. Add "
      "\"{zero=1?--use-distributed-optimizer}\", \"{zero>1?--use-megatron-fsdp}\", "
      "\"{zero>1?--data-parallel-sharding-strategy={zero=2?optim_grads:optim_grads_params}}\", "
      "\"{zero>1?--ckpt-format=fsdp_dtensor}\" to 'argv'.");
}

TEST_CASE("what is advised tells Megatron-LM the values that the sweep has") {
  SweepSpec sweep = sweep_of_trainer("megatron");
  const auto advised = [&](const char* axis, const std::vector<std::int64_t>& values) {
    return untold_text(sweep, untold_axes(sweep, product_of({{axis, values}})));
  };
  const auto is_in = [](std::string_view part, const std::string& text) {
    return text.find(part) != std::string::npos;
  };
  CHECK_FALSE(is_in("--recompute-modules", advised("recompute", {0, 1, 2})));
  const std::int64_t mlp = 4;
  const std::string modules = advised("recompute", {0, mlp});
  CHECK(is_in("?--recompute-granularity=selective}", modules));
  CHECK(is_in("?--recompute-modules}", modules));
  CHECK(is_in("recompute='mlp'", modules));
  CHECK_FALSE(is_in("--recompute-granularity=full", modules));
  CHECK(is_in("--cuda-graph-impl=local", advised("cuda_graphs", {0, 1})));
  sweep.models.front().experts = 8;
  const std::string graphs = advised("cuda_graphs", {0, 1});
  CHECK(is_in("--cuda-graph-impl=transformer_engine", graphs));
  CHECK_FALSE(is_in("=local", graphs));
}

TEST_CASE("one value may stay untold if trainers do it unasked or their words say it") {
  SweepSpec sweep = sweep_of_trainer("megatron");
  CHECK(untold_axes(sweep, product_of({{"recompute", {0}}})).empty());
  const auto full = product_of({{"recompute", {2}}});
  const auto found = untold_axes(sweep, full);
  CHECK(names_of(found) == std::vector<std::string>{"recompute"});
  CHECK(untold_text(sweep, found).find("told: [recompute]") != std::string::npos);

  auto literal = sweep;
  literal.runner.trainer.argv.insert(
      literal.runner.trainer.argv.end(), {"--recompute-granularity", "full"});
  CHECK(untold_axes(literal, full).empty());
  auto given = sweep;
  given.runner.trainer.told = {"recompute"};
  CHECK(untold_axes(given, full).empty());
  // Several values are one command all the same.
  CHECK(untold_axes(given, product_of({{"recompute", {0, 2}}})).size() == 1);

  SweepSpec own = sweep_of_trainer("");
  own.runner.trainer.patterns = {"step {iteration} took {step_ms} ms"};
  const auto context = product_of({{"cp", {2}}});
  CHECK(names_of(untold_axes(own, context)) == std::vector<std::string>{"cp"});
  own.runner.trainer.argv.emplace_back("--parallelism.context-parallel-degree=2");
  CHECK(untold_axes(own, context).empty());
}

TEST_CASE("a size or a type of the trainer's own choice is told, though it has one value") {
  const auto trials = product_of({{"tp", {1}}});
  SweepSpec megatron = sweep_of_trainer("megatron");
  CHECK(untold_axes(megatron, trials).empty());
  megatron.runner.trainer.argv = {"train"};  // which trains in fp32
  const auto found = untold_axes(megatron, trials);
  CHECK(untold_text(megatron, found) ==
      "The trainer is not given dtype bf16. Add \"{dtype=bf16?--bf16}\" to 'argv', or, if "
      "the program sets it by itself, 'told: [dtype]'.");
  CHECK(untold_axes(megatron, product_of({{"dtype", {1}}})).empty());
  megatron.runner.trainer.argv.emplace_back("{dtype=bf16?--bf16}");
  CHECK(untold_axes(megatron, trials).empty());
  CHECK(untold_axes(megatron, product_of({{"dtype", {0, 1}}})).empty());

  SweepSpec titan = sweep_of_trainer("torchtitan");
  CHECK(names_of(untold_axes(titan, trials)) == std::vector<std::string>{"seq_len", "micro_batch"});
  titan.runner.trainer.files["config"] = "seq_len = 1024\nlocal_batch_size = 1\n";
  CHECK(untold_axes(titan, trials).empty());
  titan.runner.trainer.files["config"] = "seq_len = 2048\nlocal_batch_size = 1\n";
  CHECK(untold_text(titan, untold_axes(titan, trials)) ==
      "The trainer is told seq_len 2048 for seq_len 1024.");
}

TEST_CASE("the length that Megatron-Bridge's model is told is overruled by its dataset's") {
  SweepSpec sweep = sweep_of_trainer("megatron-bridge");
  auto& argv = sweep.runner.trainer.argv;
  argv.insert(argv.end(), {"model.seq_length={seq_len}", "train.micro_batch_size=1"});
  for (const auto& lengths : {std::vector<std::int64_t>{1024, 2048}, {2048}}) {
    const auto found = untold_axes(sweep, product_of({{"seq_len", lengths}}));
    CHECK(names_of(found) == std::vector<std::string>{"seq_len"});
    CHECK(untold_text(sweep, found)
              .find("Add \"model.seq_length={seq_len}\", "
                    "\"dataset.seq_length={seq_len}\" to 'argv'") != std::string::npos);
  }
  argv.emplace_back("dataset.seq_length={seq_len}");
  CHECK(untold_axes(sweep, product_of({{"seq_len", {1024, 2048}}})).empty());
}

TEST_CASE("a number in the trainer's words that is not the trial's is named") {
  SweepSpec sweep = sweep_of_trainer("megatron");
  sweep.runner.trainer.argv = {"train", "--bf16", "--tensor-model-parallel-size", "{pp}",
      "--pipeline-model-parallel-size", "{tp}"};
  const auto found = untold_axes(sweep, product_of({{"tp", {1, 2}}, {"pp", {1, 4}}}));
  CHECK(names_of(found) == std::vector<std::string>{"tp", "pp"});
  CHECK(untold_text(sweep, found) ==
      "The trainer is told --tensor-model-parallel-size 4 for tp 1. The trainer is told "
      "--pipeline-model-parallel-size 1 for pp 4.");
}

TEST_CASE("a trainer whose tensor parallelism splits the sequence by itself is told by tp") {
  SweepSpec sweep = sweep_of_trainer("torchtitan");
  sweep.runner.trainer.files["config"] =
      "tensor_parallel_degree = {tp}\nseq_len = {seq_len}\nlocal_batch_size = {micro_batch}\n";
  auto trials = product_of({{"tp", {1, 2}}});
  for (PlannedTrial& trial : trials)
    trial.point.layout.sequence_parallel = trial.point.layout.tp > 1;
  CHECK(untold_axes(sweep, trials).empty());
  for (PlannedTrial& trial : trials)
    trial.point.layout.sequence_parallel = trial.point.layout.tp == 1;
  CHECK(names_of(untold_axes(sweep, trials)) == std::vector<std::string>{"sequence_parallel"});
}

TEST_CASE("a runner of the contract is told every axis") {
  SweepSpec sweep = sweep_of_trainer("");
  sweep.runner.trainer.argv.clear();
  CHECK(untold_axes(sweep, product_of({{"zero", {0, 1}}})).empty());
}

TEST_CASE(
    "what a model has and its trainer is not told is named, if the trainer is told its size") {
  SweepSpec sweep = sweep_of_trainer("nanotron");
  auto& trainer = sweep.runner.trainer;
  ModelSpec& model = sweep.models.front();
  model.experts = 8;
  model.tied_embeddings = true;
  CHECK(untold_shape(sweep).empty());  // a recipe holds the model
  trainer.files["config"] = "hidden_size: {hidden}\nnum_hidden_layers: {layers}\n";
  CHECK(untold_shape(sweep) == "tied_embeddings of small");
  trainer.files["config"] += "tie_word_embeddings: {tied_embeddings}\n";
  CHECK(untold_shape(sweep) == "experts 8 of small");
  CHECK(untold_model_text(sweep).find("would train another model under that name") !=
      std::string::npos);
  trainer.told = {"experts"};
  CHECK(untold_shape(sweep).empty());
  trainer.told.clear();
  trainer.argv.emplace_back("{experts>0?--num-experts={experts}}");
  CHECK(untold_shape(sweep).empty());
  model.head_dim = model.hidden / model.heads;
  CHECK(untold_model_text(sweep).empty());
  model.head_dim *= 2;
  CHECK(untold_shape(sweep) == "head_dim 16 of small");
  model.head_dim = 0;
  model.kv_heads = model.heads / 2;
  CHECK(untold_shape(sweep) == fmt::format("kv_heads {} of small", model.kv_heads));
}

TEST_CASE("sizes that a script of one's own is not told are named, unless the user says them") {
  SweepSpec sweep = sweep_of_trainer("");
  TrainerSpec& trainer = sweep.runner.trainer;
  const auto trials = product_of({});
  CHECK(believed_text(sweep, trials).ends_with("'told: [model, seq_len, dtype]'."));
  trainer.argv = {"train", "--layers", "{layers}", "--seq-len", "1024"};
  CHECK(believed_text(sweep, trials).ends_with("'told: [dtype]'."));
  trainer.told = {"dtype"};
  CHECK(believed_text(sweep, trials).empty());
  trainer.argv = {"train", "{model}"};
  CHECK(believed_text(sweep, trials).ends_with("'told: [seq_len]'."));
  // The log of a known trainer is compared.
  trainer.log = "megatron";
  CHECK(believed_text(sweep, trials).empty());
}
