// SPDX-License-Identifier: Apache-2.0
#include "config/own_trainer.hpp"

#include "config/sweep_reader.hpp"
#include "trainer/log_reader.hpp"
#include "yaml/readers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::size_t most_block_bytes = 32 << 10;

/// A file as the values that read_trainer_file() takes, each with its place.
class FlatFile {
 public:
  FlatFile(const YamlNode& root, Mistakes& mistakes) : mistakes_(mistakes) {
    for (std::size_t i = 0; i < root.items.size(); ++i)
      add_section(*root.keys[i], *root.items[i]);
  }

  [[nodiscard]] const std::vector<TableValue>& values() const { return values_; }
  [[nodiscard]] const YamlNode& node_of(std::size_t value, Blamed blamed) const {
    const Place& place = places_.at(value);
    if (blamed == Blamed::key) return *place.key;
    return blamed == Blamed::item ? *place.item : *place.value;
  }

 private:
  struct Place {
    const YamlNode* key;
    const YamlNode* value;
    const YamlNode* item;
  };

  void add_section(const YamlNode& key, const YamlNode& node) {
    section_ = key.text;
    const bool is_scalar = node.kind == YamlNode::Kind::scalar;
    add({.text = is_scalar ? text_of(node, section_) : ""}, {&key, &node, &node});
    if (node.kind == YamlNode::Kind::map) add_map(node, false);
    if (node.kind != YamlNode::Kind::list) return;
    for (const auto& item : node.items) {
      if (item->kind == YamlNode::Kind::map)
        add_map(*item, true);
      else
        add({.fresh = true, .text = text_of(*item, section_)},
            {item.get(), item.get(), item.get()});
    }
  }
  void add_map(const YamlNode& map, bool fresh) {
    for (std::size_t i = 0; i < map.items.size(); ++i) {
      const YamlNode& key = *map.keys[i];
      add({.key = key.text, .fresh = fresh, .text = text_of(*map.items[i], key.text)},
          {&key, map.items[i].get(), &map});
      fresh = false;
    }
  }
  void add(TableValue value, Place place) {
    value.line = place.key->line;
    value.section = section_;
    values_.push_back(std::move(value));
    places_.push_back(place);
  }

  /// A list as the words of a sweep file, and a map as lines.
  std::string text_of(const YamlNode& node, std::string_view key) {
    if (node.kind == YamlNode::Kind::list) {
      std::vector<std::string_view> words;
      for (const auto& item : node.items)
        words.emplace_back(item->text);
      return fmt::format("[{}]", fmt::join(words, ", "));
    }
    std::string text;
    if (node.kind == YamlNode::Kind::map) {
      for (std::size_t i = 0; i < node.items.size(); ++i)
        text += fmt::format("{}: {}\n", node.keys[i]->text, text_of(*node.items[i], key));
      return text;
    }
    mistakes_.assign(text, node, read_text(node, key, most_block_bytes, Lines::many));
    return text;
  }

  Mistakes& mistakes_;
  std::string_view section_;
  std::vector<TableValue> values_;
  std::vector<Place> places_;
};

void check_patterns(const FlatFile& flat, Mistakes& mistakes) {
  for (std::size_t i = 0; i < flat.values().size(); ++i) {
    const TableValue& value = flat.values()[i];
    if (value.section != "log" || !value.fresh) continue;
    const std::array<std::string_view, 1> one{value.text};
    const YamlNode& at = flat.node_of(i, Blamed::value);
    if (const auto reader = LogReader::make(one); !reader) mistakes.add(at, reader.error().what);
  }
}

}  // namespace

std::optional<OwnTrainer> read_own_trainer(const YamlNode& root, Mistakes& mistakes) {
  const auto before = mistakes.count();
  const FlatFile flat(root, mistakes);
  std::vector<TrainerMistake> found;
  OwnTrainer own{root.source->name(), read_trainer_file(flat.values(), found), {}};
  own.positions.reserve(own.file.rules.size());
  for (const TrainerRule& rule : own.file.rules)
    own.positions.push_back(position_of(flat.node_of(rule.at, Blamed::item)));
  for (const TrainerMistake& mistake : found) {
    const YamlNode& at = flat.node_of(mistake.at, mistake.blamed);
    mistakes.add(at, mistake.what);
  }
  check_patterns(flat, mistakes);
  // Append to the axes as in a sweep file: as lines after others.
  std::string& axes = own.file.start.axes;
  if (!axes.empty() && !axes.ends_with('\n')) axes += '\n';
  if (own.file.patterns.empty() && own.file.log_of.empty() && mistakes.count() == before)
    mistakes.add(root,
        "missing key 'log' in a trainer's file: the lines that it prints, as 'shardsweep help "
        "patterns' explains, or 'log_of' with a trainer that prints the same");
  if (mistakes.count() != before) return std::nullopt;
  return own;
}

}  // namespace shardsweep::config
