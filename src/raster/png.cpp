// SPDX-License-Identifier: Apache-2.0
// Cairo lives here and nowhere else.
#include "picture/svg.hpp"

#include <shardsweep/png.hpp>

#include <fmt/format.h>

#include <cairo.h>

#include <algorithm>
#include <memory>
#include <string>

namespace shardsweep {
namespace {

struct Destroy {
  void operator()(cairo_t* context) const { ::cairo_destroy(context); }
  void operator()(cairo_surface_t* surface) const { ::cairo_surface_destroy(surface); }
};

class Canvas {
 public:
  explicit Canvas(cairo_t* context) : context_(context) {}

  void draw(const Box& box) const {
    ::cairo_rectangle(context_, box.x, box.y, box.width, box.height);
    if (set(box.fill)) ::cairo_fill_preserve(context_);
    ::cairo_set_line_width(context_, 1);
    if (set(box.stroke)) ::cairo_stroke_preserve(context_);
    ::cairo_new_path(context_);
    if (box.hatched) hatch(box);
  }

  void draw(const Stroke& stroke) const {
    if (!set(stroke.paint)) return;
    constexpr double dashes[] = {4, 3};
    ::cairo_set_dash(context_, dashes, stroke.dashed ? 2 : 0, 0);
    ::cairo_set_line_width(context_, stroke.width);
    for (const auto& point : stroke.points)
      ::cairo_line_to(context_, point.x, point.y);
    ::cairo_stroke(context_);
    ::cairo_set_dash(context_, nullptr, 0, 0);
  }

  void draw(const Dot& dot) const {
    constexpr double whole_turn = 6.283185307179586;
    ::cairo_arc(context_, dot.x, dot.y, dot.radius, 0, whole_turn);
    if (set(dot.fill)) ::cairo_fill_preserve(context_);
    ::cairo_set_line_width(context_, 1);
    if (set(dot.stroke)) ::cairo_stroke_preserve(context_);
    ::cairo_new_path(context_);
  }

  void draw(const Label& label) const {
    ::cairo_select_font_face(context_, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                             label.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    ::cairo_set_font_size(context_, label.size);
    cairo_text_extents_t extents{};
    ::cairo_text_extents(context_, label.text.c_str(), &extents);
    double x = label.x;
    if (label.anchor == Anchor::middle) x -= extents.x_advance / 2;
    if (label.anchor == Anchor::end) x -= extents.x_advance;
    if (!set(label.fill)) return;
    ::cairo_move_to(context_, x, label.y);
    ::cairo_show_text(context_, label.text.c_str());
    ::cairo_new_path(context_);
  }

 private:
  [[nodiscard]] bool set(const Paint& paint) const {
    if (!paint.colour && paint.ink == Ink::none) return false;
    const Colour colour = paint.colour ? *paint.colour : paper_colour(paint.ink);
    ::cairo_set_source_rgb(context_, colour.red / 255.0, colour.green / 255.0,
                           colour.blue / 255.0);
    return true;
  }

  void hatch(const Box& box) const {
    ::cairo_save(context_);
    ::cairo_rectangle(context_, box.x, box.y, box.width, box.height);
    ::cairo_clip(context_);
    static_cast<void>(set({Ink::line}));
    ::cairo_set_line_width(context_, 0.7);
    constexpr double step = 8;
    for (double at = step; at < box.width + box.height; at += step) {
      ::cairo_move_to(context_, box.x + at, box.y);
      ::cairo_line_to(context_, box.x, box.y + at);
    }
    ::cairo_stroke(context_);
    ::cairo_restore(context_);
  }

  cairo_t* context_;
};

cairo_status_t append(void* bytes, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

Result<std::string> png_bytes(const Drawing& drawing, double dots_per_inch) {
  constexpr double points_per_inch = 72;
  constexpr double most_pixels = 16'000;
  const double wanted = dots_per_inch / points_per_inch;
  const double longest = std::max({drawing.width, drawing.height, 1.0});
  const double scale = std::min(wanted, most_pixels / longest);
  const auto pixels = [&](double length) { return static_cast<int>(length * scale + 0.999); };
  const std::unique_ptr<cairo_surface_t, Destroy> surface(::cairo_image_surface_create(
      CAIRO_FORMAT_RGB24, pixels(drawing.width), pixels(drawing.height)));
  const std::unique_ptr<cairo_t, Destroy> context(::cairo_create(surface.get()));
  ::cairo_scale(context.get(), scale, scale);
  const Canvas canvas(context.get());
  canvas.draw(Box{0, 0, drawing.width, drawing.height, {Ink::paper}, {}, false});
  for (const auto& group : drawing.groups) {
    for (const auto& shape : group.shapes)
      std::visit([&canvas](const auto& one) { canvas.draw(one); }, shape);
  }
  std::string bytes;
  const auto status = ::cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  if (status != CAIRO_STATUS_SUCCESS) {
    return fault(FaultKind::unavailable,
                 fmt::format("drawing the PNG failed: {}", ::cairo_status_to_string(status)));
  }
  return bytes;
}

}  // namespace shardsweep
