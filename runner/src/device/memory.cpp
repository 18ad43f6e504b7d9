// SPDX-License-Identifier: Apache-2.0
// Accounting first, then the device: a refused request changes nothing.
#include "device/memory.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shardbench {

std::string_view memory_class_name(MemoryClass kind) {
  constexpr std::array<std::string_view, memory_class_count> names{
      "parameters", "gradients", "optimizer", "activations", "workspace", "communication"};
  return names[static_cast<std::size_t>(kind)];
}

Block::Block(Block&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      kind_(other.kind_) {}

Block& Block::operator=(Block&& other) noexcept {
  if (this != &other) {
    reset();
    owner_ = std::exchange(other.owner_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    kind_ = other.kind_;
  }
  return *this;
}

void Block::reset() {
  if (owner_ != nullptr) owner_->release(*this);
  owner_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

Memory::Memory(Allocator& source, std::optional<i64> limit_bytes)
    : source_(source), limit_(limit_bytes) {}

Memory::~Memory() {
  give_back_free_list();
  for (const Arena& arena : arenas_)
    if (arena.base != nullptr) source_.release(arena.base, arena.reserved);
}

void Memory::reserve(const BytesByClass& bytes) {
  for (std::size_t i = 0; i < memory_class_count; ++i) {
    if (bytes[i] == 0) continue;
    Arena& arena = arenas_[i];
    arena.base = ask_source(bytes[i]);
    if (arena.base == nullptr) refuse(static_cast<MemoryClass>(i), bytes[i], "the arena");
    arena.reserved = bytes[i];
    arena.places = Places(bytes[i]);
  }
}

std::vector<Memory::Extent> Memory::reserved_extents() const {
  std::vector<Extent> extents;
  for (const Arena& arena : arenas_)
    if (arena.reserved > 0) extents.push_back({arena.base, arena.reserved});
  return extents;
}

i64 Memory::reserved_bytes() const {
  return std::accumulate(arenas_.begin(), arenas_.end(), i64{0},
      [](i64 sum, const Arena& arena) { return sum + arena.reserved; });
}

void Memory::measure_arenas() {
  for (Arena& arena : arenas_) {
    arena.base = source_.allocate(most_place_bytes);
    arena.reserved = most_place_bytes;
    arena.places = Places(most_place_bytes);
  }
}

BytesByClass Memory::arena_extents() const {
  BytesByClass extents{};
  for (std::size_t i = 0; i < memory_class_count; ++i)
    extents[i] = arenas_[i].places.extent();
  return extents;
}

void Memory::give_back_free_list() {
  for (auto& [size, blocks] : free_by_size_)
    for (std::byte* data : blocks)
      source_.release(data, size);
  free_by_size_.clear();
}

std::byte* Memory::ask_source(i64 bytes) {
  ++source_allocations_;
  return source_.allocate(bytes);
}

/// Places bytes in a gap of the arena, else allocates from the device; null: no memory is left.
std::byte* Memory::place(Arena& arena, i64 bytes) {
  if (arena.reserved > 0)
    if (const std::optional<i64> offset = arena.places.take(bytes)) return arena.base + *offset;
  std::vector<std::byte*>& reusable = free_by_size_[bytes];
  if (!reusable.empty()) {
    std::byte* data = reusable.back();
    reusable.pop_back();
    return data;
  }
  std::byte* data = ask_source(bytes);
  if (data != nullptr) return data;
  give_back_free_list();
  return ask_source(bytes);
}

Block Memory::allocate(MemoryClass kind, i64 bytes, std::string_view what) {
  check(bytes >= 0, "a block has a size");
  if (limit_ && in_use_ + bytes > *limit_) refuse(kind, bytes, what);
  Arena& charged = arenas_[static_cast<std::size_t>(kind)];
  Block block;
  block.data_ = place(charged, bytes);
  if (block.data_ == nullptr) refuse(kind, bytes, what);
  block.owner_ = this;
  block.bytes_ = bytes;
  block.kind_ = kind;
  charged.in_use += bytes;
  charged.peak = std::max(charged.peak, charged.in_use);
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  return block;
}

void Memory::release(Block& block) {
  Arena& arena = arenas_[static_cast<std::size_t>(block.kind_)];
  arena.in_use -= block.bytes_;
  in_use_ -= block.bytes_;
  if (arena.holds(block.data_))
    arena.places.give(block.data_ - arena.base);
  else
    free_by_size_[block.bytes_].push_back(block.data_);
}

void Memory::refuse(MemoryClass kind, i64 bytes, std::string_view what) const {
  Error error{.kind = ErrorClass::oom, .message = {}};
  error.memory_class = memory_class_name(kind);
  error.bytes_requested = static_cast<u64>(bytes);
  error.bytes_in_use = static_cast<u64>(in_use_);
  error.limit = static_cast<u64>(limit_.value_or(0));
  error.message = "out of memory: " + std::to_string(bytes) + " bytes of " + error.memory_class +
      " for " + std::string(what) + ", with " + std::to_string(in_use_) + " in use" +
      (limit_ ? " of " + std::to_string(*limit_) : std::string());
  fail(error);
}

}  // namespace shardbench
