// SPDX-License-Identifier: Apache-2.0
// A rule is told to the planner as an expression and kept here by a predicate: both must refuse
// the same layouts, or the planner offers what the runner refuses.
#include "device/cpu_platform.hpp"
#include "measurement/profile.hpp"
#include "program/rules.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace shardbench;

namespace {

using Columns = std::map<std::string, i64>;

/// Words are compared as numbers.
i64 number_of(const std::string& word) {
  for (const Scaling scaling : {Scaling::none, Scaling::current, Scaling::delayed})
    if (word == trained_in(Dtype::fp32, scaling)) return static_cast<i64>(scaling);
  for (const ScheduleKind kind :
      {ScheduleKind::one_f_one_b, ScheduleKind::afab, ScheduleKind::zb_h1, ScheduleKind::zb_v})
    if (word == schedule_name(kind)) return static_cast<i64>(kind);
  for (const ContextMode mode : {ContextMode::ring, ContextMode::ulysses})
    if (word == context_mode_name(mode)) return static_cast<i64>(mode);
  FAIL("no column has '" << word << "'");
  return -1;
}

/// Evaluates what the rules are written in: integers, columns, % / *, - , = <> < >, and, or,
/// brackets. Truth is 1, as in SQLite.
class Expression {
 public:
  Expression(const std::string& text, const Columns& columns) : text_(text), columns_(columns) {}

  i64 value() {
    const i64 result = any();
    CHECK_MESSAGE(word().empty(), "left over at " << at_ << " of " << text_);
    return result;
  }

 private:
  i64 any() {
    i64 left = all();
    while (take("or")) {
      const i64 right = all();
      left = left != 0 || right != 0 ? 1 : 0;
    }
    return left;
  }
  i64 all() {
    i64 left = comparison();
    while (take("and")) {
      const i64 right = comparison();
      left = left != 0 && right != 0 ? 1 : 0;
    }
    return left;
  }
  i64 comparison() {
    const i64 left = difference();
    if (take("=")) return left == difference() ? 1 : 0;
    if (take("<>")) return left != difference() ? 1 : 0;
    if (take("<")) return left < difference() ? 1 : 0;
    if (take(">")) return left > difference() ? 1 : 0;
    return left;
  }
  i64 difference() {
    i64 left = quotient();
    while (take("-"))
      left -= quotient();
    return left;
  }
  i64 quotient() {
    i64 left = operand();
    while (true) {
      if (take("%"))
        left %= operand();
      else if (take("/"))
        left /= operand();
      else if (take("*"))
        left *= operand();
      else
        return left;
    }
  }
  i64 operand() {
    if (take("(")) {
      const i64 inner = any();
      CHECK_MESSAGE(take(")"), "no closing bracket in " << text_);
      return inner;
    }
    const std::string name = word();
    at_ += name.size();
    if (name == "'") {
      const std::size_t end = text_.find('\'', at_);
      const std::string quoted = text_.substr(at_, end - at_);
      at_ = end + 1;
      return number_of(quoted);
    }
    if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0)
      return std::stoll(name);
    REQUIRE_MESSAGE(columns_.count(name) == 1, "no column '" << name << "' in " << text_);
    return columns_.at(name);
  }

  /// The next word, at which `at_` stands afterwards.
  std::string word() {
    while (at_ < text_.size() && text_[at_] == ' ')
      ++at_;
    if (at_ == text_.size()) return {};
    const auto in_name = [&](std::size_t i) {
      return std::isalnum(static_cast<unsigned char>(text_[i])) != 0 || text_[i] == '_';
    };
    std::size_t end = at_ + 1;
    if (in_name(at_)) {
      while (end < text_.size() && in_name(end))
        ++end;
    } else if (text_.compare(at_, 2, "<>") == 0) {
      ++end;
    }
    return text_.substr(at_, end - at_);
  }
  bool take(const std::string& wanted) {
    if (word() != wanted) return false;
    at_ += wanted.size();
    return true;
  }

  const std::string& text_;
  const Columns& columns_;
  std::size_t at_ = 0;
};

struct PrintedRule {
  std::string constraint;
  std::string when;
};

/// The rules as --capabilities prints them; no text in them needs escapes.
std::vector<PrintedRule> printed_rules(const Profile& profile) {
  const std::string json = capabilities_json({cpu_platform()}, profile);
  std::vector<PrintedRule> rules;
  std::size_t at = 0;
  const auto next = [&](const std::string& key) {
    const std::string mark = "\"" + key + "\":\"";
    at = json.find(mark, at);
    if (at == std::string::npos) return std::string();
    at += mark.size();
    return json.substr(at, json.find('"', at) - at);
  };
  while (true) {
    PrintedRule rule;
    rule.constraint = next("constraint");
    if (at == std::string::npos) return rules;
    rule.when = next("when");
    rules.push_back(rule);
  }
}

struct Sample {
  Layout layout;
  ModelShape model;
};

/// Small numbers with many divisors and a few without.
Sample random_sample(std::mt19937& random) {
  const auto pick = [&](std::vector<i64> values) { return values[random() % values.size()]; };
  Sample s;
  s.model.heads = pick({1, 2, 4, 8, 6});
  s.model.kv_heads = pick({1, 2, 4, 3});
  s.model.hidden = pick({16, 32, 48, 24, 6, 10});
  s.model.ffn = pick({32, 64, 48, 30, 7});
  s.model.vocab = pick({64, 96, 100, 33});
  s.model.layers = pick({1, 2, 4, 8});
  s.model.seq_len = pick({8, 16, 12, 9});
  s.model.head_values = pick({0, 0, 0, 2, 3, 16});
  s.model.experts = pick({0, 0, 16, 12});
  s.model.experts_per_token = pick({1, 1, 2, 16, 17});
  s.model.expert_ffn = pick({32, 32, 8, 7, 0});
  s.model.dense_layers = pick({0, 0, 1, 2});
  s.layout.dp = pick({1, 2, 4, 6, 8});
  s.layout.tp = pick({1, 2, 4, 3});
  s.layout.pp = pick({1, 2, 4, 6});
  s.layout.cp = pick({1, 1, 2, 4});
  s.layout.cp_mode = static_cast<ContextMode>(pick({0, 0, 0, 1}));
  s.layout.ep = pick({1, 1, 1, 2, 8});
  s.layout.vpp = pick({1, 1, 2, 3});
  s.layout.schedule = static_cast<ScheduleKind>(pick({0, 0, 1, 2, 3}));
  s.layout.dp_replicate = pick({1, 1, 2, 4});
  s.layout.grad_accum = pick({1, 2, 3, 4, 8});
  s.layout.micro_batch = pick({1, 4, i64{1} << 23, i64{1} << 27});
  s.layout.zero = pick({0, 1, 2, 3});
  s.layout.sequence_parallel = random() % 2 == 0;
  s.layout.fp8 = static_cast<Scaling>(pick({0, 0, 1, 2}));
  return s;
}

Columns columns_of(const Sample& s) {
  const Layout& l = s.layout;
  const ModelShape& m = s.model;
  return {{"dtype", static_cast<i64>(l.fp8)}, {"dp", l.dp}, {"tp", l.tp}, {"pp", l.pp},
      {"cp", l.cp}, {"cp_mode", static_cast<i64>(l.cp_mode)}, {"ep", l.ep}, {"vpp", l.vpp},
      {"schedule", static_cast<i64>(l.schedule)}, {"dp_replicate", l.dp_replicate},
      {"grad_accum", l.grad_accum}, {"micro_batch", l.micro_batch}, {"zero", l.zero},
      {"sequence_parallel", l.sequence_parallel ? 1 : 0}, {"heads", m.heads},
      {"kv_heads", m.kv_heads}, {"hidden", m.hidden}, {"ffn", m.ffn}, {"vocab", m.vocab},
      {"head_dim", m.head_values}, {"experts", m.experts},
      {"experts_per_token", m.experts_per_token}, {"expert_ffn", m.expert_ffn},
      {"dense_layers", m.dense_layers}, {"layers", m.layers}, {"seq_len", m.seq_len}};
}

/// The first rule whose expression is true, as the runner names the first that it finds broken.
std::string first_true(const std::vector<PrintedRule>& rules, const Columns& columns) {
  for (const PrintedRule& rule : rules)
    if (Expression(rule.when, columns).value() != 0) return rule.constraint;
  return {};
}

}  // namespace

TEST_CASE("the printed expression of every rule refuses what its predicate refuses") {
  for (const Profile& profile : profiles()) {
    CAPTURE(profile.name);
    const std::vector<PrintedRule> rules = printed_rules(profile);
    REQUIRE(!rules.empty());
    std::mt19937 random(7);
    std::map<std::string, int> met;
    for (int i = 0; i < 400000; ++i) {
      const Sample s = random_sample(random);
      auto error = layout_refusal(s.layout, s.model);
      if (!error) error = profile_refusal(profile, s.layout);
      const std::string refused = error ? error->message.substr(0, error->message.find(": ")) : "";
      const std::string expected = first_true(rules, columns_of(s));
      REQUIRE(refused == expected);
      ++met[expected];
    }
    // A rule that no sample breaks first is not tested.
    for (const PrintedRule& rule : rules) {
      CAPTURE(rule.constraint);
      CHECK(met[rule.constraint] >= 20);
    }
    CHECK(met[""] >= 20);
  }
}
