// SPDX-License-Identifier: Apache-2.0
#include "yaml/csv.hpp"
#include "yaml/yaml_tree.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>

using namespace shardsweep;
using namespace shardsweep::config;

namespace {

/// The first line of the fault, or "accepted".
std::string fault_of(const std::string& text) {
  const Source source("f", text);
  const auto tree = parse_yaml(source);
  return tree ? std::string("accepted") : tree.error().what.substr(0, tree.error().what.find('\n'));
}

std::string csv_of(const std::string& text) {
  const Source source("f", text);
  const auto rows = parse_csv(source);
  if (!rows) return rows.error().what.substr(0, rows.error().what.find('\n'));
  std::string shown;
  for (const auto& row : *rows) {
    for (const auto& cell : row)
      shown += (cell.kind == YamlNode::Kind::null ? "-" : "<" + cell.text + ">");
    shown += '\n';
  }
  return shown;
}

}  // namespace

TEST_CASE("a tree keeps order and quotes and positions") {
  const Source source("f", "a: 1\nb:\n  - 'x'\n  -   ~\nc: {d: \"1\"}\ne:\n");
  const auto tree = parse_yaml(source);
  REQUIRE(tree.has_value());
  const auto& root = **tree;
  REQUIRE(root.keys.size() == 4);
  CHECK(root.keys[1]->text == "b");
  CHECK_FALSE(root.items[0]->quoted);
  const auto& list = *root.items[1];
  CHECK(list.items[0]->quoted);
  CHECK(list.items[0]->line == 3);
  CHECK(list.items[0]->column == 5);
  CHECK(list.items[1]->kind == YamlNode::Kind::null);
  CHECK(root.items[2]->items[0]->quoted);
  CHECK(root.items[3]->kind == YamlNode::Kind::null);
  CHECK(root.items[3]->line == 6);  // of its key: nothing stands nowhere
}

TEST_CASE("an alias is the node that it stands for") {
  const Source source("f", "a: &x [1, 2]\nb: *x\n");
  const auto tree = parse_yaml(source);
  REQUIRE(tree.has_value());
  CHECK((*tree)->items[0] == (*tree)->items[1]);
  CHECK((*tree)->size == 9);
}

TEST_CASE("an empty file is a null node and not a fault") {
  for (const auto* text : {"", "\n\n", "# only words\n", "---\n...\n"}) {
    const Source source("f", text);
    const auto tree = parse_yaml(source);
    REQUIRE(tree.has_value());
    CHECK((*tree)->kind == YamlNode::Kind::null);
  }
}

TEST_CASE("a document is bounded in every direction") {
  CHECK(fault_of(std::string(most_yaml_bytes + 1, ' ')) ==
      "f: is larger than 4 MiB, the limit for such a file");
  CHECK(fault_of("a: " + std::string(most_scalar_bytes + 1, 'x')) ==
      "f:1:4: value is longer than 64 KiB");
  CHECK(fault_of("a: " + std::string(most_scalar_bytes, 'x')) == "accepted");
  std::string list;
  for (std::size_t at = 0; at + 1 < most_yaml_nodes; ++at)
    list += "- x\n";
  CHECK(fault_of(list) == "accepted");
  CHECK(fault_of(list + "- x\n") ==
      "f:100000:3: file holds more than 100000 values, with aliases written out");
  CHECK(fault_of(std::string(63, '[') + "x" + std::string(63, ']')) == "accepted");
  CHECK(fault_of(std::string(65, '[') + "x" + std::string(65, ']')) ==
      "f:1:65: nested more than 64 levels deep");
}

TEST_CASE("aliases don't nest deeper than brackets may") {
  std::string text = "- &a0 x\n";
  for (int level = 1; level < 80; ++level)
    text += "- &a" + std::to_string(level) + " [*a" + std::to_string(level - 1) + "]\n";
  CHECK(fault_of(text).find("nested more than 64 levels deep") != std::string::npos);
}

TEST_CASE("deep brackets that never close end quickly") {
  for (const char bracket : {'[', '{'}) {
    const auto fault = fault_of(std::string(1 << 20, bracket));
    CHECK(fault.find("nested more than 64 levels deep") != std::string::npos);
  }
}

TEST_CASE("cells keep what RFC 4180 lets them hold") {
  CHECK(csv_of("a,b\r\n1,\r\n\"x, \"\"y\"\"\",\"\"\r\n") == "<a><b>\n<1>-\n<x, \"y\"><>\n");
  CHECK(csv_of("a\n\n\"1\n2\"\n3") == "<a>\n<1\n2>\n<3>\n");
  CHECK(csv_of("") == "");
  CHECK(csv_of("a,b\n1\n") == "f:2:1: this row has 1 cells, but the header has 2");
  CHECK(csv_of("a\n\"1\n") == "f:2:1: this quote is never closed");
}
