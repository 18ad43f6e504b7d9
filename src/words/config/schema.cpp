// SPDX-License-Identifier: Apache-2.0
// JSON Schema of the sweep file: what an editor needs to complete keys and to mark mistakes.
// The loader is stricter: sums, presets and expressions are its own.
#include "config/keys.hpp"
#include "config/sweep_reader.hpp"
#include "text/pieces.hpp"
#include "trainer/trainer_file.hpp"

#include <shardsweep/cause.hpp>
#include <shardsweep/container.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/policy.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

using namespace config;
using OrderedJson = nlohmann::ordered_json;

OrderedJson pattern(std::string_view text) {
  return {{"type", "string"}, {"pattern", text}};
}
OrderedJson link_to(std::string_view name) {
  return {{"$ref", "#/definitions/" + std::string(name)}};
}
OrderedJson one_of(std::span<const std::string_view> list) {
  return {{"enum", std::vector<std::string>(list.begin(), list.end())}};
}
OrderedJson array_of(OrderedJson items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

std::vector<std::string_view> names_of_forms() {
  auto names = split(forms_of_words, ',');
  std::transform(names.begin(), names.end(), names.begin(), trimmed);
  return names;
}

OrderedJson definitions() {
  OrderedJson all;
  all["count"] = {
      {"anyOf", {{{"type", "integer"}, {"minimum", 0}}, pattern("^[0-9]+(k|M|G|Ki|Mi|Gi)$")}}};
  all["bytes"] = pattern("^[0-9]+(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB|Ki|Mi|Gi|Ti)$");
  all["duration"] = pattern("^[0-9]+(\\.[0-9]+)?(us|ms|s|min|h|d)$");
  all["rate"] = pattern("^[0-9.]+([eE][0-9]+)?(B|kB|MB|GB|TB)/s$");
  all["latency"] = pattern("^[0-9.]+(us|ms)$");
  all["percent"] = pattern("^[0-9]+%$");
  all["share"] = {
      {"anyOf", {{{"type", "number"}, {"exclusiveMinimum", 0}}, pattern("^[0-9.]+%$")}}};
  all["name"] = pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$");
  all["scalar"] = {{"type", {"string", "number", "boolean"}}};
  return all;
}

OrderedJson type_of(const KeyInfo& key) {
  switch (key.type) {
    case KeyType::name:
      return link_to("name");
    case KeyType::count:
      return link_to("count");
    case KeyType::bytes:
      return link_to("bytes");
    case KeyType::rate:
      return link_to("rate");
    case KeyType::latency:
      return link_to("latency");
    case KeyType::real:
      return {{"type", "number"}};
    case KeyType::share:
      return {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 1}};
    case KeyType::percent:
      return link_to("share");
    case KeyType::boolean:
      return {{"type", "boolean"}};
    case KeyType::texts:
      return array_of(link_to("scalar"));
    case KeyType::text:
    case KeyType::pattern:
    case KeyType::lines:
    case KeyType::special:
      break;
  }
  return link_to("scalar");
}

OrderedJson described(OrderedJson schema, std::string_view meaning) {
  // JSON Schema draft 7 ignores all keys beside a $ref.
  if (schema.contains("$ref")) schema = {{"allOf", OrderedJson::array({schema})}};
  schema["description"] = meaning;
  return schema;
}

/// A map with the keys of `section`, and no others.
OrderedJson map_of(std::string_view section) {
  OrderedJson properties = OrderedJson::object();
  for (const auto& key : sweep_keys()) {
    if (key.section == section)
      properties[std::string(key.key)] = described(type_of(key), key.meaning);
  }
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
}

OrderedJson axis_value(const AxisInfo& axis) {
  OrderedJson value;
  switch (axis.kind) {
    case AxisKind::model:
      value = link_to("name");
      break;
    case AxisKind::word:
      value = one_of(axis.words);
      for (const auto& synonym : word_synonyms(axis))
        value["enum"].push_back(synonym.text);
      break;
    case AxisKind::toggle:
      value = {{"enum", {true, false, 0, 1}}};
      break;
    case AxisKind::integer: {
      const bool unset = axis.name == "nodes" || axis.name == "gpus";
      const auto least = unset ? std::max<std::int64_t>(axis.minimum, 1) : axis.minimum;
      value = {{"anyOf",
          {{{"type", "integer"}, {"minimum", least}, {"maximum", axis.maximum}},
              pattern("^[0-9]+(k|M|G|Ki|Mi|Gi)$")}}};
      break;
    }
  }
  if (!axis.allows_auto) return value;
  return {{"anyOf", {value, {{"const", "auto"}}}}};
}

enum class AxisForm : std::uint8_t { setting, values, zip };

std::string definition_of(const AxisInfo& axis, AxisForm form) {
  constexpr std::array<std::string_view, 3> prefixes{"value_", "values_", "list_"};
  return std::string(prefixes[static_cast<std::size_t>(form)]) + std::string(axis.name);
}

/// Defines the forms of an axis once: maps of axes refer to them.
void define_axis(const AxisInfo& axis, OrderedJson& all) {
  const OrderedJson one = link_to(definition_of(axis, AxisForm::setting));
  OrderedJson list = array_of(one);
  list["minItems"] = 1;
  OrderedJson different = list;
  different["uniqueItems"] = true;
  all[definition_of(axis, AxisForm::setting)] = described(axis_value(axis), axis.meaning);
  all[definition_of(axis, AxisForm::values)] =
      described({{"anyOf", {one, different}}}, axis.meaning);
  all[definition_of(axis, AxisForm::zip)] = described(list, axis.meaning);
}

/// A map whose keys are axes, other trainers' names among them.
OrderedJson axis_map(AxisForm form) {
  OrderedJson properties = OrderedJson::object();
  for (const auto& axis : axes()) {
    const OrderedJson schema = link_to(definition_of(axis, form));
    properties[std::string(axis.name)] = schema;
    for (const auto alias : axis.aliases)
      properties[std::string(alias)] = schema;
  }
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
}

OrderedJson policy_value(const PolicyField& field) {
  switch (field.unit) {
    case PolicyUnit::seconds:
      return link_to("duration");
    case PolicyUnit::bytes:
      return link_to("bytes");
    case PolicyUnit::count:
      return link_to("count");
    case PolicyUnit::hours:
    case PolicyUnit::factor:
      return {{"type", "number"}, {"minimum", field.minimum}, {"maximum", field.maximum}};
    case PolicyUnit::percent:
      return link_to("percent");
    case PolicyUnit::yield:
    case PolicyUnit::slow_nodes:
      break;
  }
  return one_of(words_of(field.unit));
}

void add_policy(OrderedJson& properties) {
  for (const auto section : policy_sections()) {
    OrderedJson keys = OrderedJson::object();
    for (const auto& field : policy_fields()) {
      if (field.section == section)
        keys[std::string(field.key)] = described(policy_value(field), field.reason);
    }
    if (section == hours_section)
      keys[std::string(hours_key)] = described({{"type", "string"}}, hours_reason);
    properties[std::string(section)] = {
        {"type", "object"}, {"additionalProperties", false}, {"properties", keys}};
  }
}

/// Hand-picked points may also name variables, which only the file knows.
OrderedJson point_map() {
  OrderedJson map = axis_map(AxisForm::setting);
  map["additionalProperties"] = link_to("scalar");
  return map;
}

OrderedJson cluster() {
  OrderedJson map = map_of("cluster");
  OrderedJson peaks = OrderedJson::object();
  for (const auto dtype : peak_words)
    peaks[std::string(dtype)] = {{"type", "number"}, {"exclusiveMinimum", 0}};
  map["properties"]["peak_flops"] = {
      {"type", "object"}, {"additionalProperties", false}, {"properties", peaks}};
  return {{"anyOf", {{{"type", "string"}}, map}}};
}

OrderedJson search() {
  OrderedJson map = map_of("search");
  map["properties"]["policy"] = one_of(search_policy_words);
  map["properties"]["until"] = map_of("search.until");
  map["properties"]["rules"] = map_of("search.rules");
  map["properties"]["learn_from"] = {{"anyOf",
      {{{"enum", {"all", "none"}}},
          {{"type", "array"}, {"minItems", 1}, {"items", {{"type", "string"}}}}}}};
  map["properties"]["cut_short"] = {
      {"anyOf", {{{"type", "number"}, {"exclusiveMinimum", 1}}, {{"enum", {"off", false}}}}}};
  return map;
}

OrderedJson classify() {
  using Words = std::pair<const char*, std::span<const std::string_view>>;
  OrderedJson map = map_of("classify");
  std::vector<std::string_view> outcomes(cause_outcomes.size());
  std::transform(cause_outcomes.begin(), cause_outcomes.end(), outcomes.begin(),
      [](Outcome outcome) { return name(outcome); });
  const std::span<const std::string_view> whose = word_table<Whose>;
  for (const auto& [key, words] : std::initializer_list<Words>{{"outcome", outcomes},
           {"where", word_table<LinePlace>}, {"weight", word_table<Strength>},
           {"when", word_table<When>}, {"whose", whose.subspan(1)}})
    map["properties"][key] = one_of(words);
  map["required"] = {"name", "pattern", "outcome"};
  return array_of(map);
}

OrderedJson runner() {
  OrderedJson map = map_of("runner");
  map["properties"]["launch"] = {{"enum", {"rank", "node"}}};
  map["properties"]["files"] = {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
  map["properties"]["snapshot"] = one_of(snapshot_words);
  map["properties"]["hashes"] = map["properties"]["files"];
  return {{"anyOf", {link_to("name"), map}}};
}

OrderedJson container() {
  OrderedJson map = map_of("container");
  map["properties"]["runtime"] = one_of(word_table<ContainerRuntime>);
  map["properties"]["image"] = {{"anyOf", {{{"type", "string"}}, array_of({{"type", "string"}})}}};
  map["properties"]["env"] = {{"type", "object"}, {"additionalProperties", link_to("scalar")}};
  return map;
}

OrderedJson exclude() {
  OrderedJson map = map_of("exclude");
  map["required"] = {"when"};
  return array_of({{"anyOf", {link_to("scalar"), map}}});
}

OrderedJson constants() {
  OrderedJson map = axis_map(AxisForm::setting);
  for (const auto& key : sweep_keys()) {
    if (key.section == "constants")
      map["properties"][std::string(key.key)] = described(type_of(key), key.meaning);
  }
  return map;
}

OrderedJson vars() {
  OrderedJson values = array_of(link_to("scalar"));
  values["minItems"] = 1;
  return {{"type", "object"}, {"propertyNames", {{"pattern", "^[a-z][a-z0-9_]{0,63}$"}}},
      {"additionalProperties", {{"anyOf", {link_to("scalar"), values}}}}};
}

OrderedJson control() {
  return {{"anyOf", {{{"enum", {"off", "auto", "network", false}}}, point_map()}}};
}

OrderedJson profile() {
  OrderedJson map = map_of("profile");
  const auto meaning = map["properties"]["finalists"]["description"];
  map["properties"]["finalists"] = {{"enum", {"nsys", "off", false}}, {"description", meaning}};
  return map;
}

OrderedJson remeasure() {
  OrderedJson map = map_of("remeasure");
  auto& properties = map["properties"];
  const auto meaning = [&](const char* key) { return properties[key]["description"]; };
  properties["every"] = {{"$ref", "#/definitions/duration"}, {"description", meaning("every")}};
  auto on = one_of(word_table<RemeasureOn>);
  on["description"] = meaning("on");
  properties["on"] = std::move(on);
  properties["layouts"] = {{"type", "string"}, {"pattern", "^best ([1-9]|1[0-6])$"},
      {"description", meaning("layouts")}};
  return map;
}

OrderedJson measure() {
  OrderedJson map = map_of("measure");
  const auto meaning = map["properties"]["repeats"]["description"];
  map["properties"]["repeats"] = {
      {"anyOf", {link_to("count"), {{"enum", {"until_resolved"}}}}}, {"description", meaning}};
  return map;
}

void fill_special(OrderedJson& properties) {
  properties["cluster"] = cluster();
  properties["models"] = {{"type", "object"},
      {"additionalProperties", {{"anyOf", {{{"type", "string"}}, map_of("models.NAME")}}}}};
  properties["constants"] = constants();
  properties["axes"] = axis_map(AxisForm::values);
  properties["zip"] = array_of(axis_map(AxisForm::zip));
  properties["points"] = array_of(point_map());
  properties["vars"] = vars();
  properties["control"] = control();
  properties["prove"] = {{"enum", {"one-gpu", "off", false}}};
  properties["profile"] = profile();
  properties["remeasure"] = remeasure();
  properties["exclude"] = exclude();
  properties["measure"] = measure();
  properties["runner"] = runner();
  properties["env"] = {{"type", "object"}, {"additionalProperties", link_to("scalar")}};
  properties["secrets"] = properties["env"];
  properties["container"] = container();
  properties["classify"] = classify();
  properties["search"] = search();
}

/// Adds the meaning of each habit of a family to its section.
void describe_habits(OrderedJson& planner) {
  OrderedJson& keys = planner["properties"];
  visit_fields<Family>([&](const auto& key) {
    keys[std::string(key.name)] = {
        {"allOf", {link_to("scalar")}}, {"description", std::string(key.facts.meaning)}};
  });
}

}  // namespace

std::string trainer_schema() {
  OrderedJson properties;
  const OrderedJson text = link_to("scalar");
  for (const TrainerSection& section : trainer_sections()) {
    OrderedJson keys = OrderedJson::object();
    for (const std::string_view key : section.keys)
      keys[std::string(key)] = link_to("value");
    const OrderedJson map{
        {"type", "object"}, {"additionalProperties", false}, {"properties", keys}};
    OrderedJson& value = properties[std::string(section.name)];
    if (section.kind == SectionKind::text)
      value = text;
    else if (section.kind == SectionKind::map)
      value = map;
    else if (section.kind == SectionKind::maps)
      value = {{"anyOf", {map, array_of(map)}}};
    else
      value = array_of({{"anyOf", {text, {{"type", "object"}, {"additionalProperties", text}}}}});
  }
  describe_habits(properties["planner"]);
  for (const auto* key : {"form", "also_read"})
    properties["layout"]["anyOf"][0]["properties"][key] = one_of(names_of_forms());
  std::string axes_or;
  for (const AxisInfo& axis : axes())
    axes_or += fmt::format("{}|", axis.name);
  properties["words"]["items"] = {{"type", "object"}, {"maxProperties", 1},
      {"propertyNames", {{"pattern", fmt::format("^(with )?({}{})( 1)?$", axes_or, batch_name)}}},
      {"additionalProperties", text}};
  const OrderedJson texts = array_of(text);
  return OrderedJson{{"$schema", "http://json-schema.org/draft-07/schema#"},
             {"title", "shardsweep trainer's file"}, {"type", "object"},
             {"additionalProperties", false}, {"properties", properties},
             {"definitions",
                 {{"scalar", definitions()["scalar"]},
                     {"value",
                         {{"anyOf",
                             {text, texts,
                                 {{"type", "object"},
                                     {"additionalProperties", {{"anyOf", {text, texts}}}}}}}}}}}}
             .dump(1) +
      "\n";
}

std::string sweep_schema() {
  OrderedJson schema = map_of("");
  OrderedJson& properties = schema["properties"];
  fill_special(properties);
  for (const auto& key : sweep_keys()) {
    if (key.section.empty()) properties[std::string(key.key)]["description"] = key.meaning;
  }
  add_policy(properties);
  OrderedJson whole{
      {"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "shardsweep sweep file"}};
  whole.update(schema);
  whole["required"] = {"name", "cluster"};
  whole["definitions"] = definitions();
  for (const auto& axis : axes())
    define_axis(axis, whole["definitions"]);
  return whole.dump(1) + "\n";
}

}  // namespace shardsweep
