// SPDX-License-Identifier: Apache-2.0
#include "text/expression.hpp"
#include "text/placeholders.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace shardsweep;

namespace {

const Placeholders of_point{{"tp", "4"}, {"cp", "1"}, {"micro_batch", "2"}, {"seq_len", "4096"},
    {"zero", "2"}, {"recompute", "full"}, {"overlap", "true"}, {"attempt_dir", "/a/b"},
    {"sequence_parallel", "false"}};
const std::vector<std::string_view> known_names{"tp", "cp", "micro_batch", "seq_len", "zero",
    "overlap", "recompute", "attempt_dir", "sequence_parallel", "rank"};

std::string at_point(std::string_view from) {
  return filled(from, of_point, DoubleBraces::make_single);
}
std::string mistake(std::string_view from) {
  if (const auto checked = check_placeholders(from, known_names); !checked)
    return checked.error().what;
  const auto checked = check_computed(from, of_point);
  return checked ? "" : checked.error().what;
}

}  // namespace

TEST_CASE("placeholders compute") {
  CHECK(at_point("{micro_batch*seq_len}") == "8192");
  CHECK(at_point("--tokens={micro_batch * seq_len + 1}!") == "--tokens=8193!");
  CHECK(at_point("{tp>1 or cp>1?1:32}") == "1");
  CHECK(at_point("{cp>1?1:32}") == "32");
  CHECK(at_point("{(tp+1)*2}") == "10");
  CHECK(at_point("{2*tp}") == "8");
  CHECK(at_point("{not tp>1}") == "0");
  CHECK(at_point("{tp=4 and not zero=1}") == "1");
  CHECK(at_point("{recompute='full'?on:off}") == "on");
  CHECK(at_point("{recompute=full?on:off}") == "on");
  CHECK(at_point("{overlap?true:false} {sequence_parallel?true:false}") == "true false");
  CHECK(at_point("{overlap=1?a:b} {overlap and tp>2?a:b}") == "b a");
  CHECK(at_point("{tp>1?--tp={tp}:--none}") == "--tp=4");
  CHECK(at_point("a{tp>8?b}c") == "ac");
  CHECK(at_point("{tp%3}{tp/3}{-1+tp}") == "11{-1+tp}");
  CHECK(at_point("{{tp*2}} {{tp>1?a:b}}") == "{tp*2} {tp>1?a:b}");
}

TEST_CASE("a conditional word of a command line is there, another one, or not") {
  const auto words = [](const char* word) {
    return filled_words({"x", word}, of_point, DoubleBraces::make_single);
  };
  using Words = std::vector<std::string>;
  CHECK(words("{tp>1?--tp={tp}}") == Words{"x", "--tp=4"});
  CHECK(words("{tp>8?--tp={tp}}") == Words{"x"});
  CHECK(words("{tp>8?--many:--few}") == Words{"x", "--few"});
}

TEST_CASE("texts of other languages stay as they are") {
  for (const char* other : {R"({"a": 1, "b": {"c": [1, 2]}})", "{a: 1, tp: 2}", "${tp/4/8}",
           "${x%y}", "{x*2}", "awk '{s+=$1} END {print s/NR}'", "f'{value:>8}'", "{ tp*2 }", "{}",
           "{%- if tp %}", "if (a) {\n  tp=2;\n}"}) {
    CHECK(at_point(other) == other);
    CHECK_MESSAGE(mistake(other).empty(), other);
  }
}

TEST_CASE("what only a rank knows waits for it, with all else put in") {
  CHECK(at_point("{rank%tp}") == "{rank%4}");
  CHECK(at_point("{rank=0?--lead={tp}}") == "{rank=0?--lead=4}");
  CHECK(at_point("{rank<tp and recompute='full'?a:{tp}}") == "{rank<4 and 'full'='full'?a:4}");
  CHECK(filled("{rank%4}", {{"rank", "7"}}, DoubleBraces::make_single) == "3");
}

TEST_CASE("a mistake is told with its place") {
  const std::vector<std::pair<const char*, const char*>> mistakes{
      {"{tp*}", "something is missing after 'tp*'"}, {"{tp**2}", "'*' is not expected after 'tp*'"},
      {"{tp+*2}", "'*' is not expected after 'tp+'"}, {"{tp 2+3}", ""},
      {"{tp>1 or?1:2}", "something is missing after 'tp>1 or'"},
      {"{tp>1 and or tp?1:2}", "'or' is not expected after 'tp>1 and '"},
      {"{(tp+1}", "a ')' is missing after '(tp+1'"},
      {"{tp+1)}", "')' is not expected after 'tp+1'"},
      {"{tp>=}", "something is missing after 'tp>='"},
      {"{tp=>1?a:b}", "'>' is not expected after 'tp='"},
      {"{micro_bach*seq_len}", "unknown name 'micro_bach', did you mean 'micro_batch'?"},
      {"{tp*x}", "unknown name 'x'"}, {"{tp*seq_length}", "unknown name 'seq_length'"},
      {"{tp*1.5}", "only whole numbers are allowed, after 'tp*1'"},
      {"{tp*99999999999999999999}", "'99999999999999999999' does not fit into a 64-bit integer"},
      {"{tp*2x}", "'2x' does not fit into a 64-bit integer"}, {"{max(tp,cp)}", ""},
      {"{tp*max(cp,2)}", "functions such as 'max' are not supported"}, {"{tp & 1}", ""},
      {"{tp*1 & 1}", "'&' is not expected after 'tp*1 '"},
      {"{tp!cp}", "'!' is not expected after 'tp'"},
      {"{not tp not}", "'not' is not expected after 'not tp '"}, {"{recompute='full?a:b}", ""},
      {"{recompute==full?a:b}", "unknown name 'full'"}, {"{tp/0}", "4 / 0 has no value"},
      {"{tp%(cp-1)}", "4 % 0 has no value"}, {"{tp*9223372036854775807}", "is too large"},
      {"{recompute*2}", "'full' is not a number, and '*' needs one"},
      {"{recompute>2}", "compares a word with a number"},
      {"{attempt_dir+1}", "'/a/b' is not a number"},
      {"{not recompute}", "'full' is not a number, and 'not' needs one"},
      {"{tp>1?a:b:c}", "more than one ':'"},
      {"{tp>1?{micro_batc}:b}", "unknown placeholder {micro_batc}"},
      {"{tp>1?{micro_batch*}:b}", "something is missing"},
      {"{micro_batc?a:b}", "unknown placeholder {micro_batc}"}};
  for (const auto& [wrong, words] : mistakes) {
    const std::string said = mistake(wrong);
    CHECK_MESSAGE(said.find(words) != std::string::npos, wrong, " said: ", said);
    CHECK_MESSAGE((said.empty() == (*words == '\0')), wrong, " said: ", said);
  }
  CHECK(mistake("x{tp*}y") ==
      "placeholder {tp*}: something is missing after 'tp*'. Write {{tp*}} for the text "
      "itself.");
}

TEST_CASE("expressions are bounded") {
  CHECK(mistake("{tp*" + std::string(100, '(') + "1" + std::string(100, ')') + "}")
            .find("too deeply") != std::string::npos);
  std::string longest = "{tp";
  for (int i = 0; i < 300; ++i)
    longest += "+1";
  CHECK(mistake(longest + "}").find("602 bytes") != std::string::npos);
}
