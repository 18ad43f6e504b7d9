# SPDX-License-Identifier: Apache-2.0
# What makes a mistake end a program where it happens, and hard to use: for the project and for the
# runner alone.
option(SHARDSWEEP_HARDENED "checks of the standard library and of the C library, PIE, RELRO" ON)

include(CheckCXXSourceCompiles)
# Level 3 also knows sizes that are only known when the program runs. gcc 12 has it.
check_cxx_source_compiles("
  #if !defined(__has_builtin) || !__has_builtin(__builtin_dynamic_object_size)
  #error
  #endif
  int main() {}" SHARDSWEEP_FORTIFIES_RUNTIME_SIZES)

# shardsweep_harden(TARGET [SANITIZED] [STATIC]): flags on an interface target. Code for a GPU gets
# none.
function(shardsweep_harden target)
  if(NOT SHARDSWEEP_HARDENED)
    return()
  endif()
  cmake_parse_arguments(HARDEN "SANITIZED;STATIC" "" "" ${ARGN})
  set(host $<COMPILE_LANGUAGE:CXX>)
  target_compile_options(${target} INTERFACE
    $<${host}:-D_GLIBCXX_ASSERTIONS> $<${host}:-fstack-protector-strong>)
  # It needs an optimiser, and sanitizers look at the same calls themselves. A distribution may
  # have set a lower level.
  if(NOT HARDEN_SANITIZED AND NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    set(level 2)
    if(SHARDSWEEP_FORTIFIES_RUNTIME_SIZES)
      set(level 3)
    endif()
    target_compile_options(${target} INTERFACE
      $<${host}:-U_FORTIFY_SOURCE> $<${host}:-D_FORTIFY_SOURCE=${level}>)
  endif()
  target_link_options(${target} INTERFACE LINKER:-z,relro LINKER:-z,now)
  # -fPIE, where CMake's own property says -fPIC: that would keep functions from being inlined. A
  # static program stays at its address: its libraries were not made to be moved.
  if(NOT HARDEN_STATIC)
    set(type $<TARGET_PROPERTY:TYPE>)
    set(library $<OR:$<STREQUAL:${type},SHARED_LIBRARY>,$<STREQUAL:${type},MODULE_LIBRARY>>)
    target_compile_options(${target} INTERFACE
      $<$<AND:${host},$<NOT:${library}>>:-fPIE>)
    target_link_options(${target} INTERFACE $<$<STREQUAL:${type},EXECUTABLE>:-pie>)
  endif()
endfunction()
