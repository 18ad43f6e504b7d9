# SPDX-License-Identifier: Apache-2.0
# The target explorer_module: planner/explore and the rooms below it as WebAssembly, in a build of
# their own (CMakeLists.txt beside this file) with emscripten's compiler. It leaves planner.js and
# planner.wasm.gz in share/shardsweep/explorer, where `explore` looks for them.
find_program(EMCC_PROGRAM em++)
find_file(EMSCRIPTEN_TOOLCHAIN Emscripten.cmake
  PATHS $ENV{EMSDK}/upstream/emscripten /usr/share/emscripten
  PATH_SUFFIXES cmake/Modules/Platform NO_DEFAULT_PATH)
if(SHARDSWEEP_EXPLORER AND NOT (EMCC_PROGRAM AND EMSCRIPTEN_TOOLCHAIN))
  message(FATAL_ERROR "SHARDSWEEP_EXPLORER needs emscripten: scripts/packages explorer")
endif()
if(NOT EMCC_PROGRAM OR NOT EMSCRIPTEN_TOOLCHAIN)
  return()
endif()

# shardsweep_sources_below(TARGET LIST): absolute paths of the sources of a room and of all rooms
# that it is linked with, by the table of rooms.
function(shardsweep_sources_below target list)
  set(seen "")
  set(open ${target})
  set(found "")
  while(open)
    list(POP_FRONT open room)
    if(room IN_LIST seen OR NOT room MATCHES "^shardsweep_" OR
       room MATCHES "_(include|settings|warnings)$")
      continue()
    endif()
    list(APPEND seen ${room})
    get_target_property(sources ${room} SOURCES)
    list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
    list(APPEND found ${sources})
    get_target_property(libraries ${room} LINK_LIBRARIES)
    list(APPEND open ${libraries})
  endwhile()
  set(${list} "${found}" PARENT_SCOPE)
endfunction()
shardsweep_sources_below(shardsweep_explore sources)
list(JOIN sources "\n" lines)
set(module_build ${CMAKE_BINARY_DIR}/explorer)
file(CONFIGURE OUTPUT ${module_build}/sources.txt CONTENT "${lines}\n" @ONLY)

# Headers of libraries that are headers alone; the compiler's own come from emscripten.
file(MAKE_DIRECTORY ${module_build}/include)
foreach(header fmt/format.h tl/expected.hpp nlohmann/json.hpp)
  cmake_path(GET header PARENT_PATH library)
  find_path(EXPLORER_${library}_FOLDER ${header} PATHS ${SHARDSWEEP_PORTABLE_LIBRARIES}/include)
  file(CREATE_LINK ${EXPLORER_${library}_FOLDER}/${library} ${module_build}/include/${library}
    SYMBOLIC)
endforeach()

set(in_all "")
if(SHARDSWEEP_EXPLORER)
  set(in_all ALL)
endif()
add_custom_target(explorer_module ${in_all}
  COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${module_build}
    -G ${CMAKE_GENERATOR} -DCMAKE_TOOLCHAIN_FILE=${EMSCRIPTEN_TOOLCHAIN}
    -DMODULE_FOLDER=${CMAKE_BINARY_DIR}/share/shardsweep/explorer
  COMMAND ${CMAKE_COMMAND} --build ${module_build} --parallel 2
  COMMENT "The planner as WebAssembly" USES_TERMINAL VERBATIM)
install(DIRECTORY ${CMAKE_BINARY_DIR}/share/shardsweep/explorer DESTINATION share/shardsweep OPTIONAL)
