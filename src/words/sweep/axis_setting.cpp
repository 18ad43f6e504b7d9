// SPDX-License-Identifier: Apache-2.0
#include "sweep/axis_setting.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

tl::unexpected<Fault> refuse(std::string what) {
  return fault(FaultKind::invalid_input, std::move(what));
}

const AxisInfo* axis_called(std::string_view name) {
  if (const auto* axis = find_axis(name)) return axis;
  for (const auto& axis : axes()) {
    if (axis.of_layout() && axis.short_name == name && !name.empty()) return &axis;
  }
  return nullptr;
}

Result<const AxisInfo*> layout_axis(std::string_view name) {
  const auto* axis = axis_called(name);
  if (axis != nullptr && axis->of_layout()) return axis;
  if (axis != nullptr)
    return refuse(
        fmt::format("'{}' is not part of a layout; set it by its own option", axis->name));
  std::vector<std::string_view> names;
  for (const auto& one : axes()) {
    if (one.of_layout()) names.push_back(one.name);
  }
  if (!nearest(name, names).empty())
    return refuse(
        fmt::format("no axis is called {}{}", in_quotes(name), did_you_mean(name, names)));
  return refuse(fmt::format(
      "no axis of a layout is called {}; there are: {}", in_quotes(name), fmt::join(names, ", ")));
}

/// A piece of a label: tp2, full, sp, no-overlap.
std::optional<std::pair<const AxisInfo*, std::int64_t>> of_label(std::string_view piece) {
  const bool off = piece.starts_with("no-");
  const auto name = off ? piece.substr(3) : piece;
  for (const auto& axis : axes()) {
    if (!axis.of_layout()) continue;
    if (axis.kind == AxisKind::toggle && axis.short_name == name)
      return std::pair(&axis, std::int64_t{off ? 0 : 1});
    if (off) continue;
    if (axis.kind == AxisKind::word && piece.starts_with(axis.short_name)) {
      const auto word =
          std::find(axis.words.begin(), axis.words.end(), piece.substr(axis.short_name.size()));
      // Several axes have a word for "none"; a label has no default.
      if (word != axis.words.end() && word != axis.words.begin())
        return std::pair(&axis, std::int64_t{word - axis.words.begin()});
    }
    if (axis.kind == AxisKind::integer && !axis.short_name.empty() &&
        piece.starts_with(axis.short_name)) {
      if (const auto value = number_from<std::int64_t>(piece.substr(axis.short_name.size())))
        return std::pair(&axis, *value);
    }
  }
  return std::nullopt;
}

Result<AxisValues> with_value(const AxisInfo& axis, std::string_view text) {
  SHARDSWEEP_ASSIGN(const auto value, axis_value_from(axis, text));
  return AxisValues{&axis, false, {value}};
}

/// An option of a trainer's command line as the axis's other name: --tensor-model-parallel-size.
std::string without_dashes(std::string piece) {
  if (!piece.starts_with("--")) return piece;
  piece.erase(0, 2);
  std::replace(piece.begin(),
      piece.begin() + static_cast<std::ptrdiff_t>(std::min(piece.find('='), piece.size())), '-',
      '_');
  return piece;
}

/// The words of a layout, however it is written: 'dp 4 × tp 2, ZeRO 1', 'dp4 tp2 z1', 'tp=2',
/// '--tensor-model-parallel-size 2'.
std::vector<std::string> pieces_of(std::string_view text) {
  constexpr std::string_view times = "×";
  std::vector<std::string> pieces;
  std::string piece;
  const auto end = [&] {
    if (!piece.empty()) pieces.push_back(without_dashes(std::move(piece)));
    piece.clear();
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (text.substr(at).starts_with(times)) {
      end();
      at += times.size() - 1;
    } else if (c == ' ' || c == ',' || c == '\t' || c == '\n') {
      end();
    } else {
      piece += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  end();
  return pieces;
}

/// Settings as they come, each of one or more pieces.
class SettingReader {
 public:
  explicit SettingReader(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}

  [[nodiscard]] bool at_end() const { return at_ >= pieces_.size(); }

  Result<AxisValues> next() {
    const std::string_view piece = pieces_[at_++];
    if (const auto equals = piece.find('='); equals != std::string_view::npos) {
      SHARDSWEEP_ASSIGN(const AxisInfo* axis, layout_axis(piece.substr(0, equals)));
      return with_value(*axis, piece.substr(equals + 1));
    }
    if (const auto found = of_label(piece)) {
      // 'full recompute' is 'full'.
      if (found->first->kind == AxisKind::word && !at_end() && pieces_[at_] == found->first->name &&
          !is_value(at_ + 1, *found->first))
        ++at_;
      return with_value(*found->first, axis_text(*found->first, found->second));
    }
    return in_words(piece);
  }

 private:
  [[nodiscard]] bool is_value(std::size_t at, const AxisInfo& axis) const {
    return at < pieces_.size() && axis_value_from(axis, pieces_[at]).has_value();
  }

  /// 'tp 8', 'micro batch 2', 'recompute full', 'sequence parallel', 'no overlap'.
  Result<AxisValues> in_words(std::string_view first) {
    const bool off = first == "no" && !at_end();
    std::string name(off ? std::string_view(pieces_[at_++]) : first);
    const auto* axis = axis_called(name);
    while (axis == nullptr && !at_end()) {
      name += "_" + pieces_[at_++];
      axis = axis_called(name);
    }
    if (axis == nullptr || !axis->of_layout())
      return refuse(fmt::format(
          "{} does not set an axis; write for example tp=4 or recompute=full", in_quotes(first)));
    if (axis->kind == AxisKind::toggle && !is_value(at_, *axis))
      return AxisValues{axis, false, {off ? 0 : 1}};
    if (at_end())
      return refuse(fmt::format("{} has no value; write for example {}={}", axis->name, axis->name,
          axis_text(*axis, axis->default_value)));
    return with_value(*axis, pieces_[at_++]);
  }

  std::vector<std::string> pieces_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::int64_t> axis_value_from(const AxisInfo& axis, std::string_view text) {
  if (axis.kind == AxisKind::word) {
    for (const auto& synonym : word_synonyms(axis)) {
      if (synonym.text == text) text = synonym.word;
    }
    const auto word = std::find(axis.words.begin(), axis.words.end(), text);
    if (word != axis.words.end()) return word - axis.words.begin();
    return refuse(fmt::format(
        "{} is not {}; it is one of: {}", axis.name, in_quotes(text), fmt::join(axis.words, ", ")));
  }
  if (axis.kind == AxisKind::toggle && (text == "true" || text == "false"))
    return text == "true" ? 1 : 0;
  const auto value = number_from<std::int64_t>(text);
  if (!value || *value < axis.minimum || *value > axis.maximum) {
    return refuse(axis.kind == AxisKind::toggle
            ? fmt::format("{} is true or false, not {}", axis.name, in_quotes(text))
            : fmt::format("{} is a whole number from {} to {}, not {}", axis.name, axis.minimum,
                  axis.maximum, in_quotes(text)));
  }
  return *value;
}

Result<std::vector<AxisValues>> read_layout_settings(std::string_view text) {
  std::vector<AxisValues> all;
  SettingReader reader(pieces_of(text));
  while (!reader.at_end()) {
    SHARDSWEEP_ASSIGN(auto setting, reader.next());
    const bool twice = std::any_of(
        all.begin(), all.end(), [&](const AxisValues& one) { return one.axis == setting.axis; });
    if (twice) return refuse(fmt::format("{} is set twice", setting.axis->name));
    all.push_back(std::move(setting));
  }
  return all;
}

namespace {

/// Places in a layout's text are 1, 2, 3 and so on, each once.
constexpr bool places_are_a_row() {
  std::int32_t most = 0;
  for (const auto& axis : axis_table)
    most = std::max(most, axis.place);
  for (std::int32_t place = 1; place <= most; ++place) {
    const auto here = std::count_if(axis_table.begin(), axis_table.end(),
        [place](const auto& axis) { return axis.place == place; });
    if (here != 1) return false;
  }
  return true;
}
static_assert(places_are_a_row());

}  // namespace

std::span<const AxisInfo> axes() {
  return axis_table;
}

const AxisInfo* find_axis(std::string_view name_or_alias) {
  for (const auto& axis : axis_table) {
    if (axis.name == name_or_alias) return &axis;
    for (const auto alias : axis.aliases) {
      if (alias == name_or_alias) return &axis;
    }
  }
  return nullptr;
}

std::span<const WordSynonym> word_synonyms(const AxisInfo& axis) {
  if (axis.name == "rank_order") return axis_rows::rank_order_synonyms;
  return {};
}

std::string axis_text(const AxisInfo& axis, std::int64_t value) {
  switch (axis.kind) {
    case AxisKind::word:
      return std::string(axis.words[static_cast<std::size_t>(value)]);
    case AxisKind::toggle:
      return value != 0 ? "true" : "false";
    case AxisKind::integer:
    case AxisKind::model:
      break;
  }
  return std::to_string(value);
}

}  // namespace shardsweep
