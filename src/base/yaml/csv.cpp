// SPDX-License-Identifier: Apache-2.0
#include "yaml/csv.hpp"

#include "yaml/readers.hpp"

#include <algorithm>
#include <utility>

namespace shardsweep::config {
namespace {

class CsvParser {
 public:
  CsvParser(const Source& source, const CsvLimits& limits)
      : source_(source), text_(source.text()), limits_(limits) {}

  Result<std::vector<std::vector<YamlNode>>> parse() {
    std::vector<std::vector<YamlNode>> rows;
    while (at_ < text_.size()) {
      if (skip_line_end()) continue;
      SHARDSWEEP_ASSIGN(auto row, parse_row());
      if (!rows.empty() && row.size() != rows.front().size()) {
        return refuse(row.front(), "this row has {} cells, but the header has {}", row.size(),
            rows.front().size());
      }
      cells_ += row.size();
      if (cells_ > limits_.cells) {
        return refuse(row.front(), "the table has more than {} cells", limits_.cells);
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  Result<std::vector<YamlNode>> parse_row() {
    std::vector<YamlNode> row;
    while (true) {
      SHARDSWEEP_ASSIGN(row.emplace_back(), parse_cell());
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      skip_line_end();
      return row;
    }
  }

  Result<YamlNode> parse_cell() {
    YamlNode cell;
    cell.source = &source_;
    cell.line = line_;
    cell.column = static_cast<int>(at_ - line_start_) + 1;
    if (at_ < text_.size() && text_[at_] == '"') {
      SHARDSWEEP_TRY(parse_quoted(cell));
    } else {
      const auto end = std::min(text_.find_first_of(",\"\r\n", at_), text_.size());
      cell.text = text_.substr(at_, end - at_);
      at_ = end;
      if (at_ < text_.size() && text_[at_] == '"')
        return stray("a quote is inside an unquoted cell; put the whole cell in quotes");
      cell.kind = cell.text.empty() ? YamlNode::Kind::null : YamlNode::Kind::scalar;
    }
    if (cell.text.size() > most_scalar_bytes)
      return refuse(cell, "this cell is longer than 64 KiB");
    return cell;
  }

  Result<void> parse_quoted(YamlNode& cell) {
    cell.kind = YamlNode::Kind::scalar;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_ >= text_.size() || text_.find_first_of(",\r\n", at_) == at_) return {};
        if (text_[at_] != '"') return stray("text follows a closing quote; write a comma there");
      }
      cell.text += text_[at_];
      if (text_[at_] == '\n') start_line(at_ + 1);
    }
    return refuse(cell, "this quote is never closed");
  }

  /// Past one line's end, if there is one here. A lone carriage return ends a line too.
  bool skip_line_end() {
    if (at_ >= text_.size() || (text_[at_] != '\n' && text_[at_] != '\r')) return false;
    const bool pair = text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n';
    at_ += pair ? 2 : 1;
    if (text_[at_ - 1] == '\n') start_line(at_);
    return true;
  }

  void start_line(std::size_t at) {
    ++line_;
    line_start_ = at;
  }

  [[nodiscard]] tl::unexpected<Fault> stray(std::string_view what) const {
    return tl::unexpected(source_.fault_at(line_, static_cast<int>(at_ - line_start_) + 1, what));
  }

  const Source& source_;
  const std::string& text_;
  CsvLimits limits_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t line_start_ = 0;
  std::size_t cells_ = 0;
};

}  // namespace

Result<std::vector<std::vector<YamlNode>>> parse_csv(
    const Source& source, const CsvLimits& limits) {
  SHARDSWEEP_TRY(check_text(source, limits.bytes));
  return CsvParser(source, limits).parse();
}

}  // namespace shardsweep::config
