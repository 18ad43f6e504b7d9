// SPDX-License-Identifier: Apache-2.0
// What is counted of a train step and not measured: kernels and bytes of a layer, and what each
// profile exposes of its communication. The tables of runner/README.md. Usage:
// shardbench_counted                  prints them
// shardbench_counted --check README   ends with 1 if they are not there as they are now
// shardbench_counted --update README  puts them there
#include "measurement/profile.hpp"
#include "ordered_gpu.hpp"
#include "ordered_rank.hpp"
#include "played_time.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <string>

namespace {

using namespace shardbench;
using ordered::Beginning;
using ordered::Work;

constexpr i64 tokens = 4096;
// Rates of an H100, as in "Counted" of runner/README.md: NVLink within a node, 400 Gb/s per GPU
// between nodes.
constexpr double within_node = 360e9;
constexpr double between_nodes = 45e9;
ordered::Rates rates(double link) {
  return {.flops = 650e12,
      .fp8_flops = 1200e12,
      .bytes = 2.8e12,
      .launch_s = 2e-6,
      .link = link,
      .message_s = 10e-6};
}

std::string number(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

ModelShape model_of(const char* name) {
  ModelShape shape = *find_shape(name);
  shape.seq_len = tokens;
  return shape;
}

/// Works of a rank in two train steps; the second step begins at `second`.
struct RecordedWorks {
  std::vector<Work> works;
  std::size_t second = 0;
};
RecordedWorks record(const EqualityCase& c, i64 rank) {
  ordered::reset();
  const std::vector<std::size_t> begun = ordered::train(c, rank, NcclOrder::by_room, 2);
  return {ordered::works(), begun[1]};
}

// Kernels and bytes of a layer.

constexpr std::array kinds{"products", "attention", "8 bits", "others"};
std::size_t kind_of(const std::string& what) {
  if (what == "product") return 0;
  if (what.find("attention") == 0) return 1;
  const bool eight_bits = what == "quantize" || what == "raise_amax" || what == "transpose_8_bits";
  return eight_bits ? 2 : 3;
}

struct WorkCounts {
  std::array<double, kinds.size()> launches{};
  std::array<double, kinds.size()> bytes{};
  double messages = 0;
  double sent = 0;
  void add(const WorkCounts& other, double times) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      launches[i] += times * other.launches[i];
      bytes[i] += times * other.bytes[i];
    }
    messages += times * other.messages;
    sent += times * other.sent;
  }
};

WorkCounts count_step(const EqualityCase& c) {
  const RecordedWorks step = record(c, 0);
  WorkCounts all;
  for (std::size_t i = step.second; i < step.works.size(); ++i) {
    const Work& work = step.works[i];
    if (work.cost.traffic) {
      all.messages += 1;
      all.sent += static_cast<double>(work.cost.traffic->bytes);
      continue;
    }
    all.launches[kind_of(work.what)] += 1;
    all.bytes[kind_of(work.what)] += static_cast<double>(work.bytes_read + work.bytes_written);
  }
  return all;
}

/// Counts of one more layer and one more micro-batch together: without costs once per train step,
/// embedding and head.
WorkCounts of_layer(EqualityCase c) {
  WorkCounts layer;
  for (const i64 layers : {1, 2})
    for (const i64 micro_batches : {2, 3}) {
      c.model.layers = layers;
      c.layout.grad_accum = micro_batches;
      layer.add(count_step(c), (layers == 2) == (micro_batches == 3) ? 1 : -1);
    }
  return layer;
}

std::string layer_table() {
  std::string text =
      "| format, ranks | launches: products | attention | to 8 bits | others | KiB for each "
      "token: products | attention | to 8 bits | others | all | collectives of tp | KiB sent "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const i64 tp : {1, 2})
    for (const Scaling scaling : {Scaling::none, Scaling::current, Scaling::delayed}) {
      EqualityCase c;
      c.model = model_of("llama-3-8b");
      c.layout.tp = tp;
      c.layout.sequence_parallel = tp > 1;
      c.layout.fp8 = scaling;
      const WorkCounts layer = of_layer(c);
      const char* format = scaling == Scaling::none ? "bf16"
          : scaling == Scaling::current             ? "`fp8`"
                                                    : "`fp8-delayed`";
      text += std::string("| ") + format + (tp == 1 ? ", one" : ", tp 2");
      for (const double launches : layer.launches)
        text += " | " + number(launches, 0);
      double all = 0;
      for (const double bytes : layer.bytes) {
        text += " | " + number(bytes / tokens / 1024, 0);
        all += bytes;
      }
      text += " | " + number(all / tokens / 1024, 0) + " | " + number(layer.messages, 0) + " | " +
          number(layer.sent / tokens / 1024, 0) + " |\n";
    }
  return text;
}

// Exposed communication.

struct Row {
  const char* name;
  EqualityCase c;
  double link;
};

std::vector<Row> rows() {
  std::vector<Row> all;
  const auto add = [&](const char* name, double link) -> EqualityCase& {
    EqualityCase c;
    c.model = model_of("llama-3-8b");
    c.layout.grad_accum = 4;
    all.push_back({name, c, link});
    return all.back().c;
  };
  EqualityCase& tensor = add("tp 2", within_node);
  tensor.layout.tp = 2;
  tensor.layout.sequence_parallel = true;
  EqualityCase& stages = add("pp 2", between_nodes);
  stages.layout.pp = 2;
  stages.layout.grad_accum = 8;
  add("dp 2", between_nodes).layout.dp = 2;
  add("cp 2", within_node).layout.cp = 2;
  EqualityCase& experts = add("ep 2", within_node);
  experts.model = model_of("qwen3-30b-a3b");
  experts.model.layers = 8;
  experts.layout.dp = experts.layout.ep = 2;
  experts.layout.moe_routing = MoeRouting::balanced;
  EqualityCase& both = add("pp 2 × dp 2", between_nodes);
  both.layout.pp = both.layout.dp = 2;
  both.layout.grad_accum = 8;
  return all;
}

/// The trainer's own ZeRO if several ranks have the same weights.
i64 zero_of(const Profile& profile, const Layout& layout) {
  if (layout.dp == 1) return 0;
  return profile.always_shards_weights ? 3 : 1;
}

struct ExposedTimes {
  double step_s;
  double communication_s;
  double at_once_s;
  double after_product_s;
};

ExposedTimes expose(const EqualityCase& c, double link) {
  std::map<i64, std::vector<Work>> both;
  std::map<i64, std::vector<Work>> first;
  for (i64 rank = 0; rank < c.layout.world(); ++rank) {
    RecordedWorks of_rank = record(c, rank);
    first[rank] = {
        of_rank.works.begin(), of_rank.works.begin() + static_cast<std::ptrdiff_t>(of_rank.second)};
    both[rank] = std::move(of_rank.works);
  }
  // A train step after another one: what it left under way is hidden or exposed here.
  const auto second = [&](Beginning beginning) {
    const bool one_queue = c.layout.habits.one_queue;
    ordered::PlayedTimes played = ordered::play(both, rates(link), beginning, one_queue);
    const ordered::PlayedTimes before = ordered::play(first, rates(link), beginning, one_queue);
    played.seconds -= before.seconds;
    played.communication_s -= before.communication_s;
    return played;
  };
  const double free_s = second(Beginning::free).seconds;
  const ordered::PlayedTimes at_once = second(Beginning::at_once);
  return {at_once.seconds, at_once.communication_s, at_once.seconds - free_s,
      second(Beginning::after_product).seconds - free_s};
}

std::string exposed_table() {
  std::string text =
      "| layout | profile | train step, ms | communication, ms | exposed, ms | part of the "
      "train step | exposed if products come first, ms |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Row& row : rows())
    for (const Profile& profile : profiles()) {
      EqualityCase c = row.c;
      c.layout.habits = profile.habits;
      c.layout.zero = zero_of(profile, c.layout);
      const ExposedTimes e = expose(c, row.link);
      text += std::string("| ") + row.name + " | " + std::string(profile.name);
      for (const double seconds : {e.step_s, e.communication_s, e.at_once_s})
        text += " | " + number(1e3 * seconds, 1);
      text += " | " + number(100 * e.at_once_s / e.step_s, 1) + " % | " +
          number(1e3 * e.after_product_s, 1) + " |\n";
    }
  return text;
}

// The README.

struct Table {
  std::string begin;
  std::string text;
};
constexpr const char* end_mark = "<!-- counted: end -->\n";

/// Empty if the README has no such place.
std::optional<std::string> with_tables(std::string readme, const std::vector<Table>& tables) {
  for (const Table& table : tables) {
    const std::size_t begin = readme.find(table.begin);
    if (begin == std::string::npos) return std::nullopt;
    const std::size_t from = begin + table.begin.size();
    const std::size_t to = readme.find(end_mark, from);
    if (to == std::string::npos) return std::nullopt;
    readme.replace(from, to - from, table.text);
  }
  return readme;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Table> tables{{"<!-- counted: layer -->\n", layer_table()},
      {"<!-- counted: exposed -->\n", exposed_table()}};
  const std::string what = argc > 1 ? argv[1] : "";
  if (argc == 1) {
    for (const Table& table : tables)
      std::cout << table.text << '\n';
    return 0;
  }
  if (argc != 3 || (what != "--check" && what != "--update")) {
    std::cerr << "usage: shardbench_counted [--check README | --update README]\n";
    return 2;
  }
  const std::string path = argv[2];
  const std::string there = read_file(path);
  const auto wanted = with_tables(there, tables);
  if (!wanted) {
    std::cerr << path << ": no place between '<!-- counted: layer -->' or '<!-- counted: exposed"
              << " -->' and '<!-- counted: end -->'\n";
    return 1;
  }
  if (what == "--update") {
    std::ofstream(path) << *wanted;
    return 0;
  }
  if (*wanted == there) return 0;
  std::cerr << path << " has other tables than these (shardbench_counted --update " << path
            << "):\n\n";
  for (const Table& table : tables)
    std::cerr << table.text << '\n';
  return 1;
}
