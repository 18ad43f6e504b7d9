# SPDX-License-Identifier: Apache-2.0
# SHARDBENCH_HAS_CUDA: a CUDA compiler was found, and is wanted; shardbench_cuda_flags: what the .cu
# files are compiled with.
set(SHARDBENCH_HAS_CUDA OFF)
if(SHARDBENCH_CUDA STREQUAL "OFF")
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  # Often not on the PATH.
  find_program(SHARDBENCH_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(SHARDBENCH_NVCC)
    set(CMAKE_CUDA_COMPILER ${SHARDBENCH_NVCC})
  endif()
endif()
# Code for data-centre GPUs from Ampere on.
set(default_architectures OFF)
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(default_architectures ON)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(SHARDBENCH_CUDA STREQUAL "AUTO")
    message(STATUS "shardbench: no CUDA compiler, the CPU program alone")
    return()
  endif()
  message(FATAL_ERROR "shardbench: SHARDBENCH_CUDA=${SHARDBENCH_CUDA}, but there is no CUDA compiler")
endif()
enable_language(CUDA)
if(default_architectures AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
find_package(CUDAToolkit REQUIRED)
set(SHARDBENCH_HAS_CUDA ON)
# Nothing is linked with it: the program loads it when it starts.
find_file(SHARDBENCH_NCCL_LIBRARY libnccl.so.2 HINTS ENV NCCL_ROOT ${CUDAToolkit_LIBRARY_DIR}
  PATHS /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 PATH_SUFFIXES lib lib64)
if(SHARDBENCH_NCCL_LIBRARY)
  message(STATUS "shardbench: NCCL is loaded at run time, here from ${SHARDBENCH_NCCL_LIBRARY}")
else()
  message(STATUS "shardbench: no NCCL here; it is loaded at run time where there is one")
endif()
message(STATUS "shardbench: kernels by nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")

# CMake 3.25 does not know the flag.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)

# constexpr functions are used on both sides.
add_library(shardbench_cuda_flags INTERFACE)
target_compile_options(shardbench_cuda_flags INTERFACE
  --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion
  $<$<BOOL:${SHARDBENCH_WERROR}>:-Werror=all-warnings>)
