# SPDX-License-Identifier: Apache-2.0
# The libraries of a static build, as scripts/portable lays them out in SHARDSWEEP_PORTABLE_LIBRARIES:
# include/ with their headers, lib/ with libsqlite3.a and libyaml-cpp.a. fmt and spdlog are compiled
# in from their headers, since Debian has no archives of them. libcurl is left out: Debian's archive
# needs Kerberos, of which there is no archive. http/ then calls the program curl.
set(folder ${SHARDSWEEP_PORTABLE_LIBRARIES})
if(NOT EXISTS ${folder}/lib/libsqlite3.a)
  message(FATAL_ERROR "SHARDSWEEP_PORTABLE needs SHARDSWEEP_PORTABLE_LIBRARIES: see scripts/portable")
endif()

function(shardsweep_headers_of target)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${folder}/include)
  target_compile_definitions(${target} INTERFACE ${ARGN})
endfunction()
shardsweep_headers_of(fmt::fmt FMT_HEADER_ONLY=1)
shardsweep_headers_of(tl::expected)
shardsweep_headers_of(Boost::headers)
shardsweep_headers_of(CLI11::CLI11)
shardsweep_headers_of(nlohmann_json::nlohmann_json)
shardsweep_headers_of(spdlog::spdlog SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY=1)
shardsweep_headers_of(SQLite::SQLite3)
shardsweep_headers_of(yaml-cpp YAML_CPP_STATIC_DEFINE)
target_link_libraries(SQLite::SQLite3 INTERFACE ${folder}/lib/libsqlite3.a m)
target_link_libraries(yaml-cpp INTERFACE ${folder}/lib/libyaml-cpp.a)
