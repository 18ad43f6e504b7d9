// SPDX-License-Identifier: Apache-2.0
// yaml-cpp's events into a tree. Its exceptions, and ours that stop it early, end here.
#include "yaml/yaml_tree.hpp"

#include "text/characters.hpp"
#include "yaml/mistakes.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <exception>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>

namespace shardsweep::config {
namespace {

/// Leaves yaml-cpp's parser from within an event.
class ParserRefusal : public std::exception {
 public:
  ParserRefusal(int line, Fault fault) : line_(line), fault_(std::move(fault)) {}
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] const Fault& fault() const { return fault_; }

 private:
  int line_;
  Fault fault_;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const Source& source, Mistakes& mistakes) : source_(source), mistakes_(mistakes) {}

  [[nodiscard]] YamlNodePtr root() const { return root_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 0) return;
    // Text that stands further left than the document ends it for the parser.
    if (source_.line(mark.line + 1).starts_with("---") || mark.line == 0 ||
        source_.line(mark.line).starts_with("---"))
      refuse(mark, "a second document begins here; a file holds one");
    refuse(mark, std::string(wrong_indentation));
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node_at(mark, YamlNode::Kind::null), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
      const std::string& value) override {
    auto node = node_at(mark, YamlNode::Kind::scalar);
    if (value.size() > most_scalar_bytes)
      refuse(mark, fmt::format("value is longer than {} KiB", most_scalar_bytes >> 10));
    // yaml-cpp's own marks: '?' plain, '!' quoted.
    if (tag != "?" && tag != "!" && !tag.empty()) refuse_tag(mark);
    node->quoted = tag == "!";
    if (node->quoted) check_quote(mark);
    node->text = value;
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      refuse(mark, "this alias stands inside the value that it repeats; write the value out");
    attach(mark, found->second);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
      YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, YamlNode::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
      YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor;
    std::unordered_map<std::string, int> lines_of_keys{};
    std::vector<std::size_t> duplicates{};  // indices of keys that stood there before
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    throw ParserRefusal(mark.line + 1, source_.fault_at(mark.line + 1, mark.column + 1, what));
  }
  [[noreturn]] void refuse_tag(const YAML::Mark& mark) const {
    refuse(mark, "tags ('!...') are not supported; remove the tag, or put the value in quotes");
  }

  [[nodiscard]] std::shared_ptr<YamlNode> node_at(
      const YAML::Mark& mark, YamlNode::Kind kind) const {
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->source = &source_;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    return node;
  }

  void open(
      const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (tag != "?" && !tag.empty()) refuse_tag(mark);
    if (open_.size() >= most_yaml_depth) refuse_depth(mark);
    open_.push_back({node_at(mark, kind), anchor});
  }

  [[noreturn]] void refuse_depth(const YAML::Mark& mark) const {
    refuse(mark, fmt::format("nested more than {} levels deep", most_yaml_depth));
  }

  void close() {
    auto done = std::move(open_.back());
    open_.pop_back();
    auto& node = *done.node;
    for (auto at = done.duplicates.rbegin(); at != done.duplicates.rend(); ++at) {
      node.keys.erase(node.keys.begin() + static_cast<std::ptrdiff_t>(*at));
      node.items.erase(node.items.begin() + static_cast<std::ptrdiff_t>(*at));
    }
    add(std::move(done.node), done.anchor);
  }

  void add(std::shared_ptr<YamlNode> node, YAML::anchor_t anchor) {
    const YAML::Mark mark = mark_of(*node);
    YamlNodePtr done = std::move(node);
    if (anchor != YAML::NullAnchor) anchors_[anchor] = done;
    attach(mark, done);
  }

  /// `node` as the next child of what is open, or as the root.
  void attach(const YAML::Mark& mark, const YamlNodePtr& node) {
    if (open_.empty()) {
      root_ = node;
      return;
    }
    auto& parent = *open_.back().node;
    if (parent.kind == YamlNode::Kind::map && parent.keys.size() == parent.items.size()) {
      check_key(mark, *node);
      parent.keys.push_back(node);
    } else if (node->kind == YamlNode::Kind::null && parent.kind == YamlNode::Kind::map) {
      // An empty value has no position of its own: messages point at its key.
      auto moved = std::make_shared<YamlNode>(*node);
      moved->line = parent.keys.back()->line;
      moved->column = parent.keys.back()->column;
      parent.items.push_back(std::move(moved));
    } else {
      parent.items.push_back(node);
    }
    count(mark, parent, *node);
  }

  void check_key(const YAML::Mark& mark, const YamlNode& key) {
    if (key.kind == YamlNode::Kind::null) refuse(mark, "a key is missing; write 'key: value'");
    if (key.kind != YamlNode::Kind::scalar)
      refuse(mark, "a key cannot be a list or a map; write a word");
    if (key.text == "<<" && !key.quoted)
      refuse(mark, "merge keys ('<<') are not supported; write the keys out");
    const auto [first, is_new] = open_.back().lines_of_keys.emplace(key.text, key.line);
    if (is_new) return;
    const auto where =
        first->second == mark.line + 1 ? "on this line" : fmt::format("on line {}", first->second);
    mistakes_.add(source_, mark.line + 1, mark.column + 1,
        source_.fault_at(mark.line + 1, mark.column + 1,
            fmt::format(
                "duplicate key {}, first {}; keep one of them", in_quotes(key.text), where)));
    open_.back().duplicates.push_back(open_.back().node->keys.size());
  }

  /// yaml-cpp takes a quote that is never closed to end with the file.
  void check_quote(const YAML::Mark& mark) const {
    const auto text = source_.from(mark.line + 1, mark.column + 1);
    if (text.empty() || (text.front() != '"' && text.front() != '\'')) return;
    if (!closing_quote(text)) refuse(mark, std::string(open_quote));
  }

  void count(const YAML::Mark& mark, YamlNode& parent, const YamlNode& child) const {
    parent.size += child.size;
    parent.height = std::max(parent.height, child.height + 1);
    std::size_t total = 0;
    for (const auto& each : open_)
      total += each.node->size;
    if (total > most_yaml_nodes)
      refuse(mark,
          fmt::format("file holds more than {} values, with aliases written out", most_yaml_nodes));
    if (open_.size() + child.height > most_yaml_depth + 1) refuse_depth(mark);
  }

  static YAML::Mark mark_of(const YamlNode& node) {
    YAML::Mark mark;
    mark.line = node.line - 1;
    mark.column = node.column - 1;
    return mark;
  }

  const Source& source_;
  Mistakes& mistakes_;
  int documents_ = 0;
  YamlNodePtr root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, YamlNodePtr> anchors_;
};

/// Parses the text and notes what fails; empty if there is no tree.
std::optional<YamlNodePtr> parse(
    const std::string& text, const Source& source, Mistakes& mistakes) {
  if (auto checked = check_text(source, most_yaml_bytes); !checked) {
    mistakes.add(source, 0, 0, checked.error());
    return std::nullopt;
  }
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder(source, mistakes);
    while (parser.HandleNextDocument(builder)) {
    }
    if (builder.root()) return builder.root();
    auto nothing = std::make_shared<YamlNode>();
    nothing->source = &source;
    return YamlNodePtr(std::move(nothing));
  } catch (const ParserRefusal& refused) {
    mistakes.add(source, refused.line(), 0, refused.fault());
  } catch (const YAML::Exception& error) {
    const int line = error.mark.is_null() ? 0 : error.mark.line + 1;
    const auto found = syntax_mistake(source, error.msg, line, error.mark.column + 1);
    mistakes.add(
        source, found.line, found.column, source.fault_at(found.line, found.column, found.what));
  } catch (const std::exception& error) {
    mistakes.add(
        source, 0, 0, source.fault_at(0, 0, fmt::format("not valid YAML: {}", error.what())));
  }
  return std::nullopt;
}

}  // namespace

std::optional<YamlNodePtr> parse_yaml(const Source& source, Mistakes& mistakes) {
  return parse(source.text(), source, mistakes);
}

Result<YamlNodePtr> parse_yaml(const Source& source) {
  return parse_yaml(source.text(), source);
}

Result<YamlNodePtr> parse_yaml(const std::string& text, const Source& source) {
  Mistakes mistakes(source);
  auto root = parse(text, source, mistakes);
  SHARDSWEEP_TRY(mistakes.verdict());
  return *std::move(root);
}

namespace {

/// True for text that YAML reads as itself without quotes.
bool is_plain(std::string_view text) {
  constexpr std::array words{"null", "Null", "NULL", "true", "false", "auto"};
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
        c == '.' || c == '/' || c == '-';
  };
  const bool begins = !text.empty() && text.front() != '-' && text.front() != '.';
  return begins && std::all_of(text.begin(), text.end(), fits) &&
      std::find(words.begin(), words.end(), text) == words.end();
}

}  // namespace

std::string yaml_text(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string shown = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      shown += '\\';
      shown += c;
    } else if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else {
      shown += c;
    }
  }
  return shown + '"';
}

}  // namespace shardsweep::config
