// SPDX-License-Identifier: Apache-2.0
#include "picture/svg.hpp"

#include "show/cell_text.hpp"
#include "show/styled_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::array<std::string_view, 6> ink_classes{
    "none", "text", "faint", "line", "paper", "accent"};

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

/// 12.5, 7: no digits that no one sees.
std::string length(double value) {
  auto text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

class SvgWriter {
 public:
  explicit SvgWriter(SvgUse use) : use_(use) {}

  std::string take(const Drawing& drawing) {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"'DejaVu Sans',Verdana,sans-serif\" role=\"{2}\" "
        "aria-label=\"{3}\">\n",
        length(drawing.width), length(drawing.height), use_ == SvgUse::page ? "group" : "img",
        xml_escaped(drawing.title));
    if (use_ == SvgUse::file) {
      put("<title>{}</title>\n<desc>{}</desc>\n", xml_escaped(drawing.title),
          xml_escaped(drawing.description));
      write(Box{0, 0, drawing.width, drawing.height, {Ink::paper}, {}, false});
    }
    for (const auto& group : drawing.groups)
      write(group);
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <class... Values>
  void put(fmt::format_string<Values...> text, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Values>(values)...);
  }

  void write(const Group& group) {
    const bool wrapped = !group.key.empty() || !group.title.empty();
    if (wrapped) {
      put("<g");
      if (use_ == SvgUse::page && !group.key.empty())
        put(" data-key=\"{}\"", xml_escaped(group.key));
      // A group with a key is operated and has a name of its own; the title is the name of others.
      if (!group.title.empty() && !group.key.empty()) {
        put(" role=\"img\" aria-label=\"{0}\"><title>{0}</title>", xml_escaped(group.title));
      } else if (!group.title.empty()) {
        put(" role=\"img\"><title>{}</title>", xml_escaped(group.title));
      } else {
        put(">");
      }
    }
    for (const auto& shape : group.shapes)
      std::visit([this](const auto& one) { write(one); }, shape);
    out_ += wrapped ? "</g>\n" : "\n";
  }

  /// ` fill="#fff"`; on a page an ink is a class of the page's style.
  void paint(std::string_view property, const Paint& paint) {
    if (paint.colour) {
      put(" {}=\"{}\"", property, hex(*paint.colour));
    } else if (paint.ink == Ink::none) {
      put(" {}=\"none\"", property);
    } else if (use_ == SvgUse::page) {
      put(" {}=\"var(--{})\"", property, ink_classes[static_cast<std::size_t>(paint.ink)]);
    } else {
      put(" {}=\"{}\"", property, hex(paper_colour(paint.ink)));
    }
  }

  void write(const Box& box) {
    put("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", length(box.x), length(box.y),
        length(box.width), length(box.height));
    paint("fill", box.fill);
    if (box.stroke.ink != Ink::none || box.stroke.colour) paint("stroke", box.stroke);
    out_ += "/>";
    if (box.hatched) hatch(box);
  }

  /// Lines of 45 degrees, cut at the box: no pattern that a page would have to name.
  void hatch(const Box& box) {
    put("<path d=\"");
    constexpr double step = 8;
    for (double at = step; at < box.width + box.height; at += step) {
      const double x1 = std::min(at, box.width);
      const double y1 = at - x1;
      const double y2 = std::min(at, box.height);
      const double x2 = at - y2;
      put("M{} {}L{} {}", length(box.x + x1), length(box.y + y1), length(box.x + x2),
          length(box.y + y2));
    }
    out_ += "\" stroke-width=\"0.7\"";
    paint("stroke", {Ink::line});
    out_ += "/>";
  }

  void write(const Stroke& stroke) {
    if (stroke.points.empty()) return;
    put("<polyline points=\"");
    for (const auto& point : stroke.points)
      put("{},{} ", length(point.x), length(point.y));
    out_.pop_back();
    put("\" fill=\"none\" stroke-width=\"{}\"", length(stroke.width));
    if (stroke.dashed) put(" stroke-dasharray=\"4 3\"");
    paint("stroke", stroke.paint);
    out_ += "/>";
  }

  void write(const Dot& dot) {
    put("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"", length(dot.x), length(dot.y), length(dot.radius));
    paint("fill", dot.fill);
    if (dot.stroke.ink != Ink::none || dot.stroke.colour) paint("stroke", dot.stroke);
    out_ += "/>";
  }

  /// Lines of no length with round ends: a few bytes each.
  void write(const Dots& dots) {
    if (dots.places.empty()) return;
    out_ += "<path d=\"";
    for (const auto& place : dots.places)
      put("M{:.0f} {:.0f}h0", place.x, place.y);
    put("\" fill=\"none\" stroke-linecap=\"round\" stroke-width=\"{}\"", length(2 * dots.radius));
    paint("stroke", dots.fill);
    out_ += "/>";
  }

  void write(const Label& label) {
    constexpr std::array<std::string_view, 3> anchors{"start", "middle", "end"};
    put("<text x=\"{}\" y=\"{}\" font-size=\"{}\"", length(label.x), length(label.y),
        length(label.size));
    if (label.anchor != Anchor::start)
      put(" text-anchor=\"{}\"", anchors[static_cast<std::size_t>(label.anchor)]);
    if (label.bold) put(" font-weight=\"bold\"");
    paint("fill", label.fill);
    put(">{}</text>", xml_escaped(label.text));
  }

  SvgUse use_;
  std::string out_;
};

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string xml_escaped_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    out += xml_escaped(text.substr(0, end));
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Colour paper_colour(Ink ink) {
  switch (ink) {
    case Ink::paper:
      return {255, 255, 255};
    case Ink::faint:
      return {0x59, 0x59, 0x59};
    case Ink::line:
      return {0xb0, 0xb0, 0xb0};
    case Ink::accent:
      return {0xa8, 0x32, 0x00};
    case Ink::none:
    case Ink::text:
      break;
  }
  return {0x11, 0x11, 0x11};
}

std::string svg_text(const Drawing& drawing, SvgUse use) {
  return SvgWriter(use).take(drawing);
}

namespace {

constexpr double mean_advance = 0.62;  ///< share of the size, per column

}  // namespace

double text_width(std::string_view text, double size) {
  return static_cast<double>(width_of(printable(text))) * size * mean_advance;
}

std::string fitting_text(std::string_view text, double size, double width) {
  const auto columns = static_cast<std::size_t>(width / (size * mean_advance));
  return cut_to(text, columns > 1 ? columns : 1, true);
}

}  // namespace shardsweep
