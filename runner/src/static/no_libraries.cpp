// SPDX-License-Identifier: Apache-2.0
// Of a static program: what would be loaded at run time is not there, in the words of
// dlerror(). glibc's own dlopen() needs the very glibc that the program was built with, on
// every machine. The linker puts these in its place (--wrap).

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
void* __wrap_dlopen(const char* /*file*/, int /*mode*/) {
  return nullptr;
}
const char* __wrap_dlerror() {
  return "this program is static and loads no library";
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

}  // extern "C"
