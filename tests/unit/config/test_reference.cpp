// SPDX-License-Identifier: Apache-2.0
// What is written down of the sweep file is what the loader reads by. UPDATE_GOLDEN=1 writes
// the generated parts of sweeps/README.md, sweeps/RESULTS.md, templates/README.md,
// sweeps/sweep.schema.json and shardbench's copy of the model presets anew.
#include "config/keys.hpp"
#include "loading.hpp"

#include <shardsweep/load.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <set>
#include <string>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

const std::string root = SHARDSWEEP_SOURCE_DIR;

std::string contents(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool updating() {
  const char* value = std::getenv("UPDATE_GOLDEN");
  return value != nullptr && *value != '\0';
}

/// `text` with what stands between the markers of `topic` replaced.
std::string with_generated(std::string text, const std::string& topic) {
  const auto marker =
      "<!-- generated: " + topic + " (shardsweep help " + topic + " --markdown) -->\n";
  const auto begin = text.find(marker);
  REQUIRE_MESSAGE(begin != std::string::npos, topic);
  const auto from = begin + marker.size();
  const auto end = text.find("<!-- end -->", from);
  REQUIRE(end != std::string::npos);
  text.replace(from, end - from, "\n" + reference_markdown(reference_of(topic)) + "\n");
  return text;
}

void check_file(const std::string& file, const std::string& expected) {
  if (updating()) std::ofstream(file, std::ios::binary) << expected;
  CHECK_MESSAGE(contents(file) == expected, file, ": UPDATE_GOLDEN=1 unit_config writes it");
}

/// A line of the runner's table for each preset of a model that shardbench can build: it has no
/// latent attention and predicts no later tokens.
std::string model_table() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/sweeps/models"))
    names.insert(entry.path().stem().string());
  std::string table =
      "// SPDX-License-Identifier: Apache-2.0\n"
      "// Generated from sweeps/models by UPDATE_GOLDEN=1 unit_config.\n"
      "// layers, hidden, ffn, heads, kv_heads, vocab, seq_len (0: the usual one), tied,\n"
      "// head_values, experts, experts_per_token, expert_ffn, shared_experts, dense_layers\n";
  for (const auto& name : names) {
    const auto sweep =
        load_text("name: x\ncluster: h100-8x\nconstants: {nodes: 1, model: " + name + "}\n");
    REQUIRE_MESSAGE(sweep.has_value(), name);
    const auto& m = sweep->models.at(0);
    if (m.is_latent() || m.mtp_layers > 0) continue;
    table += fmt::format("{{\"{}\", {{{}, {}, {}, {}, {}, {}, 0, {}, {}, {}, {}, {}, {}, {}}}}},\n",
        name, m.layers, m.hidden, m.ffn, m.heads, m.kv_heads, m.vocab, m.tied_embeddings,
        m.head_dim, m.experts, m.experts_per_token, m.expert_ffn, m.shared_experts, m.dense_layers);
  }
  return table;
}

}  // namespace

TEST_CASE("shardbench knows the models that sweeps know, by the same names and shapes") {
  check_file(root + "/runner/src/model/model_table.inc", model_table());
}

TEST_CASE("the references of sweep and site file are those that the program prints") {
  auto sweeps = contents(root + "/sweeps/README.md");
  for (const auto* topic : {"axes", "units", "keys"})
    sweeps = with_generated(sweeps, topic);
  check_file(root + "/sweeps/README.md", sweeps);
  check_file(root + "/sweeps/RESULTS.md",
      with_generated(contents(root + "/sweeps/RESULTS.md"), "columns"));
  check_file(root + "/runner/TRAINERS.md",
      with_generated(
          with_generated(contents(root + "/runner/TRAINERS.md"), "placeholders"), "words"));
  check_file(root + "/templates/README.md",
      with_generated(contents(root + "/templates/README.md"), "site"));
}

TEST_CASE("the schema of the sweep file is the one that the program prints") {
  check_file(root + "/sweeps/sweep.schema.json", sweep_schema());
  check_file(root + "/sweeps/trainer.schema.json", trainer_schema());
}

TEST_CASE("every key of the reference is one that the loader takes") {
  // Values are wrong on purpose: an unknown key would be told as such.
  for (const auto& key : config::sweep_keys()) {
    std::string text = "name: x\ncluster: h100-8x\n";
    const auto section = std::string(key.section);
    const auto name = std::string(key.key);
    if (section.empty()) {
      text += name == "name" || name == "cluster" ? "" : name + ": {}\n";
    } else if (section == "cluster") {
      text = "name: x\ncluster: {" + name + ": {}}\n";
    } else if (section == "models.NAME") {
      text += "models: {m: {" + name + ": {}}}\n";
    } else if (section == "exclude" || section == "classify") {
      text += fmt::format("{}: [{{{}: {{}}}}]\n", section, name);
    } else if (const auto dot = section.find('.'); dot != std::string::npos) {
      text += section.substr(0, dot) + ": {" + section.substr(dot + 1) + ": {" + name + ": {}}}\n";
    } else {
      text += fmt::format("{}: {{{}: {{}}}}\n", section, name);
    }
    const auto said = fault_of(load_text(text));
    CHECK_MESSAGE(said.find("unknown key") == std::string::npos, text, said);
    CHECK_MESSAGE(said.find("unknown axis") == std::string::npos, text, said);
  }
}

TEST_CASE("a section or a key of the sweep file has its part of the reference") {
  const auto search = reference_of("search");
  REQUIRE(!search.empty());
  CHECK(search.front().title == "search");
  CHECK(reference_of("models").front().title == "models.NAME");
  const auto step_limit = reference_of("step_limit");
  REQUIRE(step_limit.size() == 1);
  CHECK(step_limit.front().title == "watch");
  CHECK(step_limit.front().rows.size() == 1);
  CHECK(reference_of("mbs").front().rows.front().front() == "micro_batch");
  CHECK(reference_of("no such key").empty());
}

TEST_CASE("defaults of the reference are those in force") {
  const auto sweep = load_text(
      "name: x\ncluster: h100-8x\nconstants: {model: llama-1b, nodes: 1, seq_len: 4096}\n");
  REQUIRE_MESSAGE(sweep, fault_of(sweep));
  const auto explained = explain_sweep(*sweep);
  for (const auto& table : reference_of("keys")) {
    if (table.title != "measure" && table.title != "watch" && table.title != "limits" &&
        table.title != "lane" && table.title != "retry")
      continue;
    for (const auto& row : table.rows) {
      if (table.title == "measure" && row[2].empty()) continue;  // of finals, which are off
      const auto line = "\n  " + row[0] + ": ";
      const auto at = explained.find(line);
      REQUIRE_MESSAGE(at != std::string::npos, row[0]);
    }
  }
  CHECK(explained.find("\n  steps: 10  #") != std::string::npos);
}

TEST_CASE("each column of the views that others read has a meaning") {
  const auto tables = reference_of("columns");
  REQUIRE(tables.size() == 2);
  for (const auto& table : tables) {
    for (const auto& row : table.rows) {
      REQUIRE(row.size() == 3);
      CHECK_MESSAGE(!row[2].empty(), row[0]);
    }
  }
}
