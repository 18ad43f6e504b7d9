// SPDX-License-Identifier: Apache-2.0
// A picture as values: what an SVG file and a PNG file are both made of. Lengths are points, y
// grows downwards.
//
// Decision: SVG and PNG draw the same list of shapes, and the page's table has the same eight
// colours (share_steps). An ink is a role, so that a dark screen has other colours than paper.
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace shardsweep {

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  friend bool operator==(const Colour&, const Colour&) = default;
};

/// A colour by its role: a dark page has other ones than paper.
enum class Ink : std::uint8_t { none, text, faint, line, paper, accent };

/// A colour of its own beats the ink.
struct Paint {
  Ink ink = Ink::none;
  std::optional<Colour> colour{};
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  Paint fill{};
  Paint stroke{};
  bool hatched = false;  ///< lines from corner to corner: nothing that was measured
};

struct Vertex {
  double x = 0;
  double y = 0;
};

struct Stroke {
  std::vector<Vertex> points;
  Paint paint{Ink::line};
  double width = 1;
  bool dashed = false;
};

struct Dot {
  double x = 0;
  double y = 0;
  double radius = 3;
  Paint fill{Ink::text};
  Paint stroke{};
};

/// Dots of one kind, without titles.
struct Dots {
  std::vector<Vertex> places;
  double radius = 3;
  Paint fill{Ink::text};
};

enum class Anchor : std::uint8_t { start, middle, end };

struct Label {
  double x = 0;
  double y = 0;  ///< height of the base line
  std::string text;
  double size = 11;
  Anchor anchor = Anchor::start;
  bool bold = false;
  Paint fill{Ink::text};
};

using Shape = std::variant<Box, Stroke, Dot, Dots, Label>;

/// Shapes that belong together: one cell, one mark.
struct Group {
  std::string key{};    ///< name by which a page finds it; empty: nothing to point at
  std::string title{};  ///< text of the whole group
  std::vector<Shape> shapes{};
};

struct Drawing {
  double width = 0;
  double height = 0;
  std::string title{};
  std::string description{};
  std::vector<Group> groups{};
};

// Port: a drawing as a raster image.

/// The bytes of a PNG file: black on white, `width` pixels wide; 0: 300 dots per inch, where a
/// point is 1/72 inch.
[[nodiscard]] Result<std::string> png_bytes(const Drawing& drawing, std::int64_t width);

}  // namespace shardsweep
