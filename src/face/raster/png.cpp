// SPDX-License-Identifier: Apache-2.0
#include "picture/svg.hpp"
#include "raster/cairo.hpp"

#include <shardsweep/png.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

namespace shardsweep {
namespace {

using Context = std::unique_ptr<Cairo::Context, void (*)(Cairo::Context*)>;
using Surface = std::unique_ptr<Cairo::Surface, void (*)(Cairo::Surface*)>;

class Canvas {
 public:
  Canvas(const Cairo& cairo, Cairo::Context* context) : cairo_(cairo), context_(context) {}

  void draw(const Box& box) const {
    cairo_.rectangle(context_, box.x, box.y, box.width, box.height);
    if (set(box.fill)) cairo_.fill_preserve(context_);
    cairo_.set_line_width(context_, 1);
    if (set(box.stroke)) cairo_.stroke_preserve(context_);
    cairo_.new_path(context_);
    if (box.hatched) hatch(box);
  }

  void draw(const Stroke& stroke) const {
    if (!set(stroke.paint)) return;
    constexpr double dashes[] = {4, 3};
    cairo_.set_dash(context_, dashes, stroke.dashed ? 2 : 0, 0);
    cairo_.set_line_width(context_, stroke.width);
    for (const auto& point : stroke.points)
      cairo_.line_to(context_, point.x, point.y);
    cairo_.stroke(context_);
    cairo_.set_dash(context_, nullptr, 0, 0);
  }

  void draw(const Dot& dot) const {
    constexpr double whole_turn = 6.283185307179586;
    cairo_.arc(context_, dot.x, dot.y, dot.radius, 0, whole_turn);
    if (set(dot.fill)) cairo_.fill_preserve(context_);
    cairo_.set_line_width(context_, 1);
    if (set(dot.stroke)) cairo_.stroke_preserve(context_);
    cairo_.new_path(context_);
  }

  void draw(const Dots& dots) const {
    for (const auto& place : dots.places)
      draw(Dot{place.x, place.y, dots.radius, dots.fill, {}});
  }

  void draw(const Label& label) const {
    cairo_.select_font_face(context_, "DejaVu Sans", Cairo::upright,
                            label.bold ? Cairo::bold : Cairo::normal);
    cairo_.set_font_size(context_, label.size);
    Cairo::TextExtents extents{};
    cairo_.text_extents(context_, label.text.c_str(), &extents);
    double x = label.x;
    if (label.anchor == Anchor::middle) x -= extents.x_advance / 2;
    if (label.anchor == Anchor::end) x -= extents.x_advance;
    if (!set(label.fill)) return;
    cairo_.move_to(context_, x, label.y);
    cairo_.show_text(context_, label.text.c_str());
    cairo_.new_path(context_);
  }

 private:
  [[nodiscard]] bool set(const Paint& paint) const {
    if (!paint.colour && paint.ink == Ink::none) return false;
    const Colour colour = paint.colour ? *paint.colour : paper_colour(paint.ink);
    cairo_.set_source_rgb(context_, colour.red / 255.0, colour.green / 255.0,
                          colour.blue / 255.0);
    return true;
  }

  void hatch(const Box& box) const {
    cairo_.save(context_);
    cairo_.rectangle(context_, box.x, box.y, box.width, box.height);
    cairo_.clip(context_);
    static_cast<void>(set({Ink::line}));
    cairo_.set_line_width(context_, 0.7);
    constexpr double step = 8;
    for (double at = step; at < box.width + box.height; at += step) {
      cairo_.move_to(context_, box.x + at, box.y);
      cairo_.line_to(context_, box.x, box.y + at);
    }
    cairo_.stroke(context_);
    cairo_.restore(context_);
  }

  const Cairo& cairo_;
  Cairo::Context* context_;
};

Cairo::Status append(void* bytes, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return Cairo::success;
}

}  // namespace

Result<std::string> png_bytes(const Drawing& drawing, double dots_per_inch) {
  constexpr double points_per_inch = 72;
  constexpr double most_pixels = 16'000;
  const double wanted = dots_per_inch / points_per_inch;
  const double longest = std::max({drawing.width, drawing.height, 1.0});
  const double scale = std::min(wanted, most_pixels / longest);
  const auto pixels = [&](double length) { return static_cast<int>(length * scale + 0.999); };
  SHARDSWEEP_ASSIGN(const Cairo* cairo, load_cairo());
  const Surface surface(
      cairo->image_surface_create(Cairo::rgb24, pixels(drawing.width), pixels(drawing.height)),
      cairo->surface_destroy);
  const Context context(cairo->create(surface.get()), cairo->destroy);
  cairo->scale(context.get(), scale, scale);
  const Canvas canvas(*cairo, context.get());
  canvas.draw(Box{0, 0, drawing.width, drawing.height, {Ink::paper}, {}, false});
  for (const auto& group : drawing.groups) {
    for (const auto& shape : group.shapes)
      std::visit([&canvas](const auto& one) { canvas.draw(one); }, shape);
  }
  std::string bytes;
  const auto status = cairo->surface_write_to_png_stream(surface.get(), append, &bytes);
  if (status != Cairo::success) {
    return fault(FaultKind::unavailable,
                 fmt::format("drawing the PNG failed: {}", cairo->status_to_string(status)));
  }
  return bytes;
}

}  // namespace shardsweep
