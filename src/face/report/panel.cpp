// SPDX-License-Identifier: Apache-2.0
// The table of cells, and what the page shows of the chosen one beside it.
#include "answer/answer.hpp"
#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/grid.hpp"
#include "report/page.hpp"
#include "report/sections.hpp"
#include "show/cell_text.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::size_t most_ranked = 10;
constexpr std::size_t most_bars = 3;

std::string capitalised(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

/// Sentences on who won, and how sure it is.
std::string verdict_sentence(const ReportView& view, const CellAnswer& answer) {
  const auto* winner = answer.winner();
  const auto* second = answer.runner_up();
  if (winner == nullptr) return {};
  std::string text = "<p><b class=\"layout\">" + layout_html(winner->name) +
      "</b>: " + xml_escaped(amount_text(winner->tokens_per_s_per_gpu)) + " tokens/s/GPU. ";
  text += xml_escaped(capitalised(certainty_text(answer)));
  text += ".";
  if (second != nullptr)
    text += fmt::format(" Next: <span class=\"layout\">{}</span>.", layout_html(second->name));
  text += "</p>\n";
  const auto doubts = doubts_text(answer);
  if (!doubts.empty())
    text +=
        fmt::format("<p class=\"faint\">Doubts: {}.</p>\n", xml_escaped(without_options(doubts)));
  // A published table is not run again.
  if (!answer.settling.text.empty() && !view.is_imported())
    text += fmt::format("<p>{}.</p>\n", xml_escaped(capitalised(answer.settling.text)));
  if (!answer.mixed.empty())
    text += fmt::format("<p class=\"faint\">Ranked together: {}</p>\n", xml_escaped(answer.mixed));
  return text;
}

/// Bars that show where a layout's runs lie between the slowest and the fastest of the table.
class Reach {
 public:
  explicit Reach(const std::vector<AnsweredLayout>& layouts) {
    for (std::size_t i = 0; i < std::min(layouts.size(), most_ranked); ++i) {
      const auto [low, high] = ends(layouts[i]);
      low_ = i == 0 ? low : std::min(low_, low);
      high_ = i == 0 ? high : std::max(high_, high);
    }
  }
  [[nodiscard]] std::string bar(const AnsweredLayout& layout) const {
    const auto [low, high] = ends(layout);
    return fmt::format(
        "<div class=\"reach\"><i style=\"left:{:.1f}%;width:{:.1f}%\"></i><u "
        "style=\"left:{:.1f}%\"></u></div>",
        place(low), place(high) - place(low), place(layout.tokens_per_s_per_gpu));
  }

 private:
  static std::pair<double, double> ends(const AnsweredLayout& layout) {
    const double half = layout.half_width.value_or(layout.spread.value_or(0) / 2);
    return {layout.tokens_per_s_per_gpu * (1 - half), layout.tokens_per_s_per_gpu * (1 + half)};
  }
  [[nodiscard]] double place(double value) const {
    const double width = high_ - low_;
    return width > 0 ? std::clamp(3 + 94 * (value - low_) / width, 0.0, 100.0) : 50;
  }
  double low_ = 0;
  double high_ = 0;
};

std::string top_table(const ReportView& view, const CellAnswer& answer) {
  const Reach reach(answer.layouts);
  std::string out =
      "<h3>Fastest layouts</h3>\n<table class=\"top\"><thead><tr><th scope=\"col\">layout</th><th "
      "scope=\"col\" class=\"number\">tokens/s/<wbr>GPU</th><th scope=\"col\">interval</th><th "
      "scope=\"col\" class=\"number\">first leads by</th><th scope=\"col\">sure</th></tr></thead>\n"
      "<tbody>\n";
  const std::size_t count = std::min(answer.layouts.size(), most_ranked);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& layout = answer.layouts[i];
    const auto row = view.row_of(layout);
    const auto runs = counted(static_cast<std::int64_t>(layout.runs.size()), "run");
    std::string lead;
    std::string sure = runs;
    if (i > 0) {
      lead = percent_text(layout.verdict.share);
      const auto word = short_form(layout.verdict);
      if (word != "1 run")
        sure = fmt::format("{}, {}", word == "faster" ? "slower" : std::string(word), runs);
    }
    const auto name = row && view.with_trials
        ? fmt::format("<a href=\"#trial={}\">{}</a>", xml_escaped(view.trials[*row].trial),
              layout_html(layout.name))
        : layout_html(layout.name);
    out += fmt::format(
        "<tr><td class=\"layout\">{}</td><td class=\"number\">{}</td><td>{}</td><td "
        "class=\"number\">{}</td><td>{}</td></tr>\n",
        name, xml_escaped(amount_text(layout.tokens_per_s_per_gpu)), reach.bar(layout),
        xml_escaped(lead), xml_escaped(sure));
  }
  out += "</tbody></table>\n";
  if (answer.layouts.size() > count)
    out += fmt::format("<p class=\"faint\">and {} more layouts; see all trials.</p>\n",
        answer.layouts.size() - count);
  return out;
}

/// Bars of one scale, parts of one name in one colour, and what the colours mean.
class StackedBars {
 public:
  StackedBars(std::string column, std::optional<double> limit)
      : column_(std::move(column)), limit_(limit), most_(limit.value_or(0)) {}

  void add(std::string name, std::vector<std::pair<std::string, double>> parts) {
    double sum = 0;
    for (const auto& [part, value] : parts)
      sum += std::max(value, 0.0);
    // Thinner than a line, and its number would be 0.00131 ms.
    constexpr double least_share = 0.001;
    std::erase_if(parts, [sum](const auto& part) { return part.second <= least_share * sum; });
    if (parts.empty()) return;
    for (auto& [part, value] : parts) {
      std::replace(part.begin(), part.end(), '_', ' ');
      if (std::find(names_.begin(), names_.end(), part) == names_.end()) names_.push_back(part);
    }
    most_ = std::max(most_, sum);
    bars_.push_back({std::move(name), std::move(parts), sum});
  }

  [[nodiscard]] std::string html(std::string_view heading, std::string_view caption) const {
    if (bars_.empty()) return {};
    std::string out = fmt::format("<h3>{}</h3>\n<div class=\"bars\">\n", xml_escaped(heading));
    for (const auto& bar : bars_) {
      out += fmt::format(
          "<div class=\"name\"><span class=\"layout\">{}</span><span>{}</span></div><div "
          "class=\"stack\" role=\"img\" aria-label=\"{}\">",
          layout_html(bar.name), xml_escaped(humanised(column_, bar.sum)), xml_escaped(words(bar)));
      for (const auto& [part, value] : bar.parts)
        out += fmt::format("<i class=\"k{}\" style=\"width:{:.2f}%\" title=\"{} {}\"></i>",
            colour(part), 100 * value / most_, xml_escaped(part),
            xml_escaped(humanised(column_, value)));
      if (limit_)
        out += fmt::format("<u style=\"left:{:.2f}%\"></u>", std::min(100 * *limit_ / most_, 99.6));
      out += "</div>\n";
    }
    out += "<ul class=\"keys\">";
    for (const auto& name : names_)
      out += fmt::format("<li><span class=\"key k{}\"></span>{}{}</li>", colour(name),
          xml_escaped(name), xml_escaped(of_first(name)));
    if (limit_)
      out += fmt::format(
          "<li>dashed: memory of a GPU, {}</li>", xml_escaped(humanised(column_, *limit_)));
    return out + fmt::format("</ul>\n<p class=\"faint\">{}</p></div>\n", xml_escaped(caption));
  }

 private:
  struct Bar {
    std::string name;
    std::vector<std::pair<std::string, double>> parts;
    double sum = 0;
  };
  [[nodiscard]] std::size_t colour(const std::string& name) const {
    constexpr std::size_t colours = 8;
    return static_cast<std::size_t>(
               std::find(names_.begin(), names_.end(), name) - names_.begin()) %
        colours;
  }
  [[nodiscard]] std::string words(const Bar& bar) const {
    std::string text = bar.name + ":";
    for (const auto& [part, value] : bar.parts)
      text += fmt::format(" {} {};", part, humanised(column_, value));
    return text;
  }
  /// The legend has the numbers of the first bar.
  [[nodiscard]] std::string of_first(const std::string& name) const {
    for (const auto& [part, value] : bars_.front().parts) {
      if (part == name) return " " + humanised(column_, value);
    }
    return {};
  }

  std::string column_;
  std::optional<double> limit_;
  double most_ = 0;
  std::vector<std::string> names_;
  std::vector<Bar> bars_;
};

std::string breakdown(const ReportView& view, const CellAnswer& answer) {
  const auto limit = view.input.memory_limit();
  StackedBars steps("train_step_ms", {});
  StackedBars memory(
      "peak_memory_bytes", limit ? std::optional(static_cast<double>(*limit)) : std::nullopt);
  for (std::size_t i = 0; i < std::min(answer.layouts.size(), most_bars); ++i) {
    const auto& layout = answer.layouts[i];
    const auto row = view.row_of(layout);
    if (!row) continue;
    steps.add(layout.name, key_numbers(view.trials[*row].phases));
    memory.add(layout.name, key_numbers(view.trials[*row].memory_classes));
  }
  return steps.html("Where a train step goes",
             "Mean over the ranks; forward and backward contain their waits for tensor "
             "parallelism. Numbers: the first layout.") +
      memory.html("Where memory goes",
          "Rank with the largest peak. Parts peak at different times, so they add up to more than "
          "the total.");
}

std::string outcome_counts(const ReportView& view, const PageCell& cell) {
  std::map<std::string, std::int64_t> outcomes;
  for (const auto row : cell.trials) {
    const auto& trial = view.trials[row];
    ++outcomes[outcome_words(trial.outcome.empty() ? trial.state : trial.outcome)];
  }
  const auto counts = join_texts(
      outcomes, ", ", [](const auto& one) { return fmt::format("{} {}", one.second, one.first); });
  return fmt::format(
      "{}: {}.", counted(static_cast<std::int64_t>(cell.trials.size()), "trial"), counts);
}

/// `35 % MFU`, `12.1 GiB free`, of the run that stands for the cell.
std::vector<std::string> more_of_cell(const ReportView& view, const CellAnswer& answer) {
  const auto* winner = answer.winner();
  const auto row = winner != nullptr ? view.row_of(*winner) : std::nullopt;
  if (!row) return {};
  std::vector<std::string> parts;
  if (const auto& mfu = view.trials[*row].mfu)
    parts.push_back(fmt::format("{:.0f} % MFU", *mfu * 100));
  const auto limit = view.input.memory_limit();
  const auto& peak = view.trials[*row].peak_memory_bytes;
  if (limit && peak)
    parts.push_back(
        bytes_text(static_cast<double>(std::max<std::int64_t>(*limit - *peak, 0))) + " free");
  return parts;
}

/// The cell that is shown first: of the largest model that was measured the largest size, which is
/// what readers ask about; if all are equal, the one with most layouts.
const PageCell* first_shown(const ReportView& view) {
  const PageCell* most = nullptr;
  std::tuple<std::int64_t, std::int64_t, std::size_t> largest{};
  for (const auto& cell : view.cells) {
    if (cell.answer.layouts.empty()) continue;
    const auto& trial = view.trials[cell.trials.front()];
    const std::tuple size(trial.n_params, trial.gpus, cell.answer.layouts.size());
    if (most == nullptr || size > largest) {
      most = &cell;
      largest = size;
    }
  }
  return most != nullptr ? most : view.cells.empty() ? nullptr : &view.cells.front();
}

std::string gpus_of_column(const ReportView& view, const std::string& label) {
  if (view.heatmap().column_name != "nodes") return {};
  for (const auto& cell : view.cells) {
    if (view.heatmap().columns[cell.column] == label)
      return fmt::format("{} GPUs", view.trials[cell.trials.front()].gpus);
  }
  return {};
}

}  // namespace

std::string cell_panel(const ReportView& view, const PageCell& cell) {
  const auto& heatmap = view.heatmap();
  const auto& answer = cell.answer;
  std::string out =
      fmt::format("<h2>{}</h2>\n", xml_escaped(place_of(heatmap, cell.row, cell.column)));
  if (answer.layouts.empty()) {
    const auto& why = heatmap.cells[cell.row][cell.column].why;
    return out +
        fmt::format("<p>Nothing is measured. {}</p>\n", xml_escaped(outcome_counts(view, cell))) +
        (why.empty() ? "" : fmt::format("<p class=\"faint\">{}</p>\n", xml_escaped(why)));
  }
  out += verdict_sentence(view, answer);
  out += top_table(view, answer);
  out += breakdown(view, answer);
  return out + fmt::format("<p class=\"faint\">{}</p>\n", xml_escaped(outcome_counts(view, cell)));
}

std::string answer_section(const ReportView& view) {
  constexpr std::size_t most_panels = 80;
  const auto* first = first_shown(view);
  const auto& heatmap = view.heatmap();
  GridWords words;
  const auto answer_at = [&](std::size_t row, std::size_t column) -> const CellAnswer* {
    for (const auto& cell : view.cells) {
      if (cell.row == row && cell.column == column) return &cell.answer;
    }
    return nullptr;
  };
  words.answer = answer_at;
  words.more = [&](std::size_t row, std::size_t column) {
    const auto* answer = answer_at(row, column);
    return answer == nullptr ? std::vector<std::string>() : more_of_cell(view, *answer);
  };
  words.below_column = [&](const std::string& label) { return gpus_of_column(view, label); };
  if (first != nullptr) words.chosen = cell_key(first->row, first->column);
  std::string body = "<div class=\"two\"><div>\n" + grid(heatmap, words) +
      (view.with_trials ? memory_chart(view) : std::string()) +
      "</div>\n<aside id=\"panels\" aria-live=\"polite\" aria-label=\"Details of the chosen cell\" "
      "tabindex=\"0\">\n";
  std::vector<const PageCell*> order;
  for (const auto& cell : view.cells)
    order.push_back(&cell);
  std::stable_sort(order.begin(), order.end(), [first](const auto* a, const auto* b) {
    const auto worth = [first](const PageCell* one) {
      return std::pair(one == first, one->answer.layouts.size());
    };
    return worth(a) > worth(b);
  });
  for (std::size_t i = 0; i < std::min(order.size(), most_panels); ++i) {
    body += fmt::format("<div class=\"panel\" id=\"panel-{}\"{}>\n{}</div>\n",
        cell_key(order[i]->row, order[i]->column), order[i] == first ? "" : " hidden",
        cell_panel(view, *order[i]));
  }
  return "<section id=\"answer\" aria-label=\"Answer\">\n" + body +
      "<p id=\"no-panel\" class=\"faint\" hidden>This cell has no details on the page: see all "
      "trials.</p></aside></div>\n</section>\n";
}

}  // namespace shardsweep
