// SPDX-License-Identifier: Apache-2.0
// yaml-cpp's events into a tree. Its exceptions, and ours that stop it early, end here.
#include "adapters/config/yaml_tree.hpp"

#include "adapters/config/text.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>

namespace shardsweep::config {
namespace {

/// Leaves yaml-cpp's parser from within an event.
class Refused : public std::exception {
 public:
  explicit Refused(Fault fault) : fault_(std::move(fault)) {}
  [[nodiscard]] const Fault& fault() const { return fault_; }

 private:
  Fault fault_;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Source& source) : source_(source) {}

  [[nodiscard]] YamlNodePtr root() const { return root_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) refuse(mark, "a second document begins here: one file holds one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node_at(mark, YamlNode::Kind::null), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = node_at(mark, YamlNode::Kind::scalar);
    if (value.size() > most_scalar_bytes)
      refuse(mark, fmt::format("a value of more than {} KiB", most_scalar_bytes >> 10));
    // yaml-cpp's own marks: '?' plain, '!' quoted.
    if (tag != "?" && tag != "!" && !tag.empty()) refuse_tag(mark);
    node->quoted = tag == "!";
    node->text = value;
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark, "an alias inside of what it stands for: a cycle");
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
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    throw Refused(source_.fault_at(mark.line + 1, mark.column + 1, what));
  }
  [[noreturn]] void refuse_tag(const YAML::Mark& mark) const {
    refuse(mark, "explicit tags ('!...') are not supported: the key says which type it takes");
  }

  [[nodiscard]] std::shared_ptr<YamlNode> node_at(const YAML::Mark& mark,
                                                  YamlNode::Kind kind) const {
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->source = &source_;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    return node;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
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
      // Nothing stands nowhere: messages point at the key.
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
    if (key.kind == YamlNode::Kind::null) refuse(mark, "an empty key");
    if (key.kind != YamlNode::Kind::scalar) refuse(mark, "a key has to be a word");
    if (key.text == "<<" && !key.quoted)
      refuse(mark, "merge keys ('<<') are not supported: write the keys out");
    const auto [first, is_new] = open_.back().lines_of_keys.emplace(key.text, key.line);
    if (is_new) return;
    const auto where = first->second == mark.line + 1
                           ? "on this line"
                           : fmt::format("on line {}", first->second);
    refuse(mark, fmt::format("duplicate key {}, first {}", in_quotes(key.text), where));
  }

  void count(const YAML::Mark& mark, YamlNode& parent, const YamlNode& child) const {
    parent.size += child.size;
    parent.height = std::max(parent.height, child.height + 1);
    std::size_t total = 0;
    for (const auto& each : open_)
      total += each.node->size;
    if (total > most_yaml_nodes)
      refuse(mark, fmt::format("more than {} values, aliases written out", most_yaml_nodes));
    if (open_.size() + child.height > most_yaml_depth + 1) refuse_depth(mark);
  }

  static YAML::Mark mark_of(const YamlNode& node) {
    YAML::Mark mark;
    mark.line = node.line - 1;
    mark.column = node.column - 1;
    return mark;
  }

  const Source& source_;
  int documents_ = 0;
  YamlNodePtr root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, YamlNodePtr> anchors_;
};

Fault syntax_fault(const Source& source, const YAML::Exception& error) {
  const auto line = error.mark.is_null() ? 0 : error.mark.line + 1;
  return source.fault_at(line, error.mark.column + 1,
                         "no valid YAML: " + escaped(error.msg, 200));
}

}  // namespace

Result<YamlNodePtr> parse_yaml(const Source& source) {
  return parse_yaml(source.text(), source);
}

Result<YamlNodePtr> parse_yaml(const std::string& text, const Source& source) {
  SHARDSWEEP_TRY(check_text(source, most_yaml_bytes));
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder(source);
    while (parser.HandleNextDocument(builder)) {
    }
    if (builder.root()) return builder.root();
    auto nothing = std::make_shared<YamlNode>();
    nothing->source = &source;
    return YamlNodePtr(std::move(nothing));
  } catch (const Refused& refused) {
    return tl::unexpected(refused.fault());
  } catch (const YAML::Exception& error) {
    return tl::unexpected(syntax_fault(source, error));
  } catch (const std::exception& error) {
    return tl::unexpected(
        source.fault_at(0, 0, fmt::format("no valid YAML: {}", error.what())));
  }
}

Fault fault_at(const YamlNode& node, std::string_view what) {
  return node.source->fault_at(node.line, node.column, what);
}

}  // namespace shardsweep::config
