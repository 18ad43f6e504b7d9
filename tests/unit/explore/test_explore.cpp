// SPDX-License-Identifier: Apache-2.0
#include "explore/explore.hpp"
#include "explore/question.hpp"
#include "plan/suggest.hpp"
#include "unit/sweep_fixture.hpp"

#include <shardsweep/axis_table.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;
using Json = nlohmann::ordered_json;

namespace {

Json asks(const Json& words) {
  return {{"ask", words}, {"model", question_of(llama3_8b())}, {"cluster", question_of(h100())},
      {"gpus", 64}, {"seq_len", 4096}, {"batch_tokens", 4 << 20}, {"family", "megatron"}};
}

Json told(const Json& question) {
  return Json::parse(explore(question.dump()));
}

}  // namespace

TEST_CASE("a card holds what suggest() says") {
  const auto answer = told(asks({"card"}));
  SuggestRequest request;
  request.model = llama3_8b();
  request.cluster = h100();
  request.family = *find_family("megatron");
  request.seq_len = 4096;
  request.global_batch_tokens = 4 << 20;
  const auto made = suggest(on_gpus(request, 64).value());
  REQUIRE(made);
  const auto& card = answer.at("card");
  CHECK(card.at("parameters") == made->parameters);
  CHECK(card.at("parameters_text") == "8.03 B parameters");
  REQUIRE(card.at("layouts").size() == made->layouts.size());
  for (std::size_t i = 0; i < made->layouts.size(); ++i) {
    const auto& layout = card.at("layouts").at(i);
    const auto& expected = made->layouts[i];
    CHECK(layout.at("tokens_per_s_per_gpu") == expected.tokens_per_s_per_gpu);
    CHECK(layout.at("memory").at("bytes") == expected.guess.memory.estimate.total());
    CHECK(layout.at("step").at("seconds") == expected.guess.step_s);
    CHECK(layout.at("axes").at("tp") == std::to_string(expected.point.layout.tp));
  }
  CHECK(card.at("memory").size() == made->memory.size());
  CHECK(card.at("trust").size() >= 3);
}

TEST_CASE("models and clusters go through JSON unchanged") {
  auto model = llama3_8b();
  model.head_dim = 128;
  model.experts = 8;
  model.experts_per_token = 2;
  model.expert_ffn = 1024;
  model.tied_embeddings = true;
  model.note = "a part is left out";
  auto cluster = h100();
  cluster.note = "data sheet";
  auto question = asks({"card"});
  question["model"] = question_of(model);
  question["cluster"] = question_of(cluster);
  const auto read = read_question(Json::parse(question.dump()));
  REQUIRE(read);
  CHECK(read->request.model == model);
  CHECK(read->request.cluster == cluster);
}

TEST_CASE("one question has several answers") {
  auto question = asks({"gpus", "splits", "why_not", "flags", "sweep"});
  question["layout"] = "tp=8 pp=2 mb=1 ga=64 dp=4 sp";
  question["trainer"] = "megatron";
  question["presets"] = {{"model", "llama-3-8b"}, {"cluster", "h100-8x"}};
  const auto answer = told(question);
  CHECK(answer.at("gpus").at("least").is_number_integer());
  CHECK(answer.at("gpus").at("counts").size() > 5);
  CHECK(answer.at("splits").size() > 10);
  CHECK(answer.at("why_not").at("why").get<std::string>().size() > 5);
  CHECK(answer.at("flags").at("text").get<std::string>().find("--tensor-model-parallel-size 8") !=
      std::string::npos);
  const auto sweep = answer.at("sweep").at("text").get<std::string>();
  CHECK(sweep.find("cluster: h100-8x\n") != std::string::npos);
  CHECK(sweep.find("model: llama-3-8b\n") != std::string::npos);
}

TEST_CASE("a sweep without presets writes the model and the cluster out") {
  auto question = asks({"sweep"});
  question["locks"] = "tp=2 vpp=1";
  const auto sweep = told(question).at("sweep").at("text").get<std::string>();
  CHECK(sweep.find("models:\n  llama-3-8b: {layers: 32, ") != std::string::npos);
  CHECK(sweep.find("cluster: {name: \"h100-8x\"") != std::string::npos);
  CHECK(sweep.find("  tp: 2\n") != std::string::npos);
  CHECK(sweep.find("  tp: [") == std::string::npos);
}

TEST_CASE("what is wrong with a question is said by its key") {
  CHECK(told(Json::array()).at("error") == "a question is a JSON object");
  CHECK(told({{"gpus", 1}}).at("error") == "ask takes a list of words");
  auto question = asks({"card"});
  question["gpus"] = 12;
  CHECK(told(question).at("error").get<std::string>().find("whole nodes") != std::string::npos);
  question = asks({"card"});
  question["model"].erase("layers");
  CHECK(told(question).at("error") == "model has no layers");
  question = asks({"card"});
  question["model"]["heads"] = 31;
  CHECK(told(question).at("error").get<std::string>().find("'heads' (31)") != std::string::npos);
  question = asks({"card"});
  question["cluster"]["gemm_efficiency"] = 2;
  CHECK(told(question).at("error") == "gemm_efficiency takes a number above 0, at most 1");
  question = asks({"card"});
  question["locks"] = "tq=8";
  CHECK(told(question).contains("error"));
  // Numbers with units, as a sweep file has them, and its words about others.
  question = asks({"card"});
  const auto in_digits = told(question);
  question["seq_len"] = "4Ki";
  question["batch_tokens"] = "4Mi";
  question["gpus"] = "64";
  CHECK(told(question) == in_digits);
  question["seq_len"] = "8K";
  CHECK(told(question).at("error") == "seq_len: '8K' has an unknown unit; write '8Ki' or '8k'");
  // A part that fails leaves the others.
  question = asks({"card", "flags"});
  question["trainer"] = "no-such-trainer";
  const auto answer = told(question);
  CHECK(answer.at("card").contains("layouts"));
  CHECK(answer.at("flags").contains("why"));
}

TEST_CASE("the vocabulary has each axis of a layout, once") {
  const auto vocabulary = told({{"ask", {"vocabulary"}}}).at("vocabulary");
  std::size_t layout_axes = 0;
  for (const auto& axis : axes())
    layout_axes += axis.of_layout() ? 1 : 0;
  CHECK(vocabulary.at("axes").size() == layout_axes);
  CHECK(vocabulary.at("families").size() == families().size());
  CHECK(vocabulary.at("model").front().at("name") == "layers");
}
