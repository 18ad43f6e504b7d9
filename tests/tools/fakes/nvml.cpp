// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so.1 for machines without a GPU. What it tells stands in the file that
// FAKE_NVML names, read anew at every call, one line each, fields by '|':
//   device|NAME|UUID|USED|TOTAL|ECC|CLOCKS     one per GPU, in order; ECC or CLOCKS '-':
//   unsupported;
//                                              |MHZ|MILLIWATTS may follow
//   process|GPU|PID|BYTES                      BYTES '-': not told
//   fail|FUNCTION|CODE                         FUNCTION without "nvmlDeviceGet" answers CODE
// FAKE_NVML_OLD (of the build) leaves out what older drivers lack.
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Fields = std::vector<std::string>;

std::vector<Fields> lines_of(const std::string& kind) {
  const char* file = std::getenv("FAKE_NVML");
  std::ifstream in(file == nullptr ? "" : file);
  std::vector<Fields> found;
  for (std::string line; std::getline(in, line);) {
    std::istringstream text(line);
    Fields fields;
    for (std::string field; std::getline(text, field, '|');)
      fields.push_back(field);
    if (!fields.empty() && fields[0] == kind) found.push_back(fields);
  }
  return found;
}

int failure(const std::string& function) {
  for (const Fields& fields : lines_of("fail")) {
    if (fields.at(1) == function) return std::stoi(fields.at(2));
  }
  return 0;
}

// A handle is a place in this array.
std::array<char, 256> handles{};
std::size_t index_of(void* device) {
  return static_cast<std::size_t>(static_cast<char*>(device) - handles.data());
}

int copy(const std::string& text, char* to, unsigned size) {
  if (text.size() >= size) return 7;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return 0;
}

int number(void* device, std::size_t field, unsigned long long* value) {
  const std::string text = lines_of("device").at(index_of(device)).at(field);
  if (text == "-") return 3;
  *value = std::stoull(text, nullptr, 0);
  return 0;
}

/// Fields that a line may leave out.
int small_number(void* device, std::size_t field, unsigned* value) {
  if (lines_of("device").at(index_of(device)).size() <= field) return 3;
  unsigned long long whole = 0;
  const int status = number(device, field, &whole);
  if (status == 0) *value = static_cast<unsigned>(whole);
  return status;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the library's names.
extern "C" {

int nvmlInit_v2() {
  return failure("Init");
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int status) {
  switch (status) {
    case 4:
      return "Insufficient Permissions";
    case 9:
      return "Driver Not Loaded";
    case 15:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(lines_of("device").size());
  return failure("Count");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= lines_of("device").size()) return 2;
  *device = &handles.at(index);
  return failure("HandleByIndex" + std::to_string(index));
}

int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  return copy(lines_of("device").at(index_of(device)).at(1), name, size);
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  // So that a test knows that it was asked.
  if (const char* file = std::getenv("FAKE_NVML")) std::ofstream(file + std::string(".asked"));
  return type == 1 ? small_number(device, 7, mhz) : 2;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return small_number(device, 8, milliwatts);
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  return copy(lines_of("device").at(index_of(device)).at(2), uuid, size);
}

struct MemoryV1 {
  unsigned long long total, free, used;
};
/// As older drivers count: with 600 MiB of the driver's own.
int nvmlDeviceGetMemoryInfo(void* device, MemoryV1* memory) {
  if (number(device, 3, &memory->used) != 0 || number(device, 4, &memory->total) != 0) return 3;
  memory->used += 600ULL << 20U;
  memory->free = memory->total - memory->used;
  return failure("MemoryInfo");
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
int fill_processes(void* device, unsigned* count, ProcessInfo* infos) {
  std::vector<Fields> own;
  for (const Fields& fields : lines_of("process")) {
    if (std::stoul(fields.at(1)) == index_of(device)) own.push_back(fields);
  }
  const unsigned room = *count;
  *count = static_cast<unsigned>(own.size());
  if (own.size() > room) return 7;
  for (std::size_t i = 0; i < own.size(); ++i) {
    infos[i] = {static_cast<unsigned>(std::stoul(own[i].at(2))),
        own[i].at(3) == "-" ? ~0ULL : std::stoull(own[i].at(3)), ~0U, ~0U};
  }
  return failure("Processes");
}

#ifdef FAKE_NVML_OLD
int nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned* count, ProcessInfo* infos) {
  return fill_processes(device, count, infos);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return number(device, 6, reasons);
}
#else
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryV2* memory) {
  if (memory->version != (sizeof(MemoryV2) | (2U << 24U))) return 25;  // argument version mismatch
  if (number(device, 3, &memory->used) != 0 || number(device, 4, &memory->total) != 0) return 3;
  return failure("MemoryInfo");
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* infos) {
  return fill_processes(device, count, infos);
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* errors) {
  if (type != 1 || counter != 0) return 2;
  const int failed = failure("TotalEccErrors");
  return failed != 0 ? failed : number(device, 5, errors);
}
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  return number(device, 6, reasons);
}
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
