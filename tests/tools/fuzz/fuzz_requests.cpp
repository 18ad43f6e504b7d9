// SPDX-License-Identifier: Apache-2.0
// Files beside the database: a request, an answer, the file of troubles. Each is read or
// refused with words.
#include "fuzzing.hpp"

#include <shardsweep/requests.hpp>
#include <shardsweep/trouble.hpp>

#include <fstream>

namespace {

using namespace shardsweep;

Home made_home() {
  std::string folder = (std::filesystem::temp_directory_path() / "fuzz-requests-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) fuzzing::fail("mkdtemp failed", folder);
  Home home{folder + "/s.db"};
  if (const auto made = make_home(home); !made) fuzzing::fail("no home", made.error().what);
  return home;
}

struct Folder {
  Home home = made_home();
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(home.database.parent_path(), ignored);
  }
};

void write(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const Home& home = folder.home;
  const auto [number, text] = fuzzing::chosen(data, size, 3);
  const std::string id = "00000000000000000001-h-1-1";
  if (number == 0) {
    write(home.requests() / id, text);
    const auto pending = pending_requests(home);
    if (!pending) fuzzing::fail("requests cannot be listed", pending.error().what);
    if (pending->size() != 1) fuzzing::fail("a request is not seen", std::string(text));
    if (const auto& request = pending->front().request; !request)
      fuzzing::check_fault(request.error());
  } else if (number == 1) {
    write(home.answers() / id, text);
    if (const auto answer = take_answer(home, id); !answer) fuzzing::check_fault(answer.error());
  } else {
    write(home.trouble(), text);
    for (const Trouble& trouble : troubles(home))
      fuzzing::check_words("a control character in a trouble", shardsweep::text(trouble));
  }
  return 0;
}
