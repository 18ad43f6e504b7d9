// SPDX-License-Identifier: Apache-2.0
#include "config/own_trainer.hpp"

#include "config/sweep_reader.hpp"
#include "trainer/log_reader.hpp"
#include "trainer/trainers.hpp"
#include "yaml/readers.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::size_t most_block_bytes = 32 << 10;

class OwnTrainerReader {
 public:
  explicit OwnTrainerReader(Mistakes& mistakes) : mistakes_(mistakes) {}

  [[nodiscard]] std::optional<OwnTrainer> read(const YamlNode& root) {
    const auto before = mistakes_.count();
    if (!mistakes_.take(root, expect_map(root, "a trainer's file"))) return std::nullopt;
    check_keys(root, "a trainer's file", {"log", "log_of", "rules", "rules_of", "start", "tested"},
        mistakes_);
    if (const auto* log = find(root, "log")) read_log(*log);
    if (const auto* of = find(root, "log_of")) own_.log_of = served(*of, "log_of");
    if (const auto* of = find(root, "rules_of")) {
      own_.file.rules = trainer_file(served(*of, "rules_of")).rules;
      own_.positions.assign(own_.file.rules.size(), position_of(*of));
    }
    if (const auto* rules = find(root, "rules")) read_rules(*rules);
    if (const auto* start = find(root, "start")) read_start(*start);
    if (own_.file.patterns.empty() && own_.log_of.empty() && mistakes_.count() == before)
      mistakes_.add(root,
          fault_at(root,
              "missing key 'log' in a trainer's file: the lines that it prints, as 'shardsweep "
              "help patterns' explains, or 'log_of' with a trainer that prints the same"));
    if (mistakes_.count() != before) return std::nullopt;
    return std::move(own_);
  }

 private:
  void read_log(const YamlNode& node) {
    if (!mistakes_.assign(own_.file.patterns, node, read_texts(node, "log"))) return;
    for (std::size_t i = 0; i < own_.file.patterns.size(); ++i) {
      const std::array<std::string_view, 1> one{own_.file.patterns[i]};
      const YamlNode& at = i < node.items.size() ? *node.items[i] : node;
      if (const auto reader = LogReader::make(one); !reader)
        mistakes_.add(at, fault_at(at, reader.error().what));
    }
  }

  std::string served(const YamlNode& node, std::string_view key) {
    const auto name = mistakes_.take(node, read_text(node, key));
    if (!name || find_trainer(*name) != nullptr) return name.value_or("");
    mistakes_.add(node, fault_at(node, unknown_trainer(*name)));
    return {};
  }

  void read_rules(const YamlNode& list) {
    if (!mistakes_.take(list, expect_list(list, "'rules'"))) return;
    for (const auto& item : list.items) {
      if (!mistakes_.take(*item, expect_map(*item, "a rule"))) continue;
      check_keys(*item, "a rule", {"when", "why", "source"}, mistakes_);
      TrainerRule rule;
      const auto* when = need(*item, "a rule", "when", mistakes_);
      const auto* why = need(*item, "a rule", "why", mistakes_);
      if (when != nullptr) text_into(rule.when, *when, "when");
      if (why != nullptr) text_into(rule.why, *why, "why");
      if (const auto* source = find(*item, "source")) text_into(rule.source, *source, "source");
      own_.file.rules.push_back(std::move(rule));
      own_.positions.push_back(position_of(*item));
    }
  }

  void read_start(const YamlNode& map) {
    if (!mistakes_.take(map, expect_map(map, "'start'"))) return;
    TrainerStart& start = own_.file.start;
    const std::array<std::pair<std::string_view, std::string*>, 7> texts{
        {{"written_for", &start.written_for}, {"data", &start.data}, {"zero", &start.zero},
            {"recompute", &start.recompute}, {"constants", &start.constants}, {"axes", &start.axes},
            {"text", &start.rest}}};
    check_keys(map, "'start'",
        {"written_for", "data", "zero", "recompute", "constants", "axes", "text", "recipes",
            "spreads_experts", "without"},
        mistakes_);
    for (const auto& [key, into] : texts) {
      if (const auto* node = find(map, key)) text_into(*into, *node, key);
    }
    // As in the file of a sweep, and as lines behind others.
    if (!start.axes.empty() && !start.axes.ends_with('\n')) start.axes += '\n';
    if (const auto* recipes = find(map, "recipes")) read_recipes(*recipes);
    if (const auto* spreads = find(map, "spreads_experts"))
      mistakes_.assign(start.spreads_experts, *spreads, read_bool(*spreads, "spreads_experts"));
    if (const auto* without = find(map, "without")) {
      std::vector<std::string> names;
      mistakes_.assign(names, *without, read_texts(*without, "without"));
      for (const auto& name : names) {
        if (name == "tp") start.has_tp = false;
        if (name == "pp") start.has_pp = false;
      }
    }
  }

  void read_recipes(const YamlNode& map) {
    if (!mistakes_.take(map, expect_map(map, "'recipes'"))) return;
    for (std::size_t i = 0; i < map.items.size(); ++i) {
      StartRecipe recipe{.model = map.keys[i]->text, .name = {}};
      text_into(recipe.name, *map.items[i], map.keys[i]->text);
      own_.file.start.recipes.push_back(std::move(recipe));
    }
  }

  /// A text, or a list of words as a sweep file writes it.
  void text_into(std::string& into, const YamlNode& node, std::string_view key) {
    if (node.kind != YamlNode::Kind::list) {
      mistakes_.assign(into, node, read_text(node, key, most_block_bytes, Lines::many));
      return;
    }
    for (const auto& item : node.items)
      into += (into.empty() ? "[" : ", ") + item->text;
    into += into.empty() ? "[]" : "]";
  }

  Mistakes& mistakes_;
  OwnTrainer own_;
};

}  // namespace

std::optional<OwnTrainer> read_own_trainer(const YamlNode& root, Mistakes& mistakes) {
  return OwnTrainerReader(mistakes).read(root);
}

}  // namespace shardsweep::config
