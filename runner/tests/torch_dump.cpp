// SPDX-License-Identifier: Apache-2.0
// Loss, weights and gradients of one process in fp64, for tests/torch_oracle.py:
// shardbench_torch_dump FOLDER writes a folder for each case.
#include "base/json.hpp"
#include "communication/null_communicator.hpp"
#include "device/cpu_device.hpp"
#include "measurement/samples.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace shardbench;
namespace fs = std::filesystem;

constexpr u64 seed = 5;

struct Case {
  const char* name;
  ModelShape shape;
  Layout layout;
};

std::vector<Case> cases() {
  const ModelShape grouped{
      .layers = 2, .hidden = 48, .ffn = 40, .heads = 6, .kv_heads = 2, .vocab = 131, .seq_len = 70};
  ModelShape tied = grouped;
  tied.tied = true;
  ModelShape plain{
      .layers = 3, .hidden = 32, .ffn = 96, .heads = 4, .kv_heads = 4, .vocab = 50, .seq_len = 33};
  Layout two;
  two.micro_batch = 2;
  Layout accumulated = two;
  accumulated.grad_accum = 3;
  accumulated.recompute = Recompute::full;
  Layout selective = two;
  selective.recompute = Recompute::selective;
  return {{"grouped", grouped, two}, {"tied", tied, accumulated}, {"plain", plain, selective}};
}

std::string name_of(const Unit& unit, TensorKind kind) {
  constexpr std::array<const char*, 12> names{"embedding", "attention_norm", "q", "k", "v", "o",
      "mlp_norm", "gate", "up", "down", "final_norm", "head"};
  const char* name = names[static_cast<std::size_t>(kind)];
  return unit.layer < 0 ? name : std::to_string(unit.layer) + "." + name;
}

class Dump {
 public:
  Dump(fs::path folder, const Case& c)
      : folder_(std::move(folder)),
        case_(c),
        groups_(make_groups(c.layout, 0, 1,
            [this](const Group& group) {
              return std::make_unique<NullCommunicator>(memory_, 0, group);
            })),
        trainer_(
            context_of(*device_, memory_, case_.shape, case_.layout, {}, groups_), groups_, seed) {
    fs::create_directories(folder_);
  }

  void write() {
    trainer_.compute_gradients(0);
    const double loss = trainer_.take_loss() / static_cast<double>(trainer_.global_tokens());
    std::vector<std::string> tensors;
    const ParameterStore& store = trainer_.parameters();
    for (std::size_t i = 0; i < store.units().size(); ++i)
      for (const TensorSlot& slot : store.units()[i].slots) {
        const ParameterStore::OwnedPart own = store.owned(i);
        const std::string name = name_of(store.units()[i], slot.kind);
        tensors.push_back(JsonObject{}
                              .text("name", name)
                              .raw("weight", values(name + ".weight", own.weights, slot))
                              .raw("gradient", values(name + ".gradient", own.gradients, slot))
                              .str());
      }
    const ModelShape& s = case_.shape;
    std::ofstream(folder_ / "shape.json") << JsonObject{}
                                                 .text("case", case_.name)
                                                 .integer("layers", s.layers)
                                                 .integer("hidden", s.hidden)
                                                 .integer("heads", s.heads)
                                                 .integer("kv_heads", s.kv_heads)
                                                 .integer("vocab", s.vocab)
                                                 .boolean("tied", s.tied)
                                                 .number("loss", loss)
                                                 .raw("tokens", tokens())
                                                 .raw("tensors", json_array(tensors))
                                                 .str();
  }

 private:
  std::string values(const std::string& file, const std::byte* unit, const TensorSlot& slot) {
    std::ofstream out(folder_ / file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(unit + slot.offset * i64{sizeof(double)}),
        slot.count() * i64{sizeof(double)});
    return JsonObject{}
        .text("file", file)
        .integer("rows", slot.region.rows)
        .integer("columns", slot.region.columns)
        .str();
  }

  std::string tokens() const {
    std::vector<std::string> samples;
    for (i64 sample = 0; sample < case_.layout.global_batch(); ++sample) {
      std::vector<std::string> ids;
      for (const std::int32_t id :
          make_sample({seed, 0, sample}, case_.shape.vocab, case_.shape.seq_len))
        ids.push_back(std::to_string(id));
      samples.push_back(json_array(ids));
    }
    return json_array(samples);
  }

  fs::path folder_;
  Case case_;
  std::unique_ptr<Device> device_ = make_cpu_device(Dtype::fp64);
  Memory memory_{*device_, std::nullopt};
  Groups groups_;
  Trainer trainer_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: shardbench_torch_dump FOLDER\n");
    return 2;
  }
  for (const Case& c : cases())
    Dump(fs::path(argv[1]) / c.name, c).write();
  return 0;
}
